package icefloe;

import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.function.BiFunction;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.internal.SessionState;

/** Spark's parser, and Python's for statements that Spark does not know. A proxy, because each version of Spark has other methods here. */
public final class SparkParser implements InvocationHandler {
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
    boolean parses = method.getName().startsWith("parsePlan") || method.getName().equals("parseQuery");
    try {
      if (parses && Python.askJson(python, "is_statement", Python.json(arguments[0])) == Boolean.TRUE) return new SparkCommand(python, (String) arguments[0]).plan();
      return method.invoke(spark, arguments);
    } catch (InvocationTargetException error) {
      throw error.getCause();
    }
  }
}
