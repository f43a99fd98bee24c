"""`MicroBatchPlanner`: divides the files that a table's snapshots added into batches of a stream, and plans the files of a batch.

A stream begins with all live files of the table's snapshot, or with the first snapshot after a time. Then it reads the files that each later snapshot of the
branch added. `StreamingOffset` is the end of a batch: a snapshot, and a position in the order of its files. The order is that of the manifest list, and within
a manifest that of its entries. The position of a manifest's first file is the number of live files in the manifests before it, by the counts of the list.
JAVA: MicroBatches numbers files in the same way.

Only manifest lists of snapshots in the batch, and manifests that these snapshots wrote, are read. Snapshots before the batch may have been expired.
Spec: Snapshots (`operation`); Scan Planning.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, takewhile
from typing import Any, Literal, NamedTuple

import pyarrow.compute as pc

from icefloe.errors import InvalidInputError, NoSuchSnapshotError
from icefloe.formatting import short_text, time_text
from icefloe.scan.live_deletes import LiveDeletes, read_deletes
from icefloe.scan.manifest_group import ManifestGroup
from icefloe.scan.pruning import ScanContext
from icefloe.scan.scan_plan import NO_FILES, FileCounts, PlannedFiles, ScanPlan
from icefloe.scan.scan_planner import with_used_deletes
from icefloe.scan.stream_rules import AFTER_MISSING, NO_LIMITS, READ_OVERWRITES, SKIP_DELETES, SKIP_OVERWRITES, ReadLimits, StreamRules
from icefloe.scan.streaming_offset import StreamingOffset
from icefloe.spec.expressions.predicate import AlwaysTrue
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.manifest.manifest_reader import ManifestColumnsCache, read_live_entries
from icefloe.spec.manifest_list.manifest_file import ManifestContent, ManifestFile
from icefloe.spec.metadata.encryption import refuse_encrypted
from icefloe.spec.metadata.snapshot import Operation, Snapshot, count_of
from icefloe.spec.metadata.snapshot_manifests import read_manifests
from icefloe.spec.metadata.table_history import ancestors
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.ports import Parallel, Read
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import StructType


class Backlog(NamedTuple):
    """The number of snapshots that a stream has not read or skipped completely, and the counts of the files that it will read of them."""

    snapshots: int
    counts: FileCounts


class SnapshotPart(NamedTuple):
    """Files of a snapshot: all live ones, those that it added, or none, with positions from `start` up to `end`. `end` is None for the last file."""

    snapshot: Snapshot
    kind: Literal["all", "added", "none"]
    start: int = 0
    end: int | None = None

    @property
    def is_whole(self) -> bool:
        """Whether these are all files of the kind."""
        return self.start == 0 and self.end is None


class _PlacedManifest(NamedTuple):
    """A data manifest, the position of its first file, and the position after its last file."""

    manifest: ManifestFile
    start: int
    end: int


@dataclass(frozen=True, kw_only=True)
class MicroBatchPlanner:
    """Plans the batches of a stream for one state of a table.

    Attributes:
        table_name: The name of the table, for errors.
        metadata: The metadata of the table.
        head: The head of the branch that the stream reads; None if there is none yet.
        rules: Which snapshots the stream reads.
        last: The snapshot after which nothing is read; None to read up to the head. Where it was expired or rolled back, the stream reads up to the newest
            snapshot of the branch that is not later.
        read: Returns the content of the file at a location.
        parallel: Reads several files at once.
        serial_bytes: If the manifests that must be decoded have at most this length in bytes, they are read one after the other.
        cache: A cache of decoded manifests; None decodes all of them.
        warn: Receives a text about snapshots that are skipped because they are missing.
    """

    table_name: str
    metadata: TableMetadata
    head: Snapshot | None
    rules: StreamRules
    read: Read
    last: Snapshot | None = None
    parallel: Parallel = map
    serial_bytes: int = 0
    cache: ManifestColumnsCache | None = None
    warn: Callable[[str], None] = lambda _: None
    _after_rollback = f"set {SKIP_DELETES}=true to continue with the snapshots after the rollback; or begin with a new checkpointLocation"
    _after_replacement = f"begin with a new checkpointLocation, to read all rows of the new table; or set {SKIP_DELETES}=true to continue with what it appends"

    def next_offset(self, start: StreamingOffset, limits: ReadLimits = NO_LIMITS) -> StreamingOffset:
        """Return the end of the batch that begins at `start`; `start` itself if there is nothing to read.

        A batch never passes the snapshot with which the stream begins, so that its end determines its begin. A batch ends before a snapshot that ends the
        stream, if there is anything before it.

        Args:
            start: The end of the last batch, or `START`.
            limits: The limits of the batch. Counts of whole snapshots are those of their summaries, if these have them.

        Raises:
            InvalidInputError: The next snapshot deletes or replaces rows, or the table was rolled back, and the rules do not allow it; or the table is another.
            NoSuchSnapshotError: Snapshots that the stream has not read were expired.
            ManifestFormatError: A manifest violates the format.
        """
        begin = self.begin() if start.is_start else start
        if begin is None:
            return start
        self._check_table(begin)
        parts = self._unread_parts(begin)
        offset, total = begin, NO_FILES
        for part in parts[:1] if begin.scan_all_files and start.is_start else parts:
            if offset is not begin and not self._is_allowed(part):
                break
            kind = self._kind(part)
            counts = NO_FILES if kind == "none" else self._summary_counts(part)
            if kind == "none" or limits.are_none or (counts is not None and limits.allow(total + counts)):
                total += counts or NO_FILES
                offset = self._complete(part)
                continue
            if total.files and not limits.allow(total + FileCounts(files=1)):
                break
            end, added = self._admit(part, total, limits)
            if end is None:
                total += added
                offset = self._complete(part)
                continue
            if added.files:
                offset = self._offset(part.snapshot, end, scan_all_files=part.kind == "all", is_complete=False)
            break
        if offset is begin:
            return start
        return replace(offset, begin=begin) if start.is_start else offset

    def plan(self, start: StreamingOffset, end: StreamingOffset, schema: Schema) -> ScanPlan:
        """Return the plan of the files between two offsets. Deletes apply as of the snapshot that added a file, or with which the stream begins.

        Args:
            start: The begin of the batch, or `START`.
            end: The end of the batch, which `next_offset` has returned for it.
            schema: The schema that the rows are read with.

        Raises:
            InvalidInputError: A snapshot deletes or replaces rows, and the rules do not allow it; the end has no begin; or the table is another.
            NoSuchSnapshotError: A snapshot of the batch was expired.
            ManifestFormatError: A manifest violates the format.
        """
        plans = list(self._plans(self._read_parts(start, end), schema))
        return unite_plans(plans, end.snapshot_id, schema)

    def _read_parts(self, start: StreamingOffset, end: StreamingOffset) -> list[SnapshotPart]:
        """Return the parts between two offsets that are read. Raises the errors of `plan`."""
        begin = end.begin if start.is_start else start
        if begin is None:
            raise InvalidInputError(
                f"the checkpoint of a stream of {self.table_name} has the end of the first batch but not its begin, as Java's Iceberg writes it",
                table=self.table_name,
                next_step="let the job with Java's Iceberg finish the batch, then continue from its checkpoint; or begin with a new checkpointLocation",
            )
        self._check_table(end)
        return [part for part in self._parts_between(begin, end) if self._kind(part) != "none"]

    def latest_offset(self) -> StreamingOffset | None:
        """Return the offset of a stream that has read everything; None without a snapshot."""
        return None if self._end is None else self._complete(SnapshotPart(self._end, "added"))

    def begin(self) -> StreamingOffset | None:
        """Return the offset at which the stream begins; None if there is no snapshot to read yet."""
        end, from_ms = self._end, self.rules.from_timestamp_ms
        if end is None or from_ms is None:
            return None if end is None else self._offset(end, 0, scan_all_files=True, is_complete=False)
        first: Snapshot | None = None
        for snapshot in ancestors(self.metadata, end.snapshot_id):
            if snapshot.timestamp_ms < from_ms:
                break
            first = snapshot
        if first is not None and first.parent_snapshot_id is not None and self.metadata.snapshot_by_id(first.parent_snapshot_id) is None:
            self.warn(
                f"the stream of {self.table_name} begins with snapshot {first.snapshot_id} of {time_text(first.timestamp_ms)}: snapshots before it were "
                f"expired, some of which may be of {time_text(from_ms)} or later"
            )
        return None if first is None else self._offset(first, 0, scan_all_files=False, is_complete=False)

    def backlog(self, offset: StreamingOffset) -> "Backlog":
        """Return what a stream has not read yet after an offset, up to a snapshot that ends the stream.

        Snapshots that are skipped, such as compactions, have no files to read. Counts of whole snapshots are those of their summaries; only the manifests of a
        snapshot that was read in part are read. Raises the errors of `next_offset` for missing snapshots.
        """
        begin = self.begin() if offset.is_start else offset
        parts = [] if begin is None else list(takewhile(self._is_allowed, self._unread_parts(begin)))
        counts = [self._rest_counts(part) if part.start else self._summary_counts(part) for part in parts if self._kind(part) != "none"]
        return Backlog(len(parts), sum((count or NO_FILES for count in counts), NO_FILES))

    def _check_table(self, offset: StreamingOffset) -> None:
        if offset.table_uuid is not None and offset.table_uuid != self.metadata.table_uuid:
            raise InvalidInputError(
                f"the checkpoint of the stream is of another table {self.table_name}, with the UUID {short_text(offset.table_uuid)}; the table was "
                f"dropped and created again, or replaced by another with this name",
                table=self.table_name,
                next_step="begin with a new checkpointLocation",
            )

    def _offset(self, snapshot: Snapshot, position: int, *, scan_all_files: bool, is_complete: bool) -> StreamingOffset:
        return StreamingOffset(
            snapshot_id=snapshot.snapshot_id,
            position=position,
            scan_all_files=scan_all_files,
            is_complete=is_complete,
            sequence_number=snapshot.sequence_number or None,
            timestamp_ms=snapshot.timestamp_ms,
            table_uuid=self.metadata.table_uuid or None,
        )

    def _complete(self, part: SnapshotPart) -> StreamingOffset:
        """Return the offset after the last file of a part's snapshot. Java needs its position, and Icefloe does not: Java would read the rest of the files."""
        is_all, summary = part.kind == "all", part.snapshot.summary
        count = count_of(summary.get(_SUMMARY_KEYS["all" if is_all else "added"][0]))
        if count is None:  # a summary without totals may lack counts that are not 0
            count = 0 if _TOTAL in summary else self._count_files(part.snapshot, only_added=not is_all)
        return self._offset(part.snapshot, max(count, part.start), scan_all_files=is_all, is_complete=True)

    def _count_files(self, snapshot: Snapshot, *, only_added: bool) -> int:
        """Return the number of live data files of a snapshot, or of those that it added, by its manifest list."""
        manifests, _ = self._manifests(SnapshotPart(snapshot, "added" if only_added else "all"))
        added_in = frozenset([snapshot.snapshot_id]) if only_added else None
        return sum(self._live_entries(placed.manifest, added_in).num_rows for placed in manifests)

    # -- which snapshots

    @cached_property
    def _later(self) -> Sequence[Snapshot]:
        """The snapshots of the branch after the last one that is read, newest first."""
        last = self.last
        if self.head is None or last is None:
            return ()
        return list(takewhile(lambda newer: newer.snapshot_id != last.snapshot_id and _is_later(newer, last), self._line(self.head)))

    @property
    def _end(self) -> Snapshot | None:
        """The newest snapshot that is read; None if there is none."""
        if not self._later:
            return self.head
        parent_id = self._later[-1].parent_snapshot_id
        return None if parent_id is None else self.metadata.snapshot_by_id(parent_id)

    def _unread_parts(self, begin: StreamingOffset) -> list[SnapshotPart]:
        """Return the parts after an offset up to the last snapshot that is read, oldest first."""
        if self.head is None:
            return []
        later = {snapshot.snapshot_id for snapshot in self._later}
        return list(takewhile(lambda part: part.snapshot.snapshot_id not in later, self._parts(begin, self.head)))

    def _line(self, head: Snapshot) -> Iterator[Snapshot]:
        """Yield a snapshot and its ancestors, newest first. The snapshot itself is not looked up, which takes an index of all snapshots."""
        return chain([head], ancestors(self.metadata, head.parent_snapshot_id))

    def _parts(self, begin: StreamingOffset, head: Snapshot) -> list[SnapshotPart]:
        """Return the parts after an offset up to a snapshot, oldest first. Only the snapshots of the parts are visited."""
        newer: list[Snapshot] = []
        for snapshot in self._line(head):
            if snapshot.snapshot_id == begin.snapshot_id:
                rest = [] if begin.is_complete else [SnapshotPart(snapshot, "all" if begin.scan_all_files else "added", begin.position)]
                return [*rest, *_added_by(newer)]
            newer.append(snapshot)
            if begin.is_complete and snapshot.parent_snapshot_id == begin.snapshot_id:
                return _added_by(newer)  # the snapshot of the offset may be expired
        oldest = newer[-1]
        first = self.metadata.snapshot_by_id(begin.snapshot_id)
        if first is None and oldest.parent_snapshot_id == begin.snapshot_id:
            return self._after_missing(begin, begin.snapshot_id, newer)
        are_later = [_is_later(snapshot, begin) for snapshot in newer]
        read = {snapshot.snapshot_id: snapshot.parent_snapshot_id for snapshot in ancestors(self.metadata, begin.snapshot_id)}
        # A tag may keep the snapshot of the offset while snapshots after it are expired.
        if oldest.parent_snapshot_id is not None and oldest.parent_snapshot_id not in read.values() and are_later[-1] is not False:
            return self._after_missing(begin, oldest.parent_snapshot_id, newer)
        is_new_line = oldest.parent_snapshot_id is None and oldest.snapshot_id not in read and are_later[-1] is not False
        self._refuse_other_line(begin, head, oldest if is_new_line else None)
        if first is None:
            return _added_by([snapshot for snapshot, is_later in zip(newer, are_later, strict=True) if is_later])
        return _added_by([snapshot for snapshot in newer if snapshot.snapshot_id not in read])

    def _after_missing(self, begin: StreamingOffset, missing_id: int, remaining: Sequence[Snapshot]) -> list[SnapshotPart]:
        """Return the parts with which a stream continues if snapshots that it needs are missing. Raises `NoSuchSnapshotError` unless the rules allow it."""
        self._refuse_missing(begin, missing_id, remaining[-1])
        return _added_by(remaining) if self.rules.on_missing == "oldest" else [SnapshotPart(remaining[0], "none")]

    def _parts_between(self, begin: StreamingOffset, end: StreamingOffset) -> list[SnapshotPart]:
        """Return the parts between two offsets of a batch."""
        head = self.head
        last = head if head is not None and head.snapshot_id == end.snapshot_id else self.metadata.snapshot_by_id(end.snapshot_id)
        end_position = None if end.is_complete else end.position
        if last is None:
            self._refuse_missing(begin, end.snapshot_id, None)
            return []
        if begin.snapshot_id == end.snapshot_id:
            if begin.is_complete:
                return []
            return [SnapshotPart(last, "all" if begin.scan_all_files else "added", begin.position, end_position)]
        *parts, final = self._parts(begin, last) or [SnapshotPart(last, "none")]
        return [*parts, final._replace(end=end_position)]

    def _refuse_other_line(self, begin: StreamingOffset, head: Snapshot, first_of_new: Snapshot | None) -> None:
        """Raise the error for a branch that does not have the snapshot of the offset, unless the rules allow to continue.

        After a rollback the branch has older snapshots of the same history. A table that was replaced keeps its UUID, and has a new history: `first_of_new` is
        its first snapshot, which has no parent and is later than the one that was read.
        """
        if self.rules.skips_deletes:
            return
        what = "the table was rolled back, or another branch is read; rows that were read are no longer in it"
        if first_of_new is not None:
            what = (
                "the table was replaced, as CREATE OR REPLACE TABLE does it: its history begins with snapshot "
                f"{first_of_new.snapshot_id}{_time(first_of_new.timestamp_ms)}, which has no parent, and rows that were read are no longer in it"
            )
        raise InvalidInputError(
            f"the stream of {self.table_name} has read snapshot {begin.snapshot_id}{_time(begin.timestamp_ms)}, which is no ancestor of the current "
            f"snapshot {head.snapshot_id}{_time(head.timestamp_ms)}: {what}",
            table=self.table_name,
            snapshot_id=begin.snapshot_id,
            next_step=self._after_rollback if first_of_new is None else self._after_replacement,
        )

    def _refuse_missing(self, begin: StreamingOffset, missing_id: int, oldest: Snapshot | None) -> None:
        """Raise the error for an expired snapshot that the stream needs, or warn if the rules allow to continue."""
        until = "" if oldest is None else f"; the oldest that remains is {oldest.snapshot_id}{_time(oldest.timestamp_ms)}"
        message = (
            f"the stream of {self.table_name} needs snapshot {missing_id}, which was expired or removed: it has read up to snapshot "
            f"{begin.snapshot_id}{_time(begin.timestamp_ms)}{until}"
        )
        if self.rules.on_missing != "fail":
            self.warn(f"{message}; it continues with the {self.rules.on_missing} snapshot, and rows in between are lost to it")
            return
        raise NoSuchSnapshotError(
            message,
            table=self.table_name,
            snapshot_id=missing_id,
            next_step=AFTER_MISSING,
        )

    def _kind(self, part: SnapshotPart) -> Literal["all", "added", "none"]:
        """Return which files of a part's snapshot are read by its operation and the rules.

        Raises:
            InvalidInputError: The rules do not allow the operation.
        """
        operation, rules = part.snapshot.operation, self.rules
        if part.kind != "added" or operation == Operation.APPEND:
            return part.kind
        if operation == Operation.REPLACE:
            return "none"
        if operation == Operation.DELETE:
            if rules.skips_deletes:
                return "none"
            options = f"{SKIP_DELETES}=true to ignore deletes"
        elif rules.reads_overwrites:
            return "added"
        elif rules.skips_overwrites:
            return "none"
        else:
            options = f"{READ_OVERWRITES}=true to read the rows that such snapshots added, or {SKIP_OVERWRITES}=true to ignore them"
        name = short_text(operation or "unknown")
        raise InvalidInputError(
            f"the stream of {self.table_name} cannot process the {name} snapshot {part.snapshot.snapshot_id}{_time(part.snapshot.timestamp_ms)}: a stream "
            "is of appended rows, and the snapshot may delete or replace rows",
            table=self.table_name,
            snapshot_id=part.snapshot.snapshot_id,
            next_step=f"set {options}",
        )

    def _is_allowed(self, part: SnapshotPart) -> bool:
        """Return False if a part's snapshot ends the stream."""
        try:
            self._kind(part)
        except InvalidInputError:
            return False
        return True

    # -- which files

    def _summary_counts(self, part: SnapshotPart) -> FileCounts | None:
        """Return the counts of a whole snapshot by its summary; None for a part of it, or if the summary lacks a count."""
        if not part.is_whole or part.kind == "none":
            return None
        files, records, size = (count_of(part.snapshot.summary.get(key)) for key in _SUMMARY_KEYS[part.kind])
        return None if files is None or records is None or size is None else FileCounts(files=files, records=records, bytes=size)

    def _rest_counts(self, part: SnapshotPart) -> FileCounts:
        """Return the counts of the files of a part from its start on."""
        data, _ = self._manifests(part)
        added_in = None if part.kind == "all" else frozenset([part.snapshot.snapshot_id])
        rest = ((placed.manifest, max(part.start - placed.start, 0)) for placed in data if placed.end > part.start)
        return sum((_counts_of(self._live_entries(manifest, added_in).slice(first)) for manifest, first in rest), NO_FILES)

    def _admit(self, part: SnapshotPart, total: FileCounts, limits: ReadLimits) -> tuple[int | None, FileCounts]:
        """Count through the files of a part as far as the limits allow.

        Returns:
            The position after the last file, or None if all files of the part are in the batch; and the counts of the files.
        """
        admitted, end = NO_FILES, part.start
        data, _ = self._manifests(part)
        for placed in data:
            if placed.end <= part.start:
                continue
            entries = self._live_entries(placed.manifest, None if part.kind == "all" else frozenset([part.snapshot.snapshot_id]))
            rows, sizes = (entries[name].to_pylist() for name in ("record_count", "file_size_in_bytes"))
            for place, (records, size) in enumerate(zip(rows, sizes, strict=True), placed.start):
                if place < part.start:
                    continue
                file = FileCounts(files=1, records=records, bytes=size)
                if (total + admitted).files and not limits.allow(total + admitted + file):
                    return end, admitted
                admitted, end = admitted + file, place + 1
        return None, admitted

    def _manifests(self, part: SnapshotPart) -> tuple[list[_PlacedManifest], list[ManifestFile]]:
        """Return the data manifests of a part's snapshot that have files of its kind; and the delete manifests whose deletes may apply to these files."""
        snapshot = part.snapshot
        refuse_encrypted(snapshot, self.table_name)
        data: list[_PlacedManifest] = []
        deletes, start = [], 0
        for manifest in read_manifests(snapshot, self.read):
            if part.kind == "added" and manifest.added_snapshot_id != snapshot.snapshot_id:
                continue
            if manifest.content is ManifestContent.DELETES:
                deletes.append(manifest)
                continue
            count = manifest.live_files_count
            if manifest.added_files_count is None or manifest.existing_files_count is None:
                count = self._live_entries(manifest, None).num_rows
            data.append(_PlacedManifest(manifest, start, start + count))
            start += count
        return data, deletes

    def _live_entries(self, manifest: ManifestFile, added_in: frozenset[int] | None) -> Any:
        return read_live_entries(
            [manifest], self.read, self._partition_types[manifest.partition_spec_id], added_in=added_in, cache=self.cache
        ).entries

    @cached_property
    def _partition_types(self) -> Mapping[int, StructType]:
        return self._context(self.metadata.schema(), None).partition_types

    def _context(self, schema: Schema, added_in: frozenset[int] | None) -> ScanContext:
        return ScanContext(
            metadata=self.metadata,
            schema=schema,
            bound=AlwaysTrue(),
            explain=False,
            include_statistics=False,
            find_covered=False,
            every_delete=False,
            added_in=added_in,
        )

    def _plans(self, parts: Sequence[SnapshotPart], schema: Schema) -> Iterator[ScanPlan]:
        """Yield plans of the files of the parts. Files without deletes are planned together: a plan costs about the same for one file as for thousands."""
        together: list[ManifestFile] = []
        ids: set[int] = set()
        for part, (data, deletes) in zip(
            parts, self.parallel(self._manifests, parts) if len(parts) > 1 else map(self._manifests, parts), strict=True
        ):
            if part.kind == "added" and part.is_whole and not deletes:
                together += [placed.manifest for placed in data]
                ids.add(part.snapshot.snapshot_id)
                continue
            context = self._context(schema, None if part.kind == "all" else frozenset([part.snapshot.snapshot_id]))
            live = read_deletes(context, deletes, self.read, map, self.cache) if deletes else None
            within = [placed for placed in data if placed.end > part.start and (part.end is None or placed.start < part.end)]
            whole = [placed.manifest for placed in within if placed.start >= part.start and (part.end is None or placed.end <= part.end)]
            yield self._plan_manifests(context, whole, live)
            for placed in within:
                if placed.start < part.start or (part.end is not None and placed.end > part.end):
                    yield self._plan_manifests(context, [placed.manifest], live, placed, part)
        if together:
            yield self._plan_manifests(self._context(schema, frozenset(ids)), together, None)

    def _plan_manifests(
        self,
        context: ScanContext,
        manifests: Sequence[ManifestFile],
        deletes: LiveDeletes | None,
        placed: _PlacedManifest | None = None,
        part: SnapshotPart | None = None,
    ) -> ScanPlan:
        """Return the plan of the files in manifests; of a single manifest `placed` only those of a part."""
        group = ManifestGroup(context, deletes, self.read, cache=self.cache)
        files: list[PlannedFiles] = []
        start = 0 if placed is None else placed.start
        for batch in group.plan(manifests, self.parallel, serial_bytes=self.serial_bytes):
            planned, count = batch.files, len(batch.files)
            if placed is not None and part is not None:
                first = min(max(part.start - start, 0), count)
                last = count if part.end is None else min(max(part.end - start, first), count)
                planned = planned.between(first, last)
            start += count
            files += [planned] if len(planned) else []
        parts, delete_files, _ = with_used_deletes(files, deletes)
        return ScanPlan(
            snapshot_id=None,
            schema=context.schema,
            row_filter=context.bound,
            parts=parts,
            manifests_total=len(manifests),
            manifest_bytes_read=sum(manifest.manifest_length for manifest in manifests),
            kept=sum((_counts_of(files.entries) for files in parts), NO_FILES),
            delete_files=delete_files,
            delete_files_considered=0 if deletes is None else deletes.total,
        )


# The keys of a summary that count the files of a part, their rows and their bytes, by the kind of the part.
_SUMMARY_KEYS = {
    "all": ("total-data-files", "total-records", "total-files-size"),
    "added": ("added-data-files", "added-records", "added-files-size"),
}
_TOTAL = _SUMMARY_KEYS["all"][0]


def _added_by(snapshots: Sequence[Snapshot]) -> list[SnapshotPart]:
    """Return parts of all files that snapshots added, in reverse order of the snapshots."""
    return [SnapshotPart(snapshot, "added") for snapshot in reversed(snapshots)]


def _time(timestamp_ms: int | None) -> str:
    return "" if timestamp_ms is None else f" of {time_text(timestamp_ms)}"


def _is_later(snapshot: Snapshot, other: Snapshot | StreamingOffset) -> bool | None:
    """Return whether a snapshot was committed after another, or after that of an offset; by its time in version 1. None if unknown, as for offsets of Java."""
    if other.sequence_number and snapshot.sequence_number:
        return snapshot.sequence_number > other.sequence_number
    return None if other.timestamp_ms is None else snapshot.timestamp_ms > other.timestamp_ms


def _counts_of(entries: Any) -> FileCounts:
    rows, size = (pc.sum(entries[name]).as_py() or 0 for name in ("record_count", "file_size_in_bytes"))
    return FileCounts(files=entries.num_rows, records=rows, bytes=size)


def unite_plans(plans: Sequence[ScanPlan], snapshot_id: int, schema: Schema) -> ScanPlan:
    """Return one plan of the files of several plans, whose delete files differ."""
    delete_files: list[DataFile] = []
    parts: list[PlannedFiles] = []
    for plan in plans:
        for part in plan.parts:
            parts.append(part if part.delete_indices is None else replace(part, delete_indices=part.delete_indices + len(delete_files)))
        delete_files += plan.delete_files
    return ScanPlan(
        snapshot_id=snapshot_id,
        schema=schema,
        row_filter=AlwaysTrue(),
        parts=tuple(part if part.delete_indices is None else replace(part, delete_files=delete_files) for part in parts),
        manifests_total=sum(plan.manifests_total for plan in plans),
        manifest_bytes_read=sum(plan.manifest_bytes_read for plan in plans),
        kept=sum((plan.kept for plan in plans), NO_FILES),
        delete_files=delete_files,
        delete_files_considered=sum(plan.delete_files_considered for plan in plans),
    )
