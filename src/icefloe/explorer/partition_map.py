"""Partitions as a heat map of their rows, bytes, files, or share of deleted rows. Spec: Partitioning."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from icefloe.display.figures.cells import Cell, Cells
from icefloe.display.html import figure_markup
from icefloe.display.markup import Markup, element
from icefloe.explorer.live_files import NamedPartitions
from icefloe.explorer.section import PageRequest, panel, tabs
from icefloe.formatting import count_text, size_text
from icefloe.maintenance.health_measures import Longs

# The most rows and columns of a heat map; of more partitions, neighbours share a cell.
_MOST_ROWS, _MOST_COLUMNS = 40, 60
# The number of cells in a row for a spec with one field.
_WRAPPED = 30

MEASURES = {"bytes": "Bytes", "rows": "Rows", "files": "Files", "deletes": "Deleted rows"}
_CONCEPTS = {"bytes": "data", "rows": "data", "files": "manifest", "deletes": "delete"}


@dataclass(frozen=True, slots=True)
class _Grid:
    """The row and column of each partition's cell, and the names of the rows and columns."""

    row: Longs
    column: Longs
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    row_axis: str
    column_axis: str


def partition_map(request: PageRequest) -> Markup:
    """Return a heat map for each partition spec that has files.

    Raises:
        StillRunningError: The files are still being read.
        IcefloeError: The errors of `OpenedTable.live_files`.
    """
    files = request.opened.live_files()
    specs = [spec for spec in files.specs if spec.columns]
    if not specs:
        return panel("Partitions", element("p", "The table is not partitioned: every scan considers every file, and bounds alone decide."))
    chosen = request.query.get("by", "bytes")
    chosen = chosen if chosen in MEASURES else "bytes"
    measures = list(MEASURES) if request.is_file else [chosen]
    choices = [
        (request.links.to("partitions", by=name, snapshot=request.opened.snapshot), title, name == chosen)
        for name, title in MEASURES.items()
    ]
    chooser = None if request.is_file else tabs("what the colour shows", choices)
    parts = [_spec_panel(spec, measures, is_only=len(specs) == 1, chooser=chooser) for spec in reversed(specs)]
    return element("div", *parts)


def _spec_panel(spec: NamedPartitions, measures: Sequence[str], *, is_only: bool, chooser: Markup | None) -> Markup:
    fields = ", ".join(f"{column.transform}: {column.name}" for column in spec.columns)
    title = "Partitions" if is_only else f"Partitions of spec {spec.spec_id}"
    return panel(
        title,
        chooser,
        *(figure_markup(cells(spec, measure)) for measure in measures),
        about=f"{count_text(spec.partitions, 'partition')} by {fields}.",
    )


def cells(spec: NamedPartitions, measure: str) -> Cells:
    """Return the heat map of a partition spec.

    Args:
        spec: The files of the spec.
        measure: What the colours show: a key of `MEASURES`.
    """
    grid = _matrix(spec) if len(spec.columns) > 1 else _wrap_rows(spec)
    places = grid.row * len(grid.columns) + grid.column
    order, inverse, counts = np.unique(places, return_inverse=True, return_counts=True)
    first = np.zeros(len(order), np.int64)
    first[inverse[::-1]] = np.arange(len(places))[::-1]

    def total(weights: NDArray[np.float64] | None) -> NDArray[np.float64]:
        return np.bincount(inverse, weights=spec.total(weights), minlength=len(order)).astype(np.float64)

    files, size = total(None), total(spec.sizes.astype(np.float64))
    rows, deleted = total(spec.records.astype(np.float64)), total(spec.deleted)
    share = deleted / np.maximum(rows, 1)
    values = {"bytes": size, "rows": rows, "files": files, "deletes": share}[measure]
    names = spec.names(first.tolist())
    fields = tuple(
        Cell(
            row=int(place) // len(grid.columns),
            column=int(place) % len(grid.columns),
            value=float(values[number]),
            tip=f"{names[number]}{f' and {counts[number] - 1:,} more partitions' if counts[number] > 1 else ''}: "
            f"{count_text(int(files[number]), 'file')}, {size_text(int(size[number]))}, {count_text(int(rows[number]), 'row')}, "
            f"{share[number]:.1%} deleted",
        )
        for number, place in enumerate(order.tolist())
    )
    return Cells(
        title=f"{MEASURES[measure]} by partition",
        summary=_summary(measure, values, names, counts),
        rows=grid.rows,
        columns=grid.columns,
        cells=fields,
        concept=_CONCEPTS[measure],
        is_log=measure != "deletes",
        row_axis=grid.row_axis,
        column_axis=grid.column_axis,
    )


def _summary(measure: str, values: NDArray[np.float64], names: Sequence[str], counts: Longs) -> str:
    """Describe the cell with the greatest value, compared with the median."""
    if not len(values):
        return "There are no files."
    top = int(values.argmax())
    of_cells = " of a cell" if int(counts.max()) > 1 else ""
    most, median = _measure_text(measure, float(values[top])), _measure_text(measure, float(np.median(values)))
    return f"{MEASURES[measure]}{of_cells}: most in {names[top]} with {most}; the median is {median}."


def _measure_text(measure: str, value: float) -> str:
    if measure == "bytes":
        return size_text(int(value))
    return f"{value:.1%}" if measure == "deletes" else count_text(int(value), "file" if measure == "files" else "row")


def _wrap_rows(spec: NamedPartitions) -> _Grid:
    """Place the partitions of a spec with one field: from left to right, in several rows."""
    count = spec.partitions
    group = max(1, ceil(count / (_MOST_ROWS * _WRAPPED)))
    cell = np.arange(count) // group
    across = min(_WRAPPED, int(cell.max(initial=0)) + 1)
    row, column = cell // across, cell % across
    if count <= across and group == 1:  # one row, in which each partition has its name above its cell
        return _Grid(row, column, (spec.columns[0].name,), tuple(texts[0] for texts in spec.texts(range(count))), "", spec.columns[0].name)
    starts = np.flatnonzero((column == 0) & np.concatenate([[True], np.diff(cell) > 0])) if count else np.zeros(0, np.int64)
    names = tuple(texts[0] for texts in spec.texts(starts.tolist()))
    return _Grid(row, column, names, ("",) * across, spec.columns[0].name, "")


def _matrix(spec: NamedPartitions) -> _Grid:
    """Place partitions by the two fields with the most values; the one with fewer makes the rows. Partitions that differ in other fields share a cell."""
    ordinals = [spec.ordinals(place) for place in range(len(spec.columns))]
    sizes = [int(numbers.max(initial=0)) + 1 for numbers in ordinals]
    down, across = sorted(sorted(range(len(sizes)), key=lambda place: -sizes[place])[:2], key=lambda place: sizes[place])
    row, rows = _bins(spec, ordinals[down], down, _MOST_ROWS)
    column, columns = _bins(spec, ordinals[across], across, _MOST_COLUMNS)
    return _Grid(row, column, rows, columns, spec.columns[down].name, spec.columns[across].name)


def _bins(spec: NamedPartitions, ordinals: Longs, field: int, most: int) -> tuple[Longs, tuple[str, ...]]:
    """Divide the values of one field into at most `most` bins. Return the bin of each partition, and the first value of each bin as text."""
    count = int(ordinals.max(initial=0)) + 1
    group = max(1, ceil(count / most))
    places = ordinals // group
    order = np.argsort(ordinals, kind="stable")
    _, firsts = np.unique(places[order], return_index=True)
    return places, tuple(texts[field] for texts in spec.texts(order[firsts].tolist()))
