"""Corrections of a metadata file's own fields: counters, logs, branches and tags without a snapshot, and statistics files that cannot be used.

Each function receives the findings of one repair and returns the corrected JSON. The rows of snapshots do not change.
Spec: Table Metadata Fields; Table Statistics; Partition Statistics.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from icefloe.checks.finding import Finding
from icefloe.checks.repair_kinds import CORRECT_METADATA, DROP_BROKEN_REFS, DROP_STATISTICS, RepairKind
from icefloe.spec.metadata.invariants import CLOCK_TOLERANCE_MS

_COUNTERS = {
    "last-column-id": "last-column-id",
    "last-partition-id": "last-partition-id",
    "last-sequence-number": "last-sequence-number",
    "next-row-id": "next-row-id",
    "last-updated-ms": "last-updated-ms",
}
_LOGS = {"metadata-log-order": "metadata-log", "snapshot-log-order": "snapshot-log"}
_STATISTICS = re.compile(r"\$\.((?:partition-)?statistics)\[(\d+)\]")
Document = Mapping[str, Any]


def corrected_fields(document: Document, findings: Sequence[Finding]) -> Document:
    """Return the metadata with counters that are high enough, and logs in the order of time."""
    changed = dict(document)
    for finding in findings:
        key = _COUNTERS.get(finding.rule)
        if key is not None and isinstance(finding.expected, int):
            changed[key] = max(finding.expected, changed[key] if isinstance(changed.get(key), int) else 0)
    for rule, key in _LOGS.items():
        if any(finding.rule == rule for finding in findings) and isinstance(changed.get(key), list):
            changed[key] = _in_order(changed[key])
    if any(finding.rule == "snapshot-log-snapshot" for finding in findings):
        changed["snapshot-log"] = _log_of_snapshots(changed)
    return changed


def _list(document: Document, key: str) -> list[Any]:
    """Return a list of the metadata; an empty list if the field is missing or is not a list."""
    value = document.get(key)
    return value if isinstance(value, list) else []


def _id(entry: Mapping[str, Any]) -> int | None:
    """Return the snapshot id of an entry; None if it is not a number."""
    value = entry.get("snapshot-id")
    return value if isinstance(value, int) else None


def _snapshot_ids(document: Document) -> set[int | None]:
    return {_id(snapshot) for snapshot in _list(document, "snapshots") if isinstance(snapshot, dict)} - {None}


def _in_order(log: Sequence[Any]) -> list[Any]:
    """Return a log without the entries that are later than an entry after them. The last entry always stays."""
    kept: list[Any] = []
    for entry in reversed(log):
        if not kept or _time(entry) <= _time(kept[-1]) + CLOCK_TOLERANCE_MS:
            kept.append(entry)
    return kept[::-1]


def _time(entry: Any) -> int:
    time = entry.get("timestamp-ms") if isinstance(entry, dict) else None
    return time if isinstance(time, int) else 0


def _log_of_snapshots(document: Document) -> list[Any]:
    """Return the snapshot log without the entries up to the last one whose snapshot is missing, so that time travel skips no snapshot.

    If the remaining log does not end with the current snapshot, an entry for it is added.
    """
    known = _snapshot_ids(document)
    log = [entry for entry in _list(document, "snapshot-log") if isinstance(entry, dict)]
    unknown = [position for position, entry in enumerate(log) if _id(entry) not in known]
    kept = log[unknown[-1] + 1 :] if unknown else log
    current = _id({"snapshot-id": document.get("current-snapshot-id")})
    if current in known and (not kept or _id(kept[-1]) != current):
        time = max(_time({"timestamp-ms": document.get("last-updated-ms")}), _time(kept[-1]) if kept else 0)
        kept = [*kept, {"timestamp-ms": time, "snapshot-id": current}]
    return kept


def without_broken_refs(document: Document, findings: Sequence[Finding]) -> Document:
    """Return the metadata without branches and tags whose snapshot does not exist. The branch main is kept, because it follows the current snapshot."""
    known = _snapshot_ids(document)
    refs = document.get("refs")
    if not findings or not isinstance(refs, dict):
        return document
    kept = {name: ref for name, ref in refs.items() if name == "main" or not isinstance(ref, dict) or _id(ref) in known}
    return {**document, "refs": kept}


def without_statistics(document: Document, findings: Sequence[Finding]) -> Document:
    """Return the metadata without the statistics files that the findings are about."""
    dropped: dict[str, set[int]] = {"statistics": set(), "partition-statistics": set()}
    paths = set()
    for finding in findings:
        place = _STATISTICS.match(finding.where or "")
        if place is not None:
            dropped[place[1]].add(int(place[2]))
        elif finding.path is not None:
            paths.add(finding.path)
    changed = dict(document)
    for key, positions in dropped.items():
        listed = document.get(key)
        if isinstance(listed, list):
            changed[key] = [
                item
                for position, item in enumerate(listed)
                if position not in positions and not (isinstance(item, dict) and item.get("statistics-path") in paths)
            ]
    return changed


CORRECTIONS: tuple[tuple[RepairKind, Callable[[Document, Sequence[Finding]], Document]], ...] = (
    (CORRECT_METADATA, corrected_fields),
    (DROP_BROKEN_REFS, without_broken_refs),
    (DROP_STATISTICS, without_statistics),
)
