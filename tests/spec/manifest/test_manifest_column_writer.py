"""Manifests written from columns: the same bytes and the same record for the manifest list as from objects."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import examples
from tests.spec.manifest.made_up_entries import (
    EVERY_PARTITION,
    NO_PARTITION,
    SCHEMA,
    SCHEMA_JSON,
    SNAPSHOT_ID,
    added,
    data_file,
    entries,
    written,
)

from icefloe.errors import InvalidInputError
from icefloe.spec.avro import compiled_codec
from icefloe.spec.manifest.data_file import FileContent, FileFormat
from icefloe.spec.manifest.entry import ManifestEntry, ManifestEntryStatus
from icefloe.spec.manifest.manifest_column_writer import ManifestTarget, write_manifest_columns
from icefloe.spec.manifest.manifest_reader import read_columns, read_entries
from icefloe.spec.manifest_list.manifest_file import ManifestContent, ManifestFile
from icefloe.spec.types import StructType

BOTH = (False, True) if compiled_codec.AVAILABLE else (False,)
DATA, DELETES = ManifestContent.DATA, ManifestContent.DELETES


def target(partition_type: StructType, format_version: int, content: ManifestContent = DATA, **changes: Any) -> ManifestTarget:
    values = ManifestTarget(
        path="s3://b/t/metadata/made-up-m0.avro",
        schema=SCHEMA,
        schema_json=SCHEMA_JSON,
        spec_fields_json="[]",
        spec_id=4,
        partition_type=partition_type,
        snapshot_id=SNAPSHOT_ID,
        format_version=format_version,
        content=content,
    )
    return replace(values, **changes)


def uninherited(table: Any) -> Any:
    """The columns of a manifest that is not committed, as they were before they inherited numbers and row ids."""
    added_rows = pc.equal(table["status"], int(ManifestEntryStatus.ADDED))
    nothing = pa.nulls(table.num_rows, pa.int64())
    for name in ("sequence_number", "file_sequence_number", "first_row_id"):
        values = pc.if_else(added_rows, nothing, table[name])
        table = table.set_column(table.column_names.index(name), name, values)
    return table


def as_written(entry: ManifestEntry) -> ManifestEntry:
    """The same of one entry."""
    if entry.status != ManifestEntryStatus.ADDED:
        return entry
    return replace(entry, sequence_number=None, file_sequence_number=None, data_file=replace(entry.data_file, first_row_id=None))


def whole(content: bytes, manifest: ManifestFile, partition_type: StructType) -> Any:
    return read_columns(content, manifest, partition_type, whole=True).entries


@pytest.mark.parametrize(("version", "content"), [(1, DATA), (2, DATA), (3, DATA), (2, DELETES), (3, DELETES)])
@settings(max_examples=examples(15, least=6))
@given(st.data())
def test_columns_and_objects_are_written_as_the_same_bytes(version: int, content: ManifestContent, data: st.DataObject) -> None:
    rows = data.draw(entries(EVERY_PARTITION, version, content))
    made, line = written(rows, EVERY_PARTITION, format_version=version, content=content)
    line = replace(line, first_row_id=10**12 if version > 2 and content == DATA else None)
    objects = [as_written(entry) for entry in read_entries(made, line, EVERY_PARTITION)]
    expected = written(objects, EVERY_PARTITION, format_version=version, content=content)
    table = uninherited(whole(made, line, EVERY_PARTITION))
    two = written(objects[1:3], EVERY_PARTITION, format_version=version, content=content)
    for by_compiled in BOTH:
        assert write_manifest_columns(table, target(EVERY_PARTITION, version, content), by_compiled=by_compiled) == expected
        for size in (1, 3):  # in chunks, and of rows in the middle of a table
            parts = [table.slice(start, size) for start in range(0, table.num_rows, size)]
            chunks = pa.concat_tables(parts) if parts else table
            assert write_manifest_columns(chunks, target(EVERY_PARTITION, version, content), by_compiled=by_compiled) == expected
        assert write_manifest_columns(table.slice(1, 2), target(EVERY_PARTITION, version, content), by_compiled=by_compiled) == two


@pytest.mark.parametrize("by_compiled", BOTH)
def test_blocks_of_columns_and_objects_end_at_the_same_entries(by_compiled: bool) -> None:
    rows = [added(data_file(f"s3://b/t/data/{n:05d}.parquet", lower_bounds={2: bytes(n % 4000)})) for n in range(1500)]
    made, line = written(rows)
    manifest = write_manifest_columns(uninherited(whole(made, line, NO_PARTITION)), target(NO_PARTITION, 2), by_compiled=by_compiled)
    assert manifest == (made, line)


def test_missing_columns_are_written_as_null() -> None:
    made, line = written([added(data_file("a")), added(data_file("b"))])
    table = uninherited(whole(made, line, NO_PARTITION))
    few = table.select(["status", "content", "file_path", "file_format", "record_count", "file_size_in_bytes"])
    assert write_manifest_columns(few, target(NO_PARTITION, 2)) == (made, line)


def changed(name: str, values: list[Any]) -> Any:
    made, line = written([added(data_file("a")), added(data_file("b"))])
    table = uninherited(whole(made, line, NO_PARTITION))
    return table.set_column(table.column_names.index(name), name, pa.array(values, table.schema.field(name).type))


@pytest.mark.parametrize("by_compiled", BOTH)
@pytest.mark.parametrize(
    ("name", "values", "what"),
    [
        ("status", [1, 3], "b has a status"),
        ("status", [1, None], "b?.*has no status"),
        ("status", [0, 1], "a is EXISTING or DELETED"),
        ("file_sequence_number", [None, 5], "b is ADDED with a file sequence number"),
        ("content", [0, 1], "b does not belong into a manifest of DATA"),
        ("file_format", ["PARQUET", "PUFFIN"], "b cannot be added: a data file is"),
        ("file_path", ["a", None], "has no file_path"),
        ("record_count", [None, 1], "a has no record_count"),
    ],
)
def test_an_entry_that_violates_a_rule_is_refused_by_name(by_compiled: bool, name: str, values: list[Any], what: str) -> None:
    with pytest.raises(InvalidInputError, match=what):
        write_manifest_columns(changed(name, values), target(NO_PARTITION, 2), by_compiled=by_compiled)


def test_added_delete_files_are_checked_against_the_format_version() -> None:
    file = data_file("d", content=FileContent.EQUALITY_DELETES, equality_ids=(1,), file_format=FileFormat.PARQUET)
    made, line = written([added(file)], content=DELETES)
    table = uninherited(whole(made, line, NO_PARTITION))
    assert write_manifest_columns(table, target(NO_PARTITION, 2, DELETES)) == (made, line)
    bare = table.set_column(table.column_names.index("equality_ids"), "equality_ids", pa.nulls(1, pa.list_(pa.int32())))
    with pytest.raises(InvalidInputError, match="d cannot be added: equality deletes must list"):
        write_manifest_columns(bare, target(NO_PARTITION, 2, DELETES))
    with pytest.raises(InvalidInputError, match="version 1 has no delete files"):
        write_manifest_columns(table, target(NO_PARTITION, 1, DELETES))


def test_partition_summaries_cover_every_value() -> None:
    rows = [added(data_file(str(n), partition=(n % 7 or None, float(np.nan) if n == 3 else n / 2))) for n in range(40)]
    kind = StructType(EVERY_PARTITION.fields[1], EVERY_PARTITION.fields[4])
    made, line = written(rows, kind)
    assert write_manifest_columns(uninherited(whole(made, line, kind)), target(kind, 2)) == (made, line)
