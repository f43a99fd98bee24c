"""Process that runs the Python of documents one after the other: imports and, where they start one, the JVM of a Spark session take their time once.

Every line of standard input is a JSON text, the code of a document. It runs in the working directory, which is empty, and as its own main module. The
reply is a line with a JSON text as well, the traceback of an error; empty if the code has run. `DocumentProcess` is the side of the tests.
"""

import json
import os
import shutil
import subprocess
import sys
import threading
import traceback
from pathlib import Path

SECONDS = 300


class DocumentProcess:
    """The process, started with the first document and again after one that took longer than `SECONDS`; `folder` is its working directory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[str] | None = None

    def run(self, code: str) -> str:
        """Run the code; return the traceback of its error, or an empty text."""
        if self._process is None or self._process.poll() is not None:
            with open(self._folder.with_suffix(".log"), "w") as log:
                command = [sys.executable, __file__]
                self._process = subprocess.Popen(command, cwd=self._folder, stdin=-1, stdout=-1, stderr=log, text=True)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        timer = threading.Timer(SECONDS, self._process.kill)
        timer.start()
        try:
            self._process.stdin.write(json.dumps(code) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        finally:
            timer.cancel()
        return str(json.loads(line)) if line else f"the process ended: {self._folder.with_suffix('.log').read_text()[-3000:]}"

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            with self._process:
                assert self._process.stdin is not None
                self._process.stdin.close()


def main() -> None:
    """Run the documents. They and the JVM print to standard error, so that standard output has the replies alone."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    folder = Path.cwd()
    for line in sys.stdin:
        for path in folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        print(json.dumps(error_of(json.loads(line))), file=replies, flush=True)


def error_of(code: str) -> str:
    """Run one document and stop its session; return the traceback of its error."""
    try:
        exec(compile(code, "document.py", "exec"), {"__name__": "__main__"})  # noqa: S102  the documents of this repository
    except Exception:  # noqa: BLE001  the test fails with any error of the document
        return traceback.format_exc()
    else:
        return ""
    finally:
        if "pyspark.sql" in sys.modules:
            session = sys.modules["pyspark.sql"].SparkSession.getActiveSession()
            if session is not None:
                session.stop()


if __name__ == "__main__":
    main()
