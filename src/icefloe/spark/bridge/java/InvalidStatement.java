package icefloe;

import java.util.Collections;
import java.util.Map;
import org.apache.spark.SparkThrowable;

/** An error of Python for which Spark has no exception. It is a SparkThrowable, because Spark wraps exceptions of other types. PySpark raises it as IllegalArgumentException. */
public class InvalidStatement extends IllegalArgumentException implements SparkThrowable {
  public InvalidStatement(String message, Throwable cause) {
    super(message, cause);
  }

  public String getErrorClass() {
    return getCondition();
  }

  public String getCondition() {
    return getCause() instanceof SparkThrowable ? ((SparkThrowable) getCause()).getCondition() : null;
  }

  public Map getMessageParameters() {
    return getCause() instanceof SparkThrowable ? ((SparkThrowable) getCause()).getMessageParameters() : Collections.EMPTY_MAP;
  }
}
