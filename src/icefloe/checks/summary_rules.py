"""Rules of the summaries of snapshots: their counts are numbers, and agree with the manifests.

A total is computed from the total of the parent snapshot, so that one wrong commit makes all later totals wrong. It is reported for the snapshot where the
difference begins, and for the current snapshot, whose totals engines use. Spec: Appendix F, Optional Snapshot Summary Fields; Snapshots.
"""

from collections.abc import Iterator, Mapping

from icefloe.checks.finding import Finding, Severity
from icefloe.checks.manifest_check import FileTotals
from icefloe.checks.rule import Level, Rule, value_text
from icefloe.checks.table_content import TableContent
from icefloe.spec.metadata.snapshot import Operation, Snapshot, count_of

SUMMARY_NUMBER = Rule(
    id="summary-number",
    level=Level.SNAPSHOT,
    severity=Severity.WARNING,
    title="The counts of a summary are whole numbers from 0 on.",
    section="Appendix F, Optional Snapshot Summary Fields",
    harm="Engines that parse the counts fail to plan or to commit.",
    next_step="commit to the table with a writer that counts again",
)
SUMMARY_TOTAL = Rule(
    id="summary-total",
    level=Level.SNAPSHOT,
    severity=Severity.WARNING,
    title="The totals of a summary are those of the snapshot's manifests.",
    section="Appendix F, Optional Snapshot Summary Fields",
    harm="count(*) and optimizers that use the totals are wrong, and each later commit carries the difference on.",
    next_step="let icefloe repair count the totals again",
)
SUMMARY_CHANGE = Rule(
    id="summary-change",
    level=Level.SNAPSHOT,
    severity=Severity.WARNING,
    title="The added and removed files and rows of a summary are those of the snapshot's entries.",
    section="Appendix F, Optional Snapshot Summary Fields",
    harm="Audits and incremental reads count other rows than were committed; totals that are computed from them are wrong.",
    next_step="count the rows of the snapshot where its number matters",
)
APPEND_ONLY = Rule(
    id="append-only",
    level=Level.SNAPSHOT,
    severity=Severity.WARNING,
    title="A snapshot of the operation append removes no files and adds no delete files.",
    section="Snapshots",
    harm="Incremental and streaming reads take the snapshot for new rows only, and miss what it removed.",
    next_step="read the changes between the snapshots around it with a changelog scan",
)
DELETE_ONLY = Rule(
    id="delete-only",
    level=Level.SNAPSHOT,
    severity=Severity.WARNING,
    title="A snapshot of the operation delete adds no data files.",
    section="Snapshots",
    harm="Incremental and streaming reads that skip deletes miss the rows that it added.",
    next_step="read the changes between the snapshots around it with a changelog scan",
)
REPLACE_KEEPS_ROWS = Rule(
    id="replace-keeps-rows",
    level=Level.SNAPSHOT,
    severity=Severity.WARNING,
    title="A snapshot of the operation replace adds no more rows than it removes.",
    section="Snapshots",
    harm="Incremental and streaming reads skip the snapshot, and miss the rows that it added.",
    next_step="read the changes between the snapshots around it with a changelog scan",
)
RULES = (SUMMARY_NUMBER, SUMMARY_TOTAL, SUMMARY_CHANGE, APPEND_ONLY, DELETE_ONLY, REPLACE_KEEPS_ROWS)

# Summary keys of totals, of additions and of removals, each with the field of `FileTotals` that has the same count.
_TOTALS = {
    "total-data-files": "data_files",
    "total-records": "records",
    "total-delete-files": "delete_files",
    "total-position-deletes": "position_deletes",
    "total-equality-deletes": "equality_deletes",
    "total-files-size": "bytes",
}
_ADDED = {"added-data-files": "data_files", "added-records": "records", "added-delete-files": "delete_files"}
_REMOVED = {"deleted-data-files": "data_files", "deleted-records": "records", "removed-delete-files": "delete_files"}
_COUNTS = (*_TOTALS, *_ADDED, *_REMOVED)


def summary_findings(
    content: TableContent, live: Mapping[int, FileTotals], added: Mapping[int, FileTotals], removed: Mapping[int, FileTotals]
) -> Iterator[Finding]:
    """Yield the violations of the rules of this module.

    Args:
        content: The metadata file.
        live: By snapshot id, the counts of the live files. Only snapshots whose manifests could all be read are included.
        added: The counts of the files that each of these snapshots added.
        removed: The counts of the files that each of these snapshots removed.
    """
    for snapshot in content.snapshots.values():
        yield from _numbers(snapshot, content)
    for snapshot_id, counts in live.items():
        snapshot = content.snapshots[snapshot_id]
        yield from _totals(snapshot, counts, content, live)
        yield from _changes(snapshot, added[snapshot_id], removed[snapshot_id], content)


def _numbers(snapshot: Snapshot, content: TableContent) -> Iterator[Finding]:
    for key in _COUNTS:
        text = snapshot.summary.get(key)
        if text is not None and count_of(text) is None:
            yield _finding(SUMMARY_NUMBER, snapshot, content, key, f"is {value_text(text)}", None, text)


def _totals(snapshot: Snapshot, counts: FileTotals, content: TableContent, live: Mapping[int, FileTotals]) -> Iterator[Finding]:
    parent = content.snapshots.get(snapshot.parent_snapshot_id or 0)
    before = live.get(parent.snapshot_id) if parent is not None else None
    for key, field in _TOTALS.items():
        stated = count_of(snapshot.summary.get(key))
        actual = getattr(counts, field)
        if stated is None or stated == actual:
            continue
        stated_before = None if parent is None else count_of(parent.summary.get(key))
        is_carried_on = before is not None and stated_before is not None and stated_before - getattr(before, field) == stated - actual
        if is_carried_on and snapshot.snapshot_id != content.current_snapshot_id:
            continue
        source = f", as in its parent {parent.snapshot_id}" if is_carried_on and parent is not None else ""
        yield _finding(SUMMARY_TOTAL, snapshot, content, key, f"is {stated}, and its manifests have {actual}{source}", actual, stated)


def _changes(snapshot: Snapshot, added: FileTotals, removed: FileTotals, content: TableContent) -> Iterator[Finding]:
    for keys, counts in ((_ADDED, added), (_REMOVED, removed)):
        for key, field in keys.items():
            text = snapshot.summary.get(key)
            stated = count_of(text)
            actual = getattr(counts, field)
            if stated is not None and stated != actual:
                yield _finding(SUMMARY_CHANGE, snapshot, content, key, f"is {stated}, and its entries have {actual}", actual, stated)
    operation = snapshot.summary.get("operation")
    if operation == Operation.APPEND and (removed.data_files or removed.delete_files or added.delete_files):
        what = f"is an append, and removes {removed.data_files + removed.delete_files} files and adds {added.delete_files} delete files"
        yield _wrong_operation(APPEND_ONLY, snapshot, content, what)
    if operation == Operation.DELETE and added.data_files:
        yield _wrong_operation(DELETE_ONLY, snapshot, content, f"is a delete, and adds {added.data_files} data files")
    if operation == Operation.REPLACE and added.records > removed.records:
        what = f"is a replace, and adds {added.records} rows and removes {removed.records}"
        yield _wrong_operation(REPLACE_KEEPS_ROWS, snapshot, content, what)


def _wrong_operation(rule: Rule, snapshot: Snapshot, content: TableContent, what: str) -> Finding:
    position = content.snapshot_positions[snapshot.snapshot_id]
    return rule.finding(
        f"snapshot {snapshot.snapshot_id} {what}",
        snapshot_id=snapshot.snapshot_id,
        file=content.metadata_location,
        where=f"$.snapshots[{position}].summary.operation",
        entry=position,
        expected=Operation.OVERWRITE.value,
        actual=value_text(snapshot.summary.get("operation")),
    )


def _finding(
    rule: Rule, snapshot: Snapshot, content: TableContent, key: str, message: str, expected: int | None, actual: str | int
) -> Finding:
    position = content.snapshot_positions[snapshot.snapshot_id]
    return rule.finding(
        f"{key} of snapshot {snapshot.snapshot_id} {message}",
        snapshot_id=snapshot.snapshot_id,
        file=content.metadata_location,
        where=f"$.snapshots[{position}].summary.{key}",
        entry=position,
        expected=expected,
        actual=actual,
    )
