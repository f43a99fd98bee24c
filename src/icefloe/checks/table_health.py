"""Health of a table: measures of what slows its readers down, each with the threshold from which the table needs care, and the reason.

`icefloe.maintenance.health_measures` counts the measures; `table.maintenance.maintain()` decides by the same measures.
Spec: Scan Planning; Snapshot Retention Policy.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from icefloe.checks.issue import MOST_PLACES, Issue, Remedy, Weight
from icefloe.display.figures.bars import Bar, Bars
from icefloe.display.report import Column, Facts, Grid, Part, Prose, Report, grid
from icefloe.display.reportable import MOST_LINES, Reportable
from icefloe.formatting import count_text, share_text, short_text, size_text, time_text
from icefloe.maintenance.clustering_depth import LEAST_DEPTH
from icefloe.maintenance.health_measures import (
    MIB,
    SIZE_CLASSES,
    ColumnClustering,
    FilesOfBranch,
    PartitionMeasures,
    TableMeasures,
    files_of_branch,
    measure,
)
from icefloe.maintenance.maintenance_thresholds import METADATA_FILE_BYTES, has_too_many_manifests
from icefloe.maintenance.rewrite_options import DELETE_RATIO_THRESHOLD, MIN_INPUT_FILES
from icefloe.operations.loaded_table import TableReader
from icefloe.operations.metadata_cache import stored_size
from icefloe.spec.manifest_list.manifest_file import ManifestContent
from icefloe.spec.metadata.maintenance_properties import MaintenanceAction
from icefloe.spec.metadata.snapshot_ref import MAIN


class HealthState(StrEnum):
    """Whether a measure of a table's health needs care, because it reached its threshold."""

    GOOD = "good"
    NEEDS_CARE = "needs care"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthMeasure:
    """One measure of the health of a table.

    Attributes:
        name: What is measured.
        value: The measured number; None if it is unknown.
        shown: The number as text, with its unit.
        threshold: The number from which the table needs care, as text.
        state: Whether the measure needs care.
        reason: Why the measure matters to readers; if the number is unknown, why it is unknown.
        remedy: The command that improves the measure, without `icefloe` and the table; empty if there is none.
    """

    name: str
    value: float | None
    shown: str
    threshold: str
    state: HealthState
    reason: str
    remedy: str
    _issue: Issue | None = None  # None unless the measure needs care


@dataclass(frozen=True, slots=True, kw_only=True)
class HistogramClass:
    """A class of file sizes: the files of less than `below` bytes that no smaller class has. `below` is None for the largest class."""

    below: int | None
    files: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TableHealth(Reportable):
    """The health of a branch of a table, with its measures.

    Attributes:
        table: The name of the table.
        branch: The branch that was measured.
        snapshot_id: The head of the branch; None for a table without snapshots.
        files: The number of live data files.
        size_in_bytes: The total size of the live data files.
        records: The number of rows in the live data files, deleted rows included.
        measures: Every measure with its threshold.
        file_sizes: The histogram of the sizes of all live data files.
        partitions: The partitions in which compaction would reduce the number of files most, each with its histogram in the classes of `file_sizes`.
        partition_count: The number of all partitions.
        clustering: How far the ranges of values of a column in different files overlap, for each measured column.
    """

    table: str
    branch: str
    snapshot_id: int | None
    files: int
    size_in_bytes: int
    records: int
    measures: tuple[HealthMeasure, ...]
    file_sizes: tuple[HistogramClass, ...]
    partitions: tuple[PartitionMeasures, ...]
    partition_count: int
    clustering: tuple[ColumnClustering, ...]

    @property
    def needs_care(self) -> tuple[HealthMeasure, ...]:
        """The measures that reached their thresholds."""
        return tuple(measure for measure in self.measures if measure.state is HealthState.NEEDS_CARE)

    @property
    def issues(self) -> tuple[Issue, ...]:
        """The measures that reached their thresholds, as issues of the table."""
        return tuple(measure._issue for measure in self.measures if measure._issue is not None)

    def report(self, most: int | None = MOST_LINES) -> Report:
        facts = Facts(
            (
                ("branch", self.branch),
                ("snapshot", "none" if self.snapshot_id is None else str(self.snapshot_id)),
                ("data files", f"{count_text(self.files)}, {size_text(self.size_in_bytes)}, {count_text(self.records, 'row')}"),
            )
        )
        parts: list[Part] = [facts, self._measure_grid()]
        if self.files:
            parts.append(self.size_figure())
        parts.append(self._size_grid(most))
        if self.clustering:
            parts.append(self._clustering_grid())
        count = len(self.needs_care)
        parts.append(
            Prose(f"{count_text(count, 'measure')} {'needs' if count == 1 else 'need'} care.") if count else Prose("Nothing needs care.")
        )
        return Report(f"health of {self.table}", tuple(parts))

    def size_figure(self) -> Bars:
        """Return the sizes of the data files as a histogram."""
        bars = tuple(Bar(name=_class_text(sizes.below), count=sizes.files) for sizes in self.file_sizes)
        small = next((measure for measure in self.measures if measure.name == "small files"), None)
        summary = f"{count_text(self.files, 'data file')}, {size_text(self.size_in_bytes)}" + (
            f"; small ones: {small.shown}" if small else ""
        )
        return Bars(title=f"Sizes of data files of {short_text(self.table)}", summary=f"{summary}.", bars=bars, unit="files", axis="size")

    def _measure_grid(self) -> Grid:
        columns = (
            Column("measure"),
            Column("value", is_number=True),
            Column("needs care from", rank=2),
            Column("state"),
            Column("reason", rank=1),
            Column("remedy", rank=3),
        )
        rows = [
            (measure.name, measure.shown, measure.threshold, measure.state.value, measure.reason, measure.remedy)
            for measure in self.measures
        ]
        return grid("", columns, rows, None)

    def _size_grid(self, most: int | None) -> Grid:
        columns = (
            Column("partition"),
            Column("files", is_number=True),
            Column("at best", is_number=True),
            Column("size", is_number=True, rank=1),
            Column("deleted rows", is_number=True, rank=2),
            *(Column(_class_text(sizes.below), is_number=True, rank=3) for sizes in self.file_sizes),
        )
        total = (
            "all",
            count_text(self.files),
            "",
            size_text(self.size_in_bytes),
            "",
            *(count_text(sizes.files) for sizes in self.file_sizes),
        )
        rows = [
            (
                short_text(partition.partition) or "unpartitioned",
                count_text(partition.files),
                count_text(partition.best_files),
                size_text(partition.size_in_bytes),
                share_text(partition.deleted_rows, partition.records),
                *map(count_text, partition.files_by_size),
            )
            for partition in self.partitions
        ]
        shown = grid(f"file sizes ({count_text(self.partition_count, 'partition')})", columns, [total, *rows], most)
        return Grid(shown.title, shown.columns, shown.rows, self.partition_count + 1 - len(shown.rows))

    def _clustering_grid(self) -> Grid:
        columns = (
            Column("column"),
            Column("mean depth", is_number=True),
            Column(f"files of depth {LEAST_DEPTH} or more", is_number=True),
            Column("sort key"),
        )
        rows = [
            (
                short_text(clustering.column),
                f"{clustering.mean_depth:.2f}",
                count_text(clustering.deep_files),
                "yes" if clustering.is_sort_key else "no",
            )
            for clustering in self.clustering
        ]
        return grid("clustering", columns, rows, None)


def health(reader: TableReader, branch: str = MAIN, columns: Sequence[str] | None = None) -> TableHealth:
    """Measure the health of a branch of a table. The manifests of its head are read; no data file is opened.

    Args:
        reader: The table.
        branch: The name of the branch.
        columns: Top-level columns of primitive types whose clustering is measured. By default four: those of the sort order, then the first of the schema.

    Returns:
        The health with all measures and their thresholds.

    Raises:
        NoSuchSnapshotError: The branch does not exist.
        InvalidSchemaError: There is no such column.
        InvalidInputError: A column is nested or not of a primitive type.
        InvalidPropertyError: A table property that has a threshold has an invalid value.
        NoSuchFileError: A manifest list or manifest does not exist.
        AvroFormatError, ManifestFormatError: A manifest or manifest list is damaged.
    """
    metadata = reader.metadata
    scan = reader.scan().use_ref(branch) if metadata.refs else reader.scan()
    return health_of_files(reader, branch, files_of_branch(metadata, scan.snapshot(), reader.io.read, columns))


def health_of_files(reader: TableReader, branch: str, files: FilesOfBranch) -> TableHealth:
    """Measure the health of a branch whose files are planned already.

    Args:
        reader: The table.
        branch: The name of the branch.
        files: The live files of the branch.

    Raises:
        InvalidPropertyError: A table property that has a threshold has an invalid value.
    """
    counted = measure(files, max(int(time.time() * 1000), reader.metadata.last_updated_ms))
    return TableHealth(
        table=reader.full_name,
        branch=branch,
        snapshot_id=counted.snapshot_id,
        files=counted.files,
        size_in_bytes=counted.size_in_bytes,
        records=counted.records,
        measures=tuple(_measures(counted, reader)),
        file_sizes=tuple(
            HistogramClass(below=below, files=count) for below, count in zip((*SIZE_CLASSES, None), counted.files_by_size, strict=True)
        ),
        partitions=counted.partitions,
        partition_count=counted.partition_count,
        clustering=counted.clustering,
    )


def _measures(counted: TableMeasures, reader: TableReader) -> Iterator[HealthMeasure]:
    yield from _file_measures(counted)
    yield from _clustering_measures(counted)
    for manifest in counted.manifests:
        of_deletes = manifest.content is ManifestContent.DELETES
        yield _measure(
            f"{'delete' if of_deletes else 'data'} manifests of spec {manifest.spec_id}",
            manifest.manifests,
            f"{manifest.manifests:,} of {size_text(manifest.size_in_bytes)}, at best {manifest.best_manifests:,}",
            "more than twice the best number",
            "a scan opens every manifest that its filter does not rule out",
            Remedy(operation=MaintenanceAction.REWRITE_MANIFESTS),
            needs_care=has_too_many_manifests(manifest.manifests, manifest.best_manifests),
        )
    yield _measure(
        "snapshots to expire",
        len(counted.expirable.snapshot_ids),
        f"{len(counted.expirable.snapshot_ids):,} of {counted.snapshots:,}"
        + ("" if counted.oldest_snapshot_ms is None else f", the oldest of {time_text(counted.oldest_snapshot_ms)}"),
        "1, by the table's retention policy",
        "every commit writes all snapshots again, and their files are kept",
        Remedy(operation=MaintenanceAction.EXPIRE_SNAPSHOTS),
        needs_care=bool(counted.expirable),
    )
    size = stored_size(reader.io, reader.metadata_location)
    yield _measure(
        "metadata file",
        size,
        size_text(size),
        size_text(METADATA_FILE_BYTES),
        "every reader loads it, and every commit writes it again",
        Remedy(operation=MaintenanceAction.EXPIRE_SNAPSHOTS, properties={"write.metadata.compression-codec": "gzip"}),
        needs_care=(size or 0) >= METADATA_FILE_BYTES,
    )
    yield HealthMeasure(
        name="orphan files",
        value=None,
        shown="unknown",
        threshold="1",
        state=HealthState.UNKNOWN,
        reason="the table's folder was not listed",
        remedy="",
    )


def _file_measures(counted: TableMeasures) -> Iterator[HealthMeasure]:
    yield _measure(
        "small files",
        counted.mergeable_files,
        f"{counted.mergeable_files:,} of {counted.files:,}",
        f"{MIN_INPUT_FILES.default} in one partition",
        "a scan opens each of them, which takes as long as reading some megabytes",
        Remedy(operation=MaintenanceAction.REWRITE_DATA_FILES),
        needs_care=counted.mergeable_files > 0,
        places=[
            f"{short_text(partition.partition) or 'unpartitioned'}: {partition.small_files:,} small of {count_text(partition.files, 'file')}, "
            f"{count_text(partition.best_files, 'file')} would do"
            for partition in counted.partitions
            if partition.files > partition.best_files and partition.small_files > 1
        ],
    )
    yield _measure(
        "deleted rows",
        counted.deleted_rows,
        f"{share_text(counted.deleted_rows, counted.records)}; {count_text(counted.deleted_files, 'file')} above the threshold",
        f"{100 * DELETE_RATIO_THRESHOLD.default:.0f} % of a file",
        "they are read and dropped again by every scan",
        Remedy(operation=MaintenanceAction.REWRITE_DATA_FILES),
        needs_care=counted.deleted_files > 0,
        places=[
            f"{short_text(partition.partition) or 'unpartitioned'}: {partition.deleted_rows:,} of {count_text(partition.records, 'row')} deleted"
            for partition in sorted(counted.partitions, key=lambda partition: -partition.deleted_rows / max(partition.records, 1))
            if partition.deleted_rows
        ],
    )
    equality = counted.delete_files["equality"]
    yield _measure(
        "equality delete files",
        equality,
        count_text(equality),
        "1",
        "every scan compares their keys with all rows that may have them",
        Remedy(operation=MaintenanceAction.CONVERT_EQUALITY_DELETES),  # compaction leaves equality deletes of files of the right size
        needs_care=equality > 0,
    )
    dangling = counted.dangling_deletes
    yield _measure(
        "dangling delete files",
        dangling,
        count_text(dangling),
        "1",
        "they apply to no data file, and every scan plans them" if dangling is not None else "the manifest list has no counts",
        Remedy(operation=MaintenanceAction.REMOVE_DANGLING_DELETES),
        needs_care=None if dangling is None else dangling > 0,
        shown_by=("dangling-delete", "dangling-vector"),
    )


def _clustering_measures(counted: TableMeasures) -> Iterator[HealthMeasure]:
    for clustering in counted.clustering:
        if clustering.is_sort_key:
            yield _measure(
                f"clustering by {short_text(clustering.column)}",
                clustering.mean_depth,
                f"depth {clustering.mean_depth:.2f}; {clustering.deep_files:,} of {count_text(clustering.measured_files, 'file')} above the threshold",
                f"a depth of {LEAST_DEPTH}",
                "a filter on the sort key reads as many files as overlap",
                Remedy(operation=MaintenanceAction.REWRITE_DATA_FILES, options={"strategy": "sort"}),
                needs_care=clustering.deep_files > 0,
            )


def _measure(
    name: str,
    value: float | None,
    shown: str,
    threshold: str,
    reason: str,
    remedy: Remedy,
    *,
    needs_care: bool | None,
    places: Sequence[str] = (),
    shown_by: Sequence[str] = (),
) -> HealthMeasure:
    """Return a measure with its issue, if it needs care.

    Args:
        name: What is measured.
        value: The measured number; None if it is unknown.
        shown: The number as text, with its unit.
        threshold: The number from which the table needs care, as text.
        reason: Why the measure matters to readers.
        remedy: The operation that improves the measure.
        needs_care: Whether the number reached the threshold; None if the number is unknown.
        places: The worst partitions, as text.
        shown_by: The ids of rules whose findings are about the same problem.
    """
    state = HealthState.UNKNOWN if needs_care is None else HealthState.NEEDS_CARE if needs_care else HealthState.GOOD
    issue = Issue(
        weight=Weight.CARE,
        title=f"{name.capitalize()}: {shown}",
        detail=f"{reason.capitalize()}. Needs care from {threshold} on.",
        places=tuple(places[:MOST_PLACES]),
        remedy=remedy,
        shown_by=frozenset(shown_by),
    )
    return HealthMeasure(
        name=name,
        value=value,
        shown=shown,
        threshold=threshold,
        state=state,
        reason=reason,
        remedy=str(remedy),
        _issue=issue if needs_care else None,
    )


def _class_text(below: int | None) -> str:
    return f"< {below // MIB} MiB" if below is not None else f"≥ {SIZE_CLASSES[-1] // MIB} MiB"
