package icefloe;

import java.lang.ref.WeakReference;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BiFunction;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedWith;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.internal.SessionState;
import org.apache.spark.sql.internal.VariableSubstitution;

/**
 * Spark's parser, followed by Icefloe's parser in Python for statements that Spark cannot parse, and for the few kinds that Spark parses but cannot run on Icefloe's catalogs. `ParserMethods` calls
 * it. Until a catalog is attached to its session it only passes calls on. In a server of Spark Connect, Python attaches the catalogs to the session
 * of each client before its first statement is parsed.
 */
public final class SparkParser {
  private static final Set SHARED_KINDS =
      new HashSet(
          Arrays.asList(
              new Object[] {
                "CreateView", "CreateViewCommand", "DropView", "ShowViews", "AlterViewAs", "AlterViewSchemaBinding", "SetViewProperties", "UnsetViewProperties", "RenameTable", "ShowCreateTable",
                "CreateTableLike", "CreateTableLikeCommand", "ShowPartitions", "ShowFunctions", "DescribeFunction", "DescribeRelation", "ShowTableProperties", "CreateTable",
                "CreateTableAsSelect"
              }));

  private static final Map INJECTED = Collections.synchronizedMap(new WeakHashMap()); // WeakReferences of SparkParser, by session
  private static volatile BiFunction newSessions; // Python, which attaches catalogs to sessions that are created; null where each session attaches its own
  private final ParserInterface spark;
  private final WeakReference session; // null in a session that was started without the extension
  private final ReentrantLock attaching = new ReentrantLock();
  private volatile boolean isAttached; // by Python, for a client of Spark Connect
  private volatile BiFunction python; // null until a catalog is attached

  private SparkParser(ParserInterface spark, BiFunction python, SparkSession session) {
    this.spark = spark;
    this.python = python;
    this.session = session == null ? null : new WeakReference(session);
  }

  /** Has Python attach catalogs to each session that has the extension, before its first statement. */
  public static void attachToNewSessions(BiFunction python) {
    newSessions = new PythonObject(python);
  }

  /** Returns the parser of a new session, for Spark's extension point; `install` connects it with Python. */
  static ParserInterface inject(SparkSession session, ParserInterface spark) {
    SparkParser parser = new SparkParser(spark, null, session);
    INJECTED.put(session, new WeakReference(parser));
    return new ParserMethods(parser);
  }

  /** Connects the parser of a session with Python; in a session that was started without the extension, installs it first. Further calls change nothing. */
  public static void install(SparkSession session, SessionState state, BiFunction python) throws Exception {
    ParserInterface parser = state.sqlParser(); // Spark creates it now, if nothing was parsed yet
    WeakReference injected = (WeakReference) INJECTED.get(session);
    SparkParser installed = injected == null ? null : (SparkParser) injected.get();
    if (installed == null && parser instanceof ParserMethods) installed = ((ParserMethods) parser).parser;
    SparkExtensions.addRules(state.analyzer(), session);
    if (installed != null) {
      if (installed.python == null) installed.python = new PythonObject(python);
      return;
    }
    // Spark reads its extensions once, when a session starts, and has no interface to change the parser of a running session, except the field that holds it.
    Field field = SessionState.class.getDeclaredField("sqlParser");
    field.setAccessible(true);
    field.set(state, new ParserMethods(new SparkParser(parser, new PythonObject(python), null)));
  }

  /** Returns whether the session has the parser through Spark's extension point. */
  public static boolean isInjected(SparkSession session) {
    return INJECTED.containsKey(session);
  }

  /** Calls a method of Spark's parser. It may throw any exception of that parser, also one that the method does not declare. */
  Object call(String method, Class[] types, Object[] arguments) {
    try {
      return invoke(ParserInterface.class.getMethod(method, types), arguments);
    } catch (Throwable error) {
      throw PythonBridge.unchecked(error);
    }
  }

  private Object invoke(Method method, Object[] arguments) throws Throwable {
    if ((python == null || attaching.isLocked()) && newSessions != null && session != null && method.getName().startsWith("parse")) attachOnce();
    if (python == null || !method.getName().startsWith("parsePlan")) return parsed(method, arguments);
    try {
      Object plan = parsed(method, arguments);
      String kind = plan.getClass().getSimpleName();
      LogicalPlan replaced = SHARED_KINDS.contains(kind) || losesEvolution((LogicalPlan) plan) ? planOfPython((String) arguments[0], kind) : null;
      if (replaced != null) return replaced;
      RowStatementRule.tag((LogicalPlan) plan, RowStatement.MOST_RUNS - 1);
      return plan;
    } catch (ParseException error) {
      LogicalPlan plan = planOfPython((String) arguments[0], null);
      if (plan == null) throw error;
      return plan;
    }
  }

  /**
   * Returns the key of a catalog that the settings of a new session name, after Python has attached the catalogs to it: a client's first message may need a catalog without a statement, as that of a
   * pipeline does. Returns null where Python attaches none.
   */
  static String keyInNewSession(String catalog) {
    if (newSessions == null) return null;
    org.apache.spark.sql.classic.SparkSession active = org.apache.spark.sql.classic.SparkSession$.MODULE$.active();
    ParserInterface parser = active.sessionState().sqlParser(); // Spark creates it now, if nothing was parsed yet
    WeakReference injected = (WeakReference) INJECTED.get(active);
    SparkParser installed = injected == null ? null : (SparkParser) injected.get();
    if (installed == null) return null;
    installed.attachOnce();
    return active.conf().get("spark.sql.catalog." + catalog + ".icefloe", null);
  }

  /** Attaches the catalogs, while other threads of the session wait. Python parses statements meanwhile, in the thread that called it. */
  private void attachOnce() {
    SparkSession created = (SparkSession) session.get();
    if (created == null || isAttached || attaching.isHeldByCurrentThread()) return;
    attaching.lock();
    try {
      if (isAttached || python != null) return;
      PythonBridge.call(newSessions, "attach_session", Arrays.asList(new Object[] {created}));
      isAttached = true;
    } finally {
      attaching.unlock();
    }
  }

  /** Returns whether the statement is WITH SCHEMA EVOLUTION and this version of Spark would ignore these words. */
  private static boolean losesEvolution(LogicalPlan plan) {
    if (plan instanceof UnresolvedWith) return losesEvolution(((UnresolvedWith) plan).child());
    if (!(plan instanceof MergeIntoTable) || !((MergeIntoTable) plan).withSchemaEvolution()) return false;
    TableCapability[] capabilities = TableCapability.values();
    for (int i = 0; i < capabilities.length; i++) if (capabilities[i].name().equals("AUTOMATIC_SCHEMA_EVOLUTION")) return false;
    return true;
  }

  private Object parsed(Method method, Object[] arguments) throws Throwable {
    try {
      return method.invoke(spark, arguments);
    } catch (InvocationTargetException error) {
      throw error.getCause();
    }
  }

  /** Returns the plan of a statement that Python runs: rows that it has computed already, or a command that runs later; null where Spark runs the statement. */
  private LogicalPlan planOfPython(String written, String kind) {
    String text = new VariableSubstitution().substitute(written); // as Spark's own parser does, for ${...}
    LinkedHashMap message = new LinkedHashMap();
    message.put("text", text);
    message.put("kind", kind);
    Object reply = PythonBridge.call(python, "statement", PythonBridge.json(message));
    if (reply instanceof LogicalPlan) return (LogicalPlan) reply;
    return "true".equals(reply) ? new SparkCommand(null, python, text).plan() : null;
  }
}
