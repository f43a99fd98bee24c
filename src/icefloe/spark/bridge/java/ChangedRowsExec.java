package icefloe;

import java.util.ArrayList;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.catalyst.plans.physical.UnknownPartitioning;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.v2.MicroBatchScanExec;
import scala.collection.immutable.Seq;

/** Spark's node for the scan of a micro-batch, whose rows are `ChangedRows`. Spark counts the rows of the batch in it. */
public final class ChangedRowsExec extends MicroBatchScanExec {
  private transient RDD rows; // null before they are needed

  // The constructor of the class, with all parts.

  /** Returns the node in place of the one that Spark has planned. */
  static SparkPlan of(MicroBatchScanExec planned) {
    Object[] parts = new Object[planned.productArity()];
    for (int i = 0; i < parts.length; i++) parts[i] = planned.productElement(i);
    try {
      return (SparkPlan) ChangedRowsExec.class.getConstructors()[0].newInstance(parts);
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException(error);
    }
  }

  public synchronized RDD inputRDD() {
    if (rows == null) rows = ((ChangedRows) scan()).computed();
    return rows;
  }

  public boolean supportsColumnar() {
    return false;
  }

  public Partitioning outputPartitioning() {
    return new UnknownPartitioning(0);
  }

  /** Returns whether the other object is such a node of the same rows. Spark compares nodes before it replaces one by another. */
  public boolean equals(Object other) {
    return other instanceof ChangedRowsExec && super.equals(other);
  }

  public int hashCode() {
    return super.hashCode();
  }

  /** Returns the plan of the rows, which EXPLAIN shows below the node. */
  public Seq innerChildren() {
    ArrayList plans = new ArrayList();
    if (scan() != null) plans.add(((ChangedRows) scan()).plan());
    return PythonUtils.toSeq(plans);
  }
}
