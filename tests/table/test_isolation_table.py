"""The table of concurrent operations in docs/commits.md is what happens: every pair is run, and every refusal says what it has to."""

from functools import cache
from pathlib import Path

import pytest
from tests.table.isolation_pairs import CHECKED, LEVELS, OPERATIONS, Outcome, base_table, run_pair

PAGE = Path(__file__).parents[2] / "docs" / "commits.md"
BEGIN, END = "<!-- pairs: {} -->", "<!-- end of pairs -->"


@cache
def outcomes(version: int, level: str) -> dict[tuple[str, str], Outcome]:
    base = base_table(version)
    if level != LEVELS[0]:  # operations without checks do not know of levels
        known = outcomes(version, LEVELS[0])
        return known | {(planned, first): run_pair(base, planned, first, level) for planned in CHECKED for first in OPERATIONS}
    return {(planned, first): run_pair(base, planned, first, level) for planned in OPERATIONS for first in OPERATIONS}


def page_table(level: str) -> str:
    """The table as docs/commits.md has it: one row for each planned operation, one column for each that was committed first."""
    found = outcomes(3, level)
    lines = ["| planned \\ first | " + " | ".join(OPERATIONS) + " |", "|---" * (len(OPERATIONS) + 1) + "|"]
    for planned in OPERATIONS:
        lines.append(f"| **{planned}** | " + " | ".join(found[planned, first].refused or "both" for first in OPERATIONS) + " |")
    return "\n".join(lines)


@pytest.mark.parametrize("level", LEVELS)
def test_the_page_has_the_outcome_of_every_pair(level: str) -> None:
    _, _, after = PAGE.read_text().partition(BEGIN.format(level))
    there, end, _ = after.partition(END)
    assert end, f"no table of {level} isolation"
    assert there.strip() == page_table(level)


@pytest.mark.parametrize("level", LEVELS)
def test_every_refusal_names_the_snapshot_what_was_expected_and_found_and_whether_to_retry(level: str) -> None:
    refused = {pair: outcome.error for pair, outcome in outcomes(3, level).items() if outcome.error is not None}
    assert len(refused) > 40
    for pair, error in refused.items():
        assert [problem.where for problem in error.problems] == ["expected", "found"], pair
        assert (error.next_step or "").startswith(("a retry makes sense", "a retry will fail again")), pair
        assert error.snapshot_id is not None, pair
        if pair[1] not in ("schema", "partition spec", "expire"):
            assert str(error.snapshot_id) in error.problems[1].what, pair


def test_serializable_refuses_all_that_snapshot_isolation_refuses_and_more() -> None:
    strict, loose = ({pair for pair, outcome in outcomes(3, level).items() if outcome.refused} for level in LEVELS)
    assert loose < strict
    assert {outcomes(3, "serializable")[pair].refused for pair in strict - loose} == {"new rows"}


def test_a_refused_commit_leaves_the_table_as_the_winner_made_it() -> None:
    base = base_table(3)
    alone = {first: run_pair(base, "properties", first, "serializable").files for first in OPERATIONS}
    for (_, first), outcome in outcomes(3, "serializable").items():
        if outcome.refused:
            assert outcome.files == alone[first]


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
def test_position_deletes_of_version_2_are_as_deletion_vectors_of_version_3(level: str) -> None:
    old, new = outcomes(2, level), outcomes(3, level)
    assert {pair: outcome.refused for pair, outcome in old.items()} == {pair: outcome.refused for pair, outcome in new.items()}
