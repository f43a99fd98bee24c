"""The model of commits finds what is wrong: with each of these faults put into the loop, the catalog or the format's rules it fails."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.table.test_commit_model import ManyWriters

from icefloe.catalog_store.sql_store import SqlCatalogStore
from icefloe.kernel.commit import append, cherry_pick, snapshot_attempt
from icefloe.kernel.commit.outcome import Committed, Conflicted, Outcome, Unknown
from icefloe.table.commits import commit_loop
from icefloe.table.commits.commit_loop import TableCommit
from icefloe.table.expiry.deletion_scope import DeletionScope
from icefloe.table.rows import delete_keys
from icefloe.testing.commit_effects import BrokenInvariantError
from icefloe.testing.fault_injection import FaultyStore

Patch = pytest.MonkeyPatch


def forget_to_look_for_the_commit(patch: Patch) -> None:
    """An overtaken swap counts as lost, and is made again."""
    patch.setattr(TableCommit, "is_committed", lambda self: False)


def delete_files_on_an_unknown_outcome(patch: Patch) -> None:
    """A late or lost swap counts as a lost race."""
    swap = FaultyStore._swap

    def sure(self: FaultyStore, changes: Any) -> Outcome:
        outcome = swap(self, changes)
        return Conflicted(current_location=changes[0].expected) if isinstance(outcome, Unknown) else outcome

    patch.setattr(FaultyStore, "_swap", sure)
    patch.setattr(TableCommit, "is_committed", lambda self: False)


def swap_whatever_the_pointer_is(patch: Patch) -> None:
    """The last writer wins."""

    def swap(self: SqlCatalogStore, identifier: Any, *, expected: str, new: str) -> Outcome:
        now = self.load(identifier).metadata_location
        return swapped(self, identifier, expected=now, new=new)

    swapped = SqlCatalogStore.swap
    patch.setattr(SqlCatalogStore, "swap", swap)


def clean_up_nothing(patch: Patch) -> None:
    patch.setattr(commit_loop, "delete_quietly", lambda handle, locations: None)
    patch.setattr(delete_keys, "delete_quietly", lambda handle, locations: None)


def clean_up_too_much(patch: Patch) -> None:
    """After success everything an attempt wrote is taken for a leftover."""
    patch.setattr(TableCommit, "files_of_lost_attempts", lambda self: self.written_files()[1:])


def give_row_ids_again(patch: Patch) -> None:
    assign = snapshot_attempt.assign_first_row_ids
    patch.setattr(snapshot_attempt, "assign_first_row_ids", lambda manifests, first: (assign(manifests, 0)[0], assign(manifests, first)[1]))


def count_wrong(patch: Patch) -> None:
    build = append.build_summary

    def wrong(*arguments: Any, **named: Any) -> dict[str, str]:
        made = build(*arguments, **named)
        return {**made, "total-records": str(int(made["total-records"]) + 1)}

    patch.setattr(append, "build_summary", wrong)


def build_on_the_wrong_parent(patch: Patch) -> None:
    """What is committed to a branch is made on main."""
    patch.setattr(append, "parent_snapshot", lambda base, branch: None)


def lose_the_reply_and_say_so(patch: Patch) -> None:
    """An unknown outcome is acknowledged."""
    patch.setattr(commit_loop, "check_commit_status", lambda look, unknown, settings: Committed())


def pick_again_and_again(patch: Patch) -> None:
    """Neither the history nor the live files are asked whether a change is there already."""
    patch.setattr(cherry_pick.CherryPick, "_check_not_there", lambda self, base, picked, head: None)
    patch.setattr(cherry_pick.CherryPick, "_check_not_live", lambda self, base, picked, head, read: None)


def delete_files_outside_the_table(patch: Patch) -> None:
    """An expiry deletes whatever the metadata names, wherever it is."""
    patch.setattr(DeletionScope, "contains", lambda self, location, real=None: True)


def omit_kept_files_from_the_report(patch: Patch) -> None:
    """Files outside the table's folder are kept, and the report does not name them."""
    divide = DeletionScope.divide

    def without_outside(self: DeletionScope, files: Any) -> tuple[Any, Any]:
        inside, outside = divide(self, files)
        return inside, outside.slice(0, 0)

    patch.setattr(DeletionScope, "divide", without_outside)


FAULTS: list[Callable[[Patch], None]] = [
    forget_to_look_for_the_commit,
    delete_files_on_an_unknown_outcome,
    swap_whatever_the_pointer_is,
    clean_up_nothing,
    clean_up_too_much,
    give_row_ids_again,
    count_wrong,
    build_on_the_wrong_parent,
    lose_the_reply_and_say_so,
    pick_again_and_again,
    delete_files_outside_the_table,
    omit_kept_files_from_the_report,
]


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_the_model_catches_it(fault: Callable[[Patch], None], monkeypatch: Patch) -> None:
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
