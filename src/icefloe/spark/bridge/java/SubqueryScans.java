package icefloe;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.ScalarSubquery;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.trees.TreePattern$;
import org.apache.spark.sql.catalyst.types.DataTypeUtils$;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;

/**
 * A rule of Spark's optimizer that gives scans of the same files in several scalar subqueries the same columns, so that Spark's own rule, which runs later, merges subqueries that differ in what they
 * aggregate only. A scan of Icefloe has the columns that its subquery needs, and Spark merges equal scans only; a scan of a folder has all columns of its files at this point. Spark's planner reads no column that
 * the plan above does not use, whether or not the subqueries are merged.
 */
public final class SubqueryScans extends Rule {
  private static final String FIELD_ID = "parquet.field.id";

  /** Adds the rule to a session, and to those that share its extensions, unless it is there already. Spark creates the rules of the extensions for each query. */
  public static void install(SparkSession session) {
    SparkSessionExtensions extensions = ((org.apache.spark.sql.classic.SparkSession) session).extensions();
    scala.collection.Iterator present = extensions.buildPreCBORules(session).iterator();
    while (present.hasNext()) if (present.next() instanceof SubqueryScans) return;
    extensions.injectPreCBORule(
        new AbstractFunction1() {
          public Object apply(Object any) {
            return new SubqueryScans();
          }
        });
  }

  public TreeNode apply(TreeNode plan) {
    if (!plan.containsPattern(TreePattern$.MODULE$.SCALAR_SUBQUERY())) return plan;
    Relations relations = new Relations();
    ((LogicalPlan) plan).foreach(relations);
    IdentityHashMap replaced = relations.widened();
    return replaced.isEmpty() ? plan : (TreeNode) new Widening(replaced).apply(plan);
  }

  private static boolean isAlone(Object expression) {
    return expression instanceof ScalarSubquery && !((ScalarSubquery) expression).isCorrelated();
  }

  /** Collects the scans of planned files in the scalar subqueries of the plans to which it is applied, by what all scans must have alike that read the same rows. */
  private static final class Relations extends AbstractFunction1 {
    private final LinkedHashMap groups = new LinkedHashMap(); // lists of Together

    public Object apply(Object plan) {
      for (scala.collection.Iterator each = ((LogicalPlan) plan).expressions().iterator(); each.hasNext(); ) ((Expression) each.next()).foreach(new Subqueries());
      return null;
    }

    private final class Subqueries extends AbstractFunction1 {
      public Object apply(Object expression) {
        if (isAlone(expression)) ((LogicalPlan) ((ScalarSubquery) expression).plan()).foreach(new Scans());
        return null;
      }
    }

    private final class Scans extends AbstractFunction1 {
      public Object apply(Object plan) {
        Object relation = plan instanceof LogicalRelation ? ((LogicalRelation) plan).relation() : null;
        if (relation instanceof HadoopFsRelation && ((HadoopFsRelation) relation).location() instanceof PlannedFiles) add((LogicalRelation) plan, (HadoopFsRelation) relation);
        return null;
      }
    }

    private void add(LogicalRelation plan, HadoopFsRelation files) {
      FileFormat format = files.fileFormat();
      if (!(format instanceof ParquetById) && !(format instanceof SignedParquet)) return;
      Object rows = format instanceof SignedParquet ? ((SignedParquet) format).rows() : ParquetById.class;
      List key = Arrays.asList(new Object[] {files.location(), files.partitionSchema(), files.options(), files.sparkSession(), rows});
      List group = (List) groups.get(key);
      if (group == null) groups.put(key, group = new ArrayList());
      StructType columns = format instanceof SignedParquet ? ((SignedParquet) format).columns() : ((ParquetById) format).columns();
      Together together = null;
      for (int i = 0; together == null && i < group.size(); i++) if (((Together) group.get(i)).accepts(files.dataSchema(), columns)) together = (Together) group.get(i);
      if (together == null) group.add(together = new Together());
      together.add(plan, files.dataSchema(), columns);
    }

    /** Returns, for each scan that gets more columns, the plan that replaces it: the columns of the scan of those of all scans that are read together. */
    IdentityHashMap widened() {
      IdentityHashMap replaced = new IdentityHashMap();
      for (Iterator groupsOfFiles = groups.values().iterator(); groupsOfFiles.hasNext(); )
        for (Iterator each = ((List) groupsOfFiles.next()).iterator(); each.hasNext(); ) ((Together) each.next()).widen(replaced);
      return replaced;
    }
  }

  /** Scans of the same rows whose columns can be read together. */
  private static final class Together {
    private final ArrayList scans = new ArrayList(); // LogicalRelation
    private final Columns data = new Columns();
    private final Columns withIds = new Columns(); // the same columns, with the ids of fields inside
    private boolean haveIds; // whether one of the columns has fields with ids

    boolean accepts(StructType columns, StructType ids) {
      return data.accepts(columns) && withIds.accepts(ids == null ? columns : ids);
    }

    void add(LogicalRelation scan, StructType columns, StructType ids) {
      scans.add(scan);
      data.add(columns);
      withIds.add(ids == null ? columns : ids);
      haveIds |= ids != null;
    }

    /** Adds the plans that replace the scans, unless all have the same columns already. */
    void widen(IdentityHashMap replaced) {
      HadoopFsRelation first = (HadoopFsRelation) ((LogicalRelation) scans.get(0)).relation();
      boolean differ = false;
      for (int i = 0; i < scans.size(); i++) differ |= !((HadoopFsRelation) ((LogicalRelation) scans.get(i)).relation()).dataSchema().equals(first.dataSchema());
      if (!differ) return;
      FileFormat format = first.fileFormat() instanceof SignedParquet ? ((SignedParquet) first.fileFormat()).of(haveIds ? withIds.struct() : null) : new ParquetById(withIds.struct());
      HadoopFsRelation wide = FileScanStrategy.withFormat(first, data.struct(), format);
      for (int i = 0; i < scans.size(); i++) replaced.put(scans.get(i), columnsOf((LogicalRelation) scans.get(i), wide));
    }
  }

  /** Columns of several scans. A scan cannot have two columns whose names differ by case only, or that are one column of the files. */
  private static final class Columns {
    private final LinkedHashMap byName = new LinkedHashMap(); // StructField, by the name in lower case
    private final HashMap byId = new HashMap(); // the names in lower case

    /** Returns whether columns can be read together with those that are there. */
    boolean accepts(StructType columns) {
      boolean accepts = true;
      for (int i = 0; accepts && i < columns.length(); i++) {
        StructField column = columns.apply(i);
        Object present = byName.get(nameOf(column)), named = byId.get(idOf(column));
        accepts = (present == null || present.equals(column)) && (named == null || named.equals(nameOf(column)));
      }
      return accepts;
    }

    void add(StructType columns) {
      for (int i = 0; i < columns.length(); i++) {
        StructField column = columns.apply(i);
        byName.put(nameOf(column), column);
        if (idOf(column) != null) byId.put(idOf(column), nameOf(column));
      }
    }

    private static String nameOf(StructField column) {
      return column.name().toLowerCase(Locale.ROOT);
    }

    private static Long idOf(StructField column) {
      return column.metadata().contains(FIELD_ID) ? Long.valueOf(column.metadata().getLong(FIELD_ID)) : null;
    }

    StructType struct() {
      return new StructType((StructField[]) byName.values().toArray(new StructField[0]));
    }
  }

  private static LogicalPlan columnsOf(LogicalRelation plan, HadoopFsRelation wide) {
    HashMap own = new HashMap();
    for (scala.collection.Iterator each = plan.output().iterator(); each.hasNext(); ) {
      Attribute column = (Attribute) each.next();
      own.put(column.name(), column);
    }
    ArrayList output = new ArrayList();
    StructType columns = wide.schema();
    for (int i = 0; i < columns.length(); i++) {
      Object column = own.get(columns.apply(i).name());
      output.add(column == null ? DataTypeUtils$.MODULE$.toAttribute(columns.apply(i)) : column);
    }
    Seq attributes = PythonUtils.toSeq(output);
    Object[] parts = new Object[plan.productArity()];
    for (int i = 0; i < parts.length; i++) {
      Object part = plan.productElement(i);
      parts[i] = part == plan.relation() ? wide : part == plan.output() ? attributes : part;
    }
    return new Project(plan.output(), (LogicalPlan) plan.makeCopy(parts));
  }

  /** Replaces scans in the scalar subqueries of a plan. */
  private static final class Widening extends AbstractFunction1 {
    private final IdentityHashMap replaced; // plans, by the LogicalRelation that they replace

    Widening(IdentityHashMap replaced) {
      this.replaced = replaced;
    }

    public Object apply(Object node) {
      LogicalPlan plan = (LogicalPlan) ((LogicalPlan) node).mapChildren(this);
      return plan.mapExpressions(new Inside());
    }

    private final class Inside extends AbstractFunction1 {
      public Object apply(Object node) {
        Expression expression = (Expression) ((Expression) node).mapChildren(this);
        return isAlone(expression) ? ((ScalarSubquery) expression).withNewPlan((LogicalPlan) new Scans().apply(((ScalarSubquery) expression).plan())) : expression;
      }
    }

    private final class Scans extends AbstractFunction1 {
      public Object apply(Object plan) {
        Object other = replaced.get(plan);
        return other == null ? ((LogicalPlan) plan).mapChildren(this) : other;
      }
    }
  }
}
