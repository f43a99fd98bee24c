"""`PartitionSplitter`: split Arrow tables by the partition of each row, column by column.

`data_file_writer.py` writes the parts. Spec: Partitioning.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.errors import InvalidPartitionSpecError
from icefloe.spec.arrow_values import positions_array
from icefloe.spec.partitioning.partition_spec import PartitionSpec
from icefloe.spec.partitioning.transforms import Transform, VoidTransform
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import DoubleType, FloatType, NestedField, PrimitiveType, StructType, children
from icefloe.spec.values import physical_arrow_type, physical_list

# The number of codes up to which numpy uses a radix sort: only its stable sort of 16-bit numbers is a radix sort.
_MAX_RADIX_CODES = 1 << 16
# The number of codes above which the combination with the next field could overflow 64 bits.
_MAX_COMBINED_CODES = 1 << 31


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one partition. `key` identifies the partition; `values` cannot, because NaN is not equal to itself, and the two zeros are equal."""

    key: tuple[Any, ...]
    values: tuple[Any, ...]
    rows: Any


@dataclass(frozen=True, slots=True)
class SortedParts:
    """A table with all rows of some partitions. `parts` has for each partition its key, its values, its first row in the table and its number of rows."""

    rows: Any
    parts: Sequence[tuple[tuple[Any, ...], tuple[Any, ...], int, int]]


@dataclass(frozen=True, slots=True)
class _Source:
    """The source of a partition field: the path to its column, the column's type, and the transform."""

    name: str
    steps: tuple[int, ...]
    kind: PrimitiveType
    transform: Transform
    result: PrimitiveType


@dataclass(frozen=True, slots=True)
class _Codes:
    """The values of a partition field in a table, dictionary-encoded: a code for each row, and the key and the physical value for each code."""

    codes: NDArray[Any]
    keys: Sequence[Any]
    values: Sequence[Any]


class PartitionSplitter:
    """A splitter of Arrow tables with the schema's columns: it groups rows by the partitions of a spec."""

    def __init__(self, spec: PartitionSpec, schema: Schema) -> None:
        """Prepare to split. Raises `InvalidPartitionSpecError` if a source column is not primitive, or is inside a list or map."""
        # The source column of a void transform is not needed, and may be dropped from the schema.
        self._sources = [
            None if isinstance(field.transform, VoidTransform) else _source(schema, field.source_id, field.transform)
            for field in spec.fields
        ]

    def split(self, table: Any) -> Iterator[Part]:
        """Yield the table's rows by partition. Within a partition the order of rows is kept."""
        fields, order, ends = self._group(table)
        if order is None:
            yield _part(fields, 0, table)
            return
        # Taking rows from one long array is much faster than from the many chunks of a table that was made from batches.
        table = table.combine_chunks()
        start = 0
        for end in ends:
            yield _part(fields, int(order[start]), _rows_at(table, order[start:end]))
            start = end

    def count(self, table: Any) -> int:
        """Return the number of partitions of the table's rows."""
        return len(self._group(table)[2]) or 1

    def sort(self, table: Any, max_bytes: int) -> Iterator[SortedParts]:
        """Yield the table's rows sorted by partition, in tables of about `max_bytes` of Arrow memory that contain whole partitions.

        Unlike the parts from `split`, the partitions in one table share its memory. Within a partition the order of rows is kept.
        """
        fields, order, ends = self._group(table)
        if order is None:
            part = _part(fields, 0, table)
            yield SortedParts(table, [(part.key, part.values, 0, table.num_rows)])
            return
        table = table.combine_chunks()
        is_sorted = bool((np.diff(order) == 1).all())
        starts = [0, *ends[:-1]]
        first_rows = order[starts]
        columns = [(field.keys, field.values, field.codes[first_rows].tolist()) for field in fields]
        keys = list(zip(*([keys[code] for code in codes] for keys, _, codes in columns), strict=True))
        values = list(zip(*([values[code] for code in codes] for _, values, codes in columns), strict=True))
        max_rows = max(1, table.num_rows * max_bytes // max(1, table.nbytes))
        first = 0
        while first < len(ends):
            begin = starts[first]
            last = max(first + 1, bisect_right(ends, begin + max_rows))
            rows = order[begin : ends[last - 1]]
            yield SortedParts(
                table.slice(begin, len(rows)) if is_sorted else table.take(positions_array(rows)),
                [(keys[part], values[part], starts[part] - begin, ends[part] - starts[part]) for part in range(first, last)],
            )
            first = last

    def _group(self, table: Any) -> tuple[Sequence[_Codes], NDArray[Any] | None, list[int]]:
        """Return the values of the partition fields, the row numbers sorted by partition (None for a single partition), and the end of each partition."""
        fields = [_encode(source, table) for source in self._sources]
        codes = _combine_codes(fields, table.num_rows)
        if codes is None:
            return fields, None, []
        order = np.argsort(codes, kind="stable")
        return fields, order, [*(np.flatnonzero(np.diff(codes[order])) + 1).tolist(), len(order)]


def _source(schema: Schema, source_id: int, transform: Transform) -> _Source:
    """Find a source column. Raises `InvalidPartitionSpecError` if it is not a primitive column, at the top level or inside structs."""
    fields: tuple[NestedField, ...] = schema.fields
    steps: list[int] = []
    field = schema.find_field(source_id)
    for name in schema.path_of(source_id) or ():
        position = next(index for index, candidate in enumerate(fields) if candidate.name == name)
        steps.append(position)
        inner = fields[position].field_type
        fields = children(inner) if isinstance(inner, StructType) else ()
    if not isinstance(field.field_type, PrimitiveType):
        raise InvalidPartitionSpecError(f"column {field.name} is a {field.field_type}, which cannot be a source of partitions")
    name = schema.find_column_name(source_id) or field.name
    return _Source(name, tuple(steps), field.field_type, transform, transform.result_type(field.field_type))


def _encode(source: _Source | None, table: Any) -> _Codes:
    """Return the dictionary-encoded values of a partition field. For a void transform there is a single code, for null."""
    if source is None:
        return _Codes(np.zeros(table.num_rows, dtype=np.int32), [None], [None])
    column = table.column(source.steps[0])
    if len(source.steps) > 1:
        column = pc.struct_field(column, list(source.steps[1:]))
    try:
        result = source.transform.apply_array(source.kind, column)
    except InvalidPartitionSpecError as error:
        raise InvalidPartitionSpecError(
            f"column {source.name} cannot be partitioned by {source.transform}: {error.message}",
            next_step="change the partition spec, or the value",
        ) from error
    if isinstance(result, pa.ChunkedArray):
        result = result.combine_chunks()
    encoded = _bits(source.result, result).dictionary_encode(null_encoding="encode")
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    values = _values(source.result, encoded.dictionary)
    is_float = isinstance(source.result, FloatType | DoubleType)
    return _Codes(codes, encoded.dictionary.to_pylist() if is_float else values, values)


def _bits(kind: PrimitiveType, array: Any) -> Any:
    """Return the bits of floats as integers, with one pattern for NaN, so that NaN equals itself and the zeros differ. Spec: Partition values, equality."""
    if not isinstance(kind, FloatType | DoubleType):
        return array
    one_nan = pc.if_else(pc.is_nan(array), pa.scalar(float("nan"), array.type), array)
    return one_nan.view(pa.int32() if isinstance(kind, FloatType) else pa.int64())


def _values(kind: PrimitiveType, dictionary: Any) -> list[Any]:
    arrow = physical_arrow_type(kind)
    if isinstance(kind, FloatType | DoubleType):
        return physical_list(kind, dictionary.view(arrow))
    return physical_list(kind, dictionary.cast(arrow))


def _combine_codes(fields: Sequence[_Codes], rows: int) -> NDArray[Any] | None:
    """Return a code for each row that combines the codes of all fields, in the smallest integer type; None if all rows are in one partition."""
    varying = [field for field in fields if len(field.keys) > 1]
    if not varying:
        return None
    codes, count = varying[0].codes.astype(np.int64), len(varying[0].keys)
    for field in varying[1:]:
        if count > _MAX_COMBINED_CODES:
            combinations, codes = np.unique(codes, return_inverse=True)
            count = len(combinations)
        codes, count = codes * len(field.keys) + field.codes, count * len(field.keys)
    if count > _MAX_RADIX_CODES:
        combinations, codes = np.unique(codes, return_inverse=True)
        count = len(combinations)
    return codes.reshape(rows).astype(np.uint16 if count <= _MAX_RADIX_CODES else np.int64)


def _part(fields: Sequence[_Codes], row: int, rows: Any) -> Part:
    """Return `rows` as a `Part`, with the partition that row number `row` of the table has."""
    codes = [int(field.codes[row]) for field in fields]
    return Part(
        key=tuple(field.keys[code] for field, code in zip(fields, codes, strict=True)),
        values=tuple(field.values[code] for field, code in zip(fields, codes, strict=True)),
        rows=rows,
    )


def _rows_at(table: Any, rows: NDArray[Any]) -> Any:
    """Return the rows at ascending positions.

    A contiguous run that covers most of the table is returned as a slice. Other rows are copied, because a small slice would keep the whole table in memory.
    """
    start, count = int(rows[0]), len(rows)
    if int(rows[-1]) - start + 1 == count and count * 2 > table.num_rows:
        return table.slice(start, count)
    return table.take(positions_array(rows))
