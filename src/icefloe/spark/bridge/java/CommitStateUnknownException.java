package org.apache.iceberg.exceptions;

/** A commit whose outcome is not known, as Java's core names it. */
public class CommitStateUnknownException extends icefloe.InvalidStatement {
  public CommitStateUnknownException(String message, Throwable cause) {
    super(message, cause);
  }
}
