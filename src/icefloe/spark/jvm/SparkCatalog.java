package icefloe;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.BiFunction;
import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.ProcedureCatalog;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalogCapability;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A catalog of Spark SQL whose every answer comes from Python. Source form, here and beside: raw types, no lambdas, for Janino. */
public final class SparkCatalog implements StagingTableCatalog, SupportsNamespaces, ProcedureCatalog, FunctionCatalog {
  private static final ThreadLocal EVOLVED = new ThreadLocal(); // catalog's key, table's name, table
  private String name;
  private String key;

  public void initialize(String name, CaseInsensitiveStringMap options) {
    this.name = name;
    this.key = options.get("icefloe");
  }

  public String name() {
    return name;
  }

  public String[] defaultNamespace() {
    return Python.strings(answer("default_namespace", new LinkedHashMap()));
  }

  public Set capabilities() {
    HashSet found = new HashSet();
    found.add(TableCatalogCapability.SUPPORT_COLUMN_DEFAULT_VALUE);
    return found;
  }

  // Tables

  public Identifier[] listTables(String[] namespace) {
    return identifiers(namespace, "list_tables");
  }

  public Table loadTable(Identifier name) {
    Table evolved = evolved(name);
    return evolved != null ? evolved : table(with("table", parts(name)));
  }

  public Table loadTable(Identifier name, Set privileges) {
    Table evolved = evolved(name);
    if (evolved != null) return evolved;
    LinkedHashMap asked = with("table", parts(name));
    asked.put("writes", Boolean.TRUE);
    return table(asked);
  }

  public Table loadTable(Identifier name, String version) {
    LinkedHashMap asked = with("table", parts(name));
    asked.put("version", version);
    return table(asked);
  }

  public Table loadTable(Identifier name, long micros) {
    LinkedHashMap asked = with("table", parts(name));
    asked.put("timestamp", Long.valueOf(micros));
    return table(asked);
  }

  public void invalidateTable(Identifier name) {
    answer("invalidate_table", with("table", parts(name)));
  }

  public boolean tableExists(Identifier name) {
    return Boolean.TRUE.equals(answer("table_exists", with("table", parts(name))));
  }

  public Table createTable(Identifier name, Column[] columns, Transform[] partitioning, Map properties) {
    return SparkTable.of((BiFunction) ask("create_table", definition(name, columns, partitioning, properties)));
  }

  public Table alterTable(Identifier name, TableChange[] changes) {
    LinkedHashMap asked = with("table", parts(name));
    asked.put("changes", plain(changes));
    if (!isEvolution()) return SparkTable.of((BiFunction) ask("alter_table", asked));
    Table found = SparkTable.of((BiFunction) ask("evolve_table", asked));
    EVOLVED.set(new Object[] {key, name, found});
    return found;
  }

  /** Whether Spark's analyzer asks, for a statement WITH SCHEMA EVOLUTION: it changes the table before there are rows, and loads it anew at once. */
  private static boolean isEvolution() {
    StackTraceElement[] calls = new Throwable().getStackTrace();
    for (int i = 0; i < calls.length; i++) if (calls[i].getClassName().startsWith("org.apache.spark.sql.catalyst.analysis.") && calls[i].getClassName().contains("SchemaEvolution")) return true;
    return false;
  }

  /** What such a statement's table will be, taken by the first that loads it; null for all others. */
  private Table evolved(Identifier name) {
    Object[] found = (Object[]) EVOLVED.get();
    EVOLVED.remove();
    return found != null && found[0].equals(key) && found[1].equals(name) && isEvolution() ? (Table) found[2] : null;
  }

  public boolean dropTable(Identifier name) {
    return Boolean.TRUE.equals(answer("drop_table", with("table", parts(name))));
  }

  public boolean purgeTable(Identifier name) {
    return Boolean.TRUE.equals(answer("purge_table", with("table", parts(name))));
  }

  public void renameTable(Identifier from, Identifier to) {
    LinkedHashMap asked = with("table", parts(from));
    asked.put("to", parts(to));
    answer("rename_table", asked);
  }

  public StagedTable stageCreate(Identifier name, Column[] columns, Transform[] partitioning, Map properties) {
    return staged("create", name, columns, partitioning, properties);
  }

  public StagedTable stageReplace(Identifier name, Column[] columns, Transform[] partitioning, Map properties) {
    return staged("replace", name, columns, partitioning, properties);
  }

  public StagedTable stageCreateOrReplace(Identifier name, Column[] columns, Transform[] partitioning, Map properties) {
    return staged("create or replace", name, columns, partitioning, properties);
  }

  // Namespaces

  public String[][] listNamespaces() {
    return listNamespaces(new String[0]);
  }

  public String[][] listNamespaces(String[] namespace) {
    List found = (List) answer("list_namespaces", with("namespace", namespace));
    String[][] names = new String[found.size()][];
    for (int i = 0; i < names.length; i++) names[i] = Python.strings(found.get(i));
    return names;
  }

  public boolean namespaceExists(String[] namespace) {
    return Boolean.TRUE.equals(answer("namespace_exists", with("namespace", namespace)));
  }

  public Map loadNamespaceMetadata(String[] namespace) {
    return (Map) answer("load_namespace", with("namespace", namespace));
  }

  public void createNamespace(String[] namespace, Map properties) {
    LinkedHashMap asked = with("namespace", namespace);
    asked.put("properties", properties);
    answer("create_namespace", asked);
  }

  public void alterNamespace(String[] namespace, NamespaceChange[] changes) {
    LinkedHashMap asked = with("namespace", namespace);
    asked.put("changes", plain(changes));
    answer("alter_namespace", asked);
  }

  public boolean dropNamespace(String[] namespace, boolean cascade) {
    LinkedHashMap asked = with("namespace", namespace);
    asked.put("cascade", Boolean.valueOf(cascade));
    return Boolean.TRUE.equals(answer("drop_namespace", asked));
  }

  // Functions and procedures

  public UnboundFunction loadFunction(Identifier name) throws NoSuchFunctionException {
    Object found = ask("load_function", with("function", parts(name)));
    if (!(found instanceof BiFunction)) throw new NoSuchFunctionException(name);
    return new SparkFunction((BiFunction) found);
  }

  public Identifier[] listFunctions(String[] namespace) {
    return identifiers(namespace, "list_functions");
  }

  public UnboundProcedure loadProcedure(Identifier name) {
    return new SparkProcedure((BiFunction) ask("load_procedure", with("procedure", parts(name))));
  }

  public Identifier[] listProcedures(String[] namespace) {
    return identifiers(namespace, "list_procedures");
  }

  private Object ask(String question, Map argument) {
    return Python.ask(Python.registered(key), question, Python.json(argument));
  }

  private Object answer(String question, Map argument) {
    return Python.parsed((String) ask(question, argument));
  }

  private Table table(Map asked) {
    return SparkTable.of((BiFunction) ask("load_table", asked));
  }

  private StagedTable staged(String how, Identifier name, Column[] columns, Transform[] partitioning, Map properties) {
    LinkedHashMap asked = definition(name, columns, partitioning, properties);
    asked.put("how", how);
    return new SparkStagedTable((BiFunction) ask("stage_table", asked));
  }

  private Identifier[] identifiers(String[] namespace, String question) {
    List names = (List) answer(question, with("namespace", namespace));
    Identifier[] found = new Identifier[names.size()];
    for (int i = 0; i < found.length; i++) found[i] = Identifier.of(namespace, (String) names.get(i));
    return found;
  }

  private static LinkedHashMap definition(Identifier name, Column[] columns, Transform[] partitioning, Map properties) {
    LinkedHashMap asked = with("table", parts(name));
    asked.put("columns", plain(columns));
    asked.put("partitioning", plain(partitioning));
    asked.put("properties", properties);
    return asked;
  }

  private static Object plain(Object value) {
    try {
      return Plain.of(value);
    } catch (Exception error) {
      throw new IllegalStateException(error);
    }
  }

  private static LinkedHashMap with(String name, Object value) {
    LinkedHashMap asked = new LinkedHashMap();
    asked.put(name, value);
    return asked;
  }

  private static List parts(Identifier name) {
    ArrayList parts = new ArrayList(Arrays.asList(name.namespace()));
    parts.add(name.name());
    return parts;
  }
}
