"""`FilesToAdd`: files that other writers made as data files of a table, with their partitions.

The partition is told by the folders of the path (`k=v/`), or by the least and greatest of the file's values, which come from `footers.py`.
Spec: Partitioning; Partition Transforms; Column Projection.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_plus

from icefloe.datafile.file_metrics import physical_value
from icefloe.datafile.foreign_files import FooterReader, FooterRequest, StoredDataFile
from icefloe.errors import InvalidInputError, Problem, SchemaMismatchError
from icefloe.kernel.manifest.data_file import DataFile
from icefloe.kernel.partitioning.partition_spec import PartitionField, PartitionSpec
from icefloe.kernel.partitioning.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    VoidTransform,
    YearTransform,
)
from icefloe.kernel.schema.name_mapping import NameMapping
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.types import DateType, IntegerType, PrimitiveType
from icefloe.kernel.values import to_physical

# What stands for null in the folders of Hive, and in those of this format.
_NULLS = ("__HIVE_DEFAULT_PARTITION__", "null")
_NOT_SAID = object()
_YEAR_ZERO = 1970
_MONTHS = 12
_HOURS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class FileToAdd:
    """A data file with its partition, as a manifest takes it; `has_ids` is whether its columns have field ids of their own."""

    file: DataFile
    has_ids: bool


class FilesToAdd:
    """What a manifest of a table says of files that other writers made, one after another, or side by side in threads."""

    def __init__(self, request: FooterRequest, spec: PartitionSpec) -> None:
        self._spec = spec
        self._schema = request.schema
        self._name_mapping = request.name_mapping
        sources = frozenset(field.source_id for field in spec.fields)
        self._footers = FooterReader(request, extremes_of=sources, from_path=columns_from_path(spec))

    def file_to_add(self, location: str) -> FileToAdd:
        """What a manifest says of one file. Raises as `FooterReader.read`, `refuse_values_of_path_alone`, `refuse_other_layout` and `partition_of`."""
        stored = self._footers.read(location)
        refuse_values_of_path_alone(stored, self._spec, self._schema, self._name_mapping)
        refuse_other_layout(location, self._spec, self._schema)
        partition = partition_of(stored, self._spec, self._schema)
        return FileToAdd(file=stored.data_file(self._spec.spec_id, partition), has_ids=stored.has_ids)


def columns_from_path(spec: PartitionSpec) -> frozenset[int]:
    """The columns whose value a path can give all rows of a file: those that the spec partitions by as they are."""
    return frozenset(field.source_id for field in spec.fields if isinstance(field.transform, IdentityTransform))


def spec_of_folders(locations: Iterable[str], specs: Sequence[PartitionSpec], current: PartitionSpec, schema: Schema) -> PartitionSpec:
    """Return the newest partition spec whose identity fields are exactly the partition columns in the folders of every location, else the current spec.

    Args:
        locations: the data files.
        specs: every partition spec of the table.
        current: the table's current spec, which wins where it matches too.
        schema: the table's columns; folders that are named like none of them do not count.
    """
    columns = {name.lower() for name in schema.names}
    layouts = {tuple(name.lower() for name in _in_path(location) if name.lower() in columns) for location in locations}
    if len(layouts) != 1 or () in layouts:
        return current
    candidates = [current, *sorted(specs, key=lambda spec: spec.spec_id, reverse=True)]
    return next((spec for spec in candidates if _identity_names(spec) in layouts), current)


def _identity_names(spec: PartitionSpec) -> tuple[str, ...] | None:
    """Return the lower-case field names of a spec of identity transforms alone."""
    if not all(isinstance(field.transform, IdentityTransform) for field in spec.fields):
        return None
    return tuple(field.name.lower() for field in spec.fields)


def refuse_values_of_path_alone(stored: StoredDataFile, spec: PartitionSpec, schema: Schema, name_mapping: NameMapping) -> None:
    """Refuse a file whose folders hold values of a column that is neither in the file nor an identity field of the spec: they would be read as null.

    Folders are named like columns, in any case, or as the name mapping names them.

    Raises:
        SchemaMismatchError: every such column is named.
    """
    columns = {name.lower(): mapped.field_id for mapped in name_mapping.fields if mapped.field_id is not None for name in mapped.names}
    columns.update((field.name.lower(), field.field_id) for field in schema.fields)
    lacking = stored.lacks - columns_from_path(spec)
    lost = [(name, columns[name.lower()]) for name in _in_path(stored.location) if columns.get(name.lower()) in lacking]
    if lost:
        raise SchemaMismatchError(
            f"no partition spec of the table matches the partition columns [{', '.join(name for name, _ in lost)}] in the path of {stored.location}",
            path=stored.location,
            problems=[
                Problem(
                    where=schema.find_column_name(field_id) or name,
                    what="has its value in the path alone, and is no identity partition field",
                )
                for name, field_id in lost
            ],
            next_step="add the files to a table that is partitioned by these columns, or append their rows",
        )


def refuse_other_layout(location: str, spec: PartitionSpec, schema: Schema) -> None:
    """Refuse a file whose folders name columns of the table, yet not every identity field of the spec: it was partitioned by another spec.

    Raises:
        SchemaMismatchError: every identity field without a folder is named.
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
    """The file's partition tuple, in physical values.

    Raises `SchemaMismatchError` where a value cannot be told, or the path says another than the data; every partition field is named.
    """
    said = _in_path(stored.location)
    problems: list[Problem] = []
    values: list[Any] = []
    for field in spec.fields:
        if isinstance(field.transform, VoidTransform):
            values.append(None)
            continue
        try:
            values.append(_value(field, stored, schema, said))
        except InvalidInputError as error:
            problems.append(Problem(where=field.name, what=error.message))
    if problems:
        raise SchemaMismatchError(
            f"the partition of {stored.location} cannot be told",
            path=stored.location,
            problems=problems,
            next_step="put files of one partition each into folders named field=value, or append their rows",
        )
    return tuple(values)


def _in_path(location: str) -> Mapping[str, str]:
    """The folders of the form name=value of a path, decoded; the last of a name counts."""
    folders = (part.partition("=") for part in location.split("/")[:-1] if "=" in part)
    return {unquote_plus(name): unquote_plus(text) for name, _, text in folders}


def _value(field: PartitionField, stored: StoredDataFile, schema: Schema, said: Mapping[str, str]) -> Any:
    source = schema.find_type(field.source_id)
    if not isinstance(source, PrimitiveType):
        raise InvalidInputError(f"its source is a {source}")
    told = _of_text(field, source, said[field.name]) if field.name in said else _NOT_SAID
    found = list(_of_data(field, source, stored))
    name = schema.find_column_name(field.source_id)
    if told is _NOT_SAID:
        if len(found) == 1:
            return found[0]
        raise InvalidInputError(
            f"the path has no folder {field.name}=..., and the footer tells no single value of {field.transform}({name}): {_words(field, source, stored)}"
        )
    if told is None and schema.find_field(field.source_id).required:
        raise InvalidInputError(f"the path says null, and {name} is required")
    if found and told not in found and not _is_between(field, told, found):
        raise InvalidInputError(
            f"the path says {said[field.name]!r}, and {name} has other values in the file: {_words(field, source, stored)}"
        )
    if len(found) > 1 and _is_known_mixed(field, stored):
        raise InvalidInputError(
            f"the path says {said[field.name]!r}, and {name} has several values in the file: {_words(field, source, stored)}"
        )
    return told


def _of_data(field: PartitionField, source: PrimitiveType, stored: StoredDataFile) -> Iterator[Any]:
    """The partition values that rows of the file surely have or lie between: none where nothing is known, one where it is all of them."""
    if field.source_id in stored.lacks:
        return
    known = stored.extremes.get(field.source_id)
    if known is None or known.may_be_nan:
        return
    if known.values is None:
        if known.rows:
            yield None
        return
    low, high = (physical_value(source, raw) for raw in known.values)
    if not known.exact and not (low == high and field.transform.preserves_order):
        return
    if known.nulls:
        yield None
    if field.transform.preserves_order:
        ends = (field.transform.apply(source, low), field.transform.apply(source, high))
        yield from dict.fromkeys(ends)
    elif low == high:
        yield field.transform.apply(source, low)


def _is_between(field: PartitionField, told: Any, found: list[Any]) -> bool:
    known = [value for value in found if value is not None]
    if told is None or len(known) < 2 or not field.transform.preserves_order:
        return False
    return bool(known[0] <= told <= known[-1])


def _is_known_mixed(field: PartitionField, stored: StoredDataFile) -> bool:
    """Whether the values that were found stand in the file: then it is of several partitions."""
    known = stored.extremes.get(field.source_id)
    return known is not None and known.exact


def _words(field: PartitionField, source: PrimitiveType, stored: StoredDataFile) -> str:
    known = stored.extremes.get(field.source_id)
    if field.source_id in stored.lacks:
        return "the file lacks the column"
    if known is None:
        return "its statistics are missing"
    if known.may_be_nan:
        return "it may hold NaN, which statistics leave out"
    nulls = f", and {known.nulls:,} nulls" if known.nulls else ""
    if known.values is None:
        return f"no values{nulls}"
    low, high = (physical_value(source, raw) for raw in known.values)
    kind = field.transform.result_type(source)
    if not field.transform.preserves_order:
        return f"values from {low!r} to {high!r}{nulls}"
    ends = [field.transform.to_human(kind, field.transform.apply(source, value)) for value in (low, high)]
    return f"values from {ends[0]} to {ends[1]}{nulls}"


def _of_text(field: PartitionField, source: PrimitiveType, text: str) -> Any:
    """The value that a folder's name stands for."""
    if text in _NULLS:
        return None
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
                raise InvalidInputError(f"the path says bucket {bucket}, and there are {field.transform.num_buckets}")
            return bucket
    except ValueError as error:
        raise InvalidInputError(f"the path says {text!r}, which is no value of {field.transform}: {error}") from error
    return to_physical(kind, text)
