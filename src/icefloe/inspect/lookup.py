"""Finding a level of a table by what a person types: a snapshot, one manifest of it, one data file."""

from collections.abc import Sequence

from icefloe.errors import InvalidInputError, NoSuchFileError, NoSuchSnapshotError
from icefloe.inspect.formatting import count_text, file_name
from icefloe.kernel.ports import FileIO
from icefloe.table.pyiceberg_compat import TableManifest, TableSnapshot, table_snapshot
from icefloe.table.table_reader import TableReader

# Manifests are small; a table's first few name most of what a person can mean.
_SHOWN_CHOICES = 5
# The digits of a UUID that are shown of a path: a decimal text of this length or more may be one, a shorter one is a file's number.
UUID_BEGIN = 8


def snapshot_of(table: TableReader, snapshot_id: int | None = None) -> TableSnapshot | None:
    """The snapshot asked for, the current one if None; None for a table without any. Raises `NoSuchSnapshotError`."""
    found = table.scan(snapshot_id=snapshot_id).snapshot()
    return table_snapshot(found, table.metadata) if found else None


def existing_snapshot_of(table: TableReader, snapshot_id: int | None = None) -> TableSnapshot:
    """As `snapshot_of`; a table without any snapshot raises `NoSuchSnapshotError` too."""
    found = snapshot_of(table, snapshot_id)
    if found is None:
        raise NoSuchSnapshotError(
            f"{table.full_name} has no snapshot yet: nothing was written to it", table=table.full_name, next_step="append rows to it first"
        )
    return found


def snapshot_id_of(table: TableReader, text: str | None) -> int | None:
    """The snapshot id that a text means: the id itself, a branch or a tag; None means the current one. Raises `NoSuchSnapshotError`."""
    if text is None:
        return None
    if text in table.metadata.refs:
        return table.metadata.refs[text].snapshot_id
    if text.isascii() and text.isdecimal() and table.metadata.snapshot_by_id(int(text)):
        return int(text)
    known = [str(snapshot.snapshot_id) for snapshot in table.metadata.snapshots[-_SHOWN_CHOICES:]]
    refs = ", ".join(sorted(table.metadata.refs)) or "none"
    raise NoSuchSnapshotError(
        f"{table.full_name} has no snapshot, branch or tag {text!r}",
        table=table.full_name,
        next_step=f"the newest snapshots are {', '.join(known) or 'none'}; branches and tags: {refs}",
    )


def chosen_manifest(table: TableReader, which: str | int = 1, snapshot_id: int | None = None) -> TableManifest:
    """The manifest of a snapshot by its number in the manifest list, from 1, or by its path or a part of it.

    Raises:
        NoSuchFileError: there is none. InvalidInputError: the text fits several. NoSuchSnapshotError.
    """
    manifests = existing_snapshot_of(table, snapshot_id).manifests(table.io)
    paths = [manifest.manifest_path for manifest in manifests]
    return manifests[position_of(paths, str(which), "manifest", table.full_name)]


def position_of(paths: Sequence[str], which: str, noun: str, table_name: str) -> int:
    """Where the path that a number (from 1), a path or a part of one means is among `paths`. Raises `NoSuchFileError`, `InvalidInputError`."""
    if which in paths:
        return paths.index(which)
    is_number = which.isascii() and which.isdecimal() and len(which) < UUID_BEGIN
    if is_number and 1 <= int(which) <= len(paths):
        return int(which) - 1
    found = [position for position, path in enumerate(paths) if which in path] if not is_number else []
    if len(found) == 1:
        return found[0]
    if found:
        raise InvalidInputError(
            f"{which!r} fits {len(found):,} of the {count_text(len(paths), noun)}",
            table=table_name,
            next_step=f"write more of the name: {_some(paths, found)}",
        )
    raise NoSuchFileError(
        f"the snapshot of {table_name} has no {noun} {which!r}",
        table=table_name,
        next_step=f"give its number, 1 to {len(paths)}, or a part of its path: {_some(paths, range(len(paths)))}"
        if paths
        else f"the snapshot holds no {noun} at all",
    )


def size_of(io: FileIO, location: str) -> int | None:
    """Bytes of a file that may be gone; None where it is."""
    try:
        return io.size(location)
    except NoSuchFileError:
        return None


def _some(paths: Sequence[str], positions: Sequence[int]) -> str:
    names = [file_name(paths[position]) for position in positions[:_SHOWN_CHOICES]]
    return ", ".join(names) + (" …" if len(positions) > _SHOWN_CHOICES else "")
