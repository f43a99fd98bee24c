package org.apache.iceberg.exceptions;

/** A commit that conflicted with other commits at every attempt. The name is the one of Java's Iceberg. */
public class CommitFailedException extends icefloe.InvalidStatement {
  public CommitFailedException(String format, Object[] values) {
    super(String.format(format, values), null);
  }
}
