"""Rules of manifest entries. Each rule is computed as a mask over the columns of one manifest.

Spec: Manifest Entry Fields; Data File Fields; Sequence Number Inheritance.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.checks.finding import Finding, Findings, Severity
from icefloe.checks.manifest_entries import NO_NUMBER, ManifestEntries
from icefloe.checks.manifest_row import ManifestRow
from icefloe.checks.rule import FindingPlace, Level, Rule, RuleGroup, value_text
from icefloe.spec.arrow_values import array_of, fill_nulls, numpy_of, offsets_of, scalar_of

_REWRITE = "remove the entry and add the file again, or restore the manifest from a copy"


_rule = RuleGroup(level=Level.ENTRY, next_step=_REWRITE).rule


ENTRY_FIELD = _rule(
    "entry-field",
    Severity.ERROR,
    "Every required field of an entry has a value of its type.",
    "Engines fail to read the manifest.",
    section="Data File Fields",
)
ENTRY_STATUS = _rule(
    "entry-status",
    Severity.ERROR,
    "The status of an entry is 0 (existing), 1 (added) or 2 (deleted).",
    "Engines fail to read the manifest, or read a file that was removed.",
    section="Manifest Entry Fields",
)
ENTRY_CONTENT = _rule(
    "entry-content",
    Severity.ERROR,
    "A manifest has either data files (content 0) or delete files (1 and 2), as its manifest list states.",
    "Rows of delete files are read as data, or deletes are ignored.",
    section="Manifests",
)
ENTRY_FORMAT = _rule(
    "file-format",
    Severity.ERROR,
    "The format of a file is Parquet, ORC or Avro; of a deletion vector Puffin.",
    "Engines fail to read the file.",
    section="Data File Fields",
)
ENTRY_PATH = _rule(
    "file-path",
    Severity.WARNING,
    "The path of a file is absolute.",
    "Engines search for the file relative to the folder they run in.",
    section="File Locations in Metadata",
    next_step="register the table again with absolute paths, by a rewrite of its paths",
)
ENTRY_NUMBER = _rule(
    "file-counts",
    Severity.ERROR,
    "The record count and the size of a file are not negative, and a file with records has bytes.",
    "Engines fail to split the file into tasks, or skip it.",
    section="Data File Fields",
)
ENTRY_SNAPSHOT = _rule(
    "entry-snapshot-id",
    Severity.ERROR,
    "An entry has the id of the snapshot that added or removed its file; only an added one may inherit it.",
    "Incremental reads and expiry take the file for one of another snapshot, and may delete it while it is needed.",
    section="Manifest Entry Fields",
)
ENTRY_ADDED = _rule(
    "entry-added-snapshot",
    Severity.WARNING,
    "An entry that is added or deleted is so by the snapshot that wrote the manifest; older ones are existing, or left out.",
    "Incremental reads count the file in another snapshot; expiry may delete a file too early.",
    section="Manifest Entry Fields",
)
ENTRY_SEQUENCE_NUMBER = _rule(
    "entry-sequence-number",
    Severity.ERROR,
    "An existing or deleted entry has its own data and file sequence numbers; a data number is not above the file's, nor the file's above the manifest's.",
    "Deletes apply to rows that were written after them, or not to rows that they delete; Java refuses a missing number.",
    section="Sequence Number Inheritance",
)
FILE_SEQUENCE_NUMBER = _rule(
    "file-sequence-number",
    Severity.ERROR,
    "The file sequence number of a live entry is the sequence number of the snapshot that added the file.",
    "Readers of changes and writers of deletes take the file for one of another commit.",
    section="Sequence Number Inheritance",
)
SPLIT_OFFSETS = _rule(
    "split-offsets",
    Severity.WARNING,
    "Split offsets ascend and lie within the file.",
    "Engines that split the file by them read rows twice or not at all, or ignore them.",
    section="Data File Fields",
    next_step="rewrite the data file",
)
EQUALITY_IDS = _rule(
    "equality-ids",
    Severity.ERROR,
    "An equality delete file has the field ids of its key, each in a schema; no other file has any.",
    "Deleted rows come back, or engines fail to apply the deletes.",
    section="Equality Delete Files",
)
EQUALITY_FIELD = _rule(
    "equality-field-type",
    Severity.ERROR,
    "The key of an equality delete file has no column of floating-point numbers, and none inside of a list or map.",
    "Engines refuse the deletes, or differ in which rows they delete: NaN and -0.0 have several forms.",
    section="Equality Delete Files",
    next_step="rewrite the data files with their deletes, for example by rewrite_data_files",
)
ENTRY_SORT_ORDER = _rule(
    "entry-sort-order",
    Severity.NOTE,
    "The sort order id of a file is that of one of the sort orders; a position delete file has none.",
    "Readers take the file for unsorted.",
    section="Sorting",
    next_step="rewrite the data file",
)
VECTOR_FIELDS = _rule(
    "deletion-vector-fields",
    Severity.ERROR,
    "A deletion vector names its data file, and the offset and size of its blob within the Puffin file.",
    "Engines cannot read the vector, so that the snapshot fails or deleted rows come back.",
    section="Deletion Vectors",
)
DELETE_VERSION = _rule(
    "delete-version",
    Severity.ERROR,
    "Version 1 has no delete files, version 2 no deletion vectors, and from version 3 on no position delete file is added.",
    "Engines of the format version ignore or refuse the deletes.",
    section="Delete Formats",
)
ENTRY_ROW_ID = _rule(
    "entry-first-row-id",
    Severity.ERROR,
    "A first row id is not negative, and only data files have one.",
    "Rows have wrong ids: changelogs and incremental views mix them up.",
    section="First Row ID Inheritance",
)
RULES = (
    ENTRY_FIELD,
    ENTRY_STATUS,
    ENTRY_CONTENT,
    ENTRY_FORMAT,
    ENTRY_PATH,
    ENTRY_NUMBER,
    ENTRY_SNAPSHOT,
    ENTRY_ADDED,
    ENTRY_SEQUENCE_NUMBER,
    FILE_SEQUENCE_NUMBER,
    SPLIT_OFFSETS,
    EQUALITY_IDS,
    EQUALITY_FIELD,
    ENTRY_SORT_ORDER,
    VECTOR_FIELDS,
    DELETE_VERSION,
    ENTRY_ROW_ID,
)

_REQUIRED = ("file_path", "file_format", "record_count", "file_size_in_bytes")
_DATA, _POSITION_DELETES, _EQUALITY_DELETES = 0, 1, 2
_DATA_FORMATS = ("PARQUET", "ORC", "AVRO")
_PUFFIN = scalar_of("PUFFIN", pa.string())
# A path with a scheme, or an absolute path. Spec: File Locations in Metadata
_ABSOLUTE = r"^(/|[A-Za-z][A-Za-z0-9+.\-]*:)"


@dataclass(frozen=True, slots=True)
class EntryReport:
    """Adds findings about the entries of one manifest from masks. Only findings that are kept become objects; the others are counted."""

    findings: Findings
    entries: ManifestEntries
    manifest_path: str
    snapshot_id: int | None
    header_version: int = 1  # the format version of the manifest's properties

    def add(
        self,
        rule: Rule,
        mask: NDArray[np.bool_],
        message: Callable[[int], str],
        *,
        where: str | None = None,
        expected: Callable[[int], str | int | None] = lambda _: None,
        actual: Callable[[int], str | int | None] = lambda _: None,
        field_id: Callable[[int], int | None] = lambda _: None,
    ) -> None:
        """Add a finding for each entry where the mask is true.

        Args:
            rule: The rule that the entries violate.
            mask: One value for each entry.
            message: Returns what is wrong with the entry at a position. The finding puts the number and the path of the entry before it.
            where: The name of the wrong field of the entry.
            expected: Returns the value that the rule requires of the entry at a position.
            actual: Returns the value that the entry at a position has.
            field_id: Returns the field id of the column or partition field that is wrong in the entry at a position.
        """
        positions = np.flatnonzero(mask)
        if not len(positions):
            return
        kept = positions[: self.findings.left(rule.id)].tolist()

        def one(position: int) -> Finding:
            path = self.entries.path(position)
            return rule.finding(
                f"entry {position} ({value_text(path)}) {message(position)}",
                snapshot_id=self.snapshot_id,
                file=self.manifest_path,
                where=where,
                entry=position,
                path=path,
                field_id=field_id(position),
                expected=expected(position),
                actual=actual(position),
            )

        self.findings.add(map(one, kept))
        self.findings.add_count(rule.id, len(positions) - len(kept))


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryContext:
    """The metadata of a table with which entries are compared.

    Attributes:
        format_version: The format version of the table.
        field_ids: The field ids of all schemas.
        keyless_field_ids: The field ids of columns that cannot be in the key of equality deletes.
        sort_order_ids: The ids of the sort orders.
        snapshot_ids: The ids of the snapshots whose sequence number no other snapshot has, ascending.
        snapshot_numbers: The sequence number of each snapshot in `snapshot_ids`.
    """

    format_version: int
    field_ids: frozenset[int]
    keyless_field_ids: frozenset[int]
    sort_order_ids: frozenset[int]
    snapshot_ids: NDArray[np.int64]
    snapshot_numbers: NDArray[np.int64]


def check_entries(report: EntryReport, row: ManifestRow, context: EntryContext) -> None:
    """Add the findings about the entries of one manifest to the report."""
    entries = report.entries
    unreadable = {problem.where for problem in entries.problems}
    place = FindingPlace(file=report.manifest_path, snapshot_id=report.snapshot_id)
    report.findings.add(
        ENTRY_FIELD.finding(
            f"the values of {value_text(problem.where)} cannot be read: {value_text(problem.what)}", where=problem.where, **place
        )
        for problem in entries.problems
    )
    for name in _REQUIRED:
        if name not in unreadable:
            report.add(ENTRY_FIELD, entries.is_null(name), _without(name), where=name)
    _status(report, entries)
    _files(report, entries, row, unreadable)
    _snapshots(report, entries, row, context)
    if context.format_version > 1:
        _sequence_numbers(report, entries, row)
        _file_sequence_numbers(report, entries, context)
    _offsets(report, entries)
    _deletes(report, entries, row, context)
    _row_ids(report, entries)
    orders = entries.numbers("sort_order_id")
    unknown = (orders != NO_NUMBER) & (orders != 0)
    if unknown.any():
        unknown &= ~np.isin(orders, list(context.sort_order_ids))
    is_of_positions = (entries.file_content == _POSITION_DELETES) & (orders != NO_NUMBER) & (row.content == 1)
    report.add(
        ENTRY_SORT_ORDER,
        unknown | is_of_positions,
        lambda at: f"has sort order {orders[at]}",
        where="sort_order_id",
        actual=lambda at: int(orders[at]),
    )


def _status(report: EntryReport, entries: ManifestEntries) -> None:
    status = entries.status
    report.add(
        ENTRY_STATUS,
        (status < 0) | (status > 2),
        lambda at: f"has status {value_at(status, at)}",
        where="status",
        expected=lambda _: "0, 1 or 2",
        actual=lambda at: value_at(status, at),
    )


def _files(report: EntryReport, entries: ManifestEntries, row: ManifestRow, unreadable: set[str]) -> None:
    contents = entries.file_content
    of_manifest = row.content or 0
    is_other = (contents != _DATA) if of_manifest == 0 else ((contents != _POSITION_DELETES) & (contents != _EQUALITY_DELETES))
    report.add(
        ENTRY_CONTENT,
        is_other,
        lambda at: f"has content {contents[at]} in a manifest of {'deletes' if of_manifest else 'data files'}",
        where="content",
        expected=lambda _: "1 or 2" if of_manifest else 0,
        actual=lambda at: int(contents[at]),
    )
    if "file_format" not in unreadable:
        formats = pc.utf8_upper(fill_nulls(entries.columns["file_format"], ""))
        is_file = numpy_of(pc.is_in(formats, array_of(_DATA_FORMATS, pa.string())))
        is_puffin = numpy_of(pc.equal(formats, _PUFFIN))
        report.add(
            ENTRY_FORMAT,
            ~(is_file | (is_puffin & (contents == _POSITION_DELETES)) | entries.is_null("file_format")),
            lambda at: f"has the format {value_text(entries.columns['file_format'][at].as_py())}",
            where="file_format",
            actual=lambda at: value_text(entries.columns["file_format"][at].as_py()),
        )
    if "file_path" not in unreadable:
        is_absolute = numpy_of(fill_nulls(pc.match_substring_regex(entries.columns["file_path"], _ABSOLUTE), True))
        report.add(ENTRY_PATH, ~is_absolute, lambda _: "has a relative path", where="file_path", actual=entries.path)
    records, sizes = entries.numbers("record_count"), entries.numbers("file_size_in_bytes")
    is_negative = ((records < 0) & (records != NO_NUMBER)) | ((sizes < 0) & (sizes != NO_NUMBER))
    report.add(
        ENTRY_NUMBER,
        is_negative | ((records > 0) & (sizes == 0)),
        lambda at: f"has {value_at(records, at)} records and {value_at(sizes, at)} bytes",
        where="record_count",
        actual=lambda at: value_at(records, at),
    )


def _snapshots(report: EntryReport, entries: ManifestEntries, row: ManifestRow, context: EntryContext) -> None:
    stored = entries.numbers("snapshot_id")
    may_inherit = entries.is_added if context.format_version > 1 else np.zeros(entries.length, bool)
    missing = (stored == NO_NUMBER) & ~may_inherit
    report.add(ENTRY_SNAPSHOT, missing, lambda at: f"of status {entries.status[at]} has no snapshot id", where="snapshot_id")
    added_by = row.added_snapshot_id
    if added_by is not None:
        report.add(
            ENTRY_ADDED,
            (entries.is_added | entries.is_deleted) & (stored != NO_NUMBER) & (stored != added_by),
            lambda at: f"of status {entries.status[at]} has snapshot {stored[at]}, and the manifest is of snapshot {added_by}",
            where="snapshot_id",
            expected=lambda _: added_by,
            actual=lambda at: int(stored[at]),
        )


def _sequence_numbers(report: EntryReport, entries: ManifestEntries, row: ManifestRow) -> None:
    data, file, of_manifest = entries.data_sequence_numbers, entries.file_sequence_numbers, row.sequence_number or 0
    is_known = entries.is_live | entries.is_deleted
    missing = ((data == NO_NUMBER) | (file == NO_NUMBER)) & is_known
    report.add(
        ENTRY_SEQUENCE_NUMBER,
        missing,
        lambda at: f"of status {entries.status[at]} has no {'data' if data[at] == NO_NUMBER else 'file'} sequence number",
        where="sequence_number",
    )
    report.add(
        ENTRY_SEQUENCE_NUMBER,
        is_known & ~missing & ((data < 0) | (data > file) | (file > of_manifest)),
        lambda at: f"has data sequence number {data[at]} and file sequence number {file[at]}, and the manifest {of_manifest}",
        where="sequence_number",
        expected=lambda _: of_manifest,
        actual=lambda at: int(data[at]),
    )


def _file_sequence_numbers(report: EntryReport, entries: ManifestEntries, context: EntryContext) -> None:
    if not len(context.snapshot_ids):
        return
    file, added_by = entries.file_sequence_numbers, entries.snapshot_ids
    places = np.minimum(np.searchsorted(context.snapshot_ids, added_by), len(context.snapshot_ids) - 1)
    # Inherited values come from the manifest list, which has rules of its own; only stored values are compared.
    is_stored = (entries.numbers("snapshot_id") != NO_NUMBER) & (entries.numbers("file_sequence_number") != NO_NUMBER)
    is_known = (context.snapshot_ids[places] == added_by) & entries.is_live & is_stored
    numbers = context.snapshot_numbers[places]
    report.add(
        FILE_SEQUENCE_NUMBER,
        is_known & (file != numbers),
        lambda at: f"has file sequence number {file[at]}, and snapshot {added_by[at]}, which added it, {numbers[at]}",
        where="file_sequence_number",
        expected=lambda at: int(numbers[at]),
        actual=lambda at: int(file[at]),
    )


def _offsets(report: EntryReport, entries: ManifestEntries) -> None:
    lists = entries.columns["split_offsets"]
    if lists.null_count == entries.length:
        return
    ends = offsets_of(lists)
    values = numpy_of(fill_nulls(lists.values, -1))[ends[0] : ends[-1]]
    owners = np.repeat(np.arange(entries.length), np.diff(ends))
    sizes = entries.numbers("file_size_in_bytes")[owners]
    wrong = (values < 0) | ((sizes > 0) & (values >= sizes))
    wrong[1:] |= (owners[1:] == owners[:-1]) & (values[1:] <= values[:-1])
    mask = np.zeros(entries.length, bool)
    mask[owners[wrong]] = True
    report.add(
        SPLIT_OFFSETS,
        mask,
        lambda at: (
            f"has the split offsets {value_text(lists[at].as_py()[:20])} in {value_at(entries.numbers('file_size_in_bytes'), at)} bytes"
        ),
        where="split_offsets",
    )


def _deletes(report: EntryReport, entries: ManifestEntries, row: ManifestRow, context: EntryContext) -> None:
    contents, ids = entries.file_content, entries.columns["equality_ids"]
    counts = (
        np.where(entries.is_null("equality_ids"), 0, np.diff(offsets_of(ids)))
        if ids.null_count < entries.length
        else np.zeros(entries.length)
    )
    is_equality = contents == _EQUALITY_DELETES
    report.add(EQUALITY_IDS, is_equality & (counts == 0), lambda _: "is an equality delete file without equality_ids", where="equality_ids")
    report.add(
        EQUALITY_IDS, ~is_equality & (counts > 0), lambda _: "is no equality delete file, and has equality_ids", where="equality_ids"
    )
    if counts.any():
        ends = offsets_of(ids)
        values = numpy_of(fill_nulls(ids.values, -1))[ends[0] : ends[-1]]
        owners = np.repeat(np.arange(entries.length), np.diff(ends))
        mask, is_keyless = np.zeros(entries.length, bool), np.zeros(entries.length, bool)
        mask[owners[~np.isin(values, list(context.field_ids))]] = True
        is_keyless[owners[np.isin(values, list(context.keyless_field_ids))]] = True
        report.add(
            EQUALITY_FIELD,
            is_keyless & is_equality,
            lambda at: f"has the key {value_text(ids[at].as_py()[:20])}, of which a column cannot be in a key",
            where="equality_ids",
        )
        report.add(
            EQUALITY_IDS,
            mask & is_equality,
            lambda at: f"has equality_ids {value_text(ids[at].as_py()[:20])}, of which not all are in a schema",
            where="equality_ids",
        )
    if not (contents != _DATA).any():
        return
    is_puffin = numpy_of(pc.equal(pc.utf8_upper(fill_nulls(entries.columns["file_format"], "")), _PUFFIN))
    is_vector = is_puffin & (contents == _POSITION_DELETES)
    offset, size = entries.numbers("content_offset"), entries.numbers("content_size_in_bytes")
    lacks = entries.is_null("referenced_data_file") | (offset < 0) | (size <= 0) | (offset > entries.numbers("file_size_in_bytes") - size)
    report.add(
        VECTOR_FIELDS,
        is_vector & lacks,
        lambda at: (
            f"is a deletion vector of {value_text(entries.columns['referenced_data_file'][at].as_py())} at byte {value_at(offset, at)} "
            f"of {value_at(size, at)} bytes"
        ),
        where="content_offset",
        actual=lambda at: value_at(offset, at),
    )
    version = context.format_version
    written_in_version_3 = version > 2 and row.first_row_id is None and report.header_version > 2
    is_wrong = {1: contents != _DATA, 2: is_vector}.get(
        version, ~is_vector & (contents == _POSITION_DELETES) & entries.is_added & written_in_version_3
    )
    report.add(
        DELETE_VERSION,
        is_wrong,
        lambda at: f"is {'a deletion vector' if is_vector[at] else 'a delete file'} in a table of format version {version}",
        where="content",
        actual=lambda at: int(contents[at]),
    )


def _row_ids(report: EntryReport, entries: ManifestEntries) -> None:
    ids = entries.numbers("first_row_id")
    report.add(
        ENTRY_ROW_ID,
        (ids != NO_NUMBER) & ((ids < 0) | (entries.file_content != _DATA)),
        lambda at: f"of content {entries.file_content[at]} has first_row_id {ids[at]}",
        where="first_row_id",
        actual=lambda at: int(ids[at]),
    )


def value_at(numbers: NDArray[Any], position: int) -> int | None:
    """Return the number at a position; None where it is null."""
    number = int(numbers[position])
    return None if number == NO_NUMBER else number


def _without(name: str) -> Callable[[int], str]:
    return lambda _: f"has no {name}"
