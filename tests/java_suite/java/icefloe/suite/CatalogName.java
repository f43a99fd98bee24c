package icefloe.suite;

import net.bytebuddy.asm.Advice;

/** What is woven into the tests' set-up: the name of the catalog that a test runs with. */
public final class CatalogName {
  private CatalogName() {}

  @Advice.OnMethodEnter
  static void before(@Advice.FieldValue(value = "catalogName", readOnly = false) String catalogName) {
    catalogName = Suite.catalogName(catalogName);
  }
}
