"""The lines of a commit graph for a list of commits, the newest first: one small picture for each commit, which together form the graph."""

from collections.abc import Mapping, Sequence

from icefloe.display.figures.figure import COLOURS
from icefloe.display.markup import Markup, element, number

LANE_WIDTH, LANE_HEIGHT = 16, 44
_MOST_LANES = 12
_RADIUS = 5


def lane_cells(commits: Sequence[int], parents: Mapping[int, int | None]) -> list[Markup]:
    """Return the picture of each commit.

    A lane is a line that leads down to one commit. Lanes that lead to the same parent join. The twelfth lane and all further lanes are drawn at the same place.

    Args:
        commits: The commits in an order in which each comes after all of its children.
        parents: The parent of each commit; None for a commit without a parent.
    """
    cells: list[Markup] = []
    lanes: list[int] = []
    for place, commit in enumerate(commits):
        begins = commit not in lanes
        if begins:
            lanes.append(commit)
        at = lanes.index(commit)
        parent = parents[commit]
        goes_on = parent is not None and parent in parents
        before, after = list(lanes), list(lanes)
        if goes_on and parent is not None and parent not in lanes:
            after[at] = parent
        else:
            del after[at]
        ends = [(at, after.index(parent))] if goes_on and parent is not None else []
        ends += [(lane, after.index(leads_to)) for lane, leads_to in enumerate(before) if lane != at]
        starts = [lane for lane in range(len(before)) if not (begins and lane == at)] if place else []
        cells.append(_cell(at, starts, ends, max(len(before), len(after))))
        lanes = after
    return cells


def _cell(at: int, starts: Sequence[int], ends: Sequence[tuple[int, int]], count: int) -> Markup:
    middle = LANE_HEIGHT / 2
    lines = [f"M{_x(lane)} 0V{number(middle)}" for lane in starts]
    for lane, below in ends:
        if lane == below:
            lines.append(f"M{_x(lane)} {number(middle)}V{LANE_HEIGHT}")
        else:
            lines.append(
                f"M{_x(lane)} {number(middle)}C{_x(lane)} {number(LANE_HEIGHT * 0.8)} {_x(below)} {number(LANE_HEIGHT * 0.7)} {_x(below)} {LANE_HEIGHT}"
            )
    width = LANE_WIDTH * min(max(count, 1), _MOST_LANES)
    return element(
        "svg",
        element("path", d="".join(lines), fill="none", stroke=COLOURS["quiet"], stroke_width=2),
        element("circle", cx=float(_x(at)), cy=middle, r=_RADIUS, fill=COLOURS["snapshot"], class_="c-snapshot"),
        viewBox=f"0 0 {width} {LANE_HEIGHT}",
        width=width,
        height=LANE_HEIGHT,
        aria_hidden="true",
    )


def _x(lane: int) -> str:
    return number(LANE_WIDTH * (min(lane, _MOST_LANES - 1) + 0.5))
