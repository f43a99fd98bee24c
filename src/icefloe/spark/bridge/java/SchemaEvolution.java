package icefloe;

import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.Iterator;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableChange;

/**
 * Statements WITH SCHEMA EVOLUTION: Spark's analyzer calls `alterTable` before there are rows, and `loadTable` at once after it. The columns may change with the commit of the rows alone, so
 * such a call is told from ALTER TABLE, which calls the same method.
 *
 * Spark 4.2 and later offer each change to the table first (`SupportsSchemaEvolution.supportsColumnChange`) and hand those very objects to `alterTable` in the same thread: a call whose
 * changes were all offered is one of the analyzer. Equal changes of ALTER TABLE are other objects.
 *
 * Spark 4.1 has no such interface, and nothing else of its interfaces differs: the arguments are the same, the thread is, and its flag for "in the analyzer" is set for ALTER TABLE within
 * EXECUTE IMMEDIATE too, which would lose the change. There the name of the analyzer's rule among the callers decides. Spark 4.0 has no schema evolution in tables of catalogs.
 */
final class SchemaEvolution {
  private static final boolean OFFERS_CHANGES = hasClass("org.apache.spark.sql.connector.catalog.SupportsSchemaEvolution");
  private static final ThreadLocal OFFERED = new ThreadLocal(); // WeakReferences of TableChange
  private static final ThreadLocal EVOLVED = new ThreadLocal(); // key of the catalog, name of the table, table

  private SchemaEvolution() {}

  /** Remembers a change that Spark offers to a table, for as long as Spark keeps it. */
  static void propose(TableChange change) {
    ArrayList offered = OFFERED.get() == null ? new ArrayList() : (ArrayList) OFFERED.get();
    Iterator references = offered.iterator();
    while (references.hasNext()) if (((WeakReference) references.next()).get() == null) references.remove();
    offered.add(new WeakReference(change));
    OFFERED.set(offered);
  }

  /** Whether Spark's analyzer calls `alterTable` with these changes for a statement WITH SCHEMA EVOLUTION. */
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

  /** Keeps the table that the statement writes to, for the `loadTable` that follows in this thread. */
  static void put(String key, Identifier name, Table table) {
    OFFERED.remove();
    EVOLVED.set(new Object[] {key, name, table});
  }

  /** The table that `put` kept, once, where the next table to load is that one; else null. */
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
