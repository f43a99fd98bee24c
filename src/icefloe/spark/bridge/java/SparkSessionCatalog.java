package icefloe;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.CatalogExtension;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
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
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.Platform;

/**
 * Spark's session catalog, extended by the tables of an Iceberg catalog. A name is searched among the Iceberg tables first, and then in Spark's own catalog. Namespaces are in both catalogs.
 * Views and functions are in Spark's catalog.
 */
public final class SparkSessionCatalog implements CatalogExtension, StagingTableCatalog, ProcedureCatalog {
  private static final String NAME = "spark_catalog";
  private final SparkCatalog iceberg = new SparkCatalog();
  private CatalogPlugin spark;

  /** Makes a running session drop its session catalog. Spark then creates it again, and so reads the setting with the name of this class, which it would otherwise read only once. */
  public static void install(Object manager) throws Exception {
    for (Class type = manager.getClass(); type != Object.class; type = type.getSuperclass()) {
      Field[] fields = type.getDeclaredFields();
      for (int i = 0; i < fields.length; i++) {
        if (!fields[i].getName().equals("catalogs")) continue;
        fields[i].setAccessible(true);
        synchronized (manager) {
          ((scala.collection.mutable.Map) fields[i].get(manager)).remove(NAME);
        }
        return;
      }
    }
    throw new NoSuchFieldException("catalogs of " + manager.getClass().getName());
  }

  public void initialize(String name, CaseInsensitiveStringMap options) {
    iceberg.initialize(name, options);
  }

  public void setDelegateCatalog(CatalogPlugin delegate) {
    this.spark = delegate;
  }

  public String name() {
    return iceberg.name();
  }

  /** Returns the catalog of the Iceberg tables. */
  SparkCatalog iceberg() {
    return iceberg;
  }

  public String[] defaultNamespace() {
    return spark.defaultNamespace();
  }

  public Set capabilities() {
    return iceberg.capabilities();
  }

  private TableCatalog tables() {
    return (TableCatalog) spark;
  }

  private SupportsNamespaces namespaces() {
    return (SupportsNamespaces) spark;
  }

  private FunctionCatalog functions() {
    return (FunctionCatalog) spark;
  }

  // Tables

  public Identifier[] listTables(String[] namespace) throws NoSuchNamespaceException {
    boolean isOfSpark = isOfSpark(namespace);
    LinkedHashSet names = new LinkedHashSet();
    if (!isOfSpark || iceberg.namespaceExists(namespace)) names.addAll(Arrays.asList(iceberg.listTables(namespace)));
    if (isOfSpark) names.addAll(Arrays.asList(tables().listTables(namespace)));
    return (Identifier[]) names.toArray(new Identifier[0]);
  }

  public Table loadTable(Identifier name) throws NoSuchTableException {
    Table table = loaded(name, null, null);
    return table == null ? tables().loadTable(name) : table;
  }

  public Table loadTable(Identifier name, String version) throws NoSuchTableException {
    Table table = loaded(name, version, null);
    return table == null ? tables().loadTable(name, version) : table;
  }

  public Table loadTable(Identifier name, long micros) throws NoSuchTableException {
    Table table = loaded(name, null, Long.valueOf(micros));
    return table == null ? tables().loadTable(name, micros) : table;
  }

  /** Returns the Iceberg table of a name; null if there is no such table. */
  private Table loaded(Identifier name, String version, Long micros) {
    if (name.namespace().length == 0) return null;
    try {
      return version != null ? iceberg.loadTable(name, version) : micros != null ? iceberg.loadTable(name, micros.longValue()) : iceberg.loadTable(name);
    } catch (Throwable error) {
      if (!(error instanceof NoSuchTableException)) Platform.throwException(error);
      return null;
    }
  }

  //4.3 public Set tableStateOptionKeys() {
  //4.3   return iceberg.tableStateOptionKeys();
  //4.3 }

  //4.3 public Table loadTable(Identifier name, org.apache.spark.sql.connector.catalog.TableContext context, CaseInsensitiveStringMap options) throws NoSuchTableException {
  //4.3   return SparkCatalog.isOfChanges(context, options) && loaded(name, null, null) != null ? iceberg.changes(name) : SparkCatalog.loaded(this, name, context);
  //4.3 }

  /** Returns Spark's Changelog of an Iceberg table; null if the name is not that of an Iceberg table. */
  Object changelog(Identifier name, Object context, CaseInsensitiveStringMap options) {
    return loaded(name, null, null) == null ? null : iceberg.changelog(name, context, options);
  }

  //4.2 public org.apache.spark.sql.connector.catalog.Changelog loadChangelog(Identifier name, org.apache.spark.sql.connector.catalog.ChangelogContext context, CaseInsensitiveStringMap options) throws NoSuchTableException {
  //4.2   Object changelog = changelog(name, context, options);
  //4.2   return changelog == null ? tables().loadChangelog(name, context, options) : (org.apache.spark.sql.connector.catalog.Changelog) changelog;
  //4.2 }

  public void invalidateTable(Identifier name) {
    iceberg.invalidateTable(name);
    if (name.namespace().length == 1) tables().invalidateTable(name); // a longer name is that of a branch, such as default.t.branch_b, which Spark's own catalog does not have
  }

  public boolean tableExists(Identifier name) {
    return isIceberg(name) || isTableOfSpark(name);
  }

  public Table createTable(Identifier name, Column[] columns, Transform[] partitioning, Map properties) throws Exception {
    if (isForIceberg(properties)) {
      prepare(name.namespace());
      return iceberg.createTable(name, columns, partitioning, properties);
    }
    return createInSpark(name, columns, partitioning, properties);
  }

  public Table alterTable(Identifier name, TableChange[] changes) throws NoSuchTableException {
    return isIceberg(name) ? iceberg.alterTable(name, changes) : tables().alterTable(name, changes);
  }

  public boolean dropTable(Identifier name) {
    return iceberg.dropTable(name) || tables().dropTable(name);
  }

  public boolean purgeTable(Identifier name) {
    return iceberg.purgeTable(name) || tables().purgeTable(name);
  }

  public void renameTable(Identifier from, Identifier to) throws Exception {
    Identifier target = to.namespace().length == 2 && to.namespace()[0].equals(NAME) ? Identifier.of(new String[] {to.namespace()[1]}, to.name()) : to;
    if (tableExists(target)) throw new org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException(target);
    if (isIceberg(from)) {
      prepare(target.namespace());
      iceberg.renameTable(from, target);
    } else {
      tables().renameTable(from, target);
    }
  }

  /** Stages a new Iceberg table. Tables of other formats, such as Parquet, are created by other commands of Spark, which do not call this method. */
  public StagedTable stageCreate(Identifier name, Column[] columns, Transform[] partitioning, Map properties) {
    if (!isForIceberg(properties)) throw refused(name, "USING " + properties.get("provider") + " cannot be created with rows in the session catalog", "CREATE TABLE without AS, then INSERT");
    prepare(name.namespace());
    return iceberg.stageCreate(name, columns, partitioning, properties);
  }

  public StagedTable stageReplace(Identifier name, Column[] columns, Transform[] partitioning, Map properties) {
    checkReplaceable(name, properties);
    return iceberg.stageReplace(name, columns, partitioning, properties);
  }

  public StagedTable stageCreateOrReplace(Identifier name, Column[] columns, Transform[] partitioning, Map properties) {
    checkReplaceable(name, properties);
    prepare(name.namespace());
    return iceberg.stageCreateOrReplace(name, columns, partitioning, properties);
  }

  /** Refuses to replace a table of Spark, and to replace any table by a table of Spark. Only an Iceberg table can be replaced, by another Iceberg table, in one commit. */
  private void checkReplaceable(Identifier name, Map properties) {
    if (!isForIceberg(properties)) throw refused(name, "cannot be replaced by a table USING " + properties.get("provider"), "DROP TABLE and CREATE TABLE");
    if (!isIceberg(name) && isTableOfSpark(name)) throw refused(name, "is not an Iceberg table and cannot be replaced by one", "DROP TABLE first");
  }

  private static UnsupportedOperationException refused(Identifier name, String reason, String next) {
    return new UnsupportedOperationException("the table " + name + " " + reason + "\n  Next: " + next);
  }

  private Table createInSpark(Identifier name, Column[] columns, Transform[] partitioning, Map properties) throws Exception {
    if (!isOfSpark(name.namespace()) && iceberg.namespaceExists(name.namespace())) namespaces().createNamespace(name.namespace(), Collections.EMPTY_MAP);
    return tables().createTable(name, columns, partitioning, properties);
  }

  private boolean isForIceberg(Map properties) {
    Object provider = properties.get("provider");
    return provider == null || ((String) provider).equalsIgnoreCase("iceberg");
  }

  private boolean isIceberg(Identifier name) {
    return name.namespace().length > 0 && iceberg.tableExists(name);
  }

  private boolean isTableOfSpark(Identifier name) {
    return name.namespace().length == 1 && tables().tableExists(name);
  }

  // Namespaces

  public String[][] listNamespaces() throws NoSuchNamespaceException {
    return listNamespaces(new String[0]);
  }

  public String[][] listNamespaces(String[] parent) throws NoSuchNamespaceException {
    LinkedHashMap byParts = new LinkedHashMap();
    if (parent.length == 0) put(byParts, namespaces().listNamespaces());
    if (parent.length == 0 || iceberg.namespaceExists(parent)) put(byParts, iceberg.listNamespaces(parent));
    else if (!isOfSpark(parent)) throw new NoSuchNamespaceException(parent);
    return (String[][]) byParts.values().toArray(new String[0][]);
  }

  private static void put(Map byParts, String[][] names) {
    for (int i = 0; i < names.length; i++) byParts.put(Arrays.asList(names[i]), names[i]);
  }

  public boolean namespaceExists(String[] namespace) {
    return isOfSpark(namespace) || iceberg.namespaceExists(namespace);
  }

  public Map loadNamespaceMetadata(String[] namespace) throws NoSuchNamespaceException {
    LinkedHashMap metadata = new LinkedHashMap();
    if (isOfSpark(namespace)) metadata.putAll(namespaces().loadNamespaceMetadata(namespace));
    if (metadata.isEmpty() || iceberg.namespaceExists(namespace)) metadata.putAll(iceberg.loadNamespaceMetadata(namespace));
    return metadata;
  }

  /** Creates a namespace in both catalogs. The Iceberg catalog gets the properties if it can store them, but not the location, which is only for Spark's own tables. */
  public void createNamespace(String[] namespace, Map properties) throws Exception {
    if (iceberg.namespaceExists(namespace)) throw new org.apache.spark.sql.catalyst.analysis.NamespaceAlreadyExistsException(namespace);
    namespaces().createNamespace(namespace, properties);
    Map withoutLocation = new LinkedHashMap(properties);
    withoutLocation.remove(SupportsNamespaces.PROP_LOCATION);
    iceberg.createNamespace(namespace, iceberg.keepsNamespaceProperties() ? withoutLocation : Collections.EMPTY_MAP);
  }

  public void alterNamespace(String[] namespace, NamespaceChange[] changes) throws NoSuchNamespaceException {
    boolean isOfSpark = isOfSpark(namespace);
    if (isOfSpark) namespaces().alterNamespace(namespace, changes);
    if (!isOfSpark) iceberg.alterNamespace(namespace, changes);
    else if (iceberg.namespaceExists(namespace) && iceberg.keepsNamespaceProperties()) iceberg.alterNamespace(namespace, withoutLocation(changes));
  }

  private static NamespaceChange[] withoutLocation(NamespaceChange[] changes) {
    ArrayList others = new ArrayList();
    for (int i = 0; i < changes.length; i++) {
      boolean isLocation = changes[i] instanceof NamespaceChange.SetProperty && ((NamespaceChange.SetProperty) changes[i]).property().equals(SupportsNamespaces.PROP_LOCATION);
      if (!isLocation) others.add(changes[i]);
    }
    return (NamespaceChange[]) others.toArray(new NamespaceChange[0]);
  }

  public boolean dropNamespace(String[] namespace, boolean cascade) throws Exception {
    boolean isOfSpark = isOfSpark(namespace);
    if (isOfSpark && !cascade && tables().listTables(namespace).length > 0) throw new org.apache.spark.sql.catalyst.analysis.NonEmptyNamespaceException(namespace);
    boolean isDropped = iceberg.namespaceExists(namespace) && iceberg.dropNamespace(namespace, cascade);
    return isOfSpark ? namespaces().dropNamespace(namespace, cascade) : isDropped;
  }

  private boolean isOfSpark(String[] namespace) {
    return namespace.length == 1 && namespaces().namespaceExists(namespace);
  }

  /** Creates a namespace in the Iceberg catalog if only Spark's catalog has it, so that it can have Iceberg tables. */
  private void prepare(String[] namespace) {
    if (isOfSpark(namespace) && !iceberg.namespaceExists(namespace)) iceberg.createNamespace(namespace, Collections.EMPTY_MAP);
  }

  // Functions and procedures

  public UnboundFunction loadFunction(Identifier name) throws NoSuchFunctionException {
    return isSystem(name.namespace()) ? iceberg.loadFunction(name) : functions().loadFunction(name);
  }

  public Identifier[] listFunctions(String[] namespace) throws NoSuchNamespaceException {
    return isSystem(namespace) ? iceberg.listFunctions(namespace) : functions().listFunctions(namespace);
  }

  private static boolean isSystem(String[] namespace) {
    return namespace.length == 1 && namespace[0].equalsIgnoreCase("system");
  }

  public UnboundProcedure loadProcedure(Identifier name) {
    return iceberg.loadProcedure(name);
  }

  public Identifier[] listProcedures(String[] namespace) {
    return iceberg.listProcedures(namespace);
  }
}
