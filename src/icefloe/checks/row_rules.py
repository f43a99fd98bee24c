"""Rules of the rows of a data file: its metrics, partition, sort order and row ids agree with the values. All rows are read, batch by batch.

`data_file_rules.py` compares metrics with footers, without reading rows. Spec: Data File Fields; Partition Transforms; Sorting; Row Lineage.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.checks.data_file_rules import (
    BY_PARTITION_OF_VALUES,
    FILE_DAMAGED,
    FILE_MISSING,
    READ_ERRORS,
    TableLayout,
    file_unreadable,
    open_by_format,
    place_of,
    row_count_findings,
)
from icefloe.checks.file_column_rules import COLUMN_TYPE, FIELD_ID_TWICE, FIELD_IDS_MISSING, ColumnValues, metrics_findings
from icefloe.checks.finding import Finding, Severity
from icefloe.checks.listed_files import ListedFile
from icefloe.checks.manifest_check import NOT_CHECKED
from icefloe.checks.rule import Depth, FindingPlace, Level, RuleGroup, value_text
from icefloe.datafile.file_metrics import Leaf, MetricsMode, leaves_of
from icefloe.datafile.metrics_collector import MetricsCollector
from icefloe.datafile.projection import Projector, columns_by_id
from icefloe.datafile.stored_batch import StoredBatch, decode_dictionaries
from icefloe.errors import FormatError, IcefloeError, InvalidPartitionSpecError
from icefloe.spec.arrow_values import numpy_of
from icefloe.spec.expressions.predicate import AlwaysTrue
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.partitioning.partition_spec import PartitionField, PartitionSpec
from icefloe.spec.partitioning.sort_order import SortOrder, sorted_positions, source_column
from icefloe.spec.partitioning.transforms import UnknownTransform, VoidTransform
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.spec.schema.metadata_columns import LAST_UPDATED_SEQUENCE_NUMBER, LINEAGE_COLUMNS, ROW_ID
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import DoubleType, FloatType, NestedField
from icefloe.spec.values import from_bytes, physical_arrow_type, physical_list, to_human

_REWRITE = "rewrite the file with its rows, for example by rewrite_data_files"


_rule = RuleGroup(level=Level.DATA_FILE, next_step=_REWRITE, depth=Depth.VALUES).rule


PARTITION_VALUE = _rule(
    "partition-value",
    Severity.ERROR,
    "Every row of a data file has the partition values of its entry.",
    "Scans with a filter skip the file, and engines that take the partition's value return another one than the file has.",
    section="Partitioning",
    next_step=BY_PARTITION_OF_VALUES,
)
SORT_ORDER = _rule(
    "file-sort-order",
    Severity.WARNING,
    "The rows of a data file are in the sort order of its entry.",
    "Engines that rely on the order, such as for joins and limits, return wrong rows.",
    section="Sorting",
)
ROW_LINEAGE = _rule(
    "row-lineage",
    Severity.ERROR,
    "Stored row ids are unique in their file, from 0 to below the table's next row id, and last updated not after the file was added. "
    "Ids of different files are not compared, nor are those of a file that has more than a million gaps between its ids while it is read in order.",
    "Engines that follow rows by their ids take different rows for one.",
    section="Row Lineage",
)
RULES = (PARTITION_VALUE, SORT_ORDER, ROW_LINEAGE)

# Violations of these rules prevent the rows from being read as rows of the table.
_UNREADABLE = frozenset(rule.id for rule in (FILE_MISSING, FILE_DAMAGED, NOT_CHECKED, COLUMN_TYPE, FIELD_ID_TWICE, FIELD_IDS_MISSING))
_EVERY_METRIC = MetricsMode(counts=True, bounds=True)
# The most runs of successive row ids that are kept of one file, 16 bytes each. Only files with millions of rows in a shuffled order have more.
_MOST_RUNS = 1_000_000


def row_findings(layout: TableLayout, listed: ListedFile, manifest_place: FindingPlace, rules: frozenset[str]) -> Iterator[Finding]:
    """Yield the findings about the rows of a data file: values that contradict the metadata of its entry, or violate the rules of row lineage.

    Args:
        layout: The metadata of the table.
        listed: The file.
        manifest_place: The common arguments of the findings about the manifest.
        rules: The ids of the rules that the file violates already. A file that cannot be read according to them is not read again.
    """
    if rules & _UNREADABLE or not layout.schemas:
        return
    place = place_of(listed, manifest_place)
    try:
        with open_by_format(layout, listed.file) as stored:
            stored_ids = columns_by_id(stored.schema)
            fields = tuple(field for field in layout.schemas[0].fields if field.field_id in stored_ids)
            lineage = tuple(field for field in LINEAGE_COLUMNS if field.field_id in stored_ids)
            rows = _Rows(layout, listed, fields, place)
            projector = Projector(listed.file.file_path, {}, stored.floors_nanoseconds)
            for batch in stored.batches((*fields, *lineage), AlwaysTrue()):
                yield from rows.findings(decode_dictionaries(batch), projector)
    except (*READ_ERRORS, pa.ArrowException) as error:
        known = error if isinstance(error, IcefloeError) else IcefloeError(f"its rows cannot be read: {error}")
        yield file_unreadable(known, place, FILE_DAMAGED, "data file")
        return
    yield from rows.last_findings()


class _Rows:
    """The state of the check of one file's rows, updated batch by batch."""

    def __init__(self, layout: TableLayout, listed: ListedFile, fields: Sequence[NestedField], place: FindingPlace) -> None:
        self._layout = layout
        self._listed = listed
        self._place = place
        self._fields = fields
        self._schema = Schema(*fields)
        self._arrow = schema_to_arrow(self._schema)
        self._leaves = [leaf for leaf in leaves_of(self._schema) if not leaf.repeated]
        self._metrics = MetricsCollector([(leaf, _EVERY_METRIC) for leaf in self._leaves])
        self._zeros = _Zeros(self._leaves)
        self._partition = _PartitionTest(layout.specs.get(listed.file.spec_id), listed.file, self._schema)
        self._order = layout.sort_orders.get(listed.file.sort_order_id or 0)
        self._last: Any = None
        self._row_ids: _RowIds | None = _RowIds()

    def findings(self, batch: StoredBatch, projector: Projector) -> Iterator[Finding]:
        """Yield the findings about the next batch of rows."""
        columns = columns_by_id(batch.rows.schema)
        arrays = projector.struct(batch.rows.column, columns, self._fields, self._arrow, batch.rows.num_rows)
        table = pa.Table.from_arrays(arrays, schema=self._arrow) if arrays else None
        if table is not None:
            self._metrics.update(table)
            self._zeros.update(table)
            yield from self._partition.findings(table, self._place)
            yield from self._order_findings(table, batch.first_row)
        else:
            self._metrics.rows += batch.rows.num_rows
        yield from self._lineage_findings(batch, columns)

    def _order_findings(self, table: Any, first_row: int) -> Iterator[Finding]:
        order = self._order
        if order is None or order.is_unsorted or not table.num_rows:
            return
        rows = table if self._last is None else pa.concat_tables([self._last, table])
        self._last = table.slice(table.num_rows - 1)
        problem = _unsorted_at(rows, order, self._schema)
        if problem is not None:
            self._order = None  # one finding for each file
            row = first_row - (rows.num_rows - table.num_rows) + problem
            yield SORT_ORDER.finding(
                f"row {row:,} of {value_text(self._listed.file.file_path)} is not in the sort order {order.order_id} of its entry",
                where=f"row {row}",
                actual=order.order_id,
                **self._place,
            )

    def _lineage_findings(self, batch: StoredBatch, columns: Any) -> Iterator[Finding]:
        number, next_row_id = self._listed.sequence_number, self._layout.next_row_id
        for field, most in ((ROW_ID, None if next_row_id is None else next_row_id - 1), (LAST_UPDATED_SEQUENCE_NUMBER, number)):
            if field.field_id not in columns:
                continue
            values = batch.rows.column(columns[field.field_id][0]).cast(pa.int64()).drop_null()
            if not len(values):
                continue
            extremes = pc.min_max(values)
            low, high = extremes["min"].as_py(), extremes["max"].as_py()
            problem = None
            if low < 0 or (most is not None and high > most):
                problem = f"has values of {field.name} from {low} to {high}" + ("" if most is None else f", and the greatest is {most}")
            elif field is ROW_ID and self._row_ids is not None and self._row_ids.has_twice(numpy_of(values)):
                self._row_ids = None  # one finding for each file
                problem = f"has a value of {field.name} twice"
            if problem is not None:
                path = value_text(self._listed.file.file_path)
                yield ROW_LINEAGE.finding(f"{path} {problem}", field_id=field.field_id, expected=most, actual=high, **self._place)

    def last_findings(self) -> Iterator[Finding]:
        """Yield the findings that need all rows: about the row count and the metrics."""
        yield from row_count_findings(self._listed.file, self._metrics.rows, self._place)
        metrics = self._metrics.metrics(())
        values = {}
        for leaf in self._leaves:
            bounds = [bounds_of.get(leaf.field_id) for bounds_of in (metrics.lower_bounds, metrics.upper_bounds)]
            least, greatest = (None if bound is None else from_bytes(leaf.kind, bound) for bound in bounds)
            values[leaf.field_id] = ColumnValues(
                kind=leaf.kind,
                least=self._zeros.least(leaf.field_id, least),
                greatest=self._zeros.greatest(leaf.field_id, greatest),
                values=metrics.value_counts.get(leaf.field_id),
                nulls=metrics.null_value_counts.get(leaf.field_id),
                nans=metrics.nan_value_counts.get(leaf.field_id),
                has_exact_zeros=True,
            )
        yield from metrics_findings(self._listed.file, values, self._place)


class _Zeros:
    """The signs of the zeros in each column of floats. The metrics of the writer do not keep them: their bounds contain both zeros, whichever the rows have."""

    def __init__(self, leaves: Sequence[Leaf]) -> None:
        self._leaves = [leaf for leaf in leaves if isinstance(leaf.kind, FloatType | DoubleType)]
        self._negative: set[int] = set()
        self._positive: set[int] = set()

    def update(self, table: Any) -> None:
        """Add the zeros of a table's rows."""
        for leaf in self._leaves:
            numbers = numpy_of(leaf.column_of(table).drop_null())
            is_negative = np.signbit(numbers[numbers == 0])
            if is_negative.any():
                self._negative.add(leaf.field_id)
            if not is_negative.all():
                self._positive.add(leaf.field_id)

    def least(self, field_id: int, value: Any) -> Any:
        """Return the least value of a column; if it is zero, with the sign of the least zero that the rows have."""
        return 0.0 if value == 0 and field_id in self._positive - self._negative else value

    def greatest(self, field_id: int, value: Any) -> Any:
        """Return the greatest value of a column; if it is zero, with the sign of the greatest zero that the rows have."""
        return -0.0 if value == 0 and field_id in self._negative - self._positive else value


class _RowIds:
    """The row ids of a file so far, as runs of successive ids. A file that was written in one commit has one run, whatever its length."""

    def __init__(self) -> None:
        self._firsts = self._lasts = np.empty(0, np.int64)

    def has_twice(self, ids: NDArray[np.int64]) -> bool:
        """Add the row ids of the next rows, and return whether one of them occurs twice, or occurred in earlier rows. The ids are not negative."""
        ids = np.sort(ids)
        steps = np.diff(ids)
        ends = np.flatnonzero(steps != 1)
        firsts = np.concatenate([self._firsts, ids[:1], ids[ends + 1]])
        lasts = np.concatenate([self._lasts, ids[ends], ids[-1:]])
        order = np.argsort(firsts, kind="stable")
        firsts, lasts = firsts[order], lasts[order]
        # The old runs do not overlap each other, nor do the new ones, so that it is enough to compare neighbours.
        if (steps == 0).any() or (firsts[1:] <= lasts[:-1]).any():
            return True
        is_apart = firsts[1:] - 1 != lasts[:-1]
        self._firsts, self._lasts = firsts[np.append(True, is_apart)], lasts[np.append(is_apart, True)]
        if len(self._firsts) > _MOST_RUNS:
            self._firsts = self._lasts = np.empty(0, np.int64)
        return False


def _unsorted_at(table: Any, order: SortOrder, schema: Schema) -> int | None:
    """Return the position of the first row that sorting would move; None if the rows are sorted, or the order cannot be computed."""
    try:
        positions = sorted_positions(table, order, schema)
    except (InvalidPartitionSpecError, pa.ArrowException, FormatError):
        return None
    if positions is None:
        return None
    moved = positions.to_numpy() != np.arange(table.num_rows)
    return int(np.argmax(moved)) if moved.any() else None


class _PartitionTest:
    """Compares the rows of a file with the partition values of its entry."""

    def __init__(self, spec: PartitionSpec | None, file: DataFile, schema: Schema) -> None:
        fields: Sequence[PartitionField] = () if spec is None or len(spec.fields) != len(file.partition) else spec.fields
        self._schema = schema
        self._path = file.file_path
        # The fields that no row has contradicted so far, with their partition values.
        self._left = [
            (field, value)
            for field, value in zip(fields, file.partition, strict=False)
            if not isinstance(field.transform, VoidTransform | UnknownTransform)
        ]

    def findings(self, table: Any, place: FindingPlace) -> Iterator[Finding]:
        for field, value in list(self._left):
            other = self._other_value(table, field, value)
            if other is not None:
                self._left.remove((field, value))
                kind, text = other
                yield PARTITION_VALUE.finding(
                    f"a row of {value_text(self._path)} has the partition value {value_text(text)} of {value_text(field.name)}, and its entry "
                    f"{value_text('null' if value is None else to_human(kind, value))}",
                    field_id=field.field_id,
                    expected=value_text(text),
                    actual="null" if value is None else value_text(to_human(kind, value)),
                    **place,
                )

    def _other_value(self, table: Any, field: PartitionField, value: Any) -> Any:
        """Find a row whose value of a partition field differs from the value of the file's entry.

        Returns:
            The type and the text of the row's value; None if there is no such row, or the values cannot be computed.
        """
        source = source_column(table, field.source_id, self._schema)
        if source is None or not field.transform.can_transform(source[1]):
            return None
        column, source_kind = source
        kind = field.transform.result_type(source_kind)
        try:
            result = pc.unique(field.transform.apply_array(source_kind, column))
            values = physical_list(kind, result.cast(physical_arrow_type(kind)))
        except (InvalidPartitionSpecError, pa.ArrowException, FormatError):
            return None
        for other in values:
            if not _are_same(other, value):
                return kind, "null" if other is None else to_human(kind, other)
        return None


def _are_same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left):
        return math.isnan(right)
    return bool(left == right) and (left is None) == (right is None)
