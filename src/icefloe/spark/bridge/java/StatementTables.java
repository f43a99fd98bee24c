package icefloe;

import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.catalyst.analysis.AnalysisContext$;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import scala.collection.immutable.Seq;

/**
 * A rule of Spark's analyzer that runs before Spark resolves tables. It loads the tables of a statement with one call for each catalog, in their states at one moment. When Spark then loads the
 * tables one by one, `take` returns them. A table is returned at most once, and only in the thread and the analysis for which it was loaded. An analysis is identified by its cache of relations.
 */
public final class StatementTables extends Rule {
  private static final ThreadLocal LOADED = new ThreadLocal(); // the Loaded object of the last analysis with several tables in this thread
  private final SparkSession session;

  StatementTables(SparkSession session) {
    this.session = session;
  }

  /** The tables that were loaded for an analysis and have not been returned by `take` yet. */
  private static final class Loaded {
    final WeakReference analysis;
    final HashMap tables = new HashMap(); // the tables, by catalog and name
    final HashSet requested = new HashSet(); // the keys of these tables, of tables that `take` has returned, and of tables that could not be loaded together

    Loaded(Object analysis) {
      this.analysis = new WeakReference(analysis);
    }
  }

  /** Removes and returns a table that was loaded for the analysis that runs in this thread; null if it was not loaded or was returned before. */
  static Table take(String catalog, Identifier name) {
    Loaded loaded = (Loaded) LOADED.get();
    if (loaded == null) return null;
    if (loaded.analysis.get() == analysis()) return (Table) loaded.tables.remove(keyOf(catalog, name));
    LOADED.remove();
    return null;
  }

  private static Object analysis() {
    return AnalysisContext$.MODULE$.get().relationCache();
  }

  private static List keyOf(String catalog, Identifier name) {
    ArrayList key = new ArrayList(Arrays.asList(name.namespace()));
    key.add(name.name());
    key.add(catalog);
    return key;
  }

  public TreeNode apply(TreeNode plan) {
    // The names in a view are relative to the namespace of the view. Spark loads these tables one by one.
    if (!AnalysisContext$.MODULE$.get().catalogAndNamespace().isEmpty()) return plan;
    LinkedHashMap names = new LinkedHashMap(); // lists of Identifier objects, by SparkCatalog
    addNames((LogicalPlan) plan, new HashSet(), names);
    Iterator catalogs = names.entrySet().iterator();
    while (catalogs.hasNext()) {
      Map.Entry catalog = (Map.Entry) catalogs.next();
      load((SparkCatalog) catalog.getKey(), (List) catalog.getValue());
    }
    return plan;
  }

  private static void load(SparkCatalog catalog, List names) {
    Loaded loaded = (Loaded) LOADED.get();
    Object analysis = analysis();
    if (loaded == null || loaded.analysis.get() != analysis) {
      loaded = new Loaded(analysis);
      LOADED.set(loaded);
    }
    ArrayList missing = new ArrayList();
    for (int i = 0; i < names.size(); i++) if (loaded.requested.add(keyOf(catalog.key(), (Identifier) names.get(i)))) missing.add(names.get(i));
    Table[] tables = missing.size() < 2 ? null : catalog.loadTogether(missing);
    for (int i = 0; tables != null && i < tables.length; i++) loaded.tables.put(keyOf(catalog.key(), (Identifier) missing.get(i)), tables[i]);
  }

  /** Adds the names of Icefloe's tables in a plan and its subqueries. A table with a version or time is not added: it is not an UnresolvedRelation. */
  private void addNames(LogicalPlan plan, HashSet seen, Map names) {
    if (plan instanceof UnresolvedRelation) {
      Seq parts = ((UnresolvedRelation) plan).multipartIdentifier();
      if (seen.add(parts)) addName(parts, names);
    }
    for (int i = 0; i < plan.children().size(); i++) addNames((LogicalPlan) plan.children().apply(i), seen, names);
    for (int i = 0; i < plan.subqueries().size(); i++) addNames((LogicalPlan) plan.subqueries().apply(i), seen, names);
  }

  /** Adds a name to the names of its catalog. The catalog and namespace are found in the same way as Spark finds them. Names of other catalogs are not added. */
  private void addName(Seq parts, Map names) {
    CatalogManager manager = session.sessionState().catalogManager();
    int size = parts.size();
    if (size == 1 && session.sessionState().catalog().isTempView(parts)) return;
    boolean namesCatalog = size > 1 && manager.isCatalogRegistered((String) parts.apply(0));
    CatalogPlugin catalog = namesCatalog ? manager.catalog((String) parts.apply(0)) : manager.currentCatalog();
    if (catalog instanceof SparkSessionCatalog) catalog = ((SparkSessionCatalog) catalog).iceberg();
    if (!(catalog instanceof SparkCatalog)) return;
    ArrayList namespace = new ArrayList(size == 1 ? Arrays.asList(manager.currentNamespace()) : new ArrayList());
    for (int i = namesCatalog ? 1 : 0; i < size - 1; i++) namespace.add(parts.apply(i));
    Identifier name = Identifier.of((String[]) namespace.toArray(new String[0]), (String) parts.apply(size - 1));
    List ofCatalog = (List) names.get(catalog);
    if (ofCatalog == null) names.put(catalog, ofCatalog = new ArrayList());
    if (!ofCatalog.contains(name)) ofCatalog.add(name);
  }
}
