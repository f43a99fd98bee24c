package icefloe;

import java.io.Serializable;
import java.math.BigInteger;
import java.time.LocalDate;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.connector.catalog.functions.Reducer;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

/**
 * Turns values of a partition transform into those of a coarser one, so that Spark joins tables with different but compatible partitions: buckets to a common divisor of their numbers, hours to days, and
 * times to months and years.
 */
public final class TransformReducer implements Reducer, Serializable {
  private static final List TIMES = Arrays.asList(new Object[] {"hours", "days", "months", "years"});

  private final String from;
  private final String to; // a transform of times; null for buckets
  private final int buckets;

  private TransformReducer(String from, String to, int buckets) {
    this.from = from;
    this.to = to;
    this.buckets = buckets;
  }

  /** Returns what turns values of `bucket(count, x)` into buckets that those of `bucket(otherCount, x)` can be turned into too; null where there is nothing to turn, or no such buckets. */
  static Reducer ofBuckets(Object function, int count, Object other, int otherCount) {
    if (!"bucket".equals(function) || !"bucket".equals(other)) return null;
    int divisor = BigInteger.valueOf(count).gcd(BigInteger.valueOf(otherCount)).intValue();
    return divisor == 1 || divisor == count ? null : new TransformReducer("bucket", null, divisor);
  }

  /** Returns what turns values of one transform of times into those of a coarser one; null where the other one is not coarser. */
  static Reducer ofTimes(Object function, Object other) {
    int place = TIMES.indexOf(function);
    return place < 0 || TIMES.indexOf(other) <= place ? null : new TransformReducer((String) function, (String) other, 0);
  }

  public Object reduce(Object value) {
    if (value == null) return null;
    int number = ((Number) value).intValue();
    if (to == null) return Integer.valueOf(number % buckets);
    if (from.equals("months")) return Integer.valueOf(Math.floorDiv(number, 12));
    int days = from.equals("hours") ? Math.floorDiv(number, 24) : number;
    if (to.equals("days")) return Integer.valueOf(days);
    LocalDate date = LocalDate.ofEpochDay(days);
    int years = date.getYear() - 1970;
    return Integer.valueOf(to.equals("years") ? years : 12 * years + date.getMonthValue() - 1);
  }

  public DataType resultType() {
    return "days".equals(to) ? DataTypes.DateType : DataTypes.IntegerType;
  }

  public String displayName() {
    return to == null ? "bucket(" + buckets + ")" : to;
  }
}
