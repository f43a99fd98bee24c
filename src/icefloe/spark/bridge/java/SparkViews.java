package icefloe;

import java.lang.reflect.Constructor;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.analysis.CTESubstitution$;
import org.apache.spark.sql.catalyst.analysis.UnresolvedFunction;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.catalog.CatalogStorageFormat$;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTable$;
import org.apache.spark.sql.catalyst.catalog.CatalogTableType$;
import org.apache.spark.sql.catalyst.catalog.SessionCatalog;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.View;
import org.apache.spark.sql.connector.catalog.V1Table;
import org.apache.spark.sql.internal.SessionState;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Some;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;

/** Converts views to relations of Spark. Spark's analyzer then resolves the query in the view's catalog and namespace, without temporary objects, and its errors contain the name of the view. */
public final class SparkViews {
  private static final String PREFIX = "view.";

  private SparkViews() {}

  /** Returns the relation that the catalog returns for a view. If it is read, Spark runs the query of the view. */
  public static Object table(SessionState state, String json) throws Exception {
    return new V1Table(definition(state, (Map) PythonBridge.parsed(json)));
  }

  /** Returns the analyzed plan of the query of a new view. Its columns are the columns of the query. */
  public static Object plan(SessionState state, String json) throws Exception {
    LogicalPlan relation = state.catalog().getRelation(definition(state, (Map) PythonBridge.parsed(json)), CaseInsensitiveStringMap.empty());
    LogicalPlan resolved = state.executePlan(relation, state.executePlan$default$2()).analyzed();
    while (!(resolved instanceof View)) resolved = (LogicalPlan) resolved.children().apply(0);
    LogicalPlan columns = (LogicalPlan) resolved.children().apply(0); // no columns are renamed, because the definition has no names of columns
    return columns.children().apply(0);
  }

  /** Returns the definition of a view. The parameters of CatalogTable differ between versions of Spark; parameters for which there is no value here get their defaults. */
  private static CatalogTable definition(SessionState state, Map view) throws Exception {
    List name = (List) view.get("name");
    String namespace = String.join(".", (String[]) name.subList(1, name.size() - 1).toArray(new String[0]));
    Map parameters = new HashMap();
    parameters.put(Integer.valueOf(1), new TableIdentifier((String) name.get(name.size() - 1), new Some(namespace), new Some(name.get(0))));
    parameters.put(Integer.valueOf(2), CatalogTableType$.MODULE$.VIEW());
    parameters.put(Integer.valueOf(3), CatalogStorageFormat$.MODULE$.empty());
    parameters.put(Integer.valueOf(4), DataType.fromJson((String) view.get("schema")));
    parameters.put(Integer.valueOf(12), PythonUtils.toScalaMap(properties(state, view)));
    parameters.put(Integer.valueOf(14), new Some(text(state, (String) view.get("query"), (String) view.get("alias"))));
    parameters.put(Integer.valueOf(22), new Some(PythonUtils.toSeq(name)));
    Constructor constructor = CatalogTable.class.getConstructors()[0];
    Object[] arguments = new Object[constructor.getParameterTypes().length];
    for (int i = 0; i < arguments.length; i++) {
      Object value = parameters.get(Integer.valueOf(i + 1));
      arguments[i] = value != null ? value : CatalogTable$.class.getMethod("$lessinit$greater$default$" + (i + 1), new Class[0]).invoke(CatalogTable$.MODULE$, new Object[0]);
    }
    return (CatalogTable) constructor.newInstance(arguments);
  }

  /** Returns the view's query; if its columns are matched by position, with an alias that has the names of the columns. A query that Spark cannot parse is returned unchanged, and refused later. */
  private static String text(SessionState state, String query, String alias) {
    if (alias == null) return query;
    try {
      state.sqlParser().parseQuery(query);
    } catch (Exception refused) {
      return query;
    }
    return "SELECT * FROM (\n" + query + "\n) AS " + alias;
  }

  /** Returns the properties of a view: the namespace in which names are resolved, the columns of the query, and the session's settings, for which Spark would otherwise use the defaults. */
  private static Map properties(SessionState state, Map view) {
    Map entries = new HashMap();
    scala.collection.Iterator settings = state.conf().getAllConfs().iterator();
    while (settings.hasNext()) {
      scala.Tuple2 setting = (scala.Tuple2) settings.next();
      entries.put(PREFIX + "sqlConfig." + setting._1(), setting._2());
    }
    for (int i = 0; i < ViewQueries.OFF.length; i++) entries.put(PREFIX + "sqlConfig." + ViewQueries.OFF[i], "false");
    entries.put(PREFIX + "schemaMode", "COMPENSATION");
    put(entries, "catalogAndNamespace.numParts", "catalogAndNamespace.part.", (List) view.get("place"));
    put(entries, "query.out.numCols", "query.out.col.", (List) view.get("columns"));
    return entries;
  }

  private static void put(Map properties, String count, String each, List values) {
    if (values == null) return;
    properties.put(PREFIX + count, String.valueOf(values.size()));
    for (int i = 0; i < values.size(); i++) properties.put(PREFIX + each + i, values.get(i));
  }

  /** Returns the views that an analyzed plan reads, as JSON: for each view its name, and in the same format the views that its query reads. */
  public static String views(LogicalPlan plan) {
    ArrayList list = new ArrayList();
    collectViews(plan, list);
    return PythonBridge.json(list);
  }

  private static void collectViews(LogicalPlan plan, List list) {
    List reads = list;
    if (plan instanceof View) {
      LinkedHashMap view = new LinkedHashMap();
      reads = new ArrayList();
      view.put("name", texts(((View) plan).desc().identifier().nameParts()));
      view.put("reads", reads);
      list.add(view);
    }
    Iterator inner = subqueries(plan).iterator();
    while (inner.hasNext()) collectViews((LogicalPlan) inner.next(), reads);
    for (int i = 0; i < plan.children().size(); i++) collectViews((LogicalPlan) plan.children().apply(i), reads);
  }

  /** Returns the temporary views and the temporary functions of a session that a query uses, as a JSON array of two lists of names. */
  public static String temporary(SessionState state, LogicalPlan parsed) {
    LinkedHashSet views = new LinkedHashSet();
    LinkedHashSet functions = new LinkedHashSet();
    collectTemporary(state.catalog(), (LogicalPlan) CTESubstitution$.MODULE$.apply(parsed), views, functions);
    return PythonBridge.json(Arrays.asList(new Object[] {views, functions}));
  }

  private static void collectTemporary(final SessionCatalog catalog, LogicalPlan plan, LinkedHashSet views, final LinkedHashSet functions) {
    if (plan instanceof UnresolvedRelation && catalog.isTempView(((UnresolvedRelation) plan).multipartIdentifier())) {
      views.add(texts(((UnresolvedRelation) plan).multipartIdentifier()));
    }
    visit(
        plan,
        new AbstractFunction1() {
          public Object apply(Object expression) {
            if (expression instanceof UnresolvedFunction) {
              List name = texts(((UnresolvedFunction) expression).nameParts());
              if (name.size() == 1 && catalog.isTemporaryFunction(new FunctionIdentifier((String) name.get(0)))) functions.add(name);
            }
            return null;
          }
        });
    Iterator inner = subqueries(plan).iterator();
    while (inner.hasNext()) collectTemporary(catalog, (LogicalPlan) inner.next(), views, functions);
    for (int i = 0; i < plan.children().size(); i++) collectTemporary(catalog, (LogicalPlan) plan.children().apply(i), views, functions);
  }

  private static List subqueries(LogicalPlan plan) {
    final ArrayList plans = new ArrayList();
    visit(
        plan,
        new AbstractFunction1() {
          public Object apply(Object expression) {
            if (expression instanceof SubqueryExpression) plans.add(((SubqueryExpression) expression).plan());
            return null;
          }
        });
    for (int i = 0; i < plan.innerChildren().size(); i++) if (plan.innerChildren().apply(i) instanceof LogicalPlan) plans.add(plan.innerChildren().apply(i));
    return plans;
  }

  private static void visit(LogicalPlan plan, AbstractFunction1 visitor) {
    Seq expressions = plan.expressions();
    for (int i = 0; i < expressions.size(); i++) ((Expression) expressions.apply(i)).foreach(visitor);
  }

  private static List texts(Seq parts) {
    ArrayList list = new ArrayList();
    for (int i = 0; i < parts.size(); i++) list.add(parts.apply(i));
    return list;
  }
}
