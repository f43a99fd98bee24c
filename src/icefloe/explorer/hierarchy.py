"""The hierarchy of a table as one picture: catalog, metadata files, snapshots, manifest list, manifests, files. A click on a block shows what is below it.

The picture is drawn from the metadata file and one manifest list, so that it appears at once for a table of any size. Manifests are opened only if their files
are drawn one by one: all manifests of a small table, otherwise the manifest that the reader chose. Spec: Overview.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from icefloe.display.figures.blocks import Block, BlockLevel, Blocks
from icefloe.display.html import figure_markup
from icefloe.display.markup import Markup, element
from icefloe.errors import IcefloeError
from icefloe.explorer.section import PageRequest, anchor
from icefloe.formatting import count_text, file_name, size_text, time_text, within
from icefloe.inspect.table_tree import ManifestNode, manifest_node
from icefloe.operations.metadata_cache import stored_size
from icefloe.operations.pyiceberg_compat import TableManifest, TableSnapshot, table_snapshot
from icefloe.spec.manifest_list.manifest_file import ManifestContent
from icefloe.table.table import Table

# The most blocks of a level; more manifests or files are drawn in groups.
_MOST_BLOCKS = 160
# The most files, and the most manifests to open for them, of a snapshot whose files are all drawn one by one.
_MOST_FILES, _MOST_MANIFESTS = 400, 40
_EARLIER_FILES, _OTHER_SNAPSHOTS = 8, 12
_OLDEST = 0.4  # the strength of the colour of the oldest snapshot, from 0 to 1


@dataclass(frozen=True, slots=True)
class _Ages:
    """The strength of colours by the time of a snapshot, from 0 to 1: the newest snapshot has the strongest colour."""

    first_ms: int
    last_ms: int
    times: dict[int, int]

    def strength(self, snapshot_id: int | None) -> float:
        time = self.times.get(snapshot_id or 0)
        if time is None or self.last_ms == self.first_ms:
            return 1.0 if time is not None else _OLDEST
        return round(_OLDEST + (1 - _OLDEST) * (time - self.first_ms) / (self.last_ms - self.first_ms), 2)


def hierarchy(request: PageRequest) -> Markup:
    """Return the picture, with a link back to the whole if the reader has zoomed in.

    Raises:
        NoSuchSnapshotError: The table does not have the chosen snapshot.
    """
    reader = request.opened.reader
    snapshots = reader.metadata.snapshots
    times = [snapshot.timestamp_ms for snapshot in snapshots]
    ages = _Ages(min(times, default=0), max(times, default=0), {snapshot.snapshot_id: snapshot.timestamp_ms for snapshot in snapshots})
    levels = [_catalog(request), _metadata_files(request)]
    snapshot_id = request.opened.snapshot_id
    chosen = None if snapshot_id is None else reader.metadata.snapshot_by_id(snapshot_id)
    back: Markup | None = None
    notes: list[Markup] = []
    if chosen is not None:
        levels.append(_snapshots(request, chosen.snapshot_id, ages))
        snapshot = table_snapshot(chosen, reader.metadata)
        try:
            manifests = snapshot.manifests(reader.io)
        except IcefloeError as error:
            levels.append(_lost_list(request, snapshot))
            notes.append(element("p", str(error), class_="fault"))
        else:
            below, back, notes = _below(request, snapshot, manifests, ages)
            levels += below
    summary = "Each block leads to what is below it; the width of manifests is their files, that of files their bytes, and younger ones are stronger."
    figure = Blocks(title=f"Hierarchy of {request.opened.name}"[:200], summary=summary, levels=tuple(levels), waterline=min(4, len(levels)))
    return element("div", back, figure_markup(figure), *notes)


def _catalog(request: PageRequest) -> BlockLevel:
    reader = request.opened.reader
    if not isinstance(reader, Table):
        return BlockLevel(
            name="Catalog", aside="none", blocks=(Block(concept="quiet", weight=1, text="opened by its metadata file", strength=0.3),)
        )
    text = f"{reader.handle.store.name}: {reader.full_name}"
    return BlockLevel(
        name="Catalog",
        aside="one row",
        blocks=(
            Block(
                concept="catalog",
                weight=1,
                text=text,
                aside=f"names {file_name(reader.metadata_location)}",
                tip=f"The catalog's row names {reader.metadata_location}",
                strength=0.5,
            ),
        ),
    )


def _metadata_files(request: PageRequest) -> BlockLevel:
    reader = request.opened.reader
    log = reader.metadata.metadata_log[-_EARLIER_FILES:]
    earlier = [
        Block(concept="metadata", weight=1, tip=f"{file_name(entry.metadata_file)}, written {time_text(entry.timestamp_ms)}", strength=0.25)
        for entry in log
    ]
    size = stored_size(reader.io, reader.metadata_location)
    written = request.age(reader.metadata.last_updated_ms)
    current = Block(
        concept="metadata",
        weight=max(4, 2 * len(earlier)),
        text=file_name(reader.metadata_location),
        aside=f"{size_text(size)}, written {written}",
        tip=f"Current metadata file {reader.metadata_location}, {size_text(size)}",
        target=request.links.to("contents", kind="metadata"),
    )
    return BlockLevel(name="Metadata file", aside=count_text(len(reader.metadata.metadata_log), "earlier file"), blocks=(*earlier, current))


def _snapshots(request: PageRequest, chosen: int, ages: _Ages) -> BlockLevel:
    listed = sorted(request.opened.reader.metadata.snapshots, key=lambda snapshot: (snapshot.timestamp_ms, snapshot.sequence_number))
    place = next(place for place, snapshot in enumerate(listed) if snapshot.snapshot_id == chosen)
    start = max(0, min(place - _OTHER_SNAPSHOTS // 2, len(listed) - _OTHER_SNAPSHOTS))
    blocks = []
    for snapshot in listed[start : start + _OTHER_SNAPSHOTS]:
        is_chosen = snapshot.snapshot_id == chosen
        blocks.append(
            Block(
                concept="snapshot",
                weight=6 if is_chosen else 1,
                text=f"{snapshot.operation or 'unknown'} {snapshot.snapshot_id}" if is_chosen else "",
                aside=f"{request.age(snapshot.timestamp_ms)}, sequence number {snapshot.sequence_number}" if is_chosen else "",
                tip=f"Snapshot {snapshot.snapshot_id}: {snapshot.operation or 'unknown'}, {time_text(snapshot.timestamp_ms)}",
                target=request.links.to("overview", snapshot=snapshot.snapshot_id),
                strength=1.0 if is_chosen else 0.3 * ages.strength(snapshot.snapshot_id),
            )
        )
    return BlockLevel(name="Snapshot", aside=f"1 of {len(listed):,}", blocks=tuple(blocks))


def _lost_list(request: PageRequest, snapshot: TableSnapshot) -> BlockLevel:
    text = within(snapshot.manifest_list or "", request.opened.reader.location())
    return BlockLevel(
        name="Manifest list",
        aside="cannot be read",
        blocks=(Block(concept="delete", weight=1, text=f"cannot be read: {text}", state="fault"),),
    )


def _below(
    request: PageRequest, snapshot: TableSnapshot, manifests: list[TableManifest], ages: _Ages
) -> tuple[list[BlockLevel], Markup | None, list[Markup]]:
    """Return the levels from the manifest list on, a link back to all manifests, and notes about manifests that cannot be read."""
    reader = request.opened.reader
    location = snapshot.manifest_list
    listed = Block(
        concept="snapshot",
        weight=1,
        text=file_name(location) if location else "the snapshot itself",
        aside=f"{size_text(stored_size(reader.io, location) if location else None)}, names {count_text(len(manifests), 'manifest')}",
        tip=f"Manifest list {location}",
        target=request.links.to("contents", kind="manifest-list", snapshot=snapshot.snapshot_id),
        strength=0.55,
    )
    start, end = request.span("manifests", len(manifests))
    shown = manifests[start:end]
    levels = [BlockLevel(name="Manifest list", aside=f"of snapshot {snapshot.sequence_number}", blocks=(listed,))]
    levels.append(
        BlockLevel(
            name="Manifests",
            aside=f"{count_text(len(manifests))}" if len(shown) == len(manifests) else f"{start + 1:,} to {end:,} of {len(manifests):,}",
            blocks=tuple(_manifest_blocks(request, shown, start, ages)),
        )
    )
    files, notes = _files(request, shown, start, ages)
    back = None
    if len(shown) < len(manifests):
        back = element("p", anchor(request.links.to("overview", snapshot=request.opened.snapshot), "← all manifests"))
    return [*levels, files], back, notes


def _groups(count: int) -> list[tuple[int, int]]:
    """Divide a number of items into at most `_MOST_BLOCKS` groups, each a range of consecutive items from first to end."""
    size = max(1, -(-count // _MOST_BLOCKS))
    return [(start, min(start + size, count)) for start in range(0, count, size)]


def _manifest_blocks(request: PageRequest, manifests: Sequence[TableManifest], offset: int, ages: _Ages) -> list[Block]:
    blocks = []
    for start, end in _groups(len(manifests)):
        group = manifests[start:end]
        files, length = sum(manifest.live_files_count for manifest in group), sum(manifest.manifest_length for manifest in group)
        first, last = offset + start + 1, offset + end
        is_one = end - start == 1
        of_deletes = all(manifest.content is ManifestContent.DELETES for manifest in group)
        noun = "delete file" if of_deletes else "file"
        what = f"manifest {first:,}" if is_one else f"manifests {first:,} to {last:,}"
        added = ages.times.get(group[0].added_snapshot_id)
        age = f", added {request.age(added)}" if added is not None else ""
        blocks.append(
            Block(
                concept="delete" if of_deletes else "manifest",
                weight=files + 1,
                text=f"{first:,}" if is_one else f"{first:,} to {last:,}",
                aside=f"{count_text(files, noun)}, {size_text(length)}",
                tip=f"{what}: {count_text(files, noun)}, {size_text(length)}{age}",
                target=request.links.to("overview", snapshot=request.opened.snapshot, manifests=f"{first}-{last}"),
                strength=ages.strength(group[0].added_snapshot_id) * (0.7 if of_deletes else 1.0),
            )
        )
    return blocks


def _files(request: PageRequest, manifests: Sequence[TableManifest], offset: int, ages: _Ages) -> tuple[BlockLevel, list[Markup]]:
    """Return the lowest level, and notes about manifests that cannot be read.

    The level has the files one by one if they are few; otherwise a block with the number of files for each manifest.
    """
    total = sum(manifest.live_files_count for manifest in manifests)
    if len(manifests) == 1 or (len(manifests) <= _MOST_MANIFESTS and total <= _MOST_FILES):
        return _opened_files(request, manifests, offset, ages)
    blocks = [
        Block(
            concept="delete" if manifests[start].content is ManifestContent.DELETES else "data",
            weight=sum(manifest.live_files_count for manifest in manifests[start:end]) + 1,
            text=f"{sum(manifest.live_files_count for manifest in manifests[start:end]):,}",
            tip=f"{count_text(sum(manifest.live_files_count for manifest in manifests[start:end]), 'file')}, "
            f"{count_text(sum(manifest.live_rows_count for manifest in manifests[start:end]), 'row')}",
            target=request.links.to("overview", snapshot=request.opened.snapshot, manifests=f"{offset + start + 1}-{offset + end}"),
            strength=0.75 * ages.strength(manifests[start].added_snapshot_id),
        )
        for start, end in _groups(len(manifests))
    ]
    return BlockLevel(name="Files", aside=f"{total:,} live", blocks=tuple(blocks)), []


def _opened_files(request: PageRequest, manifests: Sequence[TableManifest], offset: int, ages: _Ages) -> tuple[BlockLevel, list[Markup]]:
    reader = request.opened.reader
    blocks: list[Block] = []
    notes = []
    count = 0
    for number, manifest in enumerate(manifests, start=offset + 1):
        try:
            node = manifest_node(reader, manifest)
        except IcefloeError as error:
            blocks.append(Block(concept="delete", weight=1, text="cannot be read", tip=str(error)[:300], state="fault"))
            notes.append(element("p", f"Manifest {number} cannot be read: {error}", class_="fault"))
            continue
        start, end = request.span("files", len(node.files)) if len(manifests) == 1 else (0, len(node.files))
        count += len(node.files)
        strength = ages.strength(manifest.added_snapshot_id)
        # Many files of one manifest are drawn in groups.
        blocks += [_group_block(request, node, number, first + start, last + start, strength) for first, last in _groups(end - start)]
    return BlockLevel(name="Files", aside=f"{count:,} live", blocks=tuple(blocks)), notes


def _group_block(request: PageRequest, node: ManifestNode, number: int, first: int, last: int, strength: float) -> Block:
    files = node.files[first:last]
    size, rows = sum(file.file_size for file in files), sum(file.record_count for file in files)
    concept = "data" if node.content == "data" else "delete"
    if len(files) > 1:
        text = f"files {first + 1:,} to {last:,}"
        target = request.links.to("overview", snapshot=request.opened.snapshot, manifests=f"{number}-{number}", files=f"{first + 1}-{last}")
        return Block(
            concept=concept,
            weight=size,
            text=text,
            tip=f"{text}: {size_text(size)}, {count_text(rows, 'row')}",
            target=target,
            strength=strength,
        )
    (file,) = files
    return Block(
        concept=concept,
        weight=size,
        text=", ".join(file.partition.values()) or file_name(file.file_path),
        aside=f"{size_text(size)}, {count_text(rows, 'row')}",
        tip=f"{within(file.file_path, request.opened.reader.location())}: {size_text(size)}, {count_text(rows, 'row')}"
        + (f", {file.status}" if file.deletes is None else f", deletes {file.deletes}"),
        target=request.links.to("contents", kind="file", snapshot=request.opened.snapshot, manifest=number, entry=first + 1),
        strength=strength,
    )
