"""Each rule that a repair mends is broken with real bytes: the plan changes nothing, the repair mends it without a change of rows, and is undone."""

from collections.abc import Callable

import pytest
from tests.checks.breaks import BREAKS, Break
from tests.checks.file_breaks import FILE_BREAKS, file_of, metric
from tests.checks.stored_table import Record
from tests.repair.broken_table import BrokenTable

from icefloe.checks.repair_kinds import REPAIRS, Scope, repairs_of
from icefloe.checks.rules import RULES
from icefloe.datafile.foreign_files import FooterReader
from icefloe.errors import StorageError, StoragePermissionError, StorageUnavailableError

# Rules that are broken so that no row changes, and mended without a repair that has to be named.
STATE_KEEPING = {
    rule: broken
    for rule, broken in {**BREAKS, **FILE_BREAKS}.items()
    if any(kind.is_default for kind in repairs_of(rule))
    and rule not in ("file-missing", "file-row-count", "column-nan-count", "manifest-missing", "manifest-damaged")
}
# An older snapshot keeps its wrong number, which validation reports of every snapshot.
OF_OLDER_SNAPSHOTS = {"summary-number"}


MakeTable = Callable[[str, int], BrokenTable]


@pytest.mark.parametrize("rule", STATE_KEEPING)
def test_a_break_without_lost_rows_is_mended_and_undone(sound: MakeTable, rule: str) -> None:
    breaking: Break = STATE_KEEPING[rule]
    broken = sound("of" if rule in BREAKS else "of_files", breaking.version)
    before = broken.rows()
    broken.break_by(breaking)
    if rule in ("dangling-delete", "dangling-vector"):
        before = broken.rows()  # the break itself changes what readers get
    files, location = broken.files(), broken.location()
    wrong = {(finding.rule, finding.path) for finding in broken.findings()}

    planned = broken.plan()

    assert planned.has_faults
    assert rule in {name for repair in planned.chosen for name in repair.rules}
    assert not any(repair.rows_lost or repair.rows_back for repair in planned.chosen)
    assert (broken.files(), broken.location()) == (files, location), "a plan changes nothing"

    result = planned.apply()

    assert result.undo == "icefloe repair db.t --catalog lake --undo" == planned.undo
    assert broken.rows() == before
    assert {finding.rule for finding in broken.findings()} <= {rule} & OF_OLDER_SNAPSHOTS
    after = broken.files()
    assert files.items() <= after.items(), "no file is changed or deleted"
    is_snapshot = next(kind for kind in repairs_of(rule) if kind.is_default).scope is Scope.SNAPSHOT
    assert (result.snapshot_id is not None) is is_snapshot
    if rule not in OF_OLDER_SNAPSHOTS:
        assert not broken.plan().chosen, "nothing is left to do"

    undone = broken.undo()

    assert files.items() <= broken.files().items()
    assert {(finding.rule, finding.path) for finding in broken.findings()} == wrong
    assert undone.metadata_location == broken.location()
    if not is_snapshot:
        assert broken.location() == location


def test_every_rule_of_a_repair_exists_and_is_broken_by_a_test() -> None:
    mended = {rule for kind in REPAIRS for rule in kind.rules}
    assert mended <= {rule.id for rule in RULES}
    assert mended <= BREAKS.keys() | FILE_BREAKS.keys() | {"metadata-newer"}


def test_a_repair_that_can_change_rows_has_to_be_named_with_the_reason() -> None:
    may_change = ("drop-lost-delete-files", "drop-damaged-files", "drop-lost-manifests", "rebuild-manifests-from-files", "restore-metadata")
    by_id = {kind.id: kind for kind in REPAIRS}
    assert all(by_id[name].named_because for name in (*may_change, "rebuild-metadata", "follow-newer-metadata", "drop-table"))


def test_a_sound_table_has_an_empty_plan_that_does_nothing(sound: MakeTable) -> None:
    broken = sound("of", 2)
    files = broken.files()
    planned = broken.plan()
    assert (planned.has_faults, planned.repairs, planned.left, planned.undo) == (False, (), (), "")
    assert planned.apply().repairs == ()
    assert broken.files() == files
    assert "Nothing is wrong" in str(planned)


@pytest.mark.parametrize("version", [2, 3])
def test_of_a_delete_file_that_is_there_twice_the_newest_entry_stays_so_that_no_deleted_row_comes_back(
    sound: MakeTable, version: int
) -> None:
    broken = sound("of_files", version)
    before = broken.rows()

    def add_older(entries: list[Record]) -> None:
        for entry in entries:
            entry.update(status=0, sequence_number=2, file_sequence_number=2)
        entries.insert(0, {**entries[0], "sequence_number": 0})  # older than the data file, to which it does not apply

    broken.stored.edit_manifest(broken.stored.manifests(1)[0], add_older)
    assert "file-twice" in {finding.rule for finding in broken.findings()}
    broken.plan("drop-duplicate-entries").apply()
    assert broken.rows() == before
    assert "file-twice" not in {finding.rule for finding in broken.findings()}


def unreadable_with_wrong_bounds(broken: BrokenTable) -> None:
    """Give a data file bounds that contradict each other, and bytes of the same length that are no Parquet."""
    broken.break_by(metric("lower_bounds", 2, (2**40).to_bytes(8, "little")))
    path = file_of(broken.stored)
    path.write_bytes(b"x" * path.stat().st_size)


def test_an_entry_of_a_file_that_cannot_be_read_is_not_corrected(sound: MakeTable) -> None:
    broken = sound("of_files", 2)
    unreadable_with_wrong_bounds(broken)
    planned = broken.plan(data=False)
    assert [repair.id for repair in planned.repairs] == []
    assert "the file cannot be read: " in next(one.why for one in planned.left if one.rule == "bound-order")


@pytest.mark.parametrize("error", [StoragePermissionError, StorageError])
def test_an_entry_of_a_file_that_may_not_be_read_is_not_corrected(
    sound: MakeTable, monkeypatch: pytest.MonkeyPatch, error: type[StorageError]
) -> None:
    broken = sound("of_files", 2)
    unreadable_with_wrong_bounds(broken)
    monkeypatch.setattr(FooterReader, "read", failing(error))
    planned = broken.plan(data=False)
    assert [repair.id for repair in planned.repairs] == []
    assert "the file cannot be read: not today" in next(one.why for one in planned.left if one.rule == "bound-order")


def test_storage_that_does_not_respond_ends_the_plan(sound: MakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = sound("of_files", 2)
    unreadable_with_wrong_bounds(broken)
    monkeypatch.setattr(FooterReader, "read", failing(StorageUnavailableError))
    with pytest.raises(StorageUnavailableError, match="not today"):
        broken.plan(data=False)


def failing(error: type[StorageError]) -> Callable[[FooterReader, str], None]:
    def read(_reader: FooterReader, _location: str) -> None:
        raise error("not today")

    return read
