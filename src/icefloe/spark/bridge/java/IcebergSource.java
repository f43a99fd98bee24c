package iceberg;

import org.apache.spark.sql.sources.DataSourceRegister;

/** The format `iceberg`, the name of Java Iceberg's format, where its JAR is not in the JVM. Spark finds a registered name in any case of letters. */
public final class DefaultSource extends icefloe.DefaultSource implements DataSourceRegister {
  public String shortName() {
    return "iceberg";
  }

  /** Returns the prefix of the session's options, `spark.datasource.iceberg.*` as in Java's Iceberg. */
  public String keyPrefix() {
    return "iceberg";
  }
}
