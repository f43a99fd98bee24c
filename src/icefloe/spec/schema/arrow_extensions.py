"""Conversion between variants and shapes and their Arrow extension types, which distinguish them from structs and binary.

`arrow_schema.py` converts all other types. No extension type is registered here: Arrow keeps the name and the parameters of an unregistered type in the field's
metadata, and a program may have registered its own class. The types are Arrow's canonical extension `arrow.parquet.variant` and GeoArrow's `geoarrow.wkb`. The
format does not specify this.
"""

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from icefloe.errors import InvalidSchemaError
from icefloe.spec.types import DEFAULT_CRS, GeographyType, GeometryType, IcebergType, VariantType

NAME_KEY, PARAMETERS_KEY = b"ARROW:extension:name", b"ARROW:extension:metadata"
VARIANT_NAME = "arrow.parquet.variant"
_VARIANT_NAMES = (VARIANT_NAME, "parquet.variant")  # the second is the older name in Arrow C++
WKB_NAME = "geoarrow.wkb"
# The reference system that Parquet and Arrow assume if none is set.
UNSPECIFIED_CRS = "srid:0"
VARIANT_STORAGE = pa.struct([pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary(), nullable=False)])


def extension_metadata(kind: IcebergType) -> dict[bytes, bytes]:
    """Return the field metadata with the extension type of a variant or a shape. It is empty for other types."""
    if isinstance(kind, VariantType):
        return {NAME_KEY: VARIANT_NAME.encode(), PARAMETERS_KEY: b""}
    if not isinstance(kind, GeometryType | GeographyType):
        return {}
    parameters = {"crs": kind.crs}
    if kind.crs.upper() == DEFAULT_CRS:
        parameters["crs_type"] = "authority_code"
    if isinstance(kind, GeographyType):
        parameters["edges"] = kind.algorithm
    return {NAME_KEY: WKB_NAME.encode(), PARAMETERS_KEY: json.dumps(parameters).encode()}


def extension_of(field: pa.Field) -> tuple[str, bytes] | None:
    """Return the name and the parameters of a field's extension type, registered with Arrow or only in the metadata; None without extension type."""
    if isinstance(field.type, pa.BaseExtensionType):
        serialized = field.type.__arrow_ext_serialize__() if isinstance(field.type, pa.ExtensionType) else b""
        return field.type.extension_name, serialized
    metadata = field.metadata or {}
    return (metadata[NAME_KEY].decode("utf-8", "replace"), metadata.get(PARAMETERS_KEY, b"")) if NAME_KEY in metadata else None


def extension_type(field: pa.Field) -> IcebergType | str | None:
    """Return the variant or shape type of a field's extension type.

    GeoArrow without `edges` is geometry, and GeoArrow with `edges` is geography. A reference system may be a name, or PROJJSON with an id.

    Returns:
        The Iceberg type; the reason as text if the storage or the parameters are invalid for it; None for a different extension type or none.
    """
    extension = extension_of(field)
    if extension is None:
        return None
    name, parameters = extension
    storage = field.type.storage_type if isinstance(field.type, pa.BaseExtensionType) else field.type
    if name in _VARIANT_NAMES:
        problem = variant_storage_fault(storage)
        return VariantType() if problem is None else problem
    if name != WKB_NAME:
        return None
    if not (pa.types.is_binary(storage) or pa.types.is_large_binary(storage) or pa.types.is_binary_view(storage)):
        return f"{WKB_NAME} over {storage} is not WKB; cast it to binary"
    return _shape(parameters)


def variant_storage_fault(storage: pa.DataType) -> str | None:
    """Return why an Arrow type cannot store unshredded variants, or None if it is valid: a struct of the binary fields `metadata` and `value`."""
    if not pa.types.is_struct(storage):
        return f"{storage} is not a variant, which is a struct of the binary fields metadata and value"
    names = {storage.field(position).name for position in range(storage.num_fields)}
    if "typed_value" in names:
        return "a shredded variant (with typed_value) cannot be written as rows; reassemble its values first"
    is_binary = all(
        pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)
        for kind in (storage.field(position).type for position in range(storage.num_fields))
    )
    if names != {"metadata", "value"} or storage.num_fields != 2 or not is_binary:
        return f"{storage} is not a variant, which is a struct of the binary fields metadata and value"
    return None


def _shape(parameters: bytes) -> IcebergType | str:
    try:
        document = json.loads(parameters or b"{}")
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, Mapping):
        return f"the parameters of {WKB_NAME} are not a JSON object"
    crs = _crs_name(document.get("crs"))
    if crs is None:
        return "its reference system is PROJJSON without an id of authority and code; give it a name such as EPSG:4326"
    edges = document.get("edges")
    try:
        if edges is None or edges == "planar":
            return GeometryType(crs)
        return GeographyType(crs, str(edges))
    except InvalidSchemaError as error:
        return error.message


def _crs_name(crs: Any) -> str | None:
    """Return the name of a GeoArrow reference system, or None if its definition has no name."""
    if crs is None:
        return UNSPECIFIED_CRS
    if isinstance(crs, str) and crs.lstrip().startswith("{"):
        try:
            crs = json.loads(crs)
        except (ValueError, RecursionError):
            return None
    if isinstance(crs, str):
        return DEFAULT_CRS if crs.upper() == DEFAULT_CRS else crs
    identifier = crs.get("id") if isinstance(crs, Mapping) else None
    if not isinstance(identifier, Mapping) or not {"authority", "code"} <= identifier.keys():
        return None
    return f"{identifier['authority']}:{identifier['code']}"
