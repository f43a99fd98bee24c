package icefloe;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.function.BiFunction;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.plans.logical.WriteDelta;
import org.apache.spark.sql.execution.datasources.SaveIntoDataSourceCommand;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.CreatableRelationProvider;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.Platform;
import scala.Option;
import scala.collection.immutable.Map$;

/** A statement that runs when Spark executes it, and not while it plans or explains. */
final class SparkCommand implements CreatableRelationProvider {
  private final LogicalPlan statement;
  private final BiFunction python;
  private final String text;
  private final Throwable failure;

  /** What runs: a write whose rows Spark computes and Icefloe writes; a statement of which Spark knows nothing but the text; or what it was refused with, by an error that Spark's parser may not throw. */
  SparkCommand(LogicalPlan statement, BiFunction python, Throwable failure, String text) {
    this.statement = statement;
    this.python = python;
    this.failure = failure;
    this.text = text;
  }

  LogicalPlan plan() {
    LocalRelation nothing = new LocalRelation(PythonUtils.toSeq(new ArrayList()), PythonUtils.toSeq(new ArrayList()), false, scala.Option.empty());
    return new SaveIntoDataSourceCommand(nothing, this, Map$.MODULE$.empty(), SaveMode.Append);
  }

  public BaseRelation createRelation(SQLContext context, SaveMode mode, scala.collection.immutable.Map options, Dataset nothing) {
    if (failure != null) Platform.throwException(failure);
    if (statement instanceof WriteDelta) {
      run(context, new Object[] {((WriteDelta) statement).projections()});
    } else if (statement != null) {
      run(context, new Object[0]);
    } else {
      PythonBridge.ask(python, "run_statement", PythonBridge.json(Collections.singletonMap("text", text)));
    }
    return null;
  }

  /** The session and the query, whose rows Python may compute otherwise, and what else is known of them. */
  private void run(SQLContext context, Object[] more) {
    ArrayList given = new ArrayList(Arrays.asList(new Object[] {context.sparkSession(), ((V2WriteCommand) statement).query()}));
    given.addAll(Arrays.asList(more));
    writeOf(statement).ask("run", given);
  }

  /** What writes the rows of a plan; null where that is not Icefloe. */
  static PythonProxy writeOf(LogicalPlan plan) {
    PythonProxy found = null;
    for (int i = 0; i < plan.productArity() && found == null; i++) {
      Object part = plan.productElement(i);
      found = part instanceof Option && ((Option) part).isDefined() ? PythonProxy.behind(((Option) part).get()) : null;
    }
    return found;
  }

  public boolean supportsDataType(DataType type) {
    return true;
  }

  public String toString() {
    return "Icefloe: " + text;
  }
}
