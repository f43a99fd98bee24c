package icefloe.sparksuite;

import icefloe.suite.Messages;
import java.lang.reflect.Proxy;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkRuntimeException;
import org.apache.spark.sql.classic.DataFrameReader;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.RuntimeConfig;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.connector.DatasourceV2SQLBase;
import org.apache.spark.sql.connector.RowLevelOperationSuiteBase;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.connector.catalog.InMemoryRowLevelOperationTableCatalog;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.write.MergeSummary;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.test.SharedSparkSessionBase;
import org.apache.spark.sql.test.TestSparkSession;
import org.scalactic.Bool;
import org.scalactic.Prettifier;
import org.scalactic.source.Position;
import org.scalatest.Assertions;
import org.scalatest.Succeeded$;
import org.scalatest.compatible.Assertion;
import scala.Function0;
import scala.Tuple2;

/** What parts of Spark's suites are replaced by: the session, the reader of files, the catalog. `Prepare` redirects the calls. */
public final class Suites {
  private static final String CATALOGS = "spark.sql.catalog.";
  private static final List<String> SQL_CATALOGS = List.of("testcat", "testcat2", "testcat_atomic");
  private static final Long NOT_RECORDED = -987654321L;
  private static SparkContext context;
  private static SuiteSession session;
  private static int tables;

  private Suites() {}

  public static void open(SparkContext started) {
    context = started;
  }

  /** The session that the current suite uses, for Python. */
  public static SparkSession session() {
    return session;
  }

  /** Makes the session of a suite, with the suite's own settings, and has Python attach Icefloe's catalogs to it. */
  public static TestSparkSession createSparkSession(SharedSparkSessionBase suite) {
    session = new SuiteSession(context);
    SparkSession.setActiveSession(session);
    SparkSession.setDefaultSession(session);
    SparkConf conf = suite.sparkConf();
    for (Tuple2<String, String> setting : conf.getAll()) {
      if (setting._1().startsWith("spark.sql.") && session.conf().isModifiable(setting._1())) {
        session.conf().set(setting._1(), setting._2());
      }
    }
    ask("attach");
    for (String name : SQL_CATALOGS) {
      SuiteCatalog.keep(name, session.sessionState().catalogManager().catalog(name));
    }
    session.sessionState().catalogManager().reset();
    return session;
  }

  /** Reads files as the suite reads them, and returns the same rows from an Iceberg table. */
  public static Dataset<Row> load(DataFrameReader reader, String path) throws Exception {
    Dataset<Row> rows = reader.load(path);
    String name = "lake.default.loaded" + ++tables;
    var writer = rows.coalesce(1).writeTo(name).using("iceberg");
    boolean isPartitioned = java.util.Arrays.asList(rows.columns()).contains("p");
    (isPartitioned ? writer.partitionedBy(functions.col("p"), new org.apache.spark.sql.Column[0]) : writer).create();
    return session.table(name);
  }

  /** The suites' catalogs are Icefloe's, which are attached already. */
  public static void set(RuntimeConfig conf, String key, String value) {
    if (!key.startsWith(CATALOGS)) {
      conf.set(key, value);
    }
  }

  public static void unset(SQLConf conf, String key) {
    if (!key.startsWith(CATALOGS)) {
      conf.unsetConf(key);
    }
  }

  /** Registers a catalog of the suites of SQL, before each test and after all settings were cleared: Icefloe's, with no tables, where the tests use any catalog of tables. */
  public static void registerCatalog(DatasourceV2SQLBase suite, String name, Class<?> type) {
    session.conf().set(CATALOGS + name, SQL_CATALOGS.contains(name) ? SuiteCatalog.class.getName() : type.getName());
    session.conf().set("spark.sql.parquet.fieldId.read.enabled", "true");
    if (name.equals(SQL_CATALOGS.get(0))) {
      ask("clear");
    }
  }

  /** Drops the tables of a test, in Python. */
  public static void reset(CatalogManager manager) {
    ask("clear");
  }

  public static InMemoryRowLevelOperationTableCatalog catalog(RowLevelOperationSuiteBase suite) {
    String mode = suite.getClass().getSimpleName().startsWith("GroupBased") ? "copy-on-write" : "merge-on-read";
    return new IcebergCatalog((TableCatalog) session.sessionState().catalogManager().catalog("cat"), mode);
  }

  /** Runs the statement of a check that looks for Spark's own scan or command in the plan. */
  public static void runOnly(String query) {
    session.sql(query);
  }

  /** Returns numbers in place of those that Spark's table in memory keeps of its last MERGE; Icefloe's tables do not record them. */
  public static MergeSummary mergeSummary() {
    return (MergeSummary) Proxy.newProxyInstance(Suites.class.getClassLoader(), new Class<?>[] {MergeSummary.class}, (self, method, arguments) -> NOT_RECORDED);
  }

  /** Checks what a test asserts, but for those numbers. */
  public static Assertion macroAssert(Assertions.AssertionsHelper helper, Bool found, Object clue, Prettifier prettifier, Position position) {
    return found.failureMessageArgs().mkString(" ").contains(NOT_RECORDED.toString()) ? Succeeded$.MODULE$ : helper.macroAssert(found, clue, prettifier, position);
  }

  /** Checks that a MERGE fails because rows of its source match the same row of the table. */
  public static void assertCardinalityError(String query) {
    try {
      session.sql(query);
    } catch (SparkRuntimeException error) {
      if (error.getMessage().contains("ON search condition of the MERGE statement")) {
        return;
      }
      throw error;
    }
    throw new AssertionError("no error of a row that several rows of the source match: " + query);
  }

  private static void ask(String kind) {
    Map<String, Object> message = new LinkedHashMap<>();
    message.put("kind", kind);
    Messages.ask(message);
  }
}
