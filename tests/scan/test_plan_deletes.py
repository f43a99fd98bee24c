"""`plan_scan` over manifests with delete files: which manifests are read, which delete files the tasks have, and the decisions for the others."""

import struct
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.scan.test_scan_planner import (
    BY_MONTH,
    JUNE,
    MARCH,
    PLANS_WITHOUT_PANDAS,
    UNPARTITIONED,
    Warehouse,
    added,
    data_file,
    older,
)

from icefloe.errors import ManifestFormatError
from icefloe.scan.decisions import Reason
from icefloe.scan.delete_file_index import FILE_PATH_ID
from icefloe.scan.live_deletes import LiveDeletes
from icefloe.scan.scan_plan import ScanPlan
from icefloe.scan.scan_planner import plan_scan
from icefloe.spec.expressions.row_filter import to_expression
from icefloe.spec.manifest.data_file import DataFile, FileContent, FileFormat
from icefloe.spec.manifest.entry import ManifestEntry, ManifestEntryStatus
from icefloe.spec.manifest_list.manifest_file import ManifestContent
from icefloe.spec.metadata.metadata_writer import write_table_metadata
from icefloe.spec.partitioning.partition_spec import PartitionSpec


def positions(path: str, partition: tuple[Any, ...], first: str, last: str) -> DataFile:
    """Position deletes of the data files from `first` to `last`."""
    return DataFile(
        file_path=path,
        file_format=FileFormat.PARQUET,
        content=FileContent.POSITION_DELETES,
        partition=partition,
        record_count=2,
        file_size_in_bytes=100,
        lower_bounds={FILE_PATH_ID: first.encode()},
        upper_bounds={FILE_PATH_ID: last.encode()},
    )


def equality(path: str, partition: tuple[Any, ...], low: int, high: int) -> DataFile:
    """Equality deletes by column `i`."""
    file = data_file(path, partition, low, high, content=FileContent.EQUALITY_DELETES, equality_ids=(1,))
    return replace(file, sort_order_id=None, split_offsets=None)


def vector(path: str, partition: tuple[Any, ...], target: str, **more: Any) -> DataFile:
    """A deletion vector of three rows of `target`."""
    return DataFile(
        file_path=path,
        file_format=FileFormat.PUFFIN,
        content=FileContent.POSITION_DELETES,
        partition=partition,
        record_count=3,
        file_size_in_bytes=900,
        **{"referenced_data_file": target, "content_offset": 4, "content_size_in_bytes": 50, **more},
    )


class DeletedFrom(Warehouse):
    """March (`m1`, `m2`) and two files without partition (`u1`, `u2`), of sequence number 3; and delete manifests."""

    def __init__(self, version: int = 2) -> None:
        super().__init__()
        self.version = version
        self.add_manifest(
            "march.avro", BY_MONTH, [older(data_file("m1", (MARCH, "JFK"), 0, 9)), older(data_file("m2", (MARCH, "EWR"), 10, 19))]
        )
        self.add_manifest("flat.avro", UNPARTITIONED, [older(data_file("u1", (), 0, 4)), older(data_file("u2", (), 5, 9))])

    def deletes(self, path: str, spec: PartitionSpec, *files: DataFile, entry: Any = added) -> None:
        self.add_manifest(path, spec, [entry(file) for file in files], ManifestContent.DELETES, self.version)

    def found(self, text: str | None = None, **options: Any) -> dict[str, list[str]]:
        return applied(self.plan(text, **options))


def applied(plan: ScanPlan) -> dict[str, list[str]]:
    return {task.file.file_path: [file.file_path for file in task.delete_files] for task in plan.tasks()}


def test_tasks_carry_the_delete_files_that_apply_as_objects():
    table = DeletedFrom()
    by_position, by_value = positions("p1", (MARCH, "JFK"), "m1", "m1"), equality("e1", (), 0, 3)
    table.deletes("d1.avro", BY_MONTH, by_position, positions("p2", (JUNE, "JFK"), "j1", "j1"))
    table.deletes("d2.avro", UNPARTITIONED, by_value)
    plan = table.plan()
    assert applied(plan) == {"m1": ["p1", "e1"], "m2": [], "u1": ["e1"], "u2": []}
    first = next(iter(plan.tasks()))
    assert first.delete_files == (
        replace(by_position, spec_id=0),  # its bounds show that it applies to one data file only
        DataFile(
            file_path="e1",
            file_format=FileFormat.PARQUET,
            content=FileContent.EQUALITY_DELETES,
            record_count=10,
            file_size_in_bytes=1000,
            equality_ids=(1,),
            spec_id=1,
        ),
    )
    assert first.delete_files[0].partition == (MARCH, "JFK")
    assert (len(plan.delete_files), plan.delete_files_considered, plan.delete_manifests_total) == (2, 3, 2)
    assert (plan.records_before_deletes, plan.records_after_deletes) == (40, None)


def test_a_deletion_vector_replaces_position_deletes_and_gives_an_exact_count_of_rows():
    table = DeletedFrom(version=3)
    table.version = 2
    table.deletes("old.avro", BY_MONTH, positions("p1", (MARCH, "JFK"), "m1", "m1"), entry=older)
    table.version = 3
    deletion_vector = vector("v", (MARCH, "JFK"), "m1")
    table.deletes("d1.avro", BY_MONTH, deletion_vector)
    plan = table.plan()
    assert applied(plan) == {"m1": ["v"], "m2": [], "u1": [], "u2": []}
    assert plan.delete_files == (replace(deletion_vector, spec_id=0),)
    assert (plan.records_before_deletes, plan.records_after_deletes) == (40, 37)


def test_files_of_a_plan_are_divided_as_if_each_piece_were_taken():
    table = DeletedFrom(version=3)
    table.version = 2
    table.deletes("d1.avro", BY_MONTH, positions("p1", (MARCH, "JFK"), "m1", "m2"), positions("p2", (MARCH, "EWR"), "m1", "m2"))
    table.deletes("d2.avro", UNPARTITIONED, equality("e1", (), 0, 3), equality("e2", (), 0, 30))
    part = next(part for part in table.plan().parts if part.spec_id == 0)
    bare = replace(part, delete_offsets=None, delete_indices=None)
    for files in (part, bare, replace(part, covered=np.array([True, False]))):
        for rows, ends in (([1, 0], [1, 2]), ([0, 1], [2]), ([1], [1]), ([1, 0, 1], [2, 3])):
            pieces = files.divide(np.array(rows), ends)
            starts = [0, *ends[:-1]]
            taken = [files.take(np.array(rows[start:end])) for start, end in zip(starts, ends, strict=True)]
            assert [list(piece.tasks()) for piece in pieces] == [list(piece.tasks()) for piece in taken]
            assert [len(piece) for piece in pieces] == [end - start for start, end in zip(starts, ends, strict=True)]


def test_planning_with_deletes_does_not_import_pandas(tmp_path):
    table = DeletedFrom(version=3)
    table.deletes("d1.avro", BY_MONTH, vector("v", (MARCH, "JFK"), "m1"))
    table.version = 2
    table.deletes("d2.avro", BY_MONTH, positions("p1", (MARCH, "EWR"), "m1", "m2"))
    table.deletes("d3.avro", UNPARTITIONED, equality("e1", (), 0, 3), equality("e2", (), 0, 30))
    (tmp_path / "table.json").write_bytes(write_table_metadata(table.table()))
    for path, content in table.files.items():
        (tmp_path / path).write_bytes(content)
    done = subprocess.run([sys.executable, "-c", PLANS_WITHOUT_PANDAS, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[0] == "4"


def test_delete_files_become_objects_at_the_first_access_and_in_one_call(monkeypatch):
    calls, files = [], LiveDeletes.files
    monkeypatch.setattr(LiveDeletes, "files", lambda self, chosen: calls.append(len(chosen)) or files(self, chosen))
    table = DeletedFrom()
    table.deletes("d1.avro", BY_MONTH, positions("p1", (MARCH, "JFK"), "m1", "m1"))
    table.deletes("d2.avro", UNPARTITIONED, equality("e1", (), 0, 3))
    plan = table.plan()
    assert (len(plan.delete_files), bool(plan.delete_files), calls) == (2, True, [])
    assert applied(plan) == {"m1": ["p1", "e1"], "m2": [], "u1": ["e1"], "u2": []}
    assert plan.delete_files == tuple(plan.delete_files) == plan.delete_files[:]
    assert plan.delete_files != plan.delete_files[:1]
    assert calls == [2]


def test_a_plan_without_deletes_counts_every_row():
    plan = DeletedFrom().plan("i < 5")
    assert (plan.records_before_deletes, plan.records_after_deletes, plan.delete_files) == (20, 20, ())


def test_removed_delete_files_do_not_apply_and_a_manifest_of_only_those_is_not_read():
    table = DeletedFrom()
    dead = equality("e1", (), 0, 9)
    table.add_manifest("d1.avro", UNPARTITIONED, [older(dead, ManifestEntryStatus.DELETED)], ManifestContent.DELETES)
    table.add_manifest(
        "d2.avro", UNPARTITIONED, [older(dead, ManifestEntryStatus.DELETED), added(equality("e2", (), 9, 9))], ManifestContent.DELETES
    )
    assert table.found() == {"m1": ["e2"], "m2": [], "u1": [], "u2": ["e2"]}
    assert "d1.avro" not in table.read_paths


def test_delete_manifests_are_read_first_and_only_where_they_may_matter():
    table = DeletedFrom()
    table.deletes("march-deletes.avro", BY_MONTH, equality("e1", (MARCH, "JFK"), 0, 9))
    table.deletes("june-deletes.avro", BY_MONTH, equality("e2", (JUNE, "JFK"), 0, 9))
    table.deletes("global.avro", UNPARTITIONED, equality("e3", (), 0, 9))
    assert table.found("t < '2013-04-01'") == {"m1": ["e1", "e3"], "m2": [], "u1": ["e3"], "u2": ["e3"]}
    assert table.read_paths == ["snap.avro", "march-deletes.avro", "global.avro", "march.avro", "flat.avro"]
    assert table.found("i > 3000000000") == {}
    assert table.read_paths == ["snap.avro"]


def test_delete_manifests_older_than_every_data_file_are_not_read():
    table = DeletedFrom()
    old = ManifestEntry(ManifestEntryStatus.EXISTING, 9, 2, 2, equality("e1", (), 0, 9))
    table.add_manifest("old.avro", UNPARTITIONED, [old], ManifestContent.DELETES)
    table.manifests[-1] = replace(table.manifests[-1], sequence_number=2, min_sequence_number=2)
    plan = table.plan(explain=True)
    assert "old.avro" not in table.read_paths
    assert [(decision.path, decision.reason) for decision in plan.decisions if decision.level == "delete manifest"] == [
        ("old.avro", Reason.OLDER)
    ]
    assert (plan.manifests_total, plan.manifests_skipped, plan.delete_manifests_skipped) == (3, 1, 1)


def test_equality_deletes_of_rows_outside_the_filter_are_left_out_unless_every_delete_is_requested():
    table = DeletedFrom()
    table.deletes("d.avro", UNPARTITIONED, equality("low", (), 0, 3), equality("high", (), 4, 9))
    assert table.found("i >= 4 AND s = 'JFK'") == {"m1": ["high"], "u1": ["high"], "u2": ["high"]}
    assert table.found("i >= 4 AND s = 'JFK'", every_delete=True) == {"m1": ["low", "high"], "u1": ["low", "high"], "u2": ["high"]}
    # Columns that an equality delete file does not compare do not restrict the rows that it deletes.
    assert table.found("s = 'zz'", every_delete=False) == {}
    assert table.found("s = 'B' AND i < 4")["u1"] == ["low"]


def test_position_deletes_are_never_left_out_by_the_filter():
    table = DeletedFrom()
    file = positions("p", (MARCH, "JFK"), "m1", "m1")
    bounds = {1: struct.pack("<i", 100), FILE_PATH_ID: b"m1"}
    table.deletes("d.avro", BY_MONTH, replace(file, lower_bounds=bounds, upper_bounds=bounds))
    assert table.found("i < 5")["m1"] == ["p"]


def test_a_covered_file_is_covered_with_deletes_too():
    table = DeletedFrom()
    table.deletes("d.avro", UNPARTITIONED, equality("e", (), 0, 9))
    tasks = {task.file.file_path: task for task in table.plan("i < 5", find_covered=True, every_delete=True).tasks()}
    assert (tasks["u1"].is_covered, [file.file_path for file in tasks["u1"].delete_files]) == (True, ["e"])


def test_every_delete_manifest_and_delete_file_has_a_decision():
    table = DeletedFrom()
    table.deletes("d1.avro", BY_MONTH, positions("p1", (MARCH, "JFK"), "m1", "m1"), positions("p2", (MARCH, "EWR"), "x", "y"))
    table.deletes("d2.avro", UNPARTITIONED, equality("e1", (), 0, 3), equality("e2", (), 20, 29))
    table.deletes("d3.avro", BY_MONTH, equality("e3", (JUNE, "JFK"), 0, 9))
    decisions = [one for one in table.plan("i < 10 AND t < '2013-04-01'", explain=True).decisions if "delete" in one.level]
    assert [(one.level, one.path, one.kept, one.reason, one.explanation, one.partition) for one in decisions] == [
        ("delete manifest", "d1.avro", True, Reason.MAY_MATCH, "", ""),
        ("delete file", "p1", True, Reason.APPLIES, "applies to 1 data file", "t_month=2013-03/s=JFK"),
        ("delete file", "p2", False, Reason.NO_DATA_FILE, "", "t_month=2013-03/s=EWR"),
        ("delete manifest", "d2.avro", True, Reason.MAY_MATCH, "", ""),
        ("delete file", "e2", False, Reason.BY_METRICS, "i: lower bound 20 >= 10", ""),
        ("delete file", "e1", True, Reason.APPLIES, "applies to 2 data files", ""),
        ("delete manifest", "d3.avro", False, Reason.BY_PARTITION, "partition t_month: lower 2013-06 > 2013-03", ""),
    ]


def test_two_deletion_vectors_for_one_file_are_an_error_with_both_names():
    table = DeletedFrom(version=3)
    table.deletes("d.avro", BY_MONTH, vector("v1", (MARCH, "JFK"), "m1"), vector("v2", (MARCH, "JFK"), "m1"))
    with pytest.raises(ManifestFormatError, match=r"data file m1, in v1 and v2"):
        table.plan()


def test_statistics_for_matching_are_removed_from_the_plan():
    table = DeletedFrom()
    table.deletes("d.avro", UNPARTITIONED, equality("e", (), 0, 9))
    plan = table.plan("s > 'B'")
    assert not [name for name in plan.files.column_names if "bound" in name or "value_count" in name]
    with_statistics = next(iter(table.plan("s > 'B'", include_statistics=True).tasks()))
    assert with_statistics.file.lower_bounds == {1: struct.pack("<i", 0), 3: b"A"}


def test_a_manifest_whose_content_differs_from_its_list_is_refused_by_name():
    table = DeletedFrom()
    table.deletes("d.avro", UNPARTITIONED, equality("e", (), 0, 9))
    table.manifests[-1] = replace(table.manifests[-1], content=ManifestContent.DATA)
    metadata = table.table()
    with pytest.raises(ManifestFormatError, match=r"d\.avro contains delete files"):
        plan_scan(metadata, metadata.current_snapshot(), to_expression(None), table.read)
