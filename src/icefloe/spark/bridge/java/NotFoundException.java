package org.apache.iceberg.exceptions;

/** The error for a file that does not exist. It has the name of the exception in Java's Iceberg. */
public class NotFoundException extends icefloe.InvalidStatement {
  public NotFoundException(String format, Object[] values) {
    super(String.format(format, values), null);
  }
}
