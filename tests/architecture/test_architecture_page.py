"""ARCHITECTURE.md and the design notes name files that exist, and the diagram shows the layers that import-linter checks."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "ARCHITECTURE.md"
PAGES = [PAGE, *sorted((ROOT / "docs" / "design").glob("*.md"))]
SOURCE = re.compile(r"\bsrc/icefloe/[\w/.]*\w")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_source_file_that_a_design_page_names_exists(page: Path) -> None:
    named = set(SOURCE.findall(page.read_text()))
    assert sorted(path for path in named if not (ROOT / path).exists()) == []


def test_every_package_that_the_glossary_and_the_design_pages_name_exists() -> None:
    pages = [ROOT / "docs" / "glossary.md", *PAGES]
    named = {name for page in pages for name in re.findall(r"`(icefloe(?:\.[a-z_]+)*)`", page.read_text())}
    # `icefloe.engines` is a group of entry points, `icefloe.spark.session` a public function.
    named -= {"icefloe.engines", "icefloe.spark.session"}
    paths = {name: ROOT / "src" / name.replace(".", "/") for name in named}
    assert [name for name, path in paths.items() if not path.exists() and not path.with_suffix(".py").exists()] == []


def test_architecture_fits_on_two_pages() -> None:
    assert len(PAGE.read_text().splitlines()) <= 120


def test_the_diagram_has_the_layers_of_import_linter_in_their_order() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["name"] == "The layers of Icefloe")
    diagram = re.findall(r'^ +\w+\["(.*)"\]$', PAGE.read_text(), re.MULTILINE)
    drawn = [sorted(part.partition(":")[0].strip() for part in box.split(" | ")) for box in diagram]
    assert drawn == [sorted(part.strip() for part in layer.split("|")) for layer in layers]
