package icefloe;

import java.io.Serializable;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.util.HashMap;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;

/**
 * Replaces an object of the driver in a plan that is sent to an executor. It has only the text of the object; for a function, it can also compute the results, which Spark needs to shuffle
 * the other side of a join by the partitions of a scan. Executors need this class.
 */
public final class DriverProxy implements InvocationHandler, Serializable {
  private final String text;
  private final HashMap constants = new HashMap(); // the results of methods without arguments, by the names of the methods
  private final Expression body; // the expression of a function, which refers to arguments by their indexes; null for other objects

  public DriverProxy(String text) {
    this.text = text;
    this.body = null;
  }

  public DriverProxy(String text, ScalarFunction function, Expression body) {
    this.text = text;
    this.body = body;
    constants.put("name", function.name());
    constants.put("canonicalName", function.canonicalName());
    constants.put("inputTypes", function.inputTypes());
    constants.put("resultType", function.resultType());
  }

  public Object invoke(Object self, Method method, Object[] arguments) throws Throwable {
    if (method.getName().equals("toString")) return text;
    if (method.getName().equals("hashCode")) return Integer.valueOf(text.hashCode());
    if (method.getName().equals("equals")) return Boolean.valueOf(self == arguments[0]);
    if (constants.containsKey(method.getName())) return constants.get(method.getName());
    if (body == null) throw new UnsupportedOperationException(text + " runs on the driver alone");
    return method.getName().equals("produceResult") ? body.eval((InternalRow) arguments[0]) : InvocationHandler.invokeDefault(self, method, arguments);
  }
}
