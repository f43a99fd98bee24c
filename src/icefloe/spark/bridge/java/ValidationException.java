package org.apache.iceberg.exceptions;

/** What a commit or a read may not do, as Java's core names it. */
public class ValidationException extends icefloe.InvalidStatement {
  public ValidationException(String format, Object[] values) {
    super(String.format(format, values), null);
  }
}
