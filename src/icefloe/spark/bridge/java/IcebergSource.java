package iceberg;

import org.apache.spark.sql.sources.DataSourceRegister;

/** The format `iceberg`, for JVMs without the JAR of Java's Iceberg, which has a format of this name. Spark finds a registered name in any letter case. */
public final class DefaultSource extends icefloe.DefaultSource implements DataSourceRegister {
  public String shortName() {
    return "iceberg";
  }

  /** Returns the prefix of the session's options, `spark.datasource.iceberg.*` as in Java's Iceberg. */
  public String keyPrefix() {
    return "iceberg";
  }
}
