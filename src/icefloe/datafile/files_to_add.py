"""`FilesToAdd`: convert files of other writers to data files of a table, with their partitions.

The partition comes from the folders of the path (`k=v/`), or from the minimum and maximum of the file's values (`foreign_files.py`).
Spec: Partitioning; Partition Transforms; Column Projection.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from icefloe.datafile.file_metrics import physical_value
from icefloe.datafile.foreign_files import FooterReader, FooterRequest, StoredDataFile
from icefloe.errors import InvalidInputError, Problem, SchemaMismatchError
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.partitioning.partition_folders import folders_in_path, hive_value, iceberg_value
from icefloe.spec.partitioning.partition_spec import PartitionField, PartitionSpec
from icefloe.spec.partitioning.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    VoidTransform,
    YearTransform,
)
from icefloe.spec.schema.name_mapping import NameMapping
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import DateType, IntegerType, PrimitiveType
from icefloe.spec.values import to_physical

_NOT_IN_PATH = object()
_YEAR_ZERO = 1970
_MONTHS = 12
_HOURS = 24
# The number of folders whose values are cached: most files are in the same folder as the file before.
_KEPT_FOLDERS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class FileToAdd:
    """A file to add, as a `DataFile` with its partition and metrics. `has_ids` is true if the file's columns have field ids."""

    file: DataFile
    has_ids: bool


class FilesToAdd:
    """A reader that makes a `DataFile` of a file of another writer, which is to be added to a table. Threads may share it, and it can be pickled."""

    def __init__(self, request: FooterRequest, spec: PartitionSpec) -> None:
        """Prepare to read footers; `spec` is the partition spec of the files."""
        self._request = request
        self._spec = spec
        self._schema = request.schema
        self._name_mapping = request.name_mapping
        sources = frozenset(field.source_id for field in spec.fields)
        self._footers = FooterReader(request, extremes_of=sources, from_path=columns_from_path(spec))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle only the request; the caches start empty."""
        return FilesToAdd, (self._request, self._spec)

    def files_to_add(self, locations: Sequence[str]) -> list[FileToAdd]:
        """Return the files as `FileToAdd`, in order. Raises the error of `file_to_add` for the first unsuitable file."""
        return [self.file_to_add(location) for location in locations]

    def file_to_add(self, location: str) -> FileToAdd:
        """Return a file as `FileToAdd`. Raises as `FooterReader.read`, `refuse_values_of_path_alone`, `refuse_other_layout` and `partition_of`."""
        stored = self._footers.read(location)
        refuse_values_of_path_alone(stored, self._spec, self._schema, self._name_mapping)
        refuse_other_layout(location, self._spec, self._schema)
        partition = partition_of(stored, self._spec, self._schema)
        return FileToAdd(file=stored.data_file(self._spec.spec_id, partition), has_ids=stored.has_ids)


def columns_from_path(spec: PartitionSpec) -> frozenset[int]:
    """Return the field ids of the columns whose value may come from a file's path: the source columns of identity transforms."""
    return frozenset(field.source_id for field in spec.fields if isinstance(field.transform, IdentityTransform))


def spec_of_folders(locations: Iterable[str], specs: Sequence[PartitionSpec], current: PartitionSpec, schema: Schema) -> PartitionSpec:
    """Return the spec by which files in folders `name=value` are partitioned: the newest whose fields are these columns, all by identity.

    The current spec is returned if no spec has exactly these fields, if the files have different columns in their folders, or if they have none.

    Args:
        locations: The data files.
        specs: Every partition spec of the table.
        current: The table's current spec, which is preferred if it also matches.
        schema: The table's columns; folders with other names are ignored.
    """
    columns = {name.lower() for name in schema.names}
    layouts = {tuple(name.lower() for name in _in_path(location) if name.lower() in columns) for location in locations}
    if len(layouts) != 1 or () in layouts:
        return current
    candidates = [current, *sorted(specs, key=lambda spec: spec.spec_id, reverse=True)]
    return next((spec for spec in candidates if _identity_names(spec) in layouts), current)


def _identity_names(spec: PartitionSpec) -> tuple[str, ...] | None:
    """Return the field names of a spec in lower case; None if it has a transform other than identity."""
    if not all(isinstance(field.transform, IdentityTransform) for field in spec.fields):
        return None
    return tuple(field.name.lower() for field in spec.fields)


def refuse_values_of_path_alone(stored: StoredDataFile, spec: PartitionSpec, schema: Schema, name_mapping: NameMapping) -> None:
    """Refuse a file with a folder value for a column that is neither in the file nor an identity field of the spec: the column would be read as null.

    A folder belongs to a column if it has the column's name, in any case, or one of its names in the name mapping.

    Raises:
        SchemaMismatchError: There are such columns; the error lists all of them.
    """
    columns = {name.lower(): mapped.field_id for mapped in name_mapping.fields if mapped.field_id is not None for name in mapped.names}
    columns.update((field.name.lower(), field.field_id) for field in schema.fields)
    lacking = stored.lacks - columns_from_path(spec)
    path_only = [(name, columns[name.lower()]) for name in _in_path(stored.location) if columns.get(name.lower()) in lacking]
    if path_only:
        raise SchemaMismatchError(
            f"no partition spec of the table matches the partition columns [{', '.join(name for name, _ in path_only)}] in the path of {stored.location}",
            path=stored.location,
            problems=[
                Problem(
                    where=schema.find_column_name(field_id) or name,
                    what="has its value in the path alone, and is not an identity partition field",
                )
                for name, field_id in path_only
            ],
            next_step="add the files to a table that is partitioned by these columns, or append their rows",
        )


def refuse_other_layout(location: str, spec: PartitionSpec, schema: Schema) -> None:
    """Refuse a file whose folders have columns of the table, but not every identity field of the spec, because it was partitioned by a different spec.

    Raises:
        SchemaMismatchError: There are identity fields without a folder; the error lists all of them.
    """
    columns = {name.lower() for name in schema.names}
    folders = [name for name in _in_path(location) if name.lower() in columns]
    named = {name.lower() for name in _in_path(location)}
    lacking = [field for field in spec.fields if isinstance(field.transform, IdentityTransform) and field.name.lower() not in named]
    if folders and lacking:
        raise SchemaMismatchError(
            f"no partition spec of the table matches the partition columns [{', '.join(folders)}] in the path of {location}",
            path=location,
            problems=[
                Problem(where=field.name, what="is an identity partition field, and the path has no folder of it") for field in lacking
            ],
            next_step="put the files into a folder for every identity partition field, or append their rows",
        )


def partition_of(stored: StoredDataFile, spec: PartitionSpec, schema: Schema) -> tuple[Any, ...]:
    """Return the partition tuple of a file, in physical values.

    Raises:
        SchemaMismatchError: A value is unknown, or the path and the data contradict each other; the error lists all such partition fields.
    """
    path_values = _in_path(stored.location)
    problems: list[Problem] = []
    values: list[Any] = []
    for field in spec.fields:
        if isinstance(field.transform, VoidTransform):
            values.append(None)
            continue
        try:
            values.append(_value(field, spec, stored, schema, path_values))
        except InvalidInputError as error:
            problems.append(Problem(where=field.name, what=error.message))
    if problems:
        raise SchemaMismatchError(
            f"the partition of {stored.location} cannot be determined",
            path=stored.location,
            problems=problems,
            next_step="put files of one partition each, which have the columns, into folders named field=value, or append their rows",
        )
    return tuple(values)


def _in_path(location: str) -> Mapping[str, str]:
    """Return the encoded values of the folders `name=value` in a path, by name; the last value of a repeated name."""
    return _in_folder(location.rpartition("/")[0])


@lru_cache(maxsize=_KEPT_FOLDERS)
def _in_folder(folder: str) -> Mapping[str, str]:
    return MappingProxyType(dict(folders_in_path(f"{folder}/")))


def _value(field: PartitionField, spec: PartitionSpec, stored: StoredDataFile, schema: Schema, path_values: Mapping[str, str]) -> Any:
    """Return a file's physical value of one partition field. Raises `InvalidInputError` with the reason if it cannot be determined."""
    source = schema.find_type(field.source_id)
    if not isinstance(source, PrimitiveType):
        raise InvalidInputError(f"its source is a {source}")
    if field.source_id in stored.lacks and not isinstance(field.transform, IdentityTransform):
        return _value_without_column(field, spec, source, stored, schema, path_values)
    data_values = list(_of_data(field, source, stored))
    path_value = _of_folder(field, source, path_values[field.name], stored, data_values) if field.name in path_values else _NOT_IN_PATH
    name = schema.find_column_name(field.source_id)
    if path_value is _NOT_IN_PATH:
        if len(data_values) == 1:
            return data_values[0]
        raise InvalidInputError(
            f"the path has no folder {field.name}=..., and the footer has no single value of {field.transform}({name}): "
            f"{_data_description(field, source, stored)}"
        )
    if path_value is None and schema.find_field(field.source_id).required:
        raise InvalidInputError(f"the path has null, and {name} is required")
    if data_values and path_value not in data_values and not _is_between(field, path_value, data_values):
        raise InvalidInputError(
            f"the path has {path_values[field.name]!r}, and {name} has other values in the file: {_data_description(field, source, stored)}"
        )
    if len(data_values) > 1 and _is_known_mixed(field, stored):
        raise InvalidInputError(
            f"the path has {path_values[field.name]!r}, and {name} has several values in the file: {_data_description(field, source, stored)}"
        )
    return path_value


def _value_without_column(
    field: PartitionField,
    spec: PartitionSpec,
    source: PrimitiveType,
    stored: StoredDataFile,
    schema: Schema,
    path_values: Mapping[str, str],
) -> Any:
    """Return the partition value of a file that lacks the source column. It is the transform of the value that readers use for the missing column.

    Raises:
        InvalidInputError: The folder in the path has a different value, or readers use different values for different rows.
    """
    constants = {
        identity.source_id: _value(identity, spec, stored, schema, path_values)
        for identity in spec.fields
        if identity.source_id == field.source_id and isinstance(identity.transform, IdentityTransform)
    }
    value = partition_without_column(field, source, schema, constants)
    kind = field.transform.result_type(source)
    for name, folder in path_values.items():
        if name.lower() != field.name.lower():
            continue
        texts = dict.fromkeys((hive_value(folder), iceberg_value(folder)))
        if not any(_is_text_of(field, source, value, text) for text in texts):
            shown = "null" if value is None else field.transform.to_human(kind, value)
            raise InvalidInputError(
                f"the path has {folder!r}, and the file lacks {schema.find_column_name(field.source_id)}, so that the value of its rows is {shown}:"
                f" only an identity partition field gives rows the value of a folder"
            )
    return value


def partition_without_column(field: PartitionField, source: PrimitiveType, schema: Schema, constants: Mapping[int, Any]) -> Any:
    """Return the physical partition value of rows whose file lacks the source column of a partition field.

    Args:
        field: The partition field.
        source: The type of its source column.
        schema: The schema with which the rows are read.
        constants: The values of identity partition columns, by field id.

    Raises:
        InvalidInputError: The value depends on the row: the column has a default, and is in a struct that may be null.
    Spec: Column Projection; Default values.
    """
    if field.source_id in constants:
        return field.transform.apply(source, constants[field.source_id])
    default = schema.find_field(field.source_id).initial_default
    if default is not None and all(column.field_id != field.source_id for column in schema.fields):
        raise InvalidInputError("the file lacks its source column, whose default is the value only of rows whose struct is not null")
    return field.transform.apply(source, default)


def _of_data(field: PartitionField, source: PrimitiveType, stored: StoredDataFile) -> Iterator[Any]:
    """Yield the partition values that the file's statistics show: null if there are nulls, and the smallest and the greatest value; none if unknown."""
    if field.source_id in stored.lacks:
        return
    extremes = stored.extremes.get(field.source_id)
    if extremes is None or extremes.may_be_nan:
        return
    if extremes.values is None:
        if extremes.rows:
            yield None
        return
    low, high = (physical_value(source, raw) for raw in extremes.values)
    if not extremes.exact and not (low == high and field.transform.preserves_order):
        return
    if extremes.nulls:
        yield None
    if field.transform.preserves_order:
        ends = (field.transform.apply(source, low), field.transform.apply(source, high))
        yield from dict.fromkeys(ends)
    elif low == high:
        yield field.transform.apply(source, low)


def _is_between(field: PartitionField, path_value: Any, data_values: list[Any]) -> bool:
    not_null = [value for value in data_values if value is not None]
    if path_value is None or len(not_null) < 2 or not field.transform.preserves_order:
        return False
    return bool(not_null[0] <= path_value <= not_null[-1])


def _is_known_mixed(field: PartitionField, stored: StoredDataFile) -> bool:
    """Return True if the statistics are exact, so that a file with different extremes certainly has rows of several partitions."""
    extremes = stored.extremes.get(field.source_id)
    return extremes is not None and extremes.exact


def _data_description(field: PartitionField, source: PrimitiveType, stored: StoredDataFile) -> str:
    """Return a text for errors that describes the values in the file."""
    extremes = stored.extremes.get(field.source_id)
    if field.source_id in stored.lacks:
        return "the file lacks the column"
    if extremes is None:
        return "its statistics are missing"
    if extremes.may_be_nan:
        return "it may contain NaN, which statistics ignore"
    nulls = f", and {extremes.nulls:,} nulls" if extremes.nulls else ""
    if extremes.values is None:
        return f"no values{nulls}"
    low, high = (physical_value(source, raw) for raw in extremes.values)
    kind = field.transform.result_type(source)
    if not field.transform.preserves_order:
        return f"values from {low!r} to {high!r}{nulls}"
    ends = [field.transform.to_human(kind, field.transform.apply(source, value)) for value in (low, high)]
    return f"values from {ends[0]} to {ends[1]}{nulls}"


def _of_folder(field: PartitionField, source: PrimitiveType, folder: str, stored: StoredDataFile, data_values: Sequence[Any]) -> Any:
    """Parse the partition value in a folder's name: as Hive writes it, or as Iceberg writes it if all rows of the file have that value.

    Iceberg writes a space as a plus sign and null as `null`, and its data files have their partition columns.

    Raises:
        InvalidInputError: Both encodings give different values, and the file's statistics do not show which is right; or the text is not a valid value.
    """
    of_hive, of_iceberg = hive_value(folder), iceberg_value(folder)
    if of_hive != of_iceberg and field.source_id not in stored.lacks:
        if not data_values:
            raise InvalidInputError(
                f"the path has {folder!r}, which is one value in the layout of Hive and another in that of Iceberg, and of the values in the file:"
                f" {_data_description(field, source, stored)}"
            )
        if len(data_values) == 1 and _is_text_of(field, source, data_values[0], of_iceberg):
            return data_values[0]
    return None if of_hive is None else _of_text(field, source, of_hive)


def _is_text_of(field: PartitionField, source: PrimitiveType, value: Any, text: str | None) -> bool:
    """Return whether parsing a text gives this partition value. Both may be None, for null."""
    if text is None or value is None:
        return text is None and value is None
    with suppress(InvalidInputError):
        return bool(_of_text(field, source, text) == value)
    return False


def _of_text(field: PartitionField, source: PrimitiveType, text: str) -> Any:
    """Parse a decoded text as a partition value. Raises `InvalidInputError`."""
    kind = field.transform.result_type(source)
    try:
        if isinstance(field.transform, YearTransform):
            return int(text) - _YEAR_ZERO
        if isinstance(field.transform, MonthTransform):
            year, month = map(int, text.rsplit("-", 1))
            return (year - _YEAR_ZERO) * _MONTHS + month - 1
        if isinstance(field.transform, DayTransform):
            return to_physical(DateType(), text)
        if isinstance(field.transform, HourTransform):
            day, hour = text.rsplit("-", 1)
            return to_physical(DateType(), day) * _HOURS + int(hour)
        if isinstance(field.transform, BucketTransform):
            bucket = to_physical(IntegerType(), text)
            if not 0 <= bucket < field.transform.num_buckets:
                raise InvalidInputError(f"the path has bucket {bucket}, and there are {field.transform.num_buckets}")
            return bucket
    except ValueError as error:
        raise InvalidInputError(f"the path has {text!r}, which is not a value of {field.transform}: {error}") from error
    return to_physical(kind, text)
