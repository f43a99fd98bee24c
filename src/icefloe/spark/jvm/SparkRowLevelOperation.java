package icefloe;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import org.apache.spark.sql.catalyst.ProjectingInternalRow;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.util.WriteDeltaProjections;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.DeltaBatchWrite;
import org.apache.spark.sql.connector.write.DeltaWrite;
import org.apache.spark.sql.connector.write.DeltaWriteBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperation;
import org.apache.spark.sql.connector.write.RowLevelOperationBuilder;
import org.apache.spark.sql.connector.write.RowLevelOperationInfo;
import org.apache.spark.sql.connector.write.SupportsDelta;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.collection.immutable.Seq;

/** An UPDATE, MERGE or DELETE that Spark turned into rows: what becomes of each, its new values, and where it was. Python writes and commits them. */
final class SparkRowLevelOperation implements SupportsDelta, DeltaWriteBuilder, DeltaWrite {
  private final SparkTable table;
  private final RowLevelOperationInfo info;

  SparkRowLevelOperation(SparkTable table, RowLevelOperationInfo info) {
    this.table = table;
    this.info = info;
  }

  static RowLevelOperationBuilder builder(final SparkTable table, final RowLevelOperationInfo info) {
    return new RowLevelOperationBuilder() {
      public RowLevelOperation build() {
        Python.ask(table.python, "check_row_level", Python.json(info.command().toString()));
        return new SparkRowLevelOperation(table, info);
      }
    };
  }

  public DeltaWrite build() {
    return this;
  }

  public RowLevelOperation.Command command() {
    return info.command();
  }

  public String description() {
    return info.command() + " of " + table.name();
  }

  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return new SparkScanBuilder(table, options, info.command().toString());
  }

  public NamedReference[] rowId() {
    return references("row_id_columns");
  }

  public NamedReference[] requiredMetadataAttributes() {
    return references("row_level_columns");
  }

  public boolean representUpdateAsDeleteAndInsert() {
    return false;
  }

  private NamedReference[] references(String question) {
    String[] names = Python.strings(Python.askJson(table.python, question, "null"));
    NamedReference[] columns = new NamedReference[names.length];
    for (int i = 0; i < names.length; i++) columns[i] = Expressions.column(names[i]);
    return columns;
  }

  public DeltaWriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return this;
  }

  public DeltaBatchWrite toBatch() {
    throw new UnsupportedOperationException("rows of " + description() + " are written by Icefloe: attach the catalog to this session with icefloe.spark.attach");
  }

  /** Runs the statement. The first column of the query's rows says what becomes of each; the places of the others come with it. */
  void run(Object session, LogicalPlan query, WriteDeltaProjections projections) {
    LinkedHashMap places = new LinkedHashMap();
    places.put("command", info.command().toString());
    places.put("options", info.options().asCaseSensitiveMap());
    places.put("row", projections.rowProjection().isDefined() ? places((ProjectingInternalRow) projections.rowProjection().get()) : null);
    places.put("row_id", places(projections.rowIdProjection()));
    places.put("metadata", projections.metadataProjection().isDefined() ? places((ProjectingInternalRow) projections.metadataProjection().get()) : null);
    Python.ask(table.python, "row_level", Arrays.asList(new Object[] {Python.json(places), session, query}));
  }

  private static ArrayList places(ProjectingInternalRow projection) {
    ArrayList found = new ArrayList();
    Seq places = (Seq) (Object) projection.colOrdinals();
    for (int i = 0; i < places.size(); i++) {
      ArrayList one = new ArrayList(2);
      one.add(projection.schema().apply(i).name());
      one.add(places.apply(i));
      found.add(one);
    }
    return found;
  }
}
