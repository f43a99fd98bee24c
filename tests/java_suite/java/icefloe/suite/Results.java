package icefloe.suite;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.iceberg.Parameter;
import org.junit.jupiter.api.extension.ConditionEvaluationResult;
import org.junit.jupiter.api.extension.ExecutionCondition;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.discovery.DiscoverySelectors;
import org.junit.platform.engine.support.descriptor.ClassSource;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.LauncherDiscoveryRequest;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

/** Runs classes of tests one after another on a thread of its own, and sends Python a message for each test that starts and ends. */
public final class Results implements TestExecutionListener, ExecutionCondition {
  private static final Pattern INVOCATION = Pattern.compile("test-template-invocation:#(\\d+)\\]$");
  private static Set<String> skippedCatalogs = Set.of();
  private static Set<String> methods = Set.of();
  private static boolean everySet;
  private long started = System.currentTimeMillis();

  /**
   * `onlyMethods` empty: all. Sets of parameters for the catalogs in `withoutCatalogs` are skipped. A method runs with one of the others, chosen by its name so that different
   * methods run with different ones, or with all of them.
   */
  public static void run(String[] classes, String[] onlyMethods, String[] withoutCatalogs, boolean withEverySet) {
    skippedCatalogs = Set.of(withoutCatalogs);
    methods = Set.of(onlyMethods);
    everySet = withEverySet;
    Thread thread = new Thread(() -> runAll(classes), "java suite");
    thread.setDaemon(true);
    thread.start();
  }

  private static void runAll(String[] classes) {
    for (String name : classes) {
      Map<String, Object> message = message("class", name);
      Messages.tell(message);
      try {
        Suite.resetSettings();
        Suite.start(Class.forName(name));
        LauncherDiscoveryRequest request =
            LauncherDiscoveryRequestBuilder.request()
                .selectors(DiscoverySelectors.selectClass(Class.forName(name)))
                .configurationParameter("junit.jupiter.extensions.autodetection.enabled", "true")
                .build();
        LauncherFactory.create().execute(request, new Results());
      } catch (Throwable error) {
        tellEnd(name, "(class)", "", "failed", text(error), 0);
      }
    }
    Messages.tell(message("end", ""));
  }

  @Override
  public ConditionEvaluationResult evaluateExecutionCondition(ExtensionContext context) {
    if (!methods.isEmpty() && context.getTestMethod().isPresent() && !methods.contains(context.getTestMethod().get().getName())) {
      return ConditionEvaluationResult.disabled("not asked for");
    }
    Matcher invocation = INVOCATION.matcher(context.getUniqueId());
    if (invocation.find() && context.getParent().isPresent()) {
      Object sets = context.getParent().get().getStore(ExtensionContext.Namespace.create("parameterized")).get("parameters");
      int number = Integer.parseInt(invocation.group(1)) - 1;
      if (sets != null && !isChosen(new ArrayList<>(sets instanceof Object[] ? Arrays.asList((Object[]) sets) : (Collection<?>) sets), number, context)) {
        return ConditionEvaluationResult.disabled("another set of parameters runs");
      }
    }
    return ConditionEvaluationResult.enabled("");
  }

  private static boolean isChosen(List<?> sets, int number, ExtensionContext context) {
    List<Integer> candidates = new ArrayList<>();
    for (int place = 0; place < sets.size(); place++) {
      Object first = sets.get(place) instanceof Object[] ? ((Object[]) sets.get(place))[0] : sets.get(place);
      if (!skippedCatalogs.contains(String.valueOf(first)) && !isOfVersion4(sets.get(place), context)) {
        candidates.add(place);
      }
    }
    if (everySet || candidates.isEmpty()) {
      return candidates.contains(number);
    }
    return candidates.get(Math.floorMod(context.getRequiredTestMethod().getName().hashCode(), candidates.size())) == number;
  }

  /** Icefloe reads and writes versions 1 to 3. */
  private static boolean isOfVersion4(Object set, ExtensionContext context) {
    for (Class<?> one = context.getRequiredTestClass(); one != null && set instanceof Object[]; one = one.getSuperclass()) {
      for (Field field : one.getDeclaredFields()) {
        Parameter parameter = field.getAnnotation(Parameter.class);
        if (parameter != null && field.getName().equals("formatVersion") && parameter.index() < ((Object[]) set).length) {
          return Integer.valueOf(4).equals(((Object[]) set)[parameter.index()]);
        }
      }
    }
    return false;
  }

  @Override
  public void executionStarted(TestIdentifier test) {
    if (test.isTest()) {
      started = System.currentTimeMillis();
      Suite.takeDifferences();
      Map<String, Object> message = message("start", className(test));
      message.put("method", methodName(test));
      Messages.tell(message);
    }
  }

  @Override
  public void executionSkipped(TestIdentifier test, String reason) {
    tellEnd(className(test), methodName(test), test.getDisplayName(), "skipped", reason, 0);
  }

  @Override
  public void executionFinished(TestIdentifier test, TestExecutionResult result) {
    boolean failed = result.getStatus() == TestExecutionResult.Status.FAILED;
    if (test.isTest() || failed) {
      String status = failed ? "failed" : result.getStatus() == TestExecutionResult.Status.ABORTED ? "skipped" : "passed";
      tellEnd(
          className(test),
          methodName(test),
          test.getDisplayName(),
          status,
          result.getThrowable().map(Results::text).orElse(""),
          System.currentTimeMillis() - started);
    }
    if (failed) {
      Suite.clear();
    }
  }

  private static void tellEnd(String className, String method, String display, String status, String reason, long milliseconds) {
    Map<String, Object> message = message("result", className);
    message.put("method", method);
    message.put("display", display);
    message.put("status", status);
    message.put("reason", reason);
    message.put("differences", Suite.takeDifferences());
    message.put("seconds", milliseconds / 1000.0);
    Messages.tell(message);
  }

  private static Map<String, Object> message(String kind, String className) {
    Map<String, Object> message = new LinkedHashMap<>();
    message.put("kind", kind);
    message.put("class", className);
    return message;
  }

  private static String className(TestIdentifier test) {
    return test.getSource()
        .map(
            source ->
                source instanceof MethodSource
                    ? ((MethodSource) source).getClassName()
                    : source instanceof ClassSource ? ((ClassSource) source).getClassName() : "")
        .orElse("");
  }

  private static String methodName(TestIdentifier test) {
    return test.getSource().filter(MethodSource.class::isInstance).map(source -> ((MethodSource) source).getMethodName()).orElse("(class)");
  }

  private static String text(Throwable error) {
    return Messages.text(error, "org.apache.iceberg.");
  }
}
