package icefloe;

import java.io.InterruptedIOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.v2.StreamWriterCommitProgress;
import org.apache.spark.sql.execution.datasources.v2.WriteToDataSourceV2Exec;
import scala.Option;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;

/**
 * Spark's node for the write of a micro-batch, whose rows Icefloe writes and commits. The plan of the rows is the child of the node, because Spark finds the state of the query and its numbers of rows in
 * the plan of the micro-batch. The node has the counts of the write in Spark's SQL tab, and the number of rows in the progress of the query.
 */
public final class StreamWriteExec extends WriteToDataSourceV2Exec {
  private transient Map metrics; // null before Spark shows the plan

  // The constructor of the class, with all parts.

  /** Returns the node in place of the one that Spark has planned. The number of parts differs between versions of Spark. */
  static SparkPlan of(WriteToDataSourceV2Exec planned) {
    Object[] parts = new Object[planned.productArity()];
    for (int i = 0; i < parts.length; i++) parts[i] = planned.productElement(i);
    return of(parts);
  }

  private static StreamWriteExec of(Object[] parts) {
    try {
      return (StreamWriteExec) StreamWriteExec.class.getConstructors()[0].newInstance(parts);
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException(error);
    }
  }

  public synchronized Map metrics() {
    if (metrics == null) metrics = WriteMetrics.created();
    return metrics;
  }

  public Seq run() {
    SparkSession session = (SparkSession) session();
    WriteMetrics.report(null);
    EpochRows rows = new EpochRows(session.internalCreateDataFrame(query().execute(), query().schema(), false));
    try {
      batchWrite().commit(new EpochRows[] {rows});
    } catch (RuntimeException error) {
      throw isOfStop(error) ? stopped(error) : error;
    }
    java.util.Map counts = WriteMetrics.counts();
    commitProgress_$eq(Option.apply(new StreamWriterCommitProgress(counts == null ? 0L : ((Number) counts.get("num_rows")).longValue())));
    WriteMetrics.show(session.sparkContext(), metrics(), counts);
    WriteMetrics.report(null);
    return PythonUtils.toSeq(new ArrayList());
  }

  /** Returns whether a write failed because the query was stopped, which interrupts its thread and cancels its jobs. */
  private static boolean isOfStop(RuntimeException error) {
    return Thread.currentThread().isInterrupted() || (error.getMessage() != null && error.getMessage().contains("SPARK_JOB_CANCELLED"));
  }

  /** Returns an error by which Spark recognizes that a query was stopped, which is no failure. */
  private static RuntimeException stopped(RuntimeException error) {
    InterruptedIOException interrupted = new InterruptedIOException(error.getMessage());
    interrupted.initCause(error);
    return new UncheckedIOException(error.getMessage(), interrupted);
  }

  public WriteToDataSourceV2Exec withNewChildInternal(SparkPlan child) {
    Object[] parts = new Object[productArity()];
    for (int i = 0; i < parts.length; i++) parts[i] = productElement(i) == query() ? child : productElement(i);
    return of(parts);
  }
}
