package icefloe;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.util.TypeUtils$;
import org.apache.spark.sql.connector.expressions.LiteralValue;
import org.apache.spark.sql.types.DataType;
import scala.math.Ordering;

/** Rows that were read into the JVM, with methods that loop over them, because in Python each row would be a call through Py4J. */
public final class GatheredRows {
  private final InternalRow[] rows;

  public GatheredRows(InternalRow[] rows) {
    this.rows = rows;
  }

  public List list() {
    return Arrays.asList(rows);
  }

  public long bytes() {
    long bytes = 0;
    for (int i = 0; i < rows.length; i++) bytes += ((UnsafeRow) rows[i]).getSizeInBytes();
    return bytes;
  }

  /**
   * Evaluates a key for all rows. Returns an array with: the least value as a literal; the greatest value as a literal; JSON of these two and, if there are at most `most` distinct values, of
   * all of them; and whether some values are null.
   *
   * @param key an expression whose columns are bound to the rows by index
   * @param most the largest number of distinct values that are returned
   */
  public Object[] values(Expression key, int most) {
    DataType type = key.dataType();
    Ordering ordering = TypeUtils$.MODULE$.getInterpretedOrdering(type);
    HashSet distinct = new HashSet();
    Object least = null;
    Object greatest = null;
    boolean hasNull = false;
    for (int i = 0; i < rows.length; i++) {
      Object value = key.eval(rows[i]);
      hasNull = hasNull || value == null;
      if (value == null) continue;
      if (least == null || ordering.compare(value, least) < 0) least = value;
      if (greatest == null || ordering.compare(value, greatest) > 0) greatest = value;
      if (distinct.size() <= most) distinct.add(value);
    }
    ArrayList values = new ArrayList(Arrays.asList(new Object[] {least, greatest}));
    if (distinct.size() <= most) values.addAll(distinct);
    for (int i = 0; i < values.size(); i++) values.set(i, new LiteralValue(values.get(i), type));
    return new Object[] {new Literal(least, type), new Literal(greatest, type), ConnectorJson.json(values.toArray()), Boolean.valueOf(hasNull)};
  }
}
