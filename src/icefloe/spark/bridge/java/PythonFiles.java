package icefloe;

import java.util.ArrayList;
import java.util.Collections;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import org.apache.spark.JobArtifactSet$;
import org.apache.spark.JobArtifactState;
import org.apache.spark.SparkContext;
import org.apache.spark.api.python.ChainedPythonFunctions;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.SupportsRuntimeV2Filtering;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation$;
import org.apache.spark.sql.execution.metric.SQLMetrics$;
import org.apache.spark.sql.execution.python.ArrowPythonRunner$;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.Map;

/**
 * Files that a Python function reads, as a table of Spark's connector whose scan returns batches. `mapInArrow` would return the same rows, for every type; but Spark would convert each row to
 * its own format, and run another Python worker before, which only passes on the packed tasks of each Spark task.
 */
public final class PythonFiles implements SupportsRead, ScanBuilder, SupportsReportStatistics, SupportsRuntimeV2Filtering, Batch {
  // The metrics that the runners of all supported versions of Spark count: a runner fails if a metric that it counts is missing.
  private static final String[] METRICS = {"pythonDataSent", "pythonDataReceived", "pythonBootTime", "pythonInitTime", "pythonTotalTime", "pythonProcessingTime", "pythonNumRowsReceived"};

  private final String name;
  private final StructType columns;
  private final List splits; // for each split a byte[] with packed tasks
  private final long bytes; // the estimated size of the rows, for Spark's optimizer
  private final PartitionReaderFactory readers;
  private final ScanMetrics metrics;

  private PythonFiles(String name, StructType columns, List splits, long bytes, PartitionReaderFactory readers, ScanMetrics metrics) {
    this.name = name;
    this.columns = columns;
    this.splits = splits;
    this.bytes = bytes;
    this.readers = readers;
    this.metrics = metrics;
  }

  /**
   * Returns the rows that a Python function reads; null if Spark cannot use its batches without a conversion.
   *
   * @param name the table, for EXPLAIN
   * @param reason why Python reads the files
   * @param function takes batches of packed tasks, and returns batches of rows
   * @param kind PySpark's number for the kind of the function
   * @param columns the columns of the rows, as the JSON of a struct type
   * @param splits the packed tasks of each Spark task
   * @param bytes the estimated size of the rows in bytes
   * @param metrics what Spark's SQL tab shows for the scan, in JSON
   */
  static Dataset rows(SparkSession session, String name, String reason, PythonFunction function, Number kind, String columns, List splits, Number bytes, String metrics) {
    StructType struct = (StructType) DataType.fromJson(columns);
    SQLConf conf = ((org.apache.spark.sql.classic.SparkSession) session).sessionState().conf();
    if (!CopiedColumn.areCopied(struct) || conf.arrowUseLargeVarTypes() || !PythonReaders.haveRunner()) return null;
    SparkContext context = session.sparkContext();
    HashMap ofRunner = new HashMap();
    for (int i = 0; i < METRICS.length; i++) ofRunner.put(METRICS[i], SQLMetrics$.MODULE$.createMetric(context, METRICS[i]));
    Tuple2 chained = new Tuple2(new ChainedPythonFunctions(PythonUtils.toSeq(Collections.singletonList(function))), Long.valueOf(0L));
    Option state = JobArtifactSet$.MODULE$.getCurrentJobArtifactState();
    Option artifacts = state.isDefined() ? Option.apply(((JobArtifactState) state.get()).uuid()) : Option.empty();
    PythonReaders readers =
        new PythonReaders(PythonUtils.toSeq(Collections.singletonList(chained)), kind.intValue(), conf.sessionLocalTimeZone(), ArrowPythonRunner$.MODULE$.getPythonRunnerConfMap(conf), PythonUtils.toScalaMap(ofRunner), artifacts, struct);
    PythonFiles files = new PythonFiles(Accelerator.unread(name, "Python does, since " + reason, conf), struct, new ArrayList(splits), bytes.longValue(), readers, ScanMetrics.of(metrics));
    return org.apache.spark.sql.classic.Dataset$.MODULE$.ofRows((org.apache.spark.sql.classic.SparkSession) session, DataSourceV2Relation$.MODULE$.create(files, Option.empty(), Option.empty()));
  }

  public String name() {
    return FileScanStrategy.withoutMarkup(name);
  }

  public StructType schema() {
    return columns;
  }

  public Set capabilities() {
    return EnumSet.of(TableCapability.BATCH_READ);
  }

  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return this;
  }

  public Scan build() {
    return this;
  }

  public StructType readSchema() {
    return columns;
  }

  public String description() {
    return "Arrow batches read through Python";
  }

  /** Returns no columns: files are not pruned at run time. */
  public NamedReference[] filterAttributes() {
    return new NamedReference[0];
  }

  /** Ignores filters at run time, which a join tests again. Spark 4.1 and earlier pass those to the scan that have been pushed down to it from a scan of the whole table. */
  public void filter(Predicate[] predicates) {}

  public Scan.ColumnarSupportMode columnarSupportMode() {
    return Scan.ColumnarSupportMode.SUPPORTED;
  }

  public Batch toBatch() {
    return this;
  }

  public InputPartition[] planInputPartitions() {
    InputPartition[] partitions = new InputPartition[splits.size()];
    for (int i = 0; i < partitions.length; i++) partitions[i] = new PythonSplit((byte[]) splits.get(i));
    return partitions;
  }

  public PartitionReaderFactory createReaderFactory() {
    return readers;
  }

  public CustomMetric[] supportedCustomMetrics() {
    return metrics.supported();
  }

  public CustomTaskMetric[] reportDriverMetrics() {
    return metrics.reported();
  }

  public Statistics estimateStatistics() {
    return new Statistics() {
      public OptionalLong sizeInBytes() {
        return OptionalLong.of(bytes);
      }

      public OptionalLong numRows() {
        return OptionalLong.empty();
      }
    };
  }
}
