"""The history of a table: its snapshots as a graph with branches and tags, and the result of each commit. Spec: Snapshots; Snapshot References."""

from collections.abc import Mapping, Sequence

from icefloe.commit.attempts_in_summary import attempts_of
from icefloe.display.figures.commit_lanes import lane_cells
from icefloe.display.markup import Markup, element
from icefloe.explorer.section import PageRequest, anchor, pager, panel
from icefloe.formatting import size_text, time_text
from icefloe.inspect.commit_graph import Commit, log
from icefloe.inspect.table_overview import summary_number
from icefloe.spec.metadata.snapshot import Snapshot

_COMMITS = 50
_SIGNS = {"append": "+", "delete": "−", "overwrite": "±", "replace": "↻"}


def history(request: PageRequest) -> Markup:
    """Return the graph of the snapshots, the newest first."""
    reader = request.opened.reader
    commits = log(reader, graph=True).commits
    if not commits:
        return panel("Snapshots", element("p", "Nothing has been committed to the table yet."))
    start = request.number("from", most=len(commits) - 1)
    shown = commits[start : start + _COMMITS]
    cells = lane_cells([commit.snapshot_id for commit in commits], {commit.snapshot_id: commit.parent_snapshot_id for commit in commits})
    rows = [_row(request, commit, cell) for commit, cell in zip(shown, cells[start : start + _COMMITS], strict=True)]
    head = ("", "snapshot", "made", "operation", "rows", "files", "rows in all", "size", "branches, tags and notes")
    numbers = {4, 5, 6, 7}
    header = element(
        "tr", *(element("th", name, scope="col", class_="number" if place in numbers else None) for place, name in enumerate(head))
    )
    inner = element(
        "table",
        element("caption", "snapshots, the newest first", class_="unseen"),
        element("thead", header),
        element("tbody", *rows),
        class_="commits",
    )
    return panel(
        "Snapshots",
        element("div", inner, class_="scrolled", tabindex=0, role="region", aria_label="snapshots, the newest first"),
        pager(request, "history", "from", start, len(commits), _COMMITS),
        about="Each line is a commit; the lines on the left lead to its parent. A snapshot's id leads to the table as it was then.",
    )


def _row(request: PageRequest, commit: Commit, lanes: Markup) -> Markup:
    snapshot = request.opened.reader.metadata.snapshot_by_id(commit.snapshot_id)
    summary = {} if snapshot is None else snapshot.summary
    operation = commit.operation or "unknown"
    name = operation if operation in _SIGNS else "other"
    committed_at = time_text(commit.timestamp_ms).replace(" UTC", "")
    return element(
        "tr",
        element("td", lanes, class_="lanes"),
        element("td", anchor(request.links.to("overview", snapshot=commit.snapshot_id), str(commit.snapshot_id), "id")),
        element(
            "td",
            element("time", committed_at.partition(".")[0], title=f"{committed_at} UTC"),
            element("span", request.age(commit.timestamp_ms), class_="dim below"),
        ),
        element("td", element("span", f"{_SIGNS.get(operation, '')} {operation}", class_=f"operation {name}")),
        element("td", _change(summary, "records"), class_="number"),
        element("td", _change(summary, "data-files"), class_="number"),
        element("td", _count(summary, "total-records"), class_="number"),
        element("td", size_text(summary_number(summary, "total-files-size")), class_="number"),
        element("td", *_notes(request, commit, snapshot)),
        class_="current" if commit.is_current else None,
    )


def _change(summary: Mapping[str, str], what: str) -> Markup:
    added, deleted = summary_number(summary, f"added-{what}") or 0, summary_number(summary, f"deleted-{what}") or 0
    return element(
        "span",
        element("span", f"+{added:,}", class_="added") if added else None,
        " " if added and deleted else None,
        element("span", f"−{deleted:,}", class_="removed") if deleted else None,
        None if added or deleted else element("span", "0", class_="dim"),
    )


def _count(summary: Mapping[str, str], key: str) -> str:
    number = summary_number(summary, key)
    return "unknown" if number is None else f"{number:,}"


def _notes(request: PageRequest, commit: Commit, snapshot: Snapshot | None) -> Sequence[Markup]:
    notes = [element("span", name, class_="ref branch") for name in commit.branches]
    notes += [element("span", name, class_="ref tag") for name in commit.tags]
    tried = 1 if snapshot is None else attempts_of(snapshot)
    if tried > 1:
        notes.append(element("span", f"retried: {tried} attempts", class_="ref retried", title="Another writer committed first."))
    if commit.is_staged:
        notes.append(element("span", f"staged as {commit.wap_id}", class_="ref"))
    elif not commit.is_reachable:
        notes.append(element("span", "on no branch", class_="ref"))
    if commit.source_snapshot_id is not None:
        notes.append(element("span", f"picked from {commit.source_snapshot_id}", class_="ref"))
    if commit.parent_is_expired:
        notes.append(element("span", "parent expired", class_="dim"))
    if commit.engine is not None:
        notes.append(element("span", commit.engine, class_="dim"))
    compare = (
        request.links.to("compare", a=commit.parent_snapshot_id, b=commit.snapshot_id)
        if commit.parent_snapshot_id and not commit.parent_is_expired
        else None
    )
    return [*notes, anchor(compare, "changes", "change")] if compare else notes
