"""How each rule of data files, delete files and statistics files is broken: real bytes are changed so that exactly this rule is broken."""

import dataclasses
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from tests.checks.breaks import Break
from tests.checks.stored_table import Record, StoredTable, edit_avro, records_of

from icefloe import SqlCatalog
from icefloe.checks.rule import Depth
from icefloe.checks.table_validation import ValidationArguments
from icefloe.spec.puffin.deletion_vector import REFERENCED_DATA_FILE, deletion_vector_blob, deletion_vector_from_positions
from icefloe.spec.puffin.puffin_file import write_puffin

SCHEMA = pa.schema([("day", pa.string()), ("n", pa.int64()), ("x", pa.float64())])
FILES = ValidationArguments(depths=frozenset({Depth.FILES}))
DATA = ValidationArguments(depths=frozenset({Depth.DATA}))
VALUES = ValidationArguments(depths=frozenset({Depth.VALUES}))
_ID = b"PARQUET:field_id"
_METRICS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds", "split_offsets")


def written_files(folder: Path, version: int, more: Mapping[str, str] | None = None) -> StoredTable:
    """Return a table of two partitions, with two deleted rows of one file, and statistics of both kinds."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    catalog.create_namespace_if_not_exists("db")
    properties = {"format-version": str(version), "write.delete.mode": "merge-on-read", "write.delete.granularity": "file", **(more or {})}
    table = catalog.create_table("db.t", SCHEMA, partition_spec=["day"], properties=properties)
    table.append(pa.table({"day": [*"aaabb"], "n": range(5), "x": [0.5, 1.5, None, 2.5, float("nan")]}, schema=SCHEMA))
    table.delete("n in (0, 2)")
    table.compute_statistics()
    table.compute_partition_statistics()
    return StoredTable(Path(table.refresh().metadata_location))


def chosen(content: int, day: str = "a") -> Callable[[Record], bool]:
    return lambda one: one["data_file"]["content"] == content and one["data_file"]["partition"]["day"] == day


def edit_entry(stored: StoredTable, change: Callable[[Record], object], content: int = 0) -> None:
    """Change the data file of the entry of partition a in the first manifest of data files or delete files."""
    is_chosen = chosen(content)

    def edit(entries: list[Record]) -> None:
        change(next(one for one in entries if is_chosen(one))["data_file"])

    stored.edit_manifest(stored.manifests(content)[0], edit)


def file_of(stored: StoredTable, content: int = 0) -> Path:
    is_chosen = chosen(content)
    return Path(next(one for one in records_of(stored.manifests(content)[0]) if is_chosen(one))["data_file"]["file_path"])


def entry(arguments: ValidationArguments, of: int = 0, version: int = 2, **values: Any) -> Break:
    """Set values of an entry."""
    return Break(lambda stored: edit_entry(stored, lambda file: file.update(values), of), version, arguments)


def metric(name: str, field_id: int, value: object, *also: str) -> Break:
    """Set the metric of one column."""

    def change(file: Record) -> None:
        file[name] = [one for one in file[name] if one["key"] != field_id] + [{"key": field_id, "value": value}]

    return Break(lambda stored: edit_entry(stored, change), arguments=DATA if name != "nan_value_counts" else VALUES, also=frozenset(also))


def rewritten(change: Callable[[pa.Table], pa.Table], arguments: ValidationArguments, content: int = 0, version: int = 2) -> Break:
    """Replace a Parquet file, and keep its entry true except for what the new rows or columns contradict."""

    def apply(stored: StoredTable) -> None:
        path = file_of(stored, content)
        pq.write_table(change(pq.ParquetFile(path).read()), path)

        def update(file: Record) -> None:
            file.update(dict.fromkeys(_METRICS), file_size_in_bytes=path.stat().st_size)

        edit_entry(stored, update, content)

    return Break(apply, version, arguments)


def overwrite(path: Path, offset: int, data: bytes) -> None:
    content = bytearray(path.read_bytes())
    content[offset : offset + len(data) if offset >= 0 else len(content) + offset + len(data)] = data
    path.write_bytes(bytes(content))


def damaged(content: int, arguments: ValidationArguments, version: int = 2) -> Break:
    """Replace the magic bytes at the end of a file."""
    return Break(lambda stored: overwrite(file_of(stored, content), -4, b"????"), version, arguments)


def with_field(table: pa.Table, name: str, field_id: int | None, values: Any = None) -> pa.Table:
    """Return the rows with other values or another field id of a column, which is added where it is new."""
    index = table.schema.get_field_index(name)
    array = table.column(index) if values is None else values
    field = pa.field(name, array.type, metadata=None if field_id is None else {_ID: str(field_id).encode()})
    return table.append_column(field, array) if index < 0 else table.set_column(index, field, array)


def required_and_missing(stored: StoredTable) -> None:
    def require(document: Record) -> None:
        for schema in document["schemas"]:
            schema["fields"][1]["required"] = True

    stored.edit(require)
    rewritten(lambda table: table.drop_columns(["n"]), DATA).change(stored)


def partition_of_missing_column(stored: StoredTable) -> None:
    """Put the metadata of a table in the place of the stored one that is partitioned by the first letter of a column which its file lacks."""
    folder = stored.metadata.parents[3]
    catalog = SqlCatalog("other", uri=f"sqlite:///{folder}/other.db", warehouse=str(folder / "other"))
    catalog.create_namespace("db")
    table = catalog.create_table("db.m", SCHEMA, partition_spec=["truncate(1, day)"])
    table.append(pa.table({"day": ["ab"], "n": [1], "x": [0.5]}, schema=SCHEMA))
    other = StoredTable(Path(table.metadata_location))

    def update(entries: list[Record]) -> None:
        file = entries[0]["data_file"]
        path = Path(file["file_path"])
        pq.write_table(pq.ParquetFile(path).read().drop_columns(["day"]), path)
        file.update(dict.fromkeys(_METRICS), file_size_in_bytes=path.stat().st_size)

    other.edit_manifest(other.manifests(0)[0], update)
    stored.metadata.write_text(other.metadata.read_text())


def unsorted(stored: StoredTable) -> None:
    fields = [{"source-id": 2, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}]
    stored.edit(lambda document: document["sort-orders"].append({"order-id": 1, "fields": fields}))
    rewritten(lambda table: table.sort_by([("n", "descending")]), VALUES).change(stored)
    edit_entry(stored, lambda file: file.update(sort_order_id=1))


def unframed(stored: StoredTable) -> None:
    path, target = file_of(stored, 1), str(file_of(stored))
    framed = deletion_vector_blob(deletion_vector_from_positions([0, 2]), target)
    assert framed.properties[REFERENCED_DATA_FILE] == target
    content, metadata = write_puffin([dataclasses.replace(framed, data=framed.data[8:-4])], properties={})
    path.write_bytes(content)
    blob = metadata.blobs[0]
    place = {"content_offset": blob.offset, "content_size_in_bytes": blob.length, "file_size_in_bytes": len(content)}
    edit_entry(stored, lambda file: file.update(place), 1)


def damaged_vector(stored: StoredTable) -> None:
    path = file_of(stored, 1)
    overwrite(path, 30, bytes([path.read_bytes()[30] ^ 255]))


def two_vectors(stored: StoredTable) -> None:
    path = stored.manifests(1)[0]

    def twice(entries: list[Record]) -> None:
        file = entries[0]["data_file"]
        entries.append({**entries[0], "data_file": {**file, "content_offset": file["content_offset"] + 8, "content_size_in_bytes": 30}})

    stored.edit_manifest(path, twice)
    stored.edit(lambda document: [one.update(summary={"operation": "overwrite"}) for one in document["snapshots"]])
    stored.edit_list(lambda rows: [row.update(added_files_count=2, added_rows_count=4) for row in rows if row["content"] == 1])


def replaced_deletes(stored: StoredTable) -> None:
    """Add position deletes beside a deletion vector, as existing ones of an earlier version."""
    path = stored.manifests(1)[0]

    def beside(entries: list[Record]) -> None:
        file = {**entries[0]["data_file"], "file_path": "/w/deletes.parquet", "file_format": "PARQUET"}
        file.update(content_offset=None, content_size_in_bytes=None)
        snapshots = stored.document()["snapshots"]
        number = {
            "snapshot_id": snapshots[-1]["snapshot-id"],
            "sequence_number": 2,
            "file_sequence_number": snapshots[-1]["sequence-number"],
        }
        entries.append({**entries[0], **number, "status": 0, "data_file": file})

    stored.edit_manifest(path, beside)
    stored.edit(lambda document: [one.update(summary={"operation": "overwrite"}) for one in document["snapshots"]])
    stored.edit_list(lambda rows: [row.update(existing_files_count=1, existing_rows_count=2) for row in rows if row["content"] == 1])


def other_partition(stored: StoredTable) -> None:
    edit_entry(stored, lambda file: file["partition"].update(day="b"), 1)


def no_target(file: Record) -> None:
    file.update(referenced_data_file=None, lower_bounds=None, upper_bounds=None)


def wrong_bounds(file: Record) -> None:
    bound = b"/a/other.parquet"
    file.update(lower_bounds=[{"key": 2147483546, "value": bound}], upper_bounds=[{"key": 2147483546, "value": bound + b"x"}])


def statistics_of(stored: StoredTable, key: str) -> Record:
    record: Record = stored.document()[key][0]
    return record


def statistics(key: str, change: Callable[[Record], object], arguments: ValidationArguments | None = DATA) -> Break:
    return Break(lambda stored: stored.edit(lambda document: change(document[key][0])), arguments=arguments)


def partition_file_without_columns(stored: StoredTable) -> None:
    file = statistics_of(stored, "partition-statistics")
    path = Path(file["statistics-path"])
    pq.write_table(pq.ParquetFile(path).read().drop_columns(["spec_id"]), path)
    stored.edit(lambda document: document["partition-statistics"][0].update({"file-size-in-bytes": path.stat().st_size}))


def damaged_statistics(stored: StoredTable) -> None:
    overwrite(Path(statistics_of(stored, "statistics")["statistics-path"]), 4, b"????????")


def edit_lists(stored: StoredTable, change: Callable[[Record], object]) -> None:
    edit_avro(stored.manifest_list(), lambda rows: [change(row) for row in rows])


def unsorted_partitions(stored: StoredTable) -> None:
    path = Path(statistics_of(stored, "partition-statistics")["statistics-path"])
    table = pq.ParquetFile(path).read()
    pq.write_table(table.take(list(reversed(range(table.num_rows)))), path)
    stored.edit(lambda document: document["partition-statistics"][0].update({"file-size-in-bytes": path.stat().st_size}))


def zero_of_the_other_sign(stored: StoredTable) -> None:
    """State a lower bound of 0.0 for a column that has -0.0; the footer has -0.0 for any zero."""
    rewritten(lambda table: with_field(table, "x", 3, pa.chunked_array([[0.0, -0.0, None]])), VALUES).change(stored)
    bounds = {name: [{"key": 3, "value": struct.pack("<d", 0.0)}] for name in ("lower_bounds", "upper_bounds")}
    edit_entry(stored, lambda file: file.update(bounds))


def with_deleted_rows(table: pa.Table, rows: list[Record | None], field_id: int = 2) -> pa.Table:
    """Return position deletes with the rows that they delete, of which one column is stored."""
    kind = pa.struct([pa.field("n", pa.int64(), metadata={_ID: str(field_id).encode()})])
    return with_field(table, "row", 2147483544, pa.chunked_array([pa.array(rows, kind)]))


FILE_BREAKS: dict[str, Break] = {
    "file-missing": Break(lambda stored: file_of(stored).unlink(), arguments=FILES),
    "file-size": entry(FILES, file_size_in_bytes=77),
    "file-damaged": damaged(0, DATA),
    "file-row-count": rewritten(lambda table: table.slice(1), DATA),
    "split-offsets-of-file": entry(DATA, split_offsets=[5]),
    "partition-of-missing-column": Break(partition_of_missing_column, arguments=DATA),
    "field-id-twice": rewritten(lambda table: with_field(table, "m", 2, table["n"]), DATA),
    "field-ids-missing": rewritten(
        lambda table: with_field(with_field(with_field(table, "day", None), "n", None), "x", None).replace_schema_metadata(None), DATA
    ),
    "column-type": rewritten(lambda table: with_field(table, "n", 2, pa.chunked_array([["u", "v", "w"]])), DATA),
    "column-unsigned": rewritten(lambda table: with_field(table, "n", 2, table["n"].cast(pa.uint64())), DATA),
    "column-missing": Break(required_and_missing, arguments=DATA),
    "column-bounds": metric("lower_bounds", 2, (1).to_bytes(8, "little")),
    "column-bounds-zero": Break(zero_of_the_other_sign, arguments=VALUES),
    "column-value-count": metric("value_counts", 2, 8, "value-count"),
    "column-null-count": metric("null_value_counts", 3, 0),
    "column-nan-count": metric("nan_value_counts", 3, 2),
    "column-size": metric("column_sizes", 2, 1),
    "partition-value": rewritten(lambda table: with_field(table, "day", 1, pa.chunked_array([["a", "z", "a"]])), VALUES),
    "file-sort-order": Break(unsorted, arguments=VALUES),
    "row-lineage": rewritten(lambda table: with_field(table, "_row_id", 2147483540, pa.chunked_array([[5, 1_000, 6]])), VALUES, version=3),
    "vector-damaged": Break(damaged_vector, 3, DATA),
    "vector-unframed": Break(unframed, 3, DATA),
    "delete-file-damaged": damaged(1, DATA),
    "position-deletes-sorted": rewritten(lambda table: table.sort_by([("pos", "descending")]), DATA, 1),
    "position-deletes-bounds": Break(
        lambda stored: edit_entry(stored, lambda file: (wrong_bounds(file), file.update(referenced_data_file=str(file_of(stored)))), 1),
        arguments=DATA,
    ),
    "position-deletes-target": rewritten(
        lambda table: with_field(table, "file_path", 2147483546, pa.chunked_array([["/w/other.parquet", "/w/other.parquet"]])), DATA, 1
    ),
    "position-deletes-row": rewritten(lambda table: with_deleted_rows(table, [{"n": 0}, None]), DATA, 1),
    "dangling-delete": Break(lambda stored: edit_entry(stored, lambda file: (no_target(file), file["partition"].update(day="q")), 1)),
    "dangling-vector": entry(ValidationArguments(), 1, 3, referenced_data_file="/w/gone.parquet"),
    "delete-partition": Break(other_partition, 3),
    "position-deletes-replaced": Break(replaced_deletes, 3),
    "two-deletion-vectors": Break(two_vectors, 3),
    "statistics-missing": Break(lambda stored: Path(statistics_of(stored, "statistics")["statistics-path"]).unlink(), arguments=FILES),
    "statistics-size": statistics("statistics", lambda file: file.update({"file-footer-size-in-bytes": 5})),
    "statistics-damaged": Break(damaged_statistics, arguments=DATA),
    "statistics-blobs": statistics("statistics", lambda file: file["blob-metadata"][0].update({"fields": [3]})),
    "statistics-fields": statistics("statistics", lambda file: file["blob-metadata"][0].update({"fields": [99]}), None),
    "partition-statistics-columns": Break(partition_file_without_columns, arguments=DATA),
    "partition-statistics-order": Break(unsorted_partitions, arguments=DATA),
}
