"""`Snapshot`: the state of a table at one time, with the location of its manifest list.

`spec/manifest_list` reads manifest lists; `table_history.py` has the order of snapshots. Spec: Snapshots.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from icefloe.errors import in_one_line
from icefloe.formatting import count_text, size_text, time_text
from icefloe.notebook import ShownInNotebooks
from icefloe.spec.metadata.raw_entries import EntryKind
from icefloe.spec.schema.json_shape import Key, a_long, a_string, an_int, array_of, object_problems, refuse, strings_by_name

# The summary key with the snapshot whose changes were cherry-picked. Spec: Appendix F, Other Fields.
SOURCE_SNAPSHOT_ID = "source-snapshot-id"
_LONGEST_COUNT = 19  # the greatest number of digits of a long
_LONGEST_OPERATION = 20  # the greatest length of an operation that is displayed, because writers may write any text
_KEYS = (
    Key("snapshot-id", a_long),
    Key("parent-snapshot-id", a_long, required=False),
    # Version 2 requires it, but Java leaves it out if it is 0, as in snapshots from before an upgrade from version 1.
    Key("sequence-number", a_long, required=False),
    Key("timestamp-ms", a_long),
    Key("manifest-list", a_string, required=False),
    Key("manifests", array_of(a_string), required=False),
    Key("summary", strings_by_name, required=False),
    Key("schema-id", an_int, required=False),
    # Version 3 requires it for new snapshots; snapshots from before the upgrade do not have it.
    Key("first-row-id", a_long, required=False),
    Key("added-rows", a_long, required=False),
    Key("key-id", a_string, required=False),
)


class Operation(StrEnum):
    """The operation of a snapshot. Spec: Snapshots."""

    APPEND = "append"
    REPLACE = "replace"
    OVERWRITE = "overwrite"
    DELETE = "delete"


class Summary(dict[str, str]):
    """The entries of a snapshot's summary by key: `Summary("append", **{"added-records": "3"})`; `operation` is one of them.

    Args:
        operation: The operation, if the snapshot has one.
        **more: The other entries.
    """

    def __init__(self, operation: "str | Mapping[str, str] | None" = None, **more: str) -> None:
        first = {} if operation is None else {"operation": str(operation)} if isinstance(operation, str) else operation
        super().__init__({**first, **more})

    @property
    def operation(self) -> str | None:
        """The operation: an `Operation` if the format defines it, else its text; None in version 1 snapshots without a summary."""
        text = self.get("operation")
        return next((operation for operation in Operation if operation == text), text)

    @property
    def additional_properties(self) -> dict[str, str]:
        """The entries other than the operation."""
        return {key: value for key, value in self.items() if key != "operation"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot(ShownInNotebooks):
    """A snapshot. Exactly one of `manifest_list` and `manifest_paths` is set.

    Attributes:
        snapshot_id: Id of the snapshot.
        timestamp_ms: Time of the commit, in milliseconds since 1970-01-01 UTC.
        parent_snapshot_id: Snapshot that this snapshot was based on; None for the first one.
        sequence_number: Number of the commit; 0 in v1.
        manifest_list: Location of the manifest list.
        manifest_paths: Locations of the manifests (key `manifests`), in old v1 tables.
        summary: Operation and counts of the commit.
        schema_id: Schema that was current at the commit.
        first_row_id: First row id assigned to the snapshot's rows, from v3 on.
        added_rows: Number of row ids assigned, from v3 on.
        key_id: Key that the manifest list's key is encrypted with.
    """

    snapshot_id: int
    timestamp_ms: int
    parent_snapshot_id: int | None = None
    sequence_number: int = 0
    manifest_list: str | None = None
    manifest_paths: tuple[str, ...] | None = None
    summary: Summary = field(default_factory=Summary)
    schema_id: int | None = None
    first_row_id: int | None = None
    added_rows: int | None = None
    key_id: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.summary, Summary):
            object.__setattr__(self, "summary", Summary(self.summary))

    @property
    def operation(self) -> str | None:
        """Return `append`, `replace`, `overwrite` or `delete`; None in v1 snapshots without a summary."""
        return self.summary.operation

    def __repr__(self) -> str:
        facts = dict(self.facts())
        operation, parent = facts.pop("operation"), facts.pop("parent")
        parent = "no parent" if self.parent_snapshot_id is None else f"parent {parent}"
        return in_one_line(f"Snapshot({self.snapshot_id}: " + ", ".join([operation, *facts.values(), parent]) + ")")

    def facts(self) -> Iterator[tuple[str, str]]:
        """Yield the most important facts for display, as pairs of a name and a text."""

        def count(key: str) -> int | None:
            return count_of(self.summary.get(key))

        yield "operation", (self.operation or "unknown")[:_LONGEST_OPERATION]
        yield "committed", time_text(self.timestamp_ms)
        changes = [(count("added-records"), "added"), (count("deleted-records"), "removed")]
        yield "rows changed", " and ".join(f"{count_text(rows, 'row')} {verb}" for rows, verb in changes if rows) or "no rows changed"
        files = f"{count_text(count('total-records'), 'row')} in {count_text(count('total-data-files'), 'file')}"
        yield "table", f"{files}, {size_text(count('total-files-size'))}"
        yield "parent", "none" if self.parent_snapshot_id is None else str(self.parent_snapshot_id)


def engine_of(summary: Mapping[str, str]) -> str | None:
    """Return the engine in a snapshot's summary, with its version; None if the summary has none. Spec: Appendix F, Other Fields."""
    return " ".join(summary[key] for key in ("engine-name", "engine-version") if key in summary) or None


def count_of(text: str | None) -> int | None:
    """Return a summary value as a number; None if it is missing or not a valid long, since writers may write anything."""
    if text is None or not (text.isascii() and text.isdecimal()) or len(text) > _LONGEST_COUNT:
        return None
    return int(text)


def snapshot_to_json(snapshot: Snapshot) -> dict[str, Any]:
    """Return a snapshot as a JSON object. Spec: Appendix C, Table Metadata and Snapshots."""
    document: dict[str, Any] = {}
    if snapshot.sequence_number > 0:
        document["sequence-number"] = snapshot.sequence_number
    document["snapshot-id"] = snapshot.snapshot_id
    if snapshot.parent_snapshot_id is not None:
        document["parent-snapshot-id"] = snapshot.parent_snapshot_id
    document["timestamp-ms"] = snapshot.timestamp_ms
    if snapshot.summary:
        document["summary"] = dict(snapshot.summary)
    # A snapshot has either a manifest list or manifests. Spec: Snapshots.
    if snapshot.manifest_list is not None:
        document["manifest-list"] = snapshot.manifest_list
    elif snapshot.manifest_paths is not None:
        document["manifests"] = list(snapshot.manifest_paths)
    if snapshot.schema_id is not None:
        document["schema-id"] = snapshot.schema_id
    if snapshot.first_row_id is not None:
        document["first-row-id"] = snapshot.first_row_id
    if snapshot.added_rows is not None:
        document["added-rows"] = snapshot.added_rows
    if snapshot.key_id is not None:
        document["key-id"] = snapshot.key_id
    return document


def snapshot_from_json(value: Any, path: str = "$") -> Snapshot:
    """Return the snapshot that parsed JSON describes.

    Raises:
        MetadataFormatError: every problem, with its JSON path below `path`.
    """
    refuse(list(object_problems(value, path, _KEYS)), "the snapshot")
    manifests = value.get("manifests")
    return Snapshot(
        snapshot_id=value["snapshot-id"],
        parent_snapshot_id=value.get("parent-snapshot-id"),
        sequence_number=value.get("sequence-number") or 0,
        timestamp_ms=value["timestamp-ms"],
        manifest_list=value.get("manifest-list"),
        manifest_paths=None if manifests is None else tuple(manifests),
        summary=Summary(value.get("summary")),
        schema_id=value.get("schema-id"),
        first_row_id=value.get("first-row-id"),
        added_rows=value.get("added-rows"),
        key_id=value.get("key-id"),
    )


SNAPSHOTS = EntryKind("snapshots", snapshot_from_json, snapshot_to_json, id_key="snapshot-id")
