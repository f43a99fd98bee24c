"""Validation of whole tables of other writers, read in place: what each truly breaks, and nothing else.

| table | writer | what it breaks |
|---|---|---|
| all | several | their paths are relative, which versions 1 to 3 do not allow: `table-location`, `file-path` |
| add_columns_with_defaults | PyIceberg | a table of version 2 has initial defaults, which came with version 3 |
| mytable | Flink | the manifest list of an old snapshot was deleted, and the snapshot is still in the metadata |
| merch_v1 | PyIceberg | a list counts added rows that its manifest does not have; DELETED entries have an older snapshot; a summary counts other files |
"""

from pathlib import Path

import pytest
from tests.golden.test_tables import GOLDEN, PERSISTENT

from icefloe.checks.table_validation import validate_table
from icefloe.io.file_io_by_scheme import load_file_io

RELATIVE = {"table-location", "metadata-path", "file-path"}
TRULY_WRONG = {
    "add_columns_with_defaults": {"schema-version"},
    "mytable": {"manifest-list-missing"},
    "merch_v1": {"manifest-row-count", "entry-added-snapshot", "summary-change"},
}


@pytest.fixture(autouse=True)
def paths_are_relative_to_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    if not GOLDEN.exists():
        pytest.skip(f"no golden data at {GOLDEN}: it is kept beside the project, not in it")
    monkeypatch.chdir(GOLDEN / "tables")


def test_golden_tables_break_only_what_is_listed() -> None:
    found: dict[str, set[str]] = {}
    for path in sorted(PERSISTENT.rglob("*.metadata.json")):
        name = path.parent.parent.name
        result = validate_table(name, str(path), load_file_io({}, str(path), is_trusted=True))
        found.setdefault(name, set()).update(result.counts)
    assert len(found) > 5
    assert {name: rules - RELATIVE for name, rules in found.items() if rules - RELATIVE} == TRULY_WRONG
    assert all("table-location" in rules for rules in found.values())
    assert Path(PERSISTENT).is_dir()
