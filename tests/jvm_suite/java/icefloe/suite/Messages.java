package icefloe.suite;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** The messages of a run of tests to the Python process that holds Icefloe, and its replies. */
public final class Messages {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final BlockingQueue<Map<String, Object>> MESSAGES = new LinkedBlockingQueue<>();
  private static final BlockingQueue<String> ANSWERS = new LinkedBlockingQueue<>();

  private Messages() {}

  /** The next message as JSON, or null where none came in that time. */
  public static String next(long milliseconds) throws Exception {
    Map<String, Object> message = MESSAGES.poll(milliseconds, TimeUnit.MILLISECONDS);
    return message == null ? null : JSON.writeValueAsString(message);
  }

  /** Hands over Python's reply to the pending message: an empty text, or the error. */
  public static void answer(String text) {
    ANSWERS.add(text);
  }

  public static void tell(Map<String, Object> message) {
    MESSAGES.add(message);
  }

  /** Sends a message and waits until Python has acted on it. */
  public static void ask(Map<String, Object> message) {
    ANSWERS.clear();
    tell(message);
    try {
      String answer = ANSWERS.poll(300, TimeUnit.SECONDS);
      if (answer == null || !answer.isEmpty()) {
        throw new IllegalStateException(answer == null ? "Python did not answer" : answer);
      }
    } catch (InterruptedException error) {
      throw new IllegalStateException(error);
    }
  }

  /** The error, the lines of the test where it was raised, and what caused it. `tests` begins the names of the tests' classes. */
  public static String text(Throwable error, String tests) {
    StringBuilder text = new StringBuilder(shorten(error.toString(), 1500));
    for (StackTraceElement frame : error.getStackTrace()) {
      if (frame.getClassName().startsWith(tests) && (frame.getClassName().contains(".Test") || frame.getClassName().contains("Suite"))) {
        text.append("\n    at ").append(frame.getFileName()).append(':').append(frame.getLineNumber()).append(' ').append(frame.getMethodName());
      }
    }
    for (Throwable cause = error.getCause(); cause != null && cause != cause.getCause(); cause = cause.getCause()) {
      text.append("\n  caused by ").append(shorten(cause.toString(), 500));
    }
    return text.toString();
  }

  public static String shorten(String text, int length) {
    return text.length() <= length ? text : text.substring(0, length) + "...";
  }
}
