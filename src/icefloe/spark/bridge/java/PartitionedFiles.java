package icefloe;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.OptionalLong;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.paths.SparkPath;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.SupportsRuntimeV2Filtering;
import org.apache.spark.sql.execution.datasources.DataSourceStrategy$;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.immutable.Map;
import scala.collection.immutable.Map$;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;

/**
 * A scan of Spark's connector whose splits have partition keys, or whose files are filtered at run time by the values of a join. Spark's own file scan has no keys. Therefore this class
 * reads the files itself, with the same functions of Spark's file formats. Each group of files is a separate relation, as for the file scan, and may have its own deleted rows and constants.
 *
 * In the plan of the rows, the relation of the first group is a placeholder, which `SparkRule` replaces by this scan.
 */
public final class PartitionedFiles implements SupportsReportStatistics, SupportsRuntimeV2Filtering {
  // The most values of a join by which files are filtered. With more values all files are read: the values are one message to Python, and so many values seldom exclude a file.
  private static final int MOST_VALUES = 10000;

  private final LogicalRelation[] groups;
  private final String[] keys; // names of the columns, in every group, with the values of the partition fields
  private final String[] columns; // names of the columns, in every group, that the scan returns
  private LogicalPlan rows; // the plan that computes the rows from the first relation
  private PythonProxy python; // the scan that Python implements; null until this scan is in a plan
  private ArrayList conditions = new ArrayList(); // Condition objects: the filters on the rows, which are compared with the statistics of row groups
  // The numbers of the files for the next batch of a thread; not set for all files. Spark sets the filter and requests the batch in one thread, and another plan may do so at the same time.
  private final ThreadLocal selected = new ThreadLocal();
  private volatile ScanMetrics lastRead; // of the last batch: what it reads

  public PartitionedFiles(List groups, List keys, List columns) {
    this.groups = new LogicalRelation[groups.size()];
    // A filter on deleted rows is for other readers than Icefloe's, and no other reads this scan.
    for (int i = 0; i < this.groups.length; i++) this.groups[i] = (LogicalRelation) ((LogicalPlan) groups.get(i)).collectLeaves().head();
    this.keys = PythonBridge.strings(keys);
    this.columns = PythonBridge.strings(columns);
  }

  private PartitionedFiles(PartitionedFiles files, PythonProxy python, ArrayList conditions) {
    this.groups = files.groups;
    this.keys = files.keys;
    this.columns = files.columns;
    this.python = python;
    this.conditions = conditions;
  }

  /** Returns the relation that is the placeholder of this scan. */
  public LogicalPlan relation() {
    return groups[0];
  }

  /** Sets the plan that computes the rows from the placeholder. */
  public void read(LogicalPlan plan) {
    rows = plan;
  }

  /** Returns the plan of the rows with this scan, which gets the partitioning of the scan relation that it replaces; null if a column of a partition field is computed and not read from files. */
  LogicalPlan planFor(DataSourceV2ScanRelation scan, PythonProxy behind) {
    HashMap sources = new HashMap(); // attributes of the first relation, by the ids of the attributes of the scan relation
    for (int i = 0; i < scan.output().size(); i++) {
      Object source = sourceOf((Attribute) rows.output().apply(i));
      if (source != null) sources.put(((Attribute) scan.output().apply(i)).exprId(), source);
    }
    ArrayList keyExpressions = new ArrayList();
    Iterator expressions = scan.keyGroupedPartitioning().isDefined() ? ((Seq) scan.keyGroupedPartitioning().get()).iterator() : null;
    while (expressions != null && expressions.hasNext()) {
      Expression key = (Expression) expressions.next();
      Iterator references = key.references().iterator();
      while (references.hasNext()) if (!sources.containsKey(((Attribute) references.next()).exprId())) return null;
      keyExpressions.add(new Replaced(sources).apply(key));
    }
    ArrayList output = output();
    Object[] parts = new Object[scan.productArity()];
    for (int i = 0; i < parts.length; i++) {
      parts[i] = scan.productElement(i);
      if (parts[i] == scan.scan()) parts[i] = new PartitionedFiles(this, behind, conditions);
      else if (parts[i] == scan.output()) parts[i] = PythonUtils.toSeq(output);
      else if (parts[i] == scan.relation()) parts[i] = shown(scan.relation(), keys.length > 0);
      else if (expressions != null && parts[i] == scan.keyGroupedPartitioning()) parts[i] = Option.apply(PythonUtils.toSeq(keyExpressions));
    }
    return (LogicalPlan) new Leaf(groups[0], (LogicalPlan) scan.makeCopy(parts)).apply(rows);
  }

  /** Returns the plan of the rows of a batch with this scan, which replaces the scan of a stream's relation. */
  LogicalPlan planFor(StreamingDataSourceV2ScanRelation relation, TableStream stream) {
    return (LogicalPlan) new Leaf(groups[0], MicroBatch.relation(relation, this, new MicroBatch(stream, toBatch()), PythonUtils.toSeq(output()))).apply(rows);
  }

  /** Returns the attributes of the first relation that the scan returns. */
  private ArrayList output() {
    ArrayList output = new ArrayList();
    for (int i = 0; i < columns.length; i++) output.add(groups[0].output().apply(placeIn(groups[0], columns[i])));
    return output;
  }

  /** Returns a relation whose table has a name without markup, which becomes the name of the node in Spark's UI. `hasKeys` is whether the scan is one by partitions. */
  private static DataSourceV2Relation shown(DataSourceV2Relation relation, boolean hasKeys) {
    String name = Accelerator.unread(relation.table().name(), hasKeys ? "it is read by partitions" : "a join filters its files", SQLConf.get());
    Object[] parts = new Object[relation.productArity()];
    for (int i = 0; i < parts.length; i++) parts[i] = relation.productElement(i) == relation.table() ? new ShownTable(relation.table(), name) : relation.productElement(i);
    return (DataSourceV2Relation) relation.makeCopy(parts);
  }

  private static final class ShownTable implements Table {
    private final Table table;
    private final String name;

    ShownTable(Table table, String name) {
      this.table = table;
      this.name = name;
    }

    public String name() {
      return FileScanStrategy.withoutMarkup(name);
    }

    public StructType schema() {
      return table.schema();
    }

    public Set capabilities() {
      return table.capabilities();
    }
  }

  private static int placeIn(LogicalRelation group, String column) {
    for (int i = 0; i < group.output().size(); i++) if (((Attribute) group.output().apply(i)).name().equals(column)) return i;
    throw new IllegalStateException("the files have no column " + column);
  }

  /** Returns the attribute of the first relation that has the values of an attribute of the rows, perhaps under another name; null if the attribute is computed. */
  private Attribute sourceOf(Attribute column) {
    Object source = column;
    if (rows instanceof Project) {
      Iterator columns = ((Project) rows).projectList().iterator();
      while (columns.hasNext()) {
        Object named = columns.next();
        if (named instanceof Alias && ((Alias) named).exprId().equals(column.exprId())) source = ((Alias) named).child();
      }
    }
    return source instanceof Attribute && groups[0].outputSet().contains((Attribute) source) ? (Attribute) source : null;
  }

  /** Replaces the attributes of an expression by the attributes that a map has for their ids. */
  private static final class Replaced extends AbstractFunction1 {
    private final HashMap attributes;

    Replaced(HashMap attributes) {
      this.attributes = attributes;
    }

    public Object apply(Object node) {
      return node instanceof Attribute ? attributes.get(((Attribute) node).exprId()) : ((Expression) node).mapChildren(this);
    }
  }

  /** Replaces one leaf of a plan by another plan. */
  private static final class Leaf extends AbstractFunction1 {
    private final LogicalPlan leaf;
    private final LogicalPlan other;

    Leaf(LogicalPlan leaf, LogicalPlan other) {
      this.leaf = leaf;
      this.other = other;
    }

    public Object apply(Object plan) {
      boolean isLeaf = plan instanceof LogicalRelation && ((LogicalRelation) plan).relation() == ((LogicalRelation) leaf).relation();
      return isLeaf ? other : ((LogicalPlan) plan).mapChildren(this);
    }
  }

  /** Returns a plan in which the scans of this class know the conditions of the filters above them. Spark's planner does the same for its own file scans. */
  static LogicalPlan withConditions(LogicalPlan plan) {
    return (LogicalPlan) new Conditions().apply(plan);
  }

  private static final class Conditions extends AbstractFunction1 {
    public Object apply(Object plan) {
      LogicalPlan node = (LogicalPlan) ((LogicalPlan) plan).mapChildren(this);
      if (!(node instanceof Filter)) return node;
      if (((Filter) node).child() instanceof StreamingDataSourceV2ScanRelation) return ofStream((Filter) node, (StreamingDataSourceV2ScanRelation) ((Filter) node).child());
      if (!(((Filter) node).child() instanceof DataSourceV2ScanRelation)) return node;
      DataSourceV2ScanRelation relation = (DataSourceV2ScanRelation) ((Filter) node).child();
      if (!(relation.scan() instanceof PartitionedFiles)) return node;
      PartitionedFiles files = (PartitionedFiles) relation.scan();
      ArrayList conditions = new ArrayList();
      addConditions(((Filter) node).condition(), conditions);
      Object[] parts = new Object[relation.productArity()];
      for (int i = 0; i < parts.length; i++) {
        parts[i] = relation.productElement(i) == files ? new PartitionedFiles(files, files.python, conditions) : relation.productElement(i);
      }
      return new Filter(((Filter) node).condition(), (LogicalPlan) relation.makeCopy(parts));
    }
  }

  private static LogicalPlan ofStream(Filter filter, StreamingDataSourceV2ScanRelation relation) {
    if (relation.scan() instanceof ChangedRows) {
      ChangedRows rows = ((ChangedRows) relation.scan()).where(filter.condition(), (Seq) relation.output());
      return new Filter(filter.condition(), rows.planFor(relation, ((MicroBatch) relation.stream()).stream(), (Seq) relation.output()));
    }
    if (!(relation.scan() instanceof PartitionedFiles) || !(relation.stream() instanceof MicroBatch)) return filter;
    ArrayList conditions = new ArrayList();
    addConditions(filter.condition(), conditions);
    PartitionedFiles files = new PartitionedFiles((PartitionedFiles) relation.scan(), null, conditions);
    MicroBatch batch = new MicroBatch(((MicroBatch) relation.stream()).stream(), files.toBatch());
    return new Filter(filter.condition(), MicroBatch.relation(relation, files, batch, (Seq) relation.output()));
  }

  private static void addConditions(Expression expression, ArrayList conditions) {
    if (expression instanceof And) {
      addConditions(((And) expression).left(), conditions);
      addConditions(((And) expression).right(), conditions);
    } else if (expression.deterministic() && !SubqueryExpression$.MODULE$.hasSubquery(expression)) {
      Option filter = DataSourceStrategy$.MODULE$.translateFilter(expression, true);
      if (filter.isDefined()) conditions.add(new Condition((org.apache.spark.sql.sources.Filter) filter.get(), expression));
    }
  }

  /** A filter of the class that Spark's file formats use, and the names of its columns. */
  private static final class Condition {
    final org.apache.spark.sql.sources.Filter filter;
    final HashSet names = new HashSet();

    Condition(org.apache.spark.sql.sources.Filter filter, Expression expression) {
      this.filter = filter;
      Iterator references = expression.references().iterator();
      while (references.hasNext()) names.add(((Attribute) references.next()).name());
    }

    public boolean equals(Object other) {
      return other instanceof Condition && filter.equals(((Condition) other).filter);
    }

    public int hashCode() {
      return filter.hashCode();
    }
  }

  private static HadoopFsRelation relationOf(LogicalRelation group) {
    return (HadoopFsRelation) group.relation();
  }

  /** Returns the splits of these files. A split has files, or parts of files, of one group and with equal keys, up to the session's maximum size of a split. Without keys, as in Spark's own scan, splits are small enough for all processors. */
  InputPartition[] splits(BitSet numbers) {
    Seq nothing = PythonUtils.toSeq(new ArrayList());
    ArrayList splits = new ArrayList();
    int number = 0;
    long files = 0L, bytes = 0L;
    for (int group = 0; group < groups.length; group++) {
      HadoopFsRelation relation = relationOf(groups[group]);
      ArrayList read = new ArrayList(); // PartitionDirectory objects
      Iterator directories = relation.location().listFiles(nothing, nothing).iterator();
      while (directories.hasNext()) {
        Object directory = directories.next();
        if (numbers == null || numbers.get(number)) read.add(directory);
        number++;
      }
      SQLConf conf = ((org.apache.spark.sql.classic.SparkSession) relation.sparkSession()).sessionState().conf();
      long mostBytes = keys.length == 0 ? FilePartition.maxSplitBytes(relation.sparkSession(), PythonUtils.toSeq(read)) : conf.filesMaxPartitionBytes();
      LinkedHashMap packed = new LinkedHashMap(); // Packing objects by key, of the files of this group
      for (int i = 0; i < read.size(); i++) {
        PartitionDirectory directory = (PartitionDirectory) read.get(i);
        InternalRow key = keyOf(directory.values(), relation.partitionSchema());
        Packing packing = (Packing) packed.get(key);
        if (packing == null) packed.put(key, packing = new Packing(group, key, mostBytes, conf.filesOpenCostInBytes()));
        packing.add(directory, splits);
        files++;
        bytes += ((FileStatusWithMetadata) directory.files().apply(0)).getLen();
      }
      java.util.Iterator open = packed.values().iterator();
      while (open.hasNext()) ((Packing) open.next()).close(splits);
    }
    lastRead = ScanMetrics.ofFiles(files, bytes, number - files);
    return (InputPartition[]) splits.toArray(new InputPartition[0]);
  }

  private ScanMetrics metrics(ScanMetrics read) {
    ArrayList all = new ArrayList();
    for (int i = 0; i < groups.length; i++) all.add(((PlannedFiles) relationOf(groups[i]).location()).metrics());
    all.add(read);
    return ScanMetrics.sum(all);
  }

  public CustomMetric[] supportedCustomMetrics() {
    return metrics(ScanMetrics.ofFiles(0L, 0L, 0L)).supported();
  }

  public CustomTaskMetric[] reportDriverMetrics() {
    return metrics(lastRead).reported();
  }

  private InternalRow keyOf(InternalRow constants, StructType types) {
    Object[] values = new Object[keys.length];
    for (int i = 0; i < values.length; i++) {
      int place = types.fieldIndex(keys[i]);
      values[i] = constants.isNullAt(place) ? null : constants.get(place, types.apply(place).dataType());
    }
    return new GenericInternalRow(values);
  }

  /** The split of a key to which further files can be added. */
  private static final class Packing {
    private final int group;
    private final InternalRow key;
    private final long mostBytes;
    private final long openBytes; // the bytes that are added to the size of each file for the cost of opening it
    private final ArrayList files = new ArrayList(); // PartitionedFile objects
    private long bytes;

    Packing(int group, InternalRow key, long mostBytes, long openBytes) {
      this.group = group;
      this.key = key;
      this.mostBytes = mostBytes;
      this.openBytes = openBytes;
    }

    void add(PartitionDirectory directory, ArrayList splits) {
      FileStatusWithMetadata file = (FileStatusWithMetadata) directory.files().apply(0);
      SparkPath path = SparkPath.fromPath(file.getPath());
      for (long start = 0; start < file.getLen(); start += mostBytes) {
        long length = Math.min(mostBytes, file.getLen() - start);
        if (bytes + length > mostBytes) close(splits);
        files.add(new PartitionedFile(directory.values(), path, start, length, new String[0], 0L, file.getLen(), Map$.MODULE$.empty()));
        bytes += length + openBytes;
      }
    }

    void close(ArrayList splits) {
      if (!files.isEmpty()) splits.add(new PartitionSplit(splits.size(), (PartitionedFile[]) files.toArray(new PartitionedFile[0]), group, key));
      files.clear();
      bytes = 0L;
    }
  }

  /** Returns the factory of the readers of splits. They return batches if the functions of all groups can do so, and rows otherwise. */
  PartitionReaderFactory readers() {
    boolean returnsBatches = true;
    for (int i = 0; i < groups.length; i++) returnsBatches &= relationOf(groups[i]).fileFormat().supportBatch(relationOf(groups[i]).sparkSession(), relationOf(groups[i]).schema());
    Function1[] functions = new Function1[groups.length];
    int[][] places = new int[groups.length][columns.length];
    for (int i = 0; i < groups.length; i++) {
      functions[i] = reader(relationOf(groups[i]), returnsBatches);
      for (int column = 0; column < columns.length; column++) places[i][column] = placeIn(groups[i], columns[column]);
    }
    return new PartitionReaders(functions, places, readSchema(), returnsBatches);
  }

  private Function1 reader(HadoopFsRelation relation, boolean returnsBatches) {
    StructType data = relation.dataSchema();
    ArrayList filters = new ArrayList();
    for (int i = 0; i < conditions.size(); i++) {
      Condition condition = (Condition) conditions.get(i);
      if (Arrays.asList(data.fieldNames()).containsAll(condition.names)) filters.add(condition.filter);
    }
    Map options = (Map) relation.options().updated(FileFormat.OPTION_RETURNING_BATCH(), String.valueOf(returnsBatches));
    org.apache.spark.sql.classic.SparkSession session = (org.apache.spark.sql.classic.SparkSession) relation.sparkSession();
    Configuration configuration = session.sessionState().newHadoopConfWithOptions(relation.options());
    return relation.fileFormat().buildReaderWithPartitionValues(session, data, relation.partitionSchema(), data, PythonUtils.toSeq(filters), options, configuration);
  }

  public Batch toBatch() {
    BitSet numbers = (BitSet) selected.get();
    selected.remove(); // another plan of the same scan may have another filter, or none
    return new PartitionedBatch(this, numbers);
  }

  public StructType readSchema() {
    StructField[] fields = new StructField[columns.length];
    for (int i = 0; i < fields.length; i++) {
      Attribute attribute = (Attribute) groups[0].output().apply(placeIn(groups[0], columns[i]));
      fields[i] = new StructField(attribute.name(), attribute.dataType(), attribute.nullable(), attribute.metadata());
    }
    return new StructType(fields);
  }

  public String description() {
    return "Icefloe " + ((PlannedFiles) relationOf(groups[0]).location()).table();
  }

  /** Returns the columns by which Spark may filter files at run time: those of the scan that this scan has replaced, because Spark has created its filters for that scan. */
  public NamedReference[] filterAttributes() {
    return new NamedReference[0];
  }

  /** Excludes files from the next batch if no row of them can have the values of a join. */
  public void filter(Predicate[] predicates) {
    selected.remove();
    int values = 0;
    for (int i = 0; i < predicates.length; i++) values += predicates[i].children().length;
    if (values > MOST_VALUES) return;
    List numbers = (List) PythonBridge.parsed((String) python.call("matching_files", ConnectorJson.json(new Object[] {predicates})));
    BitSet matching = new BitSet();
    for (int i = 0; i < numbers.size(); i++) matching.set(((Number) numbers.get(i)).intValue());
    selected.set(matching);
  }

  public Statistics estimateStatistics() {
    long total = 0L;
    for (int i = 0; i < groups.length; i++) total += relationOf(groups[i]).location().sizeInBytes();
    final long bytes = total;
    return new Statistics() {
      public OptionalLong sizeInBytes() {
        return OptionalLong.of(bytes);
      }

      public OptionalLong numRows() {
        return OptionalLong.empty();
      }
    };
  }

  /** Returns whether another scan reads the same rows of the same files. */
  boolean isReadLike(PartitionedFiles other) {
    boolean isLike = groups.length == other.groups.length && Arrays.equals(keys, other.keys) && Arrays.equals(columns, other.columns) && conditions.equals(other.conditions);
    for (int i = 0; isLike && i < groups.length; i++) isLike = relationOf(groups[i]).equals(relationOf(other.groups[i]));
    return isLike;
  }

  int contentHash() {
    return relationOf(groups[0]).location().hashCode();
  }
}
