package icefloe;

import java.util.Arrays;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.SessionConfigSupport;
import org.apache.spark.sql.connector.catalog.SupportsCatalogOptions;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The format `icefloe`, which Spark finds by the name of this class. Python converts the options to the names of a catalog and a table in it. */
public class DefaultSource implements SupportsCatalogOptions, SessionConfigSupport {
  public String keyPrefix() {
    return "icefloe";
  }

  public String extractCatalog(CaseInsensitiveStringMap options) {
    return name(options)[0];
  }

  public Identifier extractIdentifier(CaseInsensitiveStringMap options) {
    String[] name = name(options);
    return PythonBridge.identifier((String[]) Arrays.copyOfRange(name, 1, name.length));
  }

  private static String[] name(CaseInsensitiveStringMap options) {
    Object[] arguments = new Object[] {ConnectorJson.json(options), SparkSession.active()};
    return PythonBridge.strings(PythonBridge.callForJson(PythonBridge.registered("formats"), "table", Arrays.asList(arguments)));
  }

  public Optional extractTimeTravelVersion(CaseInsensitiveStringMap options) {
    return Optional.ofNullable(options.get("versionAsOf"));
  }

  public Optional extractTimeTravelTimestamp(CaseInsensitiveStringMap options) {
    return Optional.ofNullable(options.get("timestampAsOf"));
  }

  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return new StructType();
  }

  /** Refuses tables that Spark loads without a catalog, such as those of streaming queries. */
  public Table getTable(StructType schema, Transform[] partitioning, Map properties) {
    Object path = properties.get("path");
    throw new UnsupportedOperationException((path == null ? "a table of the format icefloe" : path) + " cannot be a stream\n  Next: read it with spark.read and write it with df.write, in a stream's foreachBatch for example");
  }
}
