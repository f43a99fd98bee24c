package icefloe;

import org.apache.spark.sql.connector.read.InputPartition;

/** Packed scan tasks that a Python worker reads in one Spark task. Executors need this class. */
public final class PythonSplit implements InputPartition {
  private final byte[] tasks;

  PythonSplit(byte[] tasks) {
    this.tasks = tasks;
  }

  byte[] tasks() {
    return tasks;
  }
}
