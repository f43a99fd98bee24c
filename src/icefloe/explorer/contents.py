"""The decoded content of each file that the table's metadata names: metadata files, manifest lists, manifests, their entries, Parquet footers and Puffin blobs.

The address of a page names a file by its position, such as the third entry of the second manifest, never by a path. So only files that the table's metadata
names can be read, by the rules of the table's storage. Long content is divided into pages.
"""

from collections.abc import Callable

from icefloe.display.html import DOCUMENT_LINES, document_lines, document_text, report_markup, table_markup
from icefloe.display.markup import Markup, element
from icefloe.display.report import Report
from icefloe.display.reportable import json_ready
from icefloe.errors import IcefloeError, InvalidInputError, LocationNotAllowedError, MetadataFormatError
from icefloe.explorer.section import PAGE_LINES, PageRequest, anchor, facts, fault, pager, panel
from icefloe.formatting import count_text, file_name, size_text, time_text, within
from icefloe.inspect.comparison.table_version import is_own_metadata_file
from icefloe.inspect.data_file_contents import data_file_contents
from icefloe.inspect.decoded import columns_by_id, partition_columns
from icefloe.inspect.lookup import existing_snapshot_of
from icefloe.inspect.manifest_contents import ManifestOverview, entry_overview, manifest_overview, statistics_grid
from icefloe.inspect.metadata_file import check_has_file
from icefloe.operations.pyiceberg_compat import TableManifest
from icefloe.spec.avro.avro_container import open_container
from icefloe.spec.manifest.data_file import FileFormat
from icefloe.spec.manifest.entry import ManifestEntry
from icefloe.spec.metadata.json_file import inflate, parse_json
from icefloe.spec.puffin.puffin_file import PuffinSource, read_file_metadata

# The most bytes of a JSON file that is decoded for a page.
_MOST_JSON = 64 * 1024 * 1024
_MOST_HEADER = 40
# The most files of each kind in the list of files.
_LISTED = 20


def contents(request: PageRequest) -> Markup:
    """Return the content of the file that the query names by the parameter `kind` and the position. Without them, return the list of the table's files."""
    kind = request.query.get("kind", "")
    pages: dict[str, Callable[[PageRequest], Markup]] = {
        "metadata": _metadata,
        "manifest-list": _manifest_list,
        "manifest": _manifest,
        "file": _file,
        "statistics": _statistics,
    }
    return pages.get(kind, _start)(request)


def _start(request: PageRequest) -> Markup:
    """Return the list of the table's files, from the newest metadata file down to its manifests."""
    reader = request.opened.reader
    metadata = reader.metadata
    log = metadata.metadata_log[-_LISTED:]
    logged = [(len(metadata.metadata_log) - len(log) + number, entry) for number, entry in enumerate(log, start=1)]

    def row(target: str | None, name: str, what: str, written: str = "") -> tuple[Markup | str, ...]:
        return anchor(target, file_name(name), "path"), what, written

    links = request.links
    rows = [
        row(links.to("contents", kind="metadata"), reader.metadata_location, "current metadata file", time_text(metadata.last_updated_ms))
    ]
    for number, entry in reversed(logged):
        target = links.to("contents", kind="metadata", log=number)
        rows.append(row(target, entry.metadata_file, "earlier metadata file", time_text(entry.timestamp_ms)))
    for number, file in enumerate(metadata.statistics[:_LISTED], start=1):
        target = links.to("contents", kind="statistics", number=number)
        rows.append(row(target, file.statistics_path, f"statistics of snapshot {file.snapshot_id}"))
    for snapshot in reversed(metadata.snapshots[-_LISTED:]):
        target = links.to("contents", kind="manifest-list", snapshot=snapshot.snapshot_id)
        what = f"manifest list of snapshot {snapshot.snapshot_id}"
        rows.append(row(target, snapshot.manifest_list or "the snapshot itself", what, time_text(snapshot.timestamp_ms)))
    about = "Each file leads to its decoded content, and to the files that it names."
    return panel("Files of the table", table_markup(("file", "what it is", "written"), rows, caption="files of the table"), about=about)


def _metadata(request: PageRequest) -> Markup:
    reader = request.opened.reader
    place = request.number("log")
    log = reader.metadata.metadata_log
    location = log[place - 1].metadata_file if 1 <= place <= len(log) else reader.metadata_location
    if location == reader.metadata_location:
        check_has_file(reader)
    elif not is_own_metadata_file(reader, location):
        raise LocationNotAllowedError(
            "the metadata log names a file that is not in the table's folder",
            table=reader.full_name,
            path=location,
            next_step="read it with another tool if you trust it",
        )
    if reader.io.size(location) > _MOST_JSON:
        raise MetadataFormatError(
            f"the metadata file is larger than {size_text(_MOST_JSON)}",
            table=reader.full_name,
            path=location,
            next_step="read it with icefloe show metadata",
        )
    stored = reader.io.read(location)
    lines = request.opened.get_or_compute(
        ("json", location), lambda: document_text(parse_json(inflate(stored, location), location)), "Decoding the metadata file"
    )
    start = request.number("line", most=max(len(lines) - 1, 0))
    about = (("file", location), ("size", size_text(len(stored))), ("lines", f"{len(lines):,}"))
    query = {"kind": "metadata", "log": place or None}
    lines_after = pager(request, "contents", "line", start, len(lines), DOCUMENT_LINES, query)
    return panel(f"Metadata file {file_name(location)}", facts(about, "rows"), lines_after, document_lines(lines, start), lines_after)


def _manifest_list(request: PageRequest) -> Markup:
    reader = request.opened.reader
    snapshot = existing_snapshot_of(reader, request.opened.snapshot_id)
    manifests = snapshot.manifests(reader.io)
    start = request.number("from", most=max(len(manifests) - 1, 0))
    shown = manifests[start : start + PAGE_LINES]
    listed = [manifest_overview(manifest, reader.metadata, {}) for manifest in shown]
    rows = [_manifest_row(request, number, manifest) for number, manifest in enumerate(listed, start=start + 1)]
    columns = ("", "manifest", "content", "size", "sequence", "added", "existing", "deleted", "rows", "partition bounds")
    location = snapshot.manifest_list
    stored = location or "none: the snapshot itself names its manifests"
    head = (("snapshot", str(snapshot.snapshot_id)), ("file", stored), ("manifests", f"{len(manifests):,}"))
    return element(
        "div",
        panel(
            f"Manifest list {file_name(location or '')}",
            facts(head, "rows"),
            table_markup(columns, rows, numbers=frozenset({0, 3, 4, 5, 6, 7, 8}), caption="manifests of the list"),
            pager(request, "contents", "from", start, len(manifests), query={"kind": "manifest-list", "snapshot": request.opened.snapshot}),
        ),
        _header(request, location) if location else None,
        panel("The records of this page as JSON", document_lines(document_text([json_ready(manifest) for manifest in listed]), 0)),
    )


def _manifest_row(request: PageRequest, number: int, manifest: ManifestOverview) -> tuple[Markup | str, ...]:
    location = request.opened.reader.location()
    target = request.links.to("contents", kind="manifest", manifest=number, snapshot=request.opened.snapshot)
    counts = (manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count)
    rows = (
        None
        if None in (manifest.added_rows_count, manifest.existing_rows_count)
        else (manifest.added_rows_count or 0) + (manifest.existing_rows_count or 0)
    )
    return (
        f"{number:,}",
        anchor(target, within(manifest.manifest_path, location), "path"),
        manifest.content,
        size_text(manifest.manifest_length),
        f"{manifest.sequence_number:,}",
        *("unknown" if count is None else f"{count:,}" for count in counts),
        "unknown" if rows is None else f"{rows:,}",
        element("span", *(element("div", str(bound)) for bound in manifest.partitions)),
    )


def _manifest(request: PageRequest) -> Markup:
    reader = request.opened.reader
    number, manifest = _chosen_manifest(request)
    entries = _entries(request, manifest)
    start = request.number("from", most=max(len(entries) - 1, 0))
    partition, columns = partition_columns(reader.metadata, manifest.partition_spec_id), columns_by_id(reader.metadata)
    rows = []
    for place, entry in enumerate(entries[start : start + PAGE_LINES], start=start + 1):
        entry_row = entry_overview(entry, partition, columns, reader.location())
        target = request.links.to("contents", kind="file", manifest=number, entry=place, snapshot=request.opened.snapshot, all=1)
        rows.append(
            (
                f"{place:,}",
                entry_row.status,
                anchor(target, within(entry_row.file_path, reader.location()), "path"),
                ", ".join(f"{name} = {value}" for name, value in entry_row.partition.items()),
                f"{entry_row.record_count:,}",
                size_text(entry_row.content_size_in_bytes or entry_row.file_size_in_bytes),
                str(entry_row.sequence_number),
                entry_row.deletes or "",
            )
        )
    overview = manifest_overview(manifest, reader.metadata, {})
    head = (
        ("file", manifest.manifest_path),
        ("size", size_text(manifest.manifest_length)),
        ("content", overview.content),
        ("partition spec", str(manifest.partition_spec_id)),
        ("added by snapshot", str(manifest.added_snapshot_id)),
        ("entries", f"{len(entries):,}"),
    )
    names = ("", "status", "file", "partition", "rows", "size", "sequence", "deletes")
    query = {"kind": "manifest", "manifest": number, "snapshot": request.opened.snapshot}
    return element(
        "div",
        panel(
            f"Manifest {number}: {file_name(manifest.manifest_path)}",
            facts(head, "rows"),
            table_markup(names, rows, numbers=frozenset({0, 4, 5, 6}), caption="entries of the manifest"),
            pager(request, "contents", "from", start, len(entries), query=query),
        ),
        _header(request, manifest.manifest_path),
    )


def _chosen_manifest(request: PageRequest) -> tuple[int, TableManifest]:
    """Return the manifest that the query names, after its number.

    Raises:
        InvalidInputError: There is no manifest of this number.
    """
    manifests = existing_snapshot_of(request.opened.reader, request.opened.snapshot_id).manifests(request.opened.reader.io)
    number = request.number("manifest", 1)
    if not 1 <= number <= len(manifests):
        raise InvalidInputError(f"the snapshot has no manifest {number}", next_step=f"choose one from 1 to {len(manifests)}")
    return number, manifests[number - 1]


def _entries(request: PageRequest, manifest: TableManifest) -> list[ManifestEntry]:
    reader = request.opened.reader
    return request.opened.get_or_compute(
        ("entries", manifest.manifest_path),
        lambda: manifest.fetch_manifest_entry(reader.io, discard_deleted=False),
        "Decoding the manifest",
    )


def _header(request: PageRequest, location: str) -> Markup:
    """Return the header of an Avro file: its schema, codec and properties."""
    container = open_container(request.opened.reader.io.read(location), location)
    pairs = tuple((key, value.decode("utf-8", "replace")) for key, value in list(container.metadata.items())[:_MOST_HEADER])
    return panel("Header of the Avro file", facts(pairs, "rows"))


def _file(request: PageRequest) -> Markup:
    """Return a file by its manifest entry: the entry, and the footer of a Parquet file or the blobs of a Puffin file."""
    reader = request.opened.reader
    number, manifest = _chosen_manifest(request)
    entries = _entries(request, manifest)
    if "all" not in request.query:  # links from the picture number only live files, links from the page of a manifest all entries
        entries = [entry for entry in entries if entry.status.name != "DELETED"]
    place = request.number("entry", 1)
    if not 1 <= place <= len(entries):
        raise InvalidInputError(f"the manifest has no entry {place}", next_step=f"choose one from 1 to {len(entries)}")
    entry = entries[place - 1]
    snapshot_id = existing_snapshot_of(reader, request.opened.snapshot_id).snapshot_id
    back = anchor(request.links.to("contents", kind="manifest", manifest=number, snapshot=request.opened.snapshot), f"← manifest {number}")
    title = f"{'Data' if entry.data_file.content.name == 'DATA' else 'Delete'} file {file_name(entry.data_file.file_path)}"
    overview = entry_overview(
        entry, partition_columns(reader.metadata, manifest.partition_spec_id), columns_by_id(reader.metadata), reader.location()
    )
    try:
        contents = data_file_contents(reader, snapshot_id, manifest, entry)
        shown = report_markup(contents.report(None))
    except IcefloeError as error:
        grid = report_markup(Report("", (statistics_grid("columns in the manifest", overview.columns),)))
        shown = element("div", fault(error), element("p", "This is what the manifest has of it:"), grid)
    blobs = _blobs(request, entry.data_file.file_path) if entry.data_file.file_format is FileFormat.PUFFIN else None
    raw = {name: value for name, value in json_ready(overview).items() if name != "columns"}
    return element(
        "div",
        panel(title, element("p", back), shown),
        blobs,
        panel("The manifest entry as JSON", document_lines(document_text(raw), 0)),
    )


def _statistics(request: PageRequest) -> Markup:
    files = request.opened.reader.metadata.statistics
    number = request.number("number", 1)
    if not 1 <= number <= len(files):
        raise InvalidInputError(f"the table has no statistics file {number}", next_step=f"choose one from 1 to {len(files)}")
    return _blobs(request, files[number - 1].statistics_path)


def _blobs(request: PageRequest, location: str) -> Markup:
    """Return the footer of a Puffin file: the list of its blobs, and its properties."""
    reader = request.opened.reader
    with reader.io.open_input(location) as opened:
        size = opened.size()
        metadata = read_file_metadata(PuffinSource(location, size, lambda offset, length: opened.read_at(length, offset)))
    rows = [
        (
            f"{place:,}",
            blob.type,
            ", ".join(map(str, blob.fields)) or "none",
            f"{blob.offset:,}",
            size_text(blob.length),
            blob.compression_codec or "none",
            ", ".join(f"{key} = {value}" for key, value in blob.properties.items()),
        )
        for place, blob in enumerate(metadata.blobs[:PAGE_LINES], start=1)
    ]
    columns = ("", "blob", "columns", "at byte", "size", "codec", "properties")
    return panel(
        f"Puffin file {file_name(location)}",
        facts(
            (("file", location), ("size", size_text(size)), ("blobs", count_text(len(metadata.blobs))), *metadata.properties.items()),
            "rows",
        ),
        table_markup(columns, rows, numbers=frozenset({0, 3, 4}), caption="blobs of the file"),
        element("p", f"… and {len(metadata.blobs) - len(rows):,} more", class_="dim") if len(metadata.blobs) > len(rows) else None,
    )
