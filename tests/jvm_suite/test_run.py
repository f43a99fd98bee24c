"""How a run of a suite continues after a JVM that sends nothing more."""

import os
import select
from pathlib import Path

import pytest
from tests.jvm_suite.run import Run

# In place of a JVM: for the class `silent` it starts another process, which keeps the pipe open, and sends nothing more.
SILENT = """
import json, os, subprocess, sys
folder, messages, request = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
os.mkdir(folder)
with open(messages, "a", buffering=1) as file:
    for name in request["classes"]:
        print(json.dumps({"kind": "class", "class": name}), file=file)
        print(json.dumps({"kind": "start", "class": name, "method": "one"}), file=file)
        if name == "silent":
            with open(request["pipe"], "wb") as pipe:
                subprocess.run(["sleep", "60"], stdout=pipe)
        print(json.dumps({"kind": "result", "class": name, "method": "one", "status": "passed"}), file=file)
    print(json.dumps({"kind": "end", "class": ""}), file=file)
"""


def test_a_silent_jvm_ends_with_all_that_it_started_and_the_next_class_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stands_for_a_jvm.py").write_text(SILENT)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    run = Run(tmp_path, tmp_path / "results", "stands_for_a_jvm", {"pipe": str(pipe)}, silent_seconds=1)
    run.run(["silent", "next"], 2, resume=False)
    is_closed, _, _ = select.select([reader], [], [], 10)  # only when all its writers have ended
    os.close(reader)
    assert is_closed
    statuses = {name: [(one["method"], one["status"]) for one in run.results_of(name)] for name in ("silent", "next")}
    assert statuses == {"silent": [("one", "failed")], "next": [("one", "passed")]}
    assert not list(tmp_path.glob("run-*"))
