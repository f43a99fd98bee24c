package icefloe;

import java.util.Iterator;
import org.apache.parquet.column.ColumnDescriptor;
import org.apache.parquet.hadoop.api.InitContext;
import org.apache.parquet.hadoop.api.ReadSupport;
import org.apache.parquet.schema.MessageType;
import org.apache.spark.sql.execution.datasources.parquet.ParquetReadSupport;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** Shows Spark's vectorised reader the columns of a file with signed types in place of unsigned integers of the same width, and remembers for the thread which columns these are. */
public final class SignedReadSupport extends ParquetReadSupport {
  private static final ThreadLocal UNSIGNED = new ThreadLocal(); // UnsignedValues[] of the file that the thread opened last

  public SignedReadSupport() {}

  public ReadSupport.ReadContext init(InitContext file) {
    ReadSupport.ReadContext context = super.init(file);
    MessageType columns = context.getRequestedSchema();
    UnsignedValues[] unsigned = unsignedColumns(columns, file.getConfiguration().get(ParquetReadSupport.SPARK_ROW_REQUESTED_SCHEMA()));
    UNSIGNED.set(unsigned);
    if (unsigned == null) return context;
    return new ReadSupport.ReadContext(new MessageType(columns.getName(), UnsignedValues.signedFields(columns.getFields(), unsigned)), context.getReadSupportMetadata());
  }

  /** Returns the columns with unsigned integers that are read as signed integers of the same width; null if there are no such columns. `struct` is Spark's type of the columns, as JSON. */
  static UnsignedValues[] unsignedColumns(MessageType columns, String struct) {
    Iterator leaves = columns.getColumns().iterator();
    while (leaves.hasNext()) {
      if (UnsignedValues.isUnsigned(((ColumnDescriptor) leaves.next()).getPrimitiveType())) {
        return UnsignedValues.inFields(columns.getFields(), (StructType) DataType.fromJson(struct), "");
      }
    }
    return null;
  }

  /** Returns the columns that were remembered for the file that this thread opened last, and clears them. */
  static UnsignedValues[] takeUnsigned() {
    UnsignedValues[] unsigned = (UnsignedValues[]) UNSIGNED.get();
    UNSIGNED.remove();
    return unsigned;
  }
}
