package icefloe;

import java.util.Collections;
import java.util.Map;
import org.apache.spark.SparkThrowable;

/** What Python refused, in its words. Spark passes its own errors on and hides others, so this is one of them; PySpark raises it as its IllegalArgumentException. */
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
