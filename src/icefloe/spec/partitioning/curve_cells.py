"""Cells of a space-filling curve: the values of each column mapped to integers of a few bits, in the order of the values.

A column is divided at quantiles of a sample of its rows, and evenly between the quantiles. So the first bits of every column's cells already divide the rows,
also for days next to long ids, texts with a common prefix, and columns with a few outliers. The bits of the values themselves would not do that. Spec: Sorting
(the order of floats).
"""

import sys
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.errors import InvalidInputError
from icefloe.spec.arrow_values import array_of_chunks, fill_nulls, numbers_array, numpy_of, scalar_of
from icefloe.spec.partitioning.sort_order import source_column
from icefloe.spec.partitioning.space_filling_curve import MOST_HILBERT_COLUMNS, CurveName, bits_of_column, curve_places
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import GeographyType, GeometryType, PrimitiveType, UnknownType

# The number of rows of a sample, and the number of pieces into which it divides a column.
SAMPLE_ROWS = 20_000
PIECES = 16
# The greatest number of bytes of a text, after the common prefix of all texts of the sample, that become a number: 7, because the first bit of a 64-bit number
# is its sign.
MOST_TEXT_BYTES = 7
# The number of bytes at the beginning of a text that are compared to find the common prefix.
MOST_PREFIX_BYTES = 256
_LARGE = 1 << 62
_FEW_BITS = 3
# The greatest number of columns: each needs at least one bit of a place on the curve.
MOST_ZORDER_COLUMNS = 32


@dataclass(frozen=True, slots=True)
class CurveOrder:
    """An order of rows along a space-filling curve. The format has no such sort order, so files in this order count as unsorted for readers.

    Attributes:
        name: The curve.
        source_ids: Field ids of the columns.
        text_bytes: The number of bytes of a text or binary value that are used, after the common prefix of all values; at most `MOST_TEXT_BYTES`.
        most_bytes: The greatest number of bytes of a row's place on the curve; None for 8.
        expected_rows: The number of rows, from which an engine computes the size of its sample.
    """

    name: CurveName
    source_ids: tuple[int, ...]
    text_bytes: int = MOST_TEXT_BYTES
    most_bytes: int | None = None
    expected_rows: int = 0

    @property
    def bits(self) -> int:
        """The number of bits of the cells of each column."""
        return bits_of_column(self.name, len(self.source_ids), self.most_bytes)

    def over(self, source_ids: tuple[int, ...]) -> "CurveOrder":
        """Return the same order with only these columns. For a single column the result is a z-order, because all curves are the same then."""
        return replace(self, source_ids=source_ids, name=self.name if len(source_ids) > 1 else CurveName.ZORDER)


def check_curve(curve: CurveOrder, schema: Schema) -> None:
    """Raise `InvalidInputError` if the curve has too few or too many columns, a column twice, or a column whose values it cannot order."""
    most = MOST_HILBERT_COLUMNS if curve.name is CurveName.HILBERT else MOST_ZORDER_COLUMNS
    least = 2 if curve.name is CurveName.HILBERT else 1
    if not least <= len(curve.source_ids) <= most:
        raise InvalidInputError(
            f"{curve.name} of {len(curve.source_ids)} columns: it takes {least} to {most}",
            next_step="name the columns that filters use most" if len(curve.source_ids) > most else "sort by the one column",
        )
    for place, field_id in enumerate(curve.source_ids):
        kind, name = schema.find_type(field_id), schema.find_column_name(field_id)
        if field_id in curve.source_ids[:place]:
            raise InvalidInputError(f"{curve.name} names the column {name} twice", next_step="name it once")
        if not isinstance(kind, PrimitiveType) or isinstance(kind, GeometryType | GeographyType | UnknownType):
            raise InvalidInputError(
                f"{curve.name} cannot order rows by {name}, which has the type {kind}",
                next_step="name columns of numbers, times, texts, booleans or bytes",
            )


@dataclass(frozen=True, slots=True)
class CellScale:
    """The mapping of one column's values to cells, the same for all engines. Nulls have cell 0.

    Attributes:
        prefix: The bytes that all text or binary values of the sample begin with; empty for other types.
        halves: Whether integers are halved, so that their differences fit in 64 bits.
        points: Numbers, ascending, that divide the range of values into pieces; a value is converted to a number first. Values of a piece are mapped evenly.
        firsts: For each point, the cell of values just below it, at which the piece before it ends.
        lasts: For each point, the cell of the value itself, at which the piece after it begins. It differs from `firsts` if many rows have this value.
    """

    prefix: bytes
    halves: bool
    points: tuple[int, ...] | tuple[float, ...]
    firsts: tuple[int, ...]
    lasts: tuple[int, ...]

    @property
    def factors(self) -> list[float]:
        """For each piece, the number of its cells divided by its length."""
        ends = zip(self.points[1:], self.points[:-1], self.firsts[1:], self.lasts[:-1], strict=True)
        # A piece of numbers that are close to the least float has a factor beyond the greatest one; infinity times 0 would be no number.
        return [min((first - last) / (end - start), sys.float_info.max) for end, start, first, last in ends]


def in_curve_order(table: Any, curve: CurveOrder, schema: Schema) -> Any:
    """Return an Arrow table of the schema, sorted stably along a curve; unchanged if the schema lacks a column of the curve."""
    columns = [source_column(table, field_id, schema) for field_id in curve.source_ids]
    if not table.num_rows or any(column is None for column in columns):
        return table
    sample = numbers_array(np.linspace(0, table.num_rows - 1, min(table.num_rows, SAMPLE_ROWS)).astype(np.int64), pa.int64())
    cells = []
    for column in (array_of_chunks(column_order[0]) for column_order in columns if column_order is not None):
        scale = cell_scale(column.take(sample), curve.bits, curve.text_bytes)
        cells.append(cells_of(column, scale, curve.text_bytes))
    order = np.argsort(curve_places(curve.name, cells, curve.bits), kind="stable")
    return table.combine_chunks().take(numbers_array(order, pa.int64()))


def cell_scale(sample: Any, bits: int, text_bytes: int) -> CellScale:
    """Return the scale of a column, computed from a sample of its values.

    Args:
        sample: The values of some rows, an Arrow array.
        bits: The number of bits of a cell.
        text_bytes: As in `CurveOrder`.
    """
    values = array_of_chunks(sample).drop_null()
    prefix = _common_prefix(values)
    numbers = _numbers(values, prefix, text_bytes)
    finite = np.sort(numbers[np.isfinite(numbers)])
    if not len(finite):
        return CellScale(prefix, False, (0,), (1,), (1,))
    halves = finite.dtype == np.int64 and int(finite[-1]) - int(finite[0]) >= _LARGE
    quantiles = finite[np.linspace(0, len(finite) - 1, PIECES + 1).astype(np.int64)]
    # Nulls have a cell of their own only if there are more than a few.
    first_cell = 1 if bits > _FEW_BITS else 0
    cells = first_cell + np.arange(PIECES + 1) * ((1 << bits) - 1 - first_cell) // PIECES
    points, starts, counts = np.unique(quantiles >> 1 if halves else quantiles, return_index=True, return_counts=True)
    return CellScale(prefix, halves, tuple(points.tolist()), tuple(cells[starts].tolist()), tuple(cells[starts + counts - 1].tolist()))


def cells_of(column: Any, scale: CellScale, text_bytes: int) -> NDArray[np.int64]:
    """Return the cells of a column: the small integers to which the scale maps its values. Null has cell 0, and NaN the last cell.

    Args:
        column: The values, an Arrow array.
        scale: The scale of the column, from `cell_scale`.
        text_bytes: As in `CurveOrder`.
    """
    numbers = _numbers(column, scale.prefix, text_bytes)
    points = np.array(scale.points, dtype=numbers.dtype)
    within = np.clip(numbers >> 1 if scale.halves else numbers, points[0], points[-1])
    pieces = np.searchsorted(points, within, "right") - 1
    last = np.array(scale.lasts)[pieces]
    offsets = (within - points[pieces]) * np.array([*scale.factors, 0.0])[pieces]
    cells = np.minimum(last + offsets.astype(np.int64), np.array([*scale.firsts[1:], scale.lasts[-1]])[pieces])
    return np.where(numpy_of(column.is_valid()), cells, 0)


def _numbers(column: Any, prefix: bytes, text_bytes: int) -> NDArray[Any]:
    """Return for each value an int64 or float64 number, such that numbers have the order of the values. Nulls get an arbitrary number."""
    storage = column.storage if isinstance(column, pa.ExtensionArray) else column
    kind = storage.type
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        floats = numpy_of(fill_nulls(storage.cast(pa.float64()), 0.0))
        # Halved, so that differences cannot overflow.
        return np.where(np.isnan(floats), np.inf, floats * 0.5)
    if _is_text(kind):
        return _text_numbers(fill_nulls(storage.cast(pa.binary()), b""), prefix, text_bytes)
    if pa.types.is_boolean(kind):
        return numpy_of(fill_nulls(storage, False)).astype(np.int64)
    whole = storage.cast(pa.int32()) if pa.types.is_date32(kind) or pa.types.is_time32(kind) else storage
    return numpy_of(fill_nulls(whole.cast(pa.int64()), 0))


def _text_numbers(texts: Any, prefix: bytes, text_bytes: int) -> NDArray[np.int64]:
    """Return for each text the number of its first bytes after the prefix. A text without the prefix gets a number below or above those of all other texts."""
    used = min(text_bytes, MOST_TEXT_BYTES)
    start = len(prefix)
    padding = scalar_of(bytes(MOST_TEXT_BYTES), pa.binary())
    after = pc.binary_join_element_wise(pc.binary_slice(texts, start, start + used), padding, scalar_of(b"", pa.binary()))
    fixed = pc.binary_slice(after, 0, MOST_TEXT_BYTES).cast(pa.binary(MOST_TEXT_BYTES))
    data = np.frombuffer(fixed.buffers()[1] or b"", np.uint8)[: len(texts) * MOST_TEXT_BYTES].reshape(len(texts), MOST_TEXT_BYTES)
    numbers = np.zeros(len(texts), dtype=np.int64)
    for place in range(MOST_TEXT_BYTES):
        numbers = numbers << 8 | data[:, place]
    beginning, expected = pc.binary_slice(texts, 0, start), scalar_of(prefix, pa.binary())
    numbers[numpy_of(pc.less(beginning, expected))] = -1
    numbers[numpy_of(pc.greater(beginning, expected))] = 1 << 8 * MOST_TEXT_BYTES
    return numbers


def _common_prefix(values: Any) -> bytes:
    """Return the bytes that all values begin with; no bytes for types other than text and binary."""
    storage = values.storage if isinstance(values, pa.ExtensionArray) else values
    if not _is_text(storage.type) or not len(storage):
        return b""
    texts = storage.cast(pa.binary())
    least, greatest = (bytes(pc.binary_slice(end, 0, MOST_PREFIX_BYTES).as_py()) for end in (pc.min(texts), pc.max(texts)))
    differ = (place for place, (low, high) in enumerate(zip(least, greatest, strict=False)) if low != high)
    return least[: next(differ, len(least))]


def _is_text(kind: Any) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
    )
