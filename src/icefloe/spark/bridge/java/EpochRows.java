package icefloe;

import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/** The rows of one micro-batch of a stream, with which Spark commits the epoch: no task has written them yet. */
final class EpochRows implements WriterCommitMessage {
  final Dataset rows;

  EpochRows(Dataset rows) {
    this.rows = rows;
  }
}
