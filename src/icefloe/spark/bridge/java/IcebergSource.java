package iceberg;

/** The format `iceberg`, the name of Java Iceberg's format, where its JAR is not in the JVM. */
public final class DefaultSource extends icefloe.DefaultSource {
  /** Returns the prefix of the session's options, `spark.datasource.iceberg.*` as in Java's Iceberg. */
  public String keyPrefix() {
    return "iceberg";
  }
}
