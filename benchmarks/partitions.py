"""Appends of rows that go to very many partitions, compared with PyIceberg; and the memory of many partitions beside that of few."""

from benchmarks import measure
from benchmarks.measure import Comparison, child, interleaved, median, say, seconds

# PyIceberg gets fewer partitions, as each takes it 5 ms of CPU time.
FEW, COMPARED, MANY, REPEATS = 1_000, 2_000, 20_000, 3


def run() -> list[Comparison]:
    """Measure the append of two rows to each partition of a new table, in seconds, CPU seconds and memory."""
    folder = str(measure.BUILD / "partitions")
    say(f"partitions: two rows to each of {COMPARED:,}, and to {MANY:,} and {FEW:,}, in turns")
    sides = (("icefloe", COMPARED), ("pyiceberg", COMPARED), ("icefloe", MANY), ("icefloe", FEW))
    taken = interleaved(
        REPEATS,
        {
            f"{engine} {count}": lambda engine=engine, count=count: child(engine, "partitions_child.py", folder, str(count))
            for engine, count in sides
        },
    )

    def took(engine: str, count: int, what: str) -> float:
        return median([one[what] for one in taken[f"{engine} {count}"]])

    lines = []
    for title, what in ((f"append to {COMPARED:,} partitions: CPU time", "cpu"), ("the same: time", "time")):
        ours, theirs = took("icefloe", COMPARED, what), took("pyiceberg", COMPARED, what)
        lines.append(Comparison(title, seconds(ours), seconds(theirs), ours / theirs, ""))
    ours, few = took("icefloe", MANY, "megabytes"), took("icefloe", FEW, "megabytes")
    lines.append(
        Comparison(f"append to {MANY:,} partitions (to {FEW:,}): growth of peak memory", f"{ours:.0f} MB", f"{few:.0f} MB", ours / few, "")
    )
    return lines
