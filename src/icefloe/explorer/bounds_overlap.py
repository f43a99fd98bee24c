"""The overlap of files in one column by their bounds, which shows why a filter can or cannot skip files.

Ranges of numbers and times are drawn to scale if the values are spread evenly enough; all others are drawn by the ranks of their bounds.
Spec: Data File Fields (`lower_bounds`, `upper_bounds`).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.checks.issue import Remedy
from icefloe.display.figures.ranges import Ranges, Span
from icefloe.display.html import figure_markup
from icefloe.display.markup import Markup, element
from icefloe.explorer.section import PageRequest, copyable, facts, panel, tabs
from icefloe.formatting import count_text
from icefloe.maintenance.clustering_depth import LEAST_DEPTH, clustering_depths
from icefloe.maintenance.health_measures import FilesOfBranch
from icefloe.scan.pruning import column_bounds
from icefloe.spec.arrow_values import array_of_chunks, numpy_of
from icefloe.spec.expressions.metrics_evaluator import valid_bounds
from icefloe.spec.manifest.manifest_columns import ManifestColumns
from icefloe.spec.metadata.maintenance_properties import MaintenanceAction
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import GeographyType, GeometryType, PrimitiveType, UnknownType
from icefloe.spec.values import physical_list, to_human

# The most ranges that are drawn one by one; more are drawn in groups.
_MOST_SPANS = 240
_PLACES = 240
# The most columns in the list of columns.
_MOST_COLUMNS = 60
# If most values would be in a smaller share of the axis than this, they are drawn by their ranks.
_LEAST_SPREAD = 0.05
_TICKS, _LEAST_DISTANCE = 6, 0.12
_SORT = Remedy(operation=MaintenanceAction.REWRITE_DATA_FILES, options={"strategy": "sort"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnRanges:
    """The bounds of the files in one column, with their positions on an axis from 0 to 1.

    Attributes:
        column: The name of the column.
        kind: The type of the column.
        low: The position of each lower bound.
        high: The position of each upper bound.
        lower: The lower bounds as an Arrow array.
        upper: The upper bounds as an Arrow array.
        files: The number of all files, including those without comparable bounds.
        mean_depth: The mean number of other files of its partition that a file overlaps.
    """

    column: str
    kind: PrimitiveType
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    lower: Any
    upper: Any
    files: int
    mean_depth: float

    @property
    def depth(self) -> NDArray[np.int64]:
        """The number of files whose range contains the value, for some positions at equal distances."""
        at = (np.arange(_PLACES) + 0.5) / _PLACES
        overlapping: NDArray[np.int64] = np.searchsorted(np.sort(self.low), at, "right") - np.searchsorted(np.sort(self.high), at, "left")
        return overlapping

    @property
    def opened(self) -> float:
        """The number of files that a filter on one value opens: the mean of `depth`."""
        return float(self.depth.mean())


def bounds_overlap(request: PageRequest) -> Markup:
    """Return the picture of the chosen column, and a list of all columns.

    Raises:
        StillRunningError: The files are still being read.
        IcefloeError: The errors of `OpenedTable.files`.
    """
    metadata = request.opened.reader.metadata
    fields = comparable_columns(metadata.schema())
    if not fields:
        return panel("Overlap of bounds", element("p", "The table has no column whose bounds can be compared."))
    order = metadata.sort_order()
    keys = [] if order.is_unsorted else [field.source_id for field in order.fields]
    default = next((field_id for field_id in keys if field_id in fields), next(iter(fields)))
    if request.is_file:
        files = request.opened.files()
        return element("div", *(_column_panel(request, files, field_id, keys) for field_id in files.schema.field_ids if field_id in fields))
    chosen = request.number("column", default)
    chosen = chosen if chosen in fields else default
    measured = request.opened.files()
    files = measured if chosen in measured.schema.field_ids else request.opened.files((fields[chosen],))
    return element("div", _chooser(request, fields, chosen, keys), _column_panel(request, files, chosen, keys))


def comparable_columns(schema: Schema) -> dict[int, str]:
    """Return the top-level columns whose bounds can be compared, by field id."""
    return {
        field.field_id: field.name
        for field in schema.fields
        if isinstance(field.field_type, PrimitiveType) and not isinstance(field.field_type, GeometryType | GeographyType | UnknownType)
    }


def _chooser(request: PageRequest, fields: dict[int, str], chosen: int, keys: list[int]) -> Markup:
    choices = [
        (
            request.links.to("clustering", column=field_id, snapshot=request.opened.snapshot),
            (name, " (sort key)" if field_id in keys else None),
            field_id == chosen,
        )
        for field_id, name in list(fields.items())[:_MOST_COLUMNS]
    ]
    more = element("span", f"… and {len(fields) - _MOST_COLUMNS:,} more columns", class_="dim") if len(fields) > _MOST_COLUMNS else None
    return tabs("columns", choices, more)


def _column_panel(request: PageRequest, files: FilesOfBranch, field_id: int, keys: list[int]) -> Markup:
    key = ("ranges", request.opened.snapshot_id, field_id)
    ranges = request.opened.get_or_compute(key, lambda: column_ranges(files, field_id), "Comparing the bounds of files")
    name = files.schema.find_column_name(field_id) or ""
    title = f"Overlap of files in {name}"
    if ranges is None:
        return panel(
            title,
            element(
                "p", "No file has bounds of this column that can be compared: a filter on it opens every file of the partitions it allows."
            ),
        )
    figure = overlap_figure(ranges)
    is_key = bool(keys) and keys[0] == field_id
    useless = is_key and ranges.mean_depth >= LEAST_DEPTH
    advice = (
        element(
            "div",
            element(
                "p",
                f"The table's sort order begins with {name}, and its files overlap all the same: the sort is of no use to filters.",
                class_="fault",
            ),
            copyable(_SORT.command(request.opened.typed, request.opened.arguments)),
        )
        if useless
        else None
    )
    return panel(title, advice, figure_markup(figure), _explanation(ranges))


def _explanation(ranges: ColumnRanges) -> Markup:
    unknown = ranges.files - len(ranges.low)
    pairs = [
        ("a filter on one value opens", f"{ranges.opened:,.1f} of {ranges.files:,} files on average"),
        ("clustering depth", f"{ranges.mean_depth:.2f} (1 is best: no file overlaps another of its partition)"),
    ]
    if unknown:
        pairs.append(("files without bounds", f"{unknown:,}, which every filter opens"))
    return facts(pairs)


def column_ranges(files: FilesOfBranch, field_id: int) -> ColumnRanges | None:
    """Return the bounds in a column of all files that have both; None if no file has comparable bounds."""
    kind = files.schema.find_type(field_id)
    if not isinstance(kind, PrimitiveType):
        return None
    bounds = [_bounds(part.entries, field_id, kind) for part in files.plan.parts]
    lower, upper = (pa.chunked_array([pair[side] for pair in bounds]).combine_chunks() if bounds else pa.array([]) for side in (0, 1))
    known = pc.and_(pc.is_valid(lower), pc.is_valid(upper))
    lower, upper = lower.filter(known), upper.filter(known)
    if not len(lower):
        return None
    low, high = _places(lower, upper)
    order = np.lexsort((high, low))
    rows = pa.array(order)
    depths = [clustering_depths(part, field_id, files.schema) for part in files.plan.parts]
    measured = np.concatenate([depths_of_part.depths[depths_of_part.known] for depths_of_part in depths])
    return ColumnRanges(
        column=files.schema.find_column_name(field_id) or "",
        kind=kind,
        low=low[order],
        high=high[order],
        lower=lower.take(rows),
        upper=upper.take(rows),
        files=files.plan.files_kept,
        mean_depth=float(np.maximum(measured, 1).mean()) if len(measured) else 0.0,
    )


def _bounds(entries: Any, field_id: int, kind: PrimitiveType) -> tuple[Any, Any]:
    columns = ManifestColumns(entries)
    stored = [column_bounds(columns, statistic, field_id, kind) for statistic in ("lower_bound", "upper_bound")]
    lower, upper = valid_bounds(kind, *stored)
    return array_of_chunks(lower), array_of_chunks(upper)


def _places(lower: Any, upper: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the positions of lower and upper bounds on the axis from 0 to 1: to scale if they are numbers that are spread enough, otherwise by rank."""
    both = pa.concat_arrays([lower, upper])
    if pa.types.is_integer(both.type) or pa.types.is_floating(both.type) or pa.types.is_temporal(both.type):
        plain = both if pa.types.is_floating(both.type) else both.cast(pa.int64() if both.type.bit_width == 64 else pa.int32())
        values = numpy_of(plain.cast(pa.float64(), safe=False))
        least, most = values.min(), values.max()
        with np.errstate(over="ignore", invalid="ignore"):
            width = most - least
        if np.isfinite(width) and width > 0:
            places = (values - least) / width
            if np.quantile(places, 0.9) - np.quantile(places, 0.1) >= _LEAST_SPREAD:
                return places[: len(lower)], places[len(lower) :]
    ranks = numpy_of(pc.rank(both, tiebreaker="dense").cast(pa.int64())).astype(np.float64) - 1
    places = ranks / max(ranks.max(), 1.0)
    return places[: len(lower)], places[len(lower) :]


def overlap_figure(ranges: ColumnRanges) -> Ranges:
    """Return the picture of the ranges of a column."""
    count = len(ranges.low)
    group = max(1, -(-count // _MOST_SPANS))
    starts = np.arange(0, count, group)
    ends = np.minimum(starts + group, count)
    lowers, uppers = _texts(ranges, starts, "lower"), _texts(ranges, ends - 1, "upper")
    spans = tuple(
        Span(
            lowest=float(ranges.low[start:end].min()),
            highest=float(ranges.high[start:end].max()),
            low=float(np.median(ranges.low[start:end])),
            high=float(np.median(ranges.high[start:end])),
            tip=f"{lowers[place]} to {uppers[place]}" if end - start == 1 else f"{end - start:,} files from {lowers[place]} on",
        )
        for place, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True))
    )
    depth = ranges.depth
    best = "one after the other" if ranges.opened < 2 else "overlapping"
    return Ranges(
        title=f"Ranges of files in {ranges.column}"[:200],
        summary=f"{count_text(count, 'file')} by their lower bounds, {best}: a filter on one value opens {ranges.opened:,.1f} of them on average"
        f", at most {int(depth.max()):,}.",
        spans=spans,
        ticks=_ticks(ranges),
        depth=tuple(depth.tolist()),
        files=count,
    )


def _ticks(ranges: ColumnRanges) -> tuple[tuple[float, str], ...]:
    """Return the ticks of the axis: bounds at about equal distances, from the lowest to the highest, each as its position and its text."""
    places = np.concatenate([ranges.low, ranges.high])
    order = np.argsort(places, kind="stable")
    ticks: list[tuple[float, str]] = []
    for share in np.linspace(0, 1, _TICKS).tolist():
        row = int(order[min(int(np.searchsorted(places[order], share)), len(order) - 1)])
        place = float(places[row])
        if ticks and place - ticks[-1][0] < _LEAST_DISTANCE:
            continue
        is_lower = row < len(ranges.low)
        ticks.append((place, _texts(ranges, np.array([row if is_lower else row - len(ranges.low)]), "lower" if is_lower else "upper")[0]))
    return tuple(ticks)


def _texts(ranges: ColumnRanges, rows: NDArray[np.int64], side: str) -> list[str]:
    values = getattr(ranges, side).take(pa.array(rows))
    try:
        return [to_human(ranges.kind, value) for value in physical_list(ranges.kind, values)]
    except (TypeError, ValueError, pa.ArrowException):
        return [str(value) for value in values.to_pylist()]
