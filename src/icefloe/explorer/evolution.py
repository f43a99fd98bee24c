"""The evolution of a table: what each metadata file changed in schema, partitioning, sort order, properties, branches and snapshots.

The metadata log names the earlier files. Only the newest of them are read, in parallel; files that no longer exist or are not the table's own are skipped.
Spec: Table Metadata Fields (`metadata-log`); Schema Evolution; Partition Evolution.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from icefloe.display.markup import Markup, element
from icefloe.errors import IcefloeError
from icefloe.explorer.section import PageRequest, anchor, panel
from icefloe.formatting import count_text, file_name, short_text, time_text
from icefloe.inspect.comparison.table_version import is_own_metadata_file
from icefloe.operations.loaded_table import TableReader, partition_text, sort_texts, source_name
from icefloe.operations.parallel_requests import in_threads
from icefloe.spec.metadata.metadata_reader import read_table_metadata
from icefloe.spec.metadata.snapshot_ref import SnapshotRef
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.schema.schema import Schema, walk
from icefloe.spec.types import NestedField, children

# The most earlier metadata files that are read, and the most bytes of such a file.
_MOST_FILES, _MOST_BYTES = 40, 8 * 1024 * 1024
# The most changes of one metadata file that are listed.
_MOST_CHANGES = 12
# The most columns of a schema, and the most partition specs and sort orders, that are listed.
_MOST_COLUMNS, _MOST_LAYOUTS = 200, 50
# The most characters of a displayed type.
_MOST_TYPE = 60
# This many plain commits in a row are shown as one item.
_LONG_RUN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class EvolutionStep:
    """One change from a metadata file to the next: its kind, such as `schema`, and a description."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataVersion:
    """A metadata file with its changes. `number` is its position in the metadata log."""

    timestamp_ms: int
    location: str
    number: int
    changes: tuple[EvolutionStep, ...]


def evolution(request: PageRequest) -> Markup:
    """Return the timeline of the metadata files, the newest first."""
    reader = request.opened.reader
    versions, unread = request.opened.get_or_compute("evolution", lambda: versions_of(reader), "Reading earlier metadata files")
    metadata = reader.metadata
    items = _items(request, versions[::-1])
    note = (
        element("p", f"{count_text(unread, 'earlier metadata file')} no longer exist or were not read.", class_="dim") if unread else None
    )
    return element(
        "div",
        panel(
            "What each metadata file changed",
            element("ol", *items, class_="timeline"),
            note,
            about="Every change of a table is a new metadata file; its log names the earlier ones.",
        ),
        panel("Schemas", *(_schema(metadata, schema) for schema in reversed(metadata.schemas[-20:]))),
        panel("Partition specs and sort orders", element("ul", *(element("li", text) for text in _layouts(metadata)))),
    )


def versions_of(reader: TableReader) -> tuple[tuple[MetadataVersion, ...], int]:
    """Return the metadata files with their changes, the oldest first, and the number of earlier files that could not be read."""
    log = reader.metadata.metadata_log
    logged = list(enumerate(log))[-_MOST_FILES:]

    def read(numbered_entry: tuple[int, object]) -> TableMetadata | None:
        location = log[numbered_entry[0]].metadata_file
        try:
            is_read = is_own_metadata_file(reader, location) and reader.io.size(location) <= _MOST_BYTES
            content = reader.io.read(location) if is_read else None
            return None if content is None else read_table_metadata(content, location)
        except IcefloeError:
            return None

    earlier = list(in_threads(read, logged))
    known = [
        (number, entry.timestamp_ms, entry.metadata_file, metadata)
        for (number, entry), metadata in zip(logged, earlier, strict=True)
        if metadata is not None
    ]
    known.append((len(log), reader.metadata.last_updated_ms, reader.metadata_location, reader.metadata))
    versions = []
    if len(known) == len(log) + 1:
        number, written_ms, location, first = known[0]
        versions.append(MetadataVersion(timestamp_ms=written_ms, location=location, number=number, changes=tuple(_first_changes(first))))
    for (_, _, _, before), (number, written_ms, location, after) in pairwise(known):
        versions.append(MetadataVersion(timestamp_ms=written_ms, location=location, number=number, changes=tuple(changes(before, after))))
    return tuple(versions), len(log) + 1 - len(known)


def _first_changes(metadata: TableMetadata) -> Iterator[EvolutionStep]:
    yield EvolutionStep(
        kind="table", text=f"created with {count_text(len(metadata.schema().fields), 'column')}, format version {metadata.format_version}"
    )
    if metadata.spec().fields:
        yield EvolutionStep(kind="partitioning", text=f"by {_spec_text(metadata)}")


def changes(before: TableMetadata, after: TableMetadata) -> Iterator[EvolutionStep]:
    """Yield the changes from one metadata file to the next."""
    if before.format_version != after.format_version:
        yield EvolutionStep(kind="format", text=f"version {before.format_version} to {after.format_version}")
    if before.current_schema_id != after.current_schema_id:
        yield from (EvolutionStep(kind="schema", text=text) for text in schema_changes(before.schema(), after.schema()))
    if before.default_spec_id != after.default_spec_id:
        yield EvolutionStep(kind="partitioning", text=f"from {_spec_text(before)} to {_spec_text(after)}")
    if sort_texts(before) != sort_texts(after):
        yield EvolutionStep(
            kind="sort order", text=f"from {', '.join(sort_texts(before)) or 'unsorted'} to {', '.join(sort_texts(after)) or 'unsorted'}"
        )
    yield from _property_changes(before.properties, after.properties)
    yield from _ref_changes(before, after)
    removed = {snapshot.snapshot_id for snapshot in before.snapshots} - {snapshot.snapshot_id for snapshot in after.snapshots}
    if removed:
        yield EvolutionStep(kind="expiry", text=f"{count_text(len(removed), 'snapshot')} removed")
    if len(after.statistics) != len(before.statistics) or len(after.partition_statistics) != len(before.partition_statistics):
        yield EvolutionStep(kind="statistics", text="statistics files changed")


def schema_changes(before: Schema, after: Schema) -> Iterator[str]:
    """Yield descriptions of the changes from one schema to another. Columns are matched by field id."""
    old = {field.field_id: (".".join(path), field) for path, field in walk(before.fields)}
    new = {field.field_id: (".".join(path), field) for path, field in walk(after.fields)}
    for field_id, (name, field) in new.items():
        if field_id not in old:
            yield f"added {short_text(name)} ({short_text(str(field.field_type))}{', required' if field.required else ''})"
            continue
        old_name, old_field = old[field_id]
        if old_name != name:
            yield f"renamed {short_text(old_name)} to {short_text(name)}"
        if str(old_field.field_type) != str(field.field_type) and not children(field.field_type):
            yield f"changed the type of {short_text(name)} from {old_field.field_type} to {field.field_type}"
        if old_field.required != field.required:
            yield f"made {short_text(name)} {'required' if field.required else 'optional'}"
        if old_field.doc != field.doc:
            yield f"changed the comment of {short_text(name)}"
    for field_id, (name, _) in old.items():
        if field_id not in new:
            yield f"dropped {short_text(name)}"
    if [order for order in old if order in new] != [order for order in new if order in old]:
        yield "moved columns"


def _property_changes(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[EvolutionStep]:
    for key in sorted(before.keys() | after.keys()):
        if before.get(key) != after.get(key):
            now = after.get(key)
            yield EvolutionStep(kind="property", text=f"{short_text(key)} {'removed' if now is None else f'= {short_text(now)}'}")


def _ref_changes(before: TableMetadata, after: TableMetadata) -> Iterator[EvolutionStep]:
    added = {snapshot.snapshot_id: snapshot for snapshot in after.snapshots if before.snapshots.position(snapshot.snapshot_id) is None}
    for snapshot in added.values():
        yield EvolutionStep(kind="commit", text=f"{snapshot.operation or 'unknown'} {snapshot.snapshot_id}")
    for name in sorted(before.refs.keys() | after.refs.keys()):
        old, new = before.refs.get(name), after.refs.get(name)
        if old == new or (new is not None and new.snapshot_id in added and old is not None):
            continue
        yield EvolutionStep(kind="branch" if (new or old or _NO_REF).is_branch else "tag", text=_ref_text(short_text(name), old, new))


def _ref_text(name: str, old: SnapshotRef | None, new: SnapshotRef | None) -> str:
    if new is None:
        return f"{name} removed"
    if old is None:
        return f"{name} created at {new.snapshot_id}"
    return (
        f"{name} moved from {old.snapshot_id} to {new.snapshot_id}"
        if old.snapshot_id != new.snapshot_id
        else f"{name} has another retention"
    )


_NO_REF = SnapshotRef(snapshot_id=0, type="branch")


def _items(request: PageRequest, versions: Sequence[MetadataVersion]) -> list[Markup]:
    """Return an item for each metadata file. Several plain commits in a row become one item that can be opened."""
    items: list[Markup] = []
    for is_plain, run in groupby(versions, lambda version: all(change.kind == "commit" for change in version.changes)):
        members = list(run)
        drawn_ones = [_item(request, version) for version in members]
        if not is_plain or len(members) < _LONG_RUN:
            items += drawn_ones
            continue
        operations = Counter(change.text.partition(" ")[0] for version in members for change in version.changes)
        text = f"{count_text(len(members), 'commit')}: " + ", ".join(f"{count:,} {name}" for name, count in operations.most_common(6))
        items.append(element("li", element("details", element("summary", text), element("ol", *drawn_ones, class_="timeline"))))
    return items


def _item(request: PageRequest, version: MetadataVersion) -> Markup:
    shown = version.changes[:_MOST_CHANGES]
    texts = [
        element("li", element("span", change.kind, class_=f"kind {change.kind.replace(' ', '-')}"), " ", change.text) for change in shown
    ]
    if len(version.changes) > len(shown):
        texts.append(element("li", f"… and {len(version.changes) - len(shown):,} more", class_="dim"))
    is_logged = version.location != request.opened.reader.metadata_location
    target = request.links.to("contents", kind="metadata", log=version.number + 1 if is_logged else None)
    return element(
        "li",
        element("time", time_text(version.timestamp_ms).partition(".")[0]),
        " ",
        anchor(target, file_name(version.location), "path dim"),
        element("ul", *texts) if texts else element("p", "nothing that is shown here", class_="dim"),
    )


def _schema(metadata: TableMetadata, schema: Schema) -> Markup:
    is_current = schema.schema_id == metadata.current_schema_id
    fields = list(walk(schema.fields))
    items = [_column(".".join(path), field) for path, field in fields[:_MOST_COLUMNS]]
    if len(fields) > len(items):
        items.append(element("li", f"… and {len(fields) - len(items):,} more", class_="dim"))
    used = next((snapshot for snapshot in metadata.snapshots if snapshot.schema_id == schema.schema_id), None)
    since = (
        f", first written by snapshot {used.snapshot_id} at {time_text(used.timestamp_ms).partition('.')[0]}" if used is not None else ""
    )
    title = f"Schema {schema.schema_id}{', current' if is_current else ''}: {count_text(len(fields), 'column')}{since}"
    return element("details", element("summary", title), element("ul", *items, class_="columns"), open=is_current)


def _column(name: str, field: NestedField) -> Markup:
    kind = str(field.field_type)
    shown = kind if len(kind) <= _MOST_TYPE else f"{kind[: _MOST_TYPE - 1]}…"
    required = " required" if field.required else None
    return element("li", element("span", str(field.field_id), class_="dim"), f" {name} ", element("span", shown, class_="dim"), required)


def _layouts(metadata: TableMetadata) -> Sequence[str]:
    specs = [
        f"Spec {spec.spec_id}{', current' if spec.spec_id == metadata.default_spec_id else ''}: "
        + (
            ", ".join(partition_text(str(field.transform), short_text(source_name(metadata, field.source_id))) for field in spec.fields)
            or "unpartitioned"
        )
        for spec in metadata.partition_specs[-_MOST_LAYOUTS:]
    ]
    orders = [
        f"Sort order {order.order_id}{', current' if order.order_id == metadata.default_sort_order_id else ''}: "
        + (", ".join(f"{key.transform}({short_text(source_name(metadata, key.source_id))})" for key in order.fields) or "unsorted")
        for order in metadata.sort_orders[-_MOST_LAYOUTS:]
    ]
    for texts, total, what in ((specs, len(metadata.partition_specs), "spec"), (orders, len(metadata.sort_orders), "sort order")):
        if total > len(texts):
            texts.append(f"… and {count_text(total - len(texts), f'older {what}')}: icefloe show metadata lists them")
    return [*specs, *orders]


def _spec_text(metadata: TableMetadata) -> str:
    fields = metadata.spec().fields
    return (
        ", ".join(partition_text(str(field.transform), short_text(source_name(metadata, field.source_id))) for field in fields) or "nothing"
    )
