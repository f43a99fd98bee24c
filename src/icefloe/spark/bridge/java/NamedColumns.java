package icefloe;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.Metadata;

/**
 * Selects all columns of a DataFrame in one call; from Python each column would take several calls.
 *
 * The argument of the constructor is JSON with an entry for each column: its name in the DataFrame (quoted), its new name, and its metadata as JSON. A column without a name in the DataFrame
 * is the next one of `expressions`.
 */
public final class NamedColumns {
  private final ArrayList columns = new ArrayList();

  public NamedColumns(String names, List expressions) {
    Iterator remaining = expressions.iterator();
    Iterator each = ((List) PythonBridge.parsed(names)).iterator();
    while (each.hasNext()) {
      String[] name = PythonBridge.strings(each.next());
      Column column = name[0] == null ? (Column) remaining.next() : functions.col(name[0]);
      columns.add(column.as(name[1], Metadata.fromJson(name[2])));
    }
  }

  public Dataset of(Dataset rows) {
    return rows.select(PythonUtils.toSeq(columns));
  }
}
