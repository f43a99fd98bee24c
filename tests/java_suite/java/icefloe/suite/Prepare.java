package icefloe.suite;

import static net.bytebuddy.matcher.ElementMatchers.any;
import static net.bytebuddy.matcher.ElementMatchers.isDeclaredBy;
import static net.bytebuddy.matcher.ElementMatchers.isStatic;
import static net.bytebuddy.matcher.ElementMatchers.nameStartsWith;
import static net.bytebuddy.matcher.ElementMatchers.named;
import static net.bytebuddy.matcher.ElementMatchers.none;
import static net.bytebuddy.matcher.ElementMatchers.takesArgument;
import static net.bytebuddy.matcher.ElementMatchers.takesArguments;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;
import java.util.zip.ZipOutputStream;
import net.bytebuddy.ByteBuddy;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.asm.AsmVisitorWrapper;
import net.bytebuddy.asm.MemberSubstitution;
import net.bytebuddy.description.type.TypeDescription;
import net.bytebuddy.dynamic.ClassFileLocator;
import net.bytebuddy.dynamic.DynamicType;
import net.bytebuddy.dynamic.scaffold.TypeValidation;
import net.bytebuddy.implementation.FixedValue;
import net.bytebuddy.implementation.MethodCall;
import net.bytebuddy.jar.asm.MethodVisitor;
import net.bytebuddy.jar.asm.Opcodes;
import net.bytebuddy.pool.TypePool;
import net.bytebuddy.utility.OpenedClassReader;
import org.apache.parquet.hadoop.metadata.FileMetaData;
import org.apache.parquet.schema.Type;
import org.apache.spark.sql.RuntimeConfig;
import org.apache.spark.sql.SparkSession;

/**
 * Writes changed copies of the tests' classes and of a few others into a folder that comes first on the class path: a session that runs already is used instead of a new one,
 * catalogs are Icefloe's, and differences in the words of errors are recorded. Arguments: the folder of jars, the folder to write.
 */
public final class Prepare {
  private static final List<String> NEW_INTERFACES = List.of("org/apache/spark/sql/connector/catalog/CatalogManager");
  private static final List<String> CHANGED =
      List.of("org/apache/spark/sql/connector/catalog/CatalogManager", "org/apache/spark/sql/RuntimeConfig", "org/apache/parquet/hadoop/metadata/FileMetaData", "countDeletes", "startMetastoreAndSpark", "stopSpark", "stopMetastoreAndSpark");
  private final ClassFileLocator classFiles = ClassFileLocator.ForClassLoader.ofSystemLoader();
  private final TypePool types = TypePool.Default.of(classFiles);
  private final ByteBuddy byteBuddy = new ByteBuddy().with(TypeValidation.DISABLED).ignore(none()); // lambdas are synthetic methods
  private final File target;

  private Prepare(File target) {
    this.target = target;
  }

  public static void main(String[] arguments) throws Exception {
    File jars = new File(arguments[0]);
    Prepare prepare = new Prepare(new File(arguments[1]));
    List<String> testClasses = new ArrayList<>();
    for (File jar : jars.listFiles()) {
      if (jar.getName().startsWith("iceberg-spark-") && jar.getName().endsWith("-tests.jar")) {
        testClasses.addAll(classNames(jar));
      }
      removeRegisteredSources(jar);
    }
    for (String name : testClasses) {
      try {
        prepare.redirectTest(name);
      } catch (TypePool.Resolution.NoSuchTypeException error) {
        // The class needs one that this Spark does not have; running it fails with an error of Java.
        System.out.println(name + " stays as it is: " + error.getMessage());
      }
    }
    prepare.redirectLoadedTables();
    prepare.tolerateOtherWords();
  }

  private static List<String> classNames(File jar) throws IOException {
    List<String> names = new ArrayList<>();
    try (ZipFile zip = new ZipFile(jar)) {
      for (ZipEntry entry : Collections.list(zip.entries())) {
        // Classes without any of these names hold nothing that is changed.
        String content = new String(zip.getInputStream(entry).readAllBytes(), java.nio.charset.StandardCharsets.ISO_8859_1);
        if (entry.getName().endsWith(".class") && CHANGED.stream().anyMatch(content::contains)) {
          names.add(entry.getName().replace('/', '.').substring(0, entry.getName().length() - ".class".length()));
        }
      }
    }
    return names;
  }

  /** Spark would find two sources of the name `iceberg`: Java's and Icefloe's. */
  private static void removeRegisteredSources(File jar) throws IOException {
    String registered = "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister";
    try (ZipFile zip = new ZipFile(jar)) {
      if (zip.getEntry(registered) == null) {
        return;
      }
      Path copy = Path.of(jar.getPath() + ".copy");
      try (ZipOutputStream out = new ZipOutputStream(Files.newOutputStream(copy))) {
        for (ZipEntry entry : Collections.list(zip.entries())) {
          if (!entry.getName().equals(registered)) {
            out.putNextEntry(new ZipEntry(entry.getName()));
            try (InputStream in = zip.getInputStream(entry)) {
              in.transferTo((OutputStream) out);
            }
          }
        }
      }
      Files.move(copy, jar.toPath(), java.nio.file.StandardCopyOption.REPLACE_EXISTING);
    }
  }

  private DynamicType.Builder<?> copyOf(String name) {
    TypeDescription type = types.describe(name).resolve();
    return byteBuddy.redefine(type, classFiles);
  }

  private void redirectTest(String name) throws Exception {
    DynamicType.Builder<?> copy = copyOf(name);
    copy = copy.method(named("startMetastoreAndSpark").and(isStatic())).intercept(MethodCall.invoke(Suite.class.getMethod("start", Class.class)).withOwnType());
    copy = copy.method(named("stopMetastoreAndSpark").and(isStatic())).intercept(MethodCall.invoke(Suite.class.getMethod("stop")));
    copy = copy.method(named("dbPath").and(isStatic())).intercept(MethodCall.invoke(Suite.class.getMethod("databasePath", String.class)).withAllArguments());
    copy = copy.method(named("countDeletes")).intercept(FixedValue.value(false)); // in Java's own metrics of a scan
    copy =
        copy.visit(
                MemberSubstitution.relaxed()
                    .method(named("stop").or(named("close")).and(isDeclaredBy(SparkSession.class)).and(takesArguments(0)))
                    .stub()
                    .on(any()))
            .visit(
                MemberSubstitution.relaxed()
                    .method(named("set").and(isDeclaredBy(RuntimeConfig.class)).and(takesArguments(String.class, String.class)))
                    .replaceWith(Suite.class.getMethod("set", RuntimeConfig.class, String.class, String.class))
                    .on(any()))
            .visit(
                MemberSubstitution.relaxed()
                    .method(named("unset").and(isDeclaredBy(RuntimeConfig.class)).and(takesArguments(String.class)))
                    .replaceWith(Suite.class.getMethod("unset", RuntimeConfig.class, String.class))
                    .on(any()))
            .visit(
                MemberSubstitution.relaxed()
                    .method(named("getSchema").and(isDeclaredBy(FileMetaData.class)))
                    .replaceWith(Suite.class.getMethod("schema", FileMetaData.class))
                    .on(any()));
    if (name.endsWith(".TestVariantShredding")) {
      copy = copy.visit(Advice.to(ColumnsOfTable.class).on(named("variant").and(takesArgument(2, Type.Repetition.class))));
    }
    copy = withInterfaces(copy);
    save(copy);
  }

  /** Spark 4.3 made an interface of a class that the tests were compiled with. */
  private static DynamicType.Builder<?> withInterfaces(DynamicType.Builder<?> copy) {
    return copy.visit(
        new AsmVisitorWrapper.ForDeclaredMethods()
            .invokable(
                any(),
                (type, method, visitor, context, pool, writerFlags, readerFlags) ->
                    new MethodVisitor(OpenedClassReader.ASM_API, visitor) {
                      @Override
                      public void visitMethodInsn(int opcode, String owner, String called, String descriptor, boolean ofInterface) {
                        boolean isChanged = opcode == Opcodes.INVOKEVIRTUAL && NEW_INTERFACES.contains(owner);
                        super.visitMethodInsn(isChanged ? Opcodes.INVOKEINTERFACE : opcode, owner, called, descriptor, ofInterface || isChanged);
                      }
                    }));
  }

  private void redirectLoadedTables() throws Exception {
    save(
        withInterfaces(copyOf("org.apache.iceberg.spark.Spark3Util"))
            .method(named("loadIcebergTable"))
            .intercept(MethodCall.invoke(Suite.class.getMethod("loadTable", SparkSession.class, String.class)).withAllArguments())
            .method(named("loadIcebergCatalog"))
            .intercept(MethodCall.invoke(Suite.class.getMethod("loadCatalog", SparkSession.class, String.class)).withAllArguments()));
  }

  private void tolerateOtherWords() throws IOException {
    save(
        copyOf("org.assertj.core.api.AbstractThrowableAssert")
            .visit(
                Advice.to(OtherWords.class)
                    .on(nameStartsWith("hasMessage").or(nameStartsWith("hasRootCause")).or(nameStartsWith("hasStackTrace")).or(nameStartsWith("hasCause")).or(named("cause")).or(named("rootCause")))));
    save(copyOf("org.assertj.core.api.AbstractAssert").visit(Advice.to(OtherWords.class).on(named("isInstanceOf").or(named("isExactlyInstanceOf")))));
  }

  private void save(DynamicType.Builder<?> copy) throws IOException {
    DynamicType.Unloaded<?> made = copy.make();
    for (Map.Entry<TypeDescription, byte[]> entry : made.getAllTypes().entrySet()) {
      Path file = target.toPath().resolve(entry.getKey().getInternalName() + ".class");
      Files.createDirectories(file.getParent());
      Files.write(file, entry.getValue());
    }
  }
}
