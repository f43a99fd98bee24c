package icefloe;

import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.BiFunction;
import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.ProcedureCatalog;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableCatalogCapability;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A catalog of Spark SQL whose methods Python implements (`spark_catalog.py`): each method sends one message, and converts the reply. This file and the others have raw types and no lambdas,
 * because they are compiled by Janino.
 */
public final class SparkCatalog implements StagingTableCatalog, SupportsNamespaces, ProcedureCatalog, FunctionCatalog {
  private String name;
  private String key;

  public void initialize(String name, CaseInsensitiveStringMap options) {
    this.name = name;
    this.key = options.containsKey("icefloe") ? options.get("icefloe") : SparkParser.keyInNewSession(name);
  }

  public String name() {
    return name;
  }

  public Set capabilities() {
    return Collections.singleton(TableCatalogCapability.SUPPORT_COLUMN_DEFAULT_VALUE);
  }

  // Tables

  public Identifier[] listTables(String[] namespace) {
    return (Identifier[]) call(Identifier[].class, "list_tables", new Object[] {"namespace", namespace});
  }

  public Table loadTable(Identifier name) {
    Table evolved = SchemaEvolution.take(key, name);
    if (evolved != null) return evolved;
    Table ofStatement = StatementTables.take(key, name);
    return ofStatement != null ? ofStatement : loaded(new Object[] {"table", name});
  }

  /** Returns the tables with these names, in this order and in their states at one moment; null if one of the names is not the plain name of a table. */
  Table[] loadTogether(List names) {
    ArrayList messages = new ArrayList();
    for (int i = 0; i < names.size(); i++) messages.add(message(new Object[] {"table", names.get(i)}));
    return PythonProxy.loadedTogether(PythonBridge.registered(key), messages);
  }

  /** Returns the key with which the Python catalog is registered. It is different for each session and catalog. */
  String key() {
    return key;
  }

  public Table loadTable(Identifier name, String version) {
    return loaded(new Object[] {"table", name, "version", version});
  }

  public Table loadTable(Identifier name, long micros) {
    return loaded(new Object[] {"table", name, "timestamp", Long.valueOf(micros)});
  }

  //4.3 /** Returns the names of the options on which the columns of a table depend. */
  //4.3 public Set tableStateOptionKeys() {
  //4.3   return Collections.singleton("read.mode");
  //4.3 }

  //4.3 public Table loadTable(Identifier name, org.apache.spark.sql.connector.catalog.TableContext context, CaseInsensitiveStringMap options) throws NoSuchTableException {
  //4.3   return isOfChanges(context, options) ? changes(name) : loaded(this, name, context);
  //4.3 }

  //4.3 /** Returns whether the changes of a table are loaded, of which streams are read. */
  //4.3 static boolean isOfChanges(org.apache.spark.sql.connector.catalog.TableContext context, CaseInsensitiveStringMap options) {
  //4.3   return !context.timeTravel().isPresent() && context.writePrivileges().isEmpty() && "changes".equalsIgnoreCase(options.get("read.mode"));
  //4.3 }

  //4.3 /** Returns the table that a catalog loads without options. */
  //4.3 static Table loaded(TableCatalog catalog, Identifier name, org.apache.spark.sql.connector.catalog.TableContext context) throws NoSuchTableException {
  //4.3   Object time = context.timeTravel().isPresent() ? context.timeTravel().get() : null;
  //4.3   if (time instanceof org.apache.spark.sql.connector.catalog.TimeTravel.AsOfVersion) return catalog.loadTable(name, ((org.apache.spark.sql.connector.catalog.TimeTravel.AsOfVersion) time).version());
  //4.3   if (time instanceof org.apache.spark.sql.connector.catalog.TimeTravel.AsOfTimestamp) return catalog.loadTable(name, ((org.apache.spark.sql.connector.catalog.TimeTravel.AsOfTimestamp) time).micros());
  //4.3   return context.writePrivileges().isEmpty() ? catalog.loadTable(name) : catalog.loadTable(name, context.writePrivileges());
  //4.3 }

  /** Returns Spark's Changelog of a table. `context` is Spark's ChangelogContext, a class that Spark has from 4.2 on. */
  Object changelog(Identifier name, Object context, CaseInsensitiveStringMap options) {
    return PythonProxy.of((BiFunction) call(null, "load_changelog", new Object[] {"table", name, "context", context, "options", options}));
  }

  /** Returns the table of the changes of a table, of which streams are read. */
  Table changes(Identifier name) {
    return (Table) PythonProxy.of((BiFunction) call(null, "load_changes", new Object[] {"table", name}));
  }

  //4.2 public org.apache.spark.sql.connector.catalog.Changelog loadChangelog(Identifier name, org.apache.spark.sql.connector.catalog.ChangelogContext context, CaseInsensitiveStringMap options) {
  //4.2   return (org.apache.spark.sql.connector.catalog.Changelog) changelog(name, context, options);
  //4.2 }

  public boolean tableExists(Identifier name) {
    return is("table_exists", new Object[] {"table", name});
  }

  public Table createTable(Identifier name, Column[] columns, Transform[] partitioning, Map properties) {
    return table("create_table", new Object[] {"table", name, "columns", columns, "partitioning", partitioning, "properties", properties});
  }

  public Table alterTable(Identifier name, TableChange[] changes) {
    Object[] fields = new Object[] {"table", name, "changes", changes};
    if (!SchemaEvolution.isEvolution(changes)) return table("alter_table", fields);
    Table evolved = table("evolve_table", fields);
    SchemaEvolution.put(key, name, evolved);
    return evolved;
  }

  public boolean dropTable(Identifier name) {
    return is("drop_table", new Object[] {"table", name});
  }

  public boolean purgeTable(Identifier name) {
    return is("purge_table", new Object[] {"table", name});
  }

  public void renameTable(Identifier from, Identifier to) {
    call(null, "rename_table", new Object[] {"table", from, "to", to});
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
    return (String[]) call(String[].class, "default_namespace", new Object[0]);
  }

  public String[][] listNamespaces() {
    return listNamespaces(new String[0]);
  }

  public String[][] listNamespaces(String[] namespace) {
    return (String[][]) call(String[][].class, "list_namespaces", new Object[] {"namespace", namespace});
  }

  public boolean namespaceExists(String[] namespace) {
    return is("namespace_exists", new Object[] {"namespace", namespace});
  }

  public Map loadNamespaceMetadata(String[] namespace) {
    return (Map) call(Map.class, "load_namespace", new Object[] {"namespace", namespace});
  }

  public void createNamespace(String[] namespace, Map properties) {
    call(null, "create_namespace", new Object[] {"namespace", namespace, "properties", properties});
  }

  public void alterNamespace(String[] namespace, NamespaceChange[] changes) {
    call(null, "alter_namespace", new Object[] {"namespace", namespace, "changes", changes});
  }

  /** Returns whether the catalog can store properties of namespaces. */
  boolean keepsNamespaceProperties() {
    return is("keeps_namespace_properties", new Object[0]);
  }

  public boolean dropNamespace(String[] namespace, boolean cascade) {
    return is("drop_namespace", new Object[] {"namespace", namespace, "cascade", Boolean.valueOf(cascade)});
  }

  // Functions and procedures

  public UnboundFunction loadFunction(Identifier name) throws NoSuchFunctionException {
    Object function = call(UnboundFunction.class, "load_function", new Object[] {"function", name});
    if (function == null) throw new NoSuchFunctionException(name);
    return (UnboundFunction) function;
  }

  public Identifier[] listFunctions(String[] namespace) {
    return (Identifier[]) call(Identifier[].class, "list_functions", new Object[] {"namespace", namespace});
  }

  public UnboundProcedure loadProcedure(Identifier name) {
    return (UnboundProcedure) call(UnboundProcedure.class, "load_procedure", new Object[] {"procedure", name});
  }

  public Identifier[] listProcedures(String[] namespace) {
    return (Identifier[]) call(Identifier[].class, "list_procedures", new Object[] {"namespace", namespace});
  }

  /** Sends a message to a Python method, and converts the reply to a type, or not if the type is null. `fields` are the names and values of the message, in turn. */
  private Object call(Class type, String method, Object[] fields) {
    return PythonProxy.call(PythonBridge.registered(key), type, method, ConnectorJson.json(message(fields)));
  }

  private static Map message(Object[] fields) {
    LinkedHashMap message = new LinkedHashMap();
    for (int i = 0; i < fields.length; i += 2) message.put(fields[i], fields[i + 1]);
    return message;
  }

  private Table loaded(Object[] fields) {
    return PythonProxy.loaded(PythonBridge.registered(key), message(fields));
  }

  private boolean is(String method, Object[] fields) {
    return ((Boolean) call(Boolean.class, method, fields)).booleanValue();
  }

  private Table table(String method, Object[] fields) {
    return (Table) call(Table.class, method, fields);
  }

  private StagedTable staged(String how, Identifier name, Column[] columns, Transform[] partitioning, Map properties) {
    return (StagedTable) table("stage_table", new Object[] {"how", how, "table", name, "columns", columns, "partitioning", partitioning, "properties", properties});
  }
}
