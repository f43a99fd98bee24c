"""The table of concurrent operations in docs/commits.md is correct: every pair is run, and every refusal has the required parts."""

from functools import cache
from pathlib import Path

import pytest
from tests.table.isolation_pairs import CHECKED, LEVELS, OPERATIONS, Outcome, base_table, run_pair

PAGE = Path(__file__).parents[2] / "docs" / "commits.md"
BEGIN, END = "<!-- pairs: {} -->", "<!-- end of pairs -->"
# The rows of the table that the quick suite checks, those with the most different outcomes; the whole table takes long.
MOST_CONFLICTING = ("overwrite by files", "row delta: positions", "rewrite, age kept", "schema")
ROWS = [pytest.param(MOST_CONFLICTING, id="most conflicting"), pytest.param(tuple(OPERATIONS), id="every", marks=pytest.mark.slow)]
Outcomes = dict[tuple[str, str], Outcome]


@cache
def outcomes(version: int, level: str, rows: tuple[str, ...]) -> Outcomes:
    base = base_table(version)
    if level != LEVELS[0] and set(rows) - set(CHECKED):  # operations without checks do not depend on the level
        known = outcomes(version, LEVELS[0], rows)
        return known | outcomes(version, level, tuple(planned for planned in rows if planned in CHECKED))
    return {(planned, first): run_pair(base, planned, first, level) for planned in rows for first in OPERATIONS}


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("level", LEVELS)
def test_the_page_has_the_outcome_of_every_pair(level: str, rows: tuple[str, ...]) -> None:
    _, _, after = PAGE.read_text().partition(BEGIN.format(level))
    table, end, _ = after.partition(END)
    assert end, f"no table of {level} isolation"
    head, _, *lines = table.strip().splitlines()
    assert head == "| planned \\ first | " + " | ".join(OPERATIONS) + " |"
    assert [line.split("**")[1] for line in lines] == list(OPERATIONS)
    results = outcomes(3, level, rows)
    for line in lines:
        planned = line.split("**")[1]
        if planned in rows:
            assert line == f"| **{planned}** | " + " | ".join(results[planned, first].refused or "both" for first in OPERATIONS) + " |"
    check_refusals(results)


def check_refusals(found: Outcomes) -> None:
    """Check that every refusal names the snapshot, the expected and found state and whether to retry, and leaves the table of the first commit."""
    refused = {pair: outcome for pair, outcome in found.items() if outcome.error is not None}
    assert len(refused) > 20
    base = base_table(3)
    alone = {first: run_pair(base, "properties", first, LEVELS[0]).files for first in OPERATIONS}
    for pair, outcome in refused.items():
        error = outcome.error
        assert error is not None
        assert [problem.where for problem in error.problems] == ["expected", "found"], pair
        assert (error.next_step or "").startswith(("a retry makes sense", "a retry will fail again")), pair
        assert error.snapshot_id is not None, pair
        if pair[1] not in ("schema", "partition spec", "expire"):
            assert str(error.snapshot_id) in error.problems[1].what, pair
        assert outcome.files == alone[pair[1]], pair


@pytest.mark.parametrize("rows", ROWS)
def test_serializable_isolation_refuses_more_pairs_than_snapshot_isolation(rows: tuple[str, ...]) -> None:
    strict, loose = ({pair for pair, outcome in outcomes(3, level, rows).items() if outcome.refused} for level in LEVELS)
    assert loose < strict
    assert {outcomes(3, "serializable", rows)[pair].refused for pair in strict - loose} == {"new rows"}


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
def test_position_deletes_of_version_2_conflict_like_deletion_vectors_of_version_3(level: str) -> None:
    old, new = (outcomes(version, level, tuple(OPERATIONS)) for version in (2, 3))
    assert {pair: outcome.refused for pair, outcome in old.items()} == {pair: outcome.refused for pair, outcome in new.items()}
