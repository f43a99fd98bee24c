"""docs/repair.md has the repairs as the sources have them."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from icefloe.checks.repair_kinds import REPAIRS, Scope

ROOT = Path(__file__).parents[2]


def test_the_table_of_the_page_is_what_the_sources_contain() -> None:
    spec = spec_from_file_location("repair_table", ROOT / "scripts" / "repair_table.py")
    assert spec is not None
    assert spec.loader is not None
    reference = module_from_spec(spec)
    spec.loader.exec_module(reference)
    assert set(reference.HEADINGS) == set(Scope)
    page = (ROOT / "docs" / "repair.md").read_text(encoding="utf-8")
    assert page == reference.with_table(page), f"run {reference.COMMAND}"
    assert all(f"`{kind.id}`" in page for kind in REPAIRS)


def test_the_ids_of_repairs_are_unique() -> None:
    assert len({kind.id for kind in REPAIRS}) == len(REPAIRS)
