package icefloe;

import java.lang.reflect.InvocationTargetException;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.BiFunction;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.SupportsDeleteV2;
import org.apache.spark.sql.connector.catalog.SupportsMetadataColumns;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsRowLevelOperations;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperationBuilder;
import org.apache.spark.sql.connector.write.RowLevelOperationInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.Platform;

/** A table as it was when Spark loaded it: what Python says of it once, and functions that hand reads and writes over. */
public class SparkTable implements SupportsRead, SupportsWrite, SupportsDeleteV2, SupportsMetadataColumns, SupportsRowLevelOperations {
  final BiFunction python;
  private final Map said; // name, version, schema, properties, partitioning, capabilities, metadata_columns
  private final StructType schema;

  /** A table of the kind that this version of Spark asks the most of. */
  static SparkTable of(BiFunction python) {
    try {
      Class evolving = Class.forName("icefloe.EvolvingTable", true, SparkTable.class.getClassLoader());
      return (SparkTable) evolving.getConstructors()[0].newInstance(new Object[] {python});
    } catch (ClassNotFoundException older) {
      return new SparkTable(python);
    } catch (InvocationTargetException refused) {
      Platform.throwException(refused.getCause());
    } catch (Exception error) {
      throw new IllegalStateException(error);
    }
    return null;
  }

  public SparkTable(BiFunction python) {
    this.python = python;
    this.said = (Map) Python.askJson(python, "describe", "null");
    this.schema = (StructType) DataType.fromJson((String) said.get("schema"));
  }

  public String name() {
    return (String) said.get("name");
  }

  public StructType schema() {
    return schema;
  }

  /** Whether a scan may leave out parts of nested columns. */
  boolean prunesNested() {
    return !Boolean.FALSE.equals(said.get("prunes_nested"));
  }

  public Map properties() {
    return new HashMap((Map) said.get("properties"));
  }

  public Transform[] partitioning() {
    List parts = (List) said.get("partitioning");
    Transform[] transforms = new Transform[parts.size()];
    for (int i = 0; i < transforms.length; i++) transforms[i] = transform((Map) parts.get(i));
    return transforms;
  }

  /** `bucket` and `identity` are classes of their own in Spark; all others are names with arguments. */
  private static Transform transform(Map part) {
    String name = (String) part.get("name");
    String[] columns = Python.strings(part.get("columns"));
    Integer number = (Integer) part.get("number");
    if (name.equals("bucket")) return Expressions.bucket(number.intValue(), columns);
    if (name.equals("identity")) return Expressions.identity(columns[0]);
    Expression[] arguments = new Expression[columns.length + (number == null ? 0 : 1)];
    int place = 0;
    if (number != null) arguments[place++] = Expressions.literal(number);
    for (int i = 0; i < columns.length; i++) arguments[place++] = Expressions.column(columns[i]);
    return Expressions.apply(name, arguments);
  }

  public Set capabilities() {
    HashSet found = new HashSet();
    String[] names = Python.strings(said.get("capabilities"));
    TableCapability[] known = TableCapability.values();
    for (int i = 0; i < names.length; i++) for (int k = 0; k < known.length; k++) if (known[k].name().equals(names[i])) found.add(known[k]);
    return found;
  }

  public MetadataColumn[] metadataColumns() {
    List list = (List) said.get("metadata_columns");
    MetadataColumn[] columns = new MetadataColumn[list.size()];
    for (int i = 0; i < columns.length; i++) columns[i] = new Named((Map) list.get(i));
    return columns;
  }

  public boolean canRenameConflictingMetadataColumns() {
    return true;
  }

  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return new SparkScanBuilder(this, options, null);
  }

  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return new SparkWriteBuilder(this, info);
  }

  public RowLevelOperationBuilder newRowLevelOperationBuilder(RowLevelOperationInfo info) {
    return SparkRowLevelOperation.builder(this, info);
  }

  public boolean canDeleteWhere(Predicate[] predicates) {
    return Boolean.TRUE.equals(Python.askJson(python, "can_delete", Plain.json(predicates)));
  }

  public void deleteWhere(Predicate[] predicates) {
    Python.ask(python, "delete", Plain.json(predicates));
  }

  public boolean truncateTable() {
    Python.ask(python, "delete", "[]");
    return true;
  }

  /** Two loads of the same state are the same table, so that Spark finds what it cached. */
  public boolean equals(Object other) {
    return other instanceof SparkTable && said.get("name").equals(((SparkTable) other).said.get("name")) && said.get("version").equals(((SparkTable) other).said.get("version"));
  }

  public int hashCode() {
    return said.get("version").hashCode();
  }

  public String toString() {
    return name();
  }

  private static final class Named implements MetadataColumn {
    private final Map said;

    Named(Map said) {
      this.said = said;
    }

    public String name() {
      return (String) said.get("name");
    }

    public DataType dataType() {
      return DataType.fromJson((String) said.get("type"));
    }

    public boolean isNullable() {
      return ((Boolean) said.get("nullable")).booleanValue();
    }

    public String comment() {
      return (String) said.get("comment");
    }

    public String metadataInJSON() {
      return (String) said.get("metadata");
    }
  }
}
