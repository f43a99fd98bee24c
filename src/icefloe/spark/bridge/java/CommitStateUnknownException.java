package org.apache.iceberg.exceptions;

/** The error of a commit whose outcome is not known. It has the name of the exception in Java's Iceberg. */
public class CommitStateUnknownException extends icefloe.InvalidStatement {
  public CommitStateUnknownException(String message, Throwable cause) {
    super(message, cause);
  }
}
