"""A query box, and its trace: what a scan reads and skips at each level, with the bound that decided. Spec: Scan Planning."""

from collections.abc import Sequence

from icefloe.display.figures.blocks import Block, Blocks, Level
from icefloe.display.formatting import count_text, share_text, size_text, within
from icefloe.display.markup import Markup, element
from icefloe.errors import InvalidFilterError, InvalidInputError
from icefloe.explorer.concerns import quoted
from icefloe.explorer.section import PAGE_LINES, Request, anchor, copyable, drawn, pager, panel, table
from icefloe.inspect.scan_trace import LevelDecisions, ScanTrace
from icefloe.kernel.scan.decision import Decision

# Blocks of a level; neighbours of the same kind share one.
_MOST_BLOCKS = 120
# Characters of a filter.
MOST_FILTER = 4_000
_LEVELS = {"files": "Data files", "manifests": "Manifests", "delete_manifests": "Delete manifests", "delete_files": "Delete files"}


def query(request: Request) -> Markup:
    """Return the query box, and below it the trace of its filter. Raises as `OpenedTable.trace`, except for a filter that cannot be parsed."""
    where = request.query.get("where", "")[:MOST_FILTER]
    form = None if request.is_file else _form(request, where)
    if "where" not in request.query:
        about = "Write a filter as in SQL's WHERE: the picture then shows which manifests and files a scan opens, and which bound rules out each of the others."
        return panel("Why a query reads what it reads", form, about=about)
    try:
        trace = request.opened.trace(where)
    except (InvalidFilterError, InvalidInputError) as error:
        hint = element("p", "Next: ", error.next_step) if error.next_step else None
        return panel(
            "Why a query reads what it reads", form, element("div", element("p", error.message), hint, class_="fault", role="alert")
        )
    figure = trace_figure(trace)
    command = f"icefloe trace {quoted(request.opened.typed)} --where {quoted(where or 'TRUE')}{request.opened.arguments}"
    return element(
        "div",
        panel("Why a query reads what it reads", form, drawn(figure), _totals(trace), copyable(command)),
        _decisions(request, trace, where),
    )


def _form(request: Request, where: str) -> Markup:
    fields = [field.name for field in request.opened.reader.schema().fields[:12]]
    hidden = element("input", type="hidden", name="snapshot", value=request.opened.snapshot) if request.opened.snapshot else None
    return element(
        "form",
        element("label", "WHERE", for_="where"),
        element(
            "input",
            type="text",
            name="where",
            id="where",
            value=where,
            maxlength=MOST_FILTER,
            autocomplete="off",
            spellcheck="false",
            placeholder="id > 100 AND kind = 'a'",
            aria_describedby="columns",
        ),
        hidden,
        element("button", "Trace", type="submit"),
        element(
            "p",
            "columns: ",
            ", ".join(fields),
            " …" if len(request.opened.reader.schema().fields) > len(fields) else None,
            id="columns",
            class_="dim",
        ),
        method="get",
        action=request.links.to("query"),
        class_="query",
        role="search",
    )


def trace_figure(trace: ScanTrace) -> Blocks:
    """Return the picture of a trace: each level from left to right what is kept, then what is skipped."""
    levels = []
    if trace.catalog is not None:
        levels.append(_single("Catalog", trace.catalog.catalog, "catalog", "one look-up"))
    levels.append(_single("Metadata file", within(trace.metadata.path, trace.location), "metadata", size_text(trace.metadata.file_size)))
    if trace.snapshot is not None:
        text = f"snapshot {trace.snapshot.snapshot_id}, names {count_text(trace.snapshot.manifests, 'manifest')}"
        levels.append(_single("Manifest list", text, "snapshot", size_text(trace.snapshot.file_size)))
        levels.append(_level("Manifests", trace.manifests, "manifest"))
        levels.append(_level("Data files", trace.files, "data", trace.totals.data_files_in_skipped_manifests))
        if trace.delete_manifests.kept or trace.delete_manifests.skipped:
            levels.append(_level("Delete manifests", trace.delete_manifests, "delete"))
            levels.append(_level("Delete files", trace.delete_files, "delete"))
    totals = trace.totals
    summary = (
        f"The scan opens {totals.manifests_read:,} of {count_text(totals.manifests, 'manifest')} and reads "
        f"{totals.data_files_read:,} of {count_text(totals.data_files, 'data file')}, {size_text(totals.data_size_read)}. Struck out is what it skips."
    )
    return Blocks(title=f"Scan of {trace.table}"[:200], summary=summary, levels=tuple(levels))


def _single(name: str, text: str, concept: str, aside: str) -> Level:
    return Level(name=name, aside="read", blocks=(Block(concept=concept, weight=1, text=text, aside=aside, state="kept"),))


def _level(name: str, decisions: LevelDecisions, concept: str, unread: int = 0) -> Level:
    kept, skipped = len(decisions.kept), len(decisions.skipped)
    blocks = [*_blocks(decisions.kept, concept, kept + skipped), *_blocks(decisions.skipped, concept, kept + skipped)]
    if unread:
        text = f"{unread:,} in skipped manifests"
        blocks.append(Block(concept="quiet", weight=unread, text=text, tip=f"{text}: never listed", strength=0.2, state="skipped"))
    return Level(name=name, aside=f"{kept:,} of {kept + skipped + unread:,} read", blocks=tuple(blocks))


def _blocks(decisions: Sequence[Decision], concept: str, count: int) -> list[Block]:
    group = max(1, -(-count // _MOST_BLOCKS))
    blocks = []
    for start in range(0, len(decisions), group):
        some = decisions[start : start + group]
        first = some[0]
        reason = first.explanation or first.reason.value
        name = first.partition or first.path.rpartition("/")[2]
        blocks.append(
            Block(
                concept=concept if first.kept else "quiet",
                weight=len(some),
                text=f"{len(some):,}" if len(some) > 1 else name,
                aside=reason,
                tip=f"{'read' if first.kept else 'skipped'}: {name}{f' and {len(some) - 1:,} more' if len(some) > 1 else ''}: {reason}",
                strength=1.0 if first.kept else 0.28,
                state="kept" if first.kept else "skipped",
            )
        )
    return blocks


def _totals(trace: ScanTrace) -> Markup:
    totals = trace.totals
    facts = [
        ("data files to read", f"{totals.data_files_read:,} of {totals.data_files:,}"),
        ("bytes to read", f"{size_text(totals.data_size_read)} of {size_text(totals.data_size)}"),
        ("rows in them", f"{totals.records_read:,}, {share_text(totals.records_skipped, totals.records)} ruled out unread"),
        ("manifests opened", f"{totals.manifests_read:,} of {totals.manifests:,}"),
    ]
    if totals.delete_files:
        facts.append(("delete files to read", f"{totals.delete_files_read:,} of {totals.delete_files:,}"))
    return element("dl", *(element("div", element("dt", name), element("dd", value)) for name, value in facts), class_="facts")


def _decisions(request: Request, trace: ScanTrace, where: str) -> Markup:
    """Return the decisions of one level, with the reason for each."""
    level = request.query.get("level", "files")
    level = level if level in _LEVELS else "files"
    decisions: LevelDecisions = getattr(trace, level)
    listed = [*decisions.kept, *decisions.skipped]
    start = request.number("from", most=max(len(listed) - 1, 0))
    rows = [
        (
            element("span", "read" if one.kept else "skipped", class_="kept" if one.kept else "skipped"),
            element("span", within(one.path, trace.location), class_="path"),
            one.explanation or one.reason.value,
            f"{one.records:,}",
            size_text(one.bytes),
        )
        for one in listed[start : start + PAGE_LINES]
    ]
    given: dict[str, object] = {"where": where, "snapshot": request.opened.snapshot, "level": level}
    counts = {name: len(getattr(trace, name).kept) + len(getattr(trace, name).skipped) for name in _LEVELS}
    tabs = [
        anchor(request.links.to("query", **{**given, "level": name}), f"{title} ({counts[name]:,})", "chosen" if name == level else None)
        for name, title in _LEVELS.items()
        if counts[name]
    ]
    return panel(
        "Each decision",
        None if request.is_file else element("nav", *tabs, class_="tabs", aria_label="levels"),
        table(
            ("", _LEVELS[level].lower(), "why", "rows", "size"),
            rows,
            numbers=frozenset({3, 4}),
            caption=f"decisions about {_LEVELS[level].lower()}",
        ),
        pager(request, "query", "from", start, len(listed), query=given),
    )
