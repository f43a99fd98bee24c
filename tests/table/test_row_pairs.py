"""Pairs of concurrent operations on one table: the rows are those of one after the other, or the later one is refused with its reason."""

import re
from functools import cache

import pytest
from tests.table.row_pairs import (
    LEVELS,
    MODES,
    OPERATIONS,
    Base,
    Outcome,
    Pair,
    Rows,
    Serial,
    base_table,
    both_effects,
    run_pair,
    serial,
)

from icefloe.errors import CommitConflictError, CommitInvalidatedError, IcefloeError

# Rows written for a replaced schema or spec are right by their field ids, and in the partitions of their spec.
LAYOUT = {"add column", "rename column", "drop column", "drop key", "partition spec", "drop partition field", "upgrade"}
# Each version with each mode, each version with each level, each mode with each level.
EVERY_TWO = [(version, mode, LEVELS[(version + MODES.index(mode)) % 2]) for version in (2, 3) for mode in MODES]
DOUBTFUL = ("append", "delete", "overwrite", "overwrite partitions", "delete keys", "upsert", "compact, age kept", "roll back")
WINNERS = ("append", "upsert", "compact and expire")


@cache
def base(version: int, mode: str, level: str) -> Base:
    return base_table(version, mode, level)


@cache
def one_then_other(start: Base, one: tuple[str, int], other: tuple[str, int] | None = None) -> Serial:
    return serial(start, one, *(() if other is None else (other,)))


def allowed(start: Base, planned: str, first: str, outcome: Outcome) -> list[Rows]:
    """Return the rows that are allowed if both operations are committed."""
    loser, winner = (planned, -2), (first, -1)
    if not outcome.was_second:
        return [one_then_other(start, loser, winner).rows]
    after = one_then_other(start, winner, loser)
    orders = [] if after.error is not None else [after.rows]
    if start.level == "snapshot" or first in LAYOUT:
        orders.append(one_then_other(start, loser, winner).rows)
    if start.level == "snapshot":
        alone = {name: one_then_other(start, one).rows for name, one in (("planned", loser), ("first", winner))}
        orders.append(both_effects(Pair(start).rows(), alone))
    return orders


def check_error(start: Base, planned: str, first: str, outcome: Outcome) -> None:
    """Check that a refusal that does not occur in sequence is a conflict error with all of its parts."""
    error, pair = outcome.error, (planned, first)
    assert error is not None
    assert outcome.rows == one_then_other(start, (first, -1)).rows, pair
    is_conflict = isinstance(error, CommitConflictError | CommitInvalidatedError)
    assert is_conflict or one_then_other(start, (first, -1), (planned, -2)).error is not None, (pair, error)
    if is_conflict:
        check_conflict(error, pair)


def check_conflict(error: IcefloeError, pair: tuple[str, str]) -> None:
    assert (error.next_step or "").startswith(("a retry makes sense", "a retry will fail again")), (pair, error)
    expected, found, *columns = [problem.where for problem in error.problems]
    assert (expected, found) == ("expected", "found"), (pair, error)
    assert not columns or pair[1] in LAYOUT, (pair, error)  # missing columns of the rows, each with its name
    assert error.table == "lake.db.t", (pair, error)
    if pair[1] not in LAYOUT:  # they commit no snapshot
        assert error.snapshot_id is not None, (pair, error)
    if pair[1] not in (*LAYOUT, "expire", "roll back"):
        assert re.search(rf"snapshot {error.snapshot_id}\b.*\((append|overwrite|delete|replace)\b", str(error)), (pair, error)


def check_pair(start: Base, planned: str, first: str) -> bool:
    """Run the pair and check its outcome; return whether the planned operation was refused."""
    outcome = run_pair(start, planned, first)
    if outcome.error is not None and outcome.was_second:
        check_error(start, planned, first, outcome)
        return True
    assert outcome.rows in allowed(start, planned, first, outcome), (planned, first, start)
    return False


@pytest.mark.parametrize(
    ("version", "mode", "level", "winners"),
    [
        (3, "merge-on-read", "serializable", 3),
        (2, "copy-on-write", "snapshot", 1),
        pytest.param(2, "copy-on-write", "snapshot", 3, marks=pytest.mark.slow),
    ],
)
def test_the_most_conflicting_pairs_are_serializable_or_refused(version: int, mode: str, level: str, winners: int) -> None:
    """Run each planned operation after some of the winners, which take turns."""
    pairs = [(planned, WINNERS[(place + turn) % 3]) for place, planned in enumerate(DOUBTFUL) for turn in range(winners)]
    refused = [check_pair(base(version, mode, level), planned, first) for planned, first in pairs]
    assert 0 < sum(refused) < len(refused) / 3


@pytest.mark.slow
@pytest.mark.parametrize(("version", "mode", "level"), EVERY_TWO)
def test_every_pair_is_serializable_or_refused(version: int, mode: str, level: str) -> None:
    start = base(version, mode, level)
    refused = {(planned, first) for planned in OPERATIONS for first in OPERATIONS if check_pair(start, planned, first)}
    writes = list(OPERATIONS)[: list(OPERATIONS).index("rewrite manifests")]
    assert not {(planned, first) for planned, first in refused if planned in writes and first in writes}
