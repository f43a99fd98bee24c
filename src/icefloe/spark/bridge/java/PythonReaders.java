package icefloe;

import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import org.apache.spark.api.python.BasePythonRunner;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;

/**
 * Creates readers that run a Python function, as `mapInArrow` does: a column of packed tasks is sent to the Python worker, which returns the rows as Arrow batches. The runner of the worker is
 * a class of Spark, whose constructor differs between versions. Executors need this class.
 */
public final class PythonReaders implements PartitionReaderFactory {
  private static final String RUNNER = "org.apache.spark.sql.execution.python.ArrowPythonRunner";
  private static final Class[] PARAMETERS = {Seq.class, Integer.TYPE, int[][].class, StructType.class, String.class, Boolean.TYPE, Map.class, Map.class}; // more parameters follow, of which the first is for the session's artifacts

  private final Seq functions; // the single function, with an id
  private final int kind; // PySpark's number for the kind of the function
  private final String timeZone;
  private final Map settings;
  private final Map metrics;
  private final Option artifacts;
  private final StructType columns;

  PythonReaders(Seq functions, int kind, String timeZone, Map settings, Map metrics, Option artifacts, StructType columns) {
    this.functions = functions;
    this.kind = kind;
    this.timeZone = timeZone;
    this.settings = settings;
    this.metrics = metrics;
    this.artifacts = artifacts;
    this.columns = columns;
  }

  /** Returns whether this version of Spark has a runner with a constructor that is known here. */
  static boolean haveRunner() {
    try {
      return runners() != null;
    } catch (ClassNotFoundException error) {
      return false;
    }
  }

  private static Constructor runners() throws ClassNotFoundException {
    Constructor[] constructors = Class.forName(RUNNER).getConstructors();
    Class[] types = constructors.length == 1 ? constructors[0].getParameterTypes() : new Class[0];
    if (types.length <= PARAMETERS.length) return null;
    for (int i = 0; i < types.length; i++) if (types[i] != (i < PARAMETERS.length ? PARAMETERS[i] : Option.class)) return null;
    return constructors[0];
  }

  /** Returns a new runner for a task. `input` are the columns that are sent to the worker. */
  BasePythonRunner runner(StructType input) {
    try {
      Constructor constructor = runners();
      Object[] arguments = new Object[constructor.getParameterTypes().length];
      for (int i = 0; i < arguments.length; i++) arguments[i] = Option.empty();
      arguments[0] = functions;
      arguments[1] = Integer.valueOf(kind);
      arguments[2] = new int[][] {{0}};
      arguments[3] = new StructType(new StructField[] {new StructField("struct", input, true, Metadata.empty())}); // mapInArrow sends its columns as a struct
      arguments[4] = timeZone;
      arguments[5] = Boolean.FALSE;
      arguments[6] = settings;
      arguments[7] = metrics;
      arguments[8] = artifacts;
      return (BasePythonRunner) constructor.newInstance(arguments);
    } catch (InvocationTargetException error) {
      throw new IllegalStateException(error.getCause());
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException(error);
    }
  }

  public PartitionReader createReader(InputPartition split) {
    throw new UnsupportedOperationException("these readers return batches");
  }

  public PartitionReader createColumnarReader(InputPartition split) {
    StructType input = new StructType(new StructField[] {new StructField("tasks", DataTypes.BinaryType, false, Metadata.empty())});
    return new PythonBatches(runner(input), ((PythonSplit) split).tasks(), columns);
  }

  public boolean supportColumnarReads(InputPartition split) {
    return true;
  }
}
