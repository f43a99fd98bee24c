package icefloe;

import java.util.ArrayList;
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
import scala.collection.immutable.Map$;

/** A statement that runs when Spark executes it, and not while it plans or explains. */
final class SparkCommand implements CreatableRelationProvider {
  private final LogicalPlan statement;
  private final BiFunction python;
  private final String text;
  private final Throwable failure;

  /** A write whose rows Spark computes and Icefloe writes. */
  SparkCommand(LogicalPlan statement) {
    this.statement = statement;
    this.python = null;
    this.text = statement.nodeName();
    this.failure = null;
  }

  /** A statement of which Spark knows nothing but the text. */
  SparkCommand(BiFunction python, String text) {
    this.statement = null;
    this.python = python;
    this.text = text;
    this.failure = null;
  }

  /** A statement that was refused while it was parsed, by an error that Spark's parser may not throw. */
  SparkCommand(Throwable failure, String text) {
    this.statement = null;
    this.python = null;
    this.text = text;
    this.failure = failure;
  }

  LogicalPlan plan() {
    LocalRelation nothing = new LocalRelation(PythonUtils.toSeq(new ArrayList()), PythonUtils.toSeq(new ArrayList()), false, scala.Option.empty());
    return new SaveIntoDataSourceCommand(nothing, this, Map$.MODULE$.empty(), SaveMode.Append);
  }

  public BaseRelation createRelation(SQLContext context, SaveMode mode, scala.collection.immutable.Map options, Dataset nothing) {
    if (failure != null) Platform.throwException(failure);
    if (statement instanceof WriteDelta) {
      WriteDelta write = (WriteDelta) statement;
      ((SparkRowLevelOperation) write.write().get()).run(context.sparkSession(), write.query(), write.projections());
    } else if (statement != null) {
      SparkWriteBuilder.of(statement).run(context.sparkSession(), ((V2WriteCommand) statement).query());
    } else {
      Python.ask(python, "run_statement", Python.json(Collections.singletonMap("text", text)));
    }
    return null;
  }

  public boolean supportsDataType(DataType type) {
    return true;
  }

  public String toString() {
    return "Icefloe: " + text;
  }
}
