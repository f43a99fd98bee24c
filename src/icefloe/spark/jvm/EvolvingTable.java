package icefloe;

import java.util.function.BiFunction;
import org.apache.spark.sql.connector.catalog.SupportsSchemaEvolution;
import org.apache.spark.sql.connector.catalog.TableChange;

/** A table that tells which changes of columns a statement WITH SCHEMA EVOLUTION may make, where Spark asks that (4.2 and later). */
public final class EvolvingTable extends SparkTable implements SupportsSchemaEvolution {
  public EvolvingTable(BiFunction python) {
    super(python);
  }

  public boolean supportsColumnChange(TableChange.ColumnChange change) {
    return Boolean.TRUE.equals(Python.askJson(python, "takes_change", Plain.json(change)));
  }
}
