package icefloe;

import java.util.ArrayList;
import org.apache.spark.TaskContext;
import org.apache.spark.api.python.BasePythonRunner;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import scala.collection.Iterator;

/** Returns the batches of a split that a Python worker reads. When the task ends, Spark's runner of the worker keeps the worker for further tasks if all batches were read, and ends it otherwise. */
final class PythonBatches implements PartitionReader {
  private final Iterator batches;
  private final StructType columns;
  private ColumnarBatch batch;

  PythonBatches(BasePythonRunner runner, byte[] tasks, StructType columns) {
    this.columns = columns;
    TaskContext context = TaskContext.get();
    this.batches = runner.compute(one(one(row(row(tasks)))), context.partitionId(), context);
  }

  private static GenericInternalRow row(Object value) {
    return new GenericInternalRow(new Object[] {value});
  }

  private static Iterator one(Object value) {
    ArrayList values = new ArrayList(1);
    values.add(value);
    return PythonUtils.toSeq(values).iterator();
  }

  public boolean next() {
    while (batches.hasNext()) {
      ColumnarBatch read = (ColumnarBatch) batches.next();
      if (read.numRows() == 0) continue;
      ColumnVector[] copies = new ColumnVector[columns.length()];
      for (int i = 0; i < copies.length; i++) {
        ArrowColumnVector vector = ((ArrowColumnVector) read.column(0)).getChild(i);
        copies[i] = new CopiedColumn(vector.getValueVector(), read.numRows(), columns.apply(i).dataType(), columns.apply(i).name());
      }
      batch = new ColumnarBatch(copies, read.numRows());
      return true;
    }
    batch = null;
    return false;
  }

  public Object get() {
    return batch;
  }

  public void close() {
    // Spark ends the runner when the task is complete.
  }
}
