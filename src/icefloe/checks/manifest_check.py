"""`ManifestCheck`: the check of one manifest, which runs in a thread or in a Spark task. It returns a digest, which the rules across manifests need.

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

# Errors of a file that cannot be read, which become a finding. A storage that does not respond is not among them: that error ends the run.
UNREADABLE = (FormatError, UnsupportedError, NoSuchFileError, StoragePermissionError, InvalidInputError)
# The most findings of one rule that are kept of one manifest, so that a table with only wrong entries does not make an object for each entry.
_MOST_OF_A_MANIFEST = 100
# An odd factor that spreads the bits of a hash.
_MIX = np.int64(-7046029254386353131)
_ENCRYPTED_MAGIC = b"AGS1"  # the first bytes of an AES GCM stream. Spec: AES GCM Stream


class FileTotals(NamedTuple):
    """Counts of files and records, as in the summary of a snapshot."""

    data_files: int = 0
    records: int = 0
    delete_files: int = 0
    position_deletes: int = 0
    equality_deletes: int = 0
    bytes: int = 0

    def plus(self, other: "FileTotals") -> "FileTotals":
        """Return the sum of these counts and others."""
        return FileTotals(*map(sum, zip(self, other, strict=True)))


def total_of(counts: Iterable[FileTotals | None]) -> FileTotals:
    """Return the sum of several counts; None counts as zero."""
    total = FileTotals()
    for count in counts:
        total = total if count is None else total.plus(count)
    return total


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedManifest:
    """A manifest that one run of the checks reads.

    Attributes:
        number: The index of the manifest among all manifests of the run, which have no duplicates.
        row: The entry of the manifest in a manifest list.
        path: The location of the manifest.
        snapshot_id: The id of the first snapshot that has the manifest.
    """

    number: int
    path: str
    row: ManifestRow
    snapshot_id: int

    def manifest_file(self) -> ManifestFile:
        """Return the manifest as the reader of manifests needs it."""
        return self.row.manifest_file(self.path, self.row.partition_spec_id or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestDigest:
    """The result of the check of one manifest. Each array has one value for each live entry.

    Attributes:
        number: The `number` of the manifest, see `ListedManifest`.
        findings: The findings about the manifest and its entries.
        live: The counts of its live entries; None if the manifest could not be read, or an entry has a wrong status or content.
        added: The counts of its added entries.
        removed: The counts of its deleted entries.
        live_paths: The hash of the path (int64).
        live_positions: The position of the entry in the manifest.
        live_keys: A hash of the path and of the snapshot that added the file.
        live_sequence_numbers: The data sequence number.
        live_row_ids: The first row id, -1 for a file without one; empty before version 3.
        live_records: The record count; empty before version 3.
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
    """A manifest that was read: its length in bytes, its properties and its entries; or the error if it could not be read."""

    manifest: ListedManifest
    length: int = 0
    header: Mapping[str, bytes] = field(default_factory=dict)
    partition_type: StructType = field(default_factory=StructType)
    entries: ManifestEntries | None = None
    error: IcefloeError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotManifests:
    """The manifests of one snapshot.

    Attributes:
        snapshot: The snapshot.
        numbers: The `number` of each of its manifests (see `ListedManifest`), in the order of its manifest list.
        is_whole: False if a part of the manifest list could not be read.
    """

    snapshot: Snapshot
    numbers: NDArray[np.int32]
    is_whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestCheck:
    """Checks manifests of one table. It pickles, because Spark's tasks receive it.

    Attributes:
        io: The storage.
        partition_types: The type of the partition tuples by spec id, without specs that cannot be read.
        header: The metadata of the table with which the properties of manifests are compared.
        entries: The metadata of the table with which entries are compared.
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
        """Return the entries of a manifest, or the error if it cannot be read."""
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
    """Return the format version that the properties of a manifest state; 1 if they state none."""
    text = header.get("format-version", b"1")
    return int(text) if text.isdigit() and len(text) < 10 else 1


def _spec_id(manifest: ListedManifest, header: Mapping[str, bytes]) -> int:
    """Return the spec id that the manifest list states; for a manifest that an old snapshot names only by its path, the id in the manifest's properties."""
    if manifest.row.partition_spec_id is not None:
        return manifest.row.partition_spec_id
    text = header.get("partition-spec-id", b"0")
    return int(text) if text.isdigit() and len(text) < 10 else 0


def _digest(manifest: ListedManifest, entries: ManifestEntries, findings: Findings, *, with_row_ids: bool) -> ManifestDigest:
    live = entries.is_live
    # Entries of the wrong content or of an unknown status cannot be counted.
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
    """Return the first row id of each entry as readers assign it; -1 for a file without one. Spec: First Row ID Inheritance."""
    if row.first_row_id is None or row.content:
        return np.full(entries.length, -1, np.int64)
    stored = entries.numbers("first_row_id")
    inherits = (stored == NO_NUMBER) & entries.is_live
    rows = np.where(inherits, without_nulls(entries.numbers("record_count")), 0)
    return np.where(inherits, row.first_row_id + np.cumsum(rows) - rows, np.maximum(stored, -1))


def totals_of(entries: ManifestEntries, mask: NDArray[np.bool_]) -> FileTotals:
    """Return the counts of the entries where a mask is true."""
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
    """Return the size of each file in bytes; for a deletion vector the size of its blob. JAVA: ContentFileUtil.contentSizeInBytes."""
    sizes = without_nulls(entries.numbers("file_size_in_bytes"))
    blobs = entries.numbers("content_size_in_bytes")
    return np.where(blobs == NO_NUMBER, sizes, blobs)


def without_nulls(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers with 0 in place of null."""
    return np.where(numbers == NO_NUMBER, 0, numbers)


def read_plain(io: FileIO, path: str) -> bytes:
    """Return the bytes of a file that is not encrypted.

    A path that no file can have, such as the path of a folder or one that is too long, counts as a missing file: the storage is not at fault.

    Raises:
        UnsupportedFeatureError: The file is encrypted.
        NoSuchFileError: The file does not exist.
        StorageError: The storage cannot read the file.
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
    """Return the finding about a file that cannot be read: it is missing, is damaged, or could not be checked.

    Args:
        error: The error of the reader; None if there was none.
        path: The location of the file.
        snapshot_id: The snapshot of the finding.
        missing: The rule for a missing file.
        damaged: The rule for a damaged file.
        kind: What the file is, such as "manifest", for the message.
    """
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
