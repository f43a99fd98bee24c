package icefloe;

import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
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

/** A catalog of Spark SQL whose every answer comes from PythonBridge. Source form, here and beside: raw types, no lambdas, for Janino. */
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

  public Set capabilities() {
    return Collections.singleton(TableCatalogCapability.SUPPORT_COLUMN_DEFAULT_VALUE);
  }

  // Tables

  public Identifier[] listTables(String[] namespace) {
    return (Identifier[]) ask(Identifier[].class, "list_tables", new Object[] {"namespace", namespace});
  }

  public Table loadTable(Identifier name) {
    Table evolved = evolved(name);
    return evolved != null ? evolved : table("load_table", new Object[] {"table", name});
  }

  public Table loadTable(Identifier name, String version) {
    return table("load_table", new Object[] {"table", name, "version", version});
  }

  public Table loadTable(Identifier name, long micros) {
    return table("load_table", new Object[] {"table", name, "timestamp", Long.valueOf(micros)});
  }

  public boolean tableExists(Identifier name) {
    return is("table_exists", new Object[] {"table", name});
  }

  public Table createTable(Identifier name, Column[] columns, Transform[] partitioning, Map properties) {
    return table("create_table", new Object[] {"table", name, "columns", columns, "partitioning", partitioning, "properties", properties});
  }

  public Table alterTable(Identifier name, TableChange[] changes) {
    Object[] asked = new Object[] {"table", name, "changes", changes};
    if (!isEvolution()) return table("alter_table", asked);
    Table found = table("evolve_table", asked);
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
    return is("drop_table", new Object[] {"table", name});
  }

  public boolean purgeTable(Identifier name) {
    return is("purge_table", new Object[] {"table", name});
  }

  public void renameTable(Identifier from, Identifier to) {
    ask(null, "rename_table", new Object[] {"table", from, "to", to});
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

  public String[] defaultNamespace() {
    return (String[]) ask(String[].class, "default_namespace", new Object[0]);
  }

  public String[][] listNamespaces() {
    return listNamespaces(new String[0]);
  }

  public String[][] listNamespaces(String[] namespace) {
    return (String[][]) ask(String[][].class, "list_namespaces", new Object[] {"namespace", namespace});
  }

  public boolean namespaceExists(String[] namespace) {
    return is("namespace_exists", new Object[] {"namespace", namespace});
  }

  public Map loadNamespaceMetadata(String[] namespace) {
    return (Map) ask(Map.class, "load_namespace", new Object[] {"namespace", namespace});
  }

  public void createNamespace(String[] namespace, Map properties) {
    ask(null, "create_namespace", new Object[] {"namespace", namespace, "properties", properties});
  }

  public void alterNamespace(String[] namespace, NamespaceChange[] changes) {
    ask(null, "alter_namespace", new Object[] {"namespace", namespace, "changes", changes});
  }

  /** Whether namespaces have properties of the catalog's own. */
  boolean keepsNamespaceProperties() {
    return is("keeps_namespace_properties", new Object[0]);
  }

  public boolean dropNamespace(String[] namespace, boolean cascade) {
    return is("drop_namespace", new Object[] {"namespace", namespace, "cascade", Boolean.valueOf(cascade)});
  }

  // Functions and procedures

  public UnboundFunction loadFunction(Identifier name) throws NoSuchFunctionException {
    Object found = ask(UnboundFunction.class, "load_function", new Object[] {"function", name});
    if (found == null) throw new NoSuchFunctionException(name);
    return (UnboundFunction) found;
  }

  public Identifier[] listFunctions(String[] namespace) {
    return (Identifier[]) ask(Identifier[].class, "list_functions", new Object[] {"namespace", namespace});
  }

  public UnboundProcedure loadProcedure(Identifier name) {
    return (UnboundProcedure) ask(UnboundProcedure.class, "load_procedure", new Object[] {"procedure", name});
  }

  public Identifier[] listProcedures(String[] namespace) {
    return (Identifier[]) ask(Identifier[].class, "list_procedures", new Object[] {"namespace", namespace});
  }

  /** Python's answer to a question about names and values in turn, as a type of Java's. */
  private Object ask(Class wanted, String question, Object[] about) {
    LinkedHashMap argument = new LinkedHashMap();
    for (int i = 0; i < about.length; i += 2) argument.put(about[i], about[i + 1]);
    return new PythonProxy(PythonBridge.registered(key), Collections.EMPTY_MAP).ask(wanted, question, ConnectorJson.json(argument));
  }

  private boolean is(String question, Object[] about) {
    return ((Boolean) ask(Boolean.class, question, about)).booleanValue();
  }

  private Table table(String question, Object[] about) {
    return (Table) ask(Table.class, question, about);
  }

  private StagedTable staged(String how, Identifier name, Column[] columns, Transform[] partitioning, Map properties) {
    return (StagedTable) table("stage_table", new Object[] {"how", how, "table", name, "columns", columns, "partitioning", partitioning, "properties", properties});
  }
}
