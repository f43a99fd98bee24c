package icefloe;

import java.io.Serializable;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;

/** What remains of an object of the driver where a plan that names it is sent to an executor: its text. Executors need this class. */
public final class DriverProxy implements InvocationHandler, Serializable {
  private final String text;

  public DriverProxy(String text) {
    this.text = text;
  }

  public Object invoke(Object self, Method method, Object[] arguments) {
    if (method.getName().equals("toString")) return text;
    if (method.getName().equals("hashCode")) return Integer.valueOf(text.hashCode());
    if (method.getName().equals("equals")) return Boolean.valueOf(self == arguments[0]);
    throw new UnsupportedOperationException(text + " runs on the driver alone");
  }
}
