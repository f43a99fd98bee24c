"""Java Iceberg's own Spark tests, run in a session of Icefloe, with their results compared to the list of expected differences.

    python -m tests.java_suite                       every class, a few in one JVM
    python -m tests.java_suite "TestMerge*"          classes by pattern
    python -m tests.java_suite TestSelect.testTagReference
    python -m tests.java_suite --resume              continue a run that was stopped

The exit code is 1 if the result of a method differs from the list, and 2 if Maven or a JDK is missing.
"""

import argparse
import fnmatch
import signal
import sys

from tests.java_suite.expected import LIST, class_of, classes_to_run, outcomes
from tests.java_suite.fetched import FOLDER, fetch
from tests.jvm_suite.differences import report
from tests.jvm_suite.fetched import MissingToolError
from tests.jvm_suite.run import Run, add_silent_seconds

# Classes in one JVM. Its heap is bounded, and the objects that a class leaves behind end with the JVM.
CLASSES_IN_ONE_JVM = 6
WITHOUT_SETS = [
    "testrest",
    "ORC",
]  # no REST server runs in the JVM of the tests; the ORC that Java writes with cannot be loaded beside that of Spark


def main() -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the JVM is ended too
    arguments = _arguments()
    try:
        fetch()
    except MissingToolError as error:
        print(f"make test-java-suite: {error}", file=sys.stderr)
        return 2
    wanted = [pattern.partition(".") for pattern in arguments.patterns]
    classes = [name for name in classes_to_run() if not wanted or any(fnmatch.fnmatch(name.rpartition(".")[2], one[0]) for one in wanted)]
    if not classes:
        print(f"no class of Java's tests matches {' '.join(arguments.patterns)}", file=sys.stderr)
        return 2
    methods = sorted({one[2] for one in wanted if one[2]})
    given = {"methods": methods, "without": WITHOUT_SETS, "every_set": arguments.every_set}
    run = Run(FOLDER, FOLDER / "results", "tests.java_suite.session", given, arguments.silent_seconds)
    run.run(classes, arguments.chunk, resume=arguments.resume)
    found = outcomes(result for name in classes for result in run.results_of(name))
    return report(found, LIST, len(classes), class_of, is_whole=not methods, every_class=not arguments.patterns)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make test-java-suite", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("patterns", nargs="*", metavar="CLASS[.METHOD]", help="classes to run, by their simple names; * matches any text")
    parser.add_argument("--resume", action="store_true", help="keep the results of classes that ran to their end before")
    parser.add_argument(
        "--every-set", action="store_true", help="run each method with all its sets of parameters; otherwise with one, chosen by its name"
    )
    parser.add_argument("--chunk", type=int, default=CLASSES_IN_ONE_JVM, help="classes in one JVM (default: %(default)s)")
    add_silent_seconds(parser)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
