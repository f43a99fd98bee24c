package org.apache.iceberg.exceptions;

/** The error of a commit or read that a rule of the table forbids. It has the name of the exception in Java's Iceberg. */
public class ValidationException extends icefloe.InvalidStatement {
  public ValidationException(String format, Object[] values) {
    super(String.format(format, values), null);
  }
}
