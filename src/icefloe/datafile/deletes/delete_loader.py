"""`DeleteLoader`: the deletes that apply to a data file, read once and kept for the files and splits that need them again.

Which delete files apply to which data file is decided in planning; here each is read as its kind (`delete_files.py`), and position deletes of all files are
merged.
Spec: Row-level Deletes; Scan Planning (delete files); Version 2: Row-level Deletes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from icefloe.datafile.deletes.byte_cache import ByteCache
from icefloe.datafile.deletes.delete_file_reader import (
    plain_location,
    read_delete_columns,
    read_deletion_vector,
    read_position_deletes,
    read_vector_locations,
)
from icefloe.datafile.deletes.equality_key_set import KeySet
from icefloe.datafile.projected_fields import kept_fields
from icefloe.errors import DataFileFormatError
from icefloe.kernel.manifest.data_file import DataFile, FileContent, FileFormat
from icefloe.kernel.ports import FileIO
from icefloe.kernel.puffin.deletion_vector import DeletionVector, merge_deletion_vectors
from icefloe.kernel.scan.file_scan_task import FileScanTask
from icefloe.kernel.schema.metadata_columns import DELETE_FILE_PATH
from icefloe.kernel.schema.name_mapping import NameMapping
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.types import ListType, MapType, NestedField, PrimitiveType, StructType

# Bytes of memory for deletes that are kept. A vector of a million scattered positions takes 2 MB.
CACHE_BYTES = 256 * 1024 * 1024
# Bytes that a position takes while its file is read, as a number. Files that would take a quarter of the cache are read for one data file at a time.
_POSITION_BYTES = 8
_WHOLE_FILE_SHARE = 4
# Bytes, about: what a footer says of one vector.
_LOCATION_BYTES = 512


@dataclass(frozen=True, slots=True)
class FileDeletes:
    """What is deleted of one data file: positions, and keys of rows; `equality` has one set for each set of key columns."""

    positions: DeletionVector | None
    equality: tuple[KeySet, ...]


def is_scoped_to(file: DataFile, location: str) -> bool:
    """Whether a delete file is about the one data file at `location`: its vector, or position deletes that say so or whose bounds show it."""
    if file.content is not FileContent.POSITION_DELETES:
        return False
    if file.referenced_data_file is not None:
        return plain_location(file.referenced_data_file) == plain_location(location)
    low = (file.lower_bounds or {}).get(DELETE_FILE_PATH.field_id)
    high = (file.upper_bounds or {}).get(DELETE_FILE_PATH.field_id)
    # A bound that was cut short is no path of a data file.
    return low is not None and low == high and plain_location(low.decode("utf-8", "replace")) == plain_location(location)


class DeleteLoader:
    """Reads and keeps the delete files of one table. Threads may share it; a copy in another process starts empty.

    `schemas` are all that the table has had: a key column may be gone from the newest. `name_mapping` names the columns of files without field ids.
    """

    def __init__(
        self, io: FileIO, *, schemas: Sequence[Schema] = (), name_mapping: NameMapping | None = None, cache_bytes: int = CACHE_BYTES
    ) -> None:
        self._io = io
        self._schemas = tuple(schemas)
        self._name_mapping = name_mapping
        self._cache_bytes = cache_bytes
        self._cache = ByteCache(cache_bytes)

    def __reduce__(self) -> tuple[Any, ...]:
        return _loader, (self._io, self._schemas, self._name_mapping, self._cache_bytes)

    def deletes_of(self, task: FileScanTask, schema: Schema) -> FileDeletes:
        """What the task's delete files delete of its data file. `schema` is the one that rows are read with.

        Raises:
            NoSuchFileError: a delete file is gone.
            DataFileFormatError, PuffinFormatError: a delete file is not sound, or not what its manifest entry says.
            UnsupportedFeatureError: a delete file is encrypted, or of a format that is not read.
        """
        by_keys: dict[tuple[int, ...], list[DataFile]] = {}
        for file in task.delete_files:
            if file.content is FileContent.EQUALITY_DELETES:
                by_keys.setdefault(tuple(sorted(set(file.equality_ids or ()))), []).append(file)
        return FileDeletes(self.positions_of(task), tuple(self._key_set(schema, ids, files) for ids, files in by_keys.items()))

    def positions_of(self, task: FileScanTask) -> DeletionVector | None:
        """The rows of the task's data file that are deleted by position, from its vector or its position delete files; None where there are none."""
        location = task.file.file_path
        files = [file for file in task.delete_files if file.content is FileContent.POSITION_DELETES]
        vectors = [file for file in files if file.file_format is FileFormat.PUFFIN]
        if len(vectors) > 1:
            raise DataFileFormatError(
                f"{location} has {len(vectors)} deletion vectors in one snapshot, and may have one",
                path=location,
                next_step="roll the table back to a snapshot before the second one",
            )
        # A vector holds what older position delete files of its data file deleted. Spec: Scan Planning.
        found = [self._vector(vectors[0], location)] if vectors else [self._positions(file, location) for file in files]
        known = [vector for vector in found if vector is not None]
        return None if not known else known[0] if len(known) == 1 else merge_deletion_vectors(known)

    def _vector(self, file: DataFile, location: str) -> DeletionVector:
        path = file.file_path

        def footer() -> tuple[Any, int]:
            found = read_vector_locations(self._io, path)
            return found, len(found) * _LOCATION_BYTES

        def vector() -> tuple[DeletionVector, int]:
            found = read_deletion_vector(self._io, file, location, self._cache.get(("footer", path), footer))
            return found, file.content_size_in_bytes or 0

        found: DeletionVector = self._cache.get(("vector", path, file.content_offset), vector)
        return found

    def _positions(self, file: DataFile, location: str) -> DeletionVector | None:
        wanted = plain_location(location)
        if file.record_count * _POSITION_BYTES > self._cache_bytes // _WHOLE_FILE_SHARE:
            return read_position_deletes(self._io, file, location).get(wanted)

        def whole() -> tuple[Any, int]:
            found = read_position_deletes(self._io, file)
            return found, sum(len(path) + len(vector.bitmap.serialize()) for path, vector in found.items())

        found: DeletionVector | None = self._cache.get(("positions", file.file_path), whole).get(wanted)
        return found

    def _key_set(self, schema: Schema, ids: tuple[int, ...], files: Sequence[DataFile]) -> KeySet:
        fields = self.key_fields(schema, ids, files[0])

        def keys() -> tuple[KeySet, int]:
            batches = [batch for file in files for batch in self._keys(file, fields)]
            found = KeySet(fields, batches)
            return found, found.nbytes

        found: KeySet = self._cache.get(("keys", fields, tuple(file.file_path for file in files)), keys)
        return found

    def _keys(self, file: DataFile, fields: tuple[NestedField, ...]) -> Sequence[Any]:
        def read() -> tuple[Any, int]:
            found = list(read_delete_columns(self._io, file, fields, name_mapping=self._name_mapping))
            return found, sum(batch.nbytes for batch in found)

        found: Sequence[Any] = self._cache.get(("rows", fields, file.file_path), read)
        return found

    def key_fields(self, schema: Schema, ids: tuple[int, ...], file: DataFile) -> tuple[NestedField, ...]:
        """The key columns of an equality delete file as the table has them, or last had them, inside the structs they lie in.

        Raises:
            DataFileFormatError: there is no such column, or it is not one that rows can be told apart by.
        Spec: Equality Delete Files (columns that were dropped still count).
        """
        known = next((known for known in (schema, *reversed(self._schemas)) if ids and all(field_id in known for field_id in ids)), None)
        if known is None:
            known = _joined(ids, (schema, *reversed(self._schemas)))
        fields = kept_fields(known.fields, set(ids)) if known is not None else ()
        wrong = "it names no key columns" if not ids else _wrong_keys(ids, fields)
        if wrong:
            raise DataFileFormatError(
                f"{file.file_path} is no sound equality delete file: {wrong}",
                path=file.file_path,
                next_step="roll the table back to a snapshot that does not use it",
            )
        return fields


def _loader(io: FileIO, schemas: Sequence[Schema], name_mapping: NameMapping | None, cache_bytes: int) -> DeleteLoader:
    return DeleteLoader(io, schemas=schemas, name_mapping=name_mapping, cache_bytes=cache_bytes)


def _joined(ids: Iterable[int], schemas: Sequence[Schema]) -> Schema | None:
    """A schema of the top-level columns that hold the ids, each from the newest schema that has it: no schema had them all at once."""
    found: dict[int, NestedField] = {}
    for field_id in ids:
        holder = next((schema for schema in schemas if field_id in schema), None)
        path = holder.path_of(field_id) if holder is not None else None
        if holder is None or path is None:
            return None
        column = holder.find_field(path[0])
        found.setdefault(column.field_id, column)
    # Columns of different times may have had the same name.
    return Schema(*(_renamed(column, position) for position, column in enumerate(found.values())))


def _renamed(column: NestedField, position: int) -> NestedField:
    return NestedField(column.field_id, f"{column.name}_{position}", column.field_type, column.required, None, column.initial_default)


def _wrong_keys(ids: Iterable[int], fields: tuple[NestedField, ...]) -> str | None:
    """What is wrong with key columns, or None: each is a primitive, reached through structs alone."""
    ends = dict(_ends(fields))
    missing = [field_id for field_id in ids if field_id not in ends]
    if missing:
        return f"field {missing[0]} is in no schema of the table, or lies inside a list or map"
    nested = [str(kind) for kind in ends.values() if not isinstance(kind, PrimitiveType)]
    return f"a key column is a {nested[0]}" if nested else None


def _ends(fields: tuple[NestedField, ...]) -> Iterable[tuple[int, Any]]:
    for field in fields:
        if isinstance(field.field_type, StructType):
            yield from _ends(field.field_type.fields)
        elif not isinstance(field.field_type, ListType | MapType):
            yield field.field_id, field.field_type
