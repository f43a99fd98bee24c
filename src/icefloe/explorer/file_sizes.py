"""The sizes of data files as histograms: of all files, and of the partitions with the most small files. Spec: Data File Fields (`file_size_in_bytes`)."""

import numpy as np

from icefloe.display.figures.bars import Bar, Bars, mini_bars
from icefloe.display.html import figure_markup, table_markup
from icefloe.display.markup import Markup, element
from icefloe.explorer.live_files import LiveFiles, NamedPartitions
from icefloe.explorer.section import PageRequest, facts, pager, panel
from icefloe.formatting import count_text, share_text, size_text
from icefloe.maintenance.health_measures import Longs
from icefloe.maintenance.rewrite_options import rewrite_options
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.partitioning.sort_order import UNSORTED_SORT_ORDER

# The edges of classes of sizes: powers of 2 from 1 KiB to 1 GiB, with one class below and one above.
_FIRST_POWER, _LAST_POWER = 10, 30
EDGES = tuple(1 << power for power in range(_FIRST_POWER, _LAST_POWER + 1))
# The fewest classes that are drawn, so that one class does not fill the whole width.
_LEAST_CLASSES = 10
# If the largest size is less than `_NARROW` times the smallest, each power of 2 is divided into `_PARTS` classes.
_NARROW, _PARTS = 8, 4
_PARTITIONS = 25


def file_sizes(request: PageRequest) -> Markup:
    """Return the histograms.

    Raises:
        StillRunningError: The files are still being read.
        IcefloeError: The errors of `OpenedTable.live_files`.
    """
    files = request.opened.live_files()
    least = small_size(request.opened.reader.metadata)
    return element(
        "div", panel("Sizes of data files", figure_markup(size_bars(files, least)), _facts(files)), _by_partition(request, files, least)
    )


def size_bars(files: LiveFiles, least: int) -> Bars:
    """Return the histogram of all files.

    Args:
        files: The live files.
        least: The size in bytes below which a file is small.
    """
    sizes = files.sizes
    edges = fitting_edges(sizes)
    counts = np.bincount(np.searchsorted(edges, sizes, "right"), minlength=len(edges) + 1)
    first, last = _drawn_classes(counts)
    small = int((sizes < least).sum())
    border = int(np.searchsorted(edges, least, "left")) + 1
    bars = tuple(
        Bar(
            name=class_name(place, edges),
            count=int(counts[place]),
            tip=f"{count_text(int(counts[place]), 'file')} from {class_name(place, edges)}",
            needs_care=place < border,
        )
        for place in range(first, last)
    )
    summary = (
        f"{count_text(len(sizes), 'data file')}, {small:,} of them small: below {size_text(least)}, from which on a file is left as it is by a rewrite."
        if len(sizes)
        else "There are no data files."
    )
    inside = first < border <= last
    return Bars(
        title="Sizes of data files",
        summary=summary,
        bars=bars,
        unit="files",
        axis="size of a file",
        mark=border - first if inside else None,
        mark_text=f"right size from {size_text(least)}" if inside else "",
    )


def fitting_edges(sizes: Longs) -> tuple[int, ...]:
    """Return the edges of the classes for some sizes: powers of 2, or finer steps if the sizes differ little."""
    if len(sizes) and int(sizes.max()) < _NARROW * max(int(sizes.min()), 1):
        first = np.log2(max(int(sizes.min()), 1)) // 1
        return tuple(round(2 ** (first + place / _PARTS)) for place in range(_PARTS * int(np.log2(_NARROW) + 2)))
    return EDGES


def class_name(place: int, edges: tuple[int, ...] = EDGES) -> str:
    """Return the name of a class of sizes, which is its lower edge.

    Args:
        place: The position of the class.
        edges: The edges of the classes, ascending.
    """
    if place == 0:
        return f"< {size_text(edges[0])}"
    return f"≥ {size_text(edges[-1])}" if place == len(edges) else size_text(edges[place - 1])


def _drawn_classes(counts: Longs) -> tuple[int, int]:
    """Return the range of classes to draw, from first to end: those that have files, and if these are few also some around them."""
    classes = np.flatnonzero(counts)
    if not len(classes):
        return 0, _LEAST_CLASSES
    first, last = int(classes[0]), int(classes[-1]) + 1
    lack = max(0, _LEAST_CLASSES - (last - first))
    return max(0, first - (lack + 1) // 2), min(len(counts), last + (lack + 1) // 2)


def _facts(files: LiveFiles) -> Markup:
    sizes, records = files.sizes, files.records
    if not len(sizes):
        return element("p", "Nothing has been written to the table.")
    deleted = sum(float(spec.deleted.sum()) for spec in files.specs)
    pairs = (
        ("data files", f"{len(sizes):,}"),
        ("bytes", size_text(int(sizes.sum()))),
        ("rows", f"{int(records.sum()):,}"),
        ("deleted rows", share_text(round(deleted), int(records.sum()))),
        ("median file", size_text(int(np.median(sizes)))),
        ("smallest", size_text(int(sizes.min()))),
        ("largest", size_text(int(sizes.max()))),
    )
    return facts(pairs)


def _by_partition(request: PageRequest, files: LiveFiles, least: int) -> Markup | None:
    """Return the partitions with the most small files, each with a small histogram; None if the table is not partitioned."""
    partitioned = [spec for spec in files.specs if spec.columns]
    if not partitioned:
        return None
    small_counts = [(int(small), spec, code) for spec in partitioned for code, small in enumerate(_small(spec, least))]
    small_counts.sort(key=lambda counted: (-counted[0], counted[1].spec_id, counted[2]))
    start = request.number("from", most=max(len(small_counts) - 1, 0))
    shown = small_counts[start : start + _PARTITIONS]
    rows = [_row(spec, code, small) for small, spec, code in shown]
    columns = ("partition", "sizes, 1 KiB to 1 GiB", "files", "small", "bytes", "rows", "median file")
    return panel(
        "Sizes by partition",
        table_markup(columns, rows, numbers=frozenset({2, 3, 4, 5, 6}), caption="partitions by their small files"),
        pager(request, "files", "from", start, len(small_counts), _PARTITIONS),
        about=f"{count_text(len(small_counts), 'partition')}; those with the most small files come first.",
    )


def _small(spec: NamedPartitions, least: int) -> list[int]:
    counts: list[int] = spec.total((spec.sizes < least).astype(np.float64)).astype(np.int64).tolist()
    return counts


def _row(spec: NamedPartitions, code: int, small: int) -> tuple[str | Markup, ...]:
    is_in_partition = spec.codes == code
    sizes = spec.sizes[is_in_partition]
    counts = np.bincount(np.searchsorted(EDGES, sizes, "right"), minlength=len(EDGES) + 1)
    (name,) = spec.names([code])
    names = tuple(class_name(place) for place in range(len(EDGES) + 1))
    return (
        name,
        mini_bars(tuple(counts.tolist()), f"sizes of the files of {name}", names),
        f"{len(sizes):,}",
        f"{small:,}",
        size_text(int(sizes.sum())),
        f"{int(spec.records[is_in_partition].sum()):,}",
        size_text(int(np.median(sizes))),
    )


def small_size(metadata: TableMetadata) -> int:
    """Return the size in bytes below which a file of the table is small."""
    return rewrite_options({}, metadata, UNSORTED_SORT_ORDER).sizes.least
