"""Spark Connect, against a real server on this machine: `connect_cases.py`, in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from icefloe.spark.runtime.java_runtime import find_java

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
CASES = Path(__file__).with_name("connect_cases.py")


@pytest.mark.slow
def test_everything_works_in_a_session_of_spark_connect(tmp_path: Path) -> None:
    if pyspark.__version__ >= "4.1" and not find_java().has_vector_module:
        pytest.skip("PySpark starts its Connect server with the module jdk.incubator.vector, which the only Java here is built without")
    # Spark's workers inherit the zone; rows are compared as times of UTC.
    environment = {**os.environ, "TZ": "UTC", "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    environment.pop("SPARK_REMOTE", None)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:xdist",
        "-p",
        "no:cacheprovider",
        "-o",
        "python_files=connect_cases.py",
        str(CASES),
    ]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1200, check=False)
    (tmp_path / "log").write_text(ran.stdout + ran.stderr)
    assert ran.returncode == 0, ran.stdout[-20_000:]
