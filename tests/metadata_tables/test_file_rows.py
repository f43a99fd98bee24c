"""The metadata tables of files and entries, compared with the manifest entries, read one by one as objects."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.metadata_tables.tables import evolved, with_deletes

from icefloe.metadata_tables.file_rows import FileRowSelection, rows_of_manifest
from icefloe.metadata_tables.metadata_table_registry import metadata_table
from icefloe.spec.manifest.entry import ManifestEntry, ManifestEntryStatus
from icefloe.spec.types import PrimitiveType
from icefloe.spec.values import from_bytes, to_python
from icefloe.table import Table

MAPS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
PLAIN = ("file_path", "record_count", "file_size_in_bytes", "key_metadata", "sort_order_id", "first_row_id", "referenced_data_file")


@pytest.fixture(scope="module", params=[with_deletes, evolved])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Table:
    make: Callable[[Path], Table] = request.param
    return make(tmp_path_factory.mktemp("made"))


def entries_of(table: Table, snapshots: list[Any]) -> list[ManifestEntry]:
    """Return every entry of the manifests of the snapshots, each manifest once."""
    manifests = {manifest.manifest_path: manifest for snapshot in snapshots for manifest in snapshot.manifests(table.io)}
    return [entry for manifest in manifests.values() for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False)]


def file_row(table: Table, entry: ManifestEntry, names: list[str]) -> dict[str, Any]:
    """Return the expected row for the entry's file, without `readable_metrics`."""
    file = entry.data_file
    fields = table.specs()[file.spec_id].fields
    values = {field.name: value for field, value in zip(fields, file.partition, strict=True)}
    kinds = {field.name: field.field_type for field in metadata_table(table, "files").schema.find_type("partition").fields}  # type: ignore[attr-defined]
    return {
        **{name: getattr(file, name) for name in PLAIN},
        **{name: getattr(file, name) for name in ("content_offset", "content_size_in_bytes")},
        **{name: None if getattr(file, name) is None else dict(getattr(file, name)) for name in MAPS},
        "split_offsets": None if file.split_offsets is None else list(file.split_offsets),
        "equality_ids": None if file.equality_ids is None else list(file.equality_ids),
        "content": int(file.content),
        "file_format": str(file.file_format),
        "spec_id": file.spec_id,
        "partition": {name: to_python(kinds[name], values.get(name)) for name in names},
    }


def expected_metrics(table: Table, entry: ManifestEntry) -> dict[str, dict[str, Any]]:
    found = {}
    for field in sorted(table.schema().fields, key=lambda field: field.name):
        assert isinstance(field.field_type, PrimitiveType)
        counts = {name.removesuffix("s"): (getattr(entry.data_file, name) or {}).get(field.field_id) for name in MAPS}
        for bound in ("lower_bound", "upper_bound"):
            data = counts[bound]
            counts[bound] = None if data is None else to_python(field.field_type, from_bytes(field.field_type, data))
        found[field.name] = counts
    return found


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort rows by all of their values: a file may be in several manifests, with different sequence numbers."""
    return sorted(rows, key=lambda row: repr(sorted(row.items())))


@pytest.mark.parametrize(
    ("name", "contents"),
    [
        ("files", (0, 1, 2)),
        ("data_files", (0,)),
        ("delete_files", (1, 2)),
        ("all_files", (0, 1, 2)),
        ("all_data_files", (0,)),
        ("all_delete_files", (1, 2)),
    ],
)
def test_rows_of_files_equal_the_manifest_entries(table: Table, name: str, contents: tuple[int, ...]) -> None:
    current = table.current_snapshot()
    snapshots = table.snapshots() if name.startswith("all_") else [current]
    entries = [
        entry
        for entry in entries_of(table, snapshots)
        if entry.status is not ManifestEntryStatus.DELETED and entry.data_file.content in contents
    ]
    result = metadata_table(table, name).to_arrow()
    result.validate(full=True)
    rows = result.to_pylist(maps_as_pydicts="strict")
    metrics = {(row["file_path"], row["content_offset"]): row.pop("readable_metrics") for row in rows}
    names = [] if not rows else list(rows[0]["partition"])
    assert in_order(rows) == in_order([file_row(table, entry, names) for entry in entries])
    for entry in entries:
        # As in Java, a NaN is never a bound, because NaN has no order.
        assert metrics[entry.data_file.file_path, entry.data_file.content_offset] == expected_metrics(table, entry)
    if name in ("files", "all_files"):
        assert len(rows) > 3


@pytest.mark.parametrize("name", ["entries", "all_entries"])
def test_rows_of_entries_include_deleted_files(table: Table, name: str) -> None:
    snapshots = table.snapshots() if name == "all_entries" else [table.current_snapshot()]
    entries = entries_of(table, snapshots)
    rows = metadata_table(table, name).to_arrow().to_pylist(maps_as_pydicts="strict")
    names = list(rows[0]["data_file"]["partition"])
    found = [
        {**row["data_file"], **{key: value for key, value in row.items() if key not in ("data_file", "readable_metrics")}} for row in rows
    ]
    expected = [
        {
            **file_row(table, entry, names),
            "status": int(entry.status),
            "snapshot_id": entry.snapshot_id,
            "sequence_number": entry.sequence_number,
            "file_sequence_number": entry.file_sequence_number,
        }
        for entry in entries
    ]
    assert in_order(found) == in_order(expected)
    assert {0, 1} <= {row["status"] for row in rows} or name == "entries"


def test_a_snapshot_can_be_named(table: Table) -> None:
    first = table.snapshots()[0]
    rows = metadata_table(table, "files").to_arrow(columns=["file_path"], snapshot_id=first.snapshot_id).to_pylist()
    assert sorted(row["file_path"] for row in rows) == sorted(entry.data_file.file_path for entry in entries_of(table, [first]))


def test_the_rows_of_a_manifest_need_only_its_bytes(table: Table) -> None:
    """Read the rows from pickled arguments, as another process does."""
    current = table.current_snapshot()
    assert current is not None
    files = metadata_table(table, "files")
    selection = FileRowSelection(schema=files.schema, table_schema=table.schema(), with_deleted=False)
    arguments = [
        (table.io.read(manifest.manifest_path), manifest, manifest.partition_type, selection) for manifest in current.manifests(table.io)
    ]
    parts = [rows_of_manifest(*pickle.loads(pickle.dumps(values))) for values in arguments]
    assert pa.concat_tables(parts).equals(files.to_arrow())
