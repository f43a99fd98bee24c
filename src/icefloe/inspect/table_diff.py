"""`diff`: the differences of two snapshots, branches or tags of a table, or of two tables. `icefloe.inspect.comparison` compares them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from icefloe.display.report import Column, Facts, Part, Prose, Report, grid
from icefloe.display.reportable import MOST_LINES, Reportable
from icefloe.errors import InvalidInputError
from icefloe.formatting import count_text, short_text, size_text, time_text
from icefloe.inspect.comparison.file_changes import ColumnDifference, FileDifference, PartitionDifference
from icefloe.inspect.comparison.layout_changes import Change, LayoutChanges
from icefloe.inspect.comparison.row_changes import RowComparison
from icefloe.inspect.comparison.table_comparison import TableComparison, bounds_text, compare, compared_versions, comparison_lines
from icefloe.inspect.comparison.table_version import TableVersion
from icefloe.inspect.comparison.version_history import VersionHistory
from icefloe.operations.loaded_table import TableReader

# The most changed rows that a diff has as values by default; `to_arrow` and `batches` return all of them.
MOST_ROWS = 1_000
_RELATIONS = {
    "same": "the same snapshot",
    "later": "the second follows the first",
    "earlier": "the first follows the second",
    "diverged": "both follow a common snapshot",
    "unknown": "not known: their history has expired, or they have no common snapshot",
    "other table": "two tables",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffSide:
    """One of the two versions that a diff compares: a table at a snapshot."""

    table: str
    version: str
    snapshot_id: int | None
    timestamp_ms: int | None
    schema_id: int
    settings_known: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDiff:
    """The changed rows: removing and adding them changes the rows of the first version to those of the second. Equal rows are counted as often as they occur.

    Attributes:
        columns: The names of the columns that were compared.
        removed: The number of rows that only the first version has.
        added: The number of rows that only the second version has.
        sample: The first changed rows, at most `most_rows`. Their value `_change_type` is DELETE or INSERT.
    """

    columns: tuple[str, ...]
    removed: int
    added: int
    sample: tuple[Mapping[str, Any], ...]
    _changes: RowComparison = field(repr=False)

    def to_arrow(self, identifier_columns: Sequence[str] = ()) -> Any:
        """Return all changed rows as a `pyarrow.Table`, with the column `_change_type`.

        Args:
            identifier_columns: If given, a removed and an added row with equal values in these columns become UPDATE_BEFORE and UPDATE_AFTER.

        Returns:
            The rows of all files. `_change_type` is DELETE, INSERT, UPDATE_BEFORE or UPDATE_AFTER.

        Raises:
            InvalidInputError: A column does not exist, or several removed or added rows are equal in these columns.
        """
        return self._changes.to_arrow(identifier_columns)

    def batches(self) -> Iterator[Any]:
        """Yield all changed rows as Arrow tables, file by file, so that they are not all in memory at once.

        Yields:
            The changed rows of one file; the column `_change_type` is DELETE or INSERT.
        """
        return self._changes.batches()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TableDiff(Reportable):
    """The differences of two versions of a table, or of two tables.

    Attributes:
        name: The names of both versions as text.
        before: The first version.
        after: The second version.
        history: The relation of the versions, and the snapshots between them.
        layout: Columns, partition spec, sort order, properties, branches and tags that differ.
        data_files: The counts of added, removed and kept data files.
        delete_files: The counts of added, removed and kept delete files. Each deletion vector counts as a file.
        partitions: The partitions that differ.
        columns: The columns whose statistics differ.
        rows: The changed rows; None if rows were not compared.
    """

    name: str
    before: DiffSide
    after: DiffSide
    history: VersionHistory
    layout: LayoutChanges
    data_files: FileDifference
    delete_files: FileDifference
    partitions: tuple[PartitionDifference, ...]
    columns: tuple[ColumnDifference, ...]
    rows: RowDiff | None
    _comparison: TableComparison

    def changes(self) -> Iterator[tuple[str, Change]]:
        """Yield every difference apart from rows, after the name of its section, such as `schema` or `property`."""
        return comparison_lines(self._comparison)

    def report(self, most: int | None = MOST_LINES) -> Report:
        relation = _RELATIONS[self.history.relation]
        if self.history.relation == "diverged":
            relation = f"both follow snapshot {self.history.common_snapshot_id}"
        parts: list[Part] = [Facts((("from", _side_text(self.before)), ("to", _side_text(self.after)), ("relation", relation)))]
        parts += _layout_parts(self.layout, most)
        if self.history.steps:
            parts.append(_steps_grid(self.history, most))
        parts += self._file_parts(most)
        if self.rows is not None:
            parts += _row_parts(self.rows, most)
        if len(parts) == 1:
            parts.append(Prose("Nothing differs."))
        return Report(f"diff of {self.name}", tuple(parts))

    def _file_parts(self, most: int | None) -> Iterator[Part]:
        kinds = (("data files", self.data_files), ("delete files", self.delete_files))
        rows = [
            (name, change, count_text(counts.files), count_text(counts.rows), size_text(counts.bytes))
            for name, difference in kinds
            for change, counts in (("added", difference.added), ("removed", difference.removed), ("kept", difference.kept))
            if counts.files
        ]
        numbers = tuple(Column(name, is_number=True) for name in ("count", "rows", "size"))
        if any(difference.added.files or difference.removed.files for _, difference in kinds):
            yield grid("files", (Column("files"), Column("change"), *numbers), rows, None)
        if self.partitions:
            columns = (
                Column("partition"),
                *(Column(name, is_number=True, rank=rank) for name, rank in (("rows from", 0), ("rows to", 0), ("rows +/-", 1))),
                *(Column(name, is_number=True, rank=rank) for name, rank in (("files from", 2), ("files to", 2), ("deletes +/-", 3))),
            )
            lines = [_partition_row(partition) for partition in self.partitions]
            yield grid("partitions that differ, by rows of their data files", columns, lines, most)
        if self.columns:
            lines = [
                (column.name, bounds_text(column.before) or "no column", bounds_text(column.after) or "no column")
                for column in self.columns
            ]
            title = "column statistics that differ, from the bounds and counts of data files"
            yield grid(title, (Column("column"), Column("from", rank=1), Column("to", rank=1)), lines, most)


def diff(
    a: TableReader,
    b: TableReader | None = None,
    *,
    from_version: int | str | None = None,
    to_version: int | str | None = None,
    rows: bool = False,
    columns: Sequence[str] | None = None,
    most_rows: int = MOST_ROWS,
    statistics: bool = True,
) -> TableDiff:
    """Compare two snapshots, branches or tags of a table, or two tables. Unless `rows` is true, only metadata is read.

    Args:
        a: The table of the first version.
        b: The table of the second version; by default the same table.
        from_version: The first version: a snapshot id, a branch or a tag of `a`; its current snapshot by default.
        to_version: The second version: a snapshot id, a branch or a tag of `b`; its current snapshot by default.
        rows: Compare rows too. Data files that only one version has, or that have different deletes, are read.
        columns: The columns in which rows are compared; by default all columns of the second version, or the common columns of two tables.
        most_rows: The greatest number of changed rows in `rows.sample`; all rows are counted, and `rows.batches()` returns all of them.
        statistics: Compare column statistics, which takes most of the time for a table of many files.

    Returns:
        The differences.

    Raises:
        NoSuchSnapshotError: A table does not have the snapshot, branch or tag.
        InvalidInputError: Neither a second table nor a version is given, or a column does not exist.
        SchemaMismatchError: A column of the two tables has types that cannot be compared.
        NoSuchFileError: A file that the metadata names does not exist.
        FormatError: A file is damaged, or violates the format.
    """
    if columns is not None and not rows:
        raise InvalidInputError("columns are named, and rows are not compared", next_step="pass rows=True")
    before, after, is_one_table = compared_versions(a, b, from_version, to_version)
    comparison = compare(before, after, is_one_table=is_one_table, statistics=statistics)
    changed = None
    if rows:
        changes = RowComparison(before, after, is_one_table=is_one_table, columns=columns)
        changed = RowDiff(
            columns=changes.columns,
            removed=changes.removed,
            added=changes.added,
            sample=tuple(changes.sample(most_rows)),
            _changes=changes,
        )
    return TableDiff(
        name=f"{before.label} and {after.label}",
        before=_side(before),
        after=_side(after),
        history=comparison.history,
        layout=comparison.layout,
        data_files=comparison.files.data_files,
        delete_files=comparison.files.delete_files,
        partitions=comparison.files.partitions,
        columns=comparison.files.columns,
        rows=changed,
        _comparison=comparison,
    )


def _side(version: TableVersion) -> DiffSide:
    return DiffSide(
        table=version.reader.full_name,
        version=version.name,
        snapshot_id=version.snapshot_id,
        timestamp_ms=None if version.snapshot is None else version.snapshot.timestamp_ms,
        schema_id=version.schema.schema_id,
        settings_known=version.settings is not None,
    )


def _side_text(side: DiffSide) -> str:
    version = f"{side.version}, " if side.version and side.version != str(side.snapshot_id) else ""
    snapshot = "no snapshot" if side.snapshot_id is None else f"snapshot {side.snapshot_id} of {time_text(side.timestamp_ms)}"
    return f"{side.table}, {version}{snapshot}"


def _layout_parts(layout: LayoutChanges, most: int | None) -> Iterator[Part]:
    columns = (Column("change"), Column("name"), Column("from", rank=1), Column("to", rank=1))
    settings = [
        change for change in (layout.format_version, layout.location, layout.partition_spec, layout.sort_order) if change is not None
    ]
    for title, changes in (
        ("columns", layout.schema),
        ("settings", settings),
        ("properties", layout.properties),
        ("branches and tags", layout.refs),
    ):
        if changes:
            lines = [
                (change.change, short_text(change.name), short_text(change.before or ""), short_text(change.after or ""))
                for change in changes
            ]
            yield grid(title, columns, lines, most)
    if not layout.settings_known:
        yield Prose("The metadata file of one of the versions is gone: what its spec, sort order, properties and refs were is not known.")


def _steps_grid(history: VersionHistory, most: int | None) -> Part:
    columns = (
        Column("in"),
        Column("snapshot", whole=True),
        Column("made", whole=True, rank=2),
        Column("operation"),
        *(Column(name, is_number=True, rank=1) for name in ("rows +", "rows -")),
        *(Column(name, is_number=True, rank=3) for name in ("files +", "files -")),
        Column("by", rank=4),
    )
    lines = [
        (
            "to" if step.side == "after" else "from",
            str(step.snapshot_id),
            time_text(step.timestamp_ms),
            short_text(step.operation or "unknown"),
            *(count_text(number or 0) for number in (step.added_rows, step.removed_rows, step.added_files, step.removed_files)),
            short_text(step.engine or ""),
        )
        for step in history.steps
    ]
    return grid("snapshots that only one of them has, oldest first", columns, lines, most)


def _partition_row(difference: PartitionDifference) -> tuple[str, ...]:
    return (
        short_text(difference.partition or "unpartitioned"),
        count_text(difference.before.rows),
        count_text(difference.after.rows),
        f"{difference.after.rows - difference.before.rows:+,}",
        count_text(difference.before.files),
        count_text(difference.after.files),
        f"{difference.after.deletes - difference.before.deletes:+,}",
    )


def _row_parts(rows: RowDiff, most: int | None) -> Iterator[Part]:
    yield Prose(f"{count_text(rows.removed, 'row')} removed and {count_text(rows.added, 'row')} added.")
    if rows.sample:
        columns = (Column("change"), *(Column(name, rank=place) for place, name in enumerate(rows.columns)))
        lines = [
            ("-" if row["_change_type"] == "DELETE" else "+", *(short_text(_value_text(row[name])) for name in rows.columns))
            for row in rows.sample
        ]
        yield grid("changed rows", columns, lines, most)


def _value_text(value: Any) -> str:
    return "null" if value is None else value.hex() if isinstance(value, bytes) else str(value)
