package icefloe;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import org.apache.commons.codec.binary.Hex;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.expressions.Cast;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.GeneralScalarExpression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.expressions.UserDefinedScalarFunc;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperationInfo;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.runtime.AbstractFunction1;

/** Converts values of Spark's connector interfaces, such as filters and types, to JSON for Python. `messages.py` has the types of the JSON values. */
final class ConnectorJson {
  private static final Class[] SHAPES = new Class[] {Column.class, LogicalWriteInfo.class, PhysicalWriteInfo.class, RowLevelOperationInfo.class};

  private ConnectorJson() {}

  static Object of(Object value) throws Exception {
    if (value == null || value instanceof String || value instanceof Boolean || value instanceof Number) return value;
    if (value instanceof DataType) return type((DataType) value);
    if (value instanceof Expression) return expression((Expression) value);
    if (value instanceof Optional) return of(((Optional) value).orElse(null));
    if (value instanceof Object[]) {
      Object[] values = (Object[]) value;
      ArrayList list = new ArrayList(values.length);
      for (int i = 0; i < values.length; i++) list.add(of(values[i]));
      return list;
    }
    if (value instanceof Identifier) return identifier((Identifier) value);
    if (value instanceof CaseInsensitiveStringMap) return ((CaseInsensitiveStringMap) value).asCaseSensitiveMap();
    if (value instanceof Map) {
      LinkedHashMap map = new LinkedHashMap((Map) value);
      Iterator entries = map.entrySet().iterator();
      while (entries.hasNext()) {
        Map.Entry entry = (Map.Entry) entries.next();
        entry.setValue(of(entry.getValue()));
      }
      return map;
    }
    if (value instanceof Enum) return value.toString();
    return bean(value);
  }

  /** Returns the JSON of a value. */
  static String json(Object value) {
    try {
      return PythonBridge.json(of(value));
    } catch (Exception error) {
      throw new IllegalStateException(error);
    }
  }

  /** Returns a type as JSON. Spark's own JSON leaves out collations. Therefore a type with a collation becomes its SQL text, such as `array<string collate UNICODE>`, which Python refuses. */
  private static String type(DataType type) {
    return type.existsRecursively(new IsCollated()) ? PythonBridge.json(type.catalogString()) : type.json();
  }

  private static final class IsCollated extends AbstractFunction1 {
    public Object apply(Object type) {
      String name = type instanceof StringType ? ((DataType) type).typeName() : "";
      return Boolean.valueOf(name.contains(" collate ") && !name.endsWith(" collate UTF8_BINARY"));
    }
  }

  private static Object expression(Expression value) throws Exception {
    LinkedHashMap map = new LinkedHashMap();
    if (value instanceof NamedReference) {
      map.put("kind", "reference");
      map.put("parts", of(((NamedReference) value).fieldNames()));
    } else if (value instanceof Literal) {
      Object constant = ((Literal) value).value();
      map.put("kind", "literal");
      map.put("type", type(((Literal) value).dataType()));
      map.put("value", constant == null ? null : constant instanceof byte[] ? Hex.encodeHexString((byte[]) constant) : constant.toString());
    } else if (value instanceof Transform) {
      map.put("kind", "transform");
      map.put("name", ((Transform) value).name());
      map.put("arguments", of(((Transform) value).arguments()));
    } else if (value instanceof GeneralScalarExpression) {
      map.put("kind", "call");
      map.put("name", ((GeneralScalarExpression) value).name());
      map.put("children", of(value.children()));
    } else if (value instanceof UserDefinedScalarFunc) {
      map.put("kind", "function");
      map.put("name", ((UserDefinedScalarFunc) value).canonicalName());
      map.put("children", of(value.children()));
    } else if (value instanceof Cast) {
      map.put("kind", "cast");
      map.put("type", type(((Cast) value).dataType()));
      map.put("children", of(value.children()));
    } else {
      map.put("kind", value.getClass().getSimpleName());
      map.put("children", of(value.children()));
      map.put("text", value.toString());
    }
    return map;
  }

  private static Object identifier(Identifier name) {
    ArrayList parts = new ArrayList(Arrays.asList(name.namespace()));
    parts.add(name.name());
    return parts;
  }

  /** Returns the results of all methods without parameters, by the names of the methods. For the interfaces in SHAPES, only methods of the interface are called: their classes have further ones. */
  private static Object bean(Object value) throws Exception {
    LinkedHashMap map = new LinkedHashMap();
    map.put("kind", value.getClass().getSimpleName());
    Class shape = value.getClass();
    for (int i = 0; i < SHAPES.length; i++) if (SHAPES[i].isInstance(value)) shape = SHAPES[i];
    Method[] methods = shape.getMethods();
    for (int i = 0; i < methods.length; i++) {
      Method method = methods[i];
      String name = method.getName();
      boolean isProperty = method.getDeclaringClass() != Object.class && !Modifier.isStatic(method.getModifiers()) && method.getParameterTypes().length == 0;
      if (!isProperty || name.equals("hashCode") || name.equals("toString") || name.equals("getClass")) continue;
      method.setAccessible(true);
      try {
        map.put(name, of(method.invoke(value, new Object[0])));
      } catch (InvocationTargetException refused) {
        map.put(name, null); // this version of Spark has the method, but refuses its call
      }
    }
    return map;
  }
}
