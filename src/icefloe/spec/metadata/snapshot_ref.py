"""`SnapshotRef`: a branch or a tag, a name for a snapshot.

Spec: Snapshot References; Snapshot Retention Policy.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from icefloe.errors import in_one_line
from icefloe.spec.schema.json_shape import Key, a_long, an_int, object_problems, one_of, refuse

MAIN = "main"  # the branch whose head is the table's current snapshot

_KEYS = (
    Key("snapshot-id", a_long),
    Key("type", one_of("branch", "tag")),
    Key("min-snapshots-to-keep", an_int, required=False),
    Key("max-snapshot-age-ms", a_long, required=False),
    Key("max-ref-age-ms", a_long, required=False),
)
_RETENTION = ("min_snapshots_to_keep", "max_snapshot_age_ms", "max_ref_age_ms")


class SnapshotRefType(StrEnum):
    """The kind of a reference."""

    BRANCH = "branch"
    TAG = "tag"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRef:
    """The snapshot that a branch or tag refers to, and its retention settings. Ages are in milliseconds. Tags only have the setting `max_ref_age_ms`."""

    snapshot_id: int
    type: str = "branch"
    min_snapshots_to_keep: int | None = None
    max_snapshot_age_ms: int | None = None
    max_ref_age_ms: int | None = None
    unknown: Mapping[str, Any] = field(default_factory=dict)  # unknown keys, kept for the next writer

    def __repr__(self) -> str:
        retention = "".join(f", {name}={getattr(self, name)}" for name in _RETENTION if getattr(self, name) is not None)
        return in_one_line(f"SnapshotRef({self.type} at {self.snapshot_id}{retention})")

    @property
    def snapshot_ref_type(self) -> SnapshotRefType:
        """The kind of the reference; `type` under the name of PyIceberg's attribute."""
        return SnapshotRefType(self.type)

    @property
    def is_branch(self) -> bool:
        """Return True for a branch, False for a tag."""
        return self.type == "branch"


def snapshot_ref_to_json(ref: SnapshotRef) -> dict[str, Any]:
    """Return a reference as a JSON object. Spec: Appendix C, Table Metadata and Snapshots."""
    known_keys = {
        "snapshot-id": ref.snapshot_id,
        "type": ref.type,
        "min-snapshots-to-keep": ref.min_snapshots_to_keep,
        "max-snapshot-age-ms": ref.max_snapshot_age_ms,
        "max-ref-age-ms": ref.max_ref_age_ms,
    }
    return {**{key: value for key, value in known_keys.items() if value is not None}, **ref.unknown}


def snapshot_ref_from_json(value: Any, path: str = "$") -> SnapshotRef:
    """Return the reference that parsed JSON describes.

    Raises:
        MetadataFormatError: every problem, with its JSON path below `path`.
    """
    refuse(list(object_problems(value, path, _KEYS)), "the reference")
    known_keys = {key.name for key in _KEYS}
    return SnapshotRef(
        snapshot_id=value["snapshot-id"],
        type=value["type"],
        min_snapshots_to_keep=value.get("min-snapshots-to-keep"),
        max_snapshot_age_ms=value.get("max-snapshot-age-ms"),
        max_ref_age_ms=value.get("max-ref-age-ms"),
        unknown={key: key_value for key, key_value in value.items() if key not in known_keys},
    )


def refs_by_snapshot(refs: Mapping[str, SnapshotRef]) -> dict[int, list[tuple[str, SnapshotRef]]]:
    """Return the branches and tags that refer to each snapshot, by snapshot id: pairs of a name and a reference, ordered by name."""
    refs_by_id: dict[int, list[tuple[str, SnapshotRef]]] = {}
    for name, ref in sorted(refs.items(), key=lambda item: item[0]):
        refs_by_id.setdefault(ref.snapshot_id, []).append((name, ref))
    return refs_by_id
