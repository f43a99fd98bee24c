package org.apache.iceberg.exceptions;

/** A commit that lost every race, as Java's core names it. */
public class CommitFailedException extends icefloe.InvalidStatement {
  public CommitFailedException(String format, Object[] values) {
    super(String.format(format, values), null);
  }
}
