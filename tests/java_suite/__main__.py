"""Java Iceberg's own Spark tests, run in a session of Icefloe, with their results compared to the list of expected differences.

    python -m tests.java_suite                       every class, a few in one JVM
    python -m tests.java_suite "TestMerge*"          classes by pattern
    python -m tests.java_suite TestSelect.testTagReference
    python -m tests.java_suite --resume              continue a run that was stopped

The exit code is 1 if the result of a method differs from the list, and 2 if Maven or a JDK is missing.
"""

import argparse
import fnmatch
import json
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.java_suite.expected import Outcome, classes_to_run, expected_differences, listed_as, outcomes, unused
from tests.java_suite.fetched import FOLDER, MissingToolError, fetch

RESULTS = FOLDER / "results"
# Classes in one JVM. Its heap is bounded, and the objects that a class leaves behind end with the JVM.
CLASSES_IN_ONE_JVM = 6
# A JVM without any output for so long is ended; its class counts as failed, and the run continues with the next.
SILENT_SECONDS = 600.0
WITHOUT_SETS = ["testrest", "ORC"]  # Icefloe has no REST catalog; the ORC that Java writes with cannot be loaded beside that of Spark


def main() -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the JVM is ended too
    arguments = _arguments()
    try:
        fetch()
    except MissingToolError as error:
        print(f"make test-java-suite: {error}", file=sys.stderr)
        return 2
    RESULTS.mkdir(exist_ok=True)
    wanted = [pattern.partition(".") for pattern in arguments.patterns]
    classes = [name for name in classes_to_run() if not wanted or any(fnmatch.fnmatch(name.rpartition(".")[2], one[0]) for one in wanted)]
    if not classes:
        print(f"no class of Java's tests matches {' '.join(arguments.patterns)}", file=sys.stderr)
        return 2
    methods = sorted({one[2] for one in wanted if one[2]})
    missing = [name for name in classes if not (arguments.resume and _file(name).is_file())]
    for name in missing:
        _file(name).unlink(missing_ok=True)
    run = Run(len(classes), len(classes) - len(missing), methods, arguments.every_set)
    while missing:
        ended = run.run(missing[: arguments.chunk])
        missing = missing[ended:]
    return report(classes, is_whole=not methods)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make test-java-suite", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("patterns", nargs="*", metavar="CLASS[.METHOD]", help="classes to run, by their simple names; * matches any text")
    parser.add_argument("--resume", action="store_true", help="keep the results of classes that ran to their end before")
    parser.add_argument(
        "--every-set", action="store_true", help="run each method with all its sets of parameters; otherwise with one, chosen by its name"
    )
    parser.add_argument("--chunk", type=int, default=CLASSES_IN_ONE_JVM, help="classes in one JVM (default: %(default)s)")
    return parser.parse_args()


def _file(class_name: str) -> Path:
    return RESULTS / f"{class_name}.jsonl"


class Run:
    """JVMs one after another, and the line that shows their progress."""

    def __init__(self, classes: int, ended: int, methods: list[str], every_set: bool) -> None:
        self.classes, self.ended, self.methods, self.every_set = classes, ended, methods, every_set
        self.counts: Counter[str] = Counter()
        self.started = time.monotonic()

    def run(self, classes: list[str]) -> int:
        """Run some classes in a JVM of their own, and return how many of them have results now."""
        file = FOLDER / "running"
        shutil.rmtree(FOLDER / "run", ignore_errors=True)
        file.unlink(missing_ok=True)
        wanted = {"classes": classes, "methods": self.methods, "without": WITHOUT_SETS, "every_set": self.every_set}
        command = [sys.executable, "-m", "tests.java_suite.session", str(FOLDER / "run"), str(file), json.dumps(wanted)]
        with (FOLDER / "log").open("a") as log:
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            try:
                return self._follow(child, file, classes)
            except KeyboardInterrupt:
                child.send_signal(signal.SIGTERM)
                child.wait(30)
                raise SystemExit("\nstopped; --resume continues from here") from None

    def _follow(self, child: "subprocess.Popen[bytes]", file: Path, classes: list[str]) -> int:
        read, results, current, method, ended, last = 0, [], "", "", 0, time.monotonic()
        while True:
            is_over = child.poll() is not None
            lines = file.read_text().split("\n")[read:-1] if file.is_file() else []
            for message in map(json.loads, lines):
                last = time.monotonic()
                if message["kind"] == "start":
                    method = message["method"]
                elif message["kind"] == "result":
                    results.append(message)
                    self.counts[message["status"]] += 1
                elif message["kind"] in ("class", "end"):
                    if current:
                        ended += self._keep(current, results)
                    results, current, method = [], message["class"], ""
            read += len(lines)
            self._show(current, method)
            if is_over and not lines:
                break
            if time.monotonic() - last > SILENT_SECONDS:
                child.kill()
                child.wait()
            time.sleep(0.3)
        if ended < len(classes):
            current = current or classes[ended]
            text = f"the JVM ended with {child.returncode} in this method; see {FOLDER.name}/log"
            lost = {
                "class": current,
                "method": method or "(class)",
                "display": "",
                "status": "failed",
                "reason": text,
                "differences": [],
                "seconds": 0.0,
            }
            ended += self._keep(current, [*results, lost])
        return ended

    def _keep(self, class_name: str, results: list[dict[str, Any]]) -> int:
        _file(class_name).write_text("".join(json.dumps(result) + "\n" for result in results))
        self.ended += 1
        return 1

    def _show(self, class_name: str, method: str) -> None:
        minutes, seconds = divmod(int(time.monotonic() - self.started), 60)
        text = (
            f"{self.ended}/{self.classes} classes  {self.counts['passed']} passed  {self.counts['failed']} failed  {minutes}:{seconds:02}  "
            f"{class_name.rpartition('.')[2]}.{method}"
        )
        if sys.stdout.isatty():
            print(f"\r\033[2K{text[:150]}", end="", flush=True)


def report(classes: list[str], *, is_whole: bool) -> int:
    """Print the failures that are not on the list, and the counts; return 1 if there are such failures or stale entries."""
    results = [json.loads(line) for name in classes if _file(name).is_file() for line in _file(name).read_text().splitlines()]
    found, differences = outcomes(results), expected_differences()
    unexpected: list[Outcome] = []
    counts: Counter[str] = Counter()
    for method, outcome in sorted(found.items()):
        known = listed_as(method, differences)
        if outcome.status == "failed":
            counts[f"expected: {known.kind}" if known else "not on the list"] += 1
            if known is None:
                unexpected.append(outcome)
        else:
            counts[outcome.status] += 1
    for outcome in unexpected:
        print(f"\nFAILED {outcome.method}\n    {outcome.text.replace(chr(10), chr(10) + '    ')}")
    stale = unused(differences, found) if is_whole else []
    for method in stale:
        print(f"\nNOT A DIFFERENCE ANY MORE {method}: take it off tests/java_suite/expected.toml")
    print(f"\n{len(found)} methods of {len(classes)} classes: " + ", ".join(f"{count} {name}" for name, count in sorted(counts.items())))
    print(f"{sum(outcome.seconds for outcome in found.values()) / 60:.0f} minutes in tests")
    return 1 if unexpected or stale else 0


if __name__ == "__main__":
    sys.exit(main())
