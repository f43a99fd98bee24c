package icefloe;

import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractFunction2;
import scala.runtime.BoxedUnit;

/**
 * The extension that `spark.sql.extensions` names in a session that Icefloe starts. It puts Icefloe's parser in front of the parser of Spark, and adds the rule for statements that change rows, in
 * this session and in those that it creates.
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
    return BoxedUnit.UNIT;
  }
}
