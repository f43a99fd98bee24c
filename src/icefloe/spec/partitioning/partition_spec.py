"""Partition specs: the partition fields of a table, their text and JSON, and the folder of a partition's files.

`transforms.py` computes partition values; `sort_order.py` has the order of rows within files. Spec: Partitioning; Appendix C, Partition
Specs.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from urllib.parse import quote_plus

from icefloe.errors import InvalidPartitionSpecError, MetadataFormatError, Problem, UnsupportedFeatureError, in_one_line
from icefloe.spec.partitioning.source_columns import sources_from_json, sources_to_json, to_transform, transform_of
from icefloe.spec.partitioning.transforms import (
    DayTransform,
    IdentityTransform,
    Transform,
    TruncateTransform,
    UnknownTransform,
    VoidTransform,
    is_time_transform,
    parse_transform,
)
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import DateType, IcebergType, IntegerType, NestedField, PrimitiveType, StringType, StructType

# Partition field ids start here, so that they differ from the ids of columns. Spec: Partition Evolution.
FIRST_PARTITION_FIELD_ID = 1000


@dataclass(frozen=True)
class PartitionField:
    """A field of the partition tuple: a transform (or its text) of the column `source_id`, with a name and a field id.

    If a transform has several source columns, the others are in `further_source_ids`. The format does not define such transforms yet, so each is an
    `UnknownTransform`.
    """

    source_id: int
    field_id: int
    transform: Transform
    name: str
    further_source_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.transform, Transform):
            object.__setattr__(self, "transform", to_transform(self.transform))

    @property
    def source_ids(self) -> tuple[int, ...]:
        """The field ids of all columns that the value is computed from, in the order of the transform; usually only one."""
        return (self.source_id, *self.further_source_ids)

    def __str__(self) -> str:
        return f"{self.field_id}: {self.name}: {self.transform}({', '.join(map(str, self.source_ids))})"


@dataclass(frozen=True, init=False)
class PartitionSpec:
    """The definition of a table's partitions: `PartitionSpec(field, field, ..., spec_id=0)`. A spec without fields is unpartitioned."""

    fields: tuple[PartitionField, ...]
    spec_id: int

    def __init__(self, *fields: PartitionField, spec_id: int = 0) -> None:
        object.__setattr__(self, "fields", tuple(fields))
        object.__setattr__(self, "spec_id", spec_id)

    def is_unpartitioned(self) -> bool:
        """Return True if all rows are in one partition: there are no fields, or only void ones."""
        return all(isinstance(field.transform, VoidTransform) for field in self.fields)

    @property
    def last_assigned_field_id(self) -> int:
        """The largest partition field id; 999 if the spec has no fields."""
        return max((field.field_id for field in self.fields), default=FIRST_PARTITION_FIELD_ID - 1)

    @cached_property
    def by_source_id(self) -> Mapping[int, tuple[PartitionField, ...]]:
        """The fields computed from each column, by the column's field id."""
        fields_by_source: dict[int, tuple[PartitionField, ...]] = {}
        for field in self.fields:
            fields_by_source[field.source_id] = (*fields_by_source.get(field.source_id, ()), field)
        return fields_by_source

    def is_equivalent(self, other: "PartitionSpec") -> bool:
        """Return True if both specs have the same fields in the same order: equal sources, transforms and names. Field ids and spec ids may differ.

        Spec: Partition Evolution.
        """
        return [_identity(field) for field in self.fields] == [_identity(field) for field in other.fields]

    def __str__(self) -> str:
        return "[" + ", ".join(map(str, self.fields)) + "]"

    def __repr__(self) -> str:
        return in_one_line(f"PartitionSpec({self.spec_id}: {', '.join(map(str, self.fields)) or 'unpartitioned'})")


UNPARTITIONED_SPEC = PartitionSpec()


@dataclass(frozen=True)
class UntypedPartition(NestedField):
    """A field of a partition tuple for an unknown transform. Its type is unknown, so its values are read as text, which is sufficient for tests of equality."""


def _identity(field: PartitionField) -> tuple[tuple[int, ...], Transform, str]:
    return field.source_ids, field.transform, field.name


# ---- text ----

# A transform such as `bucket(16, id)`, optionally with `as name`. The second group is the list of arguments.
_CALL = re.compile(r"\s*(\w+)\s*\(\s*(.*?)\s*\)\s*(?:as\s+([\w.]+)\s*)?", re.IGNORECASE)
# Names of the transforms in Spark SQL, which are accepted in addition to those of the specification.
_FUNCTION_NAMES = {"years": "year", "months": "month", "days": "day", "hours": "hour", "date": "day", "date_hour": "hour"}
_WITHOUT_NUMBER = ("identity", "year", "month", "day", "hour", "void")
_WITH_NUMBER = ("bucket", "truncate")


def partition_spec_from_text(schema: Schema, texts: Iterable[str]) -> PartitionSpec:
    """Parse a new spec from texts such as `origin`, `month(time_hour)`, `bucket(16, id)`, `truncate(4, name)` or `day(ts) as day`.

    Field ids are assigned from 1000. Fields without a name get the name that Java gives them, such as `origin`, `time_hour_month`, `id_bucket` or `name_trunc`.

    Raises:
        InvalidPartitionSpecError: A text has another form, or `check_spec` refuses the fields.
    """
    fields = [_field_from_text(schema, text, FIRST_PARTITION_FIELD_ID + index) for index, text in enumerate(texts)]
    spec = PartitionSpec(*fields)
    check_spec(spec, schema, is_new=True)
    return spec


def _field_from_text(schema: Schema, text: str, field_id: int) -> PartitionField:
    column_id = schema.find_id(_unquote(text))
    if column_id is not None:
        return PartitionField(column_id, field_id, IdentityTransform(), schema.find_column_name(column_id) or text)
    call = _CALL.fullmatch(text)
    if call is None:
        raise _unreadable(text, f"there is no column of this name among {', '.join(schema.column_names)}")
    function, arguments, name = call[1].lower(), call[2], call[3]
    function = _FUNCTION_NAMES.get(function, function)
    column, number = _arguments(arguments) if function in _WITH_NUMBER else (arguments, None)
    if function in _WITH_NUMBER:
        if number is None:
            raise _unreadable(text, f"write {function}(16, column)")
        transform = parse_transform(f"{function}[{number}]")
    elif function in _WITHOUT_NUMBER:
        transform = parse_transform(function)
    else:
        raise _unreadable(text, f"the transforms are {', '.join((*_WITHOUT_NUMBER, *_WITH_NUMBER))}")
    source_id = schema.find_id(_unquote(column))
    if source_id is None:
        raise _unreadable(text, f"there is no column {_unquote(column)!r} among {', '.join(schema.column_names)}")
    column_name = schema.find_column_name(source_id) or column
    suffix = f"_{transform.name_suffix}" if transform.name_suffix else ""
    return PartitionField(source_id, field_id, transform, name or column_name + suffix)


def _arguments(text: str) -> tuple[str, str | None]:
    """Return the column and the number in the arguments of a transform, such as `16, id` or `id, 16`; None without a number."""
    first, comma, second = (part.strip() for part in text.partition(","))
    if not comma:
        return text, None
    column, number = (second, first) if first.isdecimal() else (first, second)
    return column, number if number.isascii() and number.isdecimal() else None


def _unquote(text: str) -> str:
    name = text.strip()
    return name[1:-1] if len(name) > 2 and name[0] == name[-1] and name[0] in '`"' else name


def _unreadable(text: str, why: str) -> InvalidPartitionSpecError:
    return InvalidPartitionSpecError(f"{text!r} is not a partition field: {why}")


# ---- against a schema ----


def partition_type(spec: PartitionSpec, schema: Schema, older_schemas: Iterable[Schema] = ()) -> StructType:
    """Return the type of the partition tuple: a struct with the partition field ids, in spec order. All fields are optional.

    Args:
        spec: The partition spec.
        schema: The current schema.
        older_schemas: Schemas in which a source column is searched that `schema` does not have. If none has it, a void field is an int, because all its values
            are null.

    Raises:
        InvalidPartitionSpecError: No schema has the source column of an identity or truncate field, so that the type of its values is unknown.
    Spec: Partitioning.
    """
    schemas = (schema, *older_schemas)
    return StructType(*(_result_field(field, schemas) for field in spec.fields))


def _result_field(field: PartitionField, schemas: Sequence[Schema]) -> NestedField:
    field_class = UntypedPartition if isinstance(field.transform, UnknownTransform) else NestedField
    return field_class(field.field_id, field.name, _result_type(field, schemas), required=False)


def _result_type(field: PartitionField, schemas: Sequence[Schema]) -> PrimitiveType:
    source = next((schema.find_type(field.source_id) for schema in schemas if field.source_id in schema), None)
    if isinstance(source, PrimitiveType):
        return field.transform.result_type(source)
    if isinstance(field.transform, DayTransform):
        return DateType()
    if isinstance(field.transform, UnknownTransform):
        return StringType()
    if isinstance(field.transform, IdentityTransform | TruncateTransform):
        raise InvalidPartitionSpecError(
            f"partition field {field.name!r} is {field.transform} of field {field.source_id}, which is not a primitive column in any schema of the table",
            next_step="the metadata is damaged; restore a metadata file that still has the schema",
        )
    return IntegerType()


def partition_path(spec: PartitionSpec, schema: Schema, values: Sequence[Any], older_schemas: Iterable[Schema] = ()) -> str:
    """Return the folder of a partition under the data location, such as `day=2024-01-31/origin=JFK`; empty for a spec without fields.

    Names and values are in URL form encoding, and a null is the text `null`, as in Java. Readers do not use the folder.
    """
    return partition_path_of(spec, partition_kinds(spec, schema, older_schemas), values)


def partition_kinds(spec: PartitionSpec, schema: Schema, older_schemas: Iterable[Schema] = ()) -> list[IcebergType]:
    """Return the types of a partition's values, in the order of the spec's fields. Raises the errors of `partition_type`."""
    return [field.field_type for field in partition_type(spec, schema, older_schemas).fields]


def partition_path_of(spec: PartitionSpec, kinds: Sequence[IcebergType], values: Sequence[Any]) -> str:
    """Return the same folder as `partition_path`; `kinds` is the result of `partition_kinds`."""
    return "/".join(
        partition_folder(field, kind, value)
        for field, kind, value in zip(spec.fields, kinds, values, strict=True)
        if isinstance(kind, PrimitiveType)
    )


def partition_folder(field: PartitionField, kind: PrimitiveType, value: Any) -> str:
    """Return the part of `partition_path` for one field, such as `day=2024-01-31`. `kind` is the type of the partition value."""
    return f"{_escape(field.name)}={_escape(field.transform.to_human(kind, value))}"


def _escape(text: str) -> str:
    if text.isalnum() and text.isascii():
        return text
    # Java's form encoding keeps `*` and encodes `~`; Python's does the reverse.
    return quote_plus(text, safe="*").replace("~", "%7E")


def check_spec(spec: PartitionSpec, schema: Schema, *, may_be_unknown: bool = False, is_new: bool = False) -> None:
    """Check a spec before it is added to a table.

    Args:
        spec: The partition spec.
        schema: The schema of the table.
        may_be_unknown: Whether unknown transforms are allowed, as in the check of an existing spec against a new schema.
        is_new: Whether the table is new. The spec of a new table must not partition a column twice by the same transform, or by several units of time. An
            evolved spec may: `hour(ts)` can be added to `day(ts)`.

    Raises:
        InvalidPartitionSpecError: A source column does not exist, is not primitive, or is inside a list or map; a transform does not fit its column, or is
            unknown; an id or a name, or in a new spec a field, is repeated; or a name is that of another column. Every problem is listed.
    """
    problems = [*_problems(spec, schema, may_be_unknown), *(_redundant(spec) if is_new else ())]
    if problems:
        raise InvalidPartitionSpecError("the partition spec does not fit the schema", problems=problems)


def check_known_transforms(spec: PartitionSpec) -> None:
    """Check that all transforms of the spec are known, so that files can be written with it.

    Raises:
        UnsupportedFeatureError: A transform is unknown.
    Spec: Partition Transforms.
    """
    for field in spec.fields:
        if isinstance(field.transform, UnknownTransform):
            raise UnsupportedFeatureError(
                f"no data can be written under partition spec {spec.spec_id}: the transform {field.transform} of its field {field.name} is unknown",
                next_step=f"write with an engine that supports it, or remove the field with update_spec().remove_field({field.name!r})",
            )


def _problems(spec: PartitionSpec, schema: Schema, may_be_unknown: bool) -> Iterator[Problem]:
    ids: set[int] = set()
    names: set[str] = set()
    for field in spec.fields:
        if field.field_id in ids:
            yield Problem(where=field.name, what=f"partition field id {field.field_id} is used twice")
        if field.name in names:
            yield Problem(where=field.name, what="two partition fields have this name; rename one of them")
        if not field.name:
            yield Problem(where=str(field.field_id), what="a partition field has an empty name")
        ids.add(field.field_id)
        names.add(field.name)
        if isinstance(field.transform, VoidTransform):
            continue
        if isinstance(field.transform, UnknownTransform) and not may_be_unknown:
            yield Problem(where=field.name, what=f"there is no transform {_transform_text(field)!r}")
        for source_id in field.source_ids:
            yield from _source_problems(field, source_id, schema)
        same_name_id = schema.find_id(field.name)
        if same_name_id is not None and not (same_name_id == field.source_id and isinstance(field.transform, IdentityTransform)):
            yield Problem(where=field.name, what="a column has this name, which only its identity transform may share; choose another name")


def _redundant(spec: PartitionSpec) -> Iterator[Problem]:
    """Yield a problem for each field that repeats the transform of an earlier field of the same column, or is a second unit of time of it.

    JAVA: PartitionSpec.Builder.checkForRedundantPartitions.
    """
    computed: set[tuple[tuple[int, ...], str]] = set()
    for field in (field for field in spec.fields if not isinstance(field.transform, VoidTransform)):
        key = (field.source_ids, "time" if is_time_transform(field.transform) else str(field.transform))
        if key in computed:
            yield Problem(where=field.name, what=f"the column is already partitioned by {key[1]}; keep one of the fields")
        computed.add(key)


def _transform_text(field: PartitionField) -> str:
    return f"{field.transform} of {len(field.source_ids)} columns" if field.further_source_ids else str(field.transform)


def _source_problems(field: PartitionField, source_id: int, schema: Schema) -> Iterator[Problem]:
    path = schema.path_of(source_id)
    if path is None:
        yield Problem(where=field.name, what=f"there is no column with field id {source_id}")
        return
    source = schema.find_field(source_id)
    column = ".".join(path)
    parents = _types_above(schema, path)
    if not source.field_type.is_primitive or not all(parents):
        yield Problem(
            where=field.name, what=f"column {column!r} is not a primitive column outside of lists and maps, so it cannot partition"
        )
    elif not field.transform.can_transform(source.field_type):
        yield Problem(where=field.name, what=f"{field.transform} does not work on column {column!r} of type {source.field_type}")


def _types_above(schema: Schema, path: Sequence[str]) -> list[bool]:
    """Return for each field that contains the field at `path`, outermost first, whether it is a struct."""
    above: list[bool] = []
    fields: Collection[NestedField] = schema.fields
    for name in path[:-1]:
        parent = next((field for field in fields if field.name == name), None)
        above.append(parent is not None and isinstance(parent.field_type, StructType))
        fields = parent.field_type.fields if parent is not None and isinstance(parent.field_type, StructType) else ()
    return above


def rebind_spec(spec: PartitionSpec, old_schema: Schema, new_schema: Schema) -> PartitionSpec:
    """Return the spec with source ids of `new_schema`. Source columns are found by name, because the columns of a new table get fresh ids.

    Raises:
        InvalidPartitionSpecError: A source column is in only one of the schemas.
    """
    fields = []
    for field in spec.fields:
        new_ids = []
        for source_id in field.source_ids:
            name = old_schema.find_column_name(source_id)
            new_id = new_schema.find_id(name) if name is not None else None
            if new_id is None:
                raise InvalidPartitionSpecError(f"partition field {field.name!r}: there is no column with field id {source_id}")
            new_ids.append(new_id)
        fields.append(replace(field, source_id=new_ids[0], further_source_ids=tuple(new_ids[1:])))
    return PartitionSpec(*fields, spec_id=spec.spec_id)


# ---- JSON ----


def fields_to_json(spec: PartitionSpec) -> list[dict[str, Any]]:
    """Return the fields of a spec as JSON, as in version 1 metadata and in manifest files.

    Spec: Appendix C, Partition Specs.
    """
    return [
        {**sources_to_json(field.source_ids), "field-id": field.field_id, "transform": str(field.transform), "name": field.name}
        for field in spec.fields
    ]


def spec_to_json(spec: PartitionSpec) -> dict[str, Any]:
    """Return the spec as JSON, as in version 2 metadata.

    Spec: Appendix C, Partition Specs.
    """
    return {"spec-id": spec.spec_id, "fields": fields_to_json(spec)}


def fields_from_json(items: Any, *, spec_id: int = 0, where: str = "fields") -> PartitionSpec:
    """Return the spec of a list of fields.

    Args:
        items: The parsed JSON list. A field without an id, which version 1 allows, gets 1000 plus its position.
        spec_id: Id of the spec.
        where: JSON path of the list, for messages.

    Raises:
        MetadataFormatError: The JSON has another shape; every problem is listed with its path.
    """
    if not isinstance(items, list):
        raise MetadataFormatError("the partition spec cannot be read", problems=[Problem(where=where, what="expected a list of fields")])
    problems: list[Problem] = []
    fields = [_field_from_json(item, index, f"{where}[{index}]", problems) for index, item in enumerate(items)]
    if problems:
        raise MetadataFormatError("the partition spec cannot be read", problems=problems)
    return PartitionSpec(*(field for field in fields if field is not None), spec_id=spec_id)


def spec_from_json(value: Any, *, where: str = "partition-spec") -> PartitionSpec:
    """Return the spec of an object with `spec-id` and `fields`.

    Args:
        value: The parsed object.
        where: JSON path of the object, for messages.

    Raises:
        MetadataFormatError: As in `fields_from_json`.
    """
    if not isinstance(value, dict):
        raise MetadataFormatError("the partition spec cannot be read", problems=[Problem(where=where, what="expected an object")])
    spec_id = value.get("spec-id")
    if not isinstance(spec_id, int) or isinstance(spec_id, bool):
        raise MetadataFormatError(
            "the partition spec cannot be read", problems=[Problem(where=f"{where}.spec-id", what="expected an integer")]
        )
    return fields_from_json(value.get("fields"), spec_id=spec_id, where=f"{where}.fields")


def _field_from_json(item: Any, index: int, where: str, problems: list[Problem]) -> PartitionField | None:
    if not isinstance(item, dict):
        problems.append(Problem(where=where, what="expected an object"))
        return None
    count = len(problems)
    source_ids = sources_from_json(item, where, problems)
    field_id = item.get("field-id", FIRST_PARTITION_FIELD_ID + index)
    if not isinstance(field_id, int) or isinstance(field_id, bool):
        problems.append(Problem(where=f"{where}.field-id", what="expected an integer"))
    for key in ("transform", "name"):
        if not isinstance(item.get(key), str):
            problems.append(Problem(where=f"{where}.{key}", what="expected a string"))
    if len(problems) > count:
        return None
    try:
        transform = transform_of(item["transform"], source_ids)
        return PartitionField(source_ids[0], int(field_id), transform, item["name"], source_ids[1:])
    except InvalidPartitionSpecError as error:
        problems.append(Problem(where=f"{where}.transform", what=error.message))
        return None
