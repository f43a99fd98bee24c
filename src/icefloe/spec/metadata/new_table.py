"""The first metadata of a new table, with fresh ids: columns count from 1, partition fields from 1000.

Spec: Table Metadata; Table Metadata Fields; Schemas and Data Types (field ids).
"""

from collections.abc import Mapping

from icefloe.errors import UnsupportedFormatVersionError
from icefloe.spec.metadata import table_properties
from icefloe.spec.metadata.document_validation import DRAFT_VERSION, LATEST_SUPPORTED_VERSION
from icefloe.spec.metadata.entry_kinds import PARTITION_SPECS, SCHEMAS, SORT_ORDERS
from icefloe.spec.metadata.invariants import check_change
from icefloe.spec.metadata.raw_entries import RawEntries
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.partitioning.partition_spec import FIRST_PARTITION_FIELD_ID, UNPARTITIONED_SPEC, PartitionSpec, check_spec, rebind_spec
from icefloe.spec.partitioning.sort_order import UNSORTED_SORT_ORDER, SortOrder, check_sort_order, rebind_sort_order
from icefloe.spec.partitioning.spec_evolution import assign_field_ids
from icefloe.spec.schema.schema import Schema, assign_fresh_ids, check_unambiguous
from icefloe.spec.schema.version_rules import check_schema_version


def new_table_metadata(
    *,
    location: str,
    schema: Schema,
    spec: PartitionSpec = UNPARTITIONED_SPEC,
    sort_order: SortOrder = UNSORTED_SORT_ORDER,
    properties: Mapping[str, str] | None = None,
    format_version: int | None = None,
    table_uuid: str,
    now_ms: int,
) -> TableMetadata:
    """Return the metadata of a table without a snapshot.

    Args:
        location: Location of the table.
        schema: Columns of the table; they get fresh ids.
        spec: Partition spec, over the column ids of `schema`.
        sort_order: Sort order, over the column ids of `schema`.
        properties: Table properties; reserved ones are left out.
        format_version: Version of the format; None for that in the property `format-version`, or else 2.
        table_uuid: UUID of the table.
        now_ms: Time of creation, in milliseconds since 1970-01-01 UTC.

    Raises:
        InvalidSchemaError: the format version does not support a column's type or default.
        InvalidPartitionSpecError, InvalidInputError: the spec or the sort order does not fit the schema.
        InvalidPropertyError: a property that Icefloe acts on has an invalid value.
        UnsupportedFormatVersionError: the version is neither 1, 2 nor 3.
    """
    own_properties = table_properties.without_derived(properties or {})
    table_properties.check_properties(own_properties)
    version = table_properties.FORMAT_VERSION.read(own_properties) if format_version is None else format_version
    check_version(version)
    own_properties.pop(table_properties.FORMAT_VERSION.name, None)
    check_schema_version(schema, version)
    check_unambiguous(schema)
    fresh = _with_initial_ids(schema)
    fresh_spec = rebind_spec(spec, schema, fresh)
    fresh_spec = PartitionSpec(*assign_field_ids(fresh_spec, (), FIRST_PARTITION_FIELD_ID - 1).fields, spec_id=0)
    check_spec(fresh_spec, fresh, is_new=True)
    fresh_order = rebind_sort_order(sort_order, schema, fresh)
    fresh_order = SortOrder(*fresh_order.fields)  # its id is 0 if it is unsorted, else 1
    check_sort_order(fresh_order, fresh)
    metadata = TableMetadata(
        format_version=version,
        table_uuid=table_uuid,
        location=location.rstrip("/"),
        last_sequence_number=0,
        last_updated_ms=now_ms,
        last_column_id=fresh.highest_field_id,
        schemas=RawEntries.of(SCHEMAS, (fresh,)),
        current_schema_id=0,
        partition_specs=RawEntries.of(PARTITION_SPECS, (fresh_spec,)),
        default_spec_id=0,
        last_partition_id=fresh_spec.last_assigned_field_id,
        sort_orders=RawEntries.of(SORT_ORDERS, (fresh_order,)),
        default_sort_order_id=fresh_order.order_id,
        properties=own_properties,
    )
    check_change(None, metadata)
    return metadata


def _with_initial_ids(schema: Schema) -> Schema:
    """Return the schema as the first schema of a table: column ids are assigned again from 1, and the schema id is 0."""
    if not schema.fields:
        return Schema()
    fresh = assign_fresh_ids(schema)
    return Schema(*fresh.fields, schema_id=0, identifier_field_ids=fresh.identifier_field_ids)


def check_version(version: int) -> None:
    """Raise an error for a format version that Icefloe cannot write.

    Raises:
        UnsupportedFormatVersionError: the version is neither 1, 2 nor 3.
    """
    if not 1 <= version <= LATEST_SUPPORTED_VERSION:
        draft = " (it is a draft)" if version == DRAFT_VERSION else ""
        raise UnsupportedFormatVersionError(
            f"format version {version}{draft} cannot be written; versions 1 to {LATEST_SUPPORTED_VERSION} can",
            next_step=f"choose a format version from 1 to {LATEST_SUPPORTED_VERSION}",
        )
