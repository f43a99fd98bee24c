package icefloe.sparksuite;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.NamespaceAlreadyExistsException;
import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.NonEmptyNamespaceException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableCatalogCapability;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Icefloe's catalog for suites whose catalog in memory has tables without a namespace, in namespaces that no statement makes, and of any provider: such tables are in a namespace `root`, namespaces are
 * made with their first table, and the provider is left out.
 */
public final class SuiteCatalog implements StagingTableCatalog, SupportsNamespaces, FunctionCatalog {
  private static final String ROOT = "root";
  private static final Map<String, StagingTableCatalog> ATTACHED = new HashMap<>();
  private String name;
  private StagingTableCatalog tables;

  /** Keeps the catalogs that Python attached under names that suites give to theirs. */
  static void keep(String name, Object catalog) {
    ATTACHED.put(name, (StagingTableCatalog) catalog);
  }

  @Override
  public void initialize(String name, CaseInsensitiveStringMap options) {
    this.name = name;
    tables = ATTACHED.get(name);
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public Set<TableCatalogCapability> capabilities() {
    return tables.capabilities();
  }

  private SupportsNamespaces namespaces() {
    return (SupportsNamespaces) tables;
  }

  private static String[] stored(String[] namespace) {
    return namespace.length == 0 ? new String[] {ROOT} : namespace;
  }

  private static Identifier stored(Identifier name) {
    return Identifier.of(stored(name.namespace()), name.name());
  }

  /** Makes the namespace of a new table, and returns the table's name. */
  private Identifier prepared(Identifier name) {
    Identifier stored = stored(name);
    try {
      for (int levels = 1; levels <= stored.namespace().length; levels++) {
        String[] namespace = Arrays.copyOf(stored.namespace(), levels);
        if (!namespaces().namespaceExists(namespace)) {
          namespaces().createNamespace(namespace, Map.of());
        }
      }
    } catch (Exception error) {
      throw new IllegalStateException(error);
    }
    return stored;
  }

  private static Map<String, String> withoutProvider(Map<String, String> properties) {
    Map<String, String> all = new HashMap<>(properties);
    all.remove(TableCatalog.PROP_PROVIDER);
    all.putIfAbsent("format-version", "3");
    return all;
  }

  // Tables

  @Override
  public Identifier[] listTables(String[] namespace) throws NoSuchNamespaceException {
    return Arrays.stream(tables.listTables(stored(namespace))).map(one -> Identifier.of(namespace, one.name())).toArray(Identifier[]::new);
  }

  @Override
  public Table loadTable(Identifier name) throws NoSuchTableException {
    return tables.loadTable(stored(name));
  }

  @Override
  public Table loadTable(Identifier name, String version) throws NoSuchTableException {
    return tables.loadTable(stored(name), version);
  }

  @Override
  public Table loadTable(Identifier name, long micros) throws NoSuchTableException {
    return tables.loadTable(stored(name), micros);
  }

  @Override
  public boolean tableExists(Identifier name) {
    return tables.tableExists(stored(name));
  }

  @Override
  public Table createTable(Identifier name, Column[] columns, Transform[] partitions, Map<String, String> properties)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    return tables.createTable(prepared(name), columns, partitions, withoutProvider(properties));
  }

  @Override
  public Table alterTable(Identifier name, TableChange... changes) throws NoSuchTableException {
    return tables.alterTable(stored(name), changes);
  }

  @Override
  public boolean dropTable(Identifier name) {
    return tables.dropTable(stored(name));
  }

  @Override
  public boolean purgeTable(Identifier name) {
    return tables.purgeTable(stored(name));
  }

  @Override
  public void renameTable(Identifier from, Identifier to) throws NoSuchTableException, TableAlreadyExistsException {
    tables.renameTable(stored(from), prepared(to));
  }

  @Override
  public StagedTable stageCreate(Identifier name, Column[] columns, Transform[] partitions, Map<String, String> properties)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    return tables.stageCreate(prepared(name), columns, partitions, withoutProvider(properties));
  }

  @Override
  public StagedTable stageReplace(Identifier name, Column[] columns, Transform[] partitions, Map<String, String> properties)
      throws NoSuchNamespaceException, NoSuchTableException {
    return tables.stageReplace(stored(name), columns, partitions, withoutProvider(properties));
  }

  @Override
  public StagedTable stageCreateOrReplace(Identifier name, Column[] columns, Transform[] partitions, Map<String, String> properties)
      throws NoSuchNamespaceException {
    return tables.stageCreateOrReplace(prepared(name), columns, partitions, withoutProvider(properties));
  }

  // Namespaces

  @Override
  public String[][] listNamespaces() throws NoSuchNamespaceException {
    return Arrays.stream(namespaces().listNamespaces()).filter(one -> !Arrays.equals(one, new String[] {ROOT})).toArray(String[][]::new);
  }

  @Override
  public String[][] listNamespaces(String[] namespace) throws NoSuchNamespaceException {
    return namespace.length == 0 ? listNamespaces() : namespaces().listNamespaces(namespace);
  }

  @Override
  public boolean namespaceExists(String[] namespace) {
    return namespace.length == 0 || namespaces().namespaceExists(namespace);
  }

  @Override
  public Map<String, String> loadNamespaceMetadata(String[] namespace) throws NoSuchNamespaceException {
    return namespaces().loadNamespaceMetadata(stored(namespace));
  }

  @Override
  public void createNamespace(String[] namespace, Map<String, String> properties)
      throws NamespaceAlreadyExistsException {
    namespaces().createNamespace(namespace, properties);
  }

  @Override
  public void alterNamespace(String[] namespace, NamespaceChange... changes) throws NoSuchNamespaceException {
    namespaces().alterNamespace(namespace, changes);
  }

  @Override
  public boolean dropNamespace(String[] namespace, boolean cascade) throws NoSuchNamespaceException, NonEmptyNamespaceException {
    return namespaces().dropNamespace(namespace, cascade);
  }

  // Functions

  @Override
  public Identifier[] listFunctions(String[] namespace) throws NoSuchNamespaceException {
    return ((FunctionCatalog) tables).listFunctions(namespace);
  }

  @Override
  public UnboundFunction loadFunction(Identifier name) throws NoSuchFunctionException {
    return ((FunctionCatalog) tables).loadFunction(name);
  }
}
