"""Apache DataFusion Comet reads Icefloe's scans: `comet_cases.py`, in a process of its own, because plugins are loaded when a session starts."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from tests.comet import VARIABLE, VERSION, comet_jar

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
CASES = Path(__file__).with_name("comet_cases.py")
# Those that are quick to run; all others are in the slow test.
FEW = "none-none or rename-vectors or names_the_table or drag or unsigned or nodes_of_comet or itself_off"


@pytest.mark.parametrize("chosen", [FEW, pytest.param(f"not ({FEW})", marks=pytest.mark.slow)], ids=["few", "all"])
def test_comet_reads_the_rows_of_spark(chosen: str) -> None:
    jar = comet_jar(pyspark.__version__)
    if jar is None:
        pytest.skip(f"the local Maven cache has no Comet {VERSION} for Spark {pyspark.__version__} (Maven Central has it for 4.1)")
    environment = {**os.environ, VARIABLE: str(jar), "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
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
        "python_files=comet_cases.py",
        "-k",
        chosen,
    ]
    ran = subprocess.run([*command, str(CASES)], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1200, check=False)
    assert ran.returncode == 0, (ran.stdout + ran.stderr)[-20_000:]
