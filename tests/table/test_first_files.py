"""Scans with a limit plan the first files that have enough rows, and read no more manifests; counts of all rows read no manifest."""

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import examples
from tests.spark.merge_on_read import delete_keys_everywhere, delete_positions

from icefloe import SqlCatalog
from icefloe.io.file_io_by_scheme import SchemeFileIO
from icefloe.table import Table

APPENDS = 12


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> SqlCatalog:
    folder: Path = tmp_path_factory.mktemp("limited")
    catalog = SqlCatalog(
        "lake",
        uri=f"sqlite:///{folder}/catalog.db",
        warehouse=str(folder / "warehouse"),
        **{"io.manifest.cache-enabled": "false"},
    )
    catalog.create_namespace("db")
    return catalog


def _filled(lake: SqlCatalog, name: str) -> Table:
    """Return a table of twelve manifests; each has two files of ten rows."""
    table = lake.create_table(name, _rows(0).schema, partition_spec=["half"], properties={"commit.manifest-merge.enabled": "false"})
    for number in range(APPENDS):
        table.append(_rows(number))
    return table


def _rows(number: int) -> pa.Table:
    ids = range(number * 20, number * 20 + 20)
    return pa.table({"id": pa.array(ids, pa.int64()), "half": pa.array([row % 2 for row in ids], pa.int32())})


@pytest.fixture(scope="module")
def plain(lake: SqlCatalog) -> Table:
    return _filled(lake, "db.plain")


@pytest.fixture(scope="module")
def deleted(lake: SqlCatalog) -> Table:
    """A table with position deletes in its first files."""
    table = _filled(lake, "db.deleted")
    files = [task.file.file_path for task in table.scan().plan_files()]
    delete_positions(table, {file: range(10) for file in files[:4]})
    return lake.load_table("db.deleted")


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The locations of the files that the storage read."""
    locations: list[str] = []
    read = SchemeFileIO.read

    def noted(io: SchemeFileIO, location: str) -> bytes:
        locations.append(location)
        return read(io, location)

    monkeypatch.setattr(SchemeFileIO, "read", noted)
    return locations


def _manifests(locations: list[str]) -> list[str]:
    return [location for location in locations if location.endswith(".avro") and "/snap-" not in location]


def test_a_limit_reads_one_manifest_of_many(plain: Table, reads: list[str]) -> None:
    assert plain.scan(limit=20).to_arrow().num_rows == 20
    assert len(_manifests(reads)) == 1


def test_a_limit_above_the_rows_of_the_table_reads_every_manifest_once(plain: Table, reads: list[str]) -> None:
    assert plain.scan(limit=10_000).to_arrow().num_rows == APPENDS * 20
    assert len(_manifests(reads)) == len(set(_manifests(reads))) == APPENDS


def test_a_limit_of_no_rows_reads_no_manifest(plain: Table, reads: list[str]) -> None:
    assert plain.scan(limit=0).to_arrow().num_rows == 0
    assert not _manifests(reads)


def test_a_limit_with_a_filter_plans_every_file_that_may_match(plain: Table) -> None:
    assert plain.scan("id >= 238", limit=5).to_arrow()["id"].to_pylist() == [238, 239]


def test_counting_all_rows_reads_no_manifest(plain: Table, reads: list[str]) -> None:
    assert plain.scan().count() == APPENDS * 20
    assert not _manifests(reads)
    assert plain.scan("id < 30").count() == 30


def test_counting_rows_of_a_table_with_deletes_does_not_use_the_counts_of_manifests(deleted: Table) -> None:
    assert deleted.scan().count() == APPENDS * 20 - 40


def test_rows_of_a_range_of_appends_are_not_counted_by_the_list_of_its_last_snapshot(plain: Table) -> None:
    fourth = list(plain.snapshots())[3].snapshot_id
    assert plain.scan().appended_after(fourth).count() == (APPENDS - 4) * 20


@given(rows=st.integers(0, 260))
@settings(max_examples=examples(40))
def test_the_first_files_are_those_of_the_whole_plan_and_have_enough_live_rows(deleted: Table, rows: int) -> None:
    whole = list(deleted.scan().plan().tasks())
    plan = deleted.scan().plan(enough_rows=rows).first_files(rows)
    first = list(plan.tasks())
    assert first == whole[: len(first)]
    certain = [0 if task.delete_files else task.file.record_count for task in first]
    assert sum(certain) >= rows or len(first) == len(whole)
    assert sum(certain[:-1]) < rows or not first  # one file less is not enough
    assert plan.files_kept == len(first)
    assert set(plan.delete_files) == {file for task in first for file in task.delete_files}
    expected = min(rows, APPENDS * 20 - 40)
    assert deleted.scan(limit=rows).to_arrow().num_rows == expected


def test_a_limit_finds_rows_behind_files_whose_rows_are_all_deleted_by_equality(lake: SqlCatalog) -> None:
    table = _filled(lake, "db.by_key")
    delete_keys_everywhere(table, pa.table({"id": pa.array(range(230), pa.int64())}), ["id"])
    kept = lake.load_table("db.by_key").scan(limit=4).to_arrow()["id"].to_pylist()
    assert len(kept) == 4
    assert min(kept) >= 230
