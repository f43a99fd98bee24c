"""Writing a manifest and merging many into one, compared with PyIceberg on the entries of the planning table, in CPU seconds.

Icefloe writes a manifest from columns and merges manifests by copying the bytes of entries; PyIceberg decodes entries to objects and encodes them.
"""

from functools import partial

from benchmarks import measure, planning_table
from benchmarks.measure import Comparison, child, interleaved, median, say, seconds

REPEATS, MANIFESTS = 3, 100


def run() -> list[Comparison]:
    """Measure writing and merging with 100 manifests of 1,000 entries."""
    folder = planning_table.metadata_path(measure.BUILD / "planning").parent
    say(f"manifests: writing and merging {MANIFESTS} manifests")
    arguments = ("manifests_child.py", str(folder), str(MANIFESTS))
    taken = interleaved(REPEATS, {engine: partial(child, engine, *arguments) for engine in ("icefloe", "pyiceberg")})
    lines = []
    for part, title in (("write", "writing a manifest of {:,} entries"), ("merge", "merging {:,} entries of many manifests into one")):
        ours, theirs = (median([one[part] for one in taken[engine]]) for engine in ("icefloe", "pyiceberg"))
        lines.append(Comparison(title.format(taken["icefloe"][0]["entries"]), seconds(ours), seconds(theirs), ours / theirs, "<= 0.033"))
    return lines
