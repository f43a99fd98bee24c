package org.apache.iceberg.exceptions;

/** A commit or a read that a rule of the table forbids. The name is the one of Java's Iceberg. */
public class ValidationException extends icefloe.InvalidStatement {
  public ValidationException(String format, Object[] values) {
    super(String.format(format, values), null);
  }
}
