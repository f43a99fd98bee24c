package icefloe;

import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.Iterator;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableChange;

/**
 * Support for statements WITH SCHEMA EVOLUTION. Spark's analyzer calls `alterTable` before the rows are computed, and `loadTable` directly after it. The columns may change only in the commit of
 * the rows, so such a call of `alterTable` must be distinguished from the call of a statement ALTER TABLE.
 *
 * Spark 4.2 and later first pass each change to the table (`SupportsSchemaEvolution.supportsColumnChange`), and then pass the same objects to `alterTable` in the same thread. Therefore a call
 * of `alterTable` is one of the analyzer if all its changes were offered before. The changes of an ALTER TABLE are different objects, even if they are equal.
 *
 * Spark 4.1 has no such interface. Its flag for "in the analyzer" cannot be used, because it is also set for an ALTER TABLE in an EXECUTE IMMEDIATE, whose change would be lost. Therefore
 * Icefloe searches the stack of callers for the name of the analyzer's rule. Spark 4.0 has no schema evolution for tables of catalogs.
 */
final class SchemaEvolution {
  private static final boolean OFFERS_CHANGES = hasClass("org.apache.spark.sql.connector.catalog.SupportsSchemaEvolution");
  private static final ThreadLocal OFFERED = new ThreadLocal(); // weak references to TableChange objects
  private static final ThreadLocal EVOLVED = new ThreadLocal(); // an array: the key of the catalog, the name of the table, the table

  private SchemaEvolution() {}

  /** Remembers a change that Spark offers to a table, by a weak reference. */
  static void propose(TableChange change) {
    ArrayList offered = OFFERED.get() == null ? new ArrayList() : (ArrayList) OFFERED.get();
    Iterator references = offered.iterator();
    while (references.hasNext()) if (((WeakReference) references.next()).get() == null) references.remove();
    offered.add(new WeakReference(change));
    OFFERED.set(offered);
  }

  /** Returns whether Spark's analyzer calls `alterTable` with these changes for a statement WITH SCHEMA EVOLUTION. */
  static boolean isEvolution(TableChange[] changes) {
    if (!OFFERS_CHANGES) return isCalledByRule();
    for (int i = 0; i < changes.length; i++) if (!isOffered(changes[i])) return false;
    return changes.length > 0;
  }

  private static boolean isOffered(TableChange change) {
    ArrayList offered = (ArrayList) OFFERED.get();
    for (int i = 0; offered != null && i < offered.size(); i++) if (((WeakReference) offered.get(i)).get() == change) return true;
    return false;
  }

  private static boolean isCalledByRule() {
    StackTraceElement[] calls = Thread.currentThread().getStackTrace();
    for (int i = 0; i < calls.length; i++) if (calls[i].getClassName().startsWith("org.apache.spark.sql.catalyst.analysis.Resolve") && calls[i].getClassName().contains("SchemaEvolution")) return true;
    return false;
  }

  /** Stores the table with the changed columns, for the call of `loadTable` that follows in this thread. */
  static void put(String key, Identifier name, Table table) {
    OFFERED.remove();
    EVOLVED.set(new Object[] {key, name, table});
  }

  /** Removes the table that `put` stored. Returns it if it has this key and name; otherwise null. */
  static Table take(String key, Identifier name) {
    Object[] evolved = (Object[]) EVOLVED.get();
    EVOLVED.remove();
    return evolved != null && evolved[0].equals(key) && evolved[1].equals(name) ? (Table) evolved[2] : null;
  }

  private static boolean hasClass(String name) {
    try {
      Class.forName(name, false, SchemaEvolution.class.getClassLoader());
      return true;
    } catch (ClassNotFoundException older) {
      return false;
    }
  }
}
