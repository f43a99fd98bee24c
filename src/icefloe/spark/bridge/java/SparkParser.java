package icefloe;

import java.lang.ref.WeakReference;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.function.BiFunction;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedWith;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.internal.SessionState;
import org.apache.spark.sql.internal.VariableSubstitution;
import org.apache.spark.unsafe.Platform;

/**
 * Spark's parser with Python's behind it: for statements that Spark cannot parse, and for the few kinds that Spark parses and cannot run on Icefloe's catalogs. A proxy, because each version
 * of Spark has other methods in the interface. Until a catalog is attached to its session it only passes calls on.
 */
public final class SparkParser implements InvocationHandler {
  private static final Set SHARED_KINDS =
      new HashSet(
          Arrays.asList(
              new Object[] {
                "CreateView", "CreateViewCommand", "DropView", "ShowViews", "AlterViewAs", "SetViewProperties", "UnsetViewProperties", "RenameTable", "ShowCreateTable",
                "CreateTableLike", "CreateTableLikeCommand", "ShowPartitions", "ShowFunctions", "DescribeFunction", "DescribeRelation", "ShowTableProperties", "CreateTable",
                "CreateTableAsSelect"
              }));

  private static final Map INJECTED = Collections.synchronizedMap(new WeakHashMap()); // WeakReferences of SparkParser, by session
  private final ParserInterface spark;
  private volatile BiFunction python; // null until a catalog is attached

  private SparkParser(ParserInterface spark, BiFunction python) {
    this.spark = spark;
    this.python = python;
  }

  /** The parser of a new session, by Spark's extension point; `install` gives it the Python side. */
  static ParserInterface inject(SparkSession session, ParserInterface spark) {
    SparkParser parser = new SparkParser(spark, null);
    INJECTED.put(session, new WeakReference(parser));
    return parser.proxy();
  }

  /** Connects the parser of a session with Python, and puts it there first where the session was started without the extension. A second time changes nothing. */
  public static void install(SparkSession session, SessionState state, BiFunction python) throws Exception {
    ParserInterface parser = state.sqlParser(); // which Spark makes now, if nothing was parsed yet
    WeakReference injected = (WeakReference) INJECTED.get(session);
    SparkParser own = injected == null ? null : (SparkParser) injected.get();
    if (own == null && Proxy.isProxyClass(parser.getClass()) && Proxy.getInvocationHandler(parser) instanceof SparkParser) own = (SparkParser) Proxy.getInvocationHandler(parser);
    if (own != null) {
      if (own.python == null) own.python = python;
      return;
    }
    // Spark reads its extensions once, when a session starts, and has no way to give a parser to one that runs: what remains is the field that holds the parser.
    Field field = SessionState.class.getDeclaredField("sqlParser");
    field.setAccessible(true);
    field.set(state, new SparkParser(parser, python).proxy());
  }

  /** Whether the parser of a session came by Spark's extension point. */
  public static boolean isInjected(SparkSession session) {
    return INJECTED.containsKey(session);
  }

  private ParserInterface proxy() {
    return (ParserInterface) Proxy.newProxyInstance(SparkParser.class.getClassLoader(), new Class[] {ParserInterface.class}, this);
  }

  public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
    if (python == null || !method.getName().startsWith("parsePlan")) return parsed(method, arguments);
    try {
      Object plan = parsed(method, arguments);
      String kind = plan.getClass().getSimpleName();
      LogicalPlan replaced = SHARED_KINDS.contains(kind) || losesEvolution((LogicalPlan) plan) ? planOfPython((String) arguments[0], kind) : null;
      return replaced == null ? plan : replaced;
    } catch (ParseException error) {
      LogicalPlan plan = planOfPython((String) arguments[0], null);
      if (plan == null) throw error;
      return plan;
    } catch (AnalysisException error) { // which a parser does not declare, so that the JVM would wrap it
      return new SparkCommand(null, null, error, (String) arguments[0]).plan();
    }
  }

  /** Whether the statement is WITH SCHEMA EVOLUTION and this version of Spark would ignore these words. */
  private static boolean losesEvolution(LogicalPlan plan) {
    if (plan instanceof UnresolvedWith) return losesEvolution(((UnresolvedWith) plan).child());
    if (!(plan instanceof MergeIntoTable) || !((MergeIntoTable) plan).withSchemaEvolution()) return false;
    TableCapability[] known = TableCapability.values();
    for (int i = 0; i < known.length; i++) if (known[i].name().equals("AUTOMATIC_SCHEMA_EVOLUTION")) return false;
    return true;
  }

  private Object parsed(Method method, Object[] arguments) throws Throwable {
    try {
      return method.invoke(spark, arguments);
    } catch (InvocationTargetException error) {
      throw error.getCause();
    }
  }

  /** The plan of a statement that Python runs: rows that it has already, or a command that runs later; null where Spark runs the statement. */
  private LogicalPlan planOfPython(String written, String kind) {
    String text = new VariableSubstitution().substitute(written); // as Spark's own parser does, for ${...}
    LinkedHashMap message = new LinkedHashMap();
    message.put("text", text);
    message.put("kind", kind);
    Object reply;
    try {
      reply = PythonBridge.call(python, "statement", PythonBridge.json(message));
    } catch (Throwable error) {
      if (!(error instanceof AnalysisException) || error instanceof ParseException) Platform.throwException(error);
      return new SparkCommand(null, null, error, text).plan();
    }
    if (reply instanceof LogicalPlan) return (LogicalPlan) reply;
    return "true".equals(reply) ? new SparkCommand(null, python, null, text).plan() : null;
  }
}
