package icefloe.sparksuite;

import org.apache.spark.SparkContext;
import org.apache.spark.sql.test.TestSparkSession;

/** The session of one suite: Spark's own of its tests, in the context that Python started, which no suite ends. */
public final class SuiteSession extends TestSparkSession {
  SuiteSession(SparkContext context) {
    super(context);
  }

  @Override
  public void stop() {}
}
