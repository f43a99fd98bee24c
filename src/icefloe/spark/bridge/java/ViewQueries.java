package icefloe;

import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.LinkedHashSet;
import java.util.Locale;
import java.util.Set;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.analysis.UnresolvedFunction;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.plans.logical.ScriptTransformation;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.internal.SQLConf$;
import org.apache.spark.sql.internal.SessionState;
import org.apache.spark.sql.internal.VariableSubstitution;
import scala.Product;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction0;

/** Finds the parts of a view's query that do more than read tables. Other people wrote the query: reading a view must not run commands or methods that the query contains. */
public final class ViewQueries {
  /** Settings that are turned off while Spark parses and analyzes the query of a view, so that variables of this machine, such as environment variables, are not inserted into its text. */
  static final String[] OFF = {"spark.sql.variable.substitute"};

  private static final Set METHODS = new HashSet(Arrays.asList(new Object[] {"reflect", "java_method", "try_reflect"}));

  /** Matches names with characters of paths, which names of tables do not have. If no table has a name such as text.`/etc/passwd`, Spark reads the file. */
  private static final Pattern PATH = Pattern.compile("(?s).*[/\\\\:*?.].*");

  private ViewQueries() {}

  /** Returns the parts of a query that run code or read files by their paths, as a JSON list. It includes computed names, which could be such a function. Spark refuses a query that does not parse. */
  public static String code(final SessionState state, final String query) {
    SQLConf settings = state.conf().clone();
    for (int i = 0; i < OFF.length; i++) settings.setConfString(OFF[i], "false");
    Object parsed =
        SQLConf$.MODULE$.withExistingConf(
            settings,
            new AbstractFunction0() {
              public Object apply() {
                try {
                  return state.sqlParser().parseQuery(query);
                } catch (Exception refused) {
                  return null;
                }
              }
            });
    if (parsed == null) return "[]";
    LinkedHashSet parts = new LinkedHashSet();
    collect(parsed, parts);
    return PythonBridge.json(parts);
  }

  /** Returns the query of a new view in which variables of the session are replaced by their values. Spark does the same for its own views. */
  public static String substituted(String query) {
    return new VariableSubstitution().substitute(query);
  }

  /** Visits every member of every part of a parsed query, because Spark's own traversals leave some out, such as the expressions of named windows. */
  private static void collect(Object parsed, Set parts) {
    Set visited = Collections.newSetFromMap(new IdentityHashMap());
    ArrayDeque remaining = new ArrayDeque();
    remaining.add(parsed);
    while (!remaining.isEmpty()) {
      Object part = remaining.pop();
      scala.collection.Iterator members;
      if (part instanceof scala.collection.Iterable) {
        members = ((scala.collection.Iterable) part).iterator();
      } else if (part instanceof Product) {
        members = ((Product) part).productIterator();
      } else {
        continue;
      }
      if (!visited.add(part)) continue;
      String name = nameOfCode(part);
      if (name != null) parts.add(name);
      while (members.hasNext()) {
        Object member = members.next();
        if (member != null) remaining.push(member);
      }
    }
  }

  private static String nameOfCode(Object part) {
    if (part instanceof ScriptTransformation) return "TRANSFORM ... USING";
    if (part instanceof UnresolvedFunction) {
      String name = ((String) ((UnresolvedFunction) part).nameParts().last()).toLowerCase(Locale.ROOT);
      return METHODS.contains(name) ? name : null;
    }
    if (part instanceof UnresolvedRelation) {
      Seq name = ((UnresolvedRelation) part).multipartIdentifier();
      boolean isFile = name.length() == 2 && PATH.matcher((String) name.apply(1)).matches();
      return isFile ? name.apply(0) + ".`" + name.apply(1) + "`" : null;
    }
    String kind = part.getClass().getName();
    return kind.endsWith("ExpressionWithUnresolvedIdentifier") || kind.endsWith("PlanWithUnresolvedIdentifier") ? "IDENTIFIER(...)" : null;
  }
}
