"""The position of each row on a space-filling curve, computed by Spark's own expressions. Rows are distributed and sorted by it.

The scales of the columns come from a sample. `spec/partitioning/curve_cells.py` and `spec/partitioning/space_filling_curve.py` compute the same for Arrow data.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 Spark's users know it by this letter

from icefloe.spark.functions.portable_transforms import PortableTransforms, uuid_bytes
from icefloe.spark.jobs.spark_jobs import run_job
from icefloe.spark.types.spark_types import column_named
from icefloe.spec.partitioning.curve_cells import MOST_PREFIX_BYTES, MOST_TEXT_BYTES, SAMPLE_ROWS, CellScale, CurveOrder, cell_scale
from icefloe.spec.partitioning.space_filling_curve import CurveName, hilbert_table
from icefloe.spec.types import BinaryType, BooleanType, DecimalType, DoubleType, FixedType, FloatType, PrimitiveType, StringType, UUIDType

# The lower bits of Spark's `monotonically_increasing_id` are the number of a row within its task.
_ROW_NUMBER = (1 << 33) - 1
_SEED = 17


@dataclass(frozen=True, slots=True)
class CurveSource:
    """A column by which a space-filling curve orders rows: the column in the rows, and its Iceberg type in the table."""

    column: Column
    kind: PrimitiveType

    @property
    def is_text(self) -> bool:
        """Whether the values are texts or bytes, which are compared byte by byte."""
        return isinstance(self.kind, StringType | BinaryType | FixedType | UUIDType)

    def values(self, transforms: PortableTransforms) -> Column:
        """Return the column converted to bytes, doubles or longs that have the same order."""
        if isinstance(self.kind, UUIDType):
            return uuid_bytes(self.column)
        if self.is_text:
            return self.column.cast("binary")
        if isinstance(self.kind, FloatType | DoubleType | DecimalType):
            return self.column.cast("double")
        if isinstance(self.kind, BooleanType):
            return self.column.cast("int").cast("bigint")
        return transforms.whole_number(self.column, self.kind)


def with_place(rows: DataFrame, curve: CurveOrder, sources: Sequence[CurveSource], transforms: PortableTransforms, name: str) -> DataFrame:
    """Add a column (long) to rows with the position of each row on a space-filling curve.

    First a job reads a sample of the curve's columns, from which the scales are computed.

    Args:
        rows: The rows.
        curve: The space-filling curve.
        sources: The columns of the curve in these rows.
        transforms: The transforms that work in the session, to convert times.
        name: The name of the new column, which is also the prefix of the names of intermediate columns.

    Raises:
        IcefloeError: The rows cannot be read; see `run_job`.
    """
    values = [source.values(transforms) for source in sources]
    scales = _scales(
        rows, curve, [_beginning(column) if source.is_text else column for source, column in zip(sources, values, strict=True)]
    )
    numbers = {
        f"{name} {place}": F.coalesce(_number(source, column, scale, curve.text_bytes), F.lit(scale.points[0]))
        for place, (source, column, scale) in enumerate(zip(sources, values, scales, strict=True))
    }
    # Each step is a separate projection. So Spark compiles it to a separate method, because Java compiles only small methods to machine code.
    placed = rows.withColumns(numbers)
    pieces = {f"{key} piece": _piece(column_named(key), scale) for key, scale in zip(numbers, scales, strict=True)}
    placed = placed.withColumns(pieces)
    cells = {
        f"{key} cell": F.when(source.column.isNull(), F.lit(0)).otherwise(_cell(column_named(key), column_named(f"{key} piece"), scale))
        for key, source, scale in zip(numbers, sources, scales, strict=True)
    }
    placed = placed.withColumns(cells)
    return placed.withColumn(name, _place(curve, [column_named(cell) for cell in cells])).drop(*numbers, *pieces, *cells)


def _beginning(column: Column) -> Column:
    return F.substring(column, 1, MOST_PREFIX_BYTES + MOST_TEXT_BYTES)


def _scales(rows: DataFrame, curve: CurveOrder, values: Sequence[Column]) -> list[CellScale]:
    """Compute the scale of each column of the curve from a sample of about `SAMPLE_ROWS` rows."""
    columns = [column.alias(f"c{number}") for number, column in enumerate(values)]
    share = min(1.0, SAMPLE_ROWS / max(1, curve.expected_rows))
    # The number of rows comes from manifests and may be wrong, so that each task returns at most the rows of a whole sample.
    row = F.monotonically_increasing_id().bitwiseAND(F.lit(_ROW_NUMBER))
    sampled = rows.select(*columns).sample(share, _SEED).withColumn("row", row).where(F.col("row") < SAMPLE_ROWS).drop("row")
    table = run_job(rows.sparkSession, "sample the columns of a curve", sampled.toArrow)
    return [cell_scale(column, curve.bits, curve.text_bytes) for column in table.columns]


def _number(source: CurveSource, value: Column, scale: CellScale, text_bytes: int) -> Column:
    """Convert a value from `CurveSource.values` to a number that can be compared with the points of its scale."""
    if source.is_text:
        used = min(text_bytes, MOST_TEXT_BYTES)
        after = F.hex(F.substring(value, len(scale.prefix) + 1, used))
        number = F.conv(F.rpad(after, MOST_TEXT_BYTES * 2, "0"), 16, 10).cast("bigint")
        if not scale.prefix:
            return number
        beginning, prefix = F.substring(value, 1, len(scale.prefix)), F.lit(scale.prefix)
        return F.when(beginning < prefix, F.lit(-1)).when(beginning > prefix, F.lit(1 << 8 * MOST_TEXT_BYTES)).otherwise(number)
    if isinstance(source.kind, FloatType | DoubleType | DecimalType):
        return value * F.lit(0.5)
    return F.shiftright(value, 1) if scale.halves else value


def _piece(number: Column, scale: CellScale) -> Column:
    """Return the index of the piece of a scale, between two of its points, that contains a number. NaN, Spark's greatest number, is in the last piece."""
    return reduce(Column.__add__, ((number >= F.lit(point)).cast("int") for point in scale.points[1:]), F.lit(0))


def _cell(number: Column, piece: Column, scale: CellScale) -> Column:
    """Return the cell (long) of a number, by linear interpolation in its piece of the scale. The piece after the last point has the length zero."""
    low, high = (F.lit(scale.points[place]) for place in (0, -1))
    offset = (F.least(F.greatest(number, low), high) - _at(scale.points, piece)).cast("double") * _at([*scale.factors, 0.0], piece)
    cell = offset.cast("bigint") + _at(scale.lasts, piece)
    return F.least(cell, _at([*scale.firsts[1:], scale.lasts[-1]], piece))


def _at(values: Sequence[int] | Sequence[float], place: Column) -> Column:
    """Return the value at the index `place`, an int column. All values are in one literal, because an array of literals would take thousands of calls."""
    kind = "double" if any(isinstance(value, float) for value in values) else "bigint"
    return F.get(F.split(F.lit(",".join(map(repr, values))), ",").cast(f"array<{kind}>"), place)


def _spread(cell: Column, bits: int, gap: int) -> Column:
    """Move the bits of a cell apart, so that bit n becomes bit n * `gap`: first its halves move apart, then the quarters, until all bits are separate."""
    half = 1 << (bits - 1).bit_length() >> 1
    while half:
        mask = sum(1 << bit // half * half * gap + bit % half for bit in range(bits))
        cell = cell.bitwiseOR(F.shiftleft(cell, half * (gap - 1))).bitwiseAND(F.lit(mask)) if gap > 1 else cell
        half >>= 1
    return cell


def _place(curve: CurveOrder, cells: Sequence[Column]) -> Column:
    """Return the position on the curve (long) of a row, given the cells of its columns."""
    width, bits = len(cells), curve.bits
    if curve.name is CurveName.ZORDER:
        spread = (F.shiftleft(_spread(cell, bits, width), width - 1 - number) for number, cell in enumerate(cells))
        return reduce(Column.bitwiseOR, spread)
    table = hilbert_table(width)
    steps: list[Column] = []
    for shift in range(bits - table.step_bits, -1, -table.step_bits):
        of_columns = (
            F.shiftleft(F.shiftright(cell, shift).bitwiseAND(F.lit((1 << table.step_bits) - 1)), (width - 1 - number) * table.step_bits)
            for number, cell in enumerate(cells)
        )
        chunk = reduce(Column.bitwiseOR, of_columns)
        if steps:
            chunk = chunk.bitwiseOR(F.shiftleft(F.shiftright(steps[-1], table.width), table.width))
        steps.append(_at(table.entries, chunk.cast("int")))
    mask = F.lit((1 << table.width) - 1)
    placed = (F.shiftleft(step.bitwiseAND(mask), table.width * number) for number, step in enumerate(reversed(steps)))
    return reduce(Column.bitwiseOR, placed)
