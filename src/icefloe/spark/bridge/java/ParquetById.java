package icefloe;

import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;

/**
 * Spark's Parquet format that finds nested fields by ids, although the plan's types may not have these ids. Executors need not have this class, because the function that reads files is Spark's.
 * Accelerators take over scans of Spark's own class only.
 */
public final class ParquetById extends ParquetFileFormat {
  private final StructType columns; // all columns that a plan may read, with the ids of fields inside

  public ParquetById(StructType columns) {
    this.columns = columns;
  }

  /** Returns the columns that a plan may read, with the ids of fields inside. */
  StructType columns() {
    return columns;
  }

  public Function1 buildReaderWithPartitionValues(
      SparkSession session, StructType data, StructType partition, StructType required, Seq filters, Map options, Configuration hadoop) {
    StructType read = NestedFieldIds.with(required, columns);
    return new ParquetFileFormat().buildReaderWithPartitionValues(session, data, partition, read, filters, options, hadoop);
  }

  /** Returns whether the same field ids are read, so that Spark does not take a plan of other fields for an equal one. */
  public boolean equals(Object other) {
    return other instanceof ParquetById && columns.equals(((ParquetById) other).columns);
  }

  public int hashCode() {
    return columns.hashCode();
  }
}
