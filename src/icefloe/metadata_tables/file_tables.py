"""The metadata tables of files and entries: `entries`, `files`, `data_files`, `delete_files`, and the `all_*` tables, which cover all snapshots.

`file_rows.py` makes the rows of one manifest. Spec: Manifests; Snapshots.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from icefloe.metadata_tables.file_rows import FileRowSelection, rows_of_entries, selected_entries
from icefloe.metadata_tables.manifest_filter import manifests_of
from icefloe.metadata_tables.request import Request
from icefloe.operations.parallel_requests import in_threads
from icefloe.spec.expressions.bind import predicates
from icefloe.spec.expressions.predicate import AlwaysTrue
from icefloe.spec.manifest.data_file import FileContent
from icefloe.spec.manifest_list.manifest_file import ManifestContent, ManifestFile
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.snapshot_manifests import spec_partition_type
from icefloe.spec.ports import FileIO
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import StructType

_DELETES = (FileContent.POSITION_DELETES, FileContent.EQUALITY_DELETES)
# Entries are converted to rows in groups of at most this number, except that a larger manifest is a group of its own.
_MAX_ROWS_OF_A_CALL = 2**15


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestRows:
    """The rows of some manifests, in the order of the manifests; `arrow` reads them. It can be split and pickled, so that other processes can read."""

    manifests: tuple[ManifestFile, ...]
    selection: FileRowSelection
    partition_types: Mapping[int, StructType]  # by spec id
    io: FileIO

    @property
    def manifest_bytes(self) -> int:
        """The size of all manifests in bytes."""
        return sum(manifest.manifest_length for manifest in self.manifests)

    def arrow(self) -> Any:
        """Read the manifests in parallel, and return the rows as a `pyarrow.Table`.

        Raises:
            NoSuchFileError: A manifest does not exist.
            AvroFormatError: A manifest is damaged.
            ManifestFormatError: A manifest violates the format.
        """
        entries = in_threads(self._entries, self.manifests)
        return pa.concat_tables(
            [schema_to_arrow(self.selection.schema).empty_table(), *_rows_in_groups(self.manifests, entries, self.selection)]
        )

    def parts(self, most_bytes: int) -> list["ManifestRows"]:
        """Split the manifests into groups, and return one object for each. A group has at most `most_bytes` bytes, or a single larger manifest."""
        groups: list[list[ManifestFile]] = []
        size = 0
        for manifest in self.manifests:
            size += manifest.manifest_length
            if not groups or size > most_bytes:
                groups.append([])
                size = manifest.manifest_length
            groups[-1].append(manifest)
        return [replace(self, manifests=tuple(group)) for group in groups]

    def _entries(self, manifest: ManifestFile) -> Any:
        content = self.io.read(manifest.manifest_path)
        return selected_entries(content, manifest, self.partition_types[manifest.partition_spec_id], self.selection)


Rows = Callable[[Request], ManifestRows]


def entry_rows(request: Request) -> ManifestRows:
    """Return `entries`: every entry of the manifests of a snapshot, including those of files that it deleted."""
    return _rows(request, snapshots_of(request), tuple(FileContent), with_deleted=True)


def all_entry_rows(request: Request) -> ManifestRows:
    """Return `all_entries`: every entry of the manifests of all snapshots, each manifest once."""
    return _rows(request, request.metadata.snapshots, tuple(FileContent), with_deleted=True)


def file_rows(*contents: FileContent) -> Rows:
    """Return the row function of `files`, `data_files` or `delete_files`: it returns the live files of a snapshot that have one of these contents."""
    return lambda request: _rows(request, snapshots_of(request), contents, with_deleted=False)


def all_file_rows(*contents: FileContent) -> Rows:
    """Return the row function of `all_files`, `all_data_files` or `all_delete_files`.

    It returns the live files of every manifest of every snapshot; a file that several manifests contain occurs several times.
    """
    return lambda request: _rows(request, request.metadata.snapshots, contents, with_deleted=False)


def snapshots_of(request: Request) -> Sequence[Snapshot]:
    """Return the requested snapshot in a sequence, which is empty if the table has no snapshot."""
    return () if request.snapshot is None else (request.snapshot,)


def rows_of_manifests(request: Request, manifests: Sequence[ManifestFile], selection: FileRowSelection) -> ManifestRows:
    """Return the rows of some manifests of the table."""
    specs = {manifest.partition_spec_id for manifest in manifests}
    kinds = {spec_id: spec_partition_type(request.metadata, spec_id) for spec_id in specs}
    return ManifestRows(manifests=tuple(manifests), selection=selection, partition_types=kinds, io=request.table.io)


def _rows(request: Request, snapshots: Iterable[Snapshot], contents: Sequence[FileContent], *, with_deleted: bool) -> ManifestRows:
    names = {predicate.path[0] for predicate in predicates(request.row_filter)}
    tests_rows = names <= set(
        request.whole_schema.names
    )  # a filter on a metadata column such as `_file`, which these rows do not have, is not applied
    selection = FileRowSelection(
        schema=request.schema,
        table_schema=request.metadata.schema(),
        with_deleted=with_deleted,
        contents=tuple(contents),
        row_filter=request.row_filter if tests_rows else AlwaysTrue(),
        filtered=Schema(*(column for column in request.whole_schema.fields if tests_rows and column.name in names)),
    )
    manifests = [manifest for manifest in manifests_of(request, list(snapshots)) if _contains(manifest, contents)]
    return rows_of_manifests(request, manifests, selection)


def _rows_in_groups(manifests: Sequence[ManifestFile], entries: Iterable[Any], selection: FileRowSelection) -> Iterator[Any]:
    """Yield Arrow tables of rows. Each table is made in one call from the entries of successive manifests that have the same partition spec."""
    waiting: list[Any] = []
    count, spec_id = 0, 0
    for manifest, table in zip(manifests, entries, strict=True):
        if waiting and (manifest.partition_spec_id != spec_id or count >= _MAX_ROWS_OF_A_CALL):
            yield rows_of_entries(pa.concat_tables(waiting), spec_id, selection)
            waiting, count = [], 0
        spec_id = manifest.partition_spec_id
        waiting.append(table)
        count += len(table)
    if waiting:
        yield rows_of_entries(pa.concat_tables(waiting), spec_id, selection)


def _contains(manifest: ManifestFile, contents: Sequence[FileContent]) -> bool:
    """Return True if the manifest contains files of one of the kinds."""
    return FileContent.DATA in contents if manifest.content is ManifestContent.DATA else any(kind in contents for kind in _DELETES)
