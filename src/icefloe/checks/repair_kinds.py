"""`RepairKind`: one of the repairs that `icefloe repair` can do in a stored table, with the ids of the rules whose violations it corrects.

`REPAIRS` lists all of them.

A repair is done by default only if it changes no row, or loses only rows that no reader can read any more. The other repairs are planned too, with the reason
why the user must name them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from icefloe.errors import InvalidInputError


class Scope(StrEnum):
    """What the commit of a repair writes."""

    SNAPSHOT = "snapshot"  # one snapshot of the branch
    METADATA = "metadata"  # one metadata file
    CATALOG = "catalog"  # the entry of the catalog only


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairKind:
    """A kind of repair.

    Attributes:
        id: The name of the repair in output and options, in kebab case; it never changes.
        rules: The ids of the rules whose violations the repair corrects.
        scope: What the commit of the repair writes.
        title: What the repair does, in the imperative.
        rows: How the rows of the table change.
        named_because: Why the repair is done only if the user names it; empty if it is done by default.
    """

    id: str
    rules: tuple[str, ...]
    scope: Scope
    title: str
    rows: str
    named_because: str = ""

    @property
    def is_default(self) -> bool:
        """Whether the repair is done without being named by the user."""
        return not self.named_because


_NO_ROWS = "none change"

DROP_LOST_DATA_FILES = RepairKind(
    id="drop-lost-data-files",
    rules=("file-missing",),
    scope=Scope.SNAPSHOT,
    title="drop the references to data files that do not exist",
    rows="those of the lost files are lost, which no reader can have any more",
)
DROP_UNREACHABLE_DATA_FILES = RepairKind(
    id="drop-unreachable-data-files",
    rules=("file-missing",),
    scope=Scope.SNAPSHOT,
    title="drop the references to data files that do not exist, where most of the table's are missing or they are outside of its location",
    rows="those of the files are lost; after a storage was only out of reach, they could have been read again",
    named_because="the storage of the files may only be out of reach, such as a file system that is not mounted",
)
DROP_LOST_DELETE_FILES = RepairKind(
    id="drop-lost-delete-files",
    rules=("file-missing",),
    scope=Scope.SNAPSHOT,
    title="drop the references to delete files that do not exist",
    rows="those that the lost files deleted come back",
    named_because="deleted rows come back",
)
DROP_DAMAGED_FILES = RepairKind(
    id="drop-damaged-files",
    rules=("file-damaged", "delete-file-damaged", "vector-damaged"),
    scope=Scope.SNAPSHOT,
    title="drop the references to files that exist and cannot be read",
    rows="those of damaged data files are lost, and those that damaged delete files deleted come back",
    named_because="the files exist, and their rows may be saved by other means",
)
DROP_DUPLICATE_ENTRIES = RepairKind(
    id="drop-duplicate-entries",
    rules=("file-twice", "manifest-twice"),
    scope=Scope.SNAPSHOT,
    title="keep one entry of each file that a snapshot has more than once: the oldest of a data file, the newest of a delete file",
    rows="each row is read once, and deletes that came after the first entry apply to it",
)
CORRECT_ENTRIES = RepairKind(
    id="correct-entries",
    rules=(
        "file-size",
        "file-row-count",
        "split-offsets-of-file",
        "split-offsets",
        "column-bounds",
        "column-value-count",
        "column-null-count",
        "column-nan-count",
        "column-size",
        "metrics-count",
        "value-count",
        "bound-value",
        "bound-order",
        "metrics-field",
        "position-deletes-bounds",
    ),
    scope=Scope.SNAPSHOT,
    title="write sizes, counts and bounds of entries again from the footers of their files",
    rows="none change; queries find rows that wrong bounds hid",
)
CORRECT_ROW_COUNTS = RepairKind(
    id="correct-row-counts",
    rules=("file-row-count",),
    scope=Scope.SNAPSHOT,
    title="write the row count of entries again where the file has another size too, or position deletes are in the snapshot",
    rows="those that the file has now; position deletes and row ids apply to these",
    named_because="the file may not be the one that was committed, and then deleted rows can come back",
)
DROP_DANGLING_DELETES = RepairKind(
    id="drop-dangling-deletes",
    rules=("dangling-delete", "dangling-vector"),
    scope=Scope.SNAPSHOT,
    title="drop delete files and deletion vectors that apply to no data file",
    rows=_NO_ROWS,
)
MOVE_DELETES = RepairKind(
    id="move-deletes",
    rules=("delete-partition",),
    scope=Scope.SNAPSHOT,
    title="give delete files the partition of the data file that they refer to",
    rows="none change for readers that match by path; others no longer return the deleted rows",
)
REWRITE_MANIFESTS = RepairKind(
    id="rewrite-manifests",
    rules=(
        "manifest-length",
        "manifest-file-count",
        "manifest-row-count",
        "manifest-min-sequence-number",
        "manifest-partition-summary",
        "manifest-partitions",
        "manifest-header",
        "manifest-header-version",
    ),
    scope=Scope.SNAPSHOT,
    title="write manifests again whose list or header states something else than their entries",
    rows="none change; queries find rows that wrong counts or summaries hid",
)
CORRECT_TOTALS = RepairKind(
    id="correct-totals",
    rules=("summary-total", "summary-number"),
    scope=Scope.SNAPSHOT,
    title="count the totals of the summary again",
    rows=_NO_ROWS,
)
REBUILD_MANIFESTS = RepairKind(
    id="rebuild-manifests",
    rules=("manifest-missing", "manifest-damaged"),
    scope=Scope.SNAPSHOT,
    title="write lost manifests again from the manifests of other snapshots, where these show every entry",
    rows=_NO_ROWS,
)
REBUILD_MANIFESTS_FROM_FILES = RepairKind(
    id="rebuild-manifests-from-files",
    rules=("manifest-missing", "manifest-damaged"),
    scope=Scope.SNAPSHOT,
    title="write lost manifests again from data files that no manifest names, where their number and rows are those of the manifest list",
    rows="none change if the files are those of the lost manifest",
    named_because="that a file belonged to the snapshot is shown by counts only: a file of a failed commit can have the same",
)
DROP_LOST_MANIFESTS = RepairKind(
    id="drop-lost-manifests",
    rules=("manifest-missing", "manifest-damaged"),
    scope=Scope.SNAPSHOT,
    title="drop the references to manifests that cannot be read",
    rows="those of all their data files are lost, and those that their delete files deleted come back",
    named_because="the data files may all exist, and with a manifest of deletes deleted rows come back",
)
REBUILD_MANIFEST_LISTS = RepairKind(
    id="rebuild-manifest-lists",
    rules=("manifest-list-missing", "manifest-list-damaged"),
    scope=Scope.METADATA,
    title="write lost manifest lists again from manifests and from the lists of other snapshots, where the totals of the summary agree",
    rows=_NO_ROWS,
)
CORRECT_METADATA = RepairKind(
    id="correct-metadata",
    rules=(
        "last-column-id",
        "last-partition-id",
        "last-sequence-number",
        "next-row-id",
        "last-updated-ms",
        "metadata-log-order",
        "snapshot-log-order",
        "snapshot-log-snapshot",
    ),
    scope=Scope.METADATA,
    title="raise counters of the metadata file to what it holds, and put its logs in order",
    rows=_NO_ROWS,
)
DROP_STATISTICS = RepairKind(
    id="drop-statistics",
    rules=(
        "statistics-snapshot",
        "statistics-twice",
        "statistics-missing",
        "statistics-size",
        "statistics-damaged",
        "statistics-blobs",
        "statistics-fields",
        "partition-statistics-columns",
        "partition-statistics-order",
    ),
    scope=Scope.METADATA,
    title="drop statistics files that are missing, damaged or of another snapshot; they can be computed again",
    rows=_NO_ROWS,
)
DROP_BROKEN_REFS = RepairKind(
    id="drop-broken-refs",
    rules=("ref-without-snapshot",),
    scope=Scope.METADATA,
    title="drop branches and tags that name no snapshot",
    rows="none change: they cannot be read",
)
RESTORE_METADATA = RepairKind(
    id="restore-metadata",
    rules=("metadata-missing", "metadata-damaged", "required-field", "field-type", "current-schema-id", "current-snapshot-id"),
    scope=Scope.METADATA,
    title="go back to the newest readable metadata file",
    rows="the state of that file: rows that were added since are lost, and rows that were deleted since come back",
    named_because="commits after that file are lost",
)
REBUILD_METADATA = RepairKind(
    id="rebuild-metadata",
    rules=("metadata-missing", "metadata-damaged"),
    scope=Scope.METADATA,
    title="rebuild the metadata file from the manifest lists and manifests in the metadata folder",
    rows="those of the newest manifest list",
    named_because="a manifest list may be of a commit that failed, and properties, branches, tags and dropped columns are not known",
)
FOLLOW_NEWER_METADATA = RepairKind(
    id="follow-newer-metadata",
    rules=("metadata-newer",),
    scope=Scope.METADATA,
    title="go on from the newest metadata file that follows the one of the catalog",
    rows="the state of that file",
    named_because="whether the newer file was committed is not known",
)
DROP_TABLE = RepairKind(
    id="drop-table",
    rules=("metadata-missing", "metadata-damaged"),
    scope=Scope.CATALOG,
    title="remove the name of a table that cannot be loaded from the catalog; no file is deleted",
    rows="none change: the table cannot be read",
    named_because="the name is gone from the catalog",
)

REPAIRS: tuple[RepairKind, ...] = (
    RESTORE_METADATA,
    REBUILD_METADATA,
    FOLLOW_NEWER_METADATA,
    DROP_TABLE,
    CORRECT_METADATA,
    DROP_BROKEN_REFS,
    DROP_STATISTICS,
    REBUILD_MANIFEST_LISTS,
    REBUILD_MANIFESTS,
    REBUILD_MANIFESTS_FROM_FILES,
    DROP_LOST_MANIFESTS,
    REWRITE_MANIFESTS,
    DROP_DUPLICATE_ENTRIES,
    DROP_LOST_DATA_FILES,
    DROP_UNREACHABLE_DATA_FILES,
    DROP_LOST_DELETE_FILES,
    DROP_DAMAGED_FILES,
    CORRECT_ENTRIES,
    CORRECT_ROW_COUNTS,
    MOVE_DELETES,
    DROP_DANGLING_DELETES,
    CORRECT_TOTALS,
)
REPAIR_BY_ID: Mapping[str, RepairKind] = {kind.id: kind for kind in REPAIRS}
_BY_RULE: Mapping[str, tuple[RepairKind, ...]] = {
    rule: tuple(kind for kind in REPAIRS if rule in kind.rules) for kind in REPAIRS for rule in kind.rules
}


def repairs_of(rule_id: str) -> tuple[RepairKind, ...]:
    """Return the repairs that correct violations of a rule; an empty tuple if there are none."""
    return _BY_RULE.get(rule_id, ())


def chosen_kinds(names: Iterable[str]) -> frozenset[str]:
    """Return the ids of the repairs that the user chose.

    Args:
        names: Ids of repairs; the id of a rule chooses the rule's default repairs. If empty, all default repairs are chosen.

    Raises:
        InvalidInputError: A name is neither a repair nor a rule that has a repair, or none of the rule's repairs is a default one.
    """
    named = list(names)
    if not named:
        return frozenset(kind.id for kind in REPAIRS if kind.is_default)
    chosen: set[str] = set()
    for name in named:
        if name in REPAIR_BY_ID:
            chosen.add(name)
            continue
        kinds = repairs_of(name)
        if not kinds:
            raise InvalidInputError(f"there is no repair {name!r}, nor a rule with one", next_step=f"use one of {', '.join(REPAIR_BY_ID)}")
        defaults = [kind.id for kind in kinds if kind.is_default]
        if not defaults:
            raise InvalidInputError(
                f"no repair of the rule {name!r} is done without being named",
                next_step=f"name one of {', '.join(kind.id for kind in kinds)}",
            )
        chosen.update(defaults)
    return frozenset(chosen)
