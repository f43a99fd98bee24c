package icefloe.sparksuite;

import icefloe.suite.Messages;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import org.scalatest.Args;
import org.scalatest.ConfigMap$;
import org.scalatest.DynaTags;
import org.scalatest.Filter;
import org.scalatest.Filter$;
import org.scalatest.Reporter;
import org.scalatest.Suite;
import org.scalatest.events.Event;
import org.scalatest.events.SuiteAborted;
import org.scalatest.events.TestCanceled;
import org.scalatest.events.TestFailed;
import org.scalatest.events.TestIgnored;
import org.scalatest.events.TestStarting;
import org.scalatest.events.TestSucceeded;
import scala.Option;
import scala.collection.immutable.Set;
import scala.jdk.javaapi.CollectionConverters;

/** Runs suites one after another on a thread of its own, and sends Python a message for each test that starts and ends. */
public final class Results implements Reporter {
  private final String suite;
  private long started = System.currentTimeMillis();

  private Results(String suite) {
    this.suite = suite;
  }

  /** Runs tests whose names contain one of `only`, or all where it is empty; not those whose names match one of the patterns `leftOut`. */
  public static void run(String[] classes, String[] only, String[] leftOut) {
    Thread thread = new Thread(() -> runAll(classes, List.of(only), List.of(leftOut)), "spark suite");
    thread.setDaemon(true);
    thread.start();
  }

  private static void runAll(String[] classes, List<String> only, List<String> leftOut) {
    for (String name : classes) {
      Messages.tell(message("class", name));
      Results results = new Results(name);
      try {
        Suite suite = (Suite) Class.forName(name).getDeclaredConstructor().newInstance();
        suite.run(Option.empty(), results.arguments(suite, only, leftOut));
      } catch (Throwable error) {
        results.tellEnd("(suite)", "failed", Messages.text(error, "org.apache.spark.sql."), 0);
      }
    }
    Messages.tell(message("end", ""));
  }

  private Args arguments(Suite suite, List<String> only, List<String> leftOut) {
    var chosen =
        CollectionConverters.asJava(suite.testNames()).stream()
            .filter(name -> only.isEmpty() || only.stream().anyMatch(name::contains))
            .filter(name -> leftOut.stream().noneMatch(pattern -> Pattern.compile(pattern).matcher(suite.getClass().getSimpleName() + "." + name).matches()))
            .toList();
    Set<String> chosenOnes = setOf("chosen");
    Map<String, Set<String>> tags = new LinkedHashMap<>();
    chosen.forEach(name -> tags.put(name, chosenOnes));
    DynaTags dynamic = new DynaTags(mapOf(Map.of()), mapOf(Map.of(suite.suiteId(), mapOf(tags))));
    Filter filter = Filter$.MODULE$.apply(Option.apply(chosenOnes), setOf("org.scalatest.Ignore"), false, dynamic);
    return Args.apply(
        this, Args.apply$default$2(), filter, ConfigMap$.MODULE$.empty(), Args.apply$default$5(), Args.apply$default$6(), Args.apply$default$7(), Args.apply$default$8(), Args.apply$default$9(), Args.apply$default$10());
  }

  private static Set<String> setOf(String one) {
    return scala.collection.immutable.Set$.MODULE$.<String>empty().$plus(one);
  }

  private static <V> scala.collection.immutable.Map<String, V> mapOf(Map<String, V> map) {
    return scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(map));
  }

  @Override
  public void apply(Event event) {
    if (event instanceof TestStarting starting) {
      started = System.currentTimeMillis();
      Map<String, Object> message = message("start", suite);
      message.put("method", starting.testName());
      Messages.tell(message);
    } else if (event instanceof TestSucceeded ended) {
      tellEnd(ended.testName(), "passed", "", System.currentTimeMillis() - started);
    } else if (event instanceof TestFailed ended) {
      String reason = ended.throwable().isDefined() ? Messages.text(ended.throwable().get(), "org.apache.spark.sql.") : ended.message();
      tellEnd(ended.testName(), "failed", reason, System.currentTimeMillis() - started);
    } else if (event instanceof TestIgnored ended) {
      tellEnd(ended.testName(), "skipped", "ignored by Spark", 0);
    } else if (event instanceof TestCanceled ended) {
      tellEnd(ended.testName(), "skipped", ended.message(), 0);
    } else if (event instanceof SuiteAborted ended) {
      tellEnd("(suite)", "failed", ended.message(), 0);
    }
  }

  private void tellEnd(String test, String status, String reason, long milliseconds) {
    Map<String, Object> message = message("result", suite);
    message.put("method", test);
    message.put("display", "");
    message.put("status", status);
    message.put("reason", reason);
    message.put("differences", List.of());
    message.put("seconds", milliseconds / 1000.0);
    Messages.tell(message);
  }

  private static Map<String, Object> message(String kind, String suite) {
    Map<String, Object> message = new LinkedHashMap<>();
    message.put("kind", kind);
    message.put("class", suite);
    return message;
  }
}
