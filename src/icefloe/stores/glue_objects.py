"""Conversion between tables and databases in the API of AWS Glue, and the Iceberg tables and namespaces that they represent.

The metadata location is a parameter of the table. Columns, folder and description are copied from the metadata for display in consoles, and never read back.
Parameters that other programs have set are kept. The names are the same as in Java's GlueCatalog. Spec: Metastore Tables.
"""

from collections.abc import Mapping
from typing import Any

from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.schema.schema import Schema
from icefloe.stores.hive_columns import hive_type
from icefloe.stores.metastore_store import ICEBERG, LOCATION, PREVIOUS_LOCATION, TABLE_TYPE

# The parameter of a table that is being dropped or renamed, with the process that does it. Such a table has no metadata location and is not an Iceberg table
# any more.
DROPPED_BY = "icefloe.dropped-by"
# The parameter with the new name, with dots, of a table that is being renamed.
RENAMED_TO = "icefloe.renamed-to"
# The table property that Glue shows as the description.
COMMENT = "comment"
# Namespace properties for which Glue has fields.
_NAMESPACE_FIELDS = {"location": "LocationUri", "comment": "Description"}
# Fields of a table that an update may contain; Glue returns additional fields.
_TABLE_INPUT = (
    "Name",
    "Description",
    "Owner",
    "Retention",
    "StorageDescriptor",
    "PartitionKeys",
    "ViewOriginalText",
    "ViewExpandedText",
    "TableType",
    "Parameters",
)
# The maximum lengths of texts in Glue, in characters.
_MAX_DESCRIPTION, _MAX_COMMENT = 2048, 255


def namespace_properties(database: Mapping[str, Any]) -> dict[str, str]:
    """Return the properties of a namespace from its Glue database."""
    properties = {str(key): str(text) for key, text in (database.get("Parameters") or {}).items()}
    return properties | {key: str(database[field]) for key, field in _NAMESPACE_FIELDS.items() if database.get(field)}


def database_input(name: str, properties: Mapping[str, str]) -> dict[str, Any]:
    """Return the Glue database for a namespace."""
    fields = {field: properties[key] for key, field in _NAMESPACE_FIELDS.items() if properties.get(key)}
    rest = {key: text for key, text in properties.items() if key not in _NAMESPACE_FIELDS}
    return {"Name": name, **fields, "Parameters": rest}


def parameters_of(table: Mapping[str, Any]) -> dict[str, str]:
    """Return the parameters of a table."""
    return {str(key): str(text) for key, text in (table.get("Parameters") or {}).items()}


def is_iceberg(table: Mapping[str, Any]) -> bool:
    """Return True for an Iceberg table; Glue may have the type in upper or lower case."""
    return parameters_of(table).get(TABLE_TYPE, "").upper() == ICEBERG


def metadata_location_of(table: Mapping[str, Any]) -> str:
    """Return a table's metadata location; empty if it has none."""
    return parameters_of(table).get(LOCATION, "")


def new_table(name: str, metadata_location: str, metadata: TableMetadata) -> dict[str, Any]:
    """Return the Glue table for a new Iceberg table."""
    parameters = {"EXTERNAL": "TRUE", TABLE_TYPE: ICEBERG, LOCATION: metadata_location}
    return {"Name": name, "TableType": "EXTERNAL_TABLE", "Parameters": parameters, **shown_fields({}, metadata)}


def as_input(table: Mapping[str, Any], parameters: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return a table in the form of an update request, optionally with different parameters."""
    fields = {field: table[field] for field in _TABLE_INPUT if field in table}
    return fields if parameters is None else {**fields, "Parameters": dict(parameters)}


def committed_parameters(table: Mapping[str, Any], metadata_location: str) -> dict[str, str]:
    """Return the parameters of a table after a commit."""
    location = metadata_location_of(table)
    return {**parameters_of(table), TABLE_TYPE: ICEBERG, LOCATION: metadata_location, PREVIOUS_LOCATION: location}


def dropped_parameters(table: Mapping[str, Any], process: str, renamed_to: str = "") -> dict[str, str]:
    """Return the parameters of a table that a process drops or renames. The last metadata location is kept as the previous metadata location."""
    location = {PREVIOUS_LOCATION: metadata_location_of(table)} if metadata_location_of(table) else {}
    target = {RENAMED_TO: renamed_to} if renamed_to else {}
    rest = {key: text for key, text in parameters_of(table).items() if key not in (TABLE_TYPE, LOCATION)}
    return {**rest, **location, **target, DROPPED_BY: process}


def shown_fields(table: Mapping[str, Any], metadata: TableMetadata) -> dict[str, Any]:
    """Return the fields of a table that are copied from its metadata: the columns, the folder and the comment."""
    descriptor = {**(table.get("StorageDescriptor") or {}), "Location": metadata.location, "Columns": _columns(metadata.schema())}
    comment = metadata.properties.get(COMMENT)
    return {"StorageDescriptor": descriptor, **({"Description": comment[:_MAX_DESCRIPTION]} if comment else {})}


def _columns(schema: Schema) -> list[dict[str, Any]]:
    columns = []
    for field in schema.fields:
        parameters = {
            "iceberg.field.id": str(field.field_id),
            "iceberg.field.optional": str(not field.required).lower(),
            "iceberg.field.current": "true",
        }
        column = {"Name": field.name, "Type": hive_type(field.field_type), "Parameters": parameters}
        columns.append({**column, **({"Comment": field.doc[:_MAX_COMMENT]} if field.doc else {})})
    return columns
