"""`ManifestCheck`: the check of one manifest, which runs in a thread or in a Spark task, and the digest of it that the rules across manifests need.

Each manifest is read and decoded once, however many snapshots have it. Spec: Manifests.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from icefloe.checks.entry_rules import EntryContext, EntryReport, check_entries
from icefloe.checks.finding import Finding, Findings, Severity
from icefloe.checks.manifest_entries import NO_NUMBER, ManifestEntries, read_manifest_entries
from icefloe.checks.manifest_header_rules import HeaderContext, header_findings
from icefloe.checks.manifest_row import ManifestRow
from icefloe.checks.manifest_rules import MANIFEST_DAMAGED, MANIFEST_MISSING, count_findings, exact_sum, length_findings, summary_findings
from icefloe.checks.metrics_rules import MetricsContext, check_metrics
from icefloe.checks.rule import FindingPlace, Level, Rule, value_text
from icefloe.errors import (
    FormatError,
    IcefloeError,
    InvalidInputError,
    NoSuchFileError,
    StorageError,
    StoragePermissionError,
    UnsupportedError,
    UnsupportedFeatureError,
)
from icefloe.spec.avro.avro_container import open_container
from icefloe.spec.manifest_list.manifest_file import ManifestFile
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.ports import FileIO
from icefloe.spec.types import StructType

NOT_CHECKED = Rule(
    id="not-checked",
    level=Level.MANIFEST,
    severity=Severity.WARNING,
    title="Every metadata file can be read by the one who validates: it is not encrypted, and access is allowed.",
    section="Encryption Keys",
    harm="None of itself; what the file holds is not validated.",
    next_step="validate the table with access to the file",
)
RULES = (NOT_CHECKED,)

# What an unreadable file raises, and what is a finding; that the storage does not respond ends the run.
UNREADABLE = (FormatError, UnsupportedError, NoSuchFileError, StoragePermissionError, InvalidInputError)
# Findings of one rule that are kept of one manifest, so that a table whose entries are all wrong does not make an object for each.
_MOST_OF_A_MANIFEST = 100
# An odd number that spreads the bits of another one.
_MIX = np.int64(-7046029254386353131)
_ENCRYPTED_MAGIC = b"AGS1"  # of an AES GCM stream. Spec: AES GCM Stream


class FileTotals(NamedTuple):
    """Counts of files, as in the summary of a snapshot."""

    data_files: int = 0
    records: int = 0
    delete_files: int = 0
    position_deletes: int = 0
    equality_deletes: int = 0
    bytes: int = 0

    def plus(self, other: "FileTotals") -> "FileTotals":
        """Return the sum of both."""
        return FileTotals(*map(sum, zip(self, other, strict=True)))


def total_of(counts: Iterable[FileTotals | None]) -> FileTotals:
    """Return the sum of counts; None counts as nothing."""
    total = FileTotals()
    for count in counts:
        total = total if count is None else total.plus(count)
    return total


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedManifest:
    """A manifest of a run: its number, its entry in a manifest list, and the first snapshot that has it."""

    number: int
    path: str
    row: ManifestRow
    snapshot_id: int

    def manifest_file(self) -> ManifestFile:
        """Return the manifest as readers take it."""
        return self.row.manifest_file(self.path, self.row.partition_spec_id or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestDigest:
    """The result of the check of one manifest.

    Attributes:
        number: That of the manifest.
        findings: Its findings.
        live: The counts of its live entries; None if it could not be read, or a status or content is wrong.
        added: The counts of its added entries.
        removed: The counts of its deleted entries.
        live_paths: The hashes of the paths of its live entries (int64).
        live_positions: The position of each in the manifest.
        live_keys: A hash of the path of each and of the snapshot that added it.
        live_sequence_numbers: The data sequence number of each.
        live_row_ids: The first row id of each, -1 for a file without; empty before version 3.
        live_records: The record count of each; empty before version 3.
    """

    number: int
    findings: Findings
    live: FileTotals | None = None
    added: FileTotals = field(default_factory=FileTotals)
    removed: FileTotals = field(default_factory=FileTotals)
    live_paths: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    live_positions: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    live_keys: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    live_sequence_numbers: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    live_row_ids: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    live_records: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))


@dataclass(frozen=True, slots=True)
class ReadManifest:
    """A manifest that was read: its length in bytes, its properties and its entries; or the error where it cannot be read."""

    manifest: ListedManifest
    length: int = 0
    header: Mapping[str, bytes] = field(default_factory=dict)
    partition_type: StructType = field(default_factory=StructType)
    entries: ManifestEntries | None = None
    error: IcefloeError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotManifests:
    """The manifests of one snapshot by their numbers, in the order of its manifest list; `is_whole` is false where some could not be read."""

    snapshot: Snapshot
    numbers: NDArray[np.int32]
    is_whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestCheck:
    """Checks manifests of one table. It pickles, because Spark's tasks receive it.

    Attributes:
        io: The storage.
        partition_types: The type of the partition tuples by spec id, of specs that can be read.
        header: What the properties of manifests are compared with.
        entries: What entries are compared with.
        metrics: The columns whose statistics are checked.
        most: How many findings of each rule are kept.
    """

    io: FileIO
    partition_types: Mapping[int, StructType]
    header: HeaderContext
    entries: EntryContext
    metrics: MetricsContext
    most: int

    def __call__(self, manifest: ListedManifest) -> ManifestDigest:
        """Return the findings and the digest of a manifest. A damaged manifest is a finding."""
        return self.check(self.read(manifest))

    def read(self, manifest: ListedManifest) -> ReadManifest:
        """Return the entries of a manifest, or the error where it cannot be read."""
        row = manifest.row
        try:
            content = read_plain(self.io, manifest.path)
            container = open_container(content, manifest.path)
            partition_type = self.partition_types.get(_spec_id(manifest, container.metadata), StructType())
            entries = read_manifest_entries(container, partition_type, row.sequence_number or 0, row.added_snapshot_id)
        except UNREADABLE as error:
            return ReadManifest(manifest, error=error)
        return ReadManifest(manifest, len(content), container.metadata, partition_type, entries)

    def check(self, loaded: ReadManifest) -> ManifestDigest:
        """Return the findings and the digest of a manifest that was read."""
        findings = Findings(most=min(self.most, _MOST_OF_A_MANIFEST))
        manifest, entries = loaded.manifest, loaded.entries
        row, place = manifest.row, FindingPlace(snapshot_id=manifest.snapshot_id, file=manifest.path)
        if entries is None:
            finding = unreadable(loaded.error, manifest.path, manifest.snapshot_id, MANIFEST_MISSING, MANIFEST_DAMAGED, "manifest")
            findings.add([finding])
            return ManifestDigest(number=manifest.number, findings=findings)
        findings.add(length_findings(row, loaded.length, place))
        findings.add(header_findings(loaded.header, row, self.header, place))
        findings.add(count_findings(row, entries, place))
        findings.add(summary_findings(row, entries, loaded.partition_type, place))
        report = EntryReport(findings, entries, manifest.path, manifest.snapshot_id, _version_of(loaded.header))
        check_entries(report, row, self.entries)
        check_metrics(report, self.metrics)
        return _digest(manifest, entries, findings, with_row_ids=self.entries.format_version > 2)


def _version_of(header: Mapping[str, bytes]) -> int:
    """Return the format version of a manifest's properties; 1 where it is missing."""
    text = header.get("format-version", b"1")
    return int(text) if text.isdigit() and len(text) < 10 else 1


def _spec_id(manifest: ListedManifest, header: Mapping[str, bytes]) -> int:
    """Return the spec id of the list, or for a manifest that an old snapshot names only by its path, that of the manifest's header."""
    if manifest.row.partition_spec_id is not None:
        return manifest.row.partition_spec_id
    text = header.get("partition-spec-id", b"0")
    return int(text) if text.isdigit() and len(text) < 10 else 0


def _digest(manifest: ListedManifest, entries: ManifestEntries, findings: Findings, *, with_row_ids: bool) -> ManifestDigest:
    live = entries.is_live
    # Of entries that are no files of the manifest's content, or of no known status, there is nothing to count.
    is_countable = (live | entries.is_deleted).all() and ((entries.file_content > 0) == (manifest.row.content == 1)).all()
    empty = np.empty(0, np.int64)
    # The deletion vectors of one Puffin file have one path and different offsets.
    paths = entries.path_hashes ^ (without_nulls(entries.numbers("content_offset")) * _MIX)
    return ManifestDigest(
        number=manifest.number,
        findings=findings,
        live=totals_of(entries, live) if is_countable else None,
        added=totals_of(entries, entries.is_added),
        removed=totals_of(entries, entries.is_deleted),
        live_paths=paths[live],
        live_positions=np.flatnonzero(live).astype(np.int32),
        live_keys=(paths ^ (entries.snapshot_ids * _MIX))[live],
        live_sequence_numbers=entries.data_sequence_numbers[live],
        live_row_ids=_row_ids(entries, manifest.row)[live] if with_row_ids else empty,
        live_records=without_nulls(entries.numbers("record_count"))[live] if with_row_ids else empty,
    )


def _row_ids(entries: ManifestEntries, row: ManifestRow) -> NDArray[np.int64]:
    """Return the first row id of each entry as readers assign it, -1 for a file without. Spec: First Row ID Inheritance."""
    if row.first_row_id is None or row.content:
        return np.full(entries.length, -1, np.int64)
    stored = entries.numbers("first_row_id")
    inherits = (stored == NO_NUMBER) & entries.is_live
    rows = np.where(inherits, without_nulls(entries.numbers("record_count")), 0)
    return np.where(inherits, row.first_row_id + np.cumsum(rows) - rows, np.maximum(stored, -1))


def totals_of(entries: ManifestEntries, mask: NDArray[np.bool_]) -> FileTotals:
    """Return the counts of the entries of a mask."""
    if not mask.any():
        return FileTotals()
    kinds, records, sizes = entries.file_content[mask], without_nulls(entries.numbers("record_count")[mask]), _sizes(entries)[mask]
    data, positions, equality = kinds == 0, kinds == 1, kinds == 2
    return FileTotals(
        data_files=int(data.sum()),
        records=exact_sum(records[data]),
        delete_files=int(positions.sum() + equality.sum()),
        position_deletes=exact_sum(records[positions]),
        equality_deletes=exact_sum(records[equality]),
        bytes=exact_sum(sizes),
    )


def _sizes(entries: ManifestEntries) -> NDArray[np.int64]:
    """Return the bytes of each file; of a deletion vector those of its blob. JAVA: ContentFileUtil.contentSizeInBytes."""
    sizes = without_nulls(entries.numbers("file_size_in_bytes"))
    blobs = entries.numbers("content_size_in_bytes")
    return np.where(blobs == NO_NUMBER, sizes, blobs)


def without_nulls(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return numbers with 0 for null."""
    return np.where(numbers == NO_NUMBER, 0, numbers)


def read_plain(io: FileIO, path: str) -> bytes:
    """Return the bytes of a file. Raises `UnsupportedFeatureError` for an encrypted one, and the errors of `FileIO.read`.

    A path that can be that of no file, such as a folder's or one that is too long, is a missing file: the storage is not at fault.
    """
    try:
        content = io.read(path)
    except StorageError as error:
        if type(error) is not StorageError:
            raise
        raise NoSuchFileError(error.message, path=path, next_step=error.next_step) from error
    if content.startswith(_ENCRYPTED_MAGIC):
        raise UnsupportedFeatureError("the file is encrypted", path=path)
    return content


def unreadable(error: IcefloeError | None, path: str, snapshot_id: int | None, missing: Rule, damaged: Rule, kind: str) -> Finding:
    """Return the finding of a file that cannot be read: that it is missing, is damaged, or could not be checked."""
    message = getattr(error, "message", str(error))
    problems = getattr(error, "problems", ())
    text = value_text(
        "; ".join([message.replace(path, "the file"), *(str(problem) for problem in problems if problem.what not in message)])
    )
    where = next((problem.where for problem in problems if problem.where), None)
    if isinstance(error, NoSuchFileError):
        return missing.finding(f"the {kind} {value_text(path)} does not exist", snapshot_id=snapshot_id, file=path)
    if isinstance(error, InvalidInputError) and not isinstance(error, FormatError):
        return missing.finding(f"the path {value_text(path)} of the {kind} is no location of a file", snapshot_id=snapshot_id, file=path)
    is_damaged = isinstance(error, FormatError) and not isinstance(error, UnsupportedError)
    rule = damaged if is_damaged else NOT_CHECKED
    return rule.finding(f"the {kind} {value_text(path)} cannot be read: {text}", snapshot_id=snapshot_id, file=path, where=where)
