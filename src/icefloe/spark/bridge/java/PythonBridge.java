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
 * Calls Python methods. A Python object is represented by a function of two arguments: the name of a method, and the arguments of the method as JSON text or as a list of JSON texts and Java
 * objects. The reply is JSON text, a Java object, or a PythonObject. If the reply is an exception, it is thrown. A text that begins with `!` is an error without such an exception: its first
 * line is the name of the exception to throw, and the other lines are the message. `messages.py` has the types of the arguments.
 */
public final class PythonBridge {
  private static final Map CALLBACKS = new ConcurrentHashMap(); // PythonObject by the key with which a session registered it
  private static final ObjectMapper MAPPER = new ObjectMapper();

  public static void register(String key, BiFunction python) {
    CALLBACKS.put(key, new PythonObject(python));
  }

  /** Drops the object of a stopped session, and the replies and plans that are cached for it. */
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

  /** Throws an error, even a checked exception that the caller's method does not declare. */
  static RuntimeException unchecked(Throwable error) {
    Platform.throwException(error);
    return new IllegalStateException(error);
  }

  private static RuntimeException refusal(String reply) {
    int end = reply.indexOf('\n');
    String name = reply.substring(1, end);
    String message = reply.substring(end + 1);
    // If the JAR of Java's Iceberg is in this JVM too, these are its classes, which have the same constructors.
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

  /** Returns an expression of Spark's connector interfaces as JSON, as `ConnectorJson` writes it. */
  public static String expressionJson(Object expression) {
    return ConnectorJson.json(expression);
  }

  /** Returns the settings of a session that affect reads and writes, as JSON. */
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
