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
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.unsafe.Platform;

/**
 * Calls of Python methods. A Python object is a function of two arguments: the name of a method, and its arguments as JSON text or as a list of JSON texts and Java objects.
 * The reply is JSON text, a Java object, or another such function, a PythonObject. A reply that is an exception is thrown. A text that begins with `!` is any other error: the name of an exception in the
 * first line, and the message in the lines after it. `messages.py` has the types of the arguments.
 */
public final class PythonBridge {
  private static final Map CALLBACKS = new ConcurrentHashMap(); // of PythonObject, by the keys that sessions registered them with
  private static final ObjectMapper MAPPER = new ObjectMapper();

  public static void register(String key, BiFunction python) {
    CALLBACKS.put(key, new PythonObject(python));
  }

  /** Drops the object of a session that was stopped, with the replies and plans that are kept for it. */
  public static void unregister(String key) {
    CALLBACKS.remove(key);
  }

  static PythonObject registered(String key) {
    PythonObject python = key == null ? null : (PythonObject) CALLBACKS.get(key);
    if (python == null) throw new IllegalStateException("this catalog is not attached to a Python process\n  Next: call icefloe.spark.attach(spark, name, catalog) in this session");
    return python;
  }

  static Object call(BiFunction python, String name, Object message) {
    Object reply = python.apply(name, message);
    if (reply instanceof String && ((String) reply).startsWith("!")) throw refusal((String) reply);
    if (reply instanceof Throwable) throw unchecked((Throwable) reply);
    return reply;
  }

  /** Throws any error, also one that the caller's method does not declare. */
  static RuntimeException unchecked(Throwable error) {
    Platform.throwException(error);
    return new IllegalStateException(error);
  }

  private static RuntimeException refusal(String reply) {
    int end = reply.indexOf('\n');
    String name = reply.substring(1, end);
    String message = reply.substring(end + 1);
    // Where Java's Iceberg is in this JVM too, these are its own classes, which have the same constructors.
    if (name.equals("FilesReplaced")) return new FilesReplaced(message);
    if (name.equals("ValidationException")) return new ValidationException("%s", new Object[] {message});
    if (name.equals("CommitFailedException")) return new CommitFailedException("%s", new Object[] {message});
    if (name.equals("CommitStateUnknownException")) return new CommitStateUnknownException(message, null);
    if (name.equals("NotFoundException")) return new NotFoundException("%s", new Object[] {message});
    return new InvalidStatement(message, null);
  }

  /** Calls a method and returns the value of its JSON reply. */
  static Object callForJson(BiFunction python, String name, Object message) {
    return parsed((String) call(python, name, message));
  }

  static String json(Object value) {
    try {
      return MAPPER.writeValueAsString(value);
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

  /** Returns the JSON of the settings of a session that reads and writes look at. */
  public static String settings(SQLConf session) {
    return json(PythonProxy.settings(session));
  }

  static String[] strings(Object list) {
    return (String[]) ((List) list).toArray(new String[0]);
  }

  static Identifier identifier(String[] parts) {
    return Identifier.of((String[]) Arrays.copyOf(parts, parts.length - 1), parts[parts.length - 1]);
  }
}
