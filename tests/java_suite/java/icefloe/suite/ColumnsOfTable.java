package icefloe.suite;

import net.bytebuddy.asm.Advice;
import org.apache.parquet.schema.Type.Repetition;

/** Makes the expected columns of variants optional, as those of the tests' table are. Java writes them as required where the rows of a statement can have no null. */
public final class ColumnsOfTable {
  private ColumnsOfTable() {}

  @Advice.OnMethodEnter
  static void enter(@Advice.Argument(value = 2, readOnly = false) Repetition repetition) {
    repetition = Repetition.OPTIONAL;
  }
}
