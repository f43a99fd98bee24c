"""`given_schema`: the schema that a user hands in, as ours.

Spec: Schemas and Data Types.
"""

import pyarrow as pa

from icefloe.errors import InvalidSchemaError
from icefloe.kernel.schema.arrow_schema import schema_from_arrow
from icefloe.kernel.schema.schema import Schema, assign_fresh_ids


def given_schema(schema: object) -> Schema:
    """A `Schema` as it is; an Arrow schema with ids counted up from 1. Raises `InvalidSchemaError` for anything else, `UnsupportedTypeError`."""
    if isinstance(schema, Schema):
        return schema
    if isinstance(schema, pa.Schema):
        return assign_fresh_ids(schema_from_arrow(schema, keep_ids=False))
    raise InvalidSchemaError(
        f"a schema of type {type(schema).__qualname__} is not understood", next_step="pass a pyarrow.Schema or an icefloe Schema"
    )
