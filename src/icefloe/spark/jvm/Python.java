package icefloe;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BiFunction;
import org.apache.spark.sql.catalyst.analysis.NamespaceAlreadyExistsException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.NonEmptyNamespaceException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.unsafe.Platform;

/**
 * The way to Python. Every object of Spark's that this package makes holds one function of Python's and asks it: a question (a word) and an argument (text in JSON, or a list of
 * such texts and objects of Spark's). The answer is text in JSON, an object of Spark's, or another such function; text that begins with `!` is an error,
 * and so is an exception of Spark's own.
 */
public final class Python {
  private static final Map REGISTERED = new ConcurrentHashMap();
  private static final ObjectMapper MAPPER = new ObjectMapper();

  public static void register(String key, BiFunction python) {
    REGISTERED.put(key, python);
  }

  public static BiFunction registered(String key) {
    BiFunction found = key == null ? null : (BiFunction) REGISTERED.get(key);
    if (found == null) throw new IllegalStateException("no Python answers for this catalog: call icefloe.spark.attach(spark, name, catalog) in this session");
    return found;
  }

  static Object ask(BiFunction python, String question, Object argument) {
    Object answer = python.apply(question, argument);
    if (answer instanceof String && ((String) answer).startsWith("!")) Platform.throwException(error((Map) parsed(((String) answer).substring(1))));
    if (answer instanceof Throwable) Platform.throwException((Throwable) answer);
    return answer;
  }

  /** The answer, out of its JSON. */
  static Object askJson(BiFunction python, String question, Object argument) {
    return parsed((String) ask(python, question, argument));
  }

  static String json(Object plain) {
    try {
      return MAPPER.writeValueAsString(plain);
    } catch (Exception error) {
      throw new IllegalStateException(error);
    }
  }

  static Object parsed(String text) {
    try {
      return text == null ? null : MAPPER.readValue(text, Object.class);
    } catch (Exception error) {
      throw new IllegalStateException(error);
    }
  }

  static String[] strings(Object list) {
    return (String[]) ((List) list).toArray(new String[0]);
  }

  static Identifier identifier(String[] parts) {
    return Identifier.of((String[]) Arrays.copyOf(parts, parts.length - 1), parts[parts.length - 1]);
  }

  private static Throwable error(Map said) {
    String kind = (String) said.get("kind");
    String message = (String) said.get("message");
    String[] name = said.get("name") == null ? new String[0] : strings(said.get("name"));
    if (kind.equals("no such table")) return new NoSuchTableException(identifier(name));
    if (kind.equals("table exists")) return new TableAlreadyExistsException(identifier(name));
    if (kind.equals("no such namespace")) return new NoSuchNamespaceException(name);
    if (kind.equals("namespace exists")) return new NamespaceAlreadyExistsException(name);
    if (kind.equals("namespace not empty")) return new NonEmptyNamespaceException(name);
    if (kind.equals("syntax")) return SparkParser.syntaxError(said);
    if (kind.equals("unsupported")) return new UnsupportedOperationException(message);
    return new InvalidStatement(message, null);
  }
}
