package icefloe;

import java.util.Collections;
import java.util.Map;
import org.apache.spark.SparkThrowable;

/** An error in Python for which Spark has no exception. Spark passes each SparkThrowable on and wraps other exceptions; PySpark raises this one as IllegalArgumentException. */
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
