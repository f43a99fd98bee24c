package org.apache.iceberg.exceptions;

/** A file that is not there, as Java's core names it. */
public class NotFoundException extends icefloe.InvalidStatement {
  public NotFoundException(String format, Object[] values) {
    super(String.format(format, values), null);
  }
}
