package icefloe.sparksuite;

import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.InMemoryRowLevelOperationTableCatalog;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.expressions.Transform;

/** Icefloe's catalog with the type of the catalog in memory that Spark's suites use as theirs. */
public final class IcebergCatalog extends InMemoryRowLevelOperationTableCatalog {
  private final TableCatalog catalog;
  private final String mode;

  /** `mode` is how tables made by it change rows: `copy-on-write` or `merge-on-read`. */
  IcebergCatalog(TableCatalog catalog, String mode) {
    this.catalog = catalog;
    this.mode = mode;
  }

  @Override
  public Table createTable(Identifier name, TableInfo table) {
    return createTable(name, table.columns(), table.partitions(), table.properties());
  }

  @Override
  public Table createTable(Identifier name, Column[] columns, Transform[] partitions, Map<String, String> properties) {
    Map<String, String> all = new HashMap<>();
    all.put("format-version", "3");
    for (String operation : new String[] {"delete", "update", "merge"}) {
      all.put("write." + operation + ".mode", mode);
    }
    properties.forEach((key, value) -> all.put(key, value));
    try {
      return catalog.createTable(name, columns, partitions, all);
    } catch (Exception error) {
      throw new IllegalStateException(error);
    }
  }

  @Override
  public Table loadTable(Identifier name) {
    try {
      return catalog.loadTable(name);
    } catch (Exception error) {
      throw new IllegalStateException(error);
    }
  }

  @Override
  public Table alterTable(Identifier name, TableChange... changes) {
    try {
      return catalog.alterTable(name, changes);
    } catch (Exception error) {
      throw new IllegalStateException(error);
    }
  }

  @Override
  public boolean dropTable(Identifier name) {
    return catalog.dropTable(name);
  }

  @Override
  public boolean tableExists(Identifier name) {
    return catalog.tableExists(name);
  }
}
