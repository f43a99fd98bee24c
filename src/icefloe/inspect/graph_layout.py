"""Layout of a commit graph: lines between commits and their parents, drawn with `*`, `|`, `/` and `_`, the newest commit first.

The text beside the drawing is made in `commit_graph.py`.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence


def newest_first(parents: Mapping[int, int | None], age: Mapping[int, int]) -> list[int]:
    """Return the commits in an order in which none is before its children.

    Args:
        parents: The parent of each commit.
        age: A number for each commit; of several possible next commits the one with the highest number is first.
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
    """Draw each commit: its own line, and the lines below it that connect lanes with their next position.

    Each lane leads to one commit. A commit to which a lane further left leads already joins that lane; a commit whose parent is not in `parents` ends its lane.

    Args:
        commits: The commits from top to bottom.
        parents: The parent of each commit.
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
                below.append("")  # the next commit is not connected with this one
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
    """Draw `count` lanes of which the one at `gone` joins the lane `joins`, or ends; those right of it move one place to the left."""
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
