package icefloe;

import java.lang.ref.PhantomReference;
import java.lang.ref.Reference;
import java.lang.ref.ReferenceQueue;
import java.util.Collections;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BiFunction;

/**
 * A Python object that Java calls: one that Python registered with Py4J, or one that a call of it has returned, which has a number there. The latter needs no call of its own, unlike an object of
 * Py4J's: its description comes with the reply that returns it, and the numbers of the objects that Java has released go with a later call.
 */
final class PythonObject implements BiFunction {
  private final Registered registered;
  private final long number; // 0 for the registered object itself
  final String description; // JSON, of an object with a number; null where Java has it already

  PythonObject(BiFunction python) {
    this.registered = new Registered(python);
    this.number = 0;
    this.description = null;
  }

  /** Takes what Python replies for an object: its number, and perhaps a space and the description. */
  private PythonObject(Registered registered, String reply) {
    int space = reply.indexOf(' ');
    this.registered = registered;
    this.number = Long.parseLong(space < 0 ? reply : reply.substring(0, space));
    this.description = space < 0 ? null : reply.substring(space + 1);
    registered.held.add(new Held(this, registered.released, number));
  }

  /** What all objects share that one registered object has returned. */
  private static final class Registered {
    final BiFunction python;
    final KeptReplies kept = new KeptReplies();
    final Set held = Collections.newSetFromMap(new ConcurrentHashMap()); // of Held, which the collector needs to be reachable
    final ReferenceQueue released = new ReferenceQueue();

    Registered(BiFunction python) {
      this.python = python;
    }

    /** Returns the numbers of the objects that were released since the last call, joined by commas. */
    String releasedNumbers() {
      StringBuilder numbers = new StringBuilder();
      for (Held next = (Held) released.poll(); next != null; next = (Held) released.poll()) {
        held.remove(next);
        numbers.append(numbers.length() == 0 ? "" : ",").append(next.number);
      }
      return numbers.toString();
    }
  }

  private static final class Held extends PhantomReference {
    final long number;

    Held(PythonObject object, ReferenceQueue released, long number) {
      super(object, released);
      this.number = number;
    }
  }

  /** Calls a method by its name. Returns JSON, an object of Java, another PythonObject or an array of several, or the text of an error. */
  public Object apply(Object method, Object message) {
    String released = registered.releasedNumbers();
    String address = method + (number == 0 && released.isEmpty() ? "" : " " + number) + (released.isEmpty() ? "" : " " + released);
    Object reply;
    try {
      reply = registered.python.apply(address, message);
    } finally {
      // The collector may take an object whose method needs it no more, and another thread would release the number before Python has read it.
      Reference.reachabilityFence(this);
    }
    boolean isObject = reply instanceof String && ((String) reply).startsWith("@");
    return isObject ? returned(((String) reply).substring(1)) : reply;
  }

  /** Returns the object that a reply describes, or an array of those that its lines describe. JSON has no line ends. */
  private Object returned(String reply) {
    if (reply.indexOf('\n') < 0) return new PythonObject(registered, reply);
    String[] lines = reply.split("\n@");
    PythonObject[] objects = new PythonObject[lines.length];
    for (int i = 0; i < lines.length; i++) objects[i] = new PythonObject(registered, lines[i]);
    return objects;
  }

  /** Returns the replies that are kept for later statements. */
  KeptReplies kept() {
    return registered.kept;
  }
}
