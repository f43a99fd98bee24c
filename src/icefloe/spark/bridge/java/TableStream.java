package icefloe;

import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.function.BiFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.CompositeReadLimit;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadAllAvailable;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadMaxBytes;
import org.apache.spark.sql.connector.read.streaming.ReadMaxFiles;
import org.apache.spark.sql.connector.read.streaming.ReadMaxRows;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation;
import scala.collection.immutable.Seq;

/**
 * The stream of a table's rows. Python chooses the offsets and plans the files of a batch. `SparkRule` replaces the stream's relation in the plan of each batch by a relation over the files, with
 * a `MicroBatch` as its stream: then each reference reads only the columns that the query needs, and rows are filtered as in a query that is no stream.
 */
public final class TableStream implements MicroBatchStream, SupportsTriggerAvailableNow, ReportsSourceMetrics {
  private final BiFunction python;

  TableStream(BiFunction python) {
    this.python = python;
  }

  /** An offset: the JSON that Python has created or checked. */
  private static final class TableOffset extends Offset {
    private final String json;

    TableOffset(String json) {
      this.json = json;
    }

    public String json() {
      return json;
    }
  }

  private Object call(String method, Object[] arguments) {
    return PythonBridge.callForJson(python, method, arguments.length == 0 ? "null" : ConnectorJson.json(arguments));
  }

  private static Offset offset(Object json) {
    return json == null ? null : new TableOffset((String) json);
  }

  public Offset initialOffset() {
    return offset(call("initial_offset", new Object[0]));
  }

  public Offset deserializeOffset(String json) {
    return offset(call("checked_offset", new Object[] {json}));
  }

  public Offset latestOffset() {
    throw new UnsupportedOperationException("latestOffset(Offset, ReadLimit) is called instead of this method");
  }

  public Offset latestOffset(Offset start, ReadLimit limit) {
    LinkedHashMap limits = new LinkedHashMap();
    addLimit(limit, limits);
    return offset(call("next_offset", new Object[] {start.json(), limits}));
  }

  public Offset reportLatestOffset() {
    return offset(call("latest_offset", new Object[0]));
  }

  public void prepareForTriggerAvailableNow() {
    call("prepare_for_available_now", new Object[0]);
  }

  public ReadLimit getDefaultReadLimit() {
    Iterator limits = ((Map) call("limits", new Object[0])).entrySet().iterator();
    java.util.ArrayList list = new java.util.ArrayList();
    while (limits.hasNext()) {
      Map.Entry limit = (Map.Entry) limits.next();
      if (limit.getValue() == null) continue;
      long value = ((Number) limit.getValue()).longValue();
      if (limit.getKey().equals("files")) list.add(ReadLimit.maxFiles((int) Math.min(value, Integer.MAX_VALUE)));
      if (limit.getKey().equals("rows")) list.add(ReadLimit.maxRows(value));
      if (limit.getKey().equals("bytes")) list.add(ReadLimit.maxBytes(value));
    }
    if (list.isEmpty()) return ReadLimit.allAvailable();
    return list.size() == 1 ? (ReadLimit) list.get(0) : ReadLimit.compositeLimit((ReadLimit[]) list.toArray(new ReadLimit[0]));
  }

  private static void addLimit(ReadLimit limit, Map limits) {
    if (limit instanceof ReadMaxFiles) limits.put("files", Integer.valueOf(((ReadMaxFiles) limit).maxFiles()));
    if (limit instanceof ReadMaxRows) limits.put("rows", Long.valueOf(((ReadMaxRows) limit).maxRows()));
    if (limit instanceof ReadMaxBytes) limits.put("bytes", Long.valueOf(((ReadMaxBytes) limit).maxBytes()));
    if (!(limit instanceof CompositeReadLimit)) return;
    ReadLimit[] members = ((CompositeReadLimit) limit).getReadLimits();
    for (int i = 0; i < members.length; i++) addLimit(members[i], limits);
  }

  public Map metrics(Optional latest) {
    return (Map) call("metrics", new Object[] {latest.isPresent() ? ((Offset) latest.get()).json() : null});
  }

  public void commit(Offset end) {}

  public void stop() {}

  /** Returns the plan of the rows of a batch, with the attributes `columns` of the relation. */
  LogicalPlan rows(StreamingDataSourceV2ScanRelation relation, Seq columns) {
    Object[] message = new Object[] {offsetOf(relation.startOffset()), offsetOf(relation.endOffset()), names(columns)};
    Object reply = PythonBridge.call(python, "rows", ConnectorJson.json(message));
    if (reply instanceof ChangedRows) return ((ChangedRows) reply).planFor(relation, this, columns);
    if (reply instanceof PartitionedFiles) return ((PartitionedFiles) reply).planFor(relation, this);
    return MicroBatch.ofPython((Dataset) reply, relation, this, columns);
  }

  private static String offsetOf(scala.Option offset) {
    return ((Offset) offset.get()).json();
  }

  private static String[] names(Seq columns) {
    String[] names = new String[columns.size()];
    for (int i = 0; i < names.length; i++) names[i] = ((org.apache.spark.sql.catalyst.expressions.Attribute) columns.apply(i)).name();
    return names;
  }

  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    throw new IllegalStateException("this session plans a stream of Icefloe without the rule that reads its files\n  Next: attach the catalog in the session that runs the stream");
  }

  public PartitionReaderFactory createReaderFactory() {
    throw new IllegalStateException("this session plans a stream of Icefloe without the rule that reads its files\n  Next: attach the catalog in the session that runs the stream");
  }

  /** Returns whether the other object is this stream, or a batch of it: Spark counts the rows of a stream by the streams of the scans in a plan. */
  public boolean equals(Object other) {
    return this == other || (other instanceof MicroBatch && ((MicroBatch) other).stream() == this);
  }

  public int hashCode() {
    return System.identityHashCode(this);
  }

  public String toString() {
    return (String) call("description", new Object[0]);
  }
}
