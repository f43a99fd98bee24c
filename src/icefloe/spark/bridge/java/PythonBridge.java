package icefloe;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BiFunction;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.CommitStateUnknownException;
import org.apache.iceberg.exceptions.NotFoundException;
import org.apache.iceberg.exceptions.ValidationException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.unsafe.Platform;

/**
 * The way to PythonBridge. Every object of Spark's that this package makes holds one function of Python's and asks it: a question (a word) and an argument (text in JSON, or a list of
 * such texts and objects of Spark's). The answer is text in JSON, an object of Spark's, or another such function; an exception of Spark's is thrown,
 * and text that begins with `!` is what else went wrong: the name of the exception that Java's core has for it, and the message in the lines after it.
 */
public final class PythonBridge {
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
    if (answer instanceof String && ((String) answer).startsWith("!")) throw refusal((String) answer);
    if (answer instanceof Throwable) Platform.throwException((Throwable) answer);
    return answer;
  }

  private static RuntimeException refusal(String answer) {
    int end = answer.indexOf('\n');
    String name = answer.substring(1, end);
    String message = answer.substring(end + 1);
    // Where Java's Iceberg is in this JVM too, these are its own classes, which have the same constructors.
    if (name.equals("ValidationException")) return new ValidationException("%s", new Object[] {message});
    if (name.equals("CommitFailedException")) return new CommitFailedException("%s", new Object[] {message});
    if (name.equals("CommitStateUnknownException")) return new CommitStateUnknownException(message, null);
    if (name.equals("NotFoundException")) return new NotFoundException("%s", new Object[] {message});
    return new InvalidStatement(message, null);
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
}
