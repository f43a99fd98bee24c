"""JVMs that run classes of other projects' tests one after another, and the line that shows their progress.

A JVM is a Python process of its own, with a module of the suite: `python -m MODULE FOLDER RESULTS '{"classes": [...], ...}'`. It writes a line of JSON to
RESULTS for each class and test that begins (`class`, `start`), for each result (`result`), and at last `end`.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SILENT_SECONDS = 600.0


def add_silent_seconds(parser: argparse.ArgumentParser) -> None:
    """Add the option `--silent-seconds` to the command of a suite."""
    parser.add_argument(
        "--silent-seconds",
        type=float,
        default=SILENT_SECONDS,
        metavar="N",
        help="end a JVM without a result for so long, count its test as failed and go on with the next class (default: %(default)s)",
    )


class Run:
    """The classes of one suite, and where their results are kept: a file for each class that ran to its end.

    Args:
        folder: The folder of the suite, which git ignores; its `log` has what the JVMs print.
        results: The folder of the results.
        module: The module of a JVM.
        options: Options for the module beside the classes.
        silent_seconds: A JVM without a message for so long is ended with all processes that it started; its class counts as failed.
    """

    def __init__(
        self, folder: Path, results: Path, module: str, options: Mapping[str, Any], silent_seconds: float = SILENT_SECONDS
    ) -> None:
        self.folder, self.results, self.module, self.options = folder, results, module, options
        self.silent_seconds = silent_seconds
        self.classes = self.ended = 0
        self.counts: Counter[str] = Counter()
        self.started = time.monotonic()

    def run(self, classes: Sequence[str], chunk: int, *, resume: bool) -> None:
        """Run classes, some in one JVM. With `resume` those that have results are left out.

        Raises:
            SystemExit: The run was interrupted.
        """
        missing = [name for name in classes if not (resume and self.file(name).is_file())]
        for name in missing:
            self.file(name).unlink(missing_ok=True)
        self.classes, self.ended = len(classes), len(classes) - len(missing)
        while missing:
            missing = missing[self._run_in_one_jvm(missing[:chunk]) :]

    def file(self, class_name: str) -> Path:
        return self.results / f"{class_name.replace('/', '.')}.jsonl"

    def results_of(self, class_name: str) -> list[dict[str, Any]]:
        """Return the results of a class, in their order; none where it did not run."""
        file = self.file(class_name)
        return [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []

    def _run_in_one_jvm(self, classes: Sequence[str]) -> int:
        """Run some classes in a JVM of their own, and return how many of them have results now."""
        self.results.mkdir(parents=True, exist_ok=True)
        # Processes of an earlier JVM that are still ending must not meet this one in its folder.
        with tempfile.TemporaryDirectory(prefix=f"run-{self.results.name}-", dir=self.folder, ignore_cleanup_errors=True) as own:
            file = Path(own, "messages")
            command = [sys.executable, "-m", self.module, f"{own}/jvm", str(file), json.dumps({**self.options, "classes": classes})]
            with (self.folder / "log").open("a") as log:
                child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
            try:
                return self._follow(child, file, classes)
            except KeyboardInterrupt:
                raise SystemExit("\nstopped; --resume continues from here") from None
            finally:
                _end(child)

    def _follow(self, child: "subprocess.Popen[bytes]", file: Path, classes: Sequence[str]) -> int:
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
            if time.monotonic() - last > self.silent_seconds:
                _end(child)
            time.sleep(0.3)
        if ended < len(classes):
            current = current or classes[ended]
            text = f"the JVM ended with {child.returncode} in this method; see {self.folder.name}/log"
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
        self.file(class_name).write_text("".join(json.dumps(result) + "\n" for result in results))
        self.ended += 1
        return 1

    def _show(self, class_name: str, method: str) -> None:
        minutes, seconds = divmod(int(time.monotonic() - self.started), 60)
        counts = "  ".join(f"{self.counts[status]} {status}" for status in ("passed", "failed"))
        text = f"{self.ended}/{self.classes} classes  {counts}  {minutes}:{seconds:02}  {class_name.rpartition('.')[2]}.{method}"
        if sys.stdout.isatty():
            print(f"\r\033[2K{text[:150]}", end="", flush=True)


def _end(child: "subprocess.Popen[bytes]") -> None:
    """End the Python process, its JVM, and what that one started: all of its process group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
