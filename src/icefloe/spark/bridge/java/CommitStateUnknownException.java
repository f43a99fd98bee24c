package org.apache.iceberg.exceptions;

/** A commit whose outcome is not known. The name is the one of Java's Iceberg. */
public class CommitStateUnknownException extends icefloe.InvalidStatement {
  public CommitStateUnknownException(String message, Throwable cause) {
    super(message, cause);
  }
}
