#!/usr/bin/env python3
"""Write docs/maintenance.svg and the table of docs/maintenance.md: a small table before and after `maintain`, measured in a run of some seconds."""

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from icefloe import SqlCatalog
from icefloe.inspect import health
from icefloe.table import Table

DOCS = Path(__file__).parents[1] / "docs"
PICTURE, PAGE = DOCS / "maintenance.svg", DOCS / "maintenance.md"
BEGIN, END = "<!-- measured: scripts/maintenance_picture.py -->\n", "<!-- end of measured -->"
DAYS, COMMITS, ROWS = ("2026-11-01", "2026-11-02", "2026-11-03"), 24, 1_500
TARGET = 96 * 1024
WIDTH, HEIGHT, LEFT, BAR = 860, 250, 90, 28
DATA_FILE = "#3b6ea5"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A table as its readers find it.

    Attributes:
        sizes: The sizes of the data files in bytes, by day.
        deletes: The number of delete files.
        manifests: The number of manifests.
        deleted_rows: About how many rows of files are deleted.
        needs_care: The measures of `health` that reached their thresholds.
    """

    sizes: dict[str, list[int]]
    deletes: int
    manifests: int
    deleted_rows: int
    needs_care: tuple[str, ...]

    @property
    def files(self) -> int:
        """The data files."""
        return sum(map(len, self.sizes.values()))


def decayed(folder: str) -> Table:
    """Return a table that a day of small commits has left: inserts of three days, deletes by position, and deletes by key."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=folder)
    catalog.create_namespace("db")
    properties = {
        "format-version": "3",
        "write.delete.mode": "merge-on-read",
        "write.target-file-size-bytes": str(TARGET),
    }
    schema = pa.schema([("id", pa.int64()), ("day", pa.string()), ("amount", pa.int64())])
    table = catalog.create_table("db.orders", schema, partition_spec=("day",), properties=properties)
    for commit in range(COMMITS):
        ids = range(commit * ROWS, (commit + 1) * ROWS)
        rows = {"id": list(ids), "day": [DAYS[id % 3] for id in ids], "amount": [id * 7_919 % 10**6 for id in ids]}
        table.append(pa.table(rows, schema=schema))
        if commit % 4 == 1:
            table.delete(f"id >= {commit * ROWS} and id < {commit * ROWS + ROWS // 3}")
        if commit % 6 == 2:
            table.delete_keys(pa.table({"id": [commit * ROWS + 1_001]}), ["id"])
    return table


def measured(table: Table) -> Measured:
    """Return what is measured of a table."""
    sizes: dict[str, list[int]] = {day: [] for day in DAYS}
    for row in table.inspect.data_files().select(["partition", "file_size_in_bytes"]).to_pylist():
        sizes[row["partition"]["day"]].append(row["file_size_in_bytes"])
    found = health(table)
    return Measured(
        sizes=sizes,
        deletes=len(table.inspect.delete_files()),
        manifests=len(table.inspect.manifests()),
        deleted_rows=sum(one.deleted_rows for one in found.partitions),
        needs_care=tuple(one.name for one in found.needs_care),
    )


def run() -> tuple[Measured, Measured]:
    """Return a table before and after `maintain`. Raises `RuntimeError` if rows changed, or a second run finds work."""
    with tempfile.TemporaryDirectory() as folder:
        table = decayed(folder)
        before, rows = measured(table), sorted(table.scan().to_arrow()["id"].to_pylist())
        table.maintenance.maintain(min_age_minutes=0)
        again = table.maintenance.maintain(min_age_minutes=0)
        if not again.is_nothing_to_do or sorted(table.scan().to_arrow()["id"].to_pylist()) != rows:
            raise RuntimeError(f"rows changed, or a second run found work: {again}")
        return before, measured(table)


def lines(before: Measured, after: Measured) -> str:
    """Return the lines of the table."""
    pairs = [
        ("data files", *(f"{one.files:,}" for one in (before, after))),
        ("delete files and vectors", *(f"{one.deletes:,}" for one in (before, after))),
        ("deleted rows that scans read, about", *(f"{one.deleted_rows:,}" for one in (before, after))),
        ("manifests", *(f"{one.manifests:,}" for one in (before, after))),
        ("measures that need care", *(", ".join(one.needs_care) or "none" for one in (before, after))),
    ]
    return "| measure | before | after |\n|---|---|---|\n" + "".join(f"| {' | '.join(pair)} |\n" for pair in pairs)


def picture(before: Measured, after: Measured) -> str:
    """Return the picture: a bar for each data file, as wide as its size, by day."""
    scale = (WIDTH - LEFT - 20) / max(sum(sizes) for one in (before, after) for sizes in one.sizes.values())
    parts = []
    for title, one, top in (("before", before, 0), ("after", after, HEIGHT // 2)):
        text = f"{title}: {one.files:,} data files, {one.deletes:,} delete files, {one.manifests:,} manifests"
        parts.append(f'<text x="8" y="{top + 18}" font-weight="bold">{text}</text>')
        for row, (day, sizes) in enumerate(one.sizes.items()):
            y = top + 28 + row * (BAR + 3)
            parts.append(f'<text x="8" y="{y + BAR // 2 + 5}">{day}</text>')
            x = float(LEFT)
            for size in sizes:
                parts.append(f'<rect x="{x:.1f}" y="{y}" width="{max(1.0, size * scale - 1):.1f}" height="{BAR}" fill="{DATA_FILE}"/>')
                x += size * scale
    title = "A table before and after maintain: each bar is a data file, as wide as its size"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13" role="img">\n'
        f'<title>{title}</title>\n<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def page(text: str, before: Measured, after: Measured) -> str:
    """Return the text of the page with the measured table."""
    pattern = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    return pattern.sub(lambda _: BEGIN + "\n" + lines(before, after) + "\n" + END, text)


def main() -> None:
    """Measure, and write the picture and the page."""
    before, after = run()
    PICTURE.write_text(picture(before, after), encoding="utf-8")
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), before, after), encoding="utf-8")


if __name__ == "__main__":
    main()
