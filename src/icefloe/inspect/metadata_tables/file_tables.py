"""The tables about files and entries: `entries`, `files`, `data_files`, `delete_files`, and the same of all snapshots.

One manifest's rows are `file_rows.py`. Spec: Manifests; Snapshots.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from icefloe.inspect.metadata_tables.file_rows import FileRows, rows_of_entries, wanted_entries
from icefloe.inspect.metadata_tables.manifest_filter import manifests_of
from icefloe.inspect.metadata_tables.request import Request
from icefloe.kernel.manifest.data_file import FileContent
from icefloe.kernel.manifest_list.manifest_file import ManifestContent, ManifestFile
from icefloe.kernel.metadata.manifests import spec_partition_type
from icefloe.kernel.metadata.snapshot import Snapshot
from icefloe.kernel.ports import FileIO
from icefloe.kernel.schema.arrow_schema import schema_to_arrow
from icefloe.kernel.types import StructType
from icefloe.table.manifest_threads import in_threads

_DELETES = (FileContent.POSITION_DELETES, FileContent.EQUALITY_DELETES)
# Entries that are made into rows at once, unless one manifest has more.
_ROWS_TOGETHER = 2**15


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestRows:
    """The rows of some manifests, in their order, not made yet. It can be pickled: another process may make those of a part."""

    manifests: tuple[ManifestFile, ...]
    wanted: FileRows
    partition_types: Mapping[int, StructType]  # by spec id
    io: FileIO

    @property
    def manifest_bytes(self) -> int:
        """Of all the manifests."""
        return sum(manifest.manifest_length for manifest in self.manifests)

    def arrow(self) -> Any:
        """The rows as a `pyarrow.Table`; manifests are read side by side, and small ones made into rows together.

        Raises:
            NoSuchFileError, AvroFormatError, ManifestFormatError
        """
        entries = in_threads(self._entries, self.manifests)
        return pa.concat_tables([schema_to_arrow(self.wanted.schema).empty_table(), *_made_together(self.manifests, entries, self.wanted)])

    def parts(self, most_bytes: int) -> list["ManifestRows"]:
        """The same rows in parts, each of manifests of at most so many bytes, or of one."""
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
        return wanted_entries(content, manifest, self.partition_types[manifest.partition_spec_id], self.wanted)


Rows = Callable[[Request], ManifestRows]


def entry_rows(request: Request) -> ManifestRows:
    """`entries`: every entry of the manifests of a snapshot, those of files that it deleted too."""
    return _rows(request, snapshots_of(request), tuple(FileContent), with_deleted=True)


def all_entry_rows(request: Request) -> ManifestRows:
    """`all_entries`: the same of every manifest that any snapshot has, each once."""
    return _rows(request, request.metadata.snapshots, tuple(FileContent), with_deleted=True)


def file_rows(*contents: FileContent) -> Rows:
    """`files`, `data_files` or `delete_files`: the live files of a snapshot, of some kinds."""
    return lambda request: _rows(request, snapshots_of(request), contents, with_deleted=False)


def all_file_rows(*contents: FileContent) -> Rows:
    """`all_files`, `all_data_files` or `all_delete_files`: the live files of every manifest that any snapshot has. A file may be in several of them."""
    return lambda request: _rows(request, request.metadata.snapshots, contents, with_deleted=False)


def snapshots_of(request: Request) -> Sequence[Snapshot]:
    """The snapshot that is asked for, if there is any."""
    return () if request.snapshot is None else (request.snapshot,)


def rows_of_manifests(request: Request, manifests: Sequence[ManifestFile], wanted: FileRows) -> ManifestRows:
    """The rows of some manifests of the table."""
    specs = {manifest.partition_spec_id for manifest in manifests}
    kinds = {spec_id: spec_partition_type(request.metadata, spec_id) for spec_id in specs}
    return ManifestRows(manifests=tuple(manifests), wanted=wanted, partition_types=kinds, io=request.table.io)


def _rows(request: Request, snapshots: Iterable[Snapshot], contents: Sequence[FileContent], *, with_deleted: bool) -> ManifestRows:
    wanted = FileRows(schema=request.schema, table_schema=request.metadata.schema(), with_deleted=with_deleted, contents=tuple(contents))
    manifests = [manifest for manifest in manifests_of(request, list(snapshots)) if _holds(manifest, contents)]
    return rows_of_manifests(request, manifests, wanted)


def _made_together(manifests: Sequence[ManifestFile], entries: Iterable[Any], wanted: FileRows) -> Iterator[Any]:
    """The rows of the manifests' entries, those of one partition spec that follow each other at once."""
    waiting: list[Any] = []
    count, spec_id = 0, 0
    for manifest, table in zip(manifests, entries, strict=True):
        if waiting and (manifest.partition_spec_id != spec_id or count >= _ROWS_TOGETHER):
            yield rows_of_entries(pa.concat_tables(waiting), spec_id, wanted)
            waiting, count = [], 0
        spec_id = manifest.partition_spec_id
        waiting.append(table)
        count += len(table)
    if waiting:
        yield rows_of_entries(pa.concat_tables(waiting), spec_id, wanted)


def _holds(manifest: ManifestFile, contents: Sequence[FileContent]) -> bool:
    """Whether the manifest holds files of one of the kinds."""
    return FileContent.DATA in contents if manifest.content is ManifestContent.DATA else any(kind in contents for kind in _DELETES)
