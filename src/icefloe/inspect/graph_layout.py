"""Layout of a commit graph: lines between commits and their parents, drawn with `*`, `|`, `/` and `_`, the newest commit first.

`commit_graph.py` makes the text beside the drawing.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence


def newest_first(parents: Mapping[int, int | None], age: Mapping[int, int]) -> list[int]:
    """Return the commits in an order in which each comes after all of its children.

    Args:
        parents: The parent of each commit; None for a commit without a parent.
        age: A number for each commit. If several commits could be next, the one with the highest number is.
    """
    waiting = dict.fromkeys(parents, 0)
    for parent in parents.values():
        if parent in waiting:
            waiting[parent] += 1
    ready = [(-age[commit], commit) for commit, children in waiting.items() if not children]
    heapq.heapify(ready)
    ordered = []
    while ready:
        _, commit = heapq.heappop(ready)
        ordered.append(commit)
        parent = parents[commit]
        if parent in waiting:
            waiting[parent] -= 1
            if not waiting[parent]:
                heapq.heappush(ready, (-age[parent], parent))
    return ordered


def draw(commits: Iterable[int], parents: Mapping[int, int | None]) -> list[tuple[str, tuple[str, ...]]]:
    """Draw a graph of commits as text: one line for each commit, and below it the lines that connect it with the next commit.

    A lane is a column of the drawing that leads down to one commit. If another lane already leads to the parent of a commit, the lanes join at the left one. If
    the parent is not in `parents`, the lane ends.

    Args:
        commits: The commits from top to bottom.
        parents: The parent of each commit.

    Returns:
        For each commit its own line, and the lines below it.
    """
    lanes: list[int] = []
    drawn: list[tuple[str, tuple[str, ...]]] = []
    for commit in commits:
        if commit not in lanes:
            lanes.append(commit)
        at = lanes.index(commit)
        line = " ".join("*" if lane == at else "|" for lane in range(len(lanes)))
        below = []
        parent = parents[commit]
        if parent is None or parent not in parents:
            del lanes[at]
            if at < len(lanes):
                below.append(_shift_lanes(at, len(lanes) + 1, None))
            elif not lanes and len(drawn) + 1 < len(parents):
                below.append("")  # an empty line, because the next commit is not connected with this one
        elif parent in lanes:
            other = lanes.index(parent)
            left, right = min(at, other), max(at, other)
            below.append(_shift_lanes(right, len(lanes), left))
            lanes[left] = parent
            del lanes[right]
        else:
            lanes[at] = parent
        drawn.append((line, tuple(below)))
    return drawn


def _shift_lanes(gone: int, count: int, joins: int | None) -> str:
    """Draw the line in which one of `count` lanes vanishes, and the lanes right of it move one place to the left.

    Args:
        gone: The position of the vanishing lane.
        count: The number of lanes before.
        joins: The lane that the vanishing lane joins; None if it ends.
    """
    cells = [" "] * (2 * count)
    for lane in range(count):
        if lane < gone:
            cells[2 * lane] = "|"
        elif lane > gone or joins is not None:
            cells[2 * lane - 1] = "/"
    if joins is not None:
        for between in range(2 * joins + 1, 2 * gone - 1, 2):
            cells[between] = "_"
    return "".join(cells).rstrip()


def column(drawn: Sequence[tuple[str, tuple[str, ...]]]) -> list[str]:
    """Return every line of a drawing, from top to bottom."""
    return [line for at, below in drawn for line in (at, *below)]
