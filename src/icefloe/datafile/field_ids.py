"""Field ids on the columns of a file, for every format in one place: the metadata of Arrow fields, nested ones too.

A file says its ids in its own way, or a name mapping gives them to a file that says none. Spec: Column Projection; Appendix A.
"""

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from icefloe.kernel.schema.arrow_schema import FIELD_ID_KEY
from icefloe.kernel.schema.name_mapping import NameMapping

# The id of a field of a file, by the names from the top-level column down (a list's child is `element`, a map's `key` and `value`) and its Arrow field.
IdOf = Callable[[tuple[str, ...], Any], int | None]


def has_ids(fields: Any) -> bool:
    """Whether any of these Arrow fields, or of those inside them, has an id."""
    return any(id_of(field) is not None or has_ids(inner_fields(field.type)) for field in fields)


def id_of(field: Any) -> int | None:
    """The id of an Arrow field, or None."""
    text = (field.metadata or {}).get(FIELD_ID_KEY)
    # Arrow gives -1 for nested fields of some writers that have none.
    return int(text) if text is not None and int(text) >= 0 else None


def inner_fields(kind: Any) -> list[Any]:
    """The fields directly inside an Arrow type; a map's are its key and value."""
    if isinstance(kind, pa.BaseExtensionType):
        return inner_fields(kind.storage_type)
    if pa.types.is_struct(kind):
        return list(kind.fields)
    if pa.types.is_map(kind):
        return [kind.key_field, kind.item_field]
    return [kind.value_field] if is_list(kind) else []


def is_list(kind: Any) -> bool:
    """Whether it is one of the forms of a list in which files are read."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def with_ids(schema: Any, ids: IdOf) -> Any:
    """The Arrow schema with the ids that `ids` gives, and no others."""
    return pa.schema([_field(field, (field.name,), ids) for field in schema])


def mapped_ids(mapping: NameMapping) -> IdOf:
    """The ids that a name mapping gives to the columns of files without any."""

    def ids(path: tuple[str, ...], _: Any) -> int | None:
        return mapping.find_id(path)

    return ids


def _field(field: Any, path: tuple[str, ...], ids: IdOf) -> Any:
    found = ids(path, field)
    metadata = None if found is None else {FIELD_ID_KEY: str(found).encode()}
    return pa.field(field.name, _type(field.type, path, ids), nullable=field.nullable, metadata=metadata)


def _type(kind: Any, path: tuple[str, ...], ids: IdOf) -> Any:
    if pa.types.is_struct(kind):
        return pa.struct([_field(field, (*path, field.name), ids) for field in kind.fields])
    if pa.types.is_map(kind):
        return pa.map_(_field(kind.key_field, (*path, "key"), ids), _field(kind.item_field, (*path, "value"), ids))
    if is_list(kind):
        element = _field(kind.value_field, (*path, "element"), ids)
        if pa.types.is_large_list(kind):
            return pa.large_list(element)
        return pa.list_(element, kind.list_size) if pa.types.is_fixed_size_list(kind) else pa.list_(element)
    return kind
