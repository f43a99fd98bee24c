"""The validation of a catalog: its metadata locations, tables that cannot be loaded, two names of one table, and orphan files."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from tests.checks.stored_table import written_table

from icefloe import SqlCatalog
from icefloe.errors import NoSuchTableError
from icefloe.inspect import validate
from icefloe.procedures import call
from icefloe.table import Table


def catalog_of(folder: Path) -> SqlCatalog:
    return SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))


def older_location(folder: Path, table: Table) -> None:
    """Set the catalog back to the metadata file before the last commit."""
    catalog = catalog_of(folder)
    before = table.metadata.metadata_log[-1].metadata_file
    catalog.register_table("db.t", before, overwrite=True)


def second_name(folder: Path, table: Table) -> None:
    catalog_of(folder).register_table("db.u", table.metadata_location)


def lost_file(folder: Path, table: Table) -> None:
    path = folder / "db" / "t" / "data" / "lost.parquet"
    path.write_bytes(b"PAR1")
    os.utime(path, (0, 0))


CATALOG_BREAKS: dict[str, Callable[[Path, Table], object]] = {
    "metadata-newer": older_location,
    "table-registered-twice": second_name,
    "orphan-file": lost_file,
}


@pytest.mark.parametrize("rule_id", CATALOG_BREAKS)
def test_a_broken_rule_of_a_catalog_is_found_and_no_other(tmp_path: Path, rule_id: str) -> None:
    table = written_table(tmp_path)
    assert validate(catalog_of(tmp_path), orphans=True).findings == ()
    CATALOG_BREAKS[rule_id](tmp_path, table)
    found = validate(catalog_of(tmp_path), orphans=True)
    assert [finding.rule for finding in found.findings] == [rule_id]
    assert found.findings[0].file


def test_a_copy_in_another_folder_is_a_table_of_its_own(tmp_path: Path) -> None:
    table = written_table(tmp_path)
    copied = table.maintenance.rewrite_table_path(table.location(), f"{tmp_path}/copy", copy=True)
    copy = catalog_of(tmp_path).register_table("db.copy", copied.metadata_location)
    assert copy.metadata.table_uuid == table.metadata.table_uuid
    assert "table-registered-twice" not in [finding.rule for finding in validate(catalog_of(tmp_path)).findings]


def test_a_metadata_file_of_a_commit_that_lost_is_no_newer_one(tmp_path: Path) -> None:
    table = written_table(tmp_path)
    metadata = Path(table.metadata_location)
    attempt = metadata.with_name("00099-11111111-1111-1111-1111-111111111111.metadata.json")
    attempt.write_text('{"metadata-log": [{"metadata-file": "/elsewhere/other.metadata.json"}, 5], "format-version": 2}')
    assert validate(catalog_of(tmp_path)).findings == ()
    attempt.write_text("{")
    assert validate(catalog_of(tmp_path)).findings == ()


def test_a_table_that_cannot_be_loaded_is_validated_beside_the_others(tmp_path: Path) -> None:
    table = written_table(tmp_path)
    written_table(tmp_path, name="u")
    Path(table.metadata_location).write_text("{")
    found = validate(catalog_of(tmp_path), orphans=True)
    assert [(finding.table, finding.rule) for finding in found.findings] == [
        ("lake.db.t", "metadata-damaged"),
        ("lake.db.t", "not-checked"),
    ]
    assert [result.table for result in found.tables] == ["lake.db.t", "lake.db.u"]
    assert found.has_faults
    shutil.rmtree(tmp_path / "db" / "t")
    assert [finding.rule for finding in validate(catalog_of(tmp_path), "db.t").findings] == ["metadata-missing"]


def test_a_name_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    written_table(tmp_path)
    with pytest.raises(NoSuchTableError, match=r"db\.nothing"):
        validate(catalog_of(tmp_path), "db.nothing")


def test_the_procedure_and_the_table_return_the_same_findings(tmp_path: Path) -> None:
    table = written_table(tmp_path)
    Path(table.current_snapshot().manifest_list).unlink()  # type: ignore[union-attr,arg-type]
    rows = call(catalog_of(tmp_path), "validate", table="db.t")
    assert [(row["rule"], row["severity"], row["file"]) for row in rows] == [
        (finding.rule, finding.severity.value, finding.file) for finding in table.inspect.validate().findings
    ]
    assert [row["rule"] for row in rows] == ["manifest-list-missing"]
    assert call(catalog_of(tmp_path), "validate", namespace="db")[0]["table_name"] == "lake.db.t"


def test_a_catalog_without_tables_has_no_findings(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path)
    catalog.create_namespace("db")
    catalog.create_table("db.empty", pa.schema([("n", pa.int64())]))
    found = validate(catalog)
    assert (found.findings, found.tables[0].snapshots) == ((), 0)
