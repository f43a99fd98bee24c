"""Manifest lists and manifests whose schemas let items, keys and values be null, as those of DuckDB 1.4, and lists without counts, by each reader."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.checks.file_breaks import VALUES
from tests.checks.stored_table import Record, StoredTable, edit_avro
from tests.spec.avro.both_readers import READERS, reading_by

from icefloe import SqlCatalog
from icefloe.errors import AvroFormatError
from icefloe.table import Table

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])
COUNTS = frozenset(f"{status}_{what}_count" for status in ("added", "existing", "deleted") for what in ("files", "rows"))


@pytest.fixture(params=READERS, ids=lambda by_compiled: "compiled" if by_compiled else "fastavro")
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[SqlCatalog, StoredTable]]:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", SCHEMA, partition_spec=["p"], properties={"write.delete.mode": "merge-on-read"})
    table.append(pa.table({"id": [1, 2, 3, 4], "p": [*"aabb"]}, schema=SCHEMA))
    table.delete("id = 3")
    with reading_by(request.param):
        yield catalog, StoredTable(Path(table.metadata_location))


def nullable_items(kind: Any) -> None:
    """Let every item of an array in a schema be null, and the key and value of every map of pairs."""
    if isinstance(kind, list):
        for branch in kind:
            nullable_items(branch)
    elif isinstance(kind, dict) and kind["type"] == "record":
        for field in kind["fields"]:
            nullable_items(field["type"])
    elif isinstance(kind, dict) and kind["type"] == "array":
        if kind.get("logicalType") == "map":
            for part in kind["items"]["fields"]:
                part["type"] = ["null", part["type"]]
        else:
            nullable_items(kind["items"])
        kind["items"] = ["null", kind["items"]]


def without_counts(schema: Any) -> None:
    for field in schema["fields"]:
        if field["name"] in COUNTS:
            field["type"] = ["null", field["type"]]


def ids(table: Table, where: str = "true") -> list[int]:
    return sorted(table.scan(where).to_arrow()["id"].to_pylist())


def no_counts(rows: list[Record]) -> None:
    for row in rows:
        row.update(dict.fromkeys(COUNTS))


def test_arrays_whose_items_may_be_null_by_the_schema_are_read_and_written_again(stored: tuple[SqlCatalog, StoredTable]) -> None:
    catalog, files = stored
    for content in (0, 1):
        for manifest in files.manifests(content):
            files.edit_manifest(manifest, schema=nullable_items)
    for path in files.lists():
        edit_avro(path, lambda _: None, schema=nullable_items)
    table = catalog.load_table("db.t")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (ids(table), ids(table, "id > 3"), ids(table, "p = 'a' AND id < 2")) == ([1, 2, 4], [4], [1])
    assert table.scan("id > 3").plan().files_kept == 1
    entry = table.inspect.entries().to_pylist()[0]["data_file"]
    assert dict(entry["value_counts"]) == {1: 2, 2: 2}
    assert entry["split_offsets"] == [4]
    assert files.validated(VALUES).findings == ()
    table.append(pa.table({"id": [5], "p": ["c"]}, schema=SCHEMA))
    table.delete("id = 1")
    assert ids(table) == [2, 4, 5]
    table.rewrite_manifests()
    assert ids(table, "id >= 4") == [4, 5]


@pytest.mark.parametrize("where", ["partitions", "split_offsets", "lower_bounds"])
def test_a_null_item_is_an_error_with_the_file(stored: tuple[SqlCatalog, StoredTable], where: str) -> None:
    catalog, files = stored
    path = files.manifest_list() if where == "partitions" else files.manifests(0)[0]

    def change(rows: list[Record]) -> None:
        for row in rows:
            holder = row if where == "partitions" else row["data_file"]
            holder[where] = [None, *(holder[where] or ())]

    if where == "partitions":
        edit_avro(path, change, schema=nullable_items)
    else:
        files.edit_manifest(path, change, schema=nullable_items)
    with pytest.raises(AvroFormatError) as refused:
        catalog.load_table("db.t").inspect.entries()
    assert refused.value.path == str(path)


@pytest.mark.parametrize("version", [2, 3])
def test_a_list_without_counts_is_read_and_its_manifests_are_counted_by_the_next_commit(
    stored: tuple[SqlCatalog, StoredTable], version: int
) -> None:
    catalog, files = stored
    table = catalog.load_table("db.t")
    if version == 3:
        table.upgrade_table_version(format_version=3)
        table.append(pa.table({"id": [9], "p": ["d"]}, schema=SCHEMA))
        files = StoredTable(Path(table.metadata_location))
    expected = ids(table)
    edit_avro(files.manifest_list(), no_counts, schema=without_counts)
    table = catalog.load_table("db.t")
    assert ids(table) == expected
    table.append(pa.table({"id": [5], "p": ["c"]}, schema=SCHEMA))
    table.delete("id = 1")
    assert ids(table) == [number for number in (2, 4, 5, *expected[3:]) if number]
    assert all(row["added_data_files_count"] is not None for row in table.inspect.manifests().to_pylist())
    newest = StoredTable(Path(table.metadata_location))
    assert [finding for finding in newest.validated(VALUES).findings if finding.file == str(newest.manifest_list())] == []
