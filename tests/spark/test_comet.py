"""Apache DataFusion Comet reads Icefloe's scans: `comet_cases.py`, in a process of its own."""

from pathlib import Path

import pytest
from tests.comet import run_cases

pytestmark = pytest.mark.spark

CASES = Path(__file__).with_name("comet_cases.py")
# Those that are quick to run; all others are in the slow test.
FEW = "none-none or rename-vectors or names_the_table or drag or unsigned or nodes_of_comet or itself_off"


@pytest.mark.parametrize("chosen", [FEW, pytest.param(f"not ({FEW})", marks=pytest.mark.slow)], ids=["few", "all"])
def test_comet_reads_the_rows_of_spark(chosen: str) -> None:
    run_cases(CASES, chosen, elsewhere=True)


@pytest.mark.slow
def test_comet_is_found_where_only_its_extension_is_loaded() -> None:
    run_cases(CASES, "names_the_table or itself_off or drag", elsewhere=True, extension_alone=True)
