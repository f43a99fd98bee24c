"""Deletes by key: equality delete files for the specs that need them, and the deleted rows, compared with a plain list."""

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.repetitions import examples

from icefloe import LongType, NestedField, Schema, SqlCatalog, StringType
from icefloe.errors import InvalidInputError, InvalidSchemaError, SchemaMismatchError, UnsupportedFeatureError
from icefloe.spec.manifest.data_file import DataFile, FileContent
from icefloe.table import Table

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("value", pa.float64())])


def rows(start: int, stop: int) -> pa.Table:
    listed = [{"id": n, "part": None if n % 5 == 4 else "abc"[n % 3], "value": n / 2} for n in range(start, stop)]
    return pa.Table.from_pylist(listed, schema=SCHEMA)


def lake(folder: Path) -> SqlCatalog:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    catalog.create_namespace_if_not_exists("db")
    return catalog


def make(folder: Path, version: int = 2, spec: tuple[str, ...] = ()) -> Table:
    settings = {"format-version": str(version), "commit.retry.min-wait-ms": "1"}
    table = lake(folder).create_table("db.t", SCHEMA, partition_spec=spec, properties=settings)
    table.append(rows(0, 20))
    return table


def ids(table: Table) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


def equality_deletes(table: Table) -> list[DataFile]:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    found = [entry.data_file for manifest in snapshot.manifests(table.io) for entry in manifest.fetch_manifest_entry(table.io)]
    return [file for file in found if file.content is FileContent.EQUALITY_DELETES]


@pytest.mark.parametrize("version", [2, 3])
def test_keys_delete_older_rows_and_not_newer_ones(tmp_path: Path, version: int) -> None:
    table = make(tmp_path, version)
    result = table.delete_keys(pa.table({"id": [3, 5, 100], "other": ["x", "y", "z"]}), ["id"])
    assert (result.operation, result.deleted_records, result.deleted_keys, result.added_delete_files) == ("delete", None, 3, 1)
    assert "rows of 3 keys deleted; 1 delete file added" in str(result)
    table.append(rows(3, 4))
    assert ids(table) == sorted(n for n in range(20) if n != 5)
    (file,) = equality_deletes(table)
    assert (file.equality_ids, file.record_count, file.sort_order_id) == ((1,), 3, None)
    assert table.scan().count() == 19
    assert table.scan("id < 6").count() == 5


def test_the_identifier_fields_are_the_default_keys(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "name", StringType()), identifier_field_ids=[1])
    table = lake(tmp_path).create_table("db.t", schema)
    data = pa.Table.from_pylist([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}], schema=table.scan().to_arrow().schema)
    table.append(data)
    table.delete_keys(pd.DataFrame({"id": [2]}))
    assert ids(table) == [1]


def test_delete_files_are_in_the_partitions_of_the_keys(tmp_path: Path) -> None:
    table = make(tmp_path, 2, ("part",))
    result = table.delete_keys(pa.table({"part": ["a", "b", None], "id": [0, 3, 4]}), ["part", "id"])
    files = equality_deletes(table)
    assert result.added_delete_files == len(files) == 3
    assert sorted(str(file.partition[0]) for file in files) == ["None", "a", "b"]
    assert ids(table) == [n for n in range(20) if n not in (0, 4)]  # row 3 is in partition a
    assert "/part=a/" in next(file.file_path for file in files if file.partition == ("a",))


def test_keys_without_the_partition_column_are_deleted_in_the_whole_table(tmp_path: Path) -> None:
    table = make(tmp_path, 2, ("part",))
    before = table.metadata
    table.delete_keys(pa.table({"id": [0, 1, 4]}), ["id"])
    (file,) = equality_deletes(table)
    assert table.specs()[file.spec_id].fields == ()
    assert table.metadata.default_spec_id == before.default_spec_id
    assert (len(table.specs()), len(table.metadata.metadata_log)) == (2, len(before.metadata_log) + 1)
    assert ids(table) == [n for n in range(20) if n not in (0, 1, 4)]
    table.delete_keys(pa.table({"id": [7]}), ["id"])
    assert (len(table.specs()), ids(table)[:5]) == (2, [2, 3, 5, 6, 8])


def test_deletes_are_written_for_every_spec_of_the_data(tmp_path: Path) -> None:
    table = make(tmp_path, 2, ("part",))
    with table.update_spec() as update:
        update.add_field("id", "bucket[4]")
    table.append(rows(20, 40))
    table.delete_keys(pa.table({"part": ["a", "a"], "id": [0, 21]}), ["id", "part"])
    assert {file.spec_id for file in equality_deletes(table)} == {0, 1}
    assert ids(table) == [n for n in range(40) if n not in (0, 21)]
    with table.update_spec() as update:
        update.add_field("value", "identity")  # not a key column: only a delete for the whole table applies to such files
    table.append(rows(40, 60))
    table.delete_keys(pa.table({"part": ["a"], "id": [42]}), ["id", "part"])
    assert ids(table) == [n for n in range(60) if n not in (0, 21, 42)]


def test_a_retry_writes_deletes_for_the_specs_of_a_concurrent_commit(tmp_path: Path) -> None:
    table, other_writer = make(tmp_path, 2, ("part",)), lake(tmp_path).load_table("db.t")
    with other_writer.update_spec() as update:
        update.remove_field("part")
    other_writer.append(rows(20, 30))
    result = table.delete_keys(pa.table({"part": ["a", "a"], "id": [0, 21]}), ["id", "part"])
    assert result.attempts == 2
    assert ids(table) == [n for n in range(30) if n not in (0, 21)]
    on_disk = {str(path) for path in tmp_path.rglob("*equality*.parquet")}
    assert on_disk == {file.file_path for file in equality_deletes(table)}


def test_invalid_keys_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    table = make(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InvalidInputError, match="cannot be deleted by these columns") as refused:
        table.delete_keys(rows(0, 1), ["value"])
    assert "a key column cannot be a double" in str(refused.value)
    with pytest.raises(InvalidInputError, match="identifier fields"):
        table.delete_keys(rows(0, 1))
    with pytest.raises(InvalidSchemaError, match="nosuch"):
        table.delete_keys(rows(0, 1), ["nosuch"])
    with pytest.raises(SchemaMismatchError, match="every key column"):
        table.delete_keys(pa.table({"part": ["a"]}), ["id"])
    with pytest.raises(SchemaMismatchError):
        table.delete_keys(pa.table({"id": ["a"]}), ["id"])
    with pytest.raises(InvalidInputError, match="cannot be used here"):
        table.delete_keys([1], ["id"])
    assert table.delete_keys(rows(0, 0), ["id"]).snapshot_id is None
    assert sorted(tmp_path.rglob("*")) == before


def test_version_1_refuses_deletes_by_key_and_an_empty_table_accepts_them(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFeatureError, match="format version 1"):
        make(tmp_path, 1).delete_keys(rows(0, 1), ["id"])
    empty = lake(tmp_path).create_table("db.empty", SCHEMA)
    assert empty.delete_keys(rows(0, 1), ["id"]).snapshot_id is None


KEYS = st.lists(st.tuples(st.one_of(st.none(), st.integers(0, 6)), st.one_of(st.none(), st.sampled_from("ab"))), max_size=4)


@settings(max_examples=examples(12), suppress_health_check=[HealthCheck.too_slow])
@given(
    data=st.lists(
        st.tuples(st.one_of(st.none(), st.integers(0, 6)), st.one_of(st.none(), st.sampled_from("abc"))), min_size=1, max_size=12
    ),
    keys=KEYS,
    columns=st.sampled_from([("id",), ("part",), ("part", "id")]),
    spec=st.sampled_from([(), ("part",), ("bucket(2, id)",), ("part", "truncate(3, id)")]),
    version=st.sampled_from([2, 3]),
)
def test_deletes_by_any_keys_have_the_same_result_on_a_list(
    tmp_path_factory: pytest.TempPathFactory,
    data: list[Any],
    keys: list[Any],
    columns: tuple[str, ...],
    spec: tuple[str, ...],
    version: int,
) -> None:
    schema = pa.schema([("id", pa.int64()), ("part", pa.string())])
    table = lake(tmp_path_factory.mktemp("keys")).create_table(
        "db.t", schema, partition_spec=spec, properties={"format-version": str(version)}
    )
    table.append(pa.Table.from_pylist([{"id": a, "part": b} for a, b in data], schema=schema))
    table.delete_keys(pa.Table.from_pylist([{"id": a, "part": b} for a, b in keys], schema=schema), columns)
    gone = {tuple(dict(zip(("id", "part"), key, strict=True))[name] for name in columns) for key in keys}
    kept = [row for row in data if tuple(dict(zip(("id", "part"), row, strict=True))[name] for name in columns) not in gone]
    found = [(row["id"], row["part"]) for row in table.scan().to_arrow().to_pylist()]
    assert sorted(found, key=str) == sorted(kept, key=str)


@pytest.mark.parametrize("where", ["-m0.avro", "snap-", "metadata.json"])
def test_a_failed_write_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    table = make(tmp_path, 3, ("part",))
    before = sorted(tmp_path.rglob("*"))
    original = type(table.io).write

    def broken(self: object, location: str, content: bytes, **options: bool) -> None:
        original(self, location, content, **options)  # type: ignore[arg-type]
        if where in location:
            raise KeyboardInterrupt

    monkeypatch.setattr(type(table.io), "write", broken)
    with pytest.raises(KeyboardInterrupt):
        table.delete_keys(rows(0, 9), ["id", "part"])
    monkeypatch.undo()
    assert [path for path in sorted(tmp_path.rglob("*")) if path.is_file()] == [path for path in before if path.is_file()]
    assert ids(table.refresh()) == list(range(20))
