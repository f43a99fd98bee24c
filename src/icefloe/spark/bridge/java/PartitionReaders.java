package icefloe;

import java.util.ArrayList;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.StructType;
import scala.Function1;

/**
 * Creates the readers of splits. For each group of files it has a function of Spark's file format, which returns the rows or batches of a file, and the indexes of the scan's columns in them.
 * Executors need this class.
 */
public final class PartitionReaders implements PartitionReaderFactory {
  private final Function1[] groups;
  private final int[][] places;
  private final StructType columns;
  private final boolean returnsBatches;

  public PartitionReaders(Function1[] groups, int[][] places, StructType columns, boolean returnsBatches) {
    this.groups = groups;
    this.places = places;
    this.columns = columns;
    this.returnsBatches = returnsBatches;
  }

  public PartitionReader createReader(InputPartition split) {
    int group = ((PartitionSplit) split).group();
    ArrayList values = new ArrayList();
    for (int i = 0; i < places[group].length; i++) values.add(new BoundReference(places[group][i], columns.apply(i).dataType(), true));
    return new SplitReader(groups[group], (PartitionSplit) split, places[group], UnsafeProjection.create(PythonUtils.toSeq(values)));
  }

  public PartitionReader createColumnarReader(InputPartition split) {
    int group = ((PartitionSplit) split).group();
    return new SplitReader(groups[group], (PartitionSplit) split, places[group], null);
  }

  public boolean supportColumnarReads(InputPartition split) {
    return returnsBatches;
  }
}
