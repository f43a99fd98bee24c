"""The picture and the figures of docs/maintenance.md are those of a run."""

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "maintenance.md").read_text(encoding="utf-8")
PICTURE = (ROOT / "docs" / "maintenance.svg").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = spec_from_file_location("maintenance_picture", ROOT / "scripts" / "maintenance_picture.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def measured(script: ModuleType) -> Any:
    return script.run()


def shown(picture: str) -> tuple[list[str], int]:
    """Return the texts of a picture, and the number of its bars: sizes of files depend on the version of the Parquet library."""
    return re.findall(r"<text[^>]*>([^<]*)</text>", picture), picture.count("<rect")


def test_the_picture_shows_what_a_run_measures(script: ModuleType, measured: Any) -> None:
    assert shown(script.picture(*measured)) == shown(PICTURE), "run .venv/bin/python scripts/maintenance_picture.py"


def test_the_table_has_what_a_run_measures_and_the_picture_shows(script: ModuleType, measured: Any) -> None:
    assert script.page(PAGE, *measured) == PAGE, "run .venv/bin/python scripts/maintenance_picture.py"
    table = dict(re.findall(r"^\| (data files|delete files and vectors|manifests) \| (\d+ \| \d+) \|$", PAGE, re.MULTILINE))
    titles = [text for text in shown(PICTURE)[0] if ":" in text]
    by_side = [re.findall(r"\d[\d,]*", text) for text in titles]
    assert [values.split(" | ") for values in table.values()] == [list(pair) for pair in zip(*by_side, strict=True)]


def test_the_ratios_of_scans_are_those_of_the_benchmark() -> None:
    speed = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    ratios = [
        re.search(rf"^\| {query}: time \| [^|]* \| [^|]* \| ([\d.]+) \|$", speed, re.MULTILINE)
        for query in ("sums of two columns", "one order")
    ]
    assert all(ratios)
    full, one = (ratio.group(1) for ratio in ratios if ratio is not None)
    assert f"takes {full} of its time" in PAGE
    assert f"takes\n{one} of it" in PAGE
