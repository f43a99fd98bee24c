"""Check of the files of a snapshot: whether each data file and delete file exists, can be opened, and is the one that its manifest entry describes.

Footers and headers are read, rows are not; of a deletion vector all bytes are. A fault is a value, so that one check finds every fault.
Spec: Manifests; Data File Fields (file_path, record_count, file_size_in_bytes); Deletion Vectors.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from icefloe.datafile.deletes.delete_file_reader import read_deletion_vector, read_vector_locations
from icefloe.datafile.stored_batch import LISTING
from icefloe.datafile.stored_file import restore_step, stored_counts
from icefloe.display.formatting import count_text, within
from icefloe.display.report import Column, Part, Prose, Report, grid
from icefloe.errors import FormatError, IcefloeError, NoSuchFileError, StorageUnavailableError, UnsupportedError
from icefloe.inspect.inspection import MOST_LINES, View
from icefloe.inspect.lookup import existing_snapshot_of
from icefloe.kernel.manifest.data_file import DataFile, FileFormat
from icefloe.kernel.ports import FileIO
from icefloe.table.parallel_requests import in_threads, side_by_side
from icefloe.table.pyiceberg_compat import TableManifest
from icefloe.table.table_reader import TableReader


class Fault(StrEnum):
    """What is wrong with a file."""

    MISSING = "missing"
    OTHER_ROW_COUNT = "other row count"
    OTHER_SIZE = "other size"
    DAMAGED = "damaged"
    NOT_CHECKED = "not checked"  # encrypted, of a format that is not read, or access is denied


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A fault of one file.

    Attributes:
        path: The file.
        content: `data`, `position_deletes` or `equality_deletes`; `manifest` if a manifest cannot be read, so that its files are unknown.
        fault: What is wrong.
        expected: The number of rows or bytes in the manifest entry; None if the fault is not a number.
        actual: That of the file.
        detail: The error of the reader; empty if the fault is a number.
        next_step: What to do.
    """

    path: str
    content: str
    fault: Fault
    expected: int | None = None
    actual: int | None = None
    detail: str = ""
    next_step: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TableCheck(View):
    """The findings of a check of one snapshot, and how many manifests and files were checked."""

    table: str
    location: str
    snapshot_id: int
    manifests: int
    files: int
    findings: tuple[Finding, ...]

    @property
    def has_faults(self) -> bool:
        """True if there is a finding."""
        return bool(self.findings)

    def report(self, most: int | None = MOST_LINES) -> Report:  # noqa: ARG002  every finding is shown
        """Return the report. See `View.report`."""
        columns = (
            Column("fault"),
            Column("file", whole=True),
            Column("content", rank=2),
            Column("in manifest", is_number=True),
            Column("in file", is_number=True),
        )
        rows = [
            (found.fault.value, within(found.path, self.location), found.content, _number(found.expected), _number(found.actual))
            for found in self.findings
        ]
        checked = f"{count_text(self.files, 'file')} in {count_text(self.manifests, 'manifest')}"
        parts: list[Part] = [grid("", columns, rows, None)] if rows else []
        details = [(within(found.path, self.location), found.detail) for found in self.findings if found.detail]
        if details:
            parts.append(grid("errors", (Column("file", whole=True), Column("error")), details, None))
        parts += [Prose(f"Next: {step}.") for step in dict.fromkeys(found.next_step for found in self.findings if found.next_step)]
        parts.append(Prose(f"{checked} checked, {count_text(len(self.findings), 'fault')}"))
        return Report(f"check of {self.table}, snapshot {self.snapshot_id}", tuple(parts))


@dataclass(slots=True)
class CheckProgress:
    """How many files of a running check are done; another thread may read it."""

    done: int = 0
    total: int = 0


def check(table: TableReader, snapshot_id: int | None = None, progress: CheckProgress | None = None) -> TableCheck:
    """Compare every live data file and delete file of a snapshot with its manifest entry, side by side in threads.

    Args:
        table: The table.
        snapshot_id: The snapshot; None for the current one.
        progress: Is updated while the check runs.

    Returns:
        All findings; none if every file is there and has the size and the number of rows of its manifest entry.

    Raises:
        NoSuchSnapshotError: The snapshot does not exist, or the table has none.
        NoSuchFileError, AvroFormatError, ManifestFormatError: The manifest list is missing or damaged.
        StorageUnavailableError: The storage does not respond.
    """
    progress = progress or CheckProgress()
    snapshot = existing_snapshot_of(table, snapshot_id)
    manifests = snapshot.manifests(table.io)
    findings: list[Finding] = []
    files: list[DataFile] = []
    for live_files, manifest_findings in in_threads(lambda manifest: _live_files(table.io, manifest), manifests):
        files += live_files
        findings += manifest_findings
    progress.total = len(files)
    for checked, file_findings in side_by_side(lambda group: _check_group(table.io, group), _groups(files)):
        findings += file_findings
        progress.done += checked
    return TableCheck(
        table=table.full_name,
        location=table.location(),
        snapshot_id=snapshot.snapshot_id,
        manifests=len(manifests),
        files=len(files),
        findings=tuple(findings),
    )


def _live_files(io: FileIO, manifest: TableManifest) -> tuple[list[DataFile], list[Finding]]:
    path = manifest.manifest_path
    try:
        return [entry.data_file for entry in manifest.fetch_manifest_entry(io)], []
    except StorageUnavailableError:
        raise
    except IcefloeError as error:
        return [], [_finding_of(error, path, "manifest", error.next_step)]


def _groups(files: Sequence[DataFile]) -> Iterator[tuple[DataFile, ...]]:
    """Yield each file alone; the deletion vectors of one Puffin file together, so that its footer is read once."""
    vectors: dict[str, list[DataFile]] = {}
    for file in files:
        if file.file_format is FileFormat.PUFFIN:
            vectors.setdefault(file.file_path, []).append(file)
        else:
            yield (file,)
    yield from map(tuple, vectors.values())


def _check_group(io: FileIO, files: tuple[DataFile, ...]) -> tuple[int, list[Finding]]:
    """Return the number of checked files, and their findings."""
    check_files = _vector_findings if files[0].file_format is FileFormat.PUFFIN else _stored_findings
    return len(files), list(check_files(io, files))


def _stored_findings(io: FileIO, files: tuple[DataFile, ...]) -> Iterator[Finding]:
    (file,) = files
    try:
        counts = stored_counts(io, file)
    except StorageUnavailableError:
        raise
    except IcefloeError as error:
        yield _finding_of(error, file.file_path, _content(file), _next_step(file))
        # A file that was cut short has another size, too.
        yield from _size_findings(io, file) if isinstance(error, FormatError) else ()
        return
    if counts.rows != file.record_count:
        yield _number_finding(file, Fault.OTHER_ROW_COUNT, file.record_count, counts.rows)
    if counts.file_size != file.file_size_in_bytes:
        yield _number_finding(file, Fault.OTHER_SIZE, file.file_size_in_bytes, counts.file_size)


def _vector_findings(io: FileIO, files: tuple[DataFile, ...]) -> Iterator[Finding]:
    """Yield the findings of the deletion vectors of one Puffin file."""
    path = files[0].file_path
    try:
        footer = read_vector_locations(io, path)
    except StorageUnavailableError:
        raise
    except IcefloeError as error:
        yield _finding_of(error, path, _content(files[0]), _next_step(files[0]))
        yield from _size_findings(io, files[0]) if isinstance(error, FormatError) else ()
        return
    yield from _size_findings(io, files[0])
    for file in files:
        try:
            read_deletion_vector(io, file, file.referenced_data_file or "", footer)
        except StorageUnavailableError:
            raise
        except IcefloeError as error:
            yield _finding_of(error, path, _content(file), _next_step(file))


def _size_findings(io: FileIO, file: DataFile) -> Iterator[Finding]:
    size = io.size(file.file_path)
    if size != file.file_size_in_bytes:
        yield _number_finding(file, Fault.OTHER_SIZE, file.file_size_in_bytes, size)


def _number_finding(file: DataFile, fault: Fault, expected: int, actual: int) -> Finding:
    return Finding(path=file.file_path, content=_content(file), fault=fault, expected=expected, actual=actual, next_step=_next_step(file))


def _finding_of(error: IcefloeError, path: str, content: str, next_step: str | None) -> Finding:
    if isinstance(error, NoSuchFileError):
        return Finding(path=path, content=content, fault=Fault.MISSING, next_step=next_step)
    is_damaged = isinstance(error, FormatError) and not isinstance(error, UnsupportedError)
    problems = "".join(f"; {problem}" for problem in error.problems if problem.what not in error.message)
    return Finding(
        path=path,
        content=content,
        fault=Fault.DAMAGED if is_damaged else Fault.NOT_CHECKED,
        detail=error.message.replace(path, "the file") + problems,
        next_step=next_step if is_damaged else error.next_step,
    )


def _next_step(file: DataFile) -> str:
    return restore_step(file).removesuffix(LISTING)


def _content(file: DataFile) -> str:
    return file.content.name.lower()


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
