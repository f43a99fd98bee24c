"""Groups of files that a copy-on-write operation writes together: by partition and spec, up to the advisory size, without unchanged files."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.datafile.copy_file_group import RewriteGroup
from icefloe.datafile.write_target import WriteTarget
from icefloe.io.local_file_io import LocalFileIO
from icefloe.operations.rows.copy_on_write_groups import LARGE_AMONG_NEW_BYTES, LARGE_NEW_FILE_BYTES, groups_of
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spec.expressions.predicate import AlwaysTrue
from icefloe.spec.manifest.data_file import DataFile, FileFormat
from icefloe.spec.partitioning.sort_order import SortField, SortOrder
from icefloe.spec.partitioning.transforms import IdentityTransform
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import LongType, NestedField

MB = 1024 * 1024
TARGET = WriteTarget(
    table_name="db.t", schema=Schema(NestedField(1, "id", LongType())), data_location="/none", io=LocalFileIO(), operation_uuid="u"
)
SORTED = replace(TARGET, sort_order=SortOrder(SortField(source_id=1, transform=IdentityTransform()), order_id=1), sort_order_id=1)


def file(name: str, size: int, rows: int = 1000, partition: Any = None, spec_id: int = 0) -> DataFile:
    return DataFile(
        file_path=name,
        file_format=FileFormat.PARQUET,
        record_count=rows,
        file_size_in_bytes=size,
        partition=(partition,),
        spec_id=spec_id,
    )


def source(name: str, size: int, rows: int = 1000, gone: int = 1, **where: Any) -> tuple[FileScanTask, Any]:
    found = file(name, size, rows, **where)
    return FileScanTask(file=found, residual=AlwaysTrue(), length=size), np.arange(gone)


def named(groups: list[RewriteGroup]) -> list[tuple[list[str], list[str]]]:
    return [([task.file.file_path for task, _ in group.sources], [new.file_path for new in group.new_files]) for group in groups]


def grouped(found: Any, new: Any = (), target: WriteTarget = TARGET, **properties: str) -> list[tuple[list[str], list[str]]]:
    return named(groups_of(found, new, replace(target, properties=properties), keeps_row_ids=False))


def test_small_files_are_one_group_with_the_new_rows() -> None:
    sources = [source(name, MB) for name in "abc"]
    assert grouped(sources, [file("new", MB)]) == [(["a", "b", "c"], ["new"])]


def test_a_file_of_the_advisory_size_is_a_separate_group() -> None:
    sources = [source(name, 1000, gone=0) for name in "abc"]
    size = {"write.spark.advisory-partition-size-bytes": "100"}
    assert grouped(sources, [file("new", 900)], **size) == [(["a"], ["new"]), (["b"], []), (["c"], [])]
    assert grouped([], [file("new", 900), file("newer", 900)], **size) == []
    assert grouped(sources, **{"write.target-file-size-bytes": "2000"}) == [(["a", "b"], []), (["c"], [])]


def test_each_partition_and_spec_is_a_separate_group() -> None:
    nan = float("nan")
    found = [
        source("a", 10, partition=1),
        source("b", 10, partition=None),
        source("c", 10, partition=1, spec_id=1),
        source("d", 10, partition=nan),
    ]
    new = [file("x", 10, partition=1), file("y", 10, partition=nan), file("z", 10, partition=2)]
    assert grouped(found, new) == [(["a"], ["x"]), (["b"], []), (["c"], []), (["d"], ["y"])]


def test_files_without_remaining_rows_are_in_no_group() -> None:
    sources = [source("a", 10, rows=5, gone=5), source("b", 10, rows=5, gone=4)]
    assert grouped(sources, [file("new", 10)]) == [(["b"], ["new"])]
    assert grouped(sources[:1], [file("new", 10)]) == []
    assert grouped(sources[:1], [file("new", 10), file("newer", 10)]) == [([], ["new", "newer"])]


def test_large_files_of_new_rows_are_not_rewritten() -> None:
    assert grouped([source("a", MB)], [file("new", LARGE_NEW_FILE_BYTES)]) == [(["a"], [])]
    assert grouped([], [file("new", LARGE_AMONG_NEW_BYTES), file("newer", 10)]) == []


@pytest.mark.parametrize(("rows", "groups"), [(1000, [(["a", "b"], ["new"])]), (100_000_000, [(["a"], []), (["b"], [])])])
def test_groups_of_a_sorted_table_fit_into_memory(rows: int, groups: Any) -> None:
    found = groups_of([source("a", MB, rows), source("b", MB, rows)], [file("new", MB)], SORTED, keeps_row_ids=True)
    assert named(found) == groups
    assert {(group.sorts, group.keeps_row_ids) for group in found} == {(rows == 1000, True)}


@given(
    st.lists(st.tuples(st.integers(0, 100 * MB), st.integers(1, 2000), st.integers(0, 2000), st.integers(0, 2))),
    st.lists(st.tuples(st.integers(0, 40 * MB), st.integers(0, 3))),
    st.booleans(),
)
def test_every_file_is_in_one_group_or_is_unchanged_or_deleted(sources: Any, new: Any, is_sorted: bool) -> None:
    found = [source(f"s{n}", size, rows, min(gone, rows), partition=part) for n, (size, rows, gone, part) in enumerate(sources)]
    files = [file(f"n{n}", size, partition=part) for n, (size, part) in enumerate(new)]
    groups = groups_of(found, files, SORTED if is_sorted else TARGET, keeps_row_ids=False)
    inside = [name for group in named(groups) for part in group for name in part]
    assert len(inside) == len(set(inside))
    emptied = {task.file.file_path for task, gone in found if len(gone) == task.file.record_count}
    assert {task.file.file_path for task, _ in found} - set(inside) == emptied
    for group in groups:
        assert len({(one.spec_id, one.partition) for one in (*(task.file for task, _ in group.sources), *group.new_files)}) == 1
        assert group.sources or len(group.new_files) > 1
