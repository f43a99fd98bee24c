"""Rules of snapshots: their own fields, their parents, and the row ids that they assign.

`summary_rules.py` compares the counts of summaries with the manifests. Spec: Snapshots; Sequence Numbers; Row Lineage.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from icefloe.checks.finding import Finding, Severity
from icefloe.checks.manifest_list_rules import METADATA_PATH
from icefloe.checks.rule import FindingPlace, Level, RuleGroup, has_relative_path, value_text
from icefloe.checks.table_content import TableContent
from icefloe.spec.metadata.entry_kinds import SCHEMAS
from icefloe.spec.metadata.invariants import CLOCK_TOLERANCE_MS
from icefloe.spec.metadata.snapshot import Operation, Snapshot

_ROLL_BACK = "roll the table back to a snapshot before it, or restore an earlier metadata file"


_rule = RuleGroup(level=Level.SNAPSHOT, section="Snapshots", next_step=_ROLL_BACK).rule


SNAPSHOT_LIST = _rule(
    "snapshot-manifest-list",
    Severity.ERROR,
    "A snapshot has a manifest list; in version 1 it may have a list of manifests in its place, never both.",
    "The snapshot cannot be read, or engines read other manifests of it.",
)
SNAPSHOT_OPERATION = _rule(
    "snapshot-operation",
    Severity.WARNING,
    "From version 2 on a snapshot has a summary, whose operation is append, replace, overwrite or delete.",
    "Incremental and streaming reads, which skip or refuse snapshots by their operation, fail.",
    next_step="use other reads than incremental ones over this snapshot",
)
SNAPSHOT_PARENT = _rule(
    "snapshot-parent",
    Severity.ERROR,
    "No snapshot is its own ancestor.",
    "Engines that follow the history of a branch do not end.",
    next_step="restore an earlier metadata file of the table",
)
SNAPSHOT_SEQUENCE_NUMBER = _rule(
    "snapshot-sequence-number",
    Severity.ERROR,
    "From version 2 on the sequence number of each commit is its own, and above that of its parent.",
    "Deletes apply to rows that were written after them, or not to rows that they delete.",
    section="Sequence Numbers",
)
SNAPSHOT_TIME = _rule(
    "snapshot-timestamp",
    Severity.WARNING,
    "A snapshot is not older than its parent, but for a minute of clock differences.",
    "Time travel by timestamp and expiry by age choose other snapshots than intended.",
    next_step="name snapshots by their ids where you travel in time",
)
SNAPSHOT_SCHEMA = _rule(
    "snapshot-schema",
    Severity.WARNING,
    "The schema id of a snapshot is that of one of the schemas.",
    "Engines read the snapshot with the current schema or refuse it.",
)
SNAPSHOT_ROW_IDS = _rule(
    "snapshot-row-ids",
    Severity.ERROR,
    "In version 3 every new snapshot has a first row id and a number of added rows, neither of them negative.",
    "Rows of the snapshot have no ids, or ids of other rows; Java refuses the snapshot.",
    section="Row Lineage",
)
SNAPSHOT_ROW_ID_RANGES = _rule(
    "snapshot-row-id-ranges",
    Severity.ERROR,
    "No two snapshots assign the same row ids.",
    "Two rows have one id: changelogs and incremental views mix them up.",
    section="Row Lineage",
)
SNAPSHOT_KEY = _rule(
    "snapshot-key",
    Severity.ERROR,
    "The key id of a snapshot is that of one of the encryption keys.",
    "The manifest list cannot be decrypted.",
)
RULES = (
    SNAPSHOT_LIST,
    SNAPSHOT_OPERATION,
    SNAPSHOT_PARENT,
    SNAPSHOT_SEQUENCE_NUMBER,
    SNAPSHOT_TIME,
    SNAPSHOT_SCHEMA,
    SNAPSHOT_ROW_IDS,
    SNAPSHOT_ROW_ID_RANGES,
    SNAPSHOT_KEY,
)


def snapshot_findings(content: TableContent) -> Iterator[Finding]:
    """Yield the violations of the rules of this module in all snapshots of a metadata file."""
    schema_ids = {*content.ids(SCHEMAS), *content.schemas}
    key_ids = _key_ids(content.document.get("encryption-keys"))
    for snapshot in content.snapshots.values():
        yield from _own_fields(snapshot, content, schema_ids, key_ids)
        yield from _parent(snapshot, content)
    yield from _cycles(content)
    yield from _equal_numbers(content)
    yield from _row_ids(content)


def _place(snapshot: Snapshot, content: TableContent) -> FindingPlace:
    return FindingPlace(
        snapshot_id=snapshot.snapshot_id, file=content.metadata_location, entry=content.snapshot_positions[snapshot.snapshot_id]
    )


def _at(snapshot: Snapshot, content: TableContent, key: str) -> str:
    return f"$.snapshots[{content.snapshot_positions[snapshot.snapshot_id]}].{key}"


def _own_fields(snapshot: Snapshot, content: TableContent, schema_ids: set[int], key_ids: set[str]) -> Iterator[Finding]:
    place, version, named = _place(snapshot, content), content.format_version, f"snapshot {snapshot.snapshot_id}"
    if snapshot.manifest_list is not None and snapshot.manifest_paths is not None:
        yield SNAPSHOT_LIST.finding(f"{named} has both manifest-list and manifests", where=_at(snapshot, content, "manifests"), **place)
    if snapshot.manifest_list is not None and has_relative_path(snapshot.manifest_list):
        yield METADATA_PATH.finding(
            f"the manifest list of {named} has the relative path {value_text(snapshot.manifest_list)}",
            where=_at(snapshot, content, "manifest-list"),
            actual=snapshot.manifest_list,
            **place,
        )
    # A snapshot that was committed before the table was upgraded from version 1 has the sequence number 0.
    is_of_version_1 = version == 1 or snapshot.sequence_number == 0
    if snapshot.manifest_list is None and (snapshot.manifest_paths is None or not is_of_version_1):
        what = "neither manifest-list nor manifests" if snapshot.manifest_paths is None else "no manifest-list"
        yield SNAPSHOT_LIST.finding(f"{named} has {what}", where=_at(snapshot, content, "manifest-list"), **place)
    operation = snapshot.summary.get("operation")
    if operation not in tuple(Operation) and not (is_of_version_1 and not snapshot.summary):
        yield SNAPSHOT_OPERATION.finding(
            f"{named} has the operation {value_text(operation)}" if operation is not None else f"the summary of {named} has no operation",
            where=_at(snapshot, content, "summary.operation"),
            expected=", ".join(Operation),
            actual=operation,
            **place,
        )
    if snapshot.schema_id is not None and snapshot.schema_id not in schema_ids:
        yield SNAPSHOT_SCHEMA.finding(
            f"{named} has schema {snapshot.schema_id}, which is not in schemas",
            where=_at(snapshot, content, "schema-id"),
            actual=snapshot.schema_id,
            **place,
        )
    if snapshot.key_id is not None and snapshot.key_id not in key_ids:
        yield SNAPSHOT_KEY.finding(
            f"{named} has the key {value_text(snapshot.key_id)}, which is not in encryption-keys",
            where=_at(snapshot, content, "key-id"),
            actual=snapshot.key_id,
            **place,
        )


def _key_ids(keys: Any) -> set[str]:
    listed = keys if isinstance(keys, list) else []
    return {key["key-id"] for key in listed if isinstance(key, Mapping) and isinstance(key.get("key-id"), str)}


def _parent(snapshot: Snapshot, content: TableContent) -> Iterator[Finding]:
    parent = content.snapshots.get(snapshot.parent_snapshot_id) if snapshot.parent_snapshot_id is not None else None
    if parent is None or parent is snapshot:
        return
    place = _place(snapshot, content)
    if content.format_version > 1 and parent.sequence_number > 0 and snapshot.sequence_number < parent.sequence_number:
        yield SNAPSHOT_SEQUENCE_NUMBER.finding(
            f"snapshot {snapshot.snapshot_id} has sequence number {snapshot.sequence_number}, and its parent {parent.sequence_number}",
            where=_at(snapshot, content, "sequence-number"),
            expected=parent.sequence_number + 1,
            actual=snapshot.sequence_number,
            **place,
        )
    if snapshot.timestamp_ms < parent.timestamp_ms - CLOCK_TOLERANCE_MS:
        yield SNAPSHOT_TIME.finding(
            f"snapshot {snapshot.snapshot_id} is of {snapshot.timestamp_ms} ms, and its parent of {parent.timestamp_ms} ms",
            where=_at(snapshot, content, "timestamp-ms"),
            expected=parent.timestamp_ms,
            actual=snapshot.timestamp_ms,
            **place,
        )


def _cycles(content: TableContent) -> Iterator[Finding]:
    """Yield one finding for each cycle of parent snapshots."""
    ended: set[int] = set()
    for start in content.snapshots:
        path: dict[int, None] = {}
        current: int | None = start
        while current is not None and current in content.snapshots and current not in ended and current not in path:
            path[current] = None
            current = content.snapshots[current].parent_snapshot_id
        if current in path and current is not None:
            snapshot = content.snapshots[current]
            yield SNAPSHOT_PARENT.finding(
                f"snapshot {current} is its own ancestor",
                where=_at(snapshot, content, "parent-snapshot-id"),
                actual=snapshot.parent_snapshot_id,
                **_place(snapshot, content),
            )
        ended.update(path)


def _equal_numbers(content: TableContent) -> Iterator[Finding]:
    if content.format_version == 1:
        return
    owners: dict[int, int] = {}
    for snapshot in content.snapshots.values():
        number = snapshot.sequence_number
        if number == 0:
            continue
        owner = owners.setdefault(number, snapshot.snapshot_id)
        if number < 0 or owner != snapshot.snapshot_id:
            yield SNAPSHOT_SEQUENCE_NUMBER.finding(
                f"snapshot {snapshot.snapshot_id} has sequence number {number}"
                + (f", which snapshot {owner} has, too" if owner != snapshot.snapshot_id else ""),
                where=_at(snapshot, content, "sequence-number"),
                actual=number,
                **_place(snapshot, content),
            )


def _row_ids(content: TableContent) -> Iterator[Finding]:
    with_ids = sorted(
        (snapshot for snapshot in content.snapshots.values() if snapshot.first_row_id is not None),
        key=lambda snapshot: snapshot.first_row_id or 0,
    )
    first_number = min((snapshot.sequence_number for snapshot in with_ids), default=None)
    for snapshot in content.snapshots.values():
        first, added = snapshot.first_row_id, snapshot.added_rows
        is_negative = (first or 0) < 0 or (added or 0) < 0
        is_new = content.format_version > 2 and first_number is not None and snapshot.sequence_number > first_number
        if (first is None) != (added is None) or is_negative or (is_new and first is None):
            yield SNAPSHOT_ROW_IDS.finding(
                f"snapshot {snapshot.snapshot_id} has first-row-id {first} and added-rows {added}",
                where=_at(snapshot, content, "first-row-id"),
                actual=first,
                **_place(snapshot, content),
            )
    end, owner = 0, 0
    for snapshot in with_ids if content.format_version > 2 else ():
        first, added = snapshot.first_row_id or 0, snapshot.added_rows or 0
        if added > 0 and first < end:
            yield SNAPSHOT_ROW_ID_RANGES.finding(
                f"snapshot {snapshot.snapshot_id} assigns row ids from {first} on, and snapshot {owner} those below {end}",
                where=_at(snapshot, content, "first-row-id"),
                expected=end,
                actual=first,
                **_place(snapshot, content),
            )
        if first + added > end and added > 0:
            end, owner = first + added, snapshot.snapshot_id
