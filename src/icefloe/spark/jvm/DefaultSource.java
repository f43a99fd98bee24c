package icefloe;

import java.util.Arrays;
import java.util.Map;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.SessionConfigSupport;
import org.apache.spark.sql.connector.catalog.SupportsCatalogOptions;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The format `icefloe`, which Spark finds by the name of this class: a table of a catalog, which Python names by the options. */
public class DefaultSource implements SupportsCatalogOptions, SessionConfigSupport {
  public String keyPrefix() {
    return "icefloe";
  }

  public String extractCatalog(CaseInsensitiveStringMap options) {
    return name(options)[0];
  }

  public Identifier extractIdentifier(CaseInsensitiveStringMap options) {
    String[] name = name(options);
    return Python.identifier((String[]) Arrays.copyOfRange(name, 1, name.length));
  }

  private static String[] name(CaseInsensitiveStringMap options) {
    Object[] asked = new Object[] {Plain.json(options), SparkSession.active()};
    return Python.strings(Python.askJson(Python.registered("formats"), "table", Arrays.asList(asked)));
  }

  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return new StructType();
  }

  public Table getTable(StructType schema, Transform[] partitioning, Map properties) {
    throw new UnsupportedOperationException("tables of Icefloe come from its catalogs");
  }
}
