"""How each rule is broken: a function that changes the files of a stored table so that exactly this rule is broken. `BREAKS` has one for each rule."""

import dataclasses
import datetime as dt
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.checks.stored_table import Record, StoredTable, edit_avro, records_of

from icefloe import SqlCatalog
from icefloe.checks.table_validation import ValidationArguments


@dataclass(frozen=True)
class Break:
    """A change of a stored table of a format version, and rules that the same wrong value breaks at another level."""

    change: Callable[[StoredTable], object]
    version: int = 2
    arguments: ValidationArguments | None = None
    also: frozenset[str] = frozenset()


def cut(path: Path, size: int = -20) -> None:
    """Cut bytes off the end of a file."""
    path.write_bytes(path.read_bytes()[:size])


def put(*keys: str | int, value: object) -> Break:
    """Set a value of the metadata JSON."""

    def change(stored: StoredTable) -> None:
        def assign(document: object) -> None:
            for key in keys[:-1]:
                document = document[key]  # type: ignore[index]
            document[keys[-1]] = value  # type: ignore[index]

        stored.edit(assign)

    return Break(change)


def in_list(name: str, value: object) -> Break:
    """Set a field of the first entry of the current manifest list."""
    return Break(lambda stored: stored.edit_list(lambda rows: rows[0].__setitem__(name, value)))


def entry(change: Callable[[Record], object], content: int = 0) -> Break:
    """Change the first entry of the first manifest of data files, or of delete files."""
    return Break(lambda stored: stored.edit_manifest(stored.manifests(content)[0], lambda entries: change(entries[0])))


def current(**changes: object) -> Callable[[StoredTable], None]:
    """Change keys of the current snapshot; None removes one."""

    def change(stored: StoredTable) -> None:
        def assign(document: Record) -> None:
            snapshot = document["snapshots"][-1]
            for name, value in changes.items():
                key = name.replace("_", "-")
                snapshot.pop(key) if value is None else snapshot.update({key: value})

        stored.edit(assign)

    return change


def summary(key: str, value: str) -> Break:
    """Set a value of the current snapshot's summary."""
    return Break(lambda stored: stored.edit(lambda document: document["snapshots"][-1]["summary"].update({key: value})))


def header(key: str, value: str | None) -> Break:
    """Set a property of a manifest; None removes it."""

    def change(metadata: dict[str, str]) -> None:
        metadata.pop(key) if value is None else metadata.update({key: value})

    return Break(lambda stored: stored.edit_manifest(stored.manifests()[0], header=change))


def file(of: int = 0, version: int = 2, **changes: object) -> Break:
    """Set fields of the first data or delete file of a manifest."""
    return Break(
        lambda stored: stored.edit_manifest(stored.manifests(of)[0], lambda entries: entries[0]["data_file"].update(changes)), version
    )


def column(name: str, key: int, value: object) -> Break:
    """Set a statistic of a column of the first data file."""

    def assign(entries: list[Record]) -> None:
        items = entries[0]["data_file"][name]
        items[:] = [item for item in items if item["key"] != key] + [{"key": key, "value": value}]

    return Break(lambda stored: stored.edit_manifest(stored.manifests()[0], assign))


def parent_of_first(document: Record) -> None:
    document["snapshots"][0]["parent-snapshot-id"] = document["snapshots"][-1]["snapshot-id"]


def old_number(document: Record) -> None:
    document["snapshots"][1]["sequence-number"] = document["snapshots"][2]["sequence-number"]


def added_by_another(stored: StoredTable) -> None:
    """State in all lists but the first that an unknown snapshot added a manifest of the first."""
    lists = stored.lists()
    (path,) = {row["manifest_path"] for row in records_of(lists[0])}

    def change(rows: list[Record]) -> None:
        for row in rows:
            if row["manifest_path"] == path:
                row["added_snapshot_id"] = 77

    for one in lists[1:]:
        edit_avro(one, change)


def with_status(stored: StoredTable, *statuses: int, content: int = 0) -> Path:
    """Return a manifest with an entry of one of these statuses."""
    return next(path for path in stored.manifests(content) if any(entry["status"] in statuses for entry in records_of(path)))


def edit_of_status(*statuses: int, change: Callable[[Record], object]) -> Break:
    """Change the first entry of one of these statuses."""

    def edit(stored: StoredTable) -> None:
        stored.edit_manifest(
            with_status(stored, *statuses), lambda entries: change(next(entry for entry in entries if entry["status"] in statuses))
        )

    return Break(edit)


def copied_entry(stored: StoredTable) -> None:
    """Add a live entry of one manifest to another one of the same list, as a retry that commits a file again does."""
    source, target = stored.manifests()[:2]
    added = next(entry for entry in records_of(source) if entry["status"] == 1)
    stored.edit_manifest(
        target, lambda entries: entries.append({**entries[-1], "status": 1, "snapshot_id": None, "data_file": added["data_file"]})
    )
    entries = records_of(target)

    def count(rows: list[Record]) -> None:
        for row in rows:
            if row["manifest_path"] == str(target):
                row["partitions"] = None
                for status, name in ((0, "existing"), (1, "added"), (2, "deleted")):
                    mine = [entry["data_file"]["record_count"] for entry in entries if entry["status"] == status]
                    row[f"{name}_files_count"], row[f"{name}_rows_count"] = len(mine), sum(mine)

    stored.edit_every_list(count)
    stored.edit(lambda document: [one.update(summary={"operation": "overwrite"}) for one in document["snapshots"]])


def other_number(stored: StoredTable) -> None:
    """Lower the data sequence number of an existing entry, and the minimum of its manifest."""
    path = with_status(stored, 0)
    stored.edit_manifest(path, lambda entries: next(one for one in entries if one["status"] == 0).update(sequence_number=0))
    stored.edit_every_list(lambda rows: [row.update(min_sequence_number=0) for row in rows])


def summary_of_partitions(stored: StoredTable) -> None:
    """Move the bounds of all partition summaries below every value."""
    stored.edit_every_list(lambda rows: [row["partitions"][0].update(lower_bound=b"0", upper_bound=b"0") for row in rows])


def same_row_ids(stored: StoredTable) -> None:
    """Give two manifests the same first row id."""
    rows = [row for row in records_of(stored.manifest_list()) if row["content"] == 0 and row["added_rows_count"]]
    first, second = rows[0]["manifest_path"], rows[-1]["first_row_id"]
    stored.edit_every_list(lambda rows: [row.update(first_row_id=second) for row in rows if row["manifest_path"] == first])


def with_blob_fields(schema: Any) -> None:
    """Add the fields of version 3 to the schema of a manifest."""
    fields = next(field["type"]["fields"] for field in schema["fields"] if field["name"] == "data_file")
    for field_id, name in ((144, "content_offset"), (145, "content_size_in_bytes")):
        fields.append({"name": name, "type": ["null", "long"], "default": None, "field-id": field_id})


def vector_in_version_2(stored: StoredTable) -> None:
    vector = {"file_format": "PUFFIN", "referenced_data_file": "/x", "content_offset": 4, "content_size_in_bytes": 40}
    for path in stored.manifests(1):
        size = records_of(path)[0]["data_file"]["file_size_in_bytes"]
        stored.edit_manifest(
            path,
            lambda entries, size=size: [
                entry["data_file"].update(vector, content_offset=0, content_size_in_bytes=size) for entry in entries
            ],
            schema=with_blob_fields,
        )


def add_schema(*fields: Record, last_column_id: int = 2) -> Break:
    """Add a schema with these fields."""

    def change(document: Record) -> None:
        document["schemas"].append({"type": "struct", "schema-id": 1, "fields": [{"required": False, **field} for field in fields]})
        document["last-column-id"] = last_column_id

    return Break(lambda stored: stored.edit(change))


def add_spec(*, is_default: bool = False, **field: Any) -> Break:
    """Add a partition spec with one field."""

    def change(document: Record) -> None:
        field_json = {key.replace("_", "-"): value for key, value in field.items()}
        document["partition-specs"].append({"spec-id": 1, "fields": [field_json]})
        document.update({"last-partition-id": 1001, "default-spec-id": int(is_default)})

    return Break(lambda stored: stored.edit(change))


def add_order(order_id: int, *fields: Record) -> Break:
    """Add a sort order, and make it the default one."""

    def change(document: Record) -> None:
        orders = [{"order-id": 0, "fields": []}]
        keys = [{"transform": "identity", "direction": "asc", "null-order": "nulls-first", **field} for field in fields]
        document.update({"sort-orders": [*orders, {"order-id": order_id, "fields": keys}], "default-sort-order-id": order_id})

    return Break(lambda stored: stored.edit(change))


def no_file_format(stored: StoredTable) -> None:
    def nullable(schema: Any) -> None:
        fields = next(field["type"]["fields"] for field in schema["fields"] if field["name"] == "data_file")
        next(field for field in fields if field["name"] == "file_format").update(type=["null", "string"])

    stored.edit_manifest(stored.manifests()[0], lambda entries: entries[0]["data_file"].update(file_format=None), schema=nullable)


def float_key(stored: StoredTable) -> None:
    """Make the position deletes equality deletes by a column of floating-point numbers."""
    add_schema({"id": 3, "name": "x", "type": "double"}, last_column_id=3).change(stored)
    for path in stored.manifests(1):
        stored.edit_manifest(path, lambda entries: [one["data_file"].update(content=2, equality_ids=[3]) for one in entries])
    stored.edit(lambda document: [one.update(summary={"operation": "overwrite"}) for one in document["snapshots"]])


def replace_of_first(document: Record) -> None:
    document["snapshots"][0]["summary"]["operation"] = "replace"


def relative_list(stored: StoredTable) -> None:
    """Name the current manifest list relative to the folder of this process, where it is found."""
    path = stored.manifest_list()
    stored.edit(lambda document: document["snapshots"][-1].update({"manifest-list": os.path.relpath(path)}))


def younger_manifest(stored: StoredTable) -> None:
    """State the number of the parent for a manifest that the current snapshot added."""
    current_id = stored.snapshot()["snapshot-id"]

    def change(rows: list[Record]) -> None:
        row = next(row for row in rows if row["added_snapshot_id"] == current_id)
        row.update(sequence_number=row["sequence_number"] - 1, min_sequence_number=0)

    stored.edit_list(change)


def other_row_ids(stored: StoredTable) -> None:
    """State another first row id for a manifest in the current list."""
    current_id = stored.snapshot()["snapshot-id"]

    def change(rows: list[Record]) -> None:
        row = next(row for row in rows if row["content"] == 0 and row["added_snapshot_id"] != current_id)
        row["first_row_id"] += 1

    stored.edit_list(change)


def in_a_list(stored: StoredTable) -> None:
    """Add a partition field of the element of a list."""
    listed = {"type": "list", "element-id": 4, "element": "long", "element-required": False}
    add_schema({"id": 3, "name": "l", "type": listed}, last_column_id=4).change(stored)
    add_spec(source_id=4, field_id=1001, name="l_bucket", transform="bucket[4]").change(stored)


def high_minimum(stored: StoredTable) -> None:
    """Raise the minimum of a manifest with an entry that is older than the manifest."""

    def change(rows: list[Record]) -> None:
        row = next(row for row in rows if row["min_sequence_number"] < row["sequence_number"])
        row["min_sequence_number"] = row["sequence_number"]

    stored.edit_list(change)


def promoted_bucket(stored: StoredTable) -> None:
    """Put the metadata of a table in the place of the stored one that is partitioned by the bucket of a date, which became a timestamp."""
    folder = stored.metadata.parents[3]
    catalog = SqlCatalog("other", uri=f"sqlite:///{folder}/other.db", warehouse=str(folder / "other"))
    catalog.create_namespace("db")
    schema = pa.schema([("d", pa.date32())])
    table = catalog.create_table("db.p", schema, partition_spec=["bucket(4, d)"], properties={"format-version": "3"})
    table.append(pa.table({"d": [dt.date(2026, 11, 26)]}, schema=schema))
    document = json.loads(Path(table.metadata_location).read_text())
    promoted = json.loads(json.dumps(document["schemas"][0]).replace('"date"', '"timestamp"'))
    document["schemas"].append({**promoted, "schema-id": 1})
    document["current-schema-id"] = 1
    stored.metadata.write_text(json.dumps(document))


def reused_field(document: Record) -> None:
    fields = [("n_bucket", 2, 1001, "bucket[4]"), ("day", 1, 1002, "identity")]
    names = ("name", "source-id", "field-id", "transform")
    document["partition-specs"].append({"spec-id": 1, "fields": [dict(zip(names, field, strict=True)) for field in fields]})
    document["last-partition-id"] = 1002


BREAKS: dict[str, Break] = {
    "metadata-missing": Break(lambda stored: stored.metadata.unlink()),
    "metadata-damaged": Break(lambda stored: cut(stored.metadata)),
    "format-version": put("format-version", value=9),
    "table-uuid": put("table-uuid", value="not a uuid"),
    "table-location": put("location", value="relative/path"),
    "current-schema-id": put("current-schema-id", value=6),
    "default-spec-id": put("default-spec-id", value=7),
    "default-sort-order-id": put("default-sort-order-id", value=3),
    "current-snapshot-id": Break(
        lambda stored: stored.edit(
            lambda document: (
                document.update({"current-snapshot-id": 12}),
                document["refs"]["main"].update({"snapshot-id": 12}),
                document["snapshot-log"][-1].update({"snapshot-id": 12}),
            )
        )
    ),
    "main-is-current": Break(
        lambda stored: stored.edit(
            lambda document: document["refs"]["main"].update({"snapshot-id": document["snapshots"][0]["snapshot-id"]})
        )
    ),
    "ref-without-snapshot": put("refs", "lost", value={"snapshot-id": 5, "type": "tag"}),
    "ref-retention": put("refs", "main", "min-snapshots-to-keep", value=0),
    "last-column-id": put("last-column-id", value=1),
    "last-partition-id": put("last-partition-id", value=999),
    "last-sequence-number": put("last-sequence-number", value=2),
    "next-row-id": Break(lambda stored: stored.edit(lambda document: document.update({"next-row-id": 1})), version=3),
    "last-updated-ms": put("last-updated-ms", value=1_600_000_000_000),
    "snapshot-log-order": put("snapshot-log", 0, "timestamp-ms", value=4_000_000_000_000),
    "snapshot-log-snapshot": put("snapshot-log", 0, "snapshot-id", value=5),
    "metadata-log-order": put("metadata-log", 0, "timestamp-ms", value=4_000_000_000_000),
    "statistics-snapshot": put("partition-statistics", value=[{"snapshot-id": 5, "statistics-path": "/x", "file-size-in-bytes": 1}]),
    "statistics-twice": Break(
        lambda stored: stored.edit(
            lambda document: document.update(
                {
                    "partition-statistics": [
                        {"snapshot-id": document["current-snapshot-id"], "statistics-path": "/x", "file-size-in-bytes": 1} for _ in range(2)
                    ]
                }
            )
        )
    ),
    "name-mapping": put("properties", "schema.name-mapping.default", value="[{]"),
    "required-field": Break(lambda stored: stored.edit(lambda document: document.pop("last-updated-ms"))),
    "field-type": put("last-column-id", value="two"),
    "schema-invalid": put("schemas", 0, "fields", 1, "type", value="number"),
    "partition-spec-invalid": put("partition-specs", 0, "fields", 0, "transform", value=5),
    "sort-order-invalid": put("sort-orders", value=[{"order-id": 0, "fields": [{"source-id": 1}]}]),
    "duplicate-id": Break(lambda stored: stored.edit(lambda document: document["schemas"].append(dict(document["schemas"][0])))),
    "manifest-list-missing": Break(lambda stored: stored.manifest_list().unlink()),
    "manifest-list-damaged": Break(lambda stored: cut(stored.manifest_list())),
    "manifest-list-field": in_list("content", 4),
    "manifest-twice": Break(lambda stored: stored.edit_list(lambda rows: rows.append(rows[0]))),
    "manifest-spec": in_list("partition_spec_id", 5),
    "manifest-sequence-number": in_list("sequence_number", 9),
    "manifest-missing": Break(lambda stored: stored.manifests()[0].unlink()),
    "manifest-damaged": Break(lambda stored: cut(stored.manifests()[0], 300)),
    "manifest-length": Break(lambda stored: stored.edit_every_list(lambda rows: rows[0].update(manifest_length=7))),
    "manifest-file-count": in_list("added_files_count", 7),
    "manifest-row-count": in_list("added_rows_count", 7),
    "manifest-min-sequence-number": Break(high_minimum),
    "entry-field": Break(no_file_format),
    "entry-status": entry(lambda one: one.update(status=3)),
    "field-id-unique": add_schema({"id": 1, "name": "day", "type": "string"}, {"id": 1, "name": "other", "type": "string"}),
    "field-id-reserved": add_schema({"id": 2147483600, "name": "day", "type": "string"}, last_column_id=2147483600),
    "schema-version": add_schema({"id": 3, "name": "v", "type": "variant"}, last_column_id=3),
    "type-changed": add_schema({"id": 2, "name": "n", "type": "string"}),
    "partition-field-id": add_spec(source_id=2, field_id=1000, name="n", transform="identity"),
    "partition-field-reuse": Break(lambda stored: stored.edit(reused_field)),
    "partition-promotion": Break(promoted_bucket, version=3),
    "partition-source": add_spec(source_id=9, field_id=1001, name="lost", transform="bucket[4]"),
    "partition-transform-type": add_spec(source_id=1, field_id=1001, name="day_hour", transform="hour"),
    "partition-transform-unknown": add_spec(source_id=1, field_id=1001, name="day_curve", transform="curve", is_default=True),
    "partition-name": put("partition-specs", 0, "fields", 0, "name", value="n"),
    "sort-order-source": add_order(1, {"source-id": 9}),
    "sort-order-transform": add_order(1, {"source-id": 1, "transform": "hour"}),
    "sort-order-unsorted": add_order(1),
    "snapshot-manifest-list": Break(current(manifests=["/x"])),
    "snapshot-operation": summary("operation", "merge"),
    "snapshot-parent": Break(lambda stored: stored.edit(parent_of_first), version=1),
    "snapshot-sequence-number": Break(lambda stored: stored.edit(old_number)),
    "snapshot-timestamp": Break(
        lambda stored: stored.edit(lambda document: document["snapshots"][-1].update({"timestamp-ms": 1_600_000_000_000}))
    ),
    "snapshot-schema": Break(current(schema_id=8)),
    "snapshot-row-ids": Break(current(added_rows=None), version=3),
    "snapshot-row-id-ranges": Break(
        lambda stored: stored.edit(lambda document: document["snapshots"][1].update({"first-row-id": 0, "added-rows": 5})), version=3
    ),
    "snapshot-key": Break(current(key_id="k")),
    "delete-only": summary("operation", "delete"),
    "replace-keeps-rows": Break(lambda stored: stored.edit(replace_of_first)),
    "initial-default-changed": dataclasses.replace(add_schema({"id": 2, "name": "n", "type": "long", "initial-default": 5}), version=3),
    "partition-spec-twice": add_spec(source_id=1, field_id=1000, name="day", transform="identity"),
    "metadata-path": Break(relative_list),
    "file-sequence-number": edit_of_status(0, change=lambda one: one.update(file_sequence_number=one["file_sequence_number"] + 1)),
    "equality-field-type": Break(float_key),
    "first-row-id-changed": dataclasses.replace(
        edit_of_status(0, change=lambda one: one["data_file"].update(first_row_id=5_000)), version=3
    ),
    "summary-number": summary("total-records", "many"),
    "summary-total": summary("total-records", "99"),
    "summary-change": summary("added-records", "99"),
    "append-only": summary("operation", "append"),
    "file-twice": Break(copied_entry),
    "sequence-number-changed": Break(other_number),
    "row-ids-overlap": Break(same_row_ids, version=3),
    "manifest-first-row-id": Break(
        lambda stored: stored.edit_list(lambda rows: [row.update(first_row_id=7) for row in rows if row["content"]]), version=3
    ),
    "manifest-partitions": Break(lambda stored: stored.edit_list(lambda rows: rows[0]["partitions"].append(rows[0]["partitions"][0]))),
    "manifest-contradiction": Break(added_by_another),
    "manifest-partition-summary": Break(summary_of_partitions),
    "manifest-header": header("partition-spec", None),
    "manifest-header-spec": header("partition-spec", '[{"source-id":2,"field-id":1000,"name":"day","transform":"identity"}]'),
    "manifest-header-content": header("content", "deletes"),
    "manifest-header-version": header("format-version", "3"),
    "entry-content": file(content=1),
    "file-format": file(file_format="csv"),
    "file-path": file(file_path="data/x.parquet"),
    "file-counts": Break(
        lambda stored: stored.edit_manifest(with_status(stored, 2), lambda entries: entries[0]["data_file"].update(file_size_in_bytes=0))
    ),
    "entry-snapshot-id": edit_of_status(0, change=lambda one: one.update(snapshot_id=None)),
    "entry-added-snapshot": edit_of_status(1, change=lambda one: one.update(snapshot_id=77)),
    "entry-sequence-number": edit_of_status(2, change=lambda one: one.update(sequence_number=None)),
    "split-offsets": file(split_offsets=[4, 4]),
    "equality-ids": file(equality_ids=[1]),
    "entry-sort-order": file(sort_order_id=7),
    "deletion-vector-fields": file(of=1, version=3, content_offset=None),
    "delete-version": Break(vector_in_version_2),
    "entry-first-row-id": file(version=3, first_row_id=-4),
    "metrics-count": column("null_value_counts", 2, 900),
    "value-count": column("value_counts", 2, 900),
    "bound-value": column("lower_bounds", 2, b"123"),
    "bound-order": column("lower_bounds", 2, bytes(7) + b"\x7f"),
    "metrics-field": column("value_counts", 99, 1),
    "not-checked": Break(lambda stored: stored.manifests()[0].write_bytes(b"AGS1" + bytes(100))),
}

# Other ways to break rules.
MORE_BREAKS: tuple[tuple[str, Break], ...] = (
    ("manifest-sequence-number", Break(younger_manifest, also=frozenset({"file-sequence-number", "manifest-min-sequence-number"}))),
    ("manifest-contradiction", Break(other_row_ids, 3)),
    ("partition-transform-type", Break(in_a_list)),
)
