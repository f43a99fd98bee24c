"""A change of a table's schema: the updates that make it, once the partition specs and the sort order allow it.

What changes of a schema are right by themselves is `kernel/schema/schema_evolution.py`. Spec: Schema Evolution; Partition Evolution.
"""

from collections.abc import Iterator, Mapping, Sequence

from icefloe.errors import InvalidSchemaError
from icefloe.kernel.metadata import table_properties
from icefloe.kernel.metadata.layout_updates import LAST_ADDED, AddSchema, SetCurrentSchema
from icefloe.kernel.metadata.metadata_updates import Update
from icefloe.kernel.metadata.requirement import AssertCurrentSchemaId, AssertLastAssignedFieldId, AssertTableUUID, Requirement
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.metadata.table_updates import RemoveProperties, SetProperties
from icefloe.kernel.partitioning.partition_spec import PartitionField, check_spec
from icefloe.kernel.partitioning.transforms import (
    BucketTransform,
    IdentityTransform,
    Transform,
    TruncateTransform,
    UnknownTransform,
    VoidTransform,
)
from icefloe.kernel.schema.name_mapping import mapping_to_json, updated_mapping
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.schema.schema_change import SchemaChange
from icefloe.kernel.schema.schema_evolution import SchemaUpdate, evolve_schema
from icefloe.kernel.types import DateType, IcebergType, PrimitiveType, UnknownType


def schema_requirements(base: TableMetadata) -> tuple[Requirement, ...]:
    """What must not have moved for a change of the schema to hold: the schema, and the column ids given out."""
    return (
        AssertTableUUID(base.table_uuid),
        AssertCurrentSchemaId(base.current_schema_id),
        AssertLastAssignedFieldId(base.last_column_id),
    )


def evolving(base: TableMetadata, *, allow_incompatible: bool, case_sensitive: bool) -> SchemaUpdate:
    """The table's schema, ready to be changed step by step."""
    return SchemaUpdate(
        base.schema(),
        base.last_column_id,
        allow_incompatible=allow_incompatible,
        case_sensitive=case_sensitive,
        format_version=base.format_version,
    )


def schema_updates(
    base: TableMetadata, changes: Sequence[SchemaChange], *, allow_incompatible: bool, case_sensitive: bool
) -> tuple[Update, ...]:
    """The updates that make the changes on this base; none where the schema stays as it is.

    Raises:
        InvalidSchemaError, InvalidInputError: a change breaks a rule of the schema, or a partition spec or the sort order forbids it.
        InvalidPropertyError: the table's name mapping cannot be read, so that it cannot follow.
    """
    old = base.schema()
    new, _ = evolve_schema(
        old,
        changes,
        base.last_column_id,
        allow_incompatible=allow_incompatible,
        case_sensitive=case_sensitive,
        format_version=base.format_version,
    )
    if new.fields == old.fields and set(new.identifier_field_ids) == set(old.identifier_field_ids):
        return ()
    check_partitions_and_order(base, new)
    return (AddSchema(new), SetCurrentSchema(LAST_ADDED), *_property_updates(base.properties, old, new))


def check_partitions_and_order(base: TableMetadata, new: Schema) -> None:
    """Looks at a new schema from the side of what is computed from its columns.

    Raises:
        InvalidSchemaError: the default spec or sort order needs a column that is gone, a new type would change values of a partition field, or a column
            takes the name of one.
    """
    old = base.schema()
    for field in base.spec().fields:
        gone = [old.find_column_name(source_id) for source_id in field.source_ids if source_id not in new]
        if gone and not isinstance(field.transform, VoidTransform):
            raise InvalidSchemaError(
                f"column {gone[0]} cannot be deleted: partition field {field.name} ({field.transform}) is computed from it",
                next_step=f"remove the partition field first, with update_spec().remove_field({field.name!r})",
            )
    for key in base.sort_order().fields:
        gone = [old.find_column_name(source_id) for source_id in key.source_ids if source_id not in new]
        if gone:
            raise InvalidSchemaError(
                f"column {gone[0]} cannot be deleted: the table's sort order uses it",
                next_step="replace the sort order first, with update_sort_order()",
            )
    for spec in base.partition_specs:
        for field in spec.fields:
            _check_promotion(field, old, new)
            _check_name(field, old, new)
    check_spec(base.spec(), new, may_be_unknown=True)


def _check_promotion(field: PartitionField, old: Schema, new: Schema) -> None:
    """Refuses a type under which rows that are already there would lie in another partition. Spec: Schema Evolution, on `source-id` and `source-ids`."""
    for source_id in field.source_ids:
        if source_id not in old or source_id not in new:
            continue
        before, after = old.find_type(source_id), new.find_type(source_id)
        reason = _changed_value(field.transform, before, after) if before != after else None
        if reason is not None:
            raise InvalidSchemaError(
                f"column {new.find_column_name(source_id)} cannot change from {before} to {after}: partition field {field.name} is "
                f"{field.transform} of it, {reason}",
                next_step=f"add a new column of type {after} and write the values there",
            )


def _changed_value(transform: Transform, before: IcebergType, after: IcebergType) -> str | None:
    """Why the partition values of rows that are there would be others after a promotion, or None: most transforms give the same for the wider type.

    Hashes are those of the wider number, and the units of time since 1970 are the same for a date and its midnight.
    """
    if isinstance(transform, VoidTransform) or not isinstance(before, PrimitiveType):
        return None
    if not isinstance(after, PrimitiveType) or not transform.can_transform(after):
        return f"which does not work on {after}"
    if isinstance(before, UnknownType):
        return None  # nulls, under any transform
    if isinstance(transform, UnknownTransform):
        return "and whether its value would change is not known"
    if isinstance(before, DateType) and isinstance(transform, IdentityTransform | BucketTransform):
        return "whose value would change: days and the timestamp of their midnight are other numbers"
    if isinstance(transform, TruncateTransform) and transform.wrapped_result(before) is not None:
        return f"whose value would change for the least values of {before}, which wrap around"
    return None


def _check_name(field: PartitionField, old: Schema, new: Schema) -> None:
    """Refuses a column with the name of a partition field of another column that is still there, whichever spec it stands in.

    JAVA: TableMetadataParser binds every spec to the current schema, and does not load a table where this is so; where the field's own column is gone, it does
    from 1.11 on, so that a dropped column of an identity field can be added again.
    """
    found = new.find_id(field.name)
    if found is not None and found != field.source_id and found != old.find_id(field.name) and field.source_id in new:
        raise InvalidSchemaError(
            f"column {field.name} cannot have this name: a partition field of the table, {field.transform} of another column, has it, "
            "and other engines would not load the table",
            next_step="choose another column name",
        )


def _property_updates(settings: Mapping[str, str], old: Schema, new: Schema) -> Iterator[Update]:
    """Properties that name columns follow them: the name mapping, and those of one column, to its new name or away with it.

    JAVA: SchemaUpdate.applyChangesToMetadata; but a mapping that cannot be read is refused here, where Java logs it and lets it fall behind the schema.
    """
    prefix = table_properties.METRICS_COLUMN_PREFIX
    moved = dict(_mapping_update(settings, old, new))
    gone: list[str] = []
    for name, text in settings.items():
        field_id = old.find_id(name.removeprefix(prefix)) if name.startswith(prefix) else None
        if field_id is None:
            continue
        was, now = old.find_column_name(field_id), new.find_column_name(field_id)
        if was != now:
            gone.append(name)
            if now is not None:
                moved[prefix + now] = text
    left = tuple(name for name in gone if name not in moved)
    if left:
        yield RemoveProperties(left)
    if moved:
        yield SetProperties(moved)


def _mapping_update(settings: Mapping[str, str], old: Schema, new: Schema) -> Iterator[tuple[str, str]]:
    mapping = table_properties.NAME_MAPPING.read(settings)
    if mapping is not None and (updated := updated_mapping(mapping, old, new)) != mapping:
        yield table_properties.NAME_MAPPING.name, mapping_to_json(updated)
