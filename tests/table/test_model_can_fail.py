"""The commit model finds faults: it fails with each of these faults in the commit loop, the catalog or the rules of the format."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.commit_effects import BrokenInvariantError
from tests.table.test_commit_model import ManyWriters

from icefloe.commit import cherry_pick, snapshot_attempt
from icefloe.commit.outcome import Committed, Conflicted, Outcome, Unknown
from icefloe.operations import commit_loop
from icefloe.operations.commit_loop import TableCommit
from icefloe.operations.rows import delete_keys
from icefloe.stores.catalog_store import CommitRequest
from icefloe.stores.sql_store import SqlCatalogStore
from icefloe.testing.fault_injection import FaultyStore

Patch = pytest.MonkeyPatch


def skip_the_commit_status_check(patch: Patch) -> None:
    """Treat an overtaken compare-and-swap as failed, so that it is retried."""
    patch.setattr(TableCommit, "is_committed", lambda self: False)


def delete_files_on_an_unknown_commit_state(patch: Patch) -> None:
    """Treat a late swap or a lost reply as a conflict."""
    swap = FaultyStore.commit

    def sure(self: FaultyStore, changes: Any) -> Outcome:
        outcome = swap(self, changes)
        return Conflicted(current_location=changes[0].expected) if isinstance(outcome, Unknown) else outcome

    patch.setattr(FaultyStore, "commit", sure)
    patch.setattr(TableCommit, "is_committed", lambda self: False)


def swap_without_comparing(patch: Patch) -> None:
    """Let the last writer win."""

    def commit(self: SqlCatalogStore, requests: Sequence[CommitRequest]) -> Outcome:
        return compared(self, [with_current_location(self, request) for request in requests])

    def with_current_location(store: SqlCatalogStore, request: CommitRequest) -> CommitRequest:
        return request if request.expected is None else replace(request, expected=store.load(request.identifier).metadata_location)

    compared = SqlCatalogStore.commit
    patch.setattr(SqlCatalogStore, "commit", commit)


def clean_up_nothing(patch: Patch) -> None:
    """Keep the files of failed commits."""
    patch.setattr(commit_loop, "delete_quietly", lambda handle, locations: None)
    patch.setattr(delete_keys, "delete_quietly", lambda handle, locations: None)


def clean_up_too_much(patch: Patch) -> None:
    """Delete every file that a successful attempt wrote."""
    patch.setattr(TableCommit, "files_of_lost_attempts", lambda self: self.written_files()[1:])


def assign_row_ids_twice(patch: Patch) -> None:
    assign = snapshot_attempt.assign_first_row_ids
    patch.setattr(snapshot_attempt, "assign_first_row_ids", lambda manifests, first: (assign(manifests, 0)[0], assign(manifests, first)[1]))


def count_wrong_totals(patch: Patch) -> None:
    build = snapshot_attempt.build_summary

    def wrong(*arguments: Any, **named: Any) -> dict[str, str]:
        made = build(*arguments, **named)
        return {**made, "total-records": str(int(made["total-records"]) + 1)}

    patch.setattr(snapshot_attempt, "build_summary", wrong)


def build_on_the_wrong_parent(patch: Patch) -> None:
    """Commit to a branch without its parent snapshot."""
    patch.setattr(snapshot_attempt, "parent_snapshot", lambda base, branch: None)


def acknowledge_an_unknown_commit_state(patch: Patch) -> None:
    """Report a commit of unknown state as committed."""
    patch.setattr(commit_loop, "check_commit_status", lambda look, unknown, settings: Committed())


def cherry_pick_twice(patch: Patch) -> None:
    """Skip the checks in the history and the live files for a change that is published already."""
    patch.setattr(cherry_pick.CherryPick, "_check_not_picked", lambda self, base, picked, head: None)
    patch.setattr(cherry_pick.CherryPick, "_check_not_live", lambda self, base, picked, head, read: None)


FAULTS: list[Callable[[Patch], None]] = [
    skip_the_commit_status_check,
    delete_files_on_an_unknown_commit_state,
    swap_without_comparing,
    clean_up_nothing,
    clean_up_too_much,
    assign_row_ids_twice,
    count_wrong_totals,
    build_on_the_wrong_parent,
    acknowledge_an_unknown_commit_state,
    cherry_pick_twice,
]


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_the_commit_model_fails_with_each_fault(fault: Callable[[Patch], None], monkeypatch: Patch) -> None:
    fault(monkeypatch)
    chosen = settings(
        max_examples=60,
        stateful_step_count=30,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    with pytest.raises(BrokenInvariantError):
        run_state_machine_as_test(ManyWriters, settings=chosen)
