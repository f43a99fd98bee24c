"""Lines between commits and their parents, drawn with `*`, `|`, `/` and `_` beside a list of commits, the newest first.

What stands beside the drawing is `commit_graph.py`.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence


def newest_first(parents: Mapping[int, int | None], age: Mapping[int, int]) -> list[int]:
    """The commits so that none comes before its children; of those that may come next the one with the highest `age` first."""
    waiting = dict.fromkeys(parents, 0)
    for parent in parents.values():
        if parent in waiting:
            waiting[parent] += 1
    ready = [(-age[commit], commit) for commit, children in waiting.items() if not children]
    heapq.heapify(ready)
    found = []
    while ready:
        _, commit = heapq.heappop(ready)
        found.append(commit)
        parent = parents[commit]
        if parent in waiting:
            waiting[parent] -= 1
            if not waiting[parent]:
                heapq.heappush(ready, (-age[parent], parent))
    return found


def draw(commits: Iterable[int], parents: Mapping[int, int | None]) -> list[tuple[str, tuple[str, ...]]]:
    """For each commit, in the order given: the line it stands on, and the lines below it that lead lanes to where they go on.

    Each lane waits for one commit. One whose commit is waited for by a lane further left joins that lane; one whose commit is not among `parents` ends.
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
                below.append(_shifted(at, len(lanes) + 1, None))
            elif not lanes and len(drawn) + 1 < len(parents):
                below.append("")  # what comes next has nothing to do with this
        elif parent in lanes:
            other = lanes.index(parent)
            left, right = min(at, other), max(at, other)
            below.append(_shifted(right, len(lanes), left))
            lanes[left] = parent
            del lanes[right]
        else:
            lanes[at] = parent
        drawn.append((line, tuple(below)))
    return drawn


def _shifted(gone: int, count: int, joins: int | None) -> str:
    """`count` lanes of which the one at `gone` leads to the lane `joins`, or ends; those right of it move one place to the left."""
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
    """Every line of a drawing, from top to bottom."""
    return [line for at, below in drawn for line in (at, *below)]
