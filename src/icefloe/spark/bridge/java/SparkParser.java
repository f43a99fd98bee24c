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
 * Spark's parser, followed by Icefloe's parser in Python for statements that Spark cannot parse, and for some kinds of statements that Spark parses but cannot run on Icefloe's catalogs.
 * `ParserMethods` calls it. Until a catalog is attached to its session, it only calls Spark's parser. In a server of Spark Connect, Python attaches the catalogs to the session of each client
 * before its first statement is parsed.
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

  private static final Map INJECTED = Collections.synchronizedMap(new WeakHashMap()); // weak references to SparkParser objects, by session
  private static volatile BiFunction newSessions; // the Python function that attaches catalogs to each new session; null if new sessions get no catalogs in this way
  private final ParserInterface spark;
  private final WeakReference session; // null if the session was started without the extension
  private final ReentrantLock attaching = new ReentrantLock();
  private volatile boolean isAttached; // whether Python has attached the catalogs, for a client of Spark Connect
  private volatile BiFunction python; // Icefloe's parser; null until a catalog is attached

  private SparkParser(ParserInterface spark, BiFunction python, SparkSession session) {
    this.spark = spark;
    this.python = python;
    this.session = session == null ? null : new WeakReference(session);
  }

  /** Sets the Python function that attaches catalogs to each session with the extension, before its first statement. */
  public static void attachToNewSessions(BiFunction python) {
    newSessions = new PythonObject(python);
  }

  /** Returns the parser of a new session, for Spark's extension point. It is connected with Python by `install`. */
  static ParserInterface inject(SparkSession session, ParserInterface spark) {
    SparkParser parser = new SparkParser(spark, null, session);
    INJECTED.put(session, new WeakReference(parser));
    return new ParserMethods(parser);
  }

  /** Connects the parser of a session with Python. If the session was started without the extension, first replaces its parser. Further calls change nothing. */
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

  /** Returns whether the session got its parser by Spark's extension point, and not by `install`. */
  public static boolean isInjected(SparkSession session) {
    return INJECTED.containsKey(session);
  }

  /** Calls a method of Spark's parser. It may throw any exception of that parser, even checked exceptions that the method does not declare. */
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
      RowStatementRule.tag((LogicalPlan) plan);
      return plan;
    } catch (ParseException error) {
      LogicalPlan plan = planOfPython((String) arguments[0], null);
      if (plan == null) throw error;
      return plan;
    }
  }

  /**
   * Attaches the catalogs to the new session of this thread, and returns the key of one of them. It is needed because the first message of a client of Spark Connect may use a catalog without a
   * statement, for example to define a pipeline. Returns null if Python does not attach catalogs, or did not attach this one.
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

  /** Attaches the catalogs, once. Other threads of the session wait for it; but Python may parse statements in this thread meanwhile. */
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

  /** Returns whether the statement has WITH SCHEMA EVOLUTION, and this version of Spark would ignore it. */
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
      if (error.getCause() instanceof AssertionError && isOfTime(error.getCause())) throw computedTime((AssertionError) error.getCause());
      throw error.getCause();
    }
  }

  /** Returns whether Spark failed at the time in a statement. Spark 4.2 and later evaluate the times of CHANGES while they parse it, before functions and operators are resolved. */
  private static boolean isOfTime(Throwable error) {
    StackTraceElement[] calls = error.getStackTrace();
    boolean is = false;
    for (int i = 0; !is && i < calls.length; i++) is = calls[i].getMethodName().equals("resolveTimestampExpression");
    return is;
  }

  private static UnsupportedOperationException computedTime(AssertionError error) {
    String rule = "Spark reads CHANGES between times that are literals, and a time of this statement is computed";
    return new UnsupportedOperationException(rule + "\n  Next: write it as TIMESTAMP '2026-01-01 00:00:00', or call create_changelog_view or spark.read.changes with a time that the program computes", error);
  }

  /** Returns the plan of a statement that Python runs: rows that Python has computed already, or a command that runs later. Returns null if Spark must run the statement. */
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
