"""Whole tables of other writers, read in place from beside the project; the tests are skipped where they are absent.

| table | written by | what it proves |
|---|---|---|
| is_null_is_not_null | Spark with the Java implementation, v2 | nulls, three files |
| merch_v1 | PyIceberg, v1 | v1 metadata, lists and manifests; counts that are null |
| partition_timestamp | PyIceberg, v2 | identity partition of a timestamp, whose values are only in the manifest |
| hive_partitioned_table | Spark, v2, two specs | partition columns that are only in the manifest |
| equality_deletes | Flink, v2 | equality deletes, of an unpartitioned and a partitioned table |
| add_columns_with_defaults | PyIceberg, v2 | initial defaults of every type, in files older than the columns |
| column_mapping | PyIceberg, v2 | files without field ids, and a name mapping |
"""

import ast
import json
from pathlib import Path
from uuid import UUID

import pytest
from tests.oracle.rows import comparable

from icefloe.checks.rule import Level
from icefloe.checks.rules import rule_named
from icefloe.errors import FormatWarning
from icefloe.inspect import validate
from icefloe.table import StaticTable

GOLDEN = Path(__file__).parents[3] / "shared" / "golden"
PERSISTENT = Path("data/persistent")
READABLE = {
    "is_null_is_not_null": "is_null_is_not_null",
    "merch_v1": "iceberg_v1_repro/repro/merch_v1",
    "partition_timestamp": "partition_timestamp/default.db/partition_timestamp",
    "hive_partitioned_table": "hive_partitioned_table",
    "my_table": "column_mapping/warehouse/default.db/my_table",
    "mytable": "equality_deletes/warehouse/mydb/mytable",
    "mytable_partitioned": "equality_deletes/warehouse/mydb/mytable_partitioned",
}

# The data files of these tables were rewritten in place, without their partition columns, after they were committed.
REWRITTEN_IN_PLACE = ("partition_timestamp", "hive_partitioned_table")
reads_rewritten_files = pytest.mark.filterwarnings("ignore:.*it is read, since it has the .* rows:icefloe.errors.FormatWarning")


@pytest.fixture(autouse=True)
def paths_are_relative_to_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    if not GOLDEN.exists():
        pytest.skip(f"no golden data at {GOLDEN}: it is kept beside the project, not in it")
    monkeypatch.chdir(GOLDEN / "tables")


def newest_metadata(folder: str, version: int = 2) -> str:
    files = list((PERSISTENT / folder / "metadata").glob("*.metadata.json"))
    readable = [path for path in files if json.loads(path.read_text())["format-version"] <= version]
    return str(max(readable, key=lambda path: (json.loads(path.read_text())["last-updated-ms"], path.name)))


@reads_rewritten_files
@pytest.mark.parametrize("name", READABLE)
def test_rows_are_those_that_another_engine_read(name: str) -> None:
    expected = [json.loads(line) for line in (GOLDEN / "expected" / f"{name}.jsonl").read_text().splitlines()]
    rows = StaticTable.from_metadata(newest_metadata(READABLE[name])).scan().to_arrow().to_pylist(maps_as_pydicts="strict")
    assert comparable(rows) == comparable(expected)


@pytest.mark.parametrize("name", REWRITTEN_IN_PLACE)
def test_a_file_that_was_rewritten_in_place_with_the_same_rows_is_read_with_a_warning(name: str) -> None:
    with pytest.warns(FormatWarning, match="its manifest entry states"):
        StaticTable.from_metadata(newest_metadata(READABLE[name])).scan().to_arrow()


def test_every_golden_table_and_every_expected_result_is_named_here() -> None:
    named = {*READABLE, "add_columns_with_defaults"}
    assert {path.stem for path in (GOLDEN / "expected").iterdir()} == named
    folders = {path.parent.name for path in PERSISTENT.rglob("metadata") if path.is_dir()}
    assert folders == {Path(folder).name for folder in READABLE.values()} | {"add_columns_with_defaults"}


def metadata_files() -> list[Path]:
    return sorted(PERSISTENT.rglob("*.metadata.json"))


@reads_rewritten_files
def test_every_snapshot_of_every_metadata_file_has_the_rows_that_its_summary_counts() -> None:
    """Older metadata files are read too, and snapshots that are no longer current; a summary does not count the rows that equality deletes remove."""
    compared = 0
    for path in metadata_files():
        table = StaticTable.from_metadata(str(path))
        for snapshot in table.snapshots():
            summary = snapshot.summary
            if not Path(str(snapshot.manifest_list)).exists():
                continue  # the golden copy lacks one old manifest list
            scan = table.scan(snapshot_id=snapshot.snapshot_id)
            rows = scan.to_arrow()
            assert rows.schema.names == scan.schema().names
            assert scan.count() == rows.num_rows
            if "total-records" in summary and int(summary.get("total-equality-deletes", 0)) == 0:
                assert rows.num_rows == int(summary["total-records"]) - int(summary.get("total-position-deletes", 0)), path
                compared += 1
    assert compared >= 20


def test_columns_that_older_files_lack_have_their_initial_defaults() -> None:
    expected = [json.loads(line) for line in (GOLDEN / "expected" / "add_columns_with_defaults.jsonl").read_text().splitlines()]
    for row in expected:  # DuckDB's bytes were saved as Python's literal of them
        row.update({key: ast.literal_eval(row[key]) for key in ("col_binary", "col_fixed")}, col_uuid=UUID(row["col_uuid"]))
    table = StaticTable.from_metadata(newest_metadata("add_columns_with_defaults/default.db/add_columns_with_defaults"))
    rows = table.scan().to_arrow().to_pylist()
    assert comparable(rows) == comparable(expected)


FILE_LEVELS = (Level.DATA_FILE, Level.DELETE_FILE, Level.STATISTICS_FILE)


def test_files_and_rows_break_only_the_rules_that_files_rewritten_in_place_break() -> None:
    """The sizes of those files and of their columns are not those of their entries."""
    for name, folder in READABLE.items():
        findings = validate(StaticTable.from_metadata(newest_metadata(folder)), data=True, values=True).findings
        broken = {finding.rule for finding in findings if rule_named(finding.rule).level in FILE_LEVELS}
        assert broken == ({"file-size", "column-size"} if name in REWRITTEN_IN_PLACE else set()), name
