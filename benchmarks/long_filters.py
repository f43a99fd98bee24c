"""Scans with a filter of 100,000 values in text, compared with PyArrow's `is_in` on the rows of the same scan without a filter."""

from benchmarks import measure
from benchmarks.measure import Comparison, child, say, seconds


def run() -> list[Comparison]:
    """Measure scans of 1,000,000 rows, in seconds and CPU seconds."""
    say("long-filters: 100,000 values in a filter's text, in turns with PyArrow's is_in")
    taken = child("icefloe", "long_filters_child.py", str(measure.BUILD / "long_filters"))
    lines = []
    for column, title in (
        ("id", "scan of 1,000,000 rows with 100,000 whole numbers in the filter's text"),
        ("name", "the same with texts"),
    ):
        for what, goal in (("cpu", ""), ("time", "<= 3")):
            ours, theirs = taken[f"filter {column} {what}"], taken[f"is_in {column} {what}"]
            name = f"{title}: CPU time" if what == "cpu" else "the same: time"
            lines.append(Comparison(name, seconds(ours), seconds(theirs), ours / theirs, goal))
    return lines
