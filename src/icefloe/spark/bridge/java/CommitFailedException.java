package org.apache.iceberg.exceptions;

/** The error of a commit that conflicted with other commits at every attempt. It has the name of the exception in Java's Iceberg. */
public class CommitFailedException extends icefloe.InvalidStatement {
  public CommitFailedException(String format, Object[] values) {
    super(String.format(format, values), null);
  }
}
