package org.apache.iceberg.exceptions;

/** A file that does not exist. The name is the one of Java's Iceberg. */
public class NotFoundException extends icefloe.InvalidStatement {
  public NotFoundException(String format, Object[] values) {
    super(String.format(format, values), null);
  }
}
