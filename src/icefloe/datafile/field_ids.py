"""The field ids of a file's columns at every level, as metadata of Arrow fields. This form is the same for all file formats.

In the files, each format stores the ids in its own way. For a file without ids, a name mapping supplies them. Spec: Column Projection; Appendix A.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from icefloe.spec.schema.arrow_types import FIELD_ID_KEY
from icefloe.spec.schema.name_mapping import NameMapping

# A function that returns the id of a file's field, or None. It receives the names from the top-level column down (a list's child is `element`, a map's are
# `key` and
# `value`) and the Arrow field.
IdOf = Callable[[tuple[str, ...], Any], int | None]


def has_ids(fields: Any) -> bool:
    """Return True if any of these Arrow fields, or any field inside them, has an id."""
    return any(id_of(field) is not None or has_ids(inner_fields(field.type)) for field in fields)


def id_of(field: Any) -> int | None:
    """Return the id of an Arrow field, or None."""
    text = (field.metadata or {}).get(FIELD_ID_KEY)
    # Arrow reports -1 for nested fields without ids in files of some writers.
    return int(text) if text is not None and int(text) >= 0 else None


def inner_fields(kind: Any) -> list[Any]:
    """Return the fields directly inside an Arrow type; for a map its key and value."""
    if isinstance(kind, pa.BaseExtensionType):
        return inner_fields(kind.storage_type)
    if pa.types.is_struct(kind):
        return list(kind.fields)
    if pa.types.is_map(kind):
        return [kind.key_field, kind.item_field]
    return [kind.value_field] if is_list(kind) else []


def has_ids_on_some(fields: Any) -> bool:
    """Return True if some of these Arrow fields, at any level, have an id and some do not."""
    return {id_of(field) is None for _, field in _walk(fields, ())} == {True, False}


def columns_without_ids(fields: Any, mapping: NameMapping) -> list[str]:
    """Return the columns that readers of a file with ids would treat as missing: they have no id, and their name belongs to a column whose id the file lacks.

    Args:
        fields: The Arrow fields of the file.
        mapping: The names of the table's columns.
    """
    ids = frozenset(_ids(fields))
    return (
        [".".join(path) for path, field in _walk(fields, ()) if id_of(field) is None and mapping.find_id(path) not in (None, *ids)]
        if ids
        else []
    )


def _ids(fields: Any) -> Iterator[int]:
    return (field_id for _, field in _walk(fields, ()) if (field_id := id_of(field)) is not None)


def _walk(fields: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every field with its path of names in a name mapping, outer fields first; the parts of a variant are skipped."""
    for field in fields:
        yield (*path, field.name), field
        kind = field.type
        if pa.types.is_struct(kind):
            yield from _walk(kind.fields, (*path, field.name))
        elif pa.types.is_map(kind):
            yield from _walk([kind.key_field.with_name("key"), kind.item_field.with_name("value")], (*path, field.name))
        elif is_list(kind):
            yield from _walk([kind.value_field.with_name("element")], (*path, field.name))


def is_list(kind: Any) -> bool:
    """Return True for an Arrow list, large list or fixed-size list."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def with_ids(schema: Any, ids: IdOf) -> Any:
    """Return the Arrow schema with the field ids from the function `ids`; other ids in its metadata are removed."""
    return pa.schema([_field(field, (field.name,), ids) for field in schema])


def mapped_ids(mapping: NameMapping) -> IdOf:
    """Return the function that finds the ids of columns in a name mapping."""

    def ids(path: tuple[str, ...], _: Any) -> int | None:
        return mapping.find_id(path)

    return ids


def _field(field: Any, path: tuple[str, ...], ids: IdOf) -> Any:
    field_id = ids(path, field)
    metadata = None if field_id is None else {FIELD_ID_KEY: str(field_id).encode()}
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
