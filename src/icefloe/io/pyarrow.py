"""Conversions between Iceberg and Arrow schemas, under the module name of PyIceberg: `from icefloe.io.pyarrow import schema_to_pyarrow`."""

import pyarrow as pa

from icefloe.spec.schema.arrow_schema import schema_from_arrow
from icefloe.spec.schema.schema import Schema

__all__ = ["pyarrow_to_schema", "schema_to_pyarrow"]


def schema_to_pyarrow(schema: Schema) -> pa.Schema:
    """Return the Arrow schema of a scan's result for a schema: the result of `schema.as_arrow()`.

    Args:
        schema: the schema.
    """
    return schema.as_arrow()


def pyarrow_to_schema(schema: pa.Schema) -> Schema:
    """Convert an Arrow schema whose fields have field ids to an Iceberg schema.

    Args:
        schema: the Arrow schema, with a field id in the metadata of each field.

    Raises:
        InvalidSchemaError: a column has no field id.
        UnsupportedTypeError: Iceberg has no type for the type of a column.
    """
    return schema_from_arrow(schema, keep_ids=True)
