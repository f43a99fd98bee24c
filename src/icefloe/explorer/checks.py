"""What needs attention: the concerns of a table, in short on the first page and whole on a page of their own, each with the command that mends it."""

from collections.abc import Callable

from icefloe.display.markup import Markup, element
from icefloe.errors import IcefloeError
from icefloe.explorer.concerns import Concern, Weight, by_weight, commit_concerns, health_concerns, rule_concerns
from icefloe.explorer.opened_table import MOST_CHECKED_FILES
from icefloe.explorer.report_markup import report_markup
from icefloe.explorer.section import Request, anchor, copyable, panel
from icefloe.formatting import count_text

_NAMES = {Weight.ERROR: "error", Weight.WARNING: "warning", Weight.CARE: "care", Weight.NOTE: "note"}
_SIGNS = {Weight.ERROR: "✕", Weight.WARNING: "!", Weight.CARE: "↻", Weight.NOTE: "i"}
# Concerns on the first page.
_MOST_SHORT = 12
# Partitions whose file sizes are listed.
_MOST_PARTITIONS = 40


def attention(request: Request) -> Markup:
    """Return the concerns in short. Raises `StillRunningError`."""
    concerns, faults = gathered(request)
    title = count_text(len(concerns), "thing needs attention", "things need attention") if concerns else "Nothing needs attention"
    more = request.links.to("checks", snapshot=request.opened.snapshot)
    items = [
        element("li", _sign(one), element("div", element("strong", one.title), _first_place(one), _mend(one)))
        for one in concerns[:_MOST_SHORT]
    ]
    rest = len(concerns) - len(items)
    return panel(
        title,
        *faults,
        element("ul", *items, class_="concerns")
        if items
        else element("p", "No rule of the specification is broken, and no measure of health needs care.", class_="good"),
        element("p", anchor(more, f"… and {rest:,} more" if rest else "Details of each, and every measure")) if more and concerns else None,
        id_="attention",
    )


def checks(request: Request) -> Markup:
    """Return every concern in full, and every measure of health. Raises `StillRunningError`."""
    concerns, faults = gathered(request)
    cards = [_card(one) for one in concerns]
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
            None
            if concerns
            else element("p", "No rule of the specification is broken, and no measure of health needs care.", class_="good"),
            about=f"Rules of the specification that the snapshot breaks, and measures from which on readers pay. {depth}",
        ),
        measures,
    )


def gathered(request: Request) -> tuple[list[Concern], list[Markup]]:
    """Return the concerns, the gravest first, and the errors of what could not be measured. Raises `StillRunningError`."""
    opened = request.opened
    metadata, location = opened.reader.metadata, opened.reader.location()
    concerns: list[Concern] = list(commit_concerns(metadata))
    faults: list[Markup] = []
    sources: tuple[Callable[[], object], ...] = (
        lambda: concerns.extend(rule_concerns(opened.validation(), opened.typed, opened.arguments, location)),
        lambda: concerns.extend(health_concerns(opened.health(), opened.typed, opened.arguments)),
    )
    for source in sources:
        try:
            source()
        except IcefloeError as error:
            faults.append(fault(error))
    # A dangling delete is a rule and a measure: the rule names its place, the measure its cost.
    rules = {one.rule for one in concerns}
    if {"dangling-delete", "dangling-vector"} & rules:
        concerns = [one for one in concerns if not one.title.startswith("Dangling delete files: ")]
    return by_weight(concerns), faults


def fault(error: IcefloeError) -> Markup:
    """Return an error of the table as a notice: what failed, where, and what to do."""
    where = error.path or error.table
    problems = [element("li", str(problem)) for problem in error.problems[:10]]
    return element(
        "div",
        element("p", element("strong", error.message)),
        element("p", where, class_="dim path") if where else None,
        element("ul", *problems) if problems else None,
        element("p", "Next: ", error.next_step) if error.next_step else None,
        class_="fault",
        role="alert",
    )


def _sign(concern: Concern) -> Markup:
    name = _NAMES[concern.weight]
    return element("span", _SIGNS[concern.weight], class_=f"sign {name}", role="img", aria_label=name)


def _first_place(concern: Concern) -> Markup | None:
    if not concern.places:
        return None
    more = len(concern.places) - 1 + concern.more
    return element("div", concern.places[0], f", and {more:,} more" if more else None, class_="dim path")


def _mend(concern: Concern) -> Markup | None:
    if concern.command is not None:
        return copyable(concern.command)
    return element("div", f"Next: {concern.next_step}", class_="next") if concern.next_step else None


def _card(concern: Concern) -> Markup:
    places = [element("li", place, class_="path") for place in concern.places]
    if concern.more:
        places.append(element("li", f"… and {concern.more:,} more", class_="dim"))
    return element(
        "article",
        element("h3", _sign(concern), concern.title),
        element("p", concern.detail),
        element("ul", *places, class_="places") if places else None,
        element("p", f"Next: {concern.next_step}") if concern.next_step and concern.command is not None else None,
        _mend(concern),
        element("p", "rule ", element("code", concern.rule), class_="dim") if concern.rule else None,
        class_=f"concern {_NAMES[concern.weight]}",
    )
