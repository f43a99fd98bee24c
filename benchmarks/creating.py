"""CREATE TABLE AS SELECT of five rows, as the first statement of a session and as a later one, compared with `df.write.parquet` of the same rows.

Each run is a process of its own with a session of its own. What Icefloe does once per session is part of `attach`, which is measured with the session's start,
or happens in the background while the first statement is planned: the start of a Python worker. The measure is the clock.
"""

from functools import partial

from benchmarks.measure import BUILD, Comparison, child, interleaved, median, say, seconds

REPEATS = 3
GOAL = 0.5  # seconds of a statement in a warm session
PHASES = {
    "start": ("Spark SQL, start of a session with `attach` (without)", ""),
    "first": ("the first statement, CREATE TABLE AS SELECT of 5 rows (df.write.parquet)", ""),
    "later": ("the same as a later statement", f"<= {GOAL:.1f} s"),
}


def run() -> list[Comparison]:
    """Measure both sides in turns."""
    BUILD.mkdir(exist_ok=True)
    say(f"creating: {REPEATS} sessions of each side")
    sides = ("icefloe", "parquet")
    taken = interleaved(REPEATS, {side: partial(child, "icefloe", "creating_child.py", side) for side in sides})
    lines = []
    for phase, (what, goal) in PHASES.items():
        ours, theirs = (median([run[phase] for run in taken[side]]) for side in sides)
        lines.append(Comparison(what, seconds(ours), seconds(theirs), ours / theirs, goal))
    return lines
