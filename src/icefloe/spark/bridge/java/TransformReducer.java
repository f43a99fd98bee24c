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
 * Converts values of a partition transform to values of a coarser transform, so that Spark joins tables with different but compatible partitions without a shuffle: buckets to fewer buckets, whose
 * number is a common divisor; and hours to days, and these to months and years.
 */
public final class TransformReducer implements Reducer, Serializable {
  private static final List TIMES = Arrays.asList(new Object[] {"hours", "days", "months", "years"});

  private final String from;
  private final String to; // the coarser transform of times; null for buckets
  private final int buckets;

  private TransformReducer(String from, String to, int buckets) {
    this.from = from;
    this.to = to;
    this.buckets = buckets;
  }

  /** Returns the reducer of `bucket(count, x)` to buckets to which `bucket(otherCount, x)` can be reduced too; null if nothing has to be reduced, or if there are no such buckets. */
  static Reducer ofBuckets(Object function, int count, Object other, int otherCount) {
    if (!"bucket".equals(function) || !"bucket".equals(other)) return null;
    int divisor = BigInteger.valueOf(count).gcd(BigInteger.valueOf(otherCount)).intValue();
    return divisor == 1 || divisor == count ? null : new TransformReducer("bucket", null, divisor);
  }

  /** Returns the reducer of one transform of times to another, coarser transform; null if the other transform is not coarser. */
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
