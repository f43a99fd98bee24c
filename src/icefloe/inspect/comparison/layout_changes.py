"""The differences of two versions in the schema, the partition spec, the sort order, the properties, and the branches and tags.

Columns of one table are compared by their field ids, columns of two tables by their names. Spec: Schema Evolution; Partition Evolution; Sorting.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from icefloe.inspect.comparison.table_version import TableVersion
from icefloe.spec.metadata.snapshot_ref import SnapshotRef
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.schema.schema import Schema, walk
from icefloe.spec.types import NestedField

ADDED, REMOVED, CHANGED = "added", "removed", "changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Something that only one version has, or whose value differs.

    Attributes:
        change: `added`, `removed` or `changed`.
        name: The name of what differs: a column, a property, a branch or tag.
        before: The value in the first version; None if the first version does not have it.
        after: The value in the second version; None if the second version does not have it.
    """

    change: str
    name: str
    before: str | None = None
    after: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutChanges:
    """The differences of two versions in schema and settings.

    `settings_known` is False if the metadata file of an older version is gone: only the schema is compared then, and the other fields are empty.
    """

    schema: tuple[Change, ...]
    settings_known: bool
    partition_spec: Change | None
    sort_order: Change | None
    format_version: Change | None
    location: Change | None
    properties: tuple[Change, ...]
    refs: tuple[Change, ...]


def layout_changes(before: TableVersion, after: TableVersion, *, is_one_table: bool) -> LayoutChanges:
    """Return the differences of two versions in schema and settings.

    Args:
        before: The first version.
        after: The second version.
        is_one_table: Whether both are versions of the same table, so that columns with the same field id are the same column.
    """
    schema = tuple(schema_changes(before.schema, after.schema, by_name=not is_one_table))
    old, other = before.settings, after.settings
    if old is None or other is None:
        return LayoutChanges(
            schema=schema,
            settings_known=False,
            partition_spec=None,
            sort_order=None,
            format_version=None,
            location=None,
            properties=(),
            refs=(),
        )
    return LayoutChanges(
        schema=schema,
        settings_known=True,
        partition_spec=_change_of("partition spec", spec_text(old), spec_text(other)),
        sort_order=_change_of("sort order", sort_text(old), sort_text(other)),
        format_version=_change_of("format version", str(old.format_version), str(other.format_version)),
        location=_change_of("location", old.location, other.location) if is_one_table else None,
        properties=tuple(_mapping_changes(old.properties, other.properties)),
        refs=tuple(_mapping_changes(_refs_text(old.refs), _refs_text(other.refs))),
    )


def schema_changes(before: Schema, after: Schema, *, by_name: bool) -> Iterator[Change]:
    """Yield the columns, including nested ones, that were added, removed or changed.

    Args:
        before: The first schema.
        after: The second schema.
        by_name: Whether columns are matched by name; otherwise by field id.
    """
    old, new = _columns(before, by_name=by_name), _columns(after, by_name=by_name)
    for key, (name, field) in new.items():
        if key not in old:
            yield Change(change=ADDED, name=name, after=field_text(field))
            continue
        earlier_name, earlier = old[key]
        texts = (_with_name(earlier_name, name, earlier), _with_name(name, earlier_name, field))
        if texts[0] != texts[1]:
            yield Change(change=CHANGED, name=earlier_name, before=texts[0], after=texts[1])
    for key, (name, field) in old.items():
        if key not in new:
            yield Change(change=REMOVED, name=name, before=field_text(field))
    order_before = [new[key][0] for key in old if key in new]
    order_after = [name for key, (name, _) in new.items() if key in old]
    if order_before != order_after:
        yield Change(change=CHANGED, name="order of columns", before=", ".join(order_before), after=", ".join(order_after))


def _columns(schema: Schema, *, by_name: bool) -> dict[Any, tuple[str, NestedField]]:
    return {(".".join(path) if by_name else field.field_id): (".".join(path), field) for path, field in walk(schema.fields)}


def _with_name(name: str, other_name: str, field: NestedField) -> str:
    return field_text(field) if name == other_name else f"{name} {field_text(field)}"


def field_text(field: NestedField) -> str:
    """Return the type of a column with its other settings as text. For a nested type only its kind is included, because its fields are listed as columns."""
    kind = field.field_type
    parts = [str(kind) if kind.is_primitive else type(kind).__name__.removesuffix("Type").lower()]
    parts += ["not null"] if field.required else []
    parts += [f"initial default {field.initial_default!r}"] if field.initial_default is not None else []
    parts += [f"default {field.write_default!r}"] if field.write_default is not None else []
    parts += [f"comment {field.doc!r}"] if field.doc else []
    return " ".join(parts)


def spec_text(metadata: TableMetadata) -> str:
    """Return the default partition spec with the names of its source columns."""
    schema = metadata.schema()
    fields = [f"{field.transform}({_sources(field.source_ids, schema)}) as {field.name}" for field in metadata.spec().fields]
    return ", ".join(fields) or "unpartitioned"


def sort_text(metadata: TableMetadata) -> str:
    """Return the default sort order with the names of its source columns."""
    schema = metadata.schema()
    fields = [
        f"{field.transform}({_sources(field.source_ids, schema)}) {field.direction} {field.null_order}"
        for field in metadata.sort_order().fields
    ]
    return ", ".join(fields) or "unsorted"


def _sources(source_ids: tuple[int, ...], schema: Schema) -> str:
    return ", ".join(schema.find_column_name(source_id) or f"dropped column {source_id}" for source_id in source_ids)


def _refs_text(refs: Mapping[str, SnapshotRef]) -> dict[str, str]:
    return {name: f"{ref.type} at {ref.snapshot_id}" for name, ref in refs.items()}


def _change_of(name: str, before: str, after: str) -> Change | None:
    return None if before == after else Change(change=CHANGED, name=name, before=before, after=after)


def _mapping_changes(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Change]:
    for name in sorted({*before, *after}):
        old, other = before.get(name), after.get(name)
        if old != other:
            yield Change(change=ADDED if old is None else REMOVED if other is None else CHANGED, name=name, before=old, after=other)
