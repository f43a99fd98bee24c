"""Figures are drawn as SVG with text for readers who do not see them, whatever is in them; plots are Vega-Lite too."""

import json
import math
import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.display.figures.bars import Bar, Bars, mini_bars
from icefloe.display.figures.blocks import Block, BlockLevel, Blocks
from icefloe.display.figures.cells import Cell, Cells
from icefloe.display.figures.commit_lanes import lane_cells
from icefloe.display.figures.figure import VEGA_LITE, Figure, fit_text
from icefloe.display.figures.ranges import Ranges, Span
from icefloe.display.markup import MOST_CHARACTERS, Markup, element, escape_text, fragment

TEXT = st.text(max_size=40)
COUNT = st.integers(0, 10**12)
SHARE = st.floats(0, 1)
CONCEPT = st.sampled_from(["data", "delete"])
BLOCK = st.builds(Block, concept=CONCEPT, weight=st.floats(0, 1e15), text=TEXT, aside=TEXT, tip=TEXT)


def drawn(markup: Markup) -> ET.Element:
    """Return a picture as a browser parses it."""
    return ET.fromstring(markup)  # noqa: S314  of this process


@given(
    st.lists(st.builds(Bar, name=TEXT, count=COUNT, tip=TEXT, needs_care=st.booleans()), max_size=30), TEXT, st.none() | st.integers(0, 5)
)
def test_bars_are_well_formed_and_as_high_as_their_counts(bars: list[Bar], title: str, mark: int | None) -> None:
    figure = Bars(title=title, summary=title, bars=tuple(bars), unit="files", axis="size", mark=mark)
    heights = {float(shape.get("height", "")) for shape in drawn(figure.svg()).iter("rect")}
    assert all(0 < height <= 140 for height in heights)
    assert sum(1 for _ in drawn(figure.svg()).iter("rect")) == sum(bar.count > 0 for bar in bars)
    json.dumps(figure.vega_lite())


@given(
    st.lists(st.builds(Cell, row=st.integers(0, 3), column=st.integers(0, 4), value=st.floats(0, 1e12), tip=TEXT), max_size=20),
    st.booleans(),
)
def test_cells_are_well_formed_and_their_colours_within_bounds(cells: list[Cell], is_log: bool) -> None:
    figure = Cells(title="t", summary="s", rows=("a",) * 4, columns=("b",) * 5, cells=tuple(cells), is_log=is_log)
    strengths = [float(shape.get("fill-opacity", "1")) for shape in drawn(figure.svg()).iter("rect")]
    assert len(strengths) == len(cells)
    assert all(0 < strength <= 1 and math.isfinite(strength) for strength in strengths)


@given(st.lists(st.tuples(SHARE, SHARE, SHARE, SHARE, TEXT), max_size=20), st.lists(st.integers(0, 50), max_size=30))
def test_ranges_are_within_the_picture(places: list[tuple[float, float, float, float, str]], depth: list[int]) -> None:
    spans = []
    for *shares, tip in places:
        lowest, low, high, highest = sorted(shares)
        spans.append(Span(lowest=lowest, low=low, high=high, highest=highest, tip=tip))
    figure = Ranges(title="t", summary="s", spans=tuple(spans), ticks=((0.0, "0"), (1.0, "1")), depth=tuple(depth), files=len(spans))
    for shape in drawn(figure.svg()).iter("rect"):
        assert 0 <= float(shape.get("x", "")) + float(shape.get("width", "")) <= 961


@given(st.lists(st.lists(BLOCK, max_size=60), max_size=6))
def test_the_blocks_of_a_level_fill_the_width_and_no_more(levels: list[list[Block]]) -> None:
    figure = Blocks(
        title="t", summary="s", levels=tuple(BlockLevel(name="a", aside="b", blocks=tuple(blocks)) for blocks in levels), waterline=1
    )
    for shape in drawn(figure.svg()).iter("rect"):
        assert float(shape.get("x", "")) + float(shape.get("width", "")) <= 961


@given(st.lists(st.integers(0, 6), max_size=15))
def test_each_commit_of_a_graph_has_one_dot(parents: list[int]) -> None:
    commits = list(range(len(parents)))
    above = {commit: (commit + 1 + parent if commit + 1 + parent < len(parents) else None) for commit, parent in enumerate(parents)}
    cells = lane_cells(commits, above)
    assert [cell.count("<circle") for cell in cells] == [1] * len(commits)


@pytest.mark.parametrize("hostile", ["<script>", "\"'&<>", "\x00\u202e", "x" * 10**6])
def test_text_in_markup_is_escaped_visible_and_short(hostile: str) -> None:
    made = element("p", hostile, [hostile, 1, None], title=hostile, class_="a", data_x=1.005, hidden=True, lang=None)
    assert "<script>" not in made
    assert "\x00" not in made
    assert len(made) < 10 * MOST_CHARACTERS
    assert re.match(r'<p title="[^"]*" class="a" data-x="1(\.\d+)?" hidden>', made)
    drawn(Markup(made.replace(" hidden", "")))


def test_markup_is_kept_and_text_is_not() -> None:
    assert fragment(element("b", "<"), "<") == "<b>&lt;</b>&lt;"
    assert escape_text("a") == "a"
    assert fit_text("a long name", 30) in ("a l…", "a lo…", "")


def test_a_figure_is_html_text_and_a_plot_in_a_notebook() -> None:
    figure = Bars(title="Sizes", summary="3 files.", bars=(Bar(name="1", count=3),), unit="files", axis="size")
    bundle = figure._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html", VEGA_LITE}
    assert bundle["text/plain"] == "Sizes: 3 files."
    assert bundle[VEGA_LITE]["data"]["values"] == [{"class": "1", "count": 3}]
    assert isinstance(figure, Figure)
    assert 'role="img"' in mini_bars((1, 2), "t", ("a", "b"))
