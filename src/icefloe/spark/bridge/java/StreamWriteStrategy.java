package icefloe;

import java.util.ArrayList;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Strategy;
import org.apache.spark.sql.execution.datasources.v2.WriteToDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.WriteToDataSourceV2Exec;
import org.apache.spark.sql.execution.streaming.sources.MicroBatchWrite;
import scala.collection.immutable.Seq;

/** Plans the writes of micro-batches to tables of Icefloe. Other plans are left to the strategies of Spark. */
final class StreamWriteStrategy extends SparkStrategy {
  public Seq apply(LogicalPlan plan) {
    if (!isOfIcefloe(plan)) return PythonUtils.toSeq(new ArrayList());
    ArrayList plans = new ArrayList();
    plans.add(StreamWriteExec.of((WriteToDataSourceV2Exec) new DataSourceV2Strategy((SparkSession) SparkSession.active()).apply(plan).head()));
    return PythonUtils.toSeq(plans);
  }

  private static boolean isOfIcefloe(LogicalPlan plan) {
    if (!(plan instanceof WriteToDataSourceV2) || !(((WriteToDataSourceV2) plan).batchWrite() instanceof MicroBatchWrite)) return false;
    return PythonProxy.behind(((MicroBatchWrite) ((WriteToDataSourceV2) plan).batchWrite()).writeSupport()) != null;
  }
}
