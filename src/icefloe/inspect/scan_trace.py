"""Explanation of a scan: the steps from the catalog's entry to the data files; each manifest and file is kept or skipped with the bound that decided.

The planner (`scan`) makes the decisions; this module only shows them. Spec: Scan Planning.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from icefloe.display.figures.blocks import Blocks
from icefloe.display.report import Facts, Mark, Outline, Part, Report
from icefloe.display.reportable import MOST_LINES, Reportable
from icefloe.formatting import count_text, share_text, short_text, size_text, time_text, within
from icefloe.inspect.scan_figure import decision_level, file_level
from icefloe.inspect.table_overview import summary_number
from icefloe.operations.loaded_table import LoadedTable, TableReader
from icefloe.operations.metadata_cache import stored_size
from icefloe.scan.decisions import Decision, Decisions
from icefloe.scan.scan_plan import ScanPlan
from icefloe.spec.expressions.predicate import BooleanExpression
from icefloe.spec.metadata.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogLookup:
    """The look-up of the table in the catalog, and the metadata file that the catalog returned."""

    catalog: str
    sql: str
    metadata_location: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataRead:
    """The metadata file that was read. `file_size` is in bytes; None if the file no longer exists."""

    path: str
    file_size: int | None
    format_version: int
    current_snapshot_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRead:
    """The snapshot that was read, with its manifest list. `file_size` is the size of the manifest list in bytes."""

    snapshot_id: int
    timestamp_ms: int
    operation: str | None
    is_current: bool
    manifest_list: str | None
    file_size: int | None
    manifests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelDecisions:
    """The manifests or files that were kept and skipped at one level. Each decision becomes an object only when it is read from these sequences."""

    kept: Sequence[Decision]
    skipped: Sequence[Decision]

    def __len__(self) -> int:
        return len(self.kept) + len(self.skipped)

    def lines(self, start: int, count: int) -> list[Decision]:
        """Return a range of the decisions. The decisions about kept files come first.

        Args:
            start: The first decision, from 0.
            count: The greatest number of decisions.
        """
        skipped = max(0, start - len(self.kept))
        kept = list(self.kept[start : start + count])
        return [*kept, *self.skipped[skipped : skipped + count - len(kept)]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceTotals:
    """The totals of a scan. Sizes are in bytes.

    Files and rows in skipped manifests are counted by the manifest list. Their size is the rest of the total in the snapshot's summary; None if there is no
    total. Rows are counted before deletes. `records_read` are all rows of the kept files: how many of them match the filter is not known before they are read.
    Manifests include delete manifests; `delete_files` counts the live files of the delete manifests that were read.
    """

    data_files: int
    data_files_read: int
    data_files_in_skipped_manifests: int
    data_size: int | None
    data_size_read: int
    data_size_skipped: int | None
    records: int
    records_read: int
    records_skipped: int
    manifests: int
    manifests_read: int
    manifest_size_read: int
    manifest_size_skipped: int
    delete_files: int
    delete_files_read: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ScanTrace(Reportable):
    """A scan, step by step. The levels of deletes are empty for a table without delete files.

    `catalog` is None for a table that was opened by its metadata file, `snapshot` is None for a table without snapshots. If the catalog's server planned the
    scan, only the chosen files are known: there are no manifests, nothing is skipped, and the totals count only what is read.
    """

    table: str
    location: str
    where: str
    catalog: CatalogLookup | None
    metadata: MetadataRead
    snapshot: SnapshotRead | None
    manifests: LevelDecisions
    files: LevelDecisions
    delete_manifests: LevelDecisions
    delete_files: LevelDecisions
    totals: TraceTotals
    is_planned_by_server: bool = False

    def figure(self) -> Blocks:
        """Return the scan as a picture: at each level first the files that are read, then the skipped files."""
        levels = [] if self.catalog is None else [file_level("Catalog", self.catalog.catalog, "catalog", "one look-up")]
        levels.append(
            file_level("Metadata file", within(self.metadata.path, self.location), "metadata", size_text(self.metadata.file_size))
        )
        totals = self.totals
        if self.snapshot is not None:
            text = f"snapshot {self.snapshot.snapshot_id}, names {count_text(self.snapshot.manifests, 'manifest')}"
            if self.is_planned_by_server:
                levels.append(file_level("Server", f"snapshot {self.snapshot.snapshot_id}", "snapshot", "planned by the server"))
            else:
                levels.append(file_level("Manifest list", text, "snapshot", size_text(self.snapshot.file_size)))
                levels.append(decision_level("Manifests", self.manifests.kept, self.manifests.skipped, "manifest"))
            unread = totals.data_files_in_skipped_manifests
            levels.append(decision_level("Data files", self.files.kept, self.files.skipped, "data", unread))
            if self.delete_manifests.kept or self.delete_manifests.skipped:
                levels.append(decision_level("Delete manifests", self.delete_manifests.kept, self.delete_manifests.skipped, "delete"))
            if self.delete_manifests.kept or self.delete_manifests.skipped or self.delete_files.kept:
                levels.append(decision_level("Delete files", self.delete_files.kept, self.delete_files.skipped, "delete"))
        summary = (
            f"The server planned the scan, which reads {count_text(totals.data_files_read, 'data file')}, {size_text(totals.data_size_read)}."
            if self.is_planned_by_server
            else f"The scan opens {totals.manifests_read:,} of {count_text(totals.manifests, 'manifest')} and reads "
            f"{totals.data_files_read:,} of {count_text(totals.data_files, 'data file')}, {size_text(totals.data_size_read)}. "
            "Struck out is what it skips."
        )
        return Blocks(title=f"Scan of {short_text(self.table)}", summary=summary, levels=tuple(levels))

    def report(self, most: int | None = MOST_LINES) -> Report:
        steps: list[Part] = [self.figure(), self._catalog(), self._metadata(), self._snapshot()]
        if self.is_planned_by_server:
            steps.append(Outline("4. Plan", "planned by the server, which does not report what it skipped"))
            steps.append(self._decisions("5. Data files", "data file", self.files, most))
            if self.delete_files.kept:
                steps.append(self._decisions("6. Delete files", "delete file", self.delete_files, most))
        elif self.snapshot is not None:
            steps.append(self._decisions("4. Manifests", "manifest", self.manifests, most))
            steps.append(self._decisions("5. Data files", "data file", self.files, most))
            if self.delete_manifests.kept or self.delete_manifests.skipped:
                steps.append(self._decisions("6. Delete manifests", "delete manifest", self.delete_manifests, most))
                steps.append(self._decisions("7. Delete files", "delete file", self.delete_files, most))
            steps.append(self._totals(f"{len(steps)}. In all"))
        return Report(f"{self.table} where {self.where}", tuple(steps))

    def _catalog(self) -> Outline:
        if self.catalog is None:
            return Outline("1. Catalog", "none: the table was opened by its metadata file")
        lines = (
            Outline(" ".join(self.catalog.sql.split())),
            Outline(f"the row names {within(self.catalog.metadata_location, self.location)}"),
        )
        return Outline("1. Catalog", f"one look-up in {self.catalog.catalog}", lines)

    def _metadata(self) -> Outline:
        metadata = self.metadata
        current = f"current snapshot {metadata.current_snapshot_id}" if metadata.current_snapshot_id else "no snapshot yet: nothing to read"
        return Outline(
            "2. Metadata file",
            f"{within(metadata.path, self.location)}, {size_text(metadata.file_size)}, format version {metadata.format_version}",
            (Outline(current),),
        )

    def _snapshot(self) -> Outline:
        snapshot = self.snapshot
        if snapshot is None:
            return Outline("3. Snapshot", "none")
        if self.is_planned_by_server:
            return Outline(f"3. Snapshot {snapshot.snapshot_id}", f"{snapshot.operation or 'unknown'}, {time_text(snapshot.timestamp_ms)}")
        list_text = (
            f"manifest list {within(snapshot.manifest_list, self.location)}, {size_text(snapshot.file_size)}"
            if snapshot.manifest_list
            else "the snapshot itself"
        )
        current = "the current one, " if snapshot.is_current else ""
        return Outline(
            f"3. Snapshot {snapshot.snapshot_id}",
            f"{current}{snapshot.operation or 'unknown'}, {time_text(snapshot.timestamp_ms)}",
            (Outline(f"{list_text}: names {count_text(snapshot.manifests, 'manifest')}"),),
        )

    def _decisions(self, title: str, noun: str, level: LevelDecisions, most: int | None) -> Outline:
        return Outline(
            title, count_text(len(level), noun), (self._lines("kept", level.kept, most), self._lines("skipped", level.skipped, most))
        )

    def _lines(self, outcome: str, decisions: Sequence[Decision], most: int | None) -> Outline:
        lines = tuple(self._line(decision) for decision in decisions[:most])
        return Outline(f"{len(decisions):,} {outcome}", "", lines, more=len(decisions) - len(lines))

    def _line(self, decision: Decision) -> Outline:
        return Outline(
            f"{within(decision.path, self.location)}",
            f"{count_text(decision.records, 'row')}, {size_text(decision.bytes)}: {decision.explanation or decision.reason.value}",
            mark=Mark.KEPT if decision.kept else Mark.SKIPPED,
        )

    def _totals(self, title: str) -> Facts:
        totals = self.totals
        deletes = (("delete files to read", f"{totals.delete_files_read:,} of {totals.delete_files:,}"),) if totals.delete_files else ()
        share = (
            "" if totals.data_size is None or totals.data_size_skipped is None else share_text(totals.data_size_skipped, totals.data_size)
        )
        inside = totals.data_files_in_skipped_manifests
        return Facts(
            (
                ("data files to read", f"{totals.data_files_read:,} of {totals.data_files:,}"),
                ("bytes to read", f"{size_text(totals.data_size_read)} of {size_text(totals.data_size)}"),
                ("bytes that need not be read", size_text(totals.data_size_skipped) + (f", {share} of the data" if share else "")),
                (
                    "rows in the files to read",
                    f"{totals.records_read:,} of {totals.records:,}, {totals.records_skipped:,} ruled out unread"
                    + (", deleted ones included" if totals.delete_files else ""),
                ),
                *deletes,
                (
                    "manifests opened",
                    f"{totals.manifests_read:,} of {totals.manifests:,}"
                    + (f"; {count_text(inside, 'data file')} in the others were not read" if inside else ""),
                ),
            ),
            title,
        )


def trace(
    reader: TableReader, where: str | BooleanExpression | None = None, snapshot_id: int | None = None, *, tolerant: bool = False
) -> ScanTrace:
    """Plan a scan and return every step of it. No data file is opened.

    Args:
        reader: The table.
        where: The filter; None keeps every row.
        snapshot_id: The snapshot to read; None for the current one.
        tolerant: Warn about harmless deviations from the format instead of failing, as in `table.scan`.

    Returns:
        The steps, the decisions about manifests and files, and the totals.

    Raises:
        InvalidFilterError: The filter cannot be parsed, or does not fit the columns.
        NoSuchSnapshotError: The snapshot does not exist.
        NoSuchFileError: A file that the metadata names does not exist.
        AvroFormatError: A manifest or manifest list is damaged.
        ManifestFormatError: A manifest or manifest list violates the format.
    """
    scan = reader.scan(row_filter=where, snapshot_id=snapshot_id, tolerant=tolerant)
    plan, chosen = scan.plan(explain=True), scan.snapshot()
    return ScanTrace(
        table=reader.full_name,
        location=reader.location(),
        where=str(where) if where is not None else "TRUE",
        catalog=_catalog_lookup(reader),
        metadata=MetadataRead(
            path=reader.metadata_location,
            file_size=stored_size(reader.io, reader.metadata_location),
            format_version=reader.format_version,
            current_snapshot_id=reader.metadata.current_snapshot_id,
        ),
        snapshot=_snapshot_read(reader, chosen, plan) if chosen else None,
        manifests=_level("manifest", plan.decisions),
        files=_level("file", plan.decisions),
        delete_manifests=_level("delete manifest", plan.decisions),
        delete_files=_level("delete file", plan.decisions),
        totals=_totals(plan, chosen),
        is_planned_by_server=plan.is_planned_by_server,
    )


def _catalog_lookup(reader: TableReader) -> CatalogLookup | None:
    if not isinstance(reader, LoadedTable):
        return None
    stored = reader.handle.store.load(reader.handle.identifier)
    return CatalogLookup(catalog=reader.handle.store.name, sql=stored.lookup(), metadata_location=stored.metadata_location)


def _snapshot_read(reader: TableReader, chosen: Snapshot, plan: ScanPlan) -> SnapshotRead:
    return SnapshotRead(
        snapshot_id=chosen.snapshot_id,
        timestamp_ms=chosen.timestamp_ms,
        operation=chosen.operation,
        is_current=chosen.snapshot_id == reader.metadata.current_snapshot_id,
        manifest_list=chosen.manifest_list,
        file_size=stored_size(reader.io, chosen.manifest_list) if chosen.manifest_list and not plan.is_planned_by_server else None,
        manifests=plan.manifests_total,
    )


def _level(level: str, decisions: Decisions) -> LevelDecisions:
    return LevelDecisions(kept=decisions.of_level(level, kept=True), skipped=decisions.of_level(level, kept=False))


def _totals(plan: ScanPlan, chosen: Snapshot | None) -> TraceTotals:
    considered_size = plan.bytes_kept + plan.bytes_skipped
    # If no manifest was skipped, the total is the sum of all files; otherwise only the snapshot's summary has it.
    # The summary counts data files and delete files together, so that it is used only if there are no delete files.
    stated = summary_number(chosen.summary, "total-files-size") if chosen and not plan.delete_manifests_total else None
    data_size = stated if plan.files_in_skipped_manifests else considered_size
    return TraceTotals(
        data_files=plan.files_considered + plan.files_in_skipped_manifests,
        data_files_read=plan.files_kept,
        data_files_in_skipped_manifests=plan.files_in_skipped_manifests,
        data_size=data_size,
        data_size_read=plan.bytes_kept,
        data_size_skipped=None if data_size is None else max(0, data_size - plan.bytes_kept),
        records=plan.records_before_deletes + plan.records_skipped + plan.records_in_skipped_manifests,
        records_read=plan.records_before_deletes,
        records_skipped=plan.records_skipped + plan.records_in_skipped_manifests,
        manifests=plan.manifests_total,
        manifests_read=plan.manifests_read,
        manifest_size_read=plan.manifest_bytes_read,
        manifest_size_skipped=plan.manifest_bytes_skipped,
        delete_files=plan.delete_files_considered,
        delete_files_read=len(plan.delete_files),
    )
