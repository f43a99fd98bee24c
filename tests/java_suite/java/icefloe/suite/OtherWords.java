package icefloe.suite;

import net.bytebuddy.asm.Advice;
import net.bytebuddy.implementation.bytecode.assign.Assigner;

/** The advice for AssertJ's assertions about errors: an error of another class or with other words is recorded, and the test continues. */
public final class OtherWords {
  private OtherWords() {}

  @Advice.OnMethodExit(onThrowable = AssertionError.class)
  static void after(
      @Advice.This Object self,
      @Advice.Origin("#m") String assertion,
      @Advice.AllArguments Object[] arguments,
      @Advice.Thrown(readOnly = false) Throwable thrown,
      @Advice.Return(readOnly = false, typing = Assigner.Typing.DYNAMIC) Object returned) {
    if (thrown instanceof AssertionError && Suite.isTolerated(self, assertion, arguments)) {
      thrown = null;
      returned = self;
    }
  }
}
