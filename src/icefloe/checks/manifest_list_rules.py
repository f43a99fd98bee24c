"""Rules of manifest lists: each can be read, and its entries have the values that the format requires.

`manifest_rules.py` compares the description of a manifest in its entry with the manifest itself. Spec: Manifest Lists; Sequence Numbers.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from icefloe.checks.finding import Finding, Severity
from icefloe.checks.issue import REPAIR
from icefloe.checks.manifest_row import ManifestRow
from icefloe.checks.rule import FindingPlace, Level, Rule, RuleGroup, has_relative_path, value_text
from icefloe.checks.table_content import TableContent
from icefloe.errors import FormatError
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.partitioning.partition_spec import UntypedPartition
from icefloe.spec.types import PrimitiveType, StructType
from icefloe.spec.values import from_bytes

_ROLL_BACK = "restore the manifest list from a copy, let icefloe repair rebuild a lost one, or roll the table back"


_rule = RuleGroup(level=Level.MANIFEST_LIST, section="Manifest Lists", next_step=_ROLL_BACK, remedy=REPAIR).rule


LIST_MISSING = _rule(
    "manifest-list-missing",
    Severity.ERROR,
    "The manifest list of a snapshot exists.",
    "No engine can read the snapshot, and expiry of snapshots stops at it.",
)
LIST_DAMAGED = _rule(
    "manifest-list-damaged",
    Severity.ERROR,
    "A manifest list is a whole Avro file with the fields of a manifest list.",
    "Engines fail to read the snapshot, or read only the manifests before the damage.",
)
LIST_FIELD = _rule(
    "manifest-list-field",
    Severity.ERROR,
    "Every required field of an entry has a value of its type; content is 0 or 1.",
    "Engines fail to read the snapshot, or take a delete manifest for one of data.",
)
LIST_ENTRY_TWICE = _rule(
    "manifest-twice",
    Severity.ERROR,
    "A manifest list names each manifest once.",
    "Engines return every row of the manifest twice.",
    next_step="let icefloe repair drop the second entry",
)
LIST_SPEC = _rule(
    "manifest-spec",
    Severity.ERROR,
    "The partition spec id of a manifest is that of one of the table's partition specs.",
    "Engines fail to plan any scan of the snapshot.",
)
LIST_SEQUENCE_NUMBER = _rule(
    "manifest-sequence-number",
    Severity.ERROR,
    "The sequence number of a manifest is that of the snapshot that added it, not above that of the one that lists it, nor below its own minimum.",
    "Entries inherit a number of the future: deletes apply to rows that were written later, or not to those they delete.",
    section="Sequence Numbers",
)
LIST_FIRST_ROW_ID = _rule(
    "manifest-first-row-id",
    Severity.ERROR,
    "In a version 3 snapshot every data manifest has a first row id within the ids that snapshots assigned, and no delete manifest has one.",
    "Rows of the manifest have no ids, or ids of other rows.",
    section="First Row ID Assignment",
)
LIST_PARTITIONS = _rule(
    "manifest-partitions",
    Severity.ERROR,
    "An entry has one partition summary for each field of its spec, with bounds of the field's type whose lower is not above its upper.",
    "Engines skip the manifest for filters that match its rows, or fail to plan.",
)
METADATA_PATH = Rule(
    id="metadata-path",
    level=Level.MANIFEST_LIST,
    severity=Severity.WARNING,
    title="The paths of manifest lists and manifests are absolute.",
    section="File Locations in Metadata",
    harm="Engines search for the file relative to the folder they run in.",
    next_step="register the table again with absolute paths, by a rewrite of its paths",
)
LIST_CONTRADICTION = _rule(
    "manifest-contradiction",
    Severity.ERROR,
    "All manifest lists state the same content, spec, sequence number, snapshot and, once it is assigned, first row id of a manifest.",
    "The entries of the manifest inherit other numbers in one snapshot than in another.",
)
RULES = (
    METADATA_PATH,
    LIST_MISSING,
    LIST_DAMAGED,
    LIST_FIELD,
    LIST_ENTRY_TWICE,
    LIST_SPEC,
    LIST_SEQUENCE_NUMBER,
    LIST_FIRST_ROW_ID,
    LIST_PARTITIONS,
    LIST_CONTRADICTION,
)

_REQUIRED = ("manifest_path", "manifest_length", "partition_spec_id", "added_snapshot_id")
# Fields that are required from version 2 on, where snapshots have sequence numbers.
_REQUIRED_IN_V2 = (
    "content",
    "sequence_number",
    "min_sequence_number",
    "added_files_count",
    "existing_files_count",
    "deleted_files_count",
    "added_rows_count",
    "existing_rows_count",
    "deleted_rows_count",
)
_COUNTS = _REQUIRED_IN_V2[3:]


def row_findings(
    row: ManifestRow, position: int, snapshot: Snapshot, content: TableContent, types: Mapping[int, StructType], numbers: Mapping[int, int]
) -> Iterator[Finding]:
    """Yield the violations in one entry of a manifest list. The manifest is not read.

    Args:
        row: The entry.
        position: The position of the entry in the list, from 0.
        snapshot: The snapshot that has the list.
        content: The metadata file.
        types: The partition types by spec id.
        numbers: The sequence numbers of snapshots by id, as `content.sequence_numbers` has them.
    """
    place = FindingPlace(snapshot_id=snapshot.snapshot_id, file=snapshot.manifest_list, entry=position, path=path_text(row))
    named = f"entry {position} of the manifest list"
    required = _REQUIRED + (_REQUIRED_IN_V2 if snapshot.sequence_number > 0 and content.format_version > 1 else ())
    for name in required:
        if getattr(row, name) is None:
            yield LIST_FIELD.finding(f"{named} has no {name}", where=name, **place)
    if row.manifest_path is not None and path_text(row) is None:
        yield LIST_FIELD.finding(f"the manifest_path of {named} is not UTF-8", where="manifest_path", **place)
    if row.content not in (None, 0, 1):
        yield LIST_FIELD.finding(
            f"{named} has content {row.content}; it is 0 (data) or 1 (deletes)", where="content", actual=row.content, **place
        )
    path = path_text(row)
    if path and has_relative_path(path):
        yield METADATA_PATH.finding(f"{named} has the relative path {value_text(path)}", where="manifest_path", actual=path, **place)
    for name in ("manifest_length", *_COUNTS):
        number = getattr(row, name)
        if number is not None and number < 0:
            yield LIST_FIELD.finding(f"{named} has {name} {number}", where=name, actual=number, **place)
    if row.partition_spec_id is not None and row.partition_spec_id not in content.spec_ids:
        yield LIST_SPEC.finding(
            f"{named} has partition spec {row.partition_spec_id}, which is not in partition-specs",
            where="partition_spec_id",
            actual=row.partition_spec_id,
            **place,
        )
    if content.format_version > 1:
        yield from _sequence_numbers(row, named, snapshot, numbers, place)
    if content.format_version > 2:
        yield from _first_row_id(row, named, snapshot, place)
    kind = types.get(row.partition_spec_id if row.partition_spec_id is not None else -1)
    if row.partitions is not None and kind is not None:
        yield from _partitions(row.partitions, kind, named, place)


def _sequence_numbers(
    row: ManifestRow, named: str, snapshot: Snapshot, numbers: Mapping[int, int], place: FindingPlace
) -> Iterator[Finding]:
    number, least = row.sequence_number or 0, row.min_sequence_number or 0
    if not 0 <= number <= snapshot.sequence_number:
        yield LIST_SEQUENCE_NUMBER.finding(
            f"{named} has sequence number {number}, and its snapshot {snapshot.sequence_number}",
            where="sequence_number",
            expected=f"0 to {snapshot.sequence_number}",
            actual=number,
            **place,
        )
    elif number != numbers.get(row.added_snapshot_id or 0, number):
        added_number = numbers[row.added_snapshot_id or 0]
        yield LIST_SEQUENCE_NUMBER.finding(
            f"{named} has sequence number {number}, and snapshot {row.added_snapshot_id}, which added it, {added_number}",
            where="sequence_number",
            expected=added_number,
            actual=number,
            **place,
        )
    elif not 0 <= least <= number:
        yield LIST_SEQUENCE_NUMBER.finding(
            f"{named} has min_sequence_number {least}, and its sequence number is {number}",
            where="min_sequence_number",
            expected=f"0 to {number}",
            actual=least,
            **place,
        )


def _first_row_id(row: ManifestRow, named: str, snapshot: Snapshot, place: FindingPlace) -> Iterator[Finding]:
    first = row.first_row_id
    is_data = row.content in (None, 0)
    assigns_ids = snapshot.first_row_id is not None and snapshot.added_rows is not None
    end = (snapshot.first_row_id or 0) + (snapshot.added_rows or 0)
    if assigns_ids and is_data and (first is None or not 0 <= first <= end):
        problem = "no first_row_id" if first is None else f"first_row_id {first}, and the snapshot's row ids end at {end}"
        yield LIST_FIRST_ROW_ID.finding(f"{named} has {problem}", where="first_row_id", expected=f"0 to {end}", actual=first, **place)
    elif first is not None and not is_data:
        yield LIST_FIRST_ROW_ID.finding(
            f"{named} is a delete manifest and has first_row_id {first}", where="first_row_id", actual=first, **place
        )


def _partitions(summaries: tuple[tuple[Any, ...], ...], kind: StructType, named: str, place: FindingPlace) -> Iterator[Finding]:
    if len(summaries) != len(kind.fields):
        if summaries:  # some writers write an empty list if they have no summaries
            yield LIST_PARTITIONS.finding(
                f"{named} has {len(summaries)} partition summaries, and its spec {len(kind.fields)} fields",
                where="partitions",
                expected=len(kind.fields),
                actual=len(summaries),
                **place,
            )
        return
    for (_, _, lower, upper), field in zip(summaries, kind.fields, strict=True):
        if isinstance(field, UntypedPartition) or not isinstance(field.field_type, PrimitiveType):
            continue
        problem = bounds_problem(field.field_type, lower, upper)
        if problem:
            yield LIST_PARTITIONS.finding(
                f"the partition summary of {named} for field {field.field_id} ({value_text(field.name)}) has {problem}",
                where="partitions",
                field_id=field.field_id,
                **place,
            )


def bounds_problem(kind: PrimitiveType, lower: bytes | None, upper: bytes | None) -> str | None:
    """Return the problem of a pair of bounds of a type, as text for a message; None if they are right."""
    try:
        low, high = (None if bound is None else from_bytes(kind, bound) for bound in (lower, upper))
    except FormatError as error:
        return f"a bound that cannot be read: {value_text(error.message)}"
    if any(isinstance(value, float) and math.isnan(value) for value in (low, high)):
        return "a bound that is NaN"
    return (
        f"the lower bound {value_text(low)} above the upper bound {value_text(high)}"
        if low is not None and high is not None and low > high
        else None
    )


def contradictions(row: ManifestRow, first: ManifestRow, position: int, snapshot: Snapshot) -> Iterator[Finding]:
    """Yield a finding for each value of an entry that differs from the entry of the same manifest in an earlier manifest list."""
    for name in ("partition_spec_id", "content", "sequence_number", "added_snapshot_id", "first_row_id"):
        count, other = getattr(first, name) or 0, getattr(row, name) or 0
        is_assigned = name != "first_row_id" or None not in (first.first_row_id, row.first_row_id)
        if count != other and is_assigned:
            yield LIST_CONTRADICTION.finding(
                f"entry {position} of the manifest list states {name} {other} of {value_text(path_text(row))}, and another list {count}",
                snapshot_id=snapshot.snapshot_id,
                file=snapshot.manifest_list,
                where=name,
                entry=position,
                path=path_text(row),
                expected=count,
                actual=other,
            )


def twice_finding(row: ManifestRow, position: int, first: int, snapshot: Snapshot) -> Finding:
    """Return the finding about a manifest that is in one manifest list twice.

    Args:
        row: The second entry of the manifest.
        position: The position of this entry in the list.
        first: The position of the first entry of the manifest.
        snapshot: The snapshot of the list.
    """
    return LIST_ENTRY_TWICE.finding(
        f"entries {first} and {position} of the manifest list name {value_text(path_text(row))}",
        snapshot_id=snapshot.snapshot_id,
        file=snapshot.manifest_list,
        entry=position,
        path=path_text(row),
        expected=first,
        actual=position,
    )


def path_text(row: ManifestRow) -> str | None:
    """Return the path of a manifest; None if it is missing or is not UTF-8."""
    try:
        return None if row.manifest_path is None else str(row.manifest_path, "utf-8")
    except UnicodeDecodeError:
        return None
