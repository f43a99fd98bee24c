"""A load is one commit or nothing: bad rows, upserts, filters, new columns, and the state after a load that fails."""

import csv
import errno
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.loading.conftest import Load, rows_of, types_of

from icefloe import SqlCatalog
from icefloe.catalog.file_system_catalog import FileSystemCatalog
from icefloe.errors import (
    CommitInvalidatedError,
    CommitUnknownError,
    EngineError,
    FileAlreadyExistsError,
    IcefloeError,
    InvalidFilterError,
    InvalidInputError,
    InvalidPartitionSpecError,
    InvalidSchemaError,
    NoSuchFileError,
    SchemaMismatchError,
    StorageFullError,
)
from icefloe.loading import LoadProgress, LoadRequest, LoadResult, file_load, load_files
from icefloe.loading.csv_input import CsvInput
from icefloe.loading.input_files import find_files
from icefloe.stores.sql_store import SqlCatalogStore

DIRTY = b"""id,name,at
1,plain,2024-01-05
2,"quoted, comma",2024-01-06
3,"two
lines",2024-01-07
x4,bad id,2024-01-08
5,too few
6,too,many,2024-01-10
7,bad date,2024-13-01
8,"junk"after,2024-01-11
9,caf\xff,2024-01-13

10,"unclosed,2024-01-15
11,last,2024-01-16
"""
COLUMNS = "id bigint, name string, at date"
BAD_LINES = [6, 7, 8, 9, 10, 11, 13]
Fault = Callable[[BaseException], None]


@pytest.fixture
def dirty() -> str:
    Path("d 'x'.csv").write_bytes(DIRTY)
    return "d 'x'.csv"


def write(name: str, text: str) -> str:
    Path(name).write_text(text)
    return name


# ---- bad rows ----


def test_a_load_with_bad_rows_fails_with_their_number_and_the_first_of_them(
    load: Load, dirty: str, nothing_remains: Callable[[], None]
) -> None:
    with pytest.raises(InvalidInputError) as refused:
        load(dirty, columns=COLUMNS)
    assert refused.value.message == "7 of 11 rows of d 'x'.csv cannot be loaded"
    shown = [str(problem) for problem in refused.value.problems]
    assert shown[0] == "d 'x'.csv line 6, column 'id': is not a long: x4,bad id,2024-01-08"
    assert shown[1] == "d 'x'.csv line 7: has 2 values, the header has 3: 5,too few"
    assert shown[-1] == "and 2 more"
    assert "--bad-rows quarantine" in str(refused.value.next_step)
    nothing_remains()


def test_bad_rows_are_skipped_and_counted(load: Load, dirty: str) -> None:
    result = load(dirty, columns=COLUMNS, bad_rows="skip")
    assert [row["id"] for row in rows_of(result)] == [1, 2, 3, 11]
    assert (result.bad_rows, result.bad_rows_file, len(result.first_bad_rows)) == (7, None, 5)
    assert os.listdir() == [dirty]


def test_bad_rows_are_written_beside_with_file_line_column_reason_and_text(load: Load, dirty: str) -> None:
    result = load(dirty, columns=COLUMNS, bad_rows="quarantine")
    assert result.bad_rows_file == os.path.abspath(f"_{dirty}.bad-rows")
    with open(result.bad_rows_file, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["line"]) for row in rows] == BAD_LINES
    assert {row["file"] for row in rows} == {dirty}
    assert [row["column"] for row in rows] == ["id", "", "", "at", "name", "", "name"]
    assert rows[4]["text"] == '8,"junk"after,2024-01-11'
    assert (rows[6]["reason"], rows[6]["text"]) == ("has a quote that is not closed", '10,"unclosed,2024-01-15')


def test_bad_rows_of_a_later_load_get_a_file_of_their_own(load: Load, dirty: str) -> None:
    names = [os.path.basename(load(dirty, columns=COLUMNS, bad_rows="quarantine").bad_rows_file or "") for _ in range(2)]
    assert names == [f"_{dirty}.bad-rows", f"_{dirty}.2.bad-rows"]


def test_bad_rows_are_not_written_over_a_file(load: Load, dirty: str, nothing_remains: Callable[[], None]) -> None:
    Path("kept").write_text("mine")
    with pytest.raises(FileAlreadyExistsError):
        load(dirty, columns=COLUMNS, bad_rows="quarantine", bad_rows_file="kept")
    assert Path("kept").read_text() == "mine"
    nothing_remains()
    result = load(dirty, columns=COLUMNS, bad_rows="quarantine", bad_rows_file="other.csv")
    assert result.bad_rows_file == "other.csv"


def test_bad_rows_are_written_on_a_mount_without_hard_links(load: Load, dirty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    result = load(dirty, columns=COLUMNS, bad_rows="quarantine", bad_rows_file="bad.csv")
    assert len(Path("bad.csv").read_text().splitlines()) > result.bad_rows
    assert sorted(os.listdir()) == ["bad.csv", dirty]


def test_without_bad_rows_no_file_of_them_is_written(load: Load) -> None:
    result = load(write("a.csv", "id\n1\n"), bad_rows="quarantine")
    assert (result.bad_rows, result.bad_rows_file, os.listdir()) == (0, None, ["a.csv"])


@pytest.mark.parametrize("policy", ["skip", "quarantine"])
def test_a_load_of_nothing_but_bad_rows_fails(load: Load, policy: str, nothing_remains: Callable[[], None]) -> None:
    write("a.csv", "id,name\nx\ny\n")
    with pytest.raises(InvalidInputError, match=r"2 of 2 rows of a\.csv"):
        load("a.csv", bad_rows=policy)
    nothing_remains()


def test_bad_rows_of_several_files_are_counted_together(load: Load) -> None:
    for number in range(4):
        write(f"{number}.csv", "id,v\n" + f"{number},1\n" * 9 + "x,1\n" * number)
    with pytest.raises(InvalidInputError, match="6 of 42 rows of 3 files"):
        load("*.csv", columns="id int, v int")


def test_bad_rows_in_a_table_s_types_are_found(load: Load) -> None:
    load(write("a.csv", "id,v\n1,2\n"))
    with pytest.raises(InvalidInputError, match=r"line 3, column 'v': is not a long: 3,x"):
        load(write("b.csv", "id,v\n2,3\n3,x\n"))


def test_a_missing_value_in_a_required_column_is_a_bad_row(load: Load) -> None:
    write("a.csv", "id,v\n1,2\n,3\n")
    result = load("a.csv", columns="id int not null, v int", bad_rows="skip")
    assert rows_of(result) == [{"id": 1, "v": 2}]
    assert result.first_bad_rows[0].reason == "has no value, and the column is required"


def test_the_file_of_bad_rows_is_deleted_if_the_load_is_not_committed(
    load: Load, dirty: str, monkeypatch: pytest.MonkeyPatch, nothing_remains: Callable[[], None]
) -> None:
    def fails(self: Any) -> None:
        assert "_d 'x'.csv.bad-rows" in os.listdir()
        raise StorageFullError("no space left")

    monkeypatch.setattr("icefloe.catalog.catalog_transaction.CatalogTransaction.commit_transaction", fails)
    with pytest.raises(StorageFullError):
        load(dirty, columns=COLUMNS, bad_rows="quarantine")
    nothing_remains()


# ---- the id of a load ----


@pytest.mark.parametrize("options", [{}, {"overwrite": True}, {"upsert": ["id"]}])
def test_a_load_that_is_run_again_under_its_id_is_refused(load: Load, options: dict[str, Any]) -> None:
    load(write("a.csv", "id,v\n1,a\n"), load_id="first")
    path = write("b.csv", "id,v\n2,b\n")
    result = load(path, load_id="day 2", **options)
    for load_id in ("day 2", "first"):
        with pytest.raises(InvalidInputError, match=f"the load '{load_id}' is in .* already: snapshot [0-9]+ has its rows"):
            load(path, load_id=load_id, **options)
    assert rows_of(result) == rows_of(load(path, upsert=["id"], load_id="day 3"))
    assert [snapshot.summary.get("icefloe.load-id") for snapshot in result.table.metadata.snapshots] == ["first", "day 2"]


def test_a_file_that_is_gone_has_no_fingerprint() -> None:
    files = find_files([write("a.csv", "id\n1\n"), write("b.csv", "id\n2\n")], None)
    same = find_files(["b.csv", "a.csv"], None)
    assert files.fingerprint == same.fingerprint != replace(files, sizes=(5, 6)).fingerprint
    Path("b.csv").unlink()
    with pytest.raises(NoSuchFileError, match=r"b\.csv"):
        _ = files.fingerprint


def test_a_load_without_an_id_is_run_as_often_as_it_is_started(load: Load, caplog: pytest.LogCaptureFixture) -> None:
    path = write("a.csv", "id\n1\n")
    first = load(path)
    assert caplog.text == ""
    second = load(path)
    assert f"by snapshot {first.write.snapshot_id}, and its rows are added once more; --load-id {first.load_id}, " in caplog.text
    assert second.load_id == f"{first.load_id}-2"
    assert len(rows_of(load(path, load_id="x"))) == 3
    with pytest.raises(InvalidInputError, match="--load-id is empty"):
        load(path, load_id=" ")


def test_the_id_of_a_load_that_was_killed_refuses_it_only_where_it_was_committed(load: Load, caplog: pytest.LogCaptureFixture) -> None:
    path, other = write("a.csv", "id\n1\n"), write("b.csv", "id\n2\n")
    load_ids = [load(path).load_id, load([path, other]).load_id, load(other, overwrite=True).load_id]
    assert len(set(load_ids)) == 3
    load(other, upsert=["id"])
    assert caplog.text == ""  # an overwrite and an upsert have no row twice
    for files, load_id in zip((path, [other, path], other), load_ids, strict=True):
        with pytest.raises(InvalidInputError, match="already: snapshot"):
            load(files, load_id=load_id)
    os.utime(path, ns=(1, 1))
    assert load(path).load_id not in load_ids  # it is another file now
    assert len(rows_of(load(path, load_id="an id whose load was killed before its commit"))) == 3


@pytest.mark.parametrize("options", [{}, {"overwrite": True}, {"upsert": ["id"]}, {"add_columns": True}])
def test_of_two_loads_of_one_id_at_the_same_time_one_commits(
    load: Load, catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    load(write("0.csv", "id\n0\n"))
    paths = [write(f"{name}.csv", "id,v\n1,a\n" if "add_columns" in options else "id\n1\n") for name in "ab"]
    commit, barrier = SqlCatalogStore.commit, threading.Barrier(2)
    waiting = threading.local()

    def together(self: Any, changes: Any) -> Any:
        if not getattr(waiting, "is_over", False):
            waiting.is_over = True
            barrier.wait(60)
        return commit(self, changes)

    def outcome(path: str) -> Any:
        try:
            return load(path, load_id="day 1", **options)
        except CommitInvalidatedError as error:
            return error

    monkeypatch.setattr(SqlCatalogStore, "commit", together)
    with ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(outcome, paths))
    error = next(outcome for outcome in outcomes if isinstance(outcome, CommitInvalidatedError))
    assert "the load 'day 1' is in n.t already" in error.message
    assert [type(outcome) for outcome in outcomes].count(LoadResult) == 1
    table = catalog.load_table("n.t")
    assert table.scan("id = 1").count() == 1
    assert len(table.metadata.snapshots) == 2
    stored = list((Path(table.location()) / "data").rglob("*.parquet"))
    assert len(stored) == 2  # the files of the refused load are deleted


# ---- upsert, filter, new columns ----


def test_an_upsert_updates_and_inserts_by_key_in_one_commit(load: Load) -> None:
    load(write("a.csv", "id,day,v\n1,2024-01-01,a\n2,2024-01-01,b\n"))
    result = load(write("b.csv", "id,day,v\n2,2024-01-01,B\n2,2024-01-02,c\n"), upsert=["id", "day"])
    assert (result.write.rows_updated, result.write.rows_inserted) == (1, 1)
    assert sorted(row["v"] for row in rows_of(result)) == ["B", "a", "c"]
    assert len(result.table.metadata.metadata_log) == 1


def test_an_upsert_into_a_new_table_refuses_keys_that_occur_twice(load: Load, nothing_remains: Callable[[], None]) -> None:
    with pytest.raises(InvalidInputError, match=r"twice|several|more than once"):
        load(write("a.csv", "id,v\n1,a\n1,b\n"), upsert=["id"])
    nothing_remains()
    assert len(rows_of(load(write("b.csv", "id,v\n1,a\n2,b\n"), upsert=["id"]))) == 2


def test_an_upsert_by_a_column_that_no_file_has_is_refused(load: Load, nothing_remains: Callable[[], None]) -> None:
    with pytest.raises(InvalidSchemaError, match=r"--upsert.*'key'"):
        load(write("a.csv", "id\n1\n"), upsert=["key"])
    nothing_remains()


@pytest.mark.parametrize("add_columns", [False, True])
def test_an_upsert_from_a_file_that_lacks_a_column_is_refused_and_changes_nothing(
    load: Load, catalog: SqlCatalog, add_columns: bool
) -> None:
    before = load(write("a.csv", "id,v,region\n1,a,eu\n")).table.metadata_location
    pq.write_table(pa.table({"id": [1], "v": ["b"]}), "b.parquet")
    for name in (write("b.csv", "id,v\n1,b\n"), write("b.json", '{"id": 1, "v": "b"}\n'), "b.parquet"):
        with pytest.raises(SchemaMismatchError, match=r"(?s)'region'.*Next: add the columns to the file") as refused:
            load(name, upsert="id", add_columns=add_columns)
        assert [problem.where for problem in refused.value.problems] == ["region"]
    with pytest.raises(SchemaMismatchError, match=r"(?s)'region'.*Next: .*spelling.*'regoin'"):
        load(write("c.csv", "id,v,regoin\n1,b,us\n"), upsert="id", add_columns=add_columns)
    assert catalog.load_table("n.t").metadata_location == before


def test_each_file_of_an_upsert_has_every_column_of_the_table(load: Load, catalog: SqlCatalog) -> None:
    before = load(write("a.csv", "id,v\n1,a\n2,b\n")).table.metadata_location
    files = [write("b.csv", "id,v\n1,A\n"), write("c.csv", "id,new\n2,x\n")]
    with pytest.raises(SchemaMismatchError, match=r"(?s)c\.csv.*'v'|'v'.*c\.csv"):
        load(files, upsert="id", add_columns=True)
    with pytest.raises(SchemaMismatchError, match="'v'"):
        load("b.csv", upsert="id", columns="id long")
    assert catalog.load_table("n.t").metadata_location == before


def test_an_upsert_from_structs_that_lack_a_field_is_refused(load: Load) -> None:
    load(write("a.json", '{"id": 1, "at": {"x": 1, "y": 2}}\n'))
    with pytest.raises(SchemaMismatchError, match=r"'at\.y'"):
        load(write("b.json", '{"id": 1, "at": {"x": 3}}\n'), upsert="id")


def test_an_object_without_a_field_is_a_bad_row_of_an_upsert(load: Load) -> None:
    load(write("a.json", '{"id": 1, "v": "a", "at": {"x": 1, "y": 2}}\n{"id": 2, "v": "b", "at": {"x": 1, "y": 2}}\n'))
    lines = [
        '{"id": 1, "at": {"x": 9, "y": 9}}',
        '{"id": 2, "v": "B", "at": {"x": 9}}',
        '{"id": 3, "v": null, "at": null}',
        '{"id": 4, "v": "d", "at": {"x": 4, "y": 4}, "new": 1}',
    ]
    write("b.json", "\n".join(lines))
    with pytest.raises(InvalidInputError, match=r"2 of 4 rows") as refused:
        load("b.json", upsert="id", add_columns=True)
    assert [str(problem).partition(": has no such field, and an upsert")[0] for problem in refused.value.problems] == [
        "b.json line 1, column 'v'",
        "b.json line 2, column 'at.y'",
    ]
    result = load("b.json", upsert="id", add_columns=True, bad_rows="skip")
    assert rows_of(result) == [
        {"id": 1, "v": "a", "at": {"x": 1, "y": 2}, "new": None},
        {"id": 2, "v": "b", "at": {"x": 1, "y": 2}, "new": None},
        {"id": 3, "v": None, "at": None, "new": None},
        {"id": 4, "v": "d", "at": {"x": 4, "y": 4}, "new": 1},
    ]


def test_objects_of_an_append_and_of_an_upsert_into_a_new_table_may_lack_fields(load: Load) -> None:
    write("a.json", '{"id": 1, "v": "a"}\n{"id": 2}\n')
    assert load("a.json", upsert="id").write.rows_inserted == 2
    assert load("a.json").bad_rows == 0


def test_spark_loads_no_upsert_of_json_into_a_table(load: Load, catalog: SqlCatalog) -> None:
    load(write("a.json", '{"id": 1, "v": "a"}\n'))
    prepared = file_load.FileLoad(catalog, "n.t", find_files(["a.json"], None), LoadRequest(upsert="id"))
    with prepared.all_or_nothing():
        prepared.open()
        assert prepared.spark_obstacle() == "JSON with --upsert"


def test_a_single_name_is_a_list_of_one(load: Load) -> None:
    load(write("a.csv", "id,v\n1,a\n"), partition="v")
    assert load("a.csv", upsert="id").write.rows_inserted == 0
    with pytest.raises(InvalidInputError, match=r"'skp'.*\n.*fail, skip, quarantine"):
        load("a.csv", bad_rows="skp")


def test_options_that_contradict_each_other_are_refused(load: Load) -> None:
    write("a.csv", "id\n1\n")
    with pytest.raises(InvalidInputError, match="--overwrite and --upsert"):
        load("a.csv", overwrite=True, upsert=["id"])
    with pytest.raises(InvalidInputError, match="--bad-rows-file"):
        load("a.csv", bad_rows_file="x")


def test_only_rows_of_the_filter_are_loaded(load: Load) -> None:
    result = load(write("a.csv", "id,kind\n1,a\n2,b\n3,\n"), where="kind = 'a' or id > 2")
    assert [row["id"] for row in rows_of(result)] == [1, 3]
    assert result.filtered_rows == 1
    assert load("a.csv", where="not (id < 3)").write.added_records == 1
    assert load("a.csv", where="id > 3").write.added_records == 0


@pytest.mark.parametrize("where", ["nothing = 1", "id >", "id > 'x'", "__import__('os').system('touch ran')"])
def test_a_wrong_filter_is_refused_and_never_evaluated(load: Load, where: str, nothing_remains: Callable[[], None]) -> None:
    with pytest.raises(InvalidFilterError):
        load(write("a.csv", "id\n1\n"), where=where)
    assert not Path("ran").exists()
    nothing_remains()


def test_new_columns_are_added_by_name_in_the_same_commit(load: Load) -> None:
    load(write("a.csv", "id,v\n1,a\n"))
    write("b.csv", "extra,id\n1.5,2\n")
    with pytest.raises(SchemaMismatchError, match=r"extra: is not a column(.|\n)*--add-columns"):
        load("b.csv")
    result = load("b.csv", add_columns=True)
    assert types_of(result) == {"id": "long", "v": "string", "extra": "double"}
    assert rows_of(result) == [{"id": 1, "v": "a", "extra": None}, {"id": 2, "v": None, "extra": 1.5}]
    assert len(result.table.metadata.metadata_log) == 1


def test_columns_are_not_added_if_the_load_fails(load: Load, catalog: SqlCatalog) -> None:
    before = load(write("a.csv", "id\n1\n")).table.metadata_location
    with pytest.raises(InvalidInputError, match="1 of 2 rows"):
        load(write("b.csv", "id,extra\n2,1\nx,1\n"), add_columns=True)
    assert catalog.load_table("n.t").metadata_location == before


def test_a_new_column_that_differs_only_in_letter_case_is_refused(load: Load, catalog: SqlCatalog) -> None:
    load(write("a.csv", "id,v\n1,a\n"))
    with pytest.raises(InvalidSchemaError, match="letter case: 'ID'"):
        load(write("b.csv", "ID,w\n2,b\n"), add_columns=True)
    assert catalog.load_table("n.t").schema().names == ["id", "v"]


@pytest.mark.parametrize(
    ("name", "same"), [("a.parquet", "'ID', 'id'"), ("*.parquet", "'ID', 'id'"), ("a.json", "'ID', 'id'"), ("b.json", "'at.X', 'at.x'")]
)
def test_columns_of_a_new_table_that_differ_only_in_letter_case_are_refused(
    load: Load, nothing_remains: Callable[[], None], name: str, same: str
) -> None:
    pq.write_table(pa.table({"ID": [1], "id": [2]}), "a.parquet")
    pq.write_table(pa.table({"id": [3]}), "b.parquet")
    write("a.json", '{"ID": 1, "v": 1}\n{"id": 2}\n')
    write("b.json", '{"at": {"X": 1, "x": 2}}\n')
    with pytest.raises(InvalidSchemaError, match=f"letter case: {same}"):
        load(name)
    nothing_remains()
    if name == "a.parquet":
        assert rows_of(load(name, columns="ID long"), "ID") == [{"ID": 1}]


def test_a_column_in_another_letter_case_than_the_table_s_is_refused_with_a_step_that_works(load: Load) -> None:
    load(write("a.csv", "id,v\n1,a\n"))
    with pytest.raises(SchemaMismatchError, match="ID: is not a column of the table; there is 'id'") as refused:
        load(write("b.csv", "ID,v,w\n2,b,c\n"))
    assert "--add-columns" not in str(refused.value)


def test_adding_columns_changes_no_other_column(catalog: SqlCatalog) -> None:
    catalog.create_namespace("n")
    fields = [pa.field("id", pa.int32(), nullable=False), pa.field("v", pa.string())]
    catalog.create_table("n.t", pa.schema(fields))
    pq.write_table(pa.table({"id": pa.array([1], pa.int32()), "w": ["x"]}), "a.parquet")
    table = load_files(catalog, "n.t", "a.parquet", add_columns=True).table
    assert [(field.name, str(field.field_type), field.required) for field in table.schema().fields] == [
        ("id", "int", True),
        ("v", "string", False),
        ("w", "string", False),
    ]


def test_a_load_overwrites_or_appends(load: Load) -> None:
    write("a.csv", "id\n1\n2\n")
    assert len(rows_of(load("a.csv"))) == 2
    assert len(rows_of(load("a.csv"))) == 4
    assert len(rows_of(load("a.csv", overwrite=True))) == 2


def test_rows_of_a_sorted_table_are_written_in_its_order(catalog: SqlCatalog, load: Load) -> None:
    table = load(write("a.csv", "id\n0\n")).table
    with table.replace_sort_order() as order:
        order.asc("id")
    load(write("b.csv", "id\n3\n1\n2\n"))
    files = [task.file for task in catalog.load_table("n.t").scan("id > 0").plan_files()]
    assert [file.sort_order_id for file in files] == [1]
    assert pq.read_table(files[0].file_path)["id"].to_pylist() == [1, 2, 3]


# ---- all or nothing ----


@pytest.fixture
def fails_with(monkeypatch: pytest.MonkeyPatch) -> Fault:
    """Make reading fail after the first rows were written to a data file."""

    def arrange(error: BaseException) -> None:
        batches = CsvInput.batches

        def interrupted(self: CsvInput, *arguments: Any) -> Iterator[Any]:
            for batch in batches(self, *arguments):
                yield pa.concat_batches([batch] * 1_100_000) if batch.num_rows == 1 else batch
                raise error

        monkeypatch.setattr(CsvInput, "batches", interrupted)

    return arrange


@pytest.mark.parametrize("error", [EngineError("it fell over"), StorageFullError("no space left"), KeyboardInterrupt()])
def test_a_load_that_fails_leaves_no_table_no_namespace_and_no_file(
    load: Load, fails_with: Fault, error: BaseException, nothing_remains: Callable[[], None], tmp_path: Path
) -> None:
    fails_with(error)
    with pytest.raises(type(error)):
        load(write("a.csv", "id\n1\n"))
    nothing_remains()
    assert not (tmp_path / "lake" / "n").exists()


def test_a_load_that_fails_leaves_an_existing_table_and_its_files_unchanged(load: Load, fails_with: Fault, tmp_path: Path) -> None:
    before = load(write("a.csv", "id\n1\n")).table
    files = sorted((tmp_path / "lake").rglob("*"))
    fails_with(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        load("a.csv")
    assert before.refresh().metadata_location == before.metadata_location
    assert sorted((tmp_path / "lake").rglob("*")) == files


def test_a_failed_load_keeps_an_existing_namespace_and_folder(load: Load, catalog: SqlCatalog, fails_with: Fault, tmp_path: Path) -> None:
    catalog.create_namespace("n")
    (tmp_path / "lake/n/t/data").mkdir(parents=True)
    (tmp_path / "lake/n/t/data/old.parquet").write_text("of a table dropped long ago")
    fails_with(EngineError("it fell over"))
    with pytest.raises(EngineError):
        load(write("a.csv", "id\n1\n"))
    assert catalog.list_namespaces() == [("n",)]
    assert [path.name for path in (tmp_path / "lake").rglob("*") if path.is_file()] == ["old.parquet"]


def test_an_unknown_commit_state_deletes_nothing(load: Load, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, dirty: str) -> None:
    def unknown(self: Any) -> None:
        raise CommitUnknownError("the response was lost")

    monkeypatch.setattr("icefloe.catalog.catalog_transaction.CatalogTransaction.commit_transaction", unknown)
    with pytest.raises(CommitUnknownError):
        load(dirty, columns=COLUMNS, bad_rows="quarantine")
    assert len(list((tmp_path / "lake").rglob("*.parquet"))) == 1
    assert len(list(Path().glob("*.bad-rows"))) == 1


def test_an_interrupt_after_the_commit_keeps_its_files(
    load: Load, catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch, dirty: str
) -> None:
    commit = file_load.CatalogTransaction.commit_transaction

    def interrupted(self: Any) -> None:
        commit(self)
        raise KeyboardInterrupt

    monkeypatch.setattr("icefloe.catalog.catalog_transaction.CatalogTransaction.commit_transaction", interrupted)
    with pytest.raises(KeyboardInterrupt):
        load(dirty, columns=COLUMNS, bad_rows="quarantine")
    assert catalog.load_table("n.t").scan().to_arrow().num_rows == 4
    assert len(list(Path().glob("*.bad-rows"))) == 1


def test_a_load_that_fails_keeps_the_files_of_another_load_of_the_same_new_table(
    catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog.create_namespace("n")
    first, second = (
        file_load.FileLoad(catalog, "n.t", find_files([write(name, text)], None), LoadRequest())
        for name, text in (("a.csv", "id\n1\n2\n"), ("b.csv", "id,v\n1\n"))
    )
    commit = file_load.CatalogTransaction.commit_transaction

    def committed_after_the_other_failed(self: Any) -> None:
        with pytest.raises(InvalidInputError), second.all_or_nothing():
            second.write(second.rows())
        commit(self)

    monkeypatch.setattr(file_load.CatalogTransaction, "commit_transaction", committed_after_the_other_failed)
    with first.all_or_nothing():
        first.open()
        second.open()
        first.write(first.rows())
    assert sorted(catalog.load_table("n.t").scan().to_arrow()["id"].to_pylist()) == [1, 2]


def test_a_load_that_fails_takes_the_namespace_from_no_other_load(catalog: SqlCatalog) -> None:
    first, second = (
        file_load.FileLoad(catalog, f"n.{name}", find_files([write(f"{name}.csv", "id\n1\n")], None), LoadRequest()) for name in "ab"
    )

    def fails() -> None:
        with first.all_or_nothing():
            first.open()
            second.open()
            raise EngineError("it fell over")

    with second.all_or_nothing():
        with pytest.raises(EngineError):
            fails()
        assert catalog.list_namespaces() == []
        second.write(second.rows())
    assert catalog.list_tables("n") == [("n", "b")]


@pytest.mark.parametrize("is_created_by_another", [False, True])
def test_a_load_drops_only_the_namespace_that_it_created(
    load: Load, catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch, fails_with: Fault, is_created_by_another: bool
) -> None:
    creates = SqlCatalog.create_namespace

    def created_at_the_same_moment(self: SqlCatalog, *arguments: Any) -> None:
        creates(self, *arguments)
        if is_created_by_another:
            creates(self, *arguments)

    monkeypatch.setattr(SqlCatalog, "create_namespace", created_at_the_same_moment)
    fails_with(EngineError("it fell over"))
    with pytest.raises(EngineError):
        load(write("a.csv", "id\n1\n"))
    assert catalog.list_namespaces() == ([("n",)] if is_created_by_another else [])


def test_a_load_that_fails_keeps_the_empty_folder_of_a_namespace(fails_with: Fault, tmp_path: Path) -> None:
    catalog = FileSystemCatalog("lake", warehouse=str(tmp_path / "lake"))
    catalog.create_namespace("n")
    fails_with(EngineError("it fell over"))
    for name in ("n.t", "m.t"):
        with pytest.raises(EngineError):
            load_files(catalog, name, write("a.csv", "id\n1\n"))
    assert catalog.list_namespaces() == [("n",)]


def test_an_interrupt_during_the_commit_deletes_nothing_that_the_commit_may_need(
    load: Load, catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch, dirty: str, tmp_path: Path
) -> None:
    """The database may still carry out a commit whose reply the interrupt has lost."""

    def interrupted(self: Any, changes: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(SqlCatalogStore, "commit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        load(dirty, columns=COLUMNS, bad_rows="quarantine")
    assert len(list((tmp_path / "lake").rglob("*.parquet"))) == 1
    assert len(list(Path().glob("*.bad-rows"))) == 1


def test_a_failure_of_the_clean_up_is_logged_and_hides_no_error(
    load: Load, monkeypatch: pytest.MonkeyPatch, fails_with: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(self: Any) -> None:
        raise RuntimeError("the disk is gone")

    monkeypatch.setattr(file_load.CatalogTransaction, "give_up", broken)
    fails_with(EngineError("it fell over"))
    with pytest.raises(EngineError, match="it fell over"):
        load(write("a.csv", "id\n1\n"))
    assert "files of the failed load into n.t may remain: the disk is gone" in caplog.text


def test_an_unreachable_catalog_hides_neither_the_error_nor_deletes_what_a_commit_may_need(
    load: Load, catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch, fails_with: Fault
) -> None:
    fails_with(EngineError("it fell over"))
    replies = iter([None])

    def unreachable(self: file_load.FileLoad) -> None:
        if next(replies, self) is self:
            raise StorageFullError("the catalog is down")

    monkeypatch.setattr(file_load.FileLoad, "_table_if_exists", unreachable)
    with pytest.raises(EngineError, match="it fell over"):
        load(write("a.csv", "id\n1\n"))


def test_an_unknown_format_is_refused(load: Load) -> None:
    with pytest.raises(InvalidInputError, match=r"'xml'.*\n.*json, csv, parquet"):
        load(write("a.xml", "<a/>"), file_format="xml")


def test_properties_of_a_table_that_exists_are_refused(load: Load) -> None:
    write("a.csv", "id\n1\n")
    load("a.csv", properties={"write.format.default": "orc"})
    with pytest.raises(InvalidInputError, match=r"n\.t exists, and --property sets properties of a new table"):
        load("a.csv", properties={"format-version": "3"})


def test_a_table_keeps_its_partitioning(load: Load) -> None:
    write("a.csv", "id,kind\n1,a\n")
    load("a.csv", partition=["kind"])
    load("a.csv", partition=["kind"])
    with pytest.raises(InvalidPartitionSpecError, match=r"is partitioned by kind, not by bucket\(4, id\)"):
        load("a.csv", partition=["bucket(4, id)"])


@pytest.mark.parametrize("partition", ["month(kind)", "nowhere", "bucket(id)"])
def test_a_load_with_an_invalid_partitioning_leaves_nothing(load: Load, partition: str, nothing_remains: Callable[[], None]) -> None:
    with pytest.raises(IcefloeError):
        load(write("a.csv", "id,kind\n1,a\n"), partition=[partition])
    nothing_remains()


def test_progress_counts_rows_and_bytes(load: Load) -> None:
    seen: list[LoadProgress] = []
    write("a.csv", "id\n" + "1\n" * 1000)
    write("b.csv", "id\n" + "2\n" * 500)
    load(["a.csv", "b.csv"], progress=seen.append)
    last = [state for state in seen if state.step == "rows"][-1]
    assert (last.rows, last.done_bytes, last.all_bytes) == (1500, 3006, 3006)
    assert {state.step for state in seen} == {"columns", "rows"}


def test_a_column_that_few_values_make_a_string_is_reported(load: Load) -> None:
    lines = [f"{'n/a' if number in (40, 90) else number},{number:05d},name {number},{number}" for number in range(1, 101)]
    lines[59] = "60,n/a,x,60"
    result = load(write("a.csv", "Qty,post,name,id\n" + "\n".join(lines) + "\n"))
    assert [str(column) for column in result.mixed_columns] == [
        "Qty is string: 2 of 100 values are not long, the first in a.csv line 41; state its type with --schema"
    ]
    assert load(write("b.csv", "Qty,post,name,id\nn/a,1,x,1\n")).mixed_columns == ()
