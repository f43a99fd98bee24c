package iceberg;

/** The same under the name that Java's format has, where Java's is not there. */
public final class DefaultSource extends icefloe.DefaultSource {
  /** Options of the session are `spark.datasource.iceberg.*`, as in Java. */
  public String keyPrefix() {
    return "iceberg";
  }
}
