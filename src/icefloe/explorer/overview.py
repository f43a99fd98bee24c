"""The first page of a table: its numbers, its issues, its hierarchy, and the size of its metadata."""

from icefloe.display.markup import Markup, element
from icefloe.explorer.checks import attention
from icefloe.explorer.hierarchy import hierarchy
from icefloe.explorer.section import PageRequest, facts, panel, panel_or_notice
from icefloe.formatting import count_text, share_text, size_text
from icefloe.inspect.metadata_overhead import LevelSize
from icefloe.inspect.table_overview import TableOverview, table

_LARGE_LOG = 400  # the most snapshots of a table whose metadata is measured on a page with a server


def overview(request: PageRequest) -> Markup:
    """Return the page. Parts that take long are left out until they are computed."""
    reader = request.opened.reader
    issues, issues_wait = panel_or_notice("What needs attention", lambda: attention(request))
    picture = panel("From the catalog to the files", hierarchy(request))
    overhead, overhead_waits = panel_or_notice("Metadata compared with data", lambda: _overhead(request))
    waits = "true" if issues_wait or overhead_waits else None
    return element("div", _numbers(request, table(reader)), issues, picture, overhead, data_waits=waits)


def _numbers(request: PageRequest, totals: TableOverview) -> Markup:
    metadata = request.opened.reader.metadata
    pairs = (
        ("rows", count_text(totals.total_records) + (", before deletes" if totals.total_delete_files else "")),
        ("data files", f"{count_text(totals.total_data_files)}"),
        ("size", size_text(totals.total_files_size)),
        ("delete files", count_text(totals.total_delete_files or 0)),
        ("snapshots", f"{totals.snapshots:,}"),
        ("columns", f"{len(metadata.schema().fields):,}"),
        ("partitioned by", totals.partitioning),
        ("sorted by", ", ".join(totals.sort_order) or "nothing"),
        ("format version", str(totals.format_version)),
        ("last commit", request.age(totals.last_updated_ms)),
    )
    return facts(pairs, "facts numbers", "the table in numbers")


def _overhead(request: PageRequest) -> Markup | None:
    """Return the size of each level of metadata; None for a table with so many snapshots that opening all manifests takes too long."""
    opened = request.opened
    if len(opened.reader.metadata.snapshots) > _LARGE_LOG and not request.is_file:
        return None
    cost = opened.overhead()
    most = max((level.size for level in (*cost.current, *cost.reachable)), default=0) or 1
    rows = [
        element(
            "tr",
            element("th", now.level, scope="row"),
            element("td", _files(now), class_="number"),
            element("td", size_text(now.size), class_="number"),
            element("td", _bar(now, most)),
            element("td", _files(ever), class_="number"),
            element("td", size_text(ever.size), class_="number"),
            element("td", _bar(ever, most)),
        )
        for now, ever in zip(cost.current, cost.reachable, strict=True)
        if ever.files or ever.level != "delete files"
    ]
    head = ("level", "files now", "bytes now", "", "of all snapshots", "bytes", "")
    header = element("tr", *(element("th", name, scope="col" if name else None) if name else element("td") for name in head))
    inner = element("table", element("caption", "bytes of each level", class_="unseen"), element("thead", header), element("tbody", *rows))
    data, metadata = cost.current[-1].size, sum(level.size for level in cost.current[:-2])
    about = f"Metadata is {share_text(metadata, data)} of the data of this snapshot." if data else "There is no data to compare with."
    grid = element("div", inner, class_="scrolled", tabindex=0, role="region", aria_label="bytes of each level")
    return panel("Metadata compared with data", grid, about=about)


_CONCEPTS = {
    "metadata files": "metadata",
    "manifest lists": "snapshot",
    "manifests": "manifest",
    "delete files": "delete",
    "data files": "data",
}


def _bar(level: LevelSize, most: int) -> Markup:
    share = level.size / most
    bar = element(
        "rect", x=0, y=3, width=max(120 * share, 1 if level.size else 0), height=10, class_=f"c-{_CONCEPTS.get(level.level, 'quiet')}"
    )
    return element("svg", bar, viewBox="0 0 120 16", width=120, height=16, aria_hidden="true")


def _files(level: LevelSize) -> str:
    return f"{level.files:,}" + (f" ({level.missing:,} missing)" if level.missing else "")
