"""The issues of a table, each with the command that solves it: shortened for the first page, and complete on a page of their own."""

from collections.abc import Callable, Iterable, Iterator

from icefloe.checks.issue import MOST_PLACES, Issue, Weight
from icefloe.commit.attempts_in_summary import attempts_of
from icefloe.display.html import report_markup
from icefloe.display.markup import Markup, element
from icefloe.errors import IcefloeError
from icefloe.explorer.computed_results import MOST_CHECKED_FILES
from icefloe.explorer.section import PageRequest, anchor, copyable, fault, panel
from icefloe.formatting import count_text
from icefloe.spec.metadata.table_metadata import TableMetadata

_NAMES = {Weight.ERROR: "error", Weight.WARNING: "warning", Weight.CARE: "care", Weight.NOTE: "note"}
_SIGNS = {Weight.ERROR: "✕", Weight.WARNING: "!", Weight.CARE: "↻", Weight.NOTE: "i"}
# The most issues on the first page.
_MOST_SHORT = 12
# The most partitions whose file sizes are listed.
_MOST_PARTITIONS = 40


def attention(request: PageRequest) -> Markup:
    """Return the first issues in short.

    Raises:
        StillRunningError: The issues are still being computed.
    """
    issues, faults = _issues(request)
    title = count_text(len(issues), "thing needs attention", "things need attention") if issues else "Nothing needs attention"
    more = request.links.to("checks", snapshot=request.opened.snapshot)
    items = [
        element("li", _sign(issue), element("div", element("strong", issue.title), _first_place(issue), _mend(request, issue)))
        for issue in issues[:_MOST_SHORT]
    ]
    rest = len(issues) - len(items)
    return panel(
        title,
        *faults,
        element("ul", *items, class_="concerns")
        if items
        else element("p", "No rule of the specification is broken, and no measure of health needs care.", class_="good"),
        element("p", anchor(more, f"… and {rest:,} more" if rest else "Details of each, and every measure")) if more and issues else None,
        id_="attention",
    )


def checks(request: PageRequest) -> Markup:
    """Return every issue in full, and every measure of health.

    Raises:
        StillRunningError: The issues are still being computed.
    """
    issues, faults = _issues(request)
    cards = [_card(request, issue) for issue in issues]
    depth = (
        "Each data file was checked for its existence and size."
        if request.opened.checks_files
        else f"The table has more than {MOST_CHECKED_FILES:,} data files: whether each exists is checked by icefloe validate --files."
    )
    measures: Markup | None = None
    try:
        measures = panel("Every measure of health", report_markup(request.opened.health().report(_MOST_PARTITIONS)))
    except IcefloeError as error:
        faults.append(fault(error))
    return element(
        "div",
        panel(
            "What needs attention",
            *faults,
            *cards,
            None if issues else element("p", "No rule of the specification is broken, and no measure of health needs care.", class_="good"),
            about=f"Rules of the specification that the snapshot breaks, and measures from which on readers pay. {depth}",
        ),
        measures,
    )


def _issues(request: PageRequest) -> tuple[list[Issue], list[Markup]]:
    """Return the issues, the gravest first, and the errors of measures that failed.

    Raises:
        StillRunningError: The issues are still being computed.
    """
    opened = request.opened
    issues = list(_retried_commits(opened.reader.metadata))
    faults: list[Markup] = []
    sources: tuple[Callable[[], Iterable[Issue]], ...] = (
        lambda: opened.validation().issues(opened.reader.location()),
        lambda: opened.health().issues,
    )
    for source in sources:
        try:
            issues += source()
        except IcefloeError as error:
            faults.append(fault(error))
    rules = {issue.rule for issue in issues}
    return sorted((issue for issue in issues if not issue.shown_by & rules), key=lambda issue: issue.weight), faults


def _retried_commits(metadata: TableMetadata) -> Iterator[Issue]:
    retried = [(snapshot, attempts) for snapshot in metadata.snapshots if (attempts := attempts_of(snapshot)) > 1]
    if retried:
        newest = retried[::-1][:MOST_PLACES]
        yield Issue(
            weight=Weight.NOTE,
            title=f"Retried commits: {len(retried):,} of {len(metadata.snapshots):,}",
            detail="Another writer committed first, and the commit was made again on the newer table. Each retry reads and writes metadata again.",
            places=tuple(f"snapshot {snapshot.snapshot_id}: {count_text(attempts, 'attempt')}" for snapshot, attempts in newest),
            more=max(len(retried) - len(newest), 0),
            next_step="see how one came about with icefloe explain commit; where it happens often, let writers commit less often",
        )


def _sign(issue: Issue) -> Markup:
    name = _NAMES[issue.weight]
    return element("span", _SIGNS[issue.weight], class_=f"sign {name}", role="img", aria_label=name)


def _first_place(issue: Issue) -> Markup | None:
    if not issue.places:
        return None
    more = len(issue.places) - 1 + issue.more
    return element("div", issue.places[0], f", and {more:,} more" if more else None, class_="dim path")


def _mend(request: PageRequest, issue: Issue) -> Markup | None:
    if issue.remedy is not None:
        return copyable(issue.remedy.command(request.opened.typed, request.opened.arguments))
    return element("div", f"Next: {issue.next_step}", class_="next") if issue.next_step else None


def _card(request: PageRequest, issue: Issue) -> Markup:
    places = [element("li", place, class_="path") for place in issue.places]
    if issue.more:
        places.append(element("li", f"… and {issue.more:,} more", class_="dim"))
    return element(
        "article",
        element("h3", _sign(issue), issue.title),
        element("p", issue.detail),
        element("ul", *places, class_="places") if places else None,
        element("p", f"Next: {issue.next_step}") if issue.next_step and issue.remedy is not None else None,
        _mend(request, issue),
        element("p", "rule ", element("code", issue.rule), class_="dim") if issue.rule else None,
        class_=f"concern {_NAMES[issue.weight]}",
    )
