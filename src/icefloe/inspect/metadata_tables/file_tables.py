"""The tables about files and entries: `entries`, `files`, `data_files`, `delete_files`, and the same of all snapshots.

One manifest's rows are `file_rows.py`. Floor: inspect. Spec: Manifests; Snapshots.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

from icefloe.inspect.metadata_tables.file_rows import FileRows, rows_of_manifest
from icefloe.inspect.metadata_tables.reach import manifests_of
from icefloe.inspect.metadata_tables.request import Request, empty_rows
from icefloe.kernel.manifest.data_file import FileContent
from icefloe.kernel.manifest_list.manifest_file import ManifestContent, ManifestFile
from icefloe.kernel.metadata.manifests import spec_partition_type
from icefloe.kernel.metadata.snapshot import Snapshot
from icefloe.table.threads import in_threads

_DELETES = (FileContent.POSITION_DELETES, FileContent.EQUALITY_DELETES)
Rows = Callable[[Request], Any]


def entry_rows(request: Request) -> Any:
    """`entries`: every entry of the manifests of a snapshot, those of files that it deleted too."""
    return _rows(request, snapshots_of(request), tuple(FileContent), with_deleted=True)


def all_entry_rows(request: Request) -> Any:
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


def _rows(request: Request, snapshots: Iterable[Snapshot], contents: Sequence[FileContent], *, with_deleted: bool) -> Any:
    wanted = FileRows(schema=request.schema, table_schema=request.metadata.schema(), with_deleted=with_deleted, contents=tuple(contents))
    manifests = [manifest for manifest in manifests_of(request, list(snapshots)) if _holds(manifest, contents)]

    def read(manifest: ManifestFile) -> Any:
        partition_type = spec_partition_type(request.metadata, manifest.partition_spec_id)
        return rows_of_manifest(request.table.io.read(manifest.manifest_path), manifest, partition_type, wanted)

    found = list(in_threads(read, manifests))
    return pa.concat_tables(found) if found else empty_rows(request)


def _holds(manifest: ManifestFile, contents: Sequence[FileContent]) -> bool:
    """Whether the manifest holds files of one of the kinds."""
    return FileContent.DATA in contents if manifest.content is ManifestContent.DATA else any(kind in contents for kind in _DELETES)
