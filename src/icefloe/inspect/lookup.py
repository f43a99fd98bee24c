"""Lookup of a snapshot, manifest or data file of a table by the text that a user types."""

from collections.abc import Sequence

from icefloe.errors import InvalidInputError, NoSuchFileError, NoSuchSnapshotError
from icefloe.formatting import count_text, file_name
from icefloe.operations.loaded_table import TableReader
from icefloe.operations.pyiceberg_compat import TableManifest, TableSnapshot, table_snapshot

# The most candidates that an error lists.
_SHOWN_CHOICES = 5
# The length of the first part of a UUID. A decimal text of this length or more can be a part of a file's path; a shorter one is the file's number.
UUID_BEGIN = 8


def snapshot_of(table: TableReader, snapshot_id: int | None = None) -> TableSnapshot | None:
    """Return a snapshot, by default the current one; None for a table without snapshots.

    Raises:
        NoSuchSnapshotError: The table does not have the snapshot.
    """
    snapshot = table.scan(snapshot_id=snapshot_id).snapshot()
    return table_snapshot(snapshot, table.metadata) if snapshot else None


def existing_snapshot_of(table: TableReader, snapshot_id: int | None = None) -> TableSnapshot:
    """Return a snapshot, by default the current one.

    Raises:
        NoSuchSnapshotError: The table does not have the snapshot, or has no snapshots.
    """
    snapshot = snapshot_of(table, snapshot_id)
    if snapshot is None:
        raise NoSuchSnapshotError(
            f"{table.full_name} has no snapshot yet: nothing has been written to it",
            table=table.full_name,
            next_step="append rows to it first",
        )
    return snapshot


def snapshot_id_of(table: TableReader, text: str | None) -> int | None:
    """Convert the text of a user to a snapshot id. The text is an id, a branch or a tag; None, for the current snapshot, stays None.

    Raises:
        NoSuchSnapshotError: The table has no such snapshot, branch or tag.
    """
    if text is None:
        return None
    if text in table.metadata.refs:
        return table.metadata.refs[text].snapshot_id
    if text.isascii() and text.isdecimal() and table.metadata.snapshot_by_id(int(text)):
        return int(text)
    newest = [str(snapshot.snapshot_id) for snapshot in table.metadata.snapshots[-_SHOWN_CHOICES:]]
    refs = ", ".join(sorted(table.metadata.refs)) or "none"
    raise NoSuchSnapshotError(
        f"{table.full_name} has no snapshot, branch or tag {text!r}",
        table=table.full_name,
        next_step=f"the newest snapshots are {', '.join(newest) or 'none'}; branches and tags: {refs}",
    )


def chosen_manifest(table: TableReader, which: str | int = 1, snapshot_id: int | None = None) -> TableManifest:
    """Return a manifest of a snapshot.

    Args:
        table: The table.
        which: The manifest: its number in the manifest list, from 1; its path; or a part of its path.
        snapshot_id: The snapshot; None for the current one.

    Raises:
        NoSuchFileError: No manifest matches.
        InvalidInputError: Several manifests match.
        NoSuchSnapshotError: The snapshot does not exist.
    """
    manifests = existing_snapshot_of(table, snapshot_id).manifests(table.io)
    paths = [manifest.manifest_path for manifest in manifests]
    return manifests[position_of(paths, str(which), "manifest", table.full_name)]


def position_of(paths: Sequence[str], which: str, noun: str, table_name: str) -> int:
    """Return the index of the path that a text of the user identifies.

    Args:
        paths: The candidates.
        which: A number from 1, a path, or a part of a path.
        noun: The kind of file, for the error.
        table_name: The name of the table, for the error.

    Raises:
        NoSuchFileError: No path matches.
        InvalidInputError: Several paths match.
    """
    if which in paths:
        return paths.index(which)
    is_number = which.isascii() and which.isdecimal() and len(which) < UUID_BEGIN
    if is_number and 1 <= int(which) <= len(paths):
        return int(which) - 1
    matches = [position for position, path in enumerate(paths) if which in path] if not is_number else []
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise InvalidInputError(
            f"{which!r} matches {len(matches):,} of the {count_text(len(paths), noun)}",
            table=table_name,
            next_step=f"write more of the name: {_some(paths, matches)}",
        )
    raise NoSuchFileError(
        f"the snapshot of {table_name} has no {noun} {which!r}",
        table=table_name,
        next_step=f"pass its number, 1 to {len(paths)}, or a part of its path: {_some(paths, range(len(paths)))}"
        if paths
        else f"the snapshot has no {noun}",
    )


def _some(paths: Sequence[str], positions: Sequence[int]) -> str:
    names = [file_name(paths[position]) for position in positions[:_SHOWN_CHOICES]]
    return ", ".join(names) + (" …" if len(positions) > _SHOWN_CHOICES else "")
