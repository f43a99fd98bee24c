"""`AddFiles`: the action of `table.add_files`, which adds data files of other writers to the table, without changing or copying them.

`datafile/foreign_files.py` and `datafile/files_to_add.py` read the footers of the files.
Spec: Snapshots; Column Projection.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import filterfalse

import pyarrow.compute as pc

from icefloe.commit.append import Append
from icefloe.commit.attempt import Attempt, CommitContext, Read
from icefloe.commit.live_entries import is_among, live_entries
from icefloe.commit.snapshot_attempt import parent_snapshot
from icefloe.datafile.files_to_add import FilesToAdd, FileToAdd
from icefloe.datafile.foreign_files import FooterRequest
from icefloe.errors import CommitInvalidatedError, InvalidInputError, NoSuchFileError, Problem
from icefloe.io.listing import files_of
from icefloe.io.locations import qualify
from icefloe.operations.engine import Engine
from icefloe.operations.table_handle import TableHandle
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.metadata.metadata_updates import apply_updates
from icefloe.spec.metadata.requirement import AssertCurrentSchemaId
from icefloe.spec.metadata.snapshot_manifests import read_manifests
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.metadata.table_properties import NAME_MAPPING
from icefloe.spec.metadata.table_updates import SetProperties
from icefloe.spec.partitioning.partition_spec import PartitionSpec
from icefloe.spec.schema.name_mapping import mapping_for, mapping_to_json

# The number of threads that read footers. On object stores a thread mostly waits for two replies.
FOOTER_THREADS = 16
FOOTERS_AT_ONCE, FOOTERS_PER_TASK = 32, 64
# The number of files that an error names.
SHOWN_FILES = 5
_SIGNS = "*?["


class AddFiles:
    """The action that adds existing data files to a branch.

    Files without field ids need a name mapping. With `maps_names`, a table without a name mapping gets one with its present column names. With
    `check_duplicates`, each attempt checks that the table does not have the files already. If the commit fails, none of the files is deleted.
    """

    def __init__(
        self,
        handle: TableHandle,
        base: TableMetadata,
        files: Sequence[DataFile],
        context: CommitContext,
        *,
        check_duplicates: bool,
        maps_names: bool,
    ) -> None:
        self._handle = handle
        self._files = files
        self._context = context
        self._append = Append(files, context)
        self._check_duplicates = check_duplicates
        self._maps_names = maps_names
        self._read_by = (base.current_schema_id, base.properties.get(NAME_MAPPING.name))

    def new_data_files(self) -> Sequence[str]:
        """Return an empty sequence, because the files are not deleted if the commit fails."""
        return ()

    def attempt(self, base: TableMetadata, *, number: int, now_ms: int, read: Read) -> Attempt | None:
        """Prepare the commit of the files on top of `base`, see `Action.attempt`. Return None if there are no files.

        Raises:
            InvalidInputError: the table has one of the files already.
            CommitInvalidatedError: another writer changed the schema or the name mapping since the files were compared with them.
        """
        if not self._files:
            return None
        if not self._are_read_alike(base):
            newest = base.current_snapshot()
            raise CommitInvalidatedError(
                f"another writer changed the schema or the name mapping of {self._handle.table_name} while the files to add were checked",
                table=self._handle.table_name,
                snapshot_id=None if newest is None else newest.snapshot_id,
                problems=_read_by_problems(self._read_by, base),
                next_step="a retry makes sense: refresh the table and add the files again: they are then read by the new schema and name mapping",
            )
        if self._check_duplicates:
            self._refuse_live_files(base, read)
        if not self._maps_names or NAME_MAPPING.name in base.properties:
            return self._append.attempt(base, number=number, now_ms=now_ms, read=read)
        mapping = SetProperties({NAME_MAPPING.name: mapping_to_json(mapping_for(base.schema()))})
        working = apply_updates(base, (mapping,), max(now_ms, base.last_updated_ms))
        attempt = self._append.attempt(working, number=number, now_ms=now_ms, read=read)
        # The mapping has the names that were current when the footers were read; a column that was renamed meanwhile would not be found.
        return replace(
            attempt,
            updates=(mapping, *attempt.updates),
            requirements=(*attempt.requirements, AssertCurrentSchemaId(base.current_schema_id)),
        )

    def _are_read_alike(self, base: TableMetadata) -> bool:
        """Return whether `base` has the schema and name mapping that the footers were compared with, or the name mapping that this action would add."""
        schema_id, mapping = self._read_by
        current_mapping = base.properties.get(NAME_MAPPING.name)
        is_of_names = mapping is None and current_mapping == mapping_to_json(mapping_for(base.schema()))
        return base.current_schema_id == schema_id and (current_mapping == mapping or is_of_names)

    def _refuse_live_files(self, base: TableMetadata, read: Read) -> None:
        parent = parent_snapshot(base, self._context.branch)
        paths_to_add = {file.file_path for file in self._files}
        live_paths: list[str] = []
        for manifest in read_manifests(parent, read) if parent is not None else ():
            if manifest.has_live_files:
                entries = live_entries(base, manifest, read)
                live_paths += pc.unique(entries.filter(is_among(entries["file_path"], paths_to_add))["file_path"]).to_pylist()
        if live_paths:
            raise InvalidInputError(
                f"{_files_text(len(live_paths))} of {self._handle.table_name} already: {_paths_text(sorted(live_paths))}",
                table=self._handle.table_name,
                path=sorted(live_paths)[0],
                next_step="leave them out: a table that has a file twice has all its rows twice",
            )


def _read_by_problems(read_by: tuple[int, str | None], base: TableMetadata) -> tuple[Problem, Problem]:
    newest = base.current_snapshot()
    by = "" if newest is None else f"; its newest snapshot is {newest.snapshot_id} ({newest.operation or 'of an unknown operation'})"
    states = [
        f"schema {schema_id}, {'no' if mapping is None else 'the'} name mapping{'' if mapping is None else f' {mapping}'}"
        for schema_id, mapping in (read_by, (base.current_schema_id, base.properties.get(NAME_MAPPING.name)))
    ]
    return Problem(where="expected", what=states[0]), Problem(where="found", what=states[1] + by)


def locations_to_add(handle: TableHandle, file_paths: str | Sequence[str], *, missing_is_empty: bool = False) -> list[str]:
    """Return the locations of the files to add, as manifests will contain them: folders and patterns are replaced by the files in them.

    If `file_paths` is a single text, it is a file, a folder or a pattern. In a list, a text that ends with a slash is a folder, a text with `*`, `?` or `[` is
    a pattern, and any other text is a file.

    Raises:
        InvalidInputError: a file occurs twice, or a location is not a string.
        NoSuchFileError: a folder or pattern has no files, unless `missing_is_empty`.
    """
    locations = [file_paths] if isinstance(file_paths, str) else list(file_paths)
    invalid = list(filterfalse(lambda location: isinstance(location, str), locations))
    if invalid:
        raise InvalidInputError(
            f"the files to add contain {invalid[0]!r:.200}, which is not a location",
            table=handle.table_name,
            next_step="pass locations as text",
        )
    files: list[str] = []
    for given in locations:
        expands = isinstance(file_paths, str) or given.endswith("/") or any(sign in given for sign in _SIGNS)
        location = qualify(given)
        try:
            files += files_of(handle.io, location) if expands else [location]
        except NoSuchFileError:
            if not missing_is_empty:
                raise
    twice = sorted(location for location, count in Counter(files).items() if count > 1)
    if twice:
        raise InvalidInputError(
            f"{len(twice):,} of the files to add {'is' if len(twice) == 1 else 'are'} in the list twice: {_paths_text(twice)}",
            path=twice[0],
            next_step="name each file once",
        )
    return files


def read_footers(
    engine: Engine, handle: TableHandle, base: TableMetadata, locations: Sequence[str], spec: PartitionSpec
) -> list[FileToAdd]:
    """Read the footers of data files, and return the files with their metrics and partitions, in the order of the locations.

    The columns of each file must fit those of the table. In files without field ids, columns are found by the table's name mapping, or by the present names of
    the table's columns if it has none. Raises the error of `FilesToAdd.file_to_add` for the first unsuitable file.
    """
    request = FooterRequest(
        schema=base.schema(),
        properties=base.properties,
        name_mapping=NAME_MAPPING.read(base.properties) or mapping_for(base.schema()),
        io=handle.io,
        table_name=handle.table_name,
        sort_order=base.sort_order(),
    )
    # Each call reads several footers: a call for each of a hundred thousand files would cost more than reading them.
    groups = [locations[start : start + FOOTERS_AT_ONCE] for start in range(0, len(locations), FOOTERS_AT_ONCE)]
    files = engine.map(
        FilesToAdd(request, spec).files_to_add,
        groups,
        f"read footers of files to add to {handle.table_name}",
        tasks=len(locations) // FOOTERS_PER_TASK,
        threads=FOOTER_THREADS,
    )
    return [file for group in files for file in group]


def _paths_text(paths: Sequence[str]) -> str:
    return ", ".join(paths[:SHOWN_FILES]) + (", ..." if len(paths) > SHOWN_FILES else "")


def _files_text(files: int) -> str:
    return "1 file is one" if files == 1 else f"{files:,} files are"
