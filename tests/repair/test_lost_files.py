"""Lost and damaged data files and delete files: how many rows are lost or come back, by partition, and what has to be named."""

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.checks.file_breaks import FILE_BREAKS, file_of
from tests.checks.stored_table import SCHEMA, Record
from tests.repair.broken_table import BrokenTable

from icefloe.errors import InvalidInputError, StoragePermissionError
from icefloe.io.local_file_io import LocalFileIO

DATA, DELETES = 0, 1


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_lost_data_file_is_dropped_with_its_rows_by_partition(tmp_path: Path, version: int) -> None:
    broken = BrokenTable.of(tmp_path, version)
    table = broken.table
    lost = next(task.file for task in table.scan("day = 'c'").plan_files())
    before = broken.rows()
    Path(lost.file_path).unlink()

    planned = broken.plan(data=False)

    (repair,) = planned.chosen
    assert (repair.repair, repair.rules) == ("drop-lost-data-files", ("file-missing",))
    assert dict(repair.rows_lost) == {"day=c": 1}
    assert repair.changes[0].path == lost.file_path
    result = planned.apply()
    assert (result.rows_lost, result.rows_back) == (1, 0)
    assert broken.rows() == [row for row in before if "'c'" not in row]
    assert broken.findings() == []
    snapshot = broken.table.current_snapshot()
    assert snapshot is not None
    assert snapshot.operation == "delete"
    assert snapshot.summary["icefloe.repair"] == "drop-lost-data-files"
    assert snapshot.summary["deleted-records"] == "1"


@pytest.mark.parametrize("version", [2, 3])
def test_deletes_of_a_lost_data_file_leave_with_it(tmp_path: Path, version: int) -> None:
    broken = BrokenTable.of_files(tmp_path, version)
    file_of(broken.stored, DATA).unlink()
    planned = broken.plan()
    (repair,) = planned.chosen
    assert [change.rows_lost for change in repair.changes] == [3, 0]
    planned.apply()
    assert broken.findings() == []
    assert [file["content"] for file in broken.table.inspect.files().to_pylist()] == [DATA]


@pytest.mark.parametrize("version", [2, 3])
def test_a_lost_delete_file_is_only_dropped_when_that_is_named_because_rows_come_back(tmp_path: Path, version: int) -> None:
    broken = BrokenTable.of_files(tmp_path, version)
    file_of(broken.stored, DELETES).unlink()
    files = broken.files()

    planned = broken.plan()
    assert planned.chosen == ()
    assert planned.repairs[0].repair == "drop-lost-delete-files"
    assert "come back" in planned.repairs[0].named_because
    assert dict(planned.repairs[0].rows_back) == {"day=a": 2}
    assert planned.apply().repairs == ()
    assert broken.files() == files

    named = broken.plan("drop-lost-delete-files")
    result = named.apply()
    assert (result.rows_lost, result.rows_back) == (0, 2)
    assert len(broken.rows()) == 5
    assert broken.findings() == []
    snapshot = broken.table.current_snapshot()
    assert snapshot is not None
    assert snapshot.operation == "overwrite"
    broken.undo()
    assert {finding.rule for finding in broken.findings()} == {"file-missing"}


@pytest.mark.parametrize(("rule", "rows"), [("file-damaged", 2), ("delete-file-damaged", 5), ("vector-damaged", 5)])
def test_a_damaged_file_is_only_dropped_when_that_is_named(tmp_path: Path, rule: str, rows: int) -> None:
    broken = BrokenTable.of_files(tmp_path, FILE_BREAKS[rule].version)
    broken.break_by(FILE_BREAKS[rule])
    assert broken.plan().chosen == ()
    broken.plan("drop-damaged-files").apply()
    assert len(broken.rows()) == rows
    assert broken.findings() == []


def test_a_cut_data_file_is_not_taken_for_one_of_another_size(tmp_path: Path) -> None:
    broken = BrokenTable.of_files(tmp_path)
    path = file_of(broken.stored, DATA)
    path.write_bytes(path.read_bytes()[:-50])
    planned = broken.plan(data=False)
    assert planned.chosen == ()
    assert {one.rule: one.why for one in planned.left}["file-size"] == "the file is damaged, so that its entry cannot be measured"
    assert [repair.repair for repair in planned.repairs] == ["drop-damaged-files"]


def test_a_cut_avro_file_that_looks_whole_is_not_counted_again(tmp_path: Path) -> None:
    broken = BrokenTable.of_files(tmp_path, 2, **{"write.format.default": "avro", "write.delete.format.default": "parquet"})
    path = file_of(broken.stored, DATA)
    content = path.read_bytes()
    sync = content[-16:]
    first_block = content.index(sync) + 16
    path.write_bytes(content[:first_block])  # the header alone: a whole file without rows
    planned = broken.plan()
    assert planned.chosen == ()
    assert {one.rule for one in planned.left} == {"file-size", "file-row-count"}


def test_a_row_count_is_corrected_where_nothing_shows_another_file(tmp_path: Path) -> None:
    broken = BrokenTable.of(tmp_path, 1)
    before = broken.rows()

    def other_count(entries: list[Record]) -> None:
        next(entry for entry in entries if entry["status"] != 2)["data_file"]["record_count"] += 5

    broken.stored.edit_manifest(broken.stored.manifests()[0], other_count)
    planned = broken.plan()
    assert "correct-entries" in [repair.repair for repair in planned.chosen]
    planned.apply()
    assert (broken.rows(), broken.findings()) == (before, [])


def test_another_row_count_beside_position_deletes_has_to_be_named_because_they_may_be_of_another_file(tmp_path: Path) -> None:
    broken = BrokenTable.of_files(tmp_path)
    broken.break_by(FILE_BREAKS["file-row-count"])
    planned = broken.plan()
    assert planned.chosen == ()
    assert [repair.repair for repair in planned.repairs] == ["correct-row-counts"]
    broken.plan("correct-row-counts").apply()
    assert broken.findings() == []


def test_a_file_that_may_not_be_read_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = BrokenTable.of_files(tmp_path)
    path = file_of(broken.stored, DATA)

    def refused(io: LocalFileIO, location: str) -> int:
        if location == str(path):
            raise StoragePermissionError("access denied", path=location)
        return Path(location).stat().st_size

    monkeypatch.setattr(LocalFileIO, "size", refused)
    assert broken.plan(data=False).chosen == ()


def test_rows_are_counted_by_partition_for_many_lost_files(tmp_path: Path) -> None:
    broken = BrokenTable.of(tmp_path)
    table = broken.table
    for day in ("a", "x", "x"):
        table.append(pa.table({"day": [day] * 3, "n": [7, 8, 9]}, schema=SCHEMA))
    for task in table.scan("n = 8").plan_files():
        Path(task.file.file_path).unlink()
    planned = broken.plan(data=False)
    assert dict(planned.chosen[0].rows_lost) == {"day=x": 6, "day=a": 3}
    planned.apply()
    assert not [row for row in broken.rows() if "8" in row]


def test_a_repair_or_rule_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    broken = BrokenTable.of(tmp_path)
    with pytest.raises(InvalidInputError, match="there is no repair 'mend'"):
        broken.plan("mend")
    with pytest.raises(InvalidInputError, match="without being named"):
        broken.plan("file-damaged")


def test_the_name_of_a_rule_chooses_its_default_repairs_only(tmp_path: Path) -> None:
    broken = BrokenTable.of_files(tmp_path)
    file_of(broken.stored, DATA).unlink()
    broken.break_by(FILE_BREAKS["statistics-missing"])
    planned = broken.plan("file-missing")
    assert [repair.repair for repair in planned.chosen] == ["drop-lost-data-files"]
    assert "drop-statistics" in [repair.repair for repair in planned.repairs]


def test_data_files_are_only_given_up_by_name_where_most_are_missing_at_once(tmp_path: Path) -> None:
    broken = BrokenTable.of(tmp_path)
    before, findings = broken.rows(), broken.findings()
    moved = broken.folder / "elsewhere"
    shutil.move(broken.folder / "db" / "t" / "data", moved)  # as when the file system of the data is not mounted

    planned = broken.plan(data=False)

    assert [(repair.repair, repair.is_chosen) for repair in planned.repairs] == [("drop-unreachable-data-files", False)]
    assert "mounted" in str(planned)
    assert planned.apply().snapshot_id is None
    shutil.move(moved, broken.folder / "db" / "t" / "data")
    assert (broken.rows(), broken.findings()) == (before, findings)


def test_a_lost_data_file_outside_of_the_table_is_only_given_up_by_name(tmp_path: Path) -> None:
    broken = BrokenTable.of(tmp_path)
    outside = tmp_path / "other" / "more.parquet"
    outside.parent.mkdir()
    pq.write_table(pa.table({"day": ["q"], "n": [77]}, schema=SCHEMA), outside)
    broken.table.add_files([str(outside)])
    outside.unlink()

    (repair,) = broken.plan(data=False).repairs
    assert (repair.repair, repair.is_chosen) == ("drop-unreachable-data-files", False)
    result = broken.plan("drop-unreachable-data-files", data=False).apply()
    assert (result.rows_lost, broken.findings()) == (1, [])
    snapshot = broken.table.current_snapshot()
    assert snapshot is not None
    assert snapshot.operation == "delete"
