"""The differences of two snapshots, branches or tags, and the explanation of a commit. No rows are read."""

from icefloe.checks.issue import shell_word
from icefloe.display.html import report_markup
from icefloe.display.markup import Markup, element
from icefloe.errors import NoSuchSnapshotError
from icefloe.explorer.section import PageRequest, copyable, fault, panel
from icefloe.formatting import time_text
from icefloe.inspect.commit_explanation import explain_commit
from icefloe.inspect.lookup import snapshot_id_of
from icefloe.inspect.table_diff import diff

# The most snapshots that the form proposes besides branches and tags, and the most lines of each list of differences.
_PROPOSED, _MOST_LINES = 50, 60


def comparison(request: PageRequest) -> Markup:
    """Return the form, and the differences of the two versions that the parameters `a` and `b` of the query name.

    Raises:
        StillRunningError: The differences are still being computed.
    """
    reader = request.opened.reader
    snapshots = reader.metadata.snapshots
    newest = [str(snapshot.snapshot_id) for snapshot in snapshots[-2:]]
    default_a, default_b = (newest[0], newest[-1]) if newest else ("", "")
    before, after = request.query.get("a", default_a)[:200], request.query.get("b", default_b)[:200]
    form = None if request.is_file else _form(request, before, after)
    title = "What differs between two versions"
    if len(snapshots) < len(("a", "b")):
        return panel(title, element("p", "The table has fewer than two snapshots: there is nothing to compare."))
    try:
        a, b = snapshot_id_of(reader, before), snapshot_id_of(reader, after)
        comparison = request.opened.get_or_compute(
            ("diff", a, b), lambda: diff(reader, from_version=a, to_version=b), "Comparing the two versions"
        )
    except NoSuchSnapshotError as error:
        return panel(title, form, fault(error))
    explained = request.opened.get_or_compute(("commit", b), lambda: explain_commit(reader, str(b)), "Explaining the commit")
    command = f"icefloe diff {shell_word(f'{request.opened.typed}@{before}')} {shell_word(f'@{after}')} --rows{request.opened.arguments}"
    return element(
        "div",
        panel(title, form, report_markup(comparison.report(_MOST_LINES)), element("p", "The changed rows: "), copyable(command)),
        panel(f"How the commit of {after} came about", report_markup(explained.report(_MOST_LINES))),
    )


def _form(request: PageRequest, before: str, after: str) -> Markup:
    metadata = request.opened.reader.metadata
    options = [element("option", ref.type, value=name) for name, ref in list(metadata.refs.items())[:_PROPOSED]]
    options += [
        element(
            "option",
            f"{snapshot.operation or 'unknown'}, {time_text(snapshot.timestamp_ms).partition('.')[0]}",
            value=str(snapshot.snapshot_id),
        )
        for snapshot in reversed(metadata.snapshots[-_PROPOSED:])
    ]
    fields = [
        (element("label", title, for_=name), element("input", type="text", name=name, id=name, value=value, list="versions", maxlength=200))
        for name, title, value in (("a", "from", before), ("b", "to", after))
    ]
    return element(
        "form",
        *fields,
        element("datalist", *options, id="versions"),
        element("button", "Compare", type="submit"),
        method="get",
        action=request.links.to("compare"),
        class_="compare",
    )
