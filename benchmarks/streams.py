"""Commits of a stream of one-row epochs: epoch 10,000 beside epoch 10, with the check that an epoch is committed once.

One process commits every epoch of the long stream (once; later runs continue it), then takes turns with streams that begin, so that both sides see the same
machine. No Spark takes part.
"""

from benchmarks import measure
from benchmarks.measure import Comparison, child, say, seconds

EPOCHS, ROUNDS = 10_000, 60
# What is measured, the key in the result of the child, and the goal.
MEASURES = (
    ("processor time", "cpu", "<= 1.3"),
    ("processor time, mean of 240 with merges of manifests", "cpu_mean", ""),
    ("by the clock", "wall", ""),
)


def run() -> list[Comparison]:
    """Measure the commits, in wall-clock and CPU seconds."""
    folder = measure.BUILD / "streams"
    folder.mkdir(parents=True, exist_ok=True)
    say(f"streams: {EPOCHS:,} epochs of one row (created once), then {ROUNDS} rounds")
    taken = child("icefloe", "streams_child.py", str(folder), str(EPOCHS), str(ROUNDS))
    return [
        Comparison(
            f"commit of epoch {EPOCHS:,} beside epoch 10 of a stream, {what}",
            seconds(taken["late"][key]),
            seconds(taken["early"][key]),
            taken["late"][key] / taken["early"][key],
            goal,
        )
        for what, key, goal in MEASURES
    ]
