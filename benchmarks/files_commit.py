"""One commit of many existing data files with statistics of 20 columns and two partition fields, compared with PyIceberg.

Only the commit is measured: PyIceberg's `fast_append`, which its `append` and `add_files` use, and Icefloe's append with manifest merging.
"""

from functools import partial

from benchmarks import measure
from benchmarks.measure import Comparison, child, interleaved, median, say, seconds

FILES, REPEATS = 100_000, 3


def run() -> list[Comparison]:
    """Measure wall-clock seconds and CPU seconds, which count every thread but no waiting."""
    folder = measure.BUILD / "files-commit"
    folder.mkdir(exist_ok=True)
    say(f"files-commit: {FILES:,} files in one commit, {REPEATS} times each")
    arguments = ("files_commit_child.py", str(folder), str(FILES))
    taken = interleaved(REPEATS, {engine: partial(child, engine, *arguments) for engine in ("icefloe", "pyiceberg")})
    lines = []
    for part, title, goal in (("seconds", "one commit of {:,} written files", "<= 0.05"), ("cpu", "the same, processor time", "")):
        ours, theirs = (median([one[part] for one in taken[engine]]) for engine in ("icefloe", "pyiceberg"))
        lines.append(Comparison(title.format(FILES), seconds(ours), seconds(theirs), ours / theirs, goal))
    return lines
