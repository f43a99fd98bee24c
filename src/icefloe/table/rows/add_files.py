"""`AddFiles`: the action of `table.add_files`: data files that other writers made become the table's, as they are and where they are.

What their footers say is `datafile/foreign_files.py` and `datafile/partition_of_file.py`.
Spec: Snapshots; Column Projection.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pyarrow.compute as pc

from icefloe.datafile.foreign_files import FooterRequest
from icefloe.errors import CommitInvalidatedError, InvalidInputError, NoSuchFileError, Problem
from icefloe.io.listing import files_of
from icefloe.io.locations import qualified
from icefloe.kernel.commit.append import Append
from icefloe.kernel.commit.attempt import Attempt, CommitContext, Read
from icefloe.kernel.commit.live_entries import is_among, live_entries
from icefloe.kernel.commit.snapshot_attempt import parent_snapshot
from icefloe.kernel.manifest.data_file import DataFile
from icefloe.kernel.metadata.manifests import read_manifests
from icefloe.kernel.metadata.metadata_updates import apply_updates
from icefloe.kernel.metadata.requirement import AssertCurrentSchemaId
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.metadata.table_properties import NAME_MAPPING
from icefloe.kernel.metadata.table_updates import SetProperties
from icefloe.kernel.schema.name_mapping import mapping_for, mapping_to_json
from icefloe.table.engine import Engine
from icefloe.table.find_engine import IN_PROCESS, running_engine
from icefloe.table.table_handle import TableHandle

# Footers. From so many on Spark reads them where it runs already; in this process ten thousand small ones take seconds.
FOOTERS_FOR_SPARK = 2_000
# Files that an error names.
SHOWN_FILES = 5
_SIGNS = "*?["


class AddFiles:
    """Adds files to the head of a branch; with them, where they have no field ids and the table no name mapping, the mapping of its present names.

    After a lost race the files that are the table's by then are looked for anew. The files are not this commit's own: none is ever deleted.
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
        """None: the files were there before, and stay."""
        return ()

    def attempt(self, base: TableMetadata, *, number: int, now_ms: int, read: Read) -> Attempt | None:
        """See `Action.attempt`.

        Raises:
            InvalidInputError: one of the files is the table's already.
            CommitInvalidatedError: the schema or the name mapping that the files were held against is another by now.
        """
        if not self._files:
            return None
        if not self._are_read_alike(base):
            newest = base.current_snapshot()
            raise CommitInvalidatedError(
                f"another writer changed the schema or the name mapping of {self._handle.table_name} while its new files were looked at",
                table=self._handle.table_name,
                snapshot_id=None if newest is None else newest.snapshot_id,
                problems=_read_by_problems(self._read_by, base),
                next_step="a retry makes sense: refresh the table and add the files again, which are then read by what it is now",
            )
        if self._check_duplicates:
            self._refuse_known(base, read)
        if not self._maps_names or NAME_MAPPING.name in base.properties:
            return self._append.attempt(base, number=number, now_ms=now_ms, read=read)
        mapping = SetProperties({NAME_MAPPING.name: mapping_to_json(mapping_for(base.schema()))})
        working = apply_updates(base, (mapping,), max(now_ms, base.last_updated_ms))
        made = self._append.attempt(working, number=number, now_ms=now_ms, read=read)
        # A column that was renamed meanwhile would be found under its old name no more.
        return replace(
            made, updates=(mapping, *made.updates), requirements=(*made.requirements, AssertCurrentSchemaId(base.current_schema_id))
        )

    def _are_read_alike(self, base: TableMetadata) -> bool:
        """Whether columns are found as in the table that the footers were held against: also where another writer's new files brought the same mapping."""
        schema_id, mapping = self._read_by
        found = base.properties.get(NAME_MAPPING.name)
        is_made = mapping is None and found == mapping_to_json(mapping_for(base.schema()))
        return base.current_schema_id == schema_id and (found == mapping or is_made)

    def _refuse_known(self, base: TableMetadata, read: Read) -> None:
        parent = parent_snapshot(base, self._context.branch)
        wanted = {file.file_path for file in self._files}
        known: list[str] = []
        for manifest in read_manifests(parent, read) if parent is not None else ():
            if manifest.has_live_files:
                entries = live_entries(base, manifest, read)
                known += pc.unique(entries.filter(is_among(entries["file_path"], wanted))["file_path"]).to_pylist()
        if known:
            raise InvalidInputError(
                f"{_counted(len(known))} of {self._handle.table_name} already: {_shown(sorted(known))}",
                table=self._handle.table_name,
                path=sorted(known)[0],
                next_step="leave them out; a file that stands in a table twice has all its rows twice",
            )


def _read_by_problems(read_by: tuple[int, str | None], base: TableMetadata) -> tuple[Problem, Problem]:
    newest = base.current_snapshot()
    by = "" if newest is None else f"; its newest snapshot is {newest.snapshot_id} ({newest.operation or 'of an unknown operation'})"
    told = [
        f"schema {schema_id}, {'no' if mapping is None else 'the'} name mapping{'' if mapping is None else f' {mapping}'}"
        for schema_id, mapping in (read_by, (base.current_schema_id, base.properties.get(NAME_MAPPING.name)))
    ]
    return Problem(where="expected", what=told[0]), Problem(where="found", what=told[1] + by)


def locations_to_add(handle: TableHandle, file_paths: str | Sequence[str], *, missing_is_empty: bool = False) -> list[str]:
    """The files' locations as they are to stand in manifests: a text may be a folder or a pattern, as may those of a list that end with a slash or have a `*`.

    Raises:
        InvalidInputError: a location stands twice, or is no text.
        NoSuchFileError: a folder or pattern has no files, unless `missing_is_empty`.
    """
    given = [file_paths] if isinstance(file_paths, str) else list(file_paths)
    if not all(map(_is_text, given)):
        raise InvalidInputError("one of the files to add is no location", next_step="pass locations as text")
    found: list[str] = []
    for location in map(qualified, given):
        expands = isinstance(file_paths, str) or location.endswith("/") or any(sign in location for sign in _SIGNS)
        try:
            found += files_of(handle.io, location) if expands else [location]
        except NoSuchFileError:
            if not missing_is_empty:
                raise
    twice = sorted(location for location, count in Counter(found).items() if count > 1)
    if twice:
        raise InvalidInputError(
            f"{len(twice):,} of the files to add {'stands' if len(twice) == 1 else 'stand'} in the list twice: {_shown(twice)}",
            path=twice[0],
            next_step="name each file once",
        )
    return found


def engine_for_footers(locations: Sequence[str]) -> Engine:
    """Spark where it runs already and there are many footers; this process otherwise."""
    return running_engine() if len(locations) >= FOOTERS_FOR_SPARK else IN_PROCESS


def footer_request(handle: TableHandle, base: TableMetadata) -> FooterRequest:
    """What the files are held against: the table's columns, found by its name mapping, or by their present names where it has none."""
    return FooterRequest(
        schema=base.schema(),
        properties=base.properties,
        name_mapping=NAME_MAPPING.read(base.properties) or mapping_for(base.schema()),
        io=handle.io,
        sort_order=base.sort_order(),
    )


def _is_text(location: object) -> bool:
    return isinstance(location, str)


def _shown(paths: Sequence[str]) -> str:
    return ", ".join(paths[:SHOWN_FILES]) + (", ..." if len(paths) > SHOWN_FILES else "")


def _counted(files: int) -> str:
    return "1 file is one" if files == 1 else f"{files:,} files are"
