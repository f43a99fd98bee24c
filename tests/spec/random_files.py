"""Small partitioned tables of random rows: statistics of their files, as good and bad writers compute them, in the arrays that pruning uses.

Everything that a writer may do, or has been seen doing, is drawn: shortened and loosened bounds, missing bounds and counts, widths from before a promotion,
NaN as a bound, times before 1970 rounded the wrong way.
"""

import math
import struct
from dataclasses import dataclass, field
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from tests.spec.brute_force import SCHEMA, rows

from icefloe.spec.bounds import truncate_lower_bound, truncate_upper_bound
from icefloe.spec.manifest.manifest_columns import ENTRY_FIELDS, ManifestColumns, partition_column, statistic_column
from icefloe.spec.manifest_list.manifest_file import ManifestFile, PartitionFieldSummary
from icefloe.spec.partitioning.partition_spec import PartitionField, PartitionSpec, partition_type
from icefloe.spec.partitioning.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    UnknownTransform,
    VoidTransform,
    YearTransform,
    is_time_transform,
)
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import (
    BinaryType,
    DoubleType,
    FloatType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
)
from icefloe.spec.values import physical_array, to_bytes

_UNITS_OF_A_DAY: dict[type[Any], int] = {TimestampType: 86_400_000_000, TimestampNanoType: 86_400_000_000_000}
TRANSFORMS: list[Transform] = [
    IdentityTransform(),
    IdentityTransform(),
    BucketTransform(3),
    TruncateTransform(1),
    TruncateTransform(2),
    TruncateTransform(10),
    YearTransform(),
    MonthTransform(),
    DayTransform(),
    HourTransform(),
    VoidTransform(),
    UnknownTransform("zorder"),
]


@dataclass
class RandomFile:
    """Rows of one partition, and their entry in the manifest."""

    rows: list[dict[str, Any]]
    partition: tuple[Any, ...]
    statistics: dict[str, Any] = field(default_factory=dict)


@st.composite
def specs(draw: st.DrawFn, columns: tuple[str, ...]) -> PartitionSpec:
    """Generate up to two partition fields of these columns, of any transform that fits."""
    choices = [
        (column, transform)
        for column in SCHEMA.fields
        for transform in TRANSFORMS
        if column.name in columns and transform.can_transform(column.field_type)
    ]
    drawn = draw(st.lists(st.sampled_from(choices), max_size=2))
    fields = [PartitionField(column.field_id, 1000 + index, transform, f"p{index}") for index, (column, transform) in enumerate(drawn)]
    return PartitionSpec(*fields, spec_id=7)


@st.composite
def tables(draw: st.DrawFn, spec: PartitionSpec, columns: tuple[str, ...], *, sloppy: bool = True) -> list[RandomFile]:
    """Generate files of random rows under a spec; only `columns` are not all null, and only they have statistics."""
    # A separate random generator draws the faults: there are many, and each is visible in a failing example.
    return files_of(draw(rows(columns, max_size=8)), spec, columns, Random(draw(st.integers(0, 2**16))), sloppy=sloppy)


def files_of(
    file_rows: list[dict[str, Any]], spec: PartitionSpec, columns: tuple[str, ...], chance: Random, *, sloppy: bool
) -> list[RandomFile]:
    """Return a file of each partition of the rows, with statistics of `columns`; if `sloppy`, with faults that `chance` draws."""
    rounds_up = sloppy and chance.random() < 0.5
    by_partition: dict[str, RandomFile] = {}
    for row in file_rows:
        partition = tuple(_partition_value(item, row, rounds_up) for item in spec.fields)
        if any(isinstance(value, Decimal) and abs(value) >= 10**7 for value in partition):
            continue  # no writer can put this row anywhere: its truncated value has a digit too many
        by_partition.setdefault(repr(partition), RandomFile([], partition)).rows.append(row)
    for file in by_partition.values():
        for name in columns:
            file.statistics.update(_statistics(chance, SCHEMA.find_field(name), [row[name] for row in file.rows], sloppy))
    return list(by_partition.values())


def _partition_value(item: PartitionField, row: dict[str, Any], rounds_up: bool) -> Any:
    column = SCHEMA.find_field(item.source_id)
    kind, value = column.field_type, row[column.name]
    assert isinstance(kind, PrimitiveType)
    if isinstance(item.transform, UnknownTransform):
        return "somewhere"
    result = item.transform.apply(kind, value)
    if rounds_up and is_time_transform(item.transform) and result is not None and result < 0:
        # Early Java: toward zero, unless the time is exactly at the start of its unit.
        return result if item.transform.apply(kind, value - 1) < result else result + 1
    return result


def _statistics(chance: Random, column: NestedField, values: list[Any], sloppy: bool) -> dict[str, Any]:
    kind, number = column.field_type, column.field_id
    assert isinstance(kind, PrimitiveType)
    ordinary = [value for value in values if value is not None and not (isinstance(value, float) and math.isnan(value))]
    nans = sum(isinstance(value, float) and math.isnan(value) for value in values)
    is_float = isinstance(kind, FloatType | DoubleType)
    found: dict[str, Any] = {
        statistic_column("value_count", number): len(values),
        statistic_column("null_value_count", number): sum(value is None for value in values),
        statistic_column("nan_value_count", number): nans if is_float else None,
    }
    if ordinary:
        width = chance.choice([1, 2, 16])
        lower, upper = truncate_lower_bound(kind, min(ordinary), width), truncate_upper_bound(kind, max(ordinary), width)
        found[statistic_column("lower_bound", number)] = _bound(chance, kind, lower, sloppy)
        found[statistic_column("upper_bound", number)] = _bound(chance, kind, upper, sloppy)
    if sloppy:
        for name in list(found):
            if chance.random() < 0.15:
                found[name] = None
        if is_float and nans and chance.random() < 0.5:
            found[statistic_column(chance.choice(["lower_bound", "upper_bound"]), number)] = to_bytes(kind, math.nan)
    return found


def _bound(chance: Random, kind: PrimitiveType, value: Any, sloppy: bool) -> bytes | None:
    if value is None:
        return None
    if sloppy and isinstance(kind, LongType) and -(2**31) <= value < 2**31 and chance.random() < 0.5:
        return struct.pack("<i", value)  # from when the column was an int
    if type(kind) in _UNITS_OF_A_DAY and value % _UNITS_OF_A_DAY[type(kind)] == 0 and sloppy and chance.random() < 0.5:
        return struct.pack("<i", value // _UNITS_OF_A_DAY[type(kind)])  # from when the column was a date
    if sloppy and isinstance(kind, DoubleType) and chance.random() < 0.5:
        return struct.pack("<f", value)  # the drawn doubles are floats too
    if sloppy and isinstance(kind, StringType | BinaryType) and chance.random() < 0.1:
        return b"\xff\xfe\xfa" if isinstance(kind, StringType) else to_bytes(kind, value)
    return to_bytes(kind, value)


def columns_of(files: list[RandomFile], spec: PartitionSpec, schema: Schema = SCHEMA) -> ManifestColumns:
    """Return the files as one manifest's columns with every statistic."""
    names = ["value_count", "null_value_count", "nan_value_count", "lower_bound", "upper_bound"]
    arrays: dict[str, Any] = {
        item.name: pa.array([_entry(item.name, index, file) for index, file in enumerate(files)], item.type) for item in ENTRY_FIELDS
    }
    for index, item in enumerate(partition_type(spec, SCHEMA).fields):
        assert isinstance(item.field_type, PrimitiveType)
        arrays[partition_column(item.field_id)] = physical_array(item.field_type, [file.partition[index] for file in files])
    for column in schema.fields:
        for name in names:
            slot = statistic_column(name, column.field_id)
            kind = pa.binary() if name.endswith("bound") else pa.int64()
            arrays[slot] = pa.array([file.statistics.get(slot) for file in files], kind)
    return ManifestColumns(pa.table(arrays))


def _entry(name: str, index: int, file: RandomFile) -> Any:
    values = {"status": 1, "content": 0, "file_path": f"f{index}", "file_format": "PARQUET", "record_count": len(file.rows)}
    return values.get(name, None if name in ("split_offsets", "sort_order_id") else 100 + index)


def manifest_of(files: list[RandomFile], spec: PartitionSpec, contains_nan: bool | None = True) -> ManifestFile:
    """Return the manifest list's entry for a manifest of these files. With `contains_nan` None, `contains_nan` is left out."""
    summaries = []
    for index, item in enumerate(partition_type(spec, SCHEMA).fields):
        assert isinstance(item.field_type, PrimitiveType)
        values = [file.partition[index] for file in files]
        nans = [value for value in values if isinstance(value, float) and math.isnan(value)]
        ordinary = [value for value in values if value is not None and not any(value is nan for nan in nans)]
        summaries.append(
            PartitionFieldSummary(
                contains_null=None in values,
                contains_nan=None if contains_nan is None else bool(nans),
                lower_bound=to_bytes(item.field_type, min(ordinary)) if ordinary else None,
                upper_bound=to_bytes(item.field_type, max(ordinary)) if ordinary else None,
            )
        )
    return ManifestFile(
        manifest_path="m",
        manifest_length=1,
        partition_spec_id=spec.spec_id,
        added_snapshot_id=1,
        added_files_count=len(files),
        existing_files_count=0,
        deleted_files_count=0,
        partitions=tuple(summaries),
    )
