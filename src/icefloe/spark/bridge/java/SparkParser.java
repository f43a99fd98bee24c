package icefloe;

import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Arrays;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Set;
import java.util.function.BiFunction;
import org.apache.spark.sql.AnalysisException;
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
 * Spark's parser, and Python's behind it: for what Spark cannot parse, and for the few kinds of statements that Spark parses and cannot run on catalogs such as ours. A proxy,
 * because each version of Spark has other methods here.
 */
public final class SparkParser implements InvocationHandler {
  private static final Set ASKED =
      new HashSet(
          Arrays.asList(
              new Object[] {
                "CreateView", "CreateViewCommand", "DropView", "ShowViews", "AlterViewAs", "SetViewProperties", "UnsetViewProperties", "RenameTable", "ShowCreateTable",
                "CreateTableLike", "CreateTableLikeCommand", "ShowPartitions", "ShowFunctions", "DescribeFunction", "DescribeRelation", "ShowTableProperties", "CreateTable",
                "CreateTableAsSelect"
              }));

  private final ParserInterface spark;
  private final BiFunction python;

  private SparkParser(ParserInterface spark, BiFunction python) {
    this.spark = spark;
    this.python = python;
  }

  /** Puts the parser into a session that runs; a second time changes nothing. */
  public static void install(SessionState state, BiFunction python) throws Exception {
    ParserInterface now = state.sqlParser();
    if (Proxy.isProxyClass(now.getClass()) && Proxy.getInvocationHandler(now) instanceof SparkParser) return;
    Field field = SessionState.class.getDeclaredField("sqlParser");
    field.setAccessible(true);
    Class[] interfaces = new Class[] {ParserInterface.class};
    field.set(state, Proxy.newProxyInstance(SparkParser.class.getClassLoader(), interfaces, new SparkParser(now, python)));
  }

  public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
    if (!method.getName().startsWith("parsePlan")) return parsed(method, arguments);
    try {
      Object plan = parsed(method, arguments);
      String kind = plan.getClass().getSimpleName();
      LogicalPlan own = ASKED.contains(kind) || losesEvolution((LogicalPlan) plan) ? own((String) arguments[0], kind) : null;
      return own == null ? plan : own;
    } catch (ParseException error) {
      LogicalPlan own = own((String) arguments[0], null);
      if (own == null) throw error;
      return own;
    } catch (AnalysisException error) { // none that a parser declares, so that a proxy would hide it
      return new SparkCommand(null, null, error, (String) arguments[0]).plan();
    }
  }

  /** Whether the statement is WITH SCHEMA EVOLUTION and this Spark would run it as if that had not been said. */
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

  /** The plan of a statement that Python takes: rows that it has already, or a command that runs later; null where it is Spark's. */
  private LogicalPlan own(String written, String kind) {
    String text = new VariableSubstitution().substitute(written); // as Spark's own parser does, for ${...}
    LinkedHashMap asked = new LinkedHashMap();
    asked.put("text", text);
    asked.put("kind", kind);
    Object answer;
    try {
      answer = PythonBridge.ask(python, "statement", PythonBridge.json(asked));
    } catch (Throwable error) {
      if (!(error instanceof AnalysisException) || error instanceof ParseException) Platform.throwException(error);
      return new SparkCommand(null, null, error, text).plan();
    }
    if (answer instanceof LogicalPlan) return (LogicalPlan) answer;
    return "true".equals(answer) ? new SparkCommand(null, python, null, text).plan() : null;
  }
}
