"""Changes of the schema of a table, as metadata updates, and the check that its partition specs and sort order allow them. JAVA: UpdateSchema.

The rules for a schema alone are in `spec/schema/schema_evolution.py`. Spec: Schema Evolution; Partition Evolution.
"""

from collections.abc import Iterator, Mapping, Sequence

from icefloe.errors import InvalidSchemaError
from icefloe.spec.metadata import table_properties
from icefloe.spec.metadata.layout_updates import LAST_ADDED, AddSchema, SetCurrentSchema
from icefloe.spec.metadata.metadata_updates import Update
from icefloe.spec.metadata.requirement import AssertCurrentSchemaId, AssertLastAssignedFieldId, AssertTableUUID, Requirement
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.metadata.table_updates import RemoveProperties, SetProperties
from icefloe.spec.partitioning.partition_spec import PartitionField, check_spec
from icefloe.spec.partitioning.source_columns import reason_values_change
from icefloe.spec.partitioning.transforms import VoidTransform
from icefloe.spec.schema.name_mapping import mapping_to_json, updated_mapping
from icefloe.spec.schema.schema import Schema
from icefloe.spec.schema.schema_change import SchemaChange
from icefloe.spec.schema.schema_evolution import SchemaUpdate, evolve_schema


def schema_requirements(base: TableMetadata) -> tuple[Requirement, ...]:
    """Return the requirements of a change of the schema: that the current schema and the last assigned field id have not changed."""
    return (
        AssertTableUUID(base.table_uuid),
        AssertCurrentSchemaId(base.current_schema_id),
        AssertLastAssignedFieldId(base.last_column_id),
    )


def start_schema_update(base: TableMetadata, *, allow_incompatible: bool, case_sensitive: bool) -> SchemaUpdate:
    """Return an update of the current schema of a table, to which changes can be added one by one."""
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
    """Return the updates that apply the changes to the current schema of a base; empty if the schema stays the same.

    Raises:
        InvalidSchemaError, InvalidInputError: a change violates a rule of schema evolution, or a partition spec, the sort order or the name mapping forbids it.
        InvalidPropertyError: the name mapping of the table cannot be read, so it cannot be updated with the schema.
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
    if not allow_incompatible and base.snapshots:
        _check_mapped_names(base.properties, old, new)
    return (AddSchema(new), SetCurrentSchema(LAST_ADDED), *_property_updates(base.properties, old, new))


def check_partitions_and_order(base: TableMetadata, new: Schema) -> None:
    """Check a new schema against the partition specs and the sort order of a table.

    Raises:
        InvalidSchemaError: the default spec or sort order uses a deleted column, a new type would change values of a partition field, or a column has the name
            of a partition field.
    """
    old = base.schema()
    for field in base.spec().fields:
        deleted = [old.find_column_name(source_id) for source_id in field.source_ids if source_id not in new]
        if deleted and not isinstance(field.transform, VoidTransform):
            raise InvalidSchemaError(
                f"column {deleted[0]} cannot be deleted: partition field {field.name} ({field.transform}) is computed from it",
                next_step=f"remove the partition field first, with update_spec().remove_field({field.name!r})",
            )
    for sort_field in base.sort_order().fields:
        deleted = [old.find_column_name(source_id) for source_id in sort_field.source_ids if source_id not in new]
        if deleted:
            raise InvalidSchemaError(
                f"column {deleted[0]} cannot be deleted: the table's sort order uses it",
                next_step="replace the sort order first, with update_sort_order()",
            )
    for spec in base.partition_specs:
        for field in spec.fields:
            _check_partition_source_promotion(field, old, new)
            _check_name(field, old, new)
    check_spec(base.spec(), new, may_be_unknown=True)


def _check_partition_source_promotion(field: PartitionField, old: Schema, new: Schema) -> None:
    """Refuse a type promotion that would move existing rows to another partition. Spec: Schema Evolution, on `source-id` and `source-ids`."""
    for source_id in field.source_ids:
        if source_id not in old or source_id not in new:
            continue
        before, after = old.find_type(source_id), new.find_type(source_id)
        reason = reason_values_change(field.transform, before, after) if before != after else None
        if reason is not None:
            raise InvalidSchemaError(
                f"column {new.find_column_name(source_id)} cannot change from {before} to {after}: partition field {field.name} is "
                f"{field.transform} of it, {reason}",
                next_step=f"add a new column of type {after} and write the values there",
            )


def _check_name(field: PartitionField, old: Schema, new: Schema) -> None:
    """Refuse a column with the name of a partition field of any spec, if the field is computed from another column that still exists.

    JAVA: TableMetadataParser binds every spec to the current schema and does not load such a table. If the source column of the field was deleted, it does load
    the table from 1.11 on, so that a deleted column of an identity field can be added again.
    """
    column_id = new.find_id(field.name)
    if column_id is not None and column_id != field.source_id and column_id != old.find_id(field.name) and field.source_id in new:
        raise InvalidSchemaError(
            f"column {field.name} cannot have this name: a partition field of the table, {field.transform} of another column, has it, "
            "and other engines would not load the table",
            next_step="choose another column name",
        )


def _property_updates(properties: Mapping[str, str], old: Schema, new: Schema) -> Iterator[Update]:
    """Yield the updates of properties that refer to columns by name: the name mapping, and the metrics modes of renamed or deleted columns.

    JAVA: SchemaUpdate.applyChangesToMetadata. A name mapping that cannot be read is refused here; Java logs it and leaves it out of date.
    """
    prefix = table_properties.METRICS_COLUMN_PREFIX
    changed = dict(_mapping_update(properties, old, new))
    outdated: list[str] = []
    for name, text in properties.items():
        field_id = old.find_id(name.removeprefix(prefix)) if name.startswith(prefix) else None
        if field_id is None:
            continue
        old_name, new_name = old.find_column_name(field_id), new.find_column_name(field_id)
        if old_name != new_name:
            outdated.append(name)
            if new_name is not None:
                changed[prefix + new_name] = text
    removed = tuple(name for name in outdated if name not in changed)
    if removed:
        yield RemoveProperties(removed)
    if changed:
        yield SetProperties(changed)


def _check_mapped_names(properties: Mapping[str, str], old: Schema, new: Schema) -> None:
    """Refuse a column whose name the table's name mapping assigns to another column, which was renamed or deleted.

    Files without field ids contain the values of the other column under this name, and the new column must not read them. Java moves the name to the new
    column, and so the values. Spec: Schema Evolution; Column Projection.
    """
    mapping = table_properties.NAME_MAPPING.read(properties)
    if mapping is None:
        return
    updated = updated_mapping(mapping, old, new)
    for path, field in mapping.walk():
        taker = updated.find_id(path)
        if field.field_id is not None and taker not in (None, field.field_id):
            name, former = ".".join(path), old.find_column_name(field.field_id)
            owner = f"the column {former} (field {field.field_id})" if former is not None else f"a deleted column (field {field.field_id})"
            raise InvalidSchemaError(
                f"the name {name} cannot be another column's: by the name mapping of the table, files without field ids have values of {owner} under it, "
                f"which the other column (field {taker}) would get",
                next_step="choose another name; or, where all files have field ids (rewrite_data_files with rewrite-all writes them), remove the property "
                "schema.name-mapping.default first, or pass allow_incompatible_changes=True, which moves the values with the name",
            )


def _mapping_update(properties: Mapping[str, str], old: Schema, new: Schema) -> Iterator[tuple[str, str]]:
    mapping = table_properties.NAME_MAPPING.read(properties)
    if mapping is not None and (updated := updated_mapping(mapping, old, new)) != mapping:
        yield table_properties.NAME_MAPPING.name, mapping_to_json(updated)
