"""`validate_table`: the check of all rules on one table, from its metadata file to the entries of its manifests.

Every distinct manifest is read once, however many snapshots have it, in parallel threads or by a Spark job. Only a digest of its entries stays in memory. A
file that cannot be read is a finding, and the run continues with the others. Spec: Table Metadata; Snapshots; Manifest Lists; Manifests.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import islice
from typing import Any

import numpy as np

from icefloe.checks.data_file_rules import TableLayout
from icefloe.checks.delete_rules import DeleteCheck, SnapshotWithDeletes
from icefloe.checks.entry_rules import EntryContext
from icefloe.checks.file_check import FileCheck, check_files, run_check, tasks_of
from icefloe.checks.file_history_rules import FileHistory
from icefloe.checks.finding import MOST_FINDINGS, Finding, Findings
from icefloe.checks.layout_rules import layout_findings
from icefloe.checks.manifest_check import (
    UNREADABLE,
    ListedManifest,
    ManifestCheck,
    ManifestDigest,
    ReadManifest,
    SnapshotManifests,
    read_plain,
    total_of,
    unreadable,
)
from icefloe.checks.manifest_entries import read_paths
from icefloe.checks.manifest_header_rules import HeaderContext
from icefloe.checks.manifest_list_rules import LIST_DAMAGED, LIST_MISSING, contradictions, path_text, row_findings, twice_finding
from icefloe.checks.manifest_row import ManifestRow, read_rows
from icefloe.checks.metadata_rules import METADATA_DAMAGED, METADATA_MISSING, metadata_findings, unknown_version, unreadable_metadata
from icefloe.checks.metrics_rules import metrics_context
from icefloe.checks.rule import Depth
from icefloe.checks.snapshot_rules import snapshot_findings
from icefloe.checks.statistics_rules import statistics_field_findings, statistics_findings
from icefloe.checks.summary_rules import summary_findings
from icefloe.checks.table_content import TableContent, read_content
from icefloe.errors import MetadataFormatError, NoSuchSnapshotError
from icefloe.operations.available_engines import IN_PROCESS, engine_choice
from icefloe.operations.parallel_requests import MANIFEST_THREADS, side_by_side
from icefloe.spec.avro.avro_container import open_container
from icefloe.spec.metadata.entry_kinds import SORT_ORDERS
from icefloe.spec.metadata.json_file import inflate, parse_json, top_level
from icefloe.spec.metadata.metadata_writer import write_table_metadata
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.table_metadata import ROW_LINEAGE_VERSION, TableMetadata
from icefloe.spec.ports import FileIO
from icefloe.spec.types import StructType

_DIGITS = 20  # a snapshot id has fewer digits
# The most manifests that are read ahead of their check. A manifest of 8 MB takes some 50 MB of memory when it is decoded.
_MANIFESTS_AHEAD = 6
# The most manifests whose paths are cached while entries of several manifests are compared again.
_KEPT_MANIFESTS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationArguments:
    """Which snapshots of a table a validation checks, and how deep.

    Attributes:
        current_only: Validate only the current snapshot, not all snapshots of the metadata file.
        snapshot: Validate only this snapshot: its id, or the name of a branch or tag.
        depths: What is read beyond metadata.
        most_findings: How many findings of each rule are kept; further ones are only counted.
    """

    current_only: bool = False
    snapshot: str | None = None
    depths: frozenset[Depth] = frozenset()
    most_findings: int = MOST_FINDINGS


def depths_of(*, files: bool = False, data: bool = False, values: bool = False, orphans: bool = False) -> frozenset[Depth]:
    """Return the depths that the options of the same names choose: what a validation reads beyond metadata."""
    chosen = ((files, Depth.FILES), (data, Depth.DATA), (values, Depth.VALUES), (orphans, Depth.ORPHANS))
    return frozenset(depth for is_chosen, depth in chosen if is_chosen)


@dataclass(slots=True)
class ValidationProgress:
    """How many manifests and files of a running validation are done, and how many there are. Another thread may read it."""

    done: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationResult:
    """The findings of a run over one table, and how much was read.

    Attributes:
        table: The name of the table.
        metadata_location: The location of its metadata file.
        table_uuid: The uuid of the table; None if it is missing or cannot be read.
        snapshots: The number of snapshots that were read.
        manifests: The number of distinct manifests.
        files: The number of live entries of all these manifests.
        findings: The findings, from the metadata file down to the files; of each rule at most as many as the arguments allow.
        counts: The number of all findings by rule, including those that were not kept.
    """

    table: str
    metadata_location: str
    table_uuid: str | None = None
    snapshots: int = 0
    manifests: int = 0
    files: int = 0
    findings: tuple[Finding, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


def validate_table(
    table: str,
    metadata_location: str,
    io: FileIO,
    arguments: ValidationArguments | None = None,
    progress: ValidationProgress | None = None,
    sent: TableMetadata | None = None,
) -> ValidationResult:
    """Find the violations of all rules in one table.

    Args:
        table: The name of the table in findings.
        metadata_location: The location of its metadata file.
        io: The storage of its files.
        arguments: What is validated; by default all snapshots, and metadata only.
        progress: Is updated during the run.
        sent: The metadata that the server of the catalog sent, if its metadata file cannot be read (`has_no_file`); otherwise None.

    Raises:
        NoSuchSnapshotError: The table does not have the snapshot of the arguments.
        StorageUnavailableError: The storage does not respond.
    """
    run = _Run(table, metadata_location, io, arguments or ValidationArguments(), progress or ValidationProgress(), sent)
    return run.result()


class _Run:
    """One run of `validate_table`: it checks a table from the metadata file down to the data files, and collects the findings."""

    def __init__(
        self,
        table: str,
        location: str,
        io: FileIO,
        arguments: ValidationArguments,
        progress: ValidationProgress,
        sent: TableMetadata | None,
    ) -> None:
        self._table = table
        self._location = location
        self._io = io
        self._arguments = arguments
        self._progress = progress
        self._sent = sent
        self._uuid: str | None = None
        self._findings = Findings(table=table, most=arguments.most_findings)
        self._manifests: list[ListedManifest] = []
        self._numbers: dict[str, int] = {}
        self._paths_of = lru_cache(maxsize=_KEPT_MANIFESTS)(self._read_paths)

    def result(self) -> ValidationResult:
        content = self._content()
        if content is None:
            return self._result()
        for findings in (metadata_findings, layout_findings, snapshot_findings, statistics_field_findings):
            self._findings.add(findings(content))
        types = content.partition_types()
        numbers = content.sequence_numbers
        snapshots = [self._read_manifest_list(snapshot, content, types, numbers) for snapshot in self._snapshots_to_check(content)]
        digests = self._digests(content, types)
        self._across_manifests(content, snapshots, digests)
        self._check_deletes(snapshots, digests, content)
        if self._arguments.depths & {Depth.FILES, Depth.DATA, Depth.VALUES}:
            self._check_files(digests, content)
        return self._result(snapshots=len(snapshots), files=sum(len(digest.live_paths) for digest in digests))

    def _result(self, snapshots: int = 0, files: int = 0) -> ValidationResult:
        return ValidationResult(
            table=self._table,
            metadata_location=self._location,
            table_uuid=self._uuid,
            snapshots=snapshots,
            manifests=len(self._manifests),
            files=files,
            findings=tuple(self._findings.kept),
            counts=dict(self._findings.counts),
        )

    def _content(self) -> TableContent | None:
        """Return the readable parts of the metadata file; None, with a finding, if it is unreadable, is no JSON object, or has an unknown format version."""
        try:
            text = inflate(self._stored_metadata(), self._location)
            top_level(text, self._location)
            document = parse_json(text, self._location)
        except MetadataFormatError as error:
            self._findings.add([unreadable_metadata(error, self._location)])
            return None
        except UNREADABLE as error:
            self._findings.add([unreadable(error, self._location, None, METADATA_MISSING, METADATA_DAMAGED, "metadata file")])
            return None
        version = unknown_version(document, self._location)
        if version is not None:
            self._findings.add([version])
            return None
        content, findings = read_content(document, self._location)
        self._uuid = content.text("table-uuid")
        self._findings.add(findings)
        return content

    def _stored_metadata(self) -> bytes:
        return read_plain(self._io, self._location) if self._sent is None else write_table_metadata(self._sent)

    def _snapshots_to_check(self, content: TableContent) -> Iterable[Snapshot]:
        chosen = self._arguments.snapshot
        if chosen is not None:
            return [self._snapshot_of_reference(chosen, content)]
        if not self._arguments.current_only:
            return content.snapshots.values()
        current = content.snapshots.get(content.current_snapshot_id or 0)
        return [] if current is None else [current]

    def _snapshot_of_reference(self, name: str, content: TableContent) -> Snapshot:
        """Return the snapshot with a name: a branch, a tag, or an id as text.

        Raises:
            NoSuchSnapshotError: The table has no such snapshot.
        """
        ref = content.refs.get(name)
        is_id = name.isascii() and name.isdecimal() and len(name) < _DIGITS
        snapshot = content.snapshots.get(ref.snapshot_id if ref is not None else int(name) if is_id else -1)
        if snapshot is None:
            raise NoSuchSnapshotError(
                f"{self._table} has no snapshot, branch or tag {name!r}",
                table=self._table,
                next_step="choose one that icefloe log or icefloe refs lists",
            )
        return snapshot

    def _read_manifest_list(
        self, snapshot: Snapshot, content: TableContent, types: Mapping[int, StructType], sequence_numbers: Mapping[int, int]
    ) -> SnapshotManifests:
        """Return the manifests of a snapshot, and add the findings about its manifest list."""
        rows, is_whole = self._rows(snapshot)
        numbers: list[int] = []
        first_entries: dict[str, int] = {}
        for position, row in enumerate(rows):
            self._findings.add(row_findings(row, position, snapshot, content, types, sequence_numbers))
            path = path_text(row)
            if path is None or row.content not in (None, 0, 1):
                is_whole = False
                continue
            if path in first_entries:
                self._findings.add([twice_finding(row, position, first_entries[path], snapshot)])
                continue
            first_entries[path] = position
            numbers.append(self._number(path, row, position, snapshot))
        return SnapshotManifests(snapshot=snapshot, numbers=np.array(numbers, np.int32), is_whole=is_whole)

    def _number(self, path: str, row: ManifestRow, position: int, snapshot: Snapshot) -> int:
        number = self._numbers.get(path)
        if number is None:
            number = self._numbers[path] = len(self._manifests)
            self._manifests.append(ListedManifest(number=number, path=path, row=row, snapshot_id=snapshot.snapshot_id))
            return number
        known = self._manifests[number]
        if known.row != row:
            self._findings.add(contradictions(row, known.row, position, snapshot))
            # An upgrade to version 3 assigns a first row id to a manifest, which older manifest lists do not have. The entry with the id is kept.
            if known.row.first_row_id is None and row.first_row_id is not None:
                self._manifests[number] = replace(known, row=row, snapshot_id=snapshot.snapshot_id)
        return number

    def _rows(self, snapshot: Snapshot) -> tuple[list[ManifestRow], bool]:
        """Return the entries of a snapshot's manifest list, and whether the whole list could be read."""
        location = snapshot.manifest_list
        if location is None:
            paths = snapshot.manifest_paths or ()
            return [ManifestRow(path.encode("utf-8", "replace"), added_snapshot_id=snapshot.snapshot_id) for path in paths], True
        rows: list[ManifestRow] = []
        try:
            for row in read_rows(read_plain(self._io, location), location):
                rows.append(row)
        except UNREADABLE as error:
            self._findings.add([unreadable(error, location, snapshot.snapshot_id, LIST_MISSING, LIST_DAMAGED, "manifest list")])
            return rows, False
        return rows, True

    def _digests(self, content: TableContent, types: Mapping[int, StructType]) -> list[ManifestDigest]:
        """Return the digests of all manifests in their order, and add their findings."""
        numbers = sorted(content.sequence_numbers.items())
        check = ManifestCheck(
            io=self._io,
            partition_types=types,
            header=HeaderContext(format_version=content.format_version, specs=content.specs, schema=content.current_schema),
            entries=EntryContext(
                format_version=content.format_version,
                field_ids=frozenset(content.field_ids),
                keyless_field_ids=content.keyless_field_ids,
                sort_order_ids=frozenset((*content.ids(SORT_ORDERS), *content.sort_orders)),
                snapshot_ids=np.array([snapshot_id for snapshot_id, _ in numbers], np.int64),
                snapshot_numbers=np.array([number for _, number in numbers], np.int64),
            ),
            metrics=metrics_context(content),
            most=self._arguments.most_findings,
        )
        self._progress.total = len(self._manifests)
        digests = []
        for digest in self._check_manifests(check):
            self._findings.merge(digest.findings)
            self._progress.done += 1
            digests.append(digest)
        return digests

    def _check_manifests(self, check: ManifestCheck) -> Iterator[ManifestDigest]:
        """Yield the digests of all manifests. A Spark job computes them if a session runs and the manifests are large; otherwise this process does."""
        # The lengths of the manifest lists may be wrong; they only decide where the work is done.
        size = sum(max(0, manifest.row.manifest_length or 0) for manifest in self._manifests)
        engine = engine_choice().for_many(size, engine_choice().manifest_bytes)
        if engine is IN_PROCESS:
            return map(check.check, _read_ahead(check.read, self._manifests))
        return engine.map(check, self._manifests, f"validate the manifests of {self._table}")

    def _across_manifests(self, content: TableContent, snapshots: list[SnapshotManifests], digests: list[ManifestDigest]) -> None:
        whole = [
            snapshot for snapshot in snapshots if snapshot.is_whole and all(digests[number].live is not None for number in snapshot.numbers)
        ]
        live, added, removed = {}, {}, {}
        for planned in whole:
            snapshot_id = planned.snapshot.snapshot_id
            own_digests = [digests[number] for number in planned.numbers]
            own = [digest for digest in own_digests if self._manifests[digest.number].row.added_snapshot_id == snapshot_id]
            live[snapshot_id] = total_of(digest.live for digest in own_digests)
            added[snapshot_id] = total_of(digest.added for digest in own)
            removed[snapshot_id] = total_of(digest.removed for digest in own)
        self._findings.add(summary_findings(content, live, added, removed))
        most = self._arguments.most_findings
        files = FileHistory(digests, self._manifests, self._path_of)
        self._findings.add(files.twice(snapshots, most))
        self._findings.add(files.changed_numbers(most))
        if content.format_version >= ROW_LINEAGE_VERSION:
            self._findings.add(files.overlapping_row_ids(most))
            self._findings.add(files.changed_row_ids(most))

    def _path_of(self, number: int, position: int) -> str | None:
        """Return the path of an entry's file. The manifest is read again; None if it cannot be read."""
        paths = self._paths_of(number)
        path: str | None = paths[position].as_py() if position < len(paths) else None
        return path

    def _read_paths(self, number: int) -> Any:
        path = self._manifests[number].path
        try:
            return read_paths(open_container(read_plain(self._io, path), path))
        except UNREADABLE:
            return ()

    def _check_deletes(self, snapshots: Iterable[SnapshotManifests], digests: Sequence[ManifestDigest], content: TableContent) -> None:
        """Add the findings about the delete files of the snapshot to validate, or by default of the current snapshot and of each branch and tag."""
        heads = {ref.snapshot_id for ref in content.refs.values()} | {content.current_snapshot_id}
        check = DeleteCheck(read=partial(read_plain, self._io), partition_types=content.partition_types())
        checked = []
        for listed in snapshots:
            if listed.snapshot.snapshot_id in heads or self._arguments.snapshot is not None:
                sound = [number for number in listed.numbers.tolist() if digests[number].live is not None]
                manifests = [self._manifests[number].manifest_file() for number in sound]
                is_whole = listed.is_whole and len(sound) == len(listed.numbers)
                checked.append(SnapshotWithDeletes(snapshot_id=listed.snapshot.snapshot_id, manifests=manifests, is_whole=is_whole))
        self._findings.add(check.findings(checked))

    def _check_files(self, digests: Sequence[ManifestDigest], content: TableContent) -> None:
        """Add the findings about statistics files, data files and delete files."""
        layout, arguments = layout_of(self._io, content), self._arguments
        for part in side_by_side(run_check, statistics_findings(content, layout, arguments.depths)):
            self._findings.add(part)
        tasks = list(tasks_of(self._manifests, digests))
        self._progress.total += sum(len(task.positions) for task in tasks)
        check = FileCheck(layout=layout, partition_types=content.partition_types(), depths=arguments.depths, most=arguments.most_findings)
        for files, findings in check_files(check, tasks, f"validate the files of {self._table}"):
            self._findings.merge(findings)
            self._progress.done += files


def layout_of(io: FileIO, content: TableContent) -> TableLayout:
    """Return the schemas, specs, sort orders and other metadata of a table that the checks of its files need."""
    current = content.current_schema
    others = [schema for schema in reversed(list(content.schemas.values())) if schema is not current]
    return TableLayout(
        io=io,
        schemas=tuple(others if current is None else [current, *others]),
        specs=content.specs,
        sort_orders=content.sort_orders,
        name_mapping=content.name_mapping(),
        next_row_id=content.number("next-row-id") if content.format_version >= ROW_LINEAGE_VERSION else None,
    )


def _read_ahead(read: Callable[[ListedManifest], ReadManifest], manifests: Iterable[ListedManifest]) -> Iterator[ReadManifest]:
    """Yield the manifests in their order, reading some of them ahead in threads: reading mostly runs without Python's global lock, in parallel with checks."""
    remaining = iter(manifests)
    pool = ThreadPoolExecutor(MANIFEST_THREADS, thread_name_prefix="icefloe-validate")
    try:
        waiting = deque(pool.submit(read, manifest) for manifest in islice(remaining, _MANIFESTS_AHEAD))
        while waiting:
            loaded = waiting.popleft().result()
            waiting.extend(pool.submit(read, manifest) for manifest in islice(remaining, 1))
            yield loaded
    finally:
        pool.shutdown(cancel_futures=True)
