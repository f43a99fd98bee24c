package icefloe;

import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.Iterator;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableChange;

/**
 * Statements WITH SCHEMA EVOLUTION: Spark's analyzer calls `alterTable` before there are rows, and `loadTable` directly after it. The columns may change only in the commit of the rows, so
 * such a call must be distinguished from ALTER TABLE, which calls the same method.
 *
 * Spark 4.2 and later offer each change to the table first (`SupportsSchemaEvolution.supportsColumnChange`) and pass the same objects to `alterTable` in the same thread: a call whose
 * changes were all offered is a call of the analyzer. Equal changes of ALTER TABLE are other objects.
 *
 * Spark 4.1 has no such interface, and its two calls have equal arguments in the same thread. Its flag for "in the analyzer" is set for ALTER TABLE within EXECUTE IMMEDIATE too, whose change
 * would be lost. There the name of the analyzer's rule in the stack of callers decides. Spark 4.0 has no schema evolution in tables of catalogs.
 */
final class SchemaEvolution {
  private static final boolean OFFERS_CHANGES = hasClass("org.apache.spark.sql.connector.catalog.SupportsSchemaEvolution");
  private static final ThreadLocal OFFERED = new ThreadLocal(); // WeakReferences of TableChange
  private static final ThreadLocal EVOLVED = new ThreadLocal(); // key of the catalog, name of the table, table

  private SchemaEvolution() {}

  /** Keeps a weak reference to a change that Spark offers to a table. */
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

  /** Keeps the table with the changed columns, for the `loadTable` that follows in this thread. */
  static void put(String key, Identifier name, Table table) {
    OFFERED.remove();
    EVOLVED.set(new Object[] {key, name, table});
  }

  /** Returns the table that `put` kept, if the next table to load is that one, and drops it; else null. */
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
