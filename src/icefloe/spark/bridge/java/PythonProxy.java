package icefloe;

import java.io.Serializable;
import java.lang.reflect.Array;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Proxy;
import java.lang.reflect.Type;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.function.BiFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.connector.expressions.FieldReference;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.sources.InsertableRelation;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * An object of Spark's connector whose methods Python implements: a table, a scan, a write, a function. Python describes it once: `interfaces` are the interfaces that it has, `constants`
 * the results of methods that never change, `methods` the names of the Python methods by the names and numbers of parameters of the Java methods; objects with the same `identity` are
 * equal. A reply is converted to the return type of the Java method.
 *
 * Threads: an object may be called by several threads at once. Constants are converted at most twice and never change. Results of methods without arguments are kept in one immutable
 * generation: each is computed by one thread, for which the others wait without a lock on the object, and a call with arguments replaces the generation after Python has replied. So no
 * thread keeps a result from before a change that another thread made. Objects that a reply names by their indexes are those of the call itself, never of another thread's.
 */
public final class PythonProxy implements InvocationHandler, InsertableRelation, Serializable {
  private static final String CONNECTOR = "org.apache.spark.sql.connector.";
  private static final Set WRITES = new HashSet(Arrays.asList(new Object[] {"run", "insert", "delete_where"})); // Python methods that commit, and return counts
  private static final Map INTERFACES = new ConcurrentHashMap(); // arrays of classes, by lists of their names
  private static final int KEPT_REPLIES = 8;
  private static final int BYTES_OF_A_PART = 8; // of a description in memory, for each byte of its text
  private final BiFunction python; // null where the object has constants only
  private final Description description;
  private final String key; // of a scan of a kept state of a table: the state and the query; else null
  private final Object proxy; // the object that Spark sees
  private final Map replies = Collections.synchronizedMap(new LinkedHashMap()); // of a table to the queries of the last scans: JSON texts, and PythonProxy of scans, by message
  private volatile Generation generation = new Generation(new Object[0]);

  private PythonProxy(BiFunction python, Description description, String key) {
    this.python = python;
    this.description = description;
    this.key = key;
    this.proxy = Proxy.newProxyInstance(PythonProxy.class.getClassLoader(), description.interfaces, this);
  }

  /** What Python described, which equal objects share. */
  private static final class Description {
    final Map parts;
    final Class[] interfaces;
    final Map constants = new ConcurrentHashMap(); // converted, by method
    final long bytes; // in memory, an estimate

    Description(Map parts, Class[] interfaces, long bytes) {
      this.parts = parts;
      this.interfaces = interfaces;
      this.bytes = bytes;
    }

    static Description of(String json) {
      Map parts = (Map) PythonBridge.parsed(json);
      return new Description(parts, interfaces((List) parts.get("interfaces")), BYTES_OF_A_PART * KeptReplies.bytesOf(json));
    }

    Map part(String name) {
      Map part = (Map) parts.get(name);
      return part == null ? Collections.EMPTY_MAP : part;
    }

    /** Returns the text on which the object and all replies to its queries depend; null where there is none. */
    String state() {
      return (String) parts.get("state");
    }
  }

  /** The Python object of a scan whose description was kept: the table returns it when it is called first, which for most statements is never. */
  private static final class LaterScan implements BiFunction {
    private final PythonProxy table;
    private final String method;
    private final String query;
    private volatile BiFunction python; // null before the first call

    LaterScan(PythonProxy table, String method, String query) {
      this.table = table;
      this.method = method;
      this.query = query;
    }

    public Object apply(Object name, Object message) {
      if (python == null) python = (BiFunction) table.call(method, query); // two threads may get an equal object each
      return python.apply(name, message);
    }
  }

  /** The results since the last call with arguments, and the array of Java objects that the last such call passed. */
  private static final class Generation {
    final Object[] objects;
    final ConcurrentHashMap results = new ConcurrentHashMap(); // Computation by method or name

    Generation(Object[] objects) {
      this.objects = objects;
    }
  }

  /** A result that one thread computes, and for which others wait. */
  private static final class Computation extends FutureTask {
    final Thread thread = Thread.currentThread();

    Computation(Callable task) {
      super(task);
    }
  }

  /** Returns the object of Spark's connector that Python describes. */
  static Object of(BiFunction python) {
    return new PythonProxy(python, Description.of(((PythonObject) python).description), null).proxy;
  }

  /** Returns the table that Python loads. Of the state that was loaded last under a name, Java has the description, and Python replies without it. */
  static Table loaded(PythonObject catalog, Map message) {
    String key = tableKey(message);
    Description known = known(catalog, key, message);
    Object reply = PythonBridge.call(catalog, "load_table", ConnectorJson.json(message));
    if (!(reply instanceof PythonObject)) return (Table) reply; // Spark's own relation of a view
    return loaded(catalog, key, known, (PythonObject) reply);
  }

  /** Returns the tables, in the order of the messages, that Python loads as they were at one moment; null where one of the names is not that of a table alone. */
  static Table[] loadedTogether(PythonObject catalog, List messages) {
    String[] keys = new String[messages.size()];
    Description[] known = new Description[keys.length];
    for (int i = 0; i < keys.length; i++) {
      keys[i] = tableKey((Map) messages.get(i));
      known[i] = known(catalog, keys[i], (Map) messages.get(i));
    }
    Object reply = PythonBridge.call(catalog, "load_tables", ConnectorJson.json(Collections.singletonMap("tables", messages.toArray())));
    if (!(reply instanceof PythonObject[])) return null;
    Table[] tables = new Table[keys.length];
    for (int i = 0; i < keys.length; i++) tables[i] = loaded(catalog, keys[i], known[i], ((PythonObject[]) reply)[i]);
    return tables;
  }

  private static String tableKey(Map message) {
    return "load_table" + ConnectorJson.json(message);
  }

  /** Returns the description of the state that was loaded last, and names the state in the message; null where there is none. */
  private static Description known(PythonObject catalog, String key, Map message) {
    Description known = (Description) catalog.kept().get(key);
    if (known != null) message.put("known_state", known.state());
    return known;
  }

  private static Table loaded(PythonObject catalog, String key, Description known, PythonObject table) {
    Description description = table.description == null ? known : Description.of(table.description);
    if (table.description != null && description.state() != null) catalog.kept().put(key, description, description.bytes);
    return (Table) new PythonProxy(table, description, null).proxy;
  }

  /** Returns the proxy behind an object; null where another class implements it. */
  public static PythonProxy behind(Object any) {
    InvocationHandler handler = any != null && Proxy.isProxyClass(any.getClass()) ? Proxy.getInvocationHandler(any) : null;
    return handler instanceof PythonProxy ? (PythonProxy) handler : null;
  }

  /** Returns a constant as Python described it, also one that is not part of Spark's interfaces; null where there is none. */
  Object described(String name) {
    return part("constants").get(name);
  }

  /** Calls a Python method that is not part of Spark's interfaces. */
  Object call(String name, Object message) {
    Object reply = PythonBridge.call(python, name, message);
    if (WRITES.contains(name)) RowStatement.report(reply);
    return reply;
  }

  /** Calls a Python method that returns another object of Spark's connector. */
  public Object objectOf(String name, String message) {
    return of((BiFunction) call(name, message));
  }

  /** Calls a Python method of any callback, and converts the reply to a type. */
  static Object call(BiFunction python, Type type, String name, Object message) {
    return convert(type, parsed(PythonBridge.call(python, name, message)), new Object[0], null);
  }

  /** Returns the reply of a Python method without arguments, which is called once per generation. */
  Object once(final String name) {
    return result(
        generation,
        name,
        new Callable() {
          public Object call() {
            return PythonProxy.this.call(name, "null");
          }
        });
  }

  /**
   * Returns the reply of a Python method to the query of a scan: JSON text, or a scan. A table never changes, so references that are read alike share replies; each has a scan object of its own.
   */
  Object ofQuery(String name, Map query) {
    String message = PythonBridge.json(Collections.singletonList(query));
    Object reply = replies.get(name + message);
    if (reply == null) {
      reply = keptOrCalled(name, message);
      if (proxy instanceof Table) keep(name + message, reply);
    }
    if (!(reply instanceof PythonProxy)) return reply;
    PythonProxy scan = (PythonProxy) reply;
    return new PythonProxy(scan.python, scan.description, scan.key).proxy;
  }

  /** Returns a reply that an earlier statement has received for the same state of the table, or else Python's. */
  private Object keptOrCalled(String name, String message) {
    String state = proxy instanceof Table ? description.state() : null;
    if (state == null) {
      Object reply = call(name, message);
      return reply instanceof PythonObject ? behind(of((BiFunction) reply)) : reply;
    }
    KeptReplies kept = ((PythonObject) python).kept();
    String replyKey = state + " " + name + " " + message;
    Object reply = kept.get(replyKey);
    if (reply instanceof Description) return new PythonProxy(new LaterScan(this, name, message), (Description) reply, replyKey);
    if (reply != null) return reply;
    reply = call(name, message);
    if (reply instanceof String) kept.put(replyKey, reply, KeptReplies.bytesOf((String) reply));
    if (!(reply instanceof PythonObject)) return reply;
    Description scan = Description.of(((PythonObject) reply).description);
    if (scan.state() == null) return new PythonProxy((BiFunction) reply, scan, null);
    kept.put(replyKey, scan, scan.bytes);
    return new PythonProxy((BiFunction) reply, scan, replyKey);
  }

  /** Returns Spark's logical plan of the rows of a scan: one of an earlier statement that read the same state alike, or else Python's. */
  LogicalPlan rows() {
    KeptReplies kept = key == null ? null : keptReplies();
    Object earlier = kept == null ? null : kept.get("rows " + key);
    if (earlier != null) return (LogicalPlan) earlier;
    LogicalPlan plan = (LogicalPlan) once("rows");
    Long bytes = NativeScan.keptBytes(plan);
    if (kept != null && bytes != null) kept.put("rows " + key, plan, bytes.longValue());
    return plan;
  }

  private KeptReplies keptReplies() {
    return (python instanceof LaterScan ? (PythonObject) ((LaterScan) python).table.python : (PythonObject) python).kept();
  }

  private void keep(String message, Object reply) {
    synchronized (replies) {
      replies.put(message, reply);
      if (replies.size() > KEPT_REPLIES) replies.keySet().remove(replies.keySet().iterator().next());
    }
  }

  /** Writes rows. Spark calls this object and not the proxy, whose methods may not throw the exceptions of Spark's jobs. */
  public void insert(Dataset rows, boolean overwrite) {
    call("insert", Collections.singletonList(rows));
  }

  public Object invoke(Object self, Method method, Object[] arguments) throws Throwable {
    if (method.getDeclaringClass() == Object.class) return ofAnyObject(method.getName(), arguments);
    // Overloads of Spark's methods differ in the number of parameters; an overload of a later version calls the first one by default.
    Object constant = description.constants.get(method);
    if (constant != null) return constant;
    if (method.getName().equals("reducer")) return reducer(arguments);
    String name = (String) part("methods").get(method.getName() + "/" + method.getParameterTypes().length);
    boolean takesRow = arguments != null && arguments[0] instanceof InternalRow;
    try {
      if (part("constants").containsKey(method.getName())) return constant(method);
      if (method.getName().equals("newScanBuilder")) return new SparkScanBuilder(this, withSession((CaseInsensitiveStringMap) arguments[0]));
      if (takesRow) return ofRow(method, (InternalRow) arguments[0]);
      if (name != null) return arguments == null ? withoutArguments(method, name) : withArguments(method, name, arguments);
    } catch (Throwable error) {
      throw declared(method, error);
    }
    if (method.isDefault()) return ofDefault(self, method, arguments);
    throw new UnsupportedOperationException(this + " does not implement " + method.getName());
  }

  /** Returns the result of a default method of Spark. That of `Table.columns`, which converts the schema, is kept: Spark calls it for every reference to a table. */
  private Object ofDefault(Object self, Method method, Object[] arguments) throws Throwable {
    Object result = InvocationHandler.invokeDefault(self, method, arguments);
    if (result instanceof Column[]) description.constants.put(method, result);
    return result;
  }

  /** Returns what turns values of this function of partitions into those of another one; null where nothing does. */
  private Object reducer(Object[] arguments) {
    Object name = described("name");
    boolean areBuckets = arguments.length == 3;
    PythonProxy other = behind(arguments[areBuckets ? 1 : 0]);
    if (other == null) return null;
    if (!areBuckets) return TransformReducer.ofTimes(name, other.described("name"));
    return TransformReducer.ofBuckets(name, ((Integer) arguments[0]).intValue(), other.described("name"), ((Integer) arguments[2]).intValue());
  }

  /** Returns an error that a proxy's method may throw: the JVM wraps an error that the method does not declare, and callers would not recognize it. */
  private static Throwable declared(Method method, Throwable error) {
    Class[] declared = method.getExceptionTypes();
    boolean isDeclared = error instanceof RuntimeException || error instanceof Error;
    for (int i = 0; i < declared.length; i++) isDeclared = isDeclared || declared[i].isInstance(error);
    return isDeclared ? error : new InvalidStatement(error.getMessage(), error);
  }

  private Object ofAnyObject(String method, Object[] arguments) {
    Object identity = description.parts.get("identity");
    if (method.equals("toString")) return toString();
    if (method.equals("hashCode")) return Integer.valueOf(identity == null ? System.identityHashCode(proxy) : identity.hashCode());
    PythonProxy other = behind(arguments[0]);
    return Boolean.valueOf(proxy == arguments[0] || (identity != null && other != null && identity.equals(other.description.parts.get("identity"))));
  }

  public String toString() {
    Object name = part("constants").get("toString");
    return name instanceof String ? (String) name : "Icefloe's " + proxy.getClass().getInterfaces()[0].getSimpleName();
  }

  /** Replaces this object, for Java's serialization, in a plan that Spark sends to executors, which cannot call Python's objects of the driver. */
  public Object writeReplace() {
    if (!(proxy instanceof ScalarFunction)) return new DriverProxy(toString());
    return new DriverProxy(toString(), (ScalarFunction) proxy, (Expression) once("body"));
  }

  private Object constant(Method method) {
    Object described = part("constants").get(method.getName());
    Object value = convert(method.getGenericReturnType(), described, new Object[0], this);
    if (value != null && value != proxy && value != this) description.constants.put(method, value);
    return value;
  }

  /** Calls a method without arguments. A method with an effect returns nothing or a primitive value, and is called each time; results of other methods are kept. */
  private Object withoutArguments(final Method method, final String name) {
    final Generation current = generation;
    Callable reply =
        new Callable() {
          public Object call() {
            return convert(method.getGenericReturnType(), parsed(PythonProxy.this.call(name, "null")), current.objects, PythonProxy.this);
          }
        };
    return method.getReturnType().isPrimitive() ? computed(reply) : result(current, method, reply);
  }

  private Object withArguments(Method method, String name, Object[] arguments) {
    Object[] objects = arguments[0] instanceof Object[] ? (Object[]) arguments[0] : generation.objects;
    Object[] values = (Object[]) arguments.clone();
    if (arguments[0] instanceof TableChange) SchemaEvolution.propose((TableChange) arguments[0]);
    try {
      return convert(method.getGenericReturnType(), parsed(call(name, ConnectorJson.json(values))), objects, this);
    } finally {
      generation = new Generation(objects);
    }
  }

  /** Returns the kept result, which the first thread that needs it computes. A null or an error is not kept. */
  private static Object result(Generation generation, Object key, Callable reply) {
    Computation started = new Computation(reply);
    Computation computation = (Computation) generation.results.putIfAbsent(key, started);
    if (computation == null) {
      computation = started;
      started.run();
    } else if (computation.thread == Thread.currentThread() && !computation.isDone()) {
      return computed(reply); // Python called back into the same method: waiting would never end
    }
    try {
      Object value = computation.get();
      if (value == null) generation.results.remove(key, computation);
      return value;
    } catch (ExecutionException error) {
      generation.results.remove(key, computation);
      throw PythonBridge.unchecked(error.getCause());
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      throw PythonBridge.unchecked(error);
    }
  }

  private static Object computed(Callable reply) {
    try {
      return reply.call();
    } catch (Exception error) {
      throw PythonBridge.unchecked(error);
    }
  }

  private static Object parsed(Object reply) {
    return reply instanceof String ? PythonBridge.parsed((String) reply) : reply;
  }

  /** Adds the time zone, the Iceberg settings, the size of splits and the kind of optimizer of the reading session to the options of a read. The session is the one of this thread; Python's thread has another. */
  private static Map withSession(CaseInsensitiveStringMap options) {
    LinkedHashMap map = new LinkedHashMap();
    map.put("options", options.asCaseSensitiveMap());
    map.put("zone", SQLConf.get().sessionLocalTimeZone());
    map.put("settings", settings(SQLConf.get()));
    map.put("split_bytes", Long.valueOf(SQLConf.get().filesMaxPartitionBytes()));
    map.put("groups_partitions", Boolean.valueOf(SQLConf.get().v2BucketingEnabled()));
    map.put("uses_statistics", Boolean.valueOf(SQLConf.get().cboEnabled() || SQLConf.get().planStatsEnabled()));
    return map;
  }

  /** Returns the settings of a session that reads and writes look at. */
  static Map settings(SQLConf session) {
    LinkedHashMap settings = new LinkedHashMap();
    scala.collection.Iterator entries = session.getAllConfs().iterator();
    while (entries.hasNext()) {
      scala.Tuple2 entry = (scala.Tuple2) entries.next();
      String name = (String) entry._1();
      // The branch is that of write-audit-publish, which tables are read from: replies to a query are kept, also by a DataFrame from before the setting.
      if (name.startsWith("spark.sql.iceberg.") || name.startsWith("spark.icefloe.") || name.equals("spark.wap.branch")) settings.put(name, entry._2());
    }
    return settings;
  }

  /** Returns the result of a function or procedure for a row. A function is a Catalyst expression; a procedure runs when its result is iterated over, where any error may be thrown. */
  private Object ofRow(Method method, final InternalRow row) {
    if (method.getReturnType() != Iterator.class) return ((Expression) once("body")).eval(row);
    return new Iterator() {
      private boolean isDone;

      public boolean hasNext() {
        return !isDone;
      }

      public Object next() {
        isDone = true;
        return of((BiFunction) call("call", Collections.singletonList(row)));
      }
    };
  }

  /** Converts a JSON value or an object to a type. A number is an index of `objects`; `self` is the object whose method returns the value, if any. */
  private static Object convert(Type type, Object value, Object[] objects, PythonProxy self) {
    if (type == null) return value;
    if (type == void.class) return null;
    if (type instanceof ParameterizedType) return collection((ParameterizedType) type, value, objects, self);
    Class target = (Class) type;
    if (target == OptionalLong.class) return value == null ? OptionalLong.empty() : OptionalLong.of(((Number) value).longValue());
    if (value == null || target.isInstance(value)) return value;
    if (target == long.class) return Long.valueOf(((Number) value).longValue());
    if (target == NamedReference.class) return FieldReference.column((String) value);
    if (target == Identifier.class) return PythonBridge.identifier(PythonBridge.strings(value));
    if (DataType.class.isAssignableFrom(target)) return DataType.fromJson((String) value);
    if (target.isEnum()) return enumConstant(target, value);
    if (target.isArray()) return array(target.getComponentType(), (List) value, objects, self);
    if (value instanceof BiFunction) return of((BiFunction) value);
    if (value.equals("this")) return target.isInstance(self.proxy) ? self.proxy : self;
    if (value instanceof Integer && !target.isPrimitive()) return objects[((Integer) value).intValue()];
    if (value instanceof Map) return new PythonProxy(null, new Description(Collections.singletonMap("constants", value), new Class[] {target}, 0), null).proxy;
    return value;
  }

  private static Object array(Class component, List values, Object[] objects, PythonProxy self) {
    Object array = Array.newInstance(component, values.size());
    for (int i = 0; i < values.size(); i++) Array.set(array, i, convert(component, values.get(i), objects, self));
    return array;
  }

  private static Object collection(ParameterizedType type, Object value, Object[] objects, PythonProxy self) {
    Type[] parts = type.getActualTypeArguments();
    if (type.getRawType() == Optional.class) return Optional.ofNullable(convert(parts[0], value, objects, self));
    if (type.getRawType() == Map.class) {
      LinkedHashMap map = new LinkedHashMap();
      Iterator entries = ((Map) value).entrySet().iterator();
      while (entries.hasNext()) {
        Map.Entry entry = (Map.Entry) entries.next();
        map.put(convert(parts[0], entry.getKey(), objects, self), convert(parts[1], entry.getValue(), objects, self));
      }
      return map;
    }
    LinkedHashSet set = new LinkedHashSet();
    Iterator values = ((List) value).iterator();
    while (values.hasNext()) set.add(convert(parts[0], values.next(), objects, self));
    set.remove(null);
    return set;
  }

  /** Returns the constant of an enum; null where this version of Spark does not have it. */
  private static Object enumConstant(Class type, Object name) {
    Object[] values = type.getEnumConstants();
    for (int i = 0; i < values.length; i++) if (((Enum) values[i]).name().equals(name)) return values[i];
    return null;
  }

  private Map part(String name) {
    return description.part(name);
  }

  /** Returns those of the named interfaces that this version of Spark has. */
  private static Class[] interfaces(List names) {
    Class[] classes = (Class[]) INTERFACES.get(names);
    if (classes != null) return classes;
    ArrayList list = new ArrayList();
    for (int i = 0; i < names.size(); i++) {
      try {
        list.add(Class.forName(CONNECTOR + names.get(i), false, PythonProxy.class.getClassLoader()));
      } catch (ClassNotFoundException later) {
        continue;
      }
    }
    classes = (Class[]) list.toArray(new Class[0]);
    INTERFACES.put(names, classes);
    return classes;
  }
}
