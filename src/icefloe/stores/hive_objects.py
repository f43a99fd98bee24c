"""Conversion between tables and databases of a Hive metastore, and the Iceberg tables and namespaces that they represent.

The metadata location is a parameter of the table. The other parameters, the columns and the storage descriptor are copied from the metadata for Hive and for
consoles, and never read back. Parameters that other programs have set are kept. The names are the same as in Java's Hive catalog. Spec: Metastore Tables.
"""

import json
import time
from collections.abc import Collection, Mapping
from typing import Any

from icefloe.errors import InvalidInputError
from icefloe.spec.identifier import Identifier
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.metadata.table_properties import HIVE_ENGINE_ENABLED
from icefloe.spec.partitioning.partition_spec import spec_to_json
from icefloe.spec.partitioning.sort_order import sort_order_to_json
from icefloe.spec.schema.schema_json import schema_to_json
from icefloe.stores.hive_columns import hive_type
from icefloe.stores.hive_metastore import hive_types, setting, user_of
from icefloe.stores.metastore_store import ICEBERG, LOCATION, PREVIOUS_LOCATION, TABLE_TYPE

HIVE2 = "hive.hive2-compatible"
MAX_PARAMETER = "iceberg.hive.table-property-max-size"
DEFAULT_MAX_PARAMETER = 32672  # Origin: Java; the maximum length of a text in Derby, in characters
TABLE_OWNER = "hive.metastore.table.owner"
# Namespace properties for which Hive has fields.
NAMESPACE_LOCATION, _NAMESPACE_COMMENT = "location", "comment"
_OWNER, _OWNER_TYPE = "hive.metastore.database.owner", "hive.metastore.database.owner-type"
_STORAGE_HANDLER = "storage_handler"
# Iceberg properties with a different name in Hive.
_TRANSLATED = {"gc.enabled": "external.table.purge"}
# Hive's parameters with counts -> the counts in the summary of a snapshot.
_COUNTS = {"numFiles": "total-data-files", "numRows": "total-records", "totalSize": "total-files-size"}
_MAX_RETENTION = (1 << 31) - 1
# Formats in a table's storage descriptor: those by which Hive reads Iceberg tables, and those for tables that Hive cannot read.
_FORMATS = {
    True: (
        "org.apache.iceberg.mr.hive.HiveIcebergInputFormat",
        "org.apache.iceberg.mr.hive.HiveIcebergOutputFormat",
        "org.apache.iceberg.mr.hive.HiveIcebergSerDe",
    ),
    False: (
        "org.apache.hadoop.mapred.FileInputFormat",
        "org.apache.hadoop.mapred.FileOutputFormat",
        "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
    ),
}
_HANDLER = "org.apache.iceberg.mr.hive.HiveIcebergStorageHandler"


def new_table(identifier: Identifier, metadata_location: str, metadata: TableMetadata, settings: Mapping[str, str]) -> Any:
    """Return the table of the metastore for a new Iceberg table.

    Args:
        identifier: Database and table.
        metadata_location: The location of its metadata file.
        metadata: The content of the file.
        settings: The properties of the catalog.
    """
    now = int(time.time())
    table = hive_types().Table(
        tableName=identifier[1],
        dbName=identifier[0],
        owner=metadata.properties.get(TABLE_OWNER) or user_of(settings),
        createTime=now,
        lastAccessTime=now,
        retention=_MAX_RETENTION,
        partitionKeys=[],
        parameters={"EXTERNAL": "TRUE"},
        tableType="EXTERNAL_TABLE",
    )
    update_table(table, metadata_location, metadata, settings)
    return table


def update_table(
    table: Any, metadata_location: str, metadata: TableMetadata, settings: Mapping[str, str], removed: Collection[str] = ()
) -> None:
    """Change a table of the metastore so that it matches its metadata.

    Args:
        table: The table of the metastore, which is modified.
        metadata_location: The location of the new metadata file. The table's current location becomes the previous one.
        metadata: The content of the file.
        settings: The properties of the catalog.
        removed: Properties that the commit removes from the table.
    """
    previous = metadata_location_of(table)
    has_engine = is_enabled(HIVE_ENGINE_ENABLED.name, metadata.properties, settings, default=False)
    parameters = dict(table.parameters or {})
    for name in removed:
        if name not in metadata.properties:
            parameters.pop(_TRANSLATED.get(name, name), None)
    parameters.update({_TRANSLATED.get(name, name): text for name, text in metadata.properties.items() if name != TABLE_OWNER})
    parameters.pop(_STORAGE_HANDLER, None)
    if has_engine:
        parameters[_STORAGE_HANDLER] = _HANDLER
    _set_content(parameters, metadata, settings)
    parameters.update({"EXTERNAL": "TRUE", TABLE_TYPE: ICEBERG, LOCATION: metadata_location})
    if previous:
        parameters[PREVIOUS_LOCATION] = previous
    table.parameters = parameters
    table.sd = _descriptor(metadata, has_engine=has_engine, has_zoned_timestamps=settings.get(HIVE2, "").strip().lower() != "true")


def _set_content(parameters: dict[str, str], metadata: TableMetadata, settings: Mapping[str, str]) -> None:
    """Set the parameters for schema, layout and current snapshot; texts that are too long for the metastore are left out."""
    snapshot = metadata.current_snapshot()
    spec, order = metadata.spec(), metadata.sort_order()
    texts: dict[str, str | None] = {
        "uuid": metadata.table_uuid,
        "current-schema": _json(schema_to_json(metadata.schema())),
        "default-partition-spec": _json(spec_to_json(spec)) if spec.fields else None,
        "default-sort-order": _json(sort_order_to_json(order)) if order.fields else None,
        "snapshot-count": str(len(metadata.snapshots)),
        "current-snapshot-id": None if snapshot is None else str(snapshot.snapshot_id),
        "current-snapshot-timestamp-ms": None if snapshot is None else str(snapshot.timestamp_ms),
        "current-snapshot-summary": None if snapshot is None else _json(dict(snapshot.summary)),
    }
    longest = _max_parameter(settings)
    for name, text in texts.items():
        parameters.pop(name, None)
        if text is not None and len(text) <= longest:
            parameters[name] = text
    for name, count in _COUNTS.items():
        parameters.pop(name, None)
        if snapshot is not None and count in snapshot.summary:
            parameters[name] = str(snapshot.summary[count])


def _max_parameter(settings: Mapping[str, str]) -> int:
    text = setting(settings, MAX_PARAMETER)
    return int(text) if text is not None and text.strip().isdecimal() else DEFAULT_MAX_PARAMETER


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _descriptor(metadata: TableMetadata, *, has_engine: bool, has_zoned_timestamps: bool) -> Any:
    types = hive_types()
    columns = [
        types.FieldSchema(
            name=field.name.lower(), type=hive_type(field.field_type, has_zoned_timestamps=has_zoned_timestamps), comment=field.doc
        )
        for field in metadata.schema().fields
    ]
    input_format, output_format, serializer = _FORMATS[has_engine]
    return types.StorageDescriptor(
        cols=columns,
        location=metadata.location,
        inputFormat=input_format,
        outputFormat=output_format,
        compressed=False,
        numBuckets=0,
        serdeInfo=types.SerDeInfo(serializationLib=serializer, parameters={}),
        bucketCols=[],
        sortCols=[],
        parameters={},
    )


def is_enabled(name: str, table_properties: Mapping[str, str], settings: Mapping[str, str], *, default: bool) -> bool:
    """Return a boolean setting: a table property, or the catalog property with the prefix `iceberg.`."""
    text = table_properties.get(name) or setting(settings, f"iceberg.{name}")
    return default if text is None else text.strip().lower() == "true"


def is_iceberg(table: Any) -> bool:
    """Return whether a table of the metastore is an Iceberg table."""
    return str((table.parameters or {}).get(TABLE_TYPE, "")).upper() == ICEBERG


def metadata_location_of(table: Any) -> str:
    """Return the metadata location of a table; empty if it is not an Iceberg table."""
    return str((table.parameters or {}).get(LOCATION, ""))


def namespace_properties(database: Any) -> dict[str, str]:
    """Return the properties of the namespace that a database represents."""
    properties = {str(key): str(text) for key, text in (database.parameters or {}).items()}
    if database.locationUri:
        properties[NAMESPACE_LOCATION] = str(database.locationUri)
    if database.description:
        properties[_NAMESPACE_COMMENT] = str(database.description)
    if database.ownerName:
        properties[_OWNER] = str(database.ownerName)
        if database.ownerType is not None:
            properties[_OWNER_TYPE] = str(hive_types().PrincipalType._VALUES_TO_NAMES.get(database.ownerType, database.ownerType))
    return properties


def set_namespace_properties(database: Any, properties: Mapping[str, str], settings: Mapping[str, str]) -> None:
    """Set the properties of a namespace in its database. Raises `InvalidInputError`."""
    types = hive_types()
    kind = properties.get(_OWNER_TYPE, "USER")
    if kind not in types.PrincipalType._NAMES_TO_VALUES:
        raise InvalidInputError(
            f"{_OWNER_TYPE} is {kind!r}, which is not a kind of owner in Hive",
            next_step=f"write {', '.join(types.PrincipalType._NAMES_TO_VALUES)}",
        )
    database.locationUri = properties.get(NAMESPACE_LOCATION) or database.locationUri
    database.description = properties.get(_NAMESPACE_COMMENT)
    database.ownerName = properties.get(_OWNER) or user_of(settings)
    database.ownerType = types.PrincipalType._NAMES_TO_VALUES[kind]
    fields = (NAMESPACE_LOCATION, _NAMESPACE_COMMENT, _OWNER, _OWNER_TYPE)
    database.parameters = {key: text for key, text in properties.items() if key not in fields}
