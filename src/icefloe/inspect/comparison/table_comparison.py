"""`compare`: all differences of two versions apart from rows, as a value, and as lines of text for SQL."""

from collections.abc import Iterator
from dataclasses import dataclass

from icefloe.errors import InvalidInputError
from icefloe.inspect.comparison.file_changes import ChangedFileCounts, ColumnBounds, FileDifferences, PartitionCounts, file_changes
from icefloe.inspect.comparison.layout_changes import ADDED, CHANGED, REMOVED, Change, LayoutChanges, layout_changes
from icefloe.inspect.comparison.table_version import TableVersion, table_version
from icefloe.inspect.comparison.version_history import VersionHistory, version_history
from icefloe.io.locations import is_same_folder
from icefloe.operations.loaded_table import TableReader


@dataclass(frozen=True, slots=True, kw_only=True)
class TableComparison:
    """The differences of two versions of a table, or of two tables, apart from rows.

    Attributes:
        before: The first version.
        after: The second version.
        is_one_table: Whether both are versions of the same table, according to its uuid.
        history: The relation of the versions, and the snapshots between them.
        layout: The differences of schema and settings.
        files: The differences of files, partitions and column statistics.
    """

    before: TableVersion
    after: TableVersion
    is_one_table: bool
    history: VersionHistory
    layout: LayoutChanges
    files: FileDifferences


def compared_versions(
    a: TableReader, b: TableReader | None, from_version: int | str | None, to_version: int | str | None
) -> tuple[TableVersion, TableVersion, bool]:
    """Return the two versions that are to be compared.

    Args:
        a: The table of the first version.
        b: The table of the second version; None for the same table.
        from_version: A snapshot id, a branch or a tag of the first table; None for its current snapshot.
        to_version: A snapshot id, a branch or a tag of the second table; None for its current snapshot.

    Returns:
        The two versions, and whether both are of the same table.

    Raises:
        InvalidInputError: Neither a second table nor a version is given.
        NoSuchSnapshotError: A table does not have the snapshot, branch or tag.
    """
    if b is None and from_version is None and to_version is None:
        raise InvalidInputError(
            f"nothing is named that {a.full_name} is compared with",
            table=a.full_name,
            next_step="name a snapshot, a branch or a tag, or another table",
        )
    other = a if b is None else b
    is_one_table = a.metadata.table_uuid == other.metadata.table_uuid and is_same_folder(a.metadata.location, other.metadata.location)
    return table_version(a, from_version), table_version(other, to_version), is_one_table


def compare(before: TableVersion, after: TableVersion, *, is_one_table: bool, statistics: bool = True) -> TableComparison:
    """Return all differences of two versions apart from rows.

    Args:
        before: The first version.
        after: The second version.
        is_one_table: Whether both are versions of the same table.
        statistics: Whether column statistics are compared, which takes most of the time.

    Raises:
        NoSuchFileError: A manifest list or manifest does not exist.
        FormatError: A manifest list or manifest is damaged, or violates the format.
    """
    return TableComparison(
        before=before,
        after=after,
        is_one_table=is_one_table,
        history=version_history(before, after, is_one_table=is_one_table),
        layout=layout_changes(before, after, is_one_table=is_one_table),
        files=file_changes(before, after, is_one_table=is_one_table, statistics=statistics),
    )


def comparison_lines(comparison: TableComparison) -> Iterator[tuple[str, Change]]:
    """Yield each difference after the name of its section: `schema`, `partition spec`, `property`, `ref`, `snapshot`, `data files`, ..."""
    layout, files = comparison.layout, comparison.files
    for change in layout.schema:
        yield "schema", change
    for setting in (layout.format_version, layout.location, layout.partition_spec, layout.sort_order):
        if setting is not None:
            yield setting.name, setting
    for section, changes in (("property", layout.properties), ("ref", layout.refs)):
        for change in changes:
            yield section, change
    for step in comparison.history.steps:
        text = f"{step.operation or 'unknown'}: {step.added_rows or 0} rows added, {step.removed_rows or 0} removed"
        is_added = step.side == "after"
        yield (
            "snapshot",
            Change(
                change=ADDED if is_added else REMOVED,
                name=str(step.snapshot_id),
                before=None if is_added else text,
                after=text if is_added else None,
            ),
        )
    for name, difference in (("data files", files.data_files), ("delete files", files.delete_files)):
        if difference.removed.files:
            yield name, Change(change=REMOVED, name=name, before=counts_text(difference.removed))
        if difference.added.files:
            yield name, Change(change=ADDED, name=name, after=counts_text(difference.added))
    for partition in files.partitions:
        yield (
            "partition",
            Change(
                change=CHANGED, name=partition.partition, before=partition_text(partition.before), after=partition_text(partition.after)
            ),
        )
    for column in files.columns:
        yield (
            "column statistics",
            Change(change=CHANGED, name=column.name, before=bounds_text(column.before), after=bounds_text(column.after)),
        )


def counts_text(counts: ChangedFileCounts) -> str:
    """Return counts as text, with exact numbers."""
    return f"{counts.files} files, {counts.rows} rows, {counts.bytes} bytes"


def partition_text(counts: PartitionCounts) -> str:
    """Return the counts of a partition as text, with exact numbers."""
    deletes = f", {counts.deletes} deletes" if counts.deletes else ""
    return f"{counts.files} files, {counts.rows} rows{deletes}, {counts.bytes} bytes"


def bounds_text(bounds: ColumnBounds | None) -> str | None:
    """Return the statistics of a column as text; None if the version does not have the column."""
    if bounds is None:
        return None
    return f"{bounds.lower} to {bounds.upper}, {'unknown' if bounds.nulls is None else bounds.nulls} nulls"
