package icefloe;

import java.util.Arrays;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.SessionConfigSupport;
import org.apache.spark.sql.connector.catalog.SupportsCatalogOptions;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
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

  /** Returns the table of a stream, which Spark loads without a catalog. */
  public Table getTable(StructType schema, Transform[] partitioning, Map properties) {
    CaseInsensitiveStringMap options = new CaseInsensitiveStringMap(properties);
    String[] name = name(options);
    CatalogPlugin catalog = ((org.apache.spark.sql.classic.SparkSession) SparkSession.active()).sessionState().catalogManager().catalog(name[0]);
    Identifier table = PythonBridge.identifier((String[]) Arrays.copyOfRange(name, 1, name.length));
    try {
      if (!"changes".equalsIgnoreCase(options.get("read.mode"))) return ((TableCatalog) catalog).loadTable(table);
      return (catalog instanceof SparkSessionCatalog ? ((SparkSessionCatalog) catalog).iceberg() : (SparkCatalog) catalog).changes(table);
    } catch (NoSuchTableException error) {
      throw PythonBridge.unchecked(error);
    }
  }
}
