"""`DeleteLoader`: reads the deletes that apply to a data file, and caches them for other files and splits.

`scan/delete_file_index.py` matches delete files to data files, and `delete_file_reader.py` reads them. This module merges the position deletes of several
files.
Spec: Row-level Deletes; Scan Planning (delete files); Version 2: Row-level Deletes.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from icefloe.bounded_cache import BoundedCache
from icefloe.datafile.deletes.delete_file_reader import (
    plain_location,
    read_delete_columns,
    read_deletion_vector,
    read_position_deletes,
    read_vector_locations,
)
from icefloe.datafile.deletes.equality_key_set import EqualityKeySet
from icefloe.datafile.stored_batch import SkippedRows
from icefloe.errors import DataFileFormatError
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spec.manifest.data_file import DataFile, FileContent, FileFormat
from icefloe.spec.ports import FileIO
from icefloe.spec.puffin.deletion_vector import DeletionVector, merge_deletion_vectors
from icefloe.spec.schema.metadata_columns import DELETE_FILE_PATH
from icefloe.spec.schema.name_mapping import NameMapping
from icefloe.spec.schema.schema import Schema, select_fields
from icefloe.spec.types import ListType, MapType, NestedField, PrimitiveType, StructType

# The maximum memory of cached deletes. A vector of a million scattered positions takes 2 MB.
CACHE_BYTES = 256 * 1024 * 1024
# Bytes of a position while its file is read. If a file would take more than a quarter of the cache, it is read separately for each data file.
_POSITION_BYTES = 8
_WHOLE_FILE_SHARE = 4
# Estimated memory of a vector's metadata in a footer.
_LOCATION_BYTES = 512


@dataclass(frozen=True, slots=True)
class FileDeletes:
    """The deletes of a data file: the deleted positions, and the sets of deleted keys, one for each combination of key columns."""

    positions: SkippedRows | None
    equality: tuple[EqualityKeySet, ...]


def is_scoped_to(file: DataFile, location: str) -> bool:
    """Return True if a delete file is the deletion vector of the data file at `location`, or has position deletes only for it, by reference or bounds."""
    return target_of(file) == plain_location(location)


def target_of(file: DataFile) -> str | None:
    """Return the `plain_location` of the only data file that a deletion vector or position delete file applies to; None if it may apply to several."""
    if file.content is not FileContent.POSITION_DELETES:
        return None
    if file.referenced_data_file is not None:
        return plain_location(file.referenced_data_file)
    low, high = ((bounds or {}).get(DELETE_FILE_PATH.field_id) for bounds in (file.lower_bounds, file.upper_bounds))
    # A truncated bound is not the complete path of a data file.
    return plain_location(low.decode("utf-8", "replace")) if low is not None and low == high else None


class DeleteLoader:
    """Reader and cache of the delete files of one table. Threads may share it; a pickled copy starts with an empty cache."""

    def __init__(
        self, io: FileIO, *, schemas: Sequence[Schema] = (), name_mapping: NameMapping | None = None, cache_bytes: int = CACHE_BYTES
    ) -> None:
        """Create a loader with an empty cache.

        Args:
            io: Storage of the delete files.
            schemas: All schemas of the table, because a key column may have been dropped from the newest schema.
            name_mapping: Field ids for the columns of files without ids.
            cache_bytes: The maximum size of the cache.
        """
        self._io = io
        self._schemas = tuple(schemas)
        self._name_mapping = name_mapping
        self._cache_bytes = cache_bytes
        self._cache: BoundedCache[Hashable, Any] = BoundedCache(most_cost=cache_bytes)

    def deletes_of(self, task: FileScanTask, schema: Schema) -> FileDeletes:
        """Load the deletes of the task's data file from its delete files. `schema` is the schema with which its rows are read.

        Raises:
            NoSuchFileError: A delete file does not exist.
            DataFileFormatError: A delete file is damaged, or does not match its manifest entry.
            PuffinFormatError: A deletion vector is damaged, or does not match its manifest entry.
            UnsupportedFeatureError: A delete file is encrypted, or its format cannot be read.
        """
        by_keys: dict[tuple[int, ...], list[DataFile]] = {}
        for file in task.delete_files:
            if file.content is FileContent.EQUALITY_DELETES:
                by_keys.setdefault(tuple(sorted(set(file.equality_ids or ()))), []).append(file)
        return FileDeletes(self.positions_of(task), tuple(self._key_set(schema, ids, files) for ids, files in by_keys.items()))

    def positions_of(self, task: FileScanTask) -> DeletionVector | None:
        """Return the deleted positions of the task's data file, from its deletion vector or its position delete files; None if there are none."""
        location = task.file.file_path
        files = [file for file in task.delete_files if file.content is FileContent.POSITION_DELETES]
        vectors = [file for file in files if file.file_format is FileFormat.PUFFIN]
        if len(vectors) > 1:
            raise DataFileFormatError(
                f"{location} has {len(vectors)} deletion vectors in one snapshot, and may have one",
                path=location,
                next_step="roll the table back to a snapshot before the second one",
            )
        # A vector includes older position deletes of its data file. Spec: Scan Planning.
        positions = [self._vector(vectors[0], location)] if vectors else [self._positions(file, location) for file in files]
        non_empty = [vector for vector in positions if vector is not None]
        return None if not non_empty else non_empty[0] if len(non_empty) == 1 else merge_deletion_vectors(non_empty)

    def _vector(self, file: DataFile, location: str) -> DeletionVector:
        path = file.file_path

        def footer() -> tuple[Any, int]:
            locations = read_vector_locations(self._io, path)
            return locations, len(locations) * _LOCATION_BYTES

        def vector() -> tuple[DeletionVector, int]:
            decoded = read_deletion_vector(self._io, file, location, self._cache.get_or_load(("footer", path), footer))
            return decoded, file.content_size_in_bytes or 0

        cached: DeletionVector = self._cache.get_or_load(("vector", path, file.content_offset), vector)
        return cached

    def _positions(self, file: DataFile, location: str) -> DeletionVector | None:
        data_file = plain_location(location)
        if file.record_count * _POSITION_BYTES > self._cache_bytes // _WHOLE_FILE_SHARE:
            return read_position_deletes(self._io, file, location).get(data_file)

        def all_positions() -> tuple[Any, int]:
            by_data_file = read_position_deletes(self._io, file)
            return by_data_file, sum(len(path) + len(vector.bitmap.serialize()) for path, vector in by_data_file.items())

        positions: DeletionVector | None = self._cache.get_or_load(("positions", file.file_path), all_positions).get(data_file)
        return positions

    def _key_set(self, schema: Schema, ids: tuple[int, ...], files: Sequence[DataFile]) -> EqualityKeySet:
        fields = self.key_fields(schema, ids, files[0])

        def keys() -> tuple[EqualityKeySet, int]:
            key_set = EqualityKeySet(fields, [batch for file in files for batch in self._keys(file, fields)])
            return key_set, key_set.nbytes

        cached: EqualityKeySet = self._cache.get_or_load(("keys", fields, tuple(file.file_path for file in files)), keys)
        return cached

    def _keys(self, file: DataFile, fields: tuple[NestedField, ...]) -> Sequence[Any]:
        def read() -> tuple[Any, int]:
            batches = list(read_delete_columns(self._io, file, fields, name_mapping=self._name_mapping))
            return batches, sum(batch.nbytes for batch in batches)

        cached: Sequence[Any] = self._cache.get_or_load(("rows", fields, file.file_path), read)
        return cached

    def key_fields(self, schema: Schema, ids: tuple[int, ...], file: DataFile) -> tuple[NestedField, ...]:
        """Return the key columns of an equality delete file, with their structs, from the newest schema that contains them.

        Raises:
            DataFileFormatError: A column does not exist, or cannot be a key column.

        Spec: Equality Delete Files (columns that were dropped still count).
        """
        schemas = (schema, *reversed(self._schemas))
        key_schema = next((candidate for candidate in schemas if ids and all(field_id in candidate for field_id in ids)), None)
        if key_schema is None:
            key_schema = _join_schemas(ids, schemas)
        fields = select_fields(key_schema.fields, set(ids)) if key_schema is not None else ()
        problem = "it names no key columns" if not ids else _key_problem(ids, fields)
        if problem:
            raise DataFileFormatError(
                f"{file.file_path} is not a valid equality delete file: {problem}",
                path=file.file_path,
                next_step="roll the table back to a snapshot that does not use it",
            )
        return fields


def _join_schemas(ids: Iterable[int], schemas: Sequence[Schema]) -> Schema | None:
    """Return a schema of the top-level columns that contain these fields, each from the newest schema that has it; None if a field is in no schema.

    It is needed if no single schema has all of the fields.
    """
    columns: dict[int, NestedField] = {}
    for field_id in ids:
        newest = next((schema for schema in schemas if field_id in schema), None)
        path = newest.path_of(field_id) if newest is not None else None
        if newest is None or path is None:
            return None
        column = newest.find_field(path[0])
        columns.setdefault(column.field_id, column)
    # Columns from different schemas may have the same name.
    return Schema(*(_rename_column(column, position) for position, column in enumerate(columns.values())))


def _rename_column(column: NestedField, position: int) -> NestedField:
    return NestedField(column.field_id, f"{column.name}_{position}", column.field_type, column.required, None, column.initial_default)


def _key_problem(ids: Iterable[int], fields: tuple[NestedField, ...]) -> str | None:
    """Return the reason why columns cannot be key columns, or None: each must be primitive, at the top level or inside structs."""
    ends = dict(_ends(fields))
    missing = [field_id for field_id in ids if field_id not in ends]
    if missing:
        return f"field {missing[0]} is in no schema of the table, or is inside a list or map"
    nested = [str(kind) for kind in ends.values() if not isinstance(kind, PrimitiveType)]
    return f"a key column is a {nested[0]}" if nested else None


def _ends(fields: tuple[NestedField, ...]) -> Iterable[tuple[int, Any]]:
    for field in fields:
        if isinstance(field.field_type, StructType):
            yield from _ends(field.field_type.fields)
        elif not isinstance(field.field_type, ListType | MapType):
            yield field.field_id, field.field_type
