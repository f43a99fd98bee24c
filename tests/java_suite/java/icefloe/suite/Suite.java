package icefloe.suite;

import java.io.File;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.AlreadyExistsException;
import org.apache.iceberg.hadoop.HadoopCatalog;
import org.apache.iceberg.hadoop.HadoopTables;
import org.apache.iceberg.hive.HiveCatalog;
import org.apache.iceberg.spark.Spark3Util;
import org.apache.parquet.hadoop.metadata.FileMetaData;
import org.apache.parquet.schema.MessageType;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.RuntimeConfig;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.catalog.Identifier;

/** The Java side of the run: what the tests' own set-up is replaced by, and the messages to Python. */
public final class Suite {
  private static final String CATALOGS = "spark.sql.catalog.";
  private static final Map<String, Map<String, String>> WANTED = new TreeMap<>();
  private static final Map<String, Map<String, String>> ATTACHED = new TreeMap<>(); // `spark_catalog` from the start, without properties
  private static final List<String> DIFFERENCES = new ArrayList<>();
  private static final Map<String, String> SETTINGS = new TreeMap<>(); // of the session, before the first class
  private static SparkSession session;
  private static File folder;
  private static HiveCatalog database;

  private Suite() {}

  /** Takes the session that Icefloe is attached to, and the folder with the SQLite file and the warehouse. */
  public static void open(SparkSession spark, String path) {
    session = spark;
    folder = new File(path);
    database = new HiveCatalog();
    database.setConf(spark.sessionState().newHadoopConf());
    Map<String, String> properties = new LinkedHashMap<>();
    properties.put("uri", "jdbc:sqlite:" + path + "/catalog.db");
    properties.put("warehouse", "file:" + path + "/warehouse");
    properties.put("jdbc.schema-version", "V1");
    properties.put("jdbc.busy_timeout", "30000");
    properties.put("clients", "1");
    database.initialize("suite", properties);
    SETTINGS.putAll(settings());
  }

  /** Each class of tests has its own session in Java: undoes what an earlier one set and left, such as `spark.wap.id`. Attached catalogs stay. */
  static void resetSettings() {
    RuntimeConfig conf = session.conf();
    for (Map.Entry<String, String> setting : settings().entrySet()) {
      String first = SETTINGS.get(setting.getKey());
      if (setting.getKey().startsWith(CATALOGS) || setting.getValue().equals(first)) {
        continue;
      }
      if (first == null) {
        conf.unset(setting.getKey());
      } else {
        conf.set(setting.getKey(), first);
      }
    }
  }

  private static Map<String, String> settings() {
    return scala.jdk.javaapi.CollectionConverters.asJava(session.conf().getAll());
  }

  // What replaces the tests' own set-up.

  /** Sets the static fields that the tests' own set-up would, of the class of the tests or of one that they extend. */
  public static void start(Class<?> tests) throws Exception {
    SparkSession.setActiveSession(session);
    SparkSession.setDefaultSession(session);
    setStatic(tests, "hiveConf", new HiveConf());
    setStatic(tests, "spark", session);
    setStatic(tests, "sparkContext", JavaSparkContext.fromSparkContext(session.sparkContext()));
    setStatic(tests, "catalog", database);
    // These tests look at the first file of a statement, which their own session writes with one core.
    session.conf().set("spark.sql.leafNodeDefaultParallelism", tests.getSimpleName().equals("TestVariantShredding") ? "1" : "2");
    try {
      database.createNamespace(Namespace.of("default"));
    } catch (AlreadyExistsException existing) {
      // Another class of tests made it.
    }
  }

  public static void stop() {}

  /** Returns the schema of a Parquet file under the name that Java gives it; every writer has another. */
  public static MessageType schema(FileMetaData file) {
    return new MessageType("table", file.getSchema().getFields());
  }

  public static String databasePath(String name) {
    return folder + "/warehouse/" + name;
  }

  private static void setStatic(Class<?> tests, String name, Object value) throws Exception {
    for (Class<?> one = tests; one != null; one = one.getSuperclass()) {
      for (Field field : one.getDeclaredFields()) {
        if (field.getName().equals(name) && Modifier.isStatic(field.getModifiers()) && field.getType().isInstance(value)) {
          field.setAccessible(true);
          field.set(null, value);
        }
      }
    }
  }

  // Settings of catalogs: Python attaches a catalog of Icefloe where a test configures a catalog of Java.

  public static void set(RuntimeConfig conf, String key, String value) {
    if (!key.startsWith(CATALOGS)) {
      conf.set(key, value);
      return;
    }
    String name = key.substring(CATALOGS.length());
    String property = "";
    if (name.contains(".")) {
      property = name.substring(name.indexOf('.') + 1);
      name = name.substring(0, name.indexOf('.'));
    }
    WANTED.computeIfAbsent(name, unused -> new TreeMap<>()).put(property, value);
    attach(name);
  }

  public static void unset(RuntimeConfig conf, String key) {
    if (!key.startsWith(CATALOGS)) {
      conf.unset(key);
      return;
    }
    String name = key.substring(CATALOGS.length());
    if (!name.contains(".")) {
      WANTED.remove(name);
    } else {
      String property = name.substring(name.indexOf('.') + 1);
      name = name.substring(0, name.indexOf('.'));
      if (WANTED.containsKey(name)) {
        WANTED.get(name).remove(property);
        attach(name);
      }
    }
  }

  private static void attach(String name) {
    Map<String, String> wanted = WANTED.get(name);
    boolean complete =
        wanted.containsKey("") && (wanted.containsKey("catalog-impl") || wanted.containsKey("type")) && (!isHadoop(wanted) || wanted.containsKey("warehouse"));
    if (complete && !wanted.equals(ATTACHED.get(name))) {
      Map<String, Object> message = new LinkedHashMap<>();
      message.put("kind", "attach");
      message.put("name", name);
      message.put("properties", new TreeMap<>(wanted));
      Messages.ask(message);
      ATTACHED.put(name, new TreeMap<>(wanted));
    }
  }

  private static boolean isHadoop(Map<String, String> properties) {
    return "hadoop".equals(properties.get("type"));
  }

  // Java's view of tables: what tests look at after Icefloe wrote.

  public static Table loadTable(SparkSession spark, String name) throws Exception {
    Spark3Util.CatalogAndIdentifier found = Spark3Util.catalogAndIdentifier(spark, name);
    Identifier identifier = found.identifier();
    return loadCatalog(spark, found.catalog().name()).loadTable(TableIdentifier.of(Namespace.of(identifier.namespace()), identifier.name()));
  }

  public static Catalog loadCatalog(SparkSession spark, String name) {
    Map<String, String> properties = ATTACHED.get(name);
    if (properties != null && isHadoop(properties)) {
      return new HadoopCatalog(spark.sessionState().newHadoopConf(), properties.get("warehouse"));
    }
    return database;
  }

  // Differences in errors.

  public static boolean isTolerated(Object assertion, String method, Object[] arguments) {
    Object actual;
    try {
      Field field = Class.forName("org.assertj.core.api.AbstractAssert").getDeclaredField("actual");
      field.setAccessible(true);
      actual = field.get(assertion);
    } catch (ReflectiveOperationException error) {
      return false;
    }
    if (!(actual instanceof Throwable)) {
      return false;
    }
    boolean ofClass = method.endsWith("InstanceOf");
    String expected = arguments.length == 0 ? "" : text(arguments[0]);
    String kind = !ofClass ? "words" : isNamed((Throwable) actual, expected) ? "named" : "class";
    DIFFERENCES.add(kind + ": expected " + expected + " but was " + Messages.shorten(actual.toString(), 400));
    return true;
  }

  private static String text(Object argument) {
    return argument instanceof Class ? ((Class<?>) argument).getSimpleName() : Messages.shorten(String.valueOf(argument), 200);
  }

  /** Whether the error, one of its classes or what it was caused by has that simple name, or its text names it. */
  private static boolean isNamed(Throwable error, String expected) {
    if (expected.equals("IcebergParseException")) {
      expected = "ParseException"; // Spark's own, which Java's extends
    }
    for (Throwable cause = error; cause != null; cause = cause.getCause()) {
      for (Class<?> one = cause.getClass(); one != null; one = one.getSuperclass()) {
        if (one.getSimpleName().equals(expected)) {
          return true;
        }
      }
      if (String.valueOf(cause.getMessage()).contains(expected)) {
        return true;
      }
    }
    return false;
  }

  static List<String> takeDifferences() {
    List<String> taken = new ArrayList<>(DIFFERENCES);
    DIFFERENCES.clear();
    return taken;
  }

  /** After a failed test: what it left behind would fail the next ones. */
  static void clear() {
    Map<String, Object> message = new LinkedHashMap<>();
    message.put("kind", "clear");
    message.put("warehouses", ATTACHED.values().stream().filter(Suite::isHadoop).map(one -> one.get("warehouse")).distinct().toArray());
    Messages.ask(message);
  }
}
