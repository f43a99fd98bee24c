"""`plan_scan` over written manifests: counts, decisions, tasks, and the manifests that are read."""

import json
import struct
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from tests.spec.brute_force import SCHEMA as EVERY_TYPE

from icefloe.errors import InvalidFilterError, ManifestFormatError
from icefloe.scan.decisions import Reason
from icefloe.scan.scan_plan import ScanPlan
from icefloe.scan.scan_planner import plan_scan
from icefloe.spec.expressions.predicate import AlwaysTrue
from icefloe.spec.expressions.row_filter import to_expression
from icefloe.spec.manifest.data_file import DataFile, FileFormat
from icefloe.spec.manifest.entry import ManifestEntry, ManifestEntryStatus
from icefloe.spec.manifest.manifest_columns import ENTRY_FIELDS
from icefloe.spec.manifest.manifest_writer import write_manifest
from icefloe.spec.manifest_list.manifest_file import ManifestContent
from icefloe.spec.manifest_list.manifest_list_writer import write_manifest_list
from icefloe.spec.metadata.metadata_writer import write_table_metadata
from icefloe.spec.metadata.new_table import new_table_metadata
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.partitioning.partition_spec import PartitionField, PartitionSpec, fields_to_json, partition_type
from icefloe.spec.partitioning.transforms import IdentityTransform, MonthTransform
from icefloe.spec.schema.schema import Schema
from icefloe.spec.schema.schema_json import schema_to_json
from icefloe.spec.types import TimestampNanoType, TimestamptzNanoType

# The columns that format version 2 allows.
SCHEMA = Schema(*(field for field in EVERY_TYPE.fields if not isinstance(field.field_type, TimestampNanoType | TimestamptzNanoType)))
BY_MONTH = PartitionSpec(PartitionField(7, 1000, MonthTransform(), "t_month"), PartitionField(3, 1001, IdentityTransform(), "s"))
UNPARTITIONED = PartitionSpec(spec_id=1)
# Months since 1970.
MARCH, JUNE = 518, 521


def data_file(path: str, partition: tuple[Any, ...], low: int, high: int, **more: Any) -> DataFile:
    """A file of ten rows and 1,000 bytes, with bounds of column `i`."""
    return DataFile(
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=partition,
        record_count=10,
        file_size_in_bytes=1000,
        value_counts={1: 10},
        null_value_counts={1: 0},
        nan_value_counts={},
        lower_bounds={1: struct.pack("<i", low), 3: b"A"},
        upper_bounds={1: struct.pack("<i", high), 3: b"z"},
        split_offsets=(4, 500),
        sort_order_id=0,
        **more,
    )


class Warehouse:
    """A table in memory: the written files by path, and the paths that were read."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.read_paths: list[str] = []
        self.manifests: list[Any] = []

    def read(self, path: str) -> bytes:
        self.read_paths.append(path)
        return self.files[path]

    def add_manifest(
        self,
        path: str,
        spec: PartitionSpec,
        entries: list[ManifestEntry],
        content: ManifestContent = ManifestContent.DATA,
        version: int = 2,
    ) -> None:
        data, manifest = write_manifest(
            entries,
            path=path,
            schema=SCHEMA,
            schema_json=json.dumps(schema_to_json(SCHEMA)),
            spec_fields_json=json.dumps(fields_to_json(spec)),
            spec_id=spec.spec_id,
            partition_type=partition_type(spec, SCHEMA),
            snapshot_id=1,
            format_version=version,
            content=content,
        )
        self.files[path] = data
        self.manifests.append(manifest)

    def table(self) -> TableMetadata:
        """Metadata with one snapshot over the manifests."""
        self.files["snap.avro"] = write_manifest_list(
            self.manifests, format_version=2, snapshot_id=1, parent_snapshot_id=None, sequence_number=5
        )
        empty = new_table_metadata(location="t", schema=SCHEMA, spec=BY_MONTH, table_uuid="6a1c", now_ms=0)
        snapshot = Snapshot(
            snapshot_id=1, timestamp_ms=0, sequence_number=5, manifest_list="snap.avro", summary={"operation": "append"}, schema_id=0
        )
        return replace(
            empty, partition_specs=[BY_MONTH, UNPARTITIONED], snapshots=[snapshot], current_snapshot_id=1, last_sequence_number=5
        )

    def plan(self, text: str | None = None, **options: Any) -> ScanPlan:
        table = self.table()
        self.read_paths.clear()
        return plan_scan(table, table.current_snapshot(), to_expression(text), self.read, **options)


def added(file: DataFile) -> ManifestEntry:
    return ManifestEntry(
        status=ManifestEntryStatus.ADDED, snapshot_id=None, sequence_number=None, file_sequence_number=None, data_file=file
    )


def older(file: DataFile, status: ManifestEntryStatus = ManifestEntryStatus.EXISTING) -> ManifestEntry:
    return ManifestEntry(status=status, snapshot_id=9, sequence_number=3, file_sequence_number=3, data_file=file)


@pytest.fixture
def warehouse() -> Warehouse:
    """Three manifests: March (JFK and EWR), June with a file that was deleted, and files without partition."""
    warehouse = Warehouse()
    warehouse.add_manifest(
        "march.avro", BY_MONTH, [added(data_file("m1", (MARCH, "JFK"), 0, 9)), added(data_file("m2", (MARCH, "EWR"), 10, 19))]
    )
    warehouse.add_manifest(
        "june.avro",
        BY_MONTH,
        [older(data_file("j1", (JUNE, "JFK"), 0, 9)), older(data_file("j2", (JUNE, "JFK"), 0, 9), ManifestEntryStatus.DELETED)],
    )
    warehouse.add_manifest("flat.avro", UNPARTITIONED, [added(data_file("u1", (), 0, 4)), added(data_file("u2", (), 5, 9))])
    return warehouse


PLANS_WITHOUT_PANDAS = """
import sys
from pathlib import Path
from icefloe.spec.expressions.row_filter import to_expression
from icefloe.spec.metadata.metadata_reader import read_table_metadata
from icefloe.scan.scan_planner import plan_scan

folder = Path(sys.argv[1])
table = read_table_metadata((folder / "table.json").read_bytes(), "table.json")
for text in (None, "i = 3", "t >= '2013-06-01' AND s = 'JFK'", "s LIKE 'J%' OR i IS NULL", "s IN ('EWR', 'LGA') AND i != 3"):
    plan = plan_scan(table, table.current_snapshot(), to_expression(text), lambda path: (folder / path).read_bytes(), find_covered=True)
    print(len(list(plan.tasks())))
assert "pandas" not in sys.modules
"""


@pytest.mark.slow  # planning with deletes in test_plan_deletes.py imports the same and more
def test_planning_does_not_import_pandas(warehouse, tmp_path):
    (tmp_path / "table.json").write_bytes(write_table_metadata(warehouse.table()))
    for path, content in warehouse.files.items():
        (tmp_path / path).write_bytes(content)
    done = subprocess.run([sys.executable, "-c", PLANS_WITHOUT_PANDAS, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[0] == "5"


def test_without_a_filter_every_live_file_is_planned_and_no_statistics_are_decoded(warehouse):
    plan = warehouse.plan()
    assert [task.file.file_path for task in plan.tasks()] == ["m1", "m2", "j1", "u1", "u2"]
    assert (plan.manifests_total, plan.manifests_skipped, plan.manifests_read) == (3, 0, 3)
    assert (plan.files_considered, plan.files_kept, plan.bytes_kept, plan.records_before_deletes) == (5, 5, 5000, 50)
    assert all("bound" not in name and "count" not in name for name in plan.files.column_names if name != "record_count")
    assert plan.files["spec_id"].to_pylist() == [0, 0, 0, 1, 1]
    assert plan.decisions == ()


def test_tasks_have_the_file_its_sequence_numbers_and_its_partition(warehouse):
    first, _, existing, flat, _ = warehouse.plan().tasks()
    assert first.file == DataFile(
        file_path="m1",
        file_format=FileFormat.PARQUET,
        record_count=10,
        file_size_in_bytes=1000,
        partition=(MARCH, "JFK"),
        split_offsets=(4, 500),
        sort_order_id=0,
        spec_id=0,
    )
    assert (first.sequence_number, first.file_sequence_number) == (5, 5)
    assert (existing.sequence_number, existing.file_sequence_number) == (3, 3)
    assert (flat.spec_id, flat.file.spec_id, flat.file.partition) == (1, 1, ())
    assert (first.start, first.length, first.is_covered, first.residual) == (0, 1000, False, AlwaysTrue())


def test_a_manifest_that_the_filter_rules_out_is_not_read(warehouse):
    plan = warehouse.plan("t >= '2013-06-01' AND s = 'JFK' AND i < 5", explain=True)
    assert warehouse.read_paths == ["snap.avro", "june.avro", "flat.avro"]
    assert [task.file.file_path for task in plan.tasks()] == ["j1", "u1"]
    assert (plan.manifests_skipped, plan.files_in_skipped_manifests, plan.records_in_skipped_manifests) == (1, 2, 20)
    assert (plan.files_considered, plan.files_skipped_by_partition, plan.files_skipped_by_metrics) == (3, 0, 1)
    assert (plan.bytes_kept, plan.bytes_skipped, plan.records_skipped) == (2000, 1000, 10)
    assert plan.manifest_bytes_skipped == len(warehouse.files["march.avro"])
    assert plan.manifest_bytes_read == len(warehouse.files["june.avro"]) + len(warehouse.files["flat.avro"])


def test_every_manifest_and_file_has_a_decision_in_the_order_of_the_list(warehouse):
    decisions = warehouse.plan("s = 'JFK' AND i >= 5 AND t < '2013-06-01'", explain=True).decisions
    assert [(one.level, one.path, one.kept, one.reason, one.explanation, one.partition) for one in decisions] == [
        ("manifest", "march.avro", True, Reason.MAY_MATCH, "", ""),
        ("file", "m1", True, Reason.MAY_MATCH, "", "t_month=2013-03/s=JFK"),
        ("file", "m2", False, Reason.BY_PARTITION, "partition s is 'EWR', required: = 'JFK'", "t_month=2013-03/s=EWR"),
        ("manifest", "june.avro", False, Reason.BY_PARTITION, "partition t_month: lower 2013-06 > 2013-05", ""),
        ("manifest", "flat.avro", True, Reason.MAY_MATCH, "", ""),
        ("file", "u1", False, Reason.BY_METRICS, "i: upper bound 4 < 5", ""),
        ("file", "u2", True, Reason.MAY_MATCH, "", ""),
    ]
    assert str(decisions[2]) == "skip file m2: skipped by partition (partition s is 'EWR', required: = 'JFK')"


def test_residuals_leave_out_predicates_that_the_partition_decides(warehouse):
    tasks = {task.file.file_path: str(task.residual) for task in warehouse.plan("t >= '2013-06-01' AND i < 3").tasks()}
    assert tasks == {"j1": "i < 3", "u1": "t >= TIMESTAMP '2013-06-01 00:00:00' AND i < 3"}


def test_covered_files_are_found_on_request(warehouse):
    plan = warehouse.plan("s = 'JFK' AND i < 10", find_covered=True)
    assert {task.file.file_path: task.is_covered for task in plan.tasks()} == {"m1": True, "j1": True, "u1": False, "u2": False}
    assert not any(task.is_covered for task in warehouse.plan("s = 'JFK' AND i < 10").tasks())


def test_statistics_are_in_the_files_on_request(warehouse):
    file = next(iter(warehouse.plan("i = 1", include_statistics=True).tasks())).file
    assert file == replace(data_file("m1", (MARCH, "JFK"), 0, 9), nan_value_counts=None)


def test_a_table_without_a_snapshot_has_an_empty_plan(warehouse):
    plan = plan_scan(warehouse.table(), None, to_expression("i = 1"), warehouse.read)
    assert (plan.snapshot_id, list(plan.tasks()), plan.files.num_rows, plan.files_kept, plan.manifests_total) == (None, [], 0, 0, 0)
    assert plan.files.schema.names == [*warehouse.plan().files.schema.names[: len(ENTRY_FIELDS)], "spec_id"]


def test_a_filter_that_is_never_true_reads_no_manifest(warehouse):
    plan = warehouse.plan("i > 3000000000", explain=True)
    assert warehouse.read_paths == ["snap.avro"]
    assert {decision.reason for decision in plan.decisions} == {Reason.NEVER_TRUE}


def test_manifests_without_live_files_are_not_read(warehouse):
    warehouse.add_manifest("gone.avro", BY_MONTH, [older(data_file("g", (JUNE, "JFK"), 0, 9), ManifestEntryStatus.DELETED)])
    plan = warehouse.plan("i = 1", explain=True)
    assert "gone.avro" not in warehouse.read_paths
    assert [decision.reason for decision in plan.decisions if decision.path == "gone.avro"] == [Reason.NO_LIVE_FILES]


def test_manifests_read_in_parallel_give_the_same_plan(warehouse):
    def in_threads(function: Callable[[Any], Any], items: Any) -> list[Any]:
        with ThreadPoolExecutor(3) as pool:
            return list(pool.map(function, items))

    assert list(warehouse.plan("i < 5", parallel=in_threads).tasks()) == list(warehouse.plan("i < 5").tasks())


def test_an_unknown_partition_spec_is_named(warehouse):
    table = replace(warehouse.table(), partition_specs=[BY_MONTH])
    with pytest.raises(ManifestFormatError, match=r"flat\.avro.*partition spec 1"):
        plan_scan(table, table.current_snapshot(), AlwaysTrue(), warehouse.read)


def test_a_filter_is_bound_before_anything_is_read(warehouse):
    with pytest.raises(InvalidFilterError, match="nothere"):
        warehouse.plan("nothere = 1")
    assert warehouse.read_paths == []


def test_names_match_without_case_on_request(warehouse):
    assert warehouse.plan("I < 5", case_sensitive=False).files_kept == 3
