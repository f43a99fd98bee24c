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
import org.apache.spark.sql.connector.write.V1Write;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.sources.InsertableRelation;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * An object of Spark's connector whose methods Python implements, such as a table, scan, write or function. Python describes it once: `interfaces` are the interfaces that it implements;
 * `constants` are the results of methods whose result never changes; `methods` has the names of the Python methods, by the name of the Java method and its number of parameters. Objects with
 * the same `identity` are equal. A reply of Python is converted to the return type of the Java method.
 *
 * Several threads may call an object at once. Results of methods without arguments are cached in a `Generation`: one thread computes a result, and others wait for it, without a lock on the
 * object. A call with arguments may change the object, so it starts a new generation after Python has replied; no thread then uses a result from before the change. If a reply refers to
 * objects by their indexes, they are the arguments of the same call, never those of another thread.
 */
public final class PythonProxy implements InvocationHandler, InsertableRelation, Serializable {
  private static final String CONNECTOR = "org.apache.spark.sql.connector.";
  private static final Set WRITES = new HashSet(Arrays.asList(new Object[] {"run", "insert", "delete_where", "write_epoch"})); // Python methods that commit, and return counts of rows and files
  private static final Map INTERFACES = new ConcurrentHashMap(); // arrays of interfaces, by the lists of their names
  private static final int KEPT_REPLIES = 8;
  private static final int BYTES_OF_A_PART = 8; // the estimated size in memory of a parsed description, for each byte of its text
  private final BiFunction python; // the Python object; null if the object has only constants
  private final Description description;
  private final String key; // for a scan whose description is cached: the table's state and the query; otherwise null
  private final Object proxy; // the object that Spark sees
  private final Map replies = Collections.synchronizedMap(new LinkedHashMap()); // for a table: its replies to the last queries of scans, by message; JSON texts, or a PythonProxy for a scan
  private volatile Generation generation = new Generation(new Object[0]);

  private PythonProxy(BiFunction python, Description description, String key) {
    this.python = python;
    this.description = description;
    this.key = key;
    this.proxy = Proxy.newProxyInstance(PythonProxy.class.getClassLoader(), description.interfaces, this);
  }

  /** The parsed description of an object. Equal objects share it. */
  private static final class Description {
    final Map parts;
    final Class[] interfaces;
    final Map constants = new ConcurrentHashMap(); // converted constants, by method
    final long bytes; // the estimated size in memory

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

    /** Returns the text that identifies the state of the object: with an equal state, all replies to queries are equal. Returns null if replies must not be cached. */
    String state() {
      return (String) parts.get("state");
    }
  }

  /** The Python object of a scan whose description was cached. It is requested from the table at the first call of a method; most statements never call it. */
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
      if (python == null) python = (BiFunction) table.call(method, query); // two threads may both do this; their objects are equal
      return python.apply(name, message);
    }
  }

  /** The cached results since the last call with arguments, and the Java objects that were passed to that call. */
  private static final class Generation {
    final Object[] objects;
    final ConcurrentHashMap results = new ConcurrentHashMap(); // Computation objects, by Java method or Python name

    Generation(Object[] objects) {
      this.objects = objects;
    }
  }

  /** A result that one thread computes and other threads wait for. */
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

  /** Returns the table that Python loads. If its state is the same as when it was loaded last, the reply of Python has no description, because Java has it already. */
  static Table loaded(PythonObject catalog, Map message) {
    String key = tableKey(message);
    Description known = known(catalog, key, message);
    Object reply = PythonBridge.call(catalog, "load_table", ConnectorJson.json(message));
    if (!(reply instanceof PythonObject)) return (Table) reply; // Spark's relation for a view
    return loaded(catalog, key, known, (PythonObject) reply);
  }

  /** Returns the tables that Python loads for the messages, in their order and in their states at one moment; null if one of the names is not the plain name of a table. */
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

  /** Returns the description of the table when it was loaded last, and adds its state to the message; null if it was not loaded before. */
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

  /** Returns the PythonProxy that implements an object of Spark's connector; null if another class implements it. */
  public static PythonProxy behind(Object any) {
    InvocationHandler handler = any != null && Proxy.isProxyClass(any.getClass()) ? Proxy.getInvocationHandler(any) : null;
    return handler instanceof PythonProxy ? (PythonProxy) handler : null;
  }

  /** Returns the JSON value of a constant in Python's description, which need not be part of Spark's interfaces; null if there is no such constant. */
  public Object described(String name) {
    return part("constants").get(name);
  }

  /** Calls a Python method that is not part of Spark's interfaces. */
  Object call(String name, Object message) {
    if (WRITES.contains(name)) WriteMetrics.report(null);
    Object reply = PythonBridge.call(python, name, message);
    if (WRITES.contains(name)) WriteMetrics.report(reply);
    return reply;
  }

  /** Calls a Python method that returns another object of Spark's connector. */
  public Object objectOf(String name, String message) {
    return of((BiFunction) call(name, message));
  }

  /** Calls a method of a Python object, and converts the reply to a type. */
  static Object call(BiFunction python, Type type, String name, Object message) {
    return convert(type, parsed(PythonBridge.call(python, name, message)), new Object[0], null);
  }

  /** Returns the reply of a Python method without arguments. It is called once, and again only after a call with arguments. */
  public Object once(final String name) {
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
   * Returns the reply of a Python method to the query of a scan: JSON text, or a scan. The state of a loaded table never changes, so equal queries of several references get the same reply; but
   * each reference gets a separate scan object.
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

  /** Returns the cached reply that an earlier statement has received for the same state of the table; otherwise calls Python. */
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

  /** Returns Spark's logical plan for the rows of a scan: the cached plan of an earlier statement with the same state and query; otherwise the plan that Python returns. */
  LogicalPlan rows() {
    KeptReplies kept = key == null ? null : keptReplies();
    // Footers are read for a plan where an accelerator is on.
    String kind = Accelerator.of(SQLConf.get()) == null ? "rows " : "accelerated rows ";
    Object earlier = kept == null ? null : kept.get(kind + key);
    if (earlier != null) return (LogicalPlan) earlier;
    LogicalPlan plan = (LogicalPlan) once("rows");
    Long bytes = NativeScan.keptBytes(plan);
    if (kept != null && bytes != null) kept.put(kind + key, plan, bytes.longValue());
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

  /** Writes rows. Spark calls this method directly and not by the proxy, because methods of a proxy may not throw the checked exceptions of Spark's jobs. */
  public void insert(Dataset rows, boolean overwrite) {
    call("insert", Collections.singletonList(rows));
  }

  public Object invoke(Object self, Method method, Object[] arguments) throws Throwable {
    if (method.getDeclaringClass() == Object.class) return ofAnyObject(method.getName(), arguments);
    // Overloads of a method of Spark differ in their numbers of parameters. An overload that a later version of Spark added calls the original method by default.
    Object constant = description.constants.get(method);
    if (constant != null) return constant;
    if (method.getName().equals("reducer")) return reducer(arguments);
    if (proxy instanceof V1Write && method.getName().equals("supportedCustomMetrics")) return WriteMetrics.supported(Boolean.TRUE.equals(described("isCommittedLater")));
    if (proxy instanceof V1Write && method.getName().equals("reportDriverMetrics")) return WriteMetrics.reported();
    String name = (String) part("methods").get(method.getName() + "/" + method.getParameterTypes().length);
    boolean takesRow = arguments != null && arguments[0] instanceof InternalRow;
    try {
      if (part("constants").containsKey(method.getName())) return constant(method);
      if (method.getName().equals("toMicroBatchStream")) return new TableStream((BiFunction) call("stream", PythonBridge.json(arguments)));
      if (method.getName().equals("newScanBuilder")) return new SparkScanBuilder(this, withSession((CaseInsensitiveStringMap) arguments[0]));
      if (takesRow) return ofRow(method, (InternalRow) arguments[0]);
      if (arguments != null && arguments[arguments.length - 1] instanceof EpochRows[]) return ofEpoch((Long) arguments[0], ((EpochRows[]) arguments[1])[0]);
      if (name != null) return arguments == null ? withoutArguments(method, name) : withArguments(method, name, arguments);
    } catch (Throwable error) {
      throw declared(method, error);
    }
    if (method.isDefault()) return ofDefault(self, method, arguments);
    throw new UnsupportedOperationException(this + " does not implement " + method.getName());
  }

  /** Returns the result of a default method of Spark's interfaces. The result of `Table.columns`, which converts the schema, is cached: Spark calls it for every reference to a table. */
  private Object ofDefault(Object self, Method method, Object[] arguments) throws Throwable {
    Object result = InvocationHandler.invokeDefault(self, method, arguments);
    if (result instanceof Column[]) description.constants.put(method, result);
    return result;
  }

  /** Returns the reducer that converts values of this partition transform to values of another transform; null if there is no such reducer. */
  private Object reducer(Object[] arguments) {
    Object name = described("name");
    boolean areBuckets = arguments.length == 3;
    PythonProxy other = behind(arguments[areBuckets ? 1 : 0]);
    if (other == null) return null;
    if (!areBuckets) return TransformReducer.ofTimes(name, other.described("name"));
    return TransformReducer.ofBuckets(name, ((Integer) arguments[0]).intValue(), other.described("name"), ((Integer) arguments[2]).intValue());
  }

  /** Converts an error to one that the method of a proxy may throw. The JVM would wrap a checked exception that the method does not declare, and callers would not recognize it. */
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

  /** Returns the object that is serialized in place of this one, in a plan that Spark sends to executors: they cannot call the Python objects of the driver. */
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

  /** Calls a method without arguments. A method that returns nothing or a primitive value may have an effect, and is called each time; the results of other methods are cached. */
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

  /** Returns the cached result; the first thread that needs it computes it. A null or an error is not cached. */
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

  /** Returns the options of a read with the settings of the session that matter to it, such as the time zone. It is the session of this thread; the thread of Python has another session. */
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

  /** Returns the settings of a session that affect reads and writes. */
  static Map settings(SQLConf session) {
    LinkedHashMap settings = new LinkedHashMap();
    scala.collection.Iterator entries = session.getAllConfs().iterator();
    while (entries.hasNext()) {
      scala.Tuple2 entry = (scala.Tuple2) entries.next();
      String name = (String) entry._1();
      // The branch of write-audit-publish affects reads. It must be part of a query, because replies to queries are cached, also by DataFrames that are older than the setting.
      if (name.startsWith("spark.sql.iceberg.") || name.startsWith("spark.icefloe.") || name.equals("spark.wap.branch") || isOfVariants(name)) settings.put(name, entry._2());
    }
    return settings;
  }

  /** Returns whether Spark's reader of variants depends on a setting; `spark_types.py` has the values with which it reads what is stored. */
  private static boolean isOfVariants(String name) {
    if (name.equals("spark.sql.variant.allowReadingShredded") || name.equals("spark.sql.parquet.binaryAsString")) return true;
    return name.equals("spark.sql.parquet.inferTimestampNTZ.enabled") || name.equals("spark.sql.legacy.parquet.nanosAsLong");
  }

  /** Returns the result of a function or procedure for a row of arguments. A function is evaluated as a Catalyst expression. A procedure runs when its result is iterated, where any error may be thrown. */
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

  /** Writes and commits the rows of a micro-batch. */
  private Object ofEpoch(Long epoch, EpochRows micro) {
    call("write_epoch", Arrays.asList(new Object[] {PythonBridge.json(epoch), micro.rows}));
    return null;
  }

  /** Converts a JSON value or an object to a type. An integer for a type that is not primitive is an index of `objects`. `self` is the object whose method returns the value, if any. */
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

  /** Returns the constant of an enum that has this name; null if this version of Spark does not have it. */
  private static Object enumConstant(Class type, Object name) {
    Object[] values = type.getEnumConstants();
    for (int i = 0; i < values.length; i++) if (((Enum) values[i]).name().equals(name)) return values[i];
    return null;
  }

  private Map part(String name) {
    return description.part(name);
  }

  /** Returns the interfaces with these names. Interfaces that this version of Spark does not have are left out. */
  private static Class[] interfaces(List names) {
    Class[] classes = (Class[]) INTERFACES.get(names);
    if (classes != null) return classes;
    ArrayList list = new ArrayList();
    for (int i = 0; i < names.size(); i++) {
      try {
        String name = (String) names.get(i);
        list.add(Class.forName(name.startsWith("org.") ? name : CONNECTOR + name, false, PythonProxy.class.getClassLoader()));
      } catch (ClassNotFoundException later) {
        continue;
      }
    }
    classes = (Class[]) list.toArray(new Class[0]);
    INTERFACES.put(names, classes);
    return classes;
  }
}
