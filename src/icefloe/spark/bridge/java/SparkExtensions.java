package icefloe;

import java.lang.reflect.Field;
import java.util.ArrayList;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.analysis.Analyzer;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.rules.Rule;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractFunction2;
import scala.runtime.BoxedUnit;

/**
 * The extension in `spark.sql.extensions` of sessions that Icefloe starts. In the session, and in sessions that are created from it, it puts Icefloe's parser in front of Spark's parser, and adds
 * the rules for statements that change rows and for loading the tables of a statement together.
 */
public final class SparkExtensions extends AbstractFunction1 {
  public Object apply(Object extensions) {
    ((SparkSessionExtensions) extensions)
        .injectParser(
            new AbstractFunction2() {
              public Object apply(Object session, Object parser) {
                return SparkParser.inject((SparkSession) session, (ParserInterface) parser);
              }
            });
    ((SparkSessionExtensions) extensions)
        .injectPostHocResolutionRule(
            new AbstractFunction1() {
              public Object apply(Object session) {
                return new RowStatementRule();
              }
            });
    ((SparkSessionExtensions) extensions)
        .injectHintResolutionRule(
            new AbstractFunction1() {
              public Object apply(Object session) {
                return new StatementTables((org.apache.spark.sql.classic.SparkSession) session);
              }
            });
    ((SparkSessionExtensions) extensions)
        .injectColumnar(
            new AbstractFunction1() {
              public Object apply(Object session) {
                return new MetricsRule.Last();
              }
            });
    return BoxedUnit.UNIT;
  }

  /** Adds the rules to the analyzer of a running session, unless it has them already. Spark has no interface for this. */
  static void addRules(Analyzer analyzer, SparkSession session) throws Exception {
    add(analyzer, "postHocResolutionRules", new RowStatementRule());
    add(analyzer, "hintResolutionRules", new StatementTables((org.apache.spark.sql.classic.SparkSession) session));
  }

  private static void add(Analyzer analyzer, String rules, Rule added) throws Exception {
    Field field = analyzer.getClass().getDeclaredField(rules);
    field.setAccessible(true);
    ArrayList all = new ArrayList();
    Iterator present = ((Seq) field.get(analyzer)).iterator();
    while (present.hasNext()) {
      Object rule = present.next();
      if (rule.getClass() == added.getClass()) return;
      all.add(rule);
    }
    all.add(added);
    field.set(analyzer, PythonUtils.toSeq(all));
  }
}
