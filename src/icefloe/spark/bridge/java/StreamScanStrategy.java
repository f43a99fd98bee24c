package icefloe;

import java.util.ArrayList;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Strategy;
import org.apache.spark.sql.execution.datasources.v2.MicroBatchScanExec;
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;

/** Plans batches of streams whose rows are `ChangedRows`. Other plans are left to the strategies of Spark. */
final class StreamScanStrategy extends SparkStrategy {
  public Seq apply(LogicalPlan plan) {
    LogicalPlan scanned = plan;
    while (scanned instanceof Project || scanned instanceof Filter) scanned = (LogicalPlan) scanned.children().head();
    ArrayList plans = new ArrayList();
    if (!(scanned instanceof StreamingDataSourceV2ScanRelation) || !(((StreamingDataSourceV2ScanRelation) scanned).scan() instanceof ChangedRows)) return PythonUtils.toSeq(plans);
    Seq planned = new DataSourceV2Strategy((SparkSession) SparkSession.active()).apply(plan); // of a scan with or without what is above it, by the version of Spark
    for (int i = 0; i < planned.size(); i++) plans.add(new Computed().apply(planned.apply(i)));
    return PythonUtils.toSeq(plans);
  }

  private static final class Computed extends AbstractFunction1 {
    public Object apply(Object plan) {
      return plan instanceof MicroBatchScanExec ? ChangedRowsExec.of((MicroBatchScanExec) plan) : ((SparkPlan) plan).mapChildren(this);
    }
  }
}
