"""Rules of schemas, partition specs and sort orders: partition field ids are unique, source columns exist, transforms fit them, and types are only widened.

Spec: Schemas and Data Types; Schema Evolution; Partitioning; Sorting.
"""

from collections.abc import Iterator, Mapping

from icefloe.checks.finding import Finding, Severity
from icefloe.checks.rule import Level, RuleGroup, value_text
from icefloe.checks.table_content import REQUIRED_FIELD, TableContent, ids_inside_of_lists_and_maps
from icefloe.spec.metadata.document_validation import LATEST_SUPPORTED_VERSION
from icefloe.spec.metadata.entry_kinds import PARTITION_SPECS, SCHEMAS
from icefloe.spec.partitioning.partition_spec import FIRST_PARTITION_FIELD_ID, PartitionField, PartitionSpec
from icefloe.spec.partitioning.sort_order import UNSORTED_ORDER_ID
from icefloe.spec.partitioning.transforms import IdentityTransform, Transform, UnknownTransform, VoidTransform
from icefloe.spec.schema.schema import Schema, walk
from icefloe.spec.schema.type_promotion import is_promotion
from icefloe.spec.schema.version_rules import schema_version_problems
from icefloe.spec.types import IcebergType, NestedField

_RESTORE = "restore an earlier metadata file of the table, or let the writer of the table write a new one"


_rule = RuleGroup(level=Level.METADATA, next_step=_RESTORE).rule


SCHEMA_VERSION = _rule(
    "schema-version",
    Severity.ERROR,
    "A schema has only types and defaults of the table's format version.",
    "Engines that read the format version refuse the table, or return null where the default belongs.",
    section="Primitive Types",
    next_step="upgrade the table to the format version that has the type",
)
TYPE_CHANGED = _rule(
    "type-changed",
    Severity.ERROR,
    "The type of a field id differs between schemas only by a promotion.",
    "Files of the old type are misread, or fail to be read.",
    section="Schema Evolution",
    next_step="add a new column of the new type, and copy the values",
)
DEFAULT_CHANGED = _rule(
    "initial-default-changed",
    Severity.ERROR,
    "The initial default of a field is the same in every schema that has the field.",
    "Rows of files from before the field was added have other values in one snapshot than in another.",
    section="Default values",
)
SPEC_TWICE = _rule(
    "partition-spec-twice",
    Severity.NOTE,
    "No two partition specs have the same fields: a writer uses the one that exists.",
    "None for readers; files of the same partition are planned and compacted apart.",
    section="Partitioning",
    next_step="make the older spec the default again, and rewrite the files of the other",
)
PARTITION_FIELD_ID = _rule(
    "partition-field-id",
    Severity.ERROR,
    "A partition field id means one source and transform in all partition specs, and occurs once in each.",
    "Partition values of one field are read as those of another, so that files are skipped that hold matching rows.",
    section="Partition Evolution",
)
PARTITION_FIELD_REUSE = _rule(
    "partition-field-reuse",
    Severity.NOTE,
    "From version 2 on, partition fields of one source, transform and name have one field id in all partition specs.",
    "Partition metadata tables and statistics have the field twice, each for a part of the files.",
    section="Partitioning",
)
PARTITION_SOURCE = _rule(
    "partition-source",
    Severity.ERROR,
    "The source columns of a partition field are in a schema; those of the default spec in the current schema.",
    "Java refuses to load the table or to write to it; other engines cannot decode partition values.",
    section="Partitioning",
    next_step="add the column again with its id, or replace the partition field",
)
PARTITION_TRANSFORM_TYPE = _rule(
    "partition-transform-type",
    Severity.ERROR,
    "The transform of a partition field applies to the type of its source column, which is primitive and not inside of a list or map.",
    "Engines refuse the spec, or compute other partition values than were stored.",
    section="Partition Transforms",
    next_step="replace the partition field",
)
PARTITION_TRANSFORM_UNKNOWN = _rule(
    "partition-transform-unknown",
    Severity.WARNING,
    "The transforms of the default spec are those of the specification.",
    "Writers must refuse to write to the table, and readers cannot filter by the field.",
    section="Partition Transforms",
    next_step="replace the partition field",
)
PARTITION_NAME = _rule(
    "partition-name",
    Severity.ERROR,
    "The names of a spec's partition fields are unique, and no column has one of them but the source of an identity field.",
    "Java refuses the spec; the columns of partition metadata tables are ambiguous.",
    section="Partitioning",
    next_step="rename the partition field",
)
SORT_ORDER_SOURCE = _rule(
    "sort-order-source",
    Severity.WARNING,
    "The source columns of a sort order are in a schema; those of the default order in the current schema.",
    "Java refuses to write to the table, or writes unsorted files.",
    section="Sorting",
    next_step="replace the sort order",
)
SORT_ORDER_TRANSFORM = _rule(
    "sort-order-transform",
    Severity.WARNING,
    "The transforms of the default sort order are known and apply to their columns.",
    "Writers refuse to write to the table, or write unsorted files.",
    section="Sorting",
    next_step="replace the sort order",
)
SORT_ORDER_ID = _rule(
    "sort-order-unsorted",
    Severity.ERROR,
    "The sort order without fields has the id 0, and no other order has it.",
    "Java refuses to load the table.",
    section="Sorting",
)
RULES = (
    SCHEMA_VERSION,
    TYPE_CHANGED,
    DEFAULT_CHANGED,
    SPEC_TWICE,
    PARTITION_FIELD_ID,
    PARTITION_FIELD_REUSE,
    PARTITION_SOURCE,
    PARTITION_TRANSFORM_TYPE,
    PARTITION_TRANSFORM_UNKNOWN,
    PARTITION_NAME,
    SORT_ORDER_SOURCE,
    SORT_ORDER_TRANSFORM,
    SORT_ORDER_ID,
)


def layout_findings(content: TableContent) -> Iterator[Finding]:
    """Yield the violations of the rules of this module in one metadata file."""
    yield from _versions_and_changes(content)
    yield from _changed_defaults(content)
    yield from _equal_specs(content)
    yield from _spec_fields(content)
    yield from _field_ids(content)
    yield from _reused_fields(content)
    yield from _sort_orders(content)


def _versions_and_changes(content: TableContent) -> Iterator[Finding]:
    path = content.metadata_location
    types: dict[int, tuple[IcebergType, int]] = {}
    for schema_id, schema in content.schemas.items():
        for problem in schema_version_problems(schema, content.format_version):
            field_id = schema.find_id(problem.where) if problem.where not in schema.ambiguous_names else None
            yield SCHEMA_VERSION.finding(
                f"column {value_text(problem.where)} of schema {schema_id}: {value_text(problem.what)}",
                file=path,
                where=f"{SCHEMAS.key} {schema_id}, {value_text(problem.where)}",
                field_id=field_id,
            )
        for names, field in walk(schema.fields):
            kind = field.field_type
            if not kind.is_primitive:
                continue
            earlier, earlier_id = types.setdefault(field.field_id, (kind, schema_id))
            if not _is_same_or_promoted(earlier, kind):
                yield TYPE_CHANGED.finding(
                    f"column {value_text('.'.join(names))} has type {kind} in schema {schema_id}, and {earlier} in schema {earlier_id}",
                    file=path,
                    where=f"{SCHEMAS.key} {schema_id}, {value_text('.'.join(names))}",
                    field_id=field.field_id,
                    expected=str(earlier),
                    actual=str(kind),
                )


def _changed_defaults(content: TableContent) -> Iterator[Finding]:
    defaults: dict[int, tuple[NestedField, int]] = {}
    for schema_id, schema in content.schemas.items():
        for names, field in walk(schema.fields):
            earlier, earlier_id = defaults.setdefault(field.field_id, (field, schema_id))
            if earlier.field_type == field.field_type and repr(earlier.initial_default) != repr(field.initial_default):
                yield DEFAULT_CHANGED.finding(
                    f"column {value_text('.'.join(names))} has the initial default {value_text(field.initial_default)} in schema {schema_id}, "
                    f"and {value_text(earlier.initial_default)} in schema {earlier_id}",
                    file=content.metadata_location,
                    where=f"{SCHEMAS.key} {schema_id}, {value_text('.'.join(names))}",
                    field_id=field.field_id,
                    expected=value_text(earlier.initial_default),
                    actual=value_text(field.initial_default),
                )


def _equal_specs(content: TableContent) -> Iterator[Finding]:
    """Yield the specs that have the source columns, transforms and names of an earlier spec. Field ids may differ: in version 1 they follow positions."""
    known: dict[tuple[object, ...], int] = {}
    for spec_id, spec in content.specs.items():
        key = tuple((field.source_ids, str(field.transform), field.name) for field in spec.fields)
        earlier_id = known.setdefault(key, spec_id)
        if earlier_id != spec_id:
            yield SPEC_TWICE.finding(
                f"partition spec {spec_id} has the fields of spec {earlier_id}",
                file=content.metadata_location,
                where=f"{PARTITION_SPECS.key} {spec_id}",
                expected=earlier_id,
                actual=spec_id,
            )


def _is_same_or_promoted(kind: IcebergType, other: IcebergType) -> bool:
    return kind == other or is_promotion(kind, other, LATEST_SUPPORTED_VERSION) or is_promotion(other, kind, LATEST_SUPPORTED_VERSION)


def _spec_fields(content: TableContent) -> Iterator[Finding]:
    path = content.metadata_location
    default_id = content.number("default-spec-id") or 0
    schemas = list(content.schemas.values())
    current = content.current_schema
    for spec_id, spec in content.specs.items():
        is_default = spec_id == default_id
        for position, field in enumerate(spec.fields):
            where = f"{PARTITION_SPECS.key} {spec_id}, {value_text(field.name)}"
            yield from _partition_sources(field, where, path, [current] if is_default and current is not None else schemas)
            if is_default and isinstance(field.transform, UnknownTransform):
                yield PARTITION_TRANSFORM_UNKNOWN.finding(
                    f"partition field {value_text(field.name)} has the transform {value_text(field.transform)}",
                    file=path,
                    where=where,
                    field_id=field.field_id,
                    actual=str(field.transform),
                )
            earlier_names = {other.name for other in spec.fields[:position]}
            if field.name in earlier_names or (is_default and current is not None and _is_taken(field, current)):
                yield PARTITION_NAME.finding(
                    f"the name of partition field {field.field_id} ({value_text(field.name)}) is also that of another field or column",
                    file=path,
                    where=where,
                    field_id=field.field_id,
                    actual=field.name,
                )


def _is_taken(field: PartitionField, schema: Schema) -> bool:
    """Return whether a column has the name of a partition field. An identity field may have the name of its own source column."""
    if isinstance(field.transform, VoidTransform) or field.name in schema.ambiguous_names:
        return False
    column_id = schema.find_id(field.name)
    return column_id is not None and not (column_id == field.source_id and isinstance(field.transform, IdentityTransform))


def _partition_sources(field: PartitionField, where: str, path: str, schemas: list[Schema]) -> Iterator[Finding]:
    if isinstance(field.transform, VoidTransform) or not schemas:
        return
    inside = {field_id for schema in schemas for field_id in ids_inside_of_lists_and_maps(schema)}
    for source_id in field.source_ids:
        kind = next((schema.find_type(source_id) for schema in schemas if source_id in schema), None)
        if kind is None:
            yield PARTITION_SOURCE.finding(
                f"partition field {value_text(field.name)} has the source column {source_id}, which no schema has"
                if len(schemas) > 1
                else f"partition field {value_text(field.name)} has the source column {source_id}, which the current schema does not have",
                file=path,
                where=where,
                field_id=source_id,
                actual=source_id,
            )
        elif not _fits(field.transform, kind) or source_id in inside:
            yield PARTITION_TRANSFORM_TYPE.finding(
                f"partition field {value_text(field.name)} is {value_text(field.transform)} of a column of type {value_text(kind)}"
                + (" inside of a list or map" if source_id in inside else ""),
                file=path,
                where=where,
                field_id=field.field_id,
                expected=str(kind),
                actual=str(field.transform),
            )


def _fits(transform: Transform, kind: IcebergType) -> bool:
    return isinstance(transform, UnknownTransform | VoidTransform) or (kind.is_primitive and transform.can_transform(kind))


def _field_ids(content: TableContent) -> Iterator[Finding]:
    """Yield partition fields without an id, or with the id of a different field. Version 1 is exempt, in which ids follow from the positions of the fields."""
    path = content.metadata_location
    listed = content.document.get(PARTITION_SPECS.key)
    for position, spec in enumerate(listed if isinstance(listed, list) else ()):
        fields = spec.get("fields") if isinstance(spec, Mapping) else None
        for index, field in enumerate(fields if isinstance(fields, list) else ()):
            if content.format_version > 1 and isinstance(field, Mapping) and field.get("field-id") is None:
                where = f"$.{PARTITION_SPECS.key}[{position}].fields[{index}].field-id"
                yield REQUIRED_FIELD.finding(f"{where} is required, and is missing", file=path, where=where)
    meanings: dict[int, tuple[PartitionField, int]] = {}
    for spec_id, spec in content.specs.items():
        yield from _repeated_ids(spec, spec_id, path)
        for field in spec.fields if content.format_version > 1 else ():
            meaning, earlier_id = meanings.setdefault(field.field_id, (field, spec_id))
            if not _is_same_field(meaning, field):
                yield PARTITION_FIELD_ID.finding(
                    f"partition field {field.field_id} is {value_text(field)} in spec {spec_id}, and {value_text(meaning)} in spec {earlier_id}",
                    file=path,
                    where=f"{PARTITION_SPECS.key} {spec_id}, {value_text(field.name)}",
                    field_id=field.field_id,
                    expected=str(meaning),
                    actual=str(field),
                )


def _reused_fields(content: TableContent) -> Iterator[Finding]:
    """Yield partition fields that an earlier spec has under a different field id.

    Version 1 assigned field ids by position. So tables of version 1 are left out, and in upgraded tables the specs that still have the ids of version 1.
    """
    ids: dict[tuple[object, ...], tuple[int, int]] = {}
    for spec_id, spec in content.specs.items() if content.format_version > 1 else ():
        by_position = [field.field_id for field in spec.fields] == list(
            range(FIRST_PARTITION_FIELD_ID, FIRST_PARTITION_FIELD_ID + len(spec.fields))
        )
        for field in spec.fields:
            if isinstance(field.transform, VoidTransform):
                continue
            earlier, earlier_id = ids.setdefault((field.source_ids, str(field.transform), field.name), (field.field_id, spec_id))
            if earlier != field.field_id and not by_position:
                yield PARTITION_FIELD_REUSE.finding(
                    f"partition field {value_text(field)} has the id {field.field_id} in spec {spec_id}, and {earlier} in spec {earlier_id}",
                    file=content.metadata_location,
                    where=f"{PARTITION_SPECS.key} {spec_id}, {value_text(field.name)}",
                    field_id=field.field_id,
                    expected=earlier,
                    actual=field.field_id,
                )


def _repeated_ids(spec: PartitionSpec, spec_id: int, path: str) -> Iterator[Finding]:
    seen: set[int] = set()
    for field in spec.fields:
        if field.field_id in seen:
            yield PARTITION_FIELD_ID.finding(
                f"spec {spec_id} has partition field id {field.field_id} twice",
                file=path,
                where=f"{PARTITION_SPECS.key} {spec_id}, {value_text(field.name)}",
                field_id=field.field_id,
                actual=field.field_id,
            )
        seen.add(field.field_id)


def _is_same_field(field: PartitionField, other: PartitionField) -> bool:
    """Return whether two fields have the same source columns and transform. `void` counts as any transform, because version 1 keeps a dropped field as void."""
    is_void = isinstance(field.transform, VoidTransform) or isinstance(other.transform, VoidTransform)
    return field.source_ids == other.source_ids and (is_void or field.transform == other.transform)


def _sort_orders(content: TableContent) -> Iterator[Finding]:
    path = content.metadata_location
    default_id = content.number("default-sort-order-id") or 0
    schemas, current = list(content.schemas.values()), content.current_schema
    for order_id, order in content.sort_orders.items():
        where = f"sort-orders {order_id}"
        if (order_id == UNSORTED_ORDER_ID) != (not order.fields):
            yield SORT_ORDER_ID.finding(
                f"sort order {order_id} has {len(order.fields)} fields", file=path, where=where, expected=UNSORTED_ORDER_ID, actual=order_id
            )
        chosen = [current] if order_id == default_id and current is not None else schemas
        for field in order.fields:
            for source_id in field.source_ids:
                kind = next((schema.find_type(source_id) for schema in chosen if source_id in schema), None)
                if kind is None and chosen:
                    yield SORT_ORDER_SOURCE.finding(
                        f"sort order {order_id} has the source column {source_id}, which no schema has"
                        if len(chosen) > 1
                        else f"sort order {order_id} has the source column {source_id}, which the current schema does not have",
                        file=path,
                        where=where,
                        field_id=source_id,
                        actual=source_id,
                    )
                elif (
                    kind is not None
                    and order_id == default_id
                    and (isinstance(field.transform, UnknownTransform) or not _fits(field.transform, kind))
                ):
                    yield SORT_ORDER_TRANSFORM.finding(
                        f"sort order {order_id} has {value_text(field.transform)} of a column of type {value_text(kind)}",
                        file=path,
                        where=where,
                        field_id=source_id,
                        expected=str(kind),
                        actual=str(field.transform),
                    )
