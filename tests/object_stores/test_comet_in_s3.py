"""Apache DataFusion Comet reads tables in S3: `comet_in_s3_cases.py`, in a process of its own."""

from pathlib import Path

import pytest
from tests.comet import run_cases
from tests.emulators import EMULATORS

pytestmark = [pytest.mark.emulator, pytest.mark.spark]

JARS = EMULATORS / "hadoop-aws"


def test_comet_reads_tables_in_s3() -> None:
    if not JARS.is_dir():
        pytest.skip("hadoop-aws is not installed: run make test-object-stores VERSION=4.1")
    run_cases(Path(__file__).with_name("comet_in_s3_cases.py"), "", sorted(JARS.glob("*.jar")))
