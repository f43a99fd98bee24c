"""A box for a filter, and the trace of its scan: what it reads and skips at each level, with the bound that decided. Spec: Scan Planning."""

from icefloe.checks.issue import shell_word
from icefloe.display.html import figure_markup, table_markup
from icefloe.display.markup import Markup, element
from icefloe.errors import InvalidFilterError, InvalidInputError
from icefloe.explorer.section import PAGE_LINES, PageRequest, anchor, copyable, facts, pager, panel
from icefloe.formatting import share_text, size_text, within
from icefloe.inspect.scan_trace import LevelDecisions, ScanTrace

# The most characters of a filter.
MOST_FILTER = 4_000
_LEVELS = {"files": "Data files", "manifests": "Manifests", "delete_manifests": "Delete manifests", "delete_files": "Delete files"}


def query(request: PageRequest) -> Markup:
    """Return the box, and below it the trace of its filter. If the filter cannot be parsed, the error is shown.

    Raises:
        StillRunningError: The scan is still being planned.
        IcefloeError: The other errors of `OpenedTable.trace`.
    """
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
    figure = trace.figure()
    command = f"icefloe trace {shell_word(request.opened.typed)} --where {shell_word(where or 'TRUE')}{request.opened.arguments}"
    return element(
        "div",
        panel("Why a query reads what it reads", form, figure_markup(figure), _totals(trace), copyable(command)),
        _decisions(request, trace, where),
    )


def _form(request: PageRequest, where: str) -> Markup:
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


def _totals(trace: ScanTrace) -> Markup:
    totals = trace.totals
    pairs = [
        ("data files to read", f"{totals.data_files_read:,} of {totals.data_files:,}"),
        ("bytes to read", f"{size_text(totals.data_size_read)} of {size_text(totals.data_size)}"),
        ("rows in them", f"{totals.records_read:,}, {share_text(totals.records_skipped, totals.records)} ruled out unread"),
        ("manifests opened", f"{totals.manifests_read:,} of {totals.manifests:,}"),
    ]
    if totals.delete_files:
        pairs.append(("delete files to read", f"{totals.delete_files_read:,} of {totals.delete_files:,}"))
    return facts(pairs)


def _decisions(request: PageRequest, trace: ScanTrace, where: str) -> Markup:
    """Return the decisions of one level, each with its reason."""
    level = request.query.get("level", "files")
    level = level if level in _LEVELS else "files"
    decisions: LevelDecisions = getattr(trace, level)
    start = request.number("from", most=max(len(decisions) - 1, 0))
    rows = [
        (
            element("span", "read" if line.kept else "skipped", class_="kept" if line.kept else "skipped"),
            element("span", within(line.path, trace.location), class_="path"),
            line.explanation or line.reason.value,
            f"{line.records:,}",
            size_text(line.bytes),
        )
        for line in decisions.lines(start, PAGE_LINES)
    ]
    given: dict[str, object] = {"where": where, "snapshot": request.opened.snapshot, "level": level}
    counts = {name: len(getattr(trace, name)) for name in _LEVELS}
    tabs = [
        anchor(request.links.to("query", **{**given, "level": name}), f"{title} ({counts[name]:,})", "chosen" if name == level else None)
        for name, title in _LEVELS.items()
        if counts[name]
    ]
    return panel(
        "Each decision",
        None if request.is_file else element("nav", *tabs, class_="tabs", aria_label="levels"),
        table_markup(
            ("", _LEVELS[level].lower(), "why", "rows", "size"),
            rows,
            numbers=frozenset({3, 4}),
            caption=f"decisions about {_LEVELS[level].lower()}",
        ),
        pager(request, "query", "from", start, len(decisions), query=given),
    )
