"""Cells of a space-filling curve: each column's values as whole numbers of a few bits, in the order of the values.

A column is divided at quantiles of a sample of its rows, and evenly between these. So every column divides rows from its first bit on: days beside long
ids, texts with a common beginning, and columns with a few values far off, which bits of the values themselves do not. Spec: Sorting (the order of floats).
"""

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

# Rows of a sample, and the pieces that it divides a column into.
SAMPLE_ROWS = 20_000
PIECES = 16
# Bytes of a text that become a number, after those that all texts of the sample begin with; fewer than the 8 of a number, whose first bit is its sign.
MOST_TEXT_BYTES = 7
# The longest beginning of a text that is looked at.
MOST_PREFIX_BYTES = 256
_LARGE = 1 << 62
_FEW_BITS = 3
# Each bit of a place has a column of its own.
MOST_ZORDER_COLUMNS = 32


@dataclass(frozen=True, slots=True)
class CurveOrder:
    """An order of rows along a space-filling curve. It is no sort order of the format: files in it are unsorted for other readers.

    Attributes:
        name: The curve.
        source_ids: Field ids of the columns.
        text_bytes: Bytes of a text or binary value that count, after those that all values begin with; at most `MOST_TEXT_BYTES`.
        most_bytes: Limit of the bytes of a row's place on the curve; None for 8.
        expected_rows: The number of rows, by which an engine chooses how many it samples.
    """

    name: CurveName
    source_ids: tuple[int, ...]
    text_bytes: int = MOST_TEXT_BYTES
    most_bytes: int | None = None
    expected_rows: int = 0

    @property
    def bits(self) -> int:
        """Bits of the cells of each column."""
        return bits_of_column(self.name, len(self.source_ids), self.most_bytes)

    def over(self, source_ids: tuple[int, ...]) -> "CurveOrder":
        """Return the order over some of the columns; along one column every curve is the z-order."""
        return replace(self, source_ids=source_ids, name=self.name if len(source_ids) > 1 else CurveName.ZORDER)


def check_curve(curve: CurveOrder, schema: Schema) -> None:
    """Refuse columns that have no place on a curve. Raises `InvalidInputError`."""
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
    """The map of one column's values to cells, for every engine. Cell 0 is that of nulls.

    Attributes:
        prefix: Bytes that all values of the sample begin with; empty for other types.
        halves: Whether whole numbers are halved, so that their differences fit in 64 bits.
        points: Numbers at which pieces begin, ascending; the last one is where the last piece ends.
        firsts: For each point the cell up to which the piece before it extends.
        lasts: For each point the cell from which the piece after it extends; it differs from `firsts` where many rows have the value.
    """

    prefix: bytes
    halves: bool
    points: tuple[int, ...] | tuple[float, ...]
    firsts: tuple[int, ...]
    lasts: tuple[int, ...]

    @property
    def factors(self) -> list[float]:
        """For each piece the cells by unit of the number."""
        ends = zip(self.points[1:], self.points[:-1], self.firsts[1:], self.lasts[:-1], strict=True)
        return [(first - last) / (end - start) for end, start, first, last in ends]


def in_curve_order(table: Any, curve: CurveOrder, schema: Schema) -> Any:
    """Return an Arrow table of the schema, stably in the order of a curve."""
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
    """Return the scale of a column whose values are distributed as those of a sample, an Arrow array.

    Args:
        sample: Values of some rows.
        bits: Bits of a cell.
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
    # Nulls have a cell of their own if there are more than a few.
    first_cell = 1 if bits > _FEW_BITS else 0
    cells = first_cell + np.arange(PIECES + 1) * ((1 << bits) - 1 - first_cell) // PIECES
    points, starts, counts = np.unique(quantiles >> 1 if halves else quantiles, return_index=True, return_counts=True)
    return CellScale(prefix, halves, tuple(points.tolist()), tuple(cells[starts].tolist()), tuple(cells[starts + counts - 1].tolist()))


def cells_of(column: Any, scale: CellScale, text_bytes: int) -> NDArray[np.int64]:
    """Return the cell of each value of an Arrow array: 0 for null, and the last cell for NaN."""
    numbers = _numbers(column, scale.prefix, text_bytes)
    points = np.array(scale.points, dtype=numbers.dtype)
    within = np.clip(numbers >> 1 if scale.halves else numbers, points[0], points[-1])
    pieces = np.searchsorted(points, within, "right") - 1
    last = np.array(scale.lasts)[pieces]
    offsets = (within - points[pieces]) * np.array([*scale.factors, 0.0])[pieces]
    cells = np.minimum(last + offsets.astype(np.int64), np.array([*scale.firsts[1:], scale.lasts[-1]])[pieces])
    return np.where(numpy_of(column.is_valid()), cells, 0)


def _numbers(column: Any, prefix: bytes, text_bytes: int) -> NDArray[Any]:
    """Return values as numbers in their order, int64 or float64; any number for null."""
    storage = column.storage if isinstance(column, pa.ExtensionArray) else column
    kind = storage.type
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        floats = numpy_of(fill_nulls(storage.cast(pa.float64()), 0.0))
        # Halved, so that no difference overflows.
        return np.where(np.isnan(floats), np.inf, floats * 0.5)
    if _is_text(kind):
        return _text_numbers(fill_nulls(storage.cast(pa.binary()), b""), prefix, text_bytes)
    if pa.types.is_boolean(kind):
        return numpy_of(fill_nulls(storage, False)).astype(np.int64)
    whole = storage.cast(pa.int32()) if pa.types.is_date32(kind) or pa.types.is_time32(kind) else storage
    return numpy_of(fill_nulls(whole.cast(pa.int64()), 0))


def _text_numbers(texts: Any, prefix: bytes, text_bytes: int) -> NDArray[np.int64]:
    """Return the bytes after the prefix as numbers; texts that do not begin with it are below or above all others."""
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
    """Return the bytes that all values begin with; nothing for other types than text and bytes."""
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
