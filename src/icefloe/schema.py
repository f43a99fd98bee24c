"""`Schema` and functions on schemas under the module name of PyIceberg: `from icefloe.schema import Schema`."""

from icefloe.errors import InvalidSchemaError
from icefloe.spec.schema.schema import Schema
from icefloe.spec.schema.schema import assign_fresh_ids as assign_fresh_schema_ids
from icefloe.spec.schema.type_promotion import is_promotion
from icefloe.spec.types import BinaryType, FixedType, IcebergType, StringType, UUIDType

__all__ = ["Schema", "assign_fresh_schema_ids", "promote"]

# Types as which a reader may read values of another type although no column can be promoted to it: both have the same bytes. Origin: PyIceberg.
_SAME_BYTES = ((StringType(), BinaryType()), (BinaryType(), StringType()))


def promote(file_type: IcebergType, read_type: IcebergType) -> IcebergType:
    """Return the type as which values of a file are read.

    Args:
        file_type: The type of the column in the file.
        read_type: The type of the table's column.

    Returns:
        The type `read_type`.

    Raises:
        InvalidSchemaError: Values of `file_type` cannot be read as values of `read_type`.
    """
    is_uuid = isinstance(file_type, FixedType) and file_type.length == 16 and isinstance(read_type, UUIDType)
    if (
        file_type == read_type
        or is_uuid
        or (file_type, read_type) in _SAME_BYTES
        or (read_type.is_primitive and is_promotion(file_type, read_type, 3))
    ):
        return read_type
    raise InvalidSchemaError(f"{file_type} cannot be read as {read_type}", next_step="rewrite the files, or add a new column")
