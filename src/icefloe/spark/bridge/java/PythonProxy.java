package icefloe;

import java.lang.reflect.Array;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Proxy;
import java.lang.reflect.Type;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BiFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.expressions.FieldReference;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.sources.InsertableRelation;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * An object of Spark's connector that Python answers for: a table, a scan, a write. Python describes it once: `interfaces` that it has, what it `says` by the names of methods, and
 * what is `asked` when others are called, by their names and numbers of parameters; an `identity` makes it equal to another. What an answer becomes is told by the type that the
 * method returns.
 */
public final class PythonProxy implements InvocationHandler, InsertableRelation {
  private static final String CONNECTOR = "org.apache.spark.sql.connector.";
  private static final Map INTERFACES = new ConcurrentHashMap(); // by lists of their names
  private final BiFunction python; // null: it was told all there is to say
  private final Map told;
  private final Map said = new ConcurrentHashMap(); // what it says, by method
  private final Map kept = Collections.synchronizedMap(new HashMap()); // what was answered to calls and questions without arguments; until the next call with some
  private Object[] given = new Object[0]; // the last array of Spark's objects, which Python names by their places
  private Object proxy;

  PythonProxy(BiFunction python, Map told) {
    this.python = python;
    this.told = told;
  }

  /** The object that Python describes. */
  static Object of(BiFunction python) {
    Map told = (Map) PythonBridge.askJson(python, "describe", "null");
    return new PythonProxy(python, told).standing(interfaces((List) told.get("interfaces")));
  }

  /** What answers for an object; null where it is another's. */
  public static PythonProxy behind(Object any) {
    InvocationHandler handler = any != null && Proxy.isProxyClass(any.getClass()) ? Proxy.getInvocationHandler(any) : null;
    return handler instanceof PythonProxy ? (PythonProxy) handler : null;
  }

  Object ask(String question, Object argument) {
    return PythonBridge.ask(python, question, argument);
  }

  /** Another object, which Python makes. */
  public Object made(String question, String argument) {
    return of((BiFunction) ask(question, argument));
  }

  /** The answer as a type of Java's. */
  Object ask(Type wanted, String question, Object argument) {
    Object found = ask(question, argument);
    return as(wanted, found instanceof String ? PythonBridge.parsed((String) found) : found);
  }

  /** An object of Spark's that is asked for once, however often it is used. */
  synchronized Object once(String question) {
    Object found = kept.get(question);
    if (found == null) {
      found = ask(question, "null");
      kept.put(question, found);
    }
    return found;
  }

  /** Rows to be written. Not through the proxy: one may not throw what Spark's jobs throw. */
  public void insert(Dataset rows, boolean overwrite) {
    ask("insert", Collections.singletonList(rows));
  }

  public Object invoke(Object self, Method method, Object[] arguments) throws Throwable {
    if (method.getDeclaringClass() == Object.class) return ofAny(method.getName(), arguments);
    // Spark has methods of one name, those of later versions by default in terms of the first.
    Object question = part("asked").get(method.getName() + "/" + method.getParameterTypes().length);
    boolean isRow = arguments != null && arguments[0] instanceof InternalRow;
    try {
      if (part("says").containsKey(method.getName())) return says(method);
      if (isRow) return ofRow(method, (InternalRow) arguments[0]);
      if (question != null) return arguments == null ? kept(method, (String) question) : asked(method, (String) question, arguments);
    } catch (Throwable error) {
      throw thrown(method, error);
    }
    if (method.isDefault()) return InvocationHandler.invokeDefault(self, method, arguments);
    throw new UnsupportedOperationException(this + " has no answer to " + method.getName());
  }

  /** What a proxy's method may throw: an error that it does not declare would reach nobody as what it is. */
  private static Throwable thrown(Method method, Throwable error) {
    Class[] declared = method.getExceptionTypes();
    boolean isKnown = error instanceof RuntimeException || error instanceof Error;
    for (int i = 0; i < declared.length; i++) isKnown = isKnown || declared[i].isInstance(error);
    return isKnown ? error : new InvalidStatement(error.getMessage(), error);
  }

  private Object ofAny(String method, Object[] arguments) {
    Object identity = told.get("identity");
    if (method.equals("toString")) return toString();
    if (method.equals("hashCode")) return Integer.valueOf(identity == null ? System.identityHashCode(proxy) : identity.hashCode());
    PythonProxy other = behind(arguments[0]);
    return Boolean.valueOf(proxy == arguments[0] || (identity != null && other != null && identity.equals(other.told.get("identity"))));
  }

  public String toString() {
    Object name = part("says").get("toString");
    return name instanceof String ? (String) name : "Icefloe's " + proxy.getClass().getInterfaces()[0].getSimpleName();
  }

  private Object says(Method method) {
    Object found = said.get(method);
    if (found == null) {
      found = as(method.getGenericReturnType(), part("says").get(method.getName()));
      if (found != null) said.put(method, found);
    }
    return found;
  }

  /** A method that does something returns nothing, or whether it did, and is asked each time. What others answer may be forgotten by another thread at any time. */
  private synchronized Object kept(Method method, String question) {
    Object found = kept.get(method);
    if (found == null) {
      found = ask(method.getGenericReturnType(), question, "null");
      if (!method.getReturnType().isPrimitive()) kept.put(method, found);
    }
    return found;
  }

  private Object asked(Method method, String question, Object[] arguments) {
    kept.clear();
    if (arguments[0] instanceof Object[]) given = (Object[]) arguments[0];
    Object[] told = (Object[]) arguments.clone();
    if (arguments[0] instanceof CaseInsensitiveStringMap) told[0] = here((CaseInsensitiveStringMap) arguments[0]);
    return ask(method.getGenericReturnType(), question, ConnectorJson.json(told));
  }

  /** Options, with the time zone and Iceberg's settings of the session, which Python cannot know: it is asked in another thread. */
  private static Map here(CaseInsensitiveStringMap options) {
    LinkedHashMap found = new LinkedHashMap();
    found.put("options", options);
    found.put("zone", SQLConf.get().sessionLocalTimeZone());
    found.put("settings", settings());
    return found;
  }

  private static Map settings() {
    LinkedHashMap found = new LinkedHashMap();
    scala.collection.Iterator entries = SQLConf.get().getAllConfs().iterator();
    while (entries.hasNext()) {
      scala.Tuple2 entry = (scala.Tuple2) entries.next();
      String name = (String) entry._1();
      if (name.startsWith("spark.sql.iceberg.") || name.startsWith("spark.icefloe.")) found.put(name, entry._2());
    }
    return found;
  }

  /** A function is an expression of Spark's; a procedure runs when what it returns is looked for, where any error may pass. */
  private Object ofRow(Method method, final InternalRow row) {
    if (method.getReturnType() != Iterator.class) return ((Expression) once("body")).eval(row);
    return new Iterator() {
      private boolean isDone;

      public boolean hasNext() {
        return !isDone;
      }

      public Object next() {
        isDone = true;
        return of((BiFunction) ask("call", Collections.singletonList(row)));
      }
    };
  }

  private Object as(Type type, Object value) {
    if (type instanceof ParameterizedType) return many((ParameterizedType) type, value);
    Class wanted = (Class) type;
    if (wanted == OptionalLong.class) return value == null ? OptionalLong.empty() : OptionalLong.of(((Number) value).longValue());
    if (value == null || wanted.isInstance(value)) return value;
    if (wanted == long.class) return Long.valueOf(((Number) value).longValue());
    if (wanted == NamedReference.class) return FieldReference.column((String) value);
    if (wanted == Identifier.class) return PythonBridge.identifier(PythonBridge.strings(value));
    if (DataType.class.isAssignableFrom(wanted)) return DataType.fromJson((String) value);
    if (wanted.isEnum()) return constant(wanted, value);
    if (wanted.isArray()) return array(wanted.getComponentType(), (List) value);
    if (value instanceof BiFunction) return of((BiFunction) value);
    if (value.equals("this")) return wanted.isInstance(proxy) ? proxy : this;
    if (value instanceof Integer && !wanted.isPrimitive()) return given[((Integer) value).intValue()];
    if (value instanceof Map) return new PythonProxy(null, Collections.singletonMap("says", value)).standing(new Class[] {wanted});
    return value;
  }

  private Object array(Class component, List values) {
    Object found = Array.newInstance(component, values.size());
    for (int i = 0; i < values.size(); i++) Array.set(found, i, as(component, values.get(i)));
    return found;
  }

  private Object many(ParameterizedType type, Object value) {
    Type[] parts = type.getActualTypeArguments();
    if (type.getRawType() == Map.class) {
      LinkedHashMap found = new LinkedHashMap();
      Iterator entries = ((Map) value).entrySet().iterator();
      while (entries.hasNext()) {
        Map.Entry entry = (Map.Entry) entries.next();
        found.put(as(parts[0], entry.getKey()), as(parts[1], entry.getValue()));
      }
      return found;
    }
    LinkedHashSet found = new LinkedHashSet();
    Iterator values = ((List) value).iterator();
    while (values.hasNext()) found.add(as(parts[0], values.next()));
    found.remove(null);
    return found;
  }

  /** Null for one that this version of Spark does not know. */
  private static Object constant(Class wanted, Object name) {
    Object[] known = wanted.getEnumConstants();
    for (int i = 0; i < known.length; i++) if (((Enum) known[i]).name().equals(name)) return known[i];
    return null;
  }

  private Map part(String name) {
    Map found = (Map) told.get(name);
    return found == null ? Collections.EMPTY_MAP : found;
  }

  private Object standing(Class[] interfaces) {
    proxy = Proxy.newProxyInstance(PythonProxy.class.getClassLoader(), interfaces, this);
    return proxy;
  }

  /** Those that this version of Spark knows. */
  private static Class[] interfaces(List names) {
    Class[] known = (Class[]) INTERFACES.get(names);
    if (known != null) return known;
    ArrayList found = new ArrayList();
    for (int i = 0; i < names.size(); i++) {
      try {
        found.add(Class.forName(CONNECTOR + names.get(i), false, PythonProxy.class.getClassLoader()));
      } catch (ClassNotFoundException later) {
        continue;
      }
    }
    known = (Class[]) found.toArray(new Class[0]);
    INTERFACES.put(names, known);
    return known;
  }
}
