package icefloe.sparksuite;

import static net.bytebuddy.matcher.ElementMatchers.any;
import static net.bytebuddy.matcher.ElementMatchers.isAbstract;
import static net.bytebuddy.matcher.ElementMatchers.isStatic;
import static net.bytebuddy.matcher.ElementMatchers.named;
import static net.bytebuddy.matcher.ElementMatchers.none;
import static net.bytebuddy.matcher.ElementMatchers.not;
import static net.bytebuddy.matcher.ElementMatchers.takesArguments;

import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import net.bytebuddy.ByteBuddy;
import net.bytebuddy.asm.MemberSubstitution;
import net.bytebuddy.description.type.TypeDescription;
import net.bytebuddy.dynamic.ClassFileLocator;
import net.bytebuddy.dynamic.DynamicType;
import net.bytebuddy.dynamic.scaffold.TypeValidation;
import net.bytebuddy.implementation.MethodCall;
import net.bytebuddy.implementation.StubMethod;
import net.bytebuddy.pool.TypePool;
import org.apache.spark.sql.classic.DataFrameReader;
import org.apache.spark.sql.classic.RuntimeConfig;
import org.apache.spark.sql.connector.DatasourceV2SQLBase;
import org.apache.spark.sql.connector.RowLevelOperationSuiteBase;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.test.SharedSparkSessionBase;
import org.scalactic.Bool;
import org.scalactic.Prettifier;
import org.scalactic.source.Position;
import org.scalatest.Assertions;

/** Writes changed copies of a few classes of Spark's tests into a folder that comes first on the class path, so that the tests use Icefloe's catalogs. Argument: the folder. */
public final class Prepare {
  private final ClassFileLocator classFiles = ClassFileLocator.ForClassLoader.ofSystemLoader();
  private final TypePool types = TypePool.Default.of(classFiles);
  private final ByteBuddy byteBuddy = new ByteBuddy().with(TypeValidation.DISABLED).ignore(none()); // lambdas are synthetic methods
  private final Path target;

  private Prepare(Path target) {
    this.target = target;
  }

  public static void main(String[] arguments) throws Exception {
    Prepare prepare = new Prepare(new File(arguments[0]).toPath());
    prepare.save(
        prepare
            .copyOf("org.apache.spark.sql.test.SharedSparkSessionBase")
            .method(named("createSparkSession").and(not(isStatic())).and(not(isAbstract())))
            .intercept(MethodCall.invoke(Suites.class.getMethod("createSparkSession", SharedSparkSessionBase.class)).withThis()));
    prepare.save(
        prepare
            .copyOf("org.apache.spark.sql.execution.datasources.SchemaPruningSuite")
            .visit(
                MemberSubstitution.relaxed()
                    .method(named("load").and(takesArguments(String.class)))
                    .replaceWith(Suites.class.getMethod("load", DataFrameReader.class, String.class))
                    .on(any())));
    prepare.save(
        prepare
            .copyOf("org.apache.spark.sql.connector.DatasourceV2SQLBase")
            .method(named("registerCatalog").and(not(isStatic())))
            .intercept(MethodCall.invoke(Suites.class.getMethod("registerCatalog", DatasourceV2SQLBase.class, String.class, Class.class)).withThis().withAllArguments()));
    prepare.redirectRowLevelOperations();
    prepare.leaveOutMergeSummaries();
    for (String suite : new String[] {"UpdateTableSuiteBase", "DeleteFromTableSuiteBase", "InsertIntoTests"}) {
      // Spark's table in memory keeps the numbers of its last write.
      prepare.save(
          prepare
              .copyOf("org.apache.spark.sql.connector." + suite)
              .method(named("checkUpdateMetrics").or(named("checkDeleteMetrics")).or(named("checkInsertMetrics")).and(not(isStatic())))
              .intercept(StubMethod.INSTANCE)
              // Checks of Spark's own plan of a DELETE.
              .method(named("executeDeleteWithFilters").or(named("executeDeleteWithRewrite")).and(not(isStatic())))
              .intercept(MethodCall.invoke(Suites.class.getMethod("runOnly", String.class)).withArgument(0)));
    }
  }

  private void leaveOutMergeSummaries() throws Exception {
    save(
        copyOf("org.apache.spark.sql.connector.MergeIntoTableSuiteBase")
            .method(named("getMergeSummary"))
            .intercept(MethodCall.invoke(Suites.class.getMethod("mergeSummary")))
            // Spark's method looks at the transaction of its catalog in memory too.
            .method(named("assertCardinalityError").and(not(isStatic())))
            .intercept(MethodCall.invoke(Suites.class.getMethod("assertCardinalityError", String.class)).withArgument(0))
            // A check of Spark's own plan of a MERGE.
            .method(named("assertNoLeftBroadcastOrReplication").and(takesArguments(String.class)))
            .intercept(MethodCall.invoke(Suites.class.getMethod("runOnly", String.class)).withArgument(0))
            .visit(
                MemberSubstitution.relaxed()
                    .method(named("macroAssert").and(takesArguments(4)))
                    .replaceWith(
                        Suites.class.getMethod("macroAssert", Assertions.AssertionsHelper.class, Bool.class, Object.class, Prettifier.class, Position.class))
                    .on(any())));
  }

  private void redirectRowLevelOperations() throws Exception {
    save(
        copyOf("org.apache.spark.sql.connector.RowLevelOperationSuiteBase")
            .method(named("catalog").and(takesArguments(0)))
            .intercept(MethodCall.invoke(Suites.class.getMethod("catalog", RowLevelOperationSuiteBase.class)).withThis())
            // What Spark's table in memory records of its last write; Icefloe's tables do not record it.
            .method(named("checkReplacedPartitions").or(named("checkLastWriteInfo")).or(named("checkLastWriteLog")).and(not(isStatic())))
            .intercept(StubMethod.INSTANCE)
            .method(named("executeAndCheckScan").or(named("executeAndCheckScans")).and(not(isStatic())))
            .intercept(MethodCall.invoke(Suites.class.getMethod("runOnly", String.class)).withArgument(0))
            .visit(
                MemberSubstitution.relaxed()
                    .method(named("set").and(takesArguments(String.class, String.class)))
                    .replaceWith(Suites.class.getMethod("set", RuntimeConfig.class, String.class, String.class))
                    .on(any()))
            .visit(
                MemberSubstitution.relaxed()
                    .method(named("unsetConf").and(takesArguments(String.class)))
                    .replaceWith(Suites.class.getMethod("unset", SQLConf.class, String.class))
                    .on(any()))
            .visit(
                MemberSubstitution.relaxed()
                    .method(named("reset").and(takesArguments(0)))
                    .replaceWith(Suites.class.getMethod("reset", CatalogManager.class))
                    .on(any())));
  }

  private DynamicType.Builder<?> copyOf(String name) {
    TypeDescription type = types.describe(name).resolve();
    return byteBuddy.redefine(type, classFiles);
  }

  private void save(DynamicType.Builder<?> copy) throws Exception {
    for (Map.Entry<TypeDescription, byte[]> entry : copy.make().getAllTypes().entrySet()) {
      Path file = target.resolve(entry.getKey().getInternalName() + ".class");
      Files.createDirectories(file.getParent());
      Files.write(file, entry.getValue());
    }
  }
}
