"""Conversions between schemas and Arrow schemas under the module name of PyIceberg: `from icefloe.io.pyarrow import schema_to_pyarrow`."""

import pyarrow as pa

from icefloe.spec.schema.arrow_schema import schema_from_arrow
from icefloe.spec.schema.schema import Schema

__all__ = ["pyarrow_to_schema", "schema_to_pyarrow"]


def schema_to_pyarrow(schema: Schema) -> pa.Schema:
    """Return the Arrow schema of rows as scans return them: `schema.as_arrow()`.

    Args:
        schema: the schema.
    """
    return schema.as_arrow()


def pyarrow_to_schema(schema: pa.Schema) -> Schema:
    """Return the schema of an Arrow schema whose fields have field ids.

    Args:
        schema: the Arrow schema.

    Raises:
        InvalidSchemaError: a column has no field id.
        UnsupportedTypeError: the format has no type for a column.
    """
    return schema_from_arrow(schema, keep_ids=True)
