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
 * A Python object that Java calls. There are two kinds: an object that Python registered with Py4J, and an object that a call of such an object has returned, which is identified by a number.
 * Objects of the second kind need no calls for their creation and release, unlike objects of Py4J: the reply that returns an object contains its description, and the numbers of objects
 * that Java has released are sent with the next call.
 */
final class PythonObject implements BiFunction {
  private final Registered registered;
  private final long number; // the number of a returned object; 0 for the registered object itself
  final String description; // JSON that describes a returned object; null if Java has the description already

  PythonObject(BiFunction python) {
    this.registered = new Registered(python);
    this.number = 0;
    this.description = null;
  }

  /** Creates the object of a reply, which contains the number of the object and, if Java does not have it yet, a space and the description. */
  private PythonObject(Registered registered, String reply) {
    int space = reply.indexOf(' ');
    this.registered = registered;
    this.number = Long.parseLong(space < 0 ? reply : reply.substring(0, space));
    this.description = space < 0 ? null : reply.substring(space + 1);
    registered.held.add(new Held(this, registered.released, number));
  }

  /** The values that a registered object and all objects that it returned share. */
  private static final class Registered {
    final BiFunction python;
    final KeptReplies kept = new KeptReplies();
    final Set held = Collections.newSetFromMap(new ConcurrentHashMap()); // Held objects: the garbage collector reports the release of an object only while its Held is reachable
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

  /** Calls a Python method. Returns JSON text, a Java object, a PythonObject, an array of PythonObjects, or the text of an error, which begins with `!`. */
  public Object apply(Object method, Object message) {
    String released = registered.releasedNumbers();
    String address = method + (number == 0 && released.isEmpty() ? "" : " " + number) + (released.isEmpty() ? "" : " " + released);
    Object reply;
    try {
      reply = registered.python.apply(address, message);
    } finally {
      // The garbage collector could collect this object before its method ends, and another thread could then release the number before Python has used it.
      Reference.reachabilityFence(this);
    }
    boolean isObject = reply instanceof String && ((String) reply).startsWith("@");
    return isObject ? returned(((String) reply).substring(1)) : reply;
  }

  /** Returns the object that a reply describes. If the reply has several lines, returns an array with an object for each line: descriptions in JSON have no line ends. */
  private Object returned(String reply) {
    if (reply.indexOf('\n') < 0) return new PythonObject(registered, reply);
    String[] lines = reply.split("\n@");
    PythonObject[] objects = new PythonObject[lines.length];
    for (int i = 0; i < lines.length; i++) objects[i] = new PythonObject(registered, lines[i]);
    return objects;
  }

  /** Returns the cache of replies for later statements. */
  KeptReplies kept() {
    return registered.kept;
  }
}
