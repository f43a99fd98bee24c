package icefloe;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.RowOrdering$;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression$;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.plans.Inner$;
import org.apache.spark.sql.catalyst.plans.LeftAnti$;
import org.apache.spark.sql.catalyst.plans.LeftSemi$;
import org.apache.spark.sql.catalyst.plans.RightOuter$;
import org.apache.spark.sql.catalyst.plans.logical.BROADCAST$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.HintInfo;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.JoinHint;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeRows;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.util.TypeUtils$;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.expressions.FieldReference;
import org.apache.spark.sql.connector.expressions.LiteralValue;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import scala.Option;
import scala.math.Ordering;
import scala.runtime.AbstractFunction1;

/**
 * The rows of a MERGE whose source is small, computed otherwise: the source is read first, once, and stays here. Then only those rows of the target take part in the join that
 * match one of it, which Spark tests while it scans, and only files are read that may have such rows. Rows of the target that match nothing must not be wanted.
 */
final class GatheredSource {
  private final SparkSession session;
  private final SparkTable table;
  private Join join;
  private LogicalPlan given; // the side of the source
  private LogicalPlan changed; // the side of the target
  private DataSourceV2ScanRelation target;
  private Map most; // what Python says of how the source is read

  private GatheredSource(SparkSession session, SparkTable table) {
    this.session = session;
    this.table = table;
  }

  /** Whether the rows to append are those of a source that match none of a table's, as where a MERGE only inserts. */
  static boolean isOfInserts(LogicalPlan query) {
    return new GatheredSource(null, null).finds(query, true);
  }

  /** The query of a MERGE, or of one that only inserts, changed where its source is small. */
  static LogicalPlan in(SparkSession session, SparkTable table, LogicalPlan query, boolean onlyInserts) {
    GatheredSource found = new GatheredSource(session, table);
    return found.finds(query, onlyInserts) ? found.changed(query) : query;
  }

  private boolean finds(LogicalPlan query, boolean onlyInserts) {
    LogicalPlan plan = query;
    boolean merges = onlyInserts;
    while (plan instanceof Project || plan instanceof Filter || plan instanceof MergeRows) {
      merges = merges || plan instanceof MergeRows;
      plan = below(plan);
    }
    if (!merges || !(plan instanceof Join)) return false;
    join = (Join) plan;
    boolean isKnown = onlyInserts ? join.joinType() == LeftAnti$.MODULE$ : join.joinType() == Inner$.MODULE$ || join.joinType() == RightOuter$.MODULE$;
    if (!isKnown) return false;
    given = onlyInserts ? join.left() : join.right();
    changed = onlyInserts ? join.right() : join.left();
    plan = changed;
    while (plan instanceof Project || plan instanceof Filter) plan = below(plan);
    if (!(plan instanceof DataSourceV2ScanRelation) || !(((DataSourceV2ScanRelation) plan).scan() instanceof SparkScan)) return false;
    target = (DataSourceV2ScanRelation) plan;
    return join.condition().isDefined() && isTestedWhileScanning();
  }

  /** Whether the columns of the target that the condition names are those of its scan, and some of it is an equality by which rows can be looked up. */
  private boolean isTestedWhileScanning() {
    Expression condition = (Expression) join.condition().get();
    if (!condition.deterministic() || SubqueryExpression$.MODULE$.hasSubquery(condition)) return false;
    boolean known = condition.references().subsetOf(target.outputSet().$plus$plus(given.outputSet()));
    return known && !keys(condition, new ArrayList()).isEmpty();
  }

  /** The equalities of the condition as pairs: the target's side, the source's side, and whether nulls are equal. */
  private ArrayList keys(Expression condition, ArrayList found) {
    if (condition instanceof And) {
      keys(((And) condition).left(), found);
      keys(((And) condition).right(), found);
    } else if (condition instanceof EqualTo) {
      pair(((EqualTo) condition).left(), ((EqualTo) condition).right(), false, found);
    } else if (condition instanceof EqualNullSafe) {
      pair(((EqualNullSafe) condition).left(), ((EqualNullSafe) condition).right(), true, found);
    }
    return found;
  }

  private void pair(Expression one, Expression other, boolean nullsAreEqual, ArrayList found) {
    if (isOf(changed, one) && isOf(given, other)) found.add(new Object[] {one, other, Boolean.valueOf(nullsAreEqual)});
    else if (isOf(given, one) && isOf(changed, other)) found.add(new Object[] {other, one, Boolean.valueOf(nullsAreEqual)});
  }

  private static boolean isOf(LogicalPlan side, Expression key) {
    return !key.references().isEmpty() && key.references().subsetOf(side.outputSet());
  }

  private LogicalPlan changed(LogicalPlan query) {
    InternalRow[] gathered = gathered();
    if (gathered == null) return query;
    JavaSparkContext context = JavaSparkContext.fromSparkContext(session.sparkContext());
    JavaRDD rows = context.parallelize(Arrays.asList(gathered), Math.min(1 + gathered.length / most("task_rows"), context.defaultParallelism()));
    LogicalPlan source = SparkRule.named(plan(rows), given.output());
    LogicalPlan narrowed = narrowed(gathered);
    Option condition = join.condition();
    JoinHint hint = join.hint();
    if (join.joinType() == Inner$.MODULE$) {
      hint = new JoinHint(hint.leftHint(), broadcast());
    } else {
      // Such a join cannot send the source to where the target is read; a semi join before it can.
      LogicalPlan again = plan(rows);
      HashMap names = new HashMap();
      for (int i = 0; i < again.output().size(); i++) names.put(((Attribute) given.output().apply(i)).exprId(), again.output().apply(i));
      Option test = Option.apply(new Put(names).apply(condition.get()));
      narrowed = new Join(narrowed, again, LeftSemi$.MODULE$, test, new JoinHint(Option.empty(), broadcast()));
    }
    LogicalPlan matching = (LogicalPlan) new Replaced(target, narrowed).apply(changed);
    boolean onlyInserts = given == join.left();
    Join better = new Join(onlyInserts ? source : matching, onlyInserts ? matching : source, join.joinType(), condition, hint);
    return (LogicalPlan) new Replaced(join, better).apply(query);
  }

  private static Option broadcast() {
    return Option.apply(new HintInfo(Option.apply(BROADCAST$.MODULE$)));
  }

  /** Rows of the source in a plan, under new ids. Spark's plan of local rows would be gone through, row by row, by every rule of its optimizer. */
  private LogicalPlan plan(JavaRDD rows) {
    return session.internalCreateDataFrame(rows.rdd(), given.schema(), false).queryExecution().analyzed();
  }

  /** The source's rows; null where Python wants none of them here, or not so many. How large they are is known when the first are read. */
  private InternalRow[] gathered() {
    LinkedHashMap size = new LinkedHashMap();
    size.put("bytes", given.stats().sizeInBytes().bigInteger());
    size.put("width", Integer.valueOf(given.schema().defaultSize()));
    most = (Map) Python.askJson(table.python, "gathering", Python.json(size));
    int first = most("first_rows");
    long bytes = most("bytes");
    if (first == 0) return null;
    SparkPlan reading = Dataset$.MODULE$.ofRows(session, given).queryExecution().executedPlan();
    InternalRow[] rows = reading.executeTake(first + 1);
    if (rows.length <= first) return size(rows) <= bytes ? rows : null;
    int more = (int) (bytes * rows.length / size(rows));
    if (more <= first) return null;
    rows = reading.executeTake(more + 1);
    return rows.length <= more && size(rows) <= bytes ? rows : null;
  }

  private long size(InternalRow[] rows) {
    long bytes = 0;
    for (int i = 0; i < rows.length; i++) bytes += ((UnsafeRow) rows[i]).getSizeInBytes() + most("row_bytes");
    return bytes;
  }

  private int most(String what) {
    return ((Number) most.get(what)).intValue();
  }

  /** The target's scan without files and row groups in which no key of the source can be. */
  private LogicalPlan narrowed(InternalRow[] rows) {
    ArrayList told = new ArrayList();
    Expression filter = null;
    ArrayList keys = keys((Expression) join.condition().get(), new ArrayList());
    for (int i = 0; i < keys.size(); i++) {
      Object[] key = (Object[]) keys.get(i);
      boolean isColumn = key[0] instanceof AttributeReference && target.outputSet().contains((AttributeReference) key[0]);
      if (!isColumn || !((Expression) key[0]).dataType().equals(((Expression) key[1]).dataType())) continue;
      Values values = new Values(given, rows, (Expression) key[1], most("listed"));
      if (values.least == null || (values.hasNull && ((Boolean) key[2]).booleanValue())) continue;
      told.addAll(values.predicates(((AttributeReference) key[0]).name()));
      Expression bounds = values.bounds((Expression) key[0]);
      filter = filter == null ? bounds : new And(filter, bounds);
    }
    if (filter == null) return target;
    SparkScan scan = ((SparkScan) target.scan()).narrowed((Predicate[]) told.toArray(new Predicate[0]));
    Object[] parts = new Object[target.productArity()];
    for (int i = 0; i < parts.length; i++) parts[i] = target.productElement(i) == target.scan() ? scan : target.productElement(i);
    return new Filter(filter, (LogicalPlan) target.makeCopy(parts));
  }

  private static LogicalPlan below(LogicalPlan plan) {
    return (LogicalPlan) plan.children().apply(0);
  }

  /** What a key is in the rows of the source. */
  private static final class Values {
    private final org.apache.spark.sql.types.DataType type;
    private final HashSet listed = new HashSet();
    private final int most; // of them
    private Object least;
    private Object greatest;
    private boolean hasNull;

    Values(LogicalPlan source, InternalRow[] rows, Expression key, int most) {
      this.most = most;
      type = key.dataType();
      if (!RowOrdering$.MODULE$.isOrderable(type)) return;
      HashMap places = new HashMap();
      for (int i = 0; i < source.output().size(); i++) {
        Attribute column = (Attribute) source.output().apply(i);
        places.put(column.exprId(), new BoundReference(i, column.dataType(), true));
      }
      Expression bound = (Expression) new Put(places).apply(key);
      Ordering ordering = TypeUtils$.MODULE$.getInterpretedOrdering(type);
      for (int i = 0; i < rows.length; i++) {
        Object value = bound.eval(rows[i]);
        if (value == null) {
          hasNull = true;
          continue;
        }
        if (least == null || ordering.compare(value, least) < 0) least = value;
        if (greatest == null || ordering.compare(value, greatest) > 0) greatest = value;
        if (listed.size() <= most) listed.add(value);
      }
    }

    Expression bounds(Expression column) {
      return new And(new GreaterThanOrEqual(column, new Literal(least, type)), new LessThanOrEqual(column, new Literal(greatest, type)));
    }

    ArrayList predicates(String column) {
      ArrayList found = new ArrayList();
      if (listed.size() <= most) {
        org.apache.spark.sql.connector.expressions.Expression[] all = new org.apache.spark.sql.connector.expressions.Expression[listed.size() + 1];
        all[0] = FieldReference.column(column);
        Iterator values = listed.iterator();
        for (int i = 1; i < all.length; i++) all[i] = new LiteralValue(values.next(), type);
        found.add(new Predicate("IN", all));
      } else {
        found.add(test(">=", column, least));
        found.add(test("<=", column, greatest));
      }
      return found;
    }

    private Predicate test(String name, String column, Object value) {
      org.apache.spark.sql.connector.expressions.Expression[] sides = new org.apache.spark.sql.connector.expressions.Expression[2];
      sides[0] = FieldReference.column(column);
      sides[1] = new LiteralValue(value, type);
      return new Predicate(name, sides);
    }
  }

  /** Other expressions for columns, by their ids. */
  private static final class Put extends AbstractFunction1 {
    private final HashMap others;

    Put(HashMap others) {
      this.others = others;
    }

    public Object apply(Object node) {
      Object other = node instanceof AttributeReference ? others.get(((AttributeReference) node).exprId()) : null;
      return other == null ? ((Expression) node).mapChildren(this) : other;
    }
  }

  /** A plan with one part of it replaced. */
  private static final class Replaced extends AbstractFunction1 {
    private final LogicalPlan part;
    private final LogicalPlan other;

    Replaced(LogicalPlan part, LogicalPlan other) {
      this.part = part;
      this.other = other;
    }

    public Object apply(Object node) {
      return node == part ? other : ((LogicalPlan) node).mapChildren(this);
    }
  }
}
