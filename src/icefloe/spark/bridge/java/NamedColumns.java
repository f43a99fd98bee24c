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
 * Columns of a DataFrame in one call, however many there are: from Python each would take several.
 *
 * `said` is JSON: of each column its name in the DataFrame (quoted), the one it gets and its metadata (JSON too). One without a name there is the next of `made`.
 */
public final class NamedColumns {
  private final ArrayList columns = new ArrayList();

  public NamedColumns(String said, List made) {
    Iterator left = made.iterator();
    Iterator each = ((List) PythonBridge.parsed(said)).iterator();
    while (each.hasNext()) {
      String[] one = PythonBridge.strings(each.next());
      Column column = one[0] == null ? (Column) left.next() : functions.col(one[0]);
      columns.add(column.as(one[1], Metadata.fromJson(one[2])));
    }
  }

  public Dataset of(Dataset rows) {
    return rows.select(PythonUtils.toSeq(columns));
  }
}
