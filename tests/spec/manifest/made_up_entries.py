"""Schemas, partition types and entries for the tests of manifests."""

import uuid
from dataclasses import replace
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from icefloe.spec.manifest.data_file import DataFile, FileContent, FileFormat
from icefloe.spec.manifest.entry import ManifestEntry, ManifestEntryStatus
from icefloe.spec.manifest.manifest_writer import write_manifest
from icefloe.spec.manifest_list.manifest_file import ManifestContent, ManifestFile
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "name", StringType()), schema_id=3)
SCHEMA_JSON = '{"type":"struct","schema-id":3,"fields":[]}'
SNAPSHOT_ID = 7_000_000_000_000_000_001

PARTITION_VALUES: dict[PrimitiveType, st.SearchStrategy[Any]] = {
    BooleanType(): st.booleans(),
    IntegerType(): st.integers(-(2**31), 2**31 - 1),
    LongType(): st.integers(-(2**63), 2**63 - 1),
    FloatType(): st.floats(width=32, allow_nan=False),
    DoubleType(): st.floats(allow_nan=False),
    DateType(): st.integers(-700_000, 700_000),
    TimeType(): st.integers(0, 86_399_999_999),
    TimestampType(): st.integers(-(2**55), 2**55),
    TimestamptzType(): st.integers(-(2**55), 2**55),
    StringType(): st.text(max_size=70),
    BinaryType(): st.binary(max_size=70),
    FixedType(5): st.binary(min_size=5, max_size=5),
    UUIDType(): st.uuids(),
    DecimalType(9, 2): st.integers(-(10**9) + 1, 10**9 - 1).map(lambda n: Decimal(n).scaleb(-2)),
    TimestampNanoType(): st.integers(-(2**62), 2**62),
    TimestamptzNanoType(): st.integers(-(2**62), 2**62),
    UnknownType(): st.none(),
    DecimalType(38, 10): st.integers(-(10**28), 10**28).map(lambda n: Decimal(f"{n}E-10")),
}
EVERY_PARTITION = StructType(*(NestedField(1000 + i, f"part {i}", kind) for i, kind in enumerate(PARTITION_VALUES)))
NO_PARTITION = StructType()
BY_NAME = StructType(NestedField(1000, "name", StringType()))

ONE_OF_EACH = (
    True, 34, 2**40, 1.5, -2.25, 17_486, 81_068_000_000, 1_510_871_468_000_000, -1, "iceberg", b"\x00\xff", b"fixed",
    uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"), Decimal("14.20"), 1_510_871_468_000_001_001, -1, None, Decimal("-0.0000000001"),
)  # fmt: skip

_IDS = st.integers(1, 200)
_COUNTS = st.none() | st.dictionaries(_IDS, st.integers(0, 2**40), max_size=2)
_BOUNDS = st.none() | st.dictionaries(_IDS, st.binary(max_size=80), max_size=2)


ROW_FORMATS = [FileFormat.AVRO, FileFormat.ORC, FileFormat.PARQUET]


def data_files(partition_type: StructType) -> st.SearchStrategy[DataFile]:
    values = [st.none() | PARTITION_VALUES[field.field_type] for field in partition_type.fields]  # type: ignore[index]
    return st.builds(
        DataFile,
        file_path=st.text(max_size=90),
        file_format=st.sampled_from(ROW_FORMATS),
        partition=st.tuples(*values),
        record_count=st.integers(0, 2**40),
        file_size_in_bytes=st.integers(0, 2**40),
        column_sizes=_COUNTS,
        value_counts=_COUNTS,
        null_value_counts=_COUNTS,
        nan_value_counts=_COUNTS,
        lower_bounds=_BOUNDS,
        upper_bounds=_BOUNDS,
        key_metadata=st.none() | st.binary(max_size=9),
        split_offsets=st.none() | st.lists(st.integers(0, 2**40), max_size=3).map(tuple),
        sort_order_id=st.none() | st.integers(0, 5),
        spec_id=st.just(4),
    )


def delete_files(partition_type: StructType, format_version: int, *, is_new: bool) -> st.SearchStrategy[DataFile]:
    """Equality deletes, and position deletes as the version has them: in v3 old ones are kept, and new ones are deletion vectors."""
    equality_ids = st.lists(st.integers(1, 200), min_size=1, max_size=3).map(tuple)
    position_deletes = {"content": FileContent.POSITION_DELETES, "sort_order_id": None}
    in_rows = st.builds(
        lambda file, target: replace(file, referenced_data_file=target, **position_deletes),
        data_files(partition_type),
        st.none() | st.text(max_size=90),
    )
    vectors = st.builds(
        lambda file, target, offset, size: replace(
            file,
            file_format=FileFormat.PUFFIN,
            referenced_data_file=target,
            content_offset=offset,
            content_size_in_bytes=size,
            **position_deletes,
        ),
        data_files(partition_type),
        st.text(max_size=90),
        st.integers(0, 2**40),
        st.integers(0, 2**40),
    )
    equality = st.builds(
        lambda file, ids: replace(file, content=FileContent.EQUALITY_DELETES, equality_ids=ids), data_files(partition_type), equality_ids
    )
    if format_version == 2:
        return in_rows | equality
    return vectors | equality if is_new else in_rows | vectors | equality


def entries(
    partition_type: StructType, format_version: int = 2, content: ManifestContent = ManifestContent.DATA
) -> st.SearchStrategy[list[ManifestEntry]]:
    """Entries as a writer may write them."""
    numbers = st.integers(1, 2**33)
    if content == ManifestContent.DATA:
        new = old = data_files(partition_type)
    else:
        new, old = (delete_files(partition_type, format_version, is_new=is_new) for is_new in (True, False))
    if content == ManifestContent.DATA and format_version > 2:
        old = st.builds(lambda file, row_id: replace(file, first_row_id=row_id), old, st.none() | st.integers(0, 2**40))
    added = st.builds(ManifestEntry, st.just(ManifestEntryStatus.ADDED), st.none() | numbers, st.none(), st.none(), new)
    statuses = st.sampled_from([ManifestEntryStatus.EXISTING, ManifestEntryStatus.DELETED])
    others = st.builds(ManifestEntry, statuses, numbers, numbers, numbers, old)
    return st.lists(added | others, max_size=4)


def data_file(path: str = "f.parquet", **changes: Any) -> DataFile:
    file = DataFile(file_path=path, file_format=FileFormat.PARQUET, record_count=10, file_size_in_bytes=1000, content=FileContent.DATA)
    return replace(file, **changes)


def added(file: DataFile, sequence_number: int | None = None) -> ManifestEntry:
    return ManifestEntry(ManifestEntryStatus.ADDED, None, sequence_number, None, file)


def written(
    rows: list[ManifestEntry], partition_type: StructType = NO_PARTITION, *, format_version: int = 2, **others: Any
) -> tuple[bytes, ManifestFile]:
    return write_manifest(
        rows,
        path="s3://b/t/metadata/made-up-m0.avro",
        schema=SCHEMA,
        schema_json=SCHEMA_JSON,
        spec_fields_json="[]",
        spec_id=4,
        partition_type=partition_type,
        snapshot_id=SNAPSHOT_ID,
        format_version=format_version,
        **others,
    )


def committed(manifest: ManifestFile, sequence_number: int, **changes: Any) -> ManifestFile:
    """The manifest as the list of its commit has it."""
    least = sequence_number if manifest.min_sequence_number == -1 else manifest.min_sequence_number
    return replace(manifest, sequence_number=sequence_number, min_sequence_number=least, **changes)
