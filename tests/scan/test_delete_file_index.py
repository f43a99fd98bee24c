"""`DeleteFileIndex`, compared with a matcher that applies the scope rules of the specification to one pair after another."""

import math
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import examples

from icefloe.errors import ManifestFormatError
from icefloe.scan import delete_file_index
from icefloe.scan.delete_file_index import FILE_PATH_ID, DeleteFileIndex, DeleteFilesOfSpec
from icefloe.spec.manifest.manifest_columns import partition_column, statistic_column
from icefloe.spec.partitioning.partition_spec import PartitionField, PartitionSpec
from icefloe.spec.partitioning.transforms import IdentityTransform, UnknownTransform, VoidTransform
from icefloe.spec.types import DoubleType, IntegerType, NestedField, StringType, StructType
from icefloe.spec.values import to_bytes

ID, NAME = 1, 2
KINDS = {ID: IntegerType(), NAME: StringType()}
TWO_FIELDS = StructType(NestedField(1000, "f", DoubleType()), NestedField(1001, "z", StringType()))
ONE_FIELD = StructType(NestedField(1000, "f", DoubleType()))
SPECS = {
    0: (
        PartitionSpec(PartitionField(5, 1000, IdentityTransform(), "f"), PartitionField(6, 1001, UnknownTransform("zorder"), "z")),
        TWO_FIELDS,
    ),
    1: (PartitionSpec(PartitionField(5, 1000, VoidTransform(), "f"), spec_id=1), ONE_FIELD),
    2: (PartitionSpec(spec_id=2), StructType()),
}
# No writer gives -0.0 and 0.0 to one partition, and every writer's NaN is one.
OTHER_NAN = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000001))[0]
FLOATS = [None, 1.5, 0.0, -0.0, math.nan, OTHER_NAN]
PATHS = ["s3://b/a", "s3://b/b", "s3://b/ba", "s3://b/c"]
NAMES = ["", "a", "ab", "b", "ba"]


@dataclass
class File:
    """A data file with its rows, or a delete file with the rows of (id, name) or the paths that it deletes."""

    path: str
    spec: int
    partition: tuple[Any, ...]
    number: int
    content: int = 0
    format: str = "PARQUET"
    rows: tuple[tuple[Any, Any], ...] = ()
    paths: tuple[str, ...] = ()
    referenced: str | None = None
    ids: tuple[int, ...] | None = None
    has_bounds: bool = True


def applies(delete: File, data: File, deletes: list[File]) -> bool:
    """Return whether a delete file is in the scope of a data file, by the rules of Scan Planning."""
    same = delete.spec == data.spec and [canonical(value) for value in delete.partition] == [canonical(value) for value in data.partition]
    if delete.content == 2:
        is_global = all(isinstance(field.transform, VoidTransform) for field in SPECS[delete.spec][0].fields)
        return data.number < delete.number and (same or is_global)
    if not same or data.number > delete.number or delete.referenced not in (None, data.path):
        return False
    if delete.format == "PUFFIN":
        return delete.referenced == data.path
    return not any(other.format == "PUFFIN" and applies(other, data, []) for other in deletes)


def changes(delete: File, data: File) -> bool:
    """Return whether the delete file deletes a row of the data file, by its values or by its path."""
    if delete.content == 1:
        return data.path in delete.paths
    columns = [field_id - 1 for field_id in delete.ids or ()]
    return any(all(row[column] == deleted[column] for column in columns) for row in data.rows for deleted in delete.rows)


def canonical(value: Any) -> Any:
    return struct.pack("<d", math.nan if math.isnan(value) else value) if isinstance(value, float) else value


@st.composite
def partitions(draw: st.DrawFn, spec: int) -> tuple[Any, ...]:
    if spec == 0:
        return draw(st.sampled_from(FLOATS)), draw(st.sampled_from([None, "x"]))
    return (None,) if spec == 1 else ()


@st.composite
def data_files(draw: st.DrawFn) -> list[File]:
    found = []
    for path in PATHS[: draw(st.integers(1, len(PATHS)))]:
        spec = draw(st.sampled_from([0, 0, 1, 2]))
        found.append(File(path, spec, draw(partitions(spec)), draw(st.integers(0, 4)), rows=draw(row_tuples())))
    return found


def row_tuples() -> st.SearchStrategy[tuple[tuple[Any, Any], ...]]:
    return st.lists(st.tuples(st.sampled_from([None, 1, 2, 3, 9]), st.sampled_from([None, *NAMES])), max_size=3).map(tuple)


@st.composite
def delete_files(draw: st.DrawFn, data: list[File]) -> list[File]:
    found: list[File] = []
    for number in range(draw(st.integers(0, 8))):
        spec = draw(st.sampled_from([0, 0, 1, 2]))
        partition = draw(partitions(spec))
        near = draw(st.sampled_from([*data, None]))
        if near is not None:
            spec, partition = near.spec, near.partition
        file = File(f"d{number}", spec, partition, draw(st.integers(0, 5)), has_bounds=draw(st.booleans()))
        match draw(st.sampled_from(["vector", "one", "many", "equality", "equality"])):
            case "vector":
                file.content, file.format, file.referenced = 1, "PUFFIN", draw(st.sampled_from(PATHS))
                file.paths = (file.referenced,)
                if any(other.format == "PUFFIN" and other.referenced == file.referenced for other in found):
                    continue
            case "one":
                file.content, file.paths = 1, (draw(st.sampled_from(PATHS)),)
                file.referenced = draw(st.sampled_from([None, file.paths[0]]))
            case "many":
                file.content, file.paths = 1, tuple(draw(st.lists(st.sampled_from(PATHS), min_size=1, max_size=3)))
            case _:
                file.content, file.ids = 2, draw(st.sampled_from([(ID,), (NAME,), (ID, NAME)]))
                file.rows = draw(row_tuples())
        found.append(file)
    return found


def table_of(files: list[File], spec: int) -> pa.Table:
    """Return the files as the columns of a manifest, with exact statistics or none; bounds of longer names are truncated."""
    columns = {
        "content": pa.array([file.content for file in files], pa.int32()),
        "file_path": pa.array([file.path for file in files], pa.string()),
        "file_format": pa.array([file.format for file in files], pa.string()),
        "sequence_number": pa.array([file.number for file in files], pa.int64()),
        "record_count": pa.array([len(file.rows) or len(file.paths) for file in files], pa.int64()),
        "referenced_data_file": pa.array([file.referenced for file in files], pa.string()),
        "equality_ids": pa.array([file.ids for file in files], pa.list_(pa.int32())),
    }
    for place, field in enumerate(SPECS[spec][1].fields):
        kind = pa.float64() if isinstance(field.field_type, DoubleType) else pa.string()
        columns[partition_column(field.field_id)] = pa.array([file.partition[place] for file in files], kind)
    for field_id, kind in KINDS.items():
        values = [[row[field_id - 1] for row in file.rows] for file in files]
        for name in ("value_count", "null_value_count"):
            counts = [len(cells) if name == "value_count" else cells.count(None) for cells in values]
            columns[statistic_column(name, field_id)] = pa.array(
                [count if file.has_bounds else None for count, file in zip(counts, files, strict=True)], pa.int64()
            )
        for name, pick in (("lower_bound", min), ("upper_bound", max)):
            bounds = [bound(kind, pick, cells) if file.has_bounds else None for cells, file in zip(values, files, strict=True)]
            columns[statistic_column(name, field_id)] = pa.array(bounds, pa.binary())
    for name, pick in (("lower_bound", min), ("upper_bound", max)):
        paths = [pick(file.paths).encode() if file.paths and file.has_bounds else None for file in files]
        columns[statistic_column(name, FILE_PATH_ID)] = pa.array(paths, pa.binary())
    return pa.table(columns)


def bound(kind: Any, pick: Any, cells: list[Any]) -> bytes | None:
    ordinary = [cell for cell in cells if cell is not None]
    if not ordinary:
        return None
    value = pick(ordinary)
    if isinstance(value, str) and len(value) > 1:  # truncated to one character, the upper bound to the next character
        value = value[0] if pick is min else chr(ord(value[0]) + 1)
    return to_bytes(kind, value)


def index_of(deletes: list[File]) -> tuple[DeleteFileIndex, list[File]]:
    parts, order = [], []
    for spec, (partition_spec, kind) in SPECS.items():
        found = [file for file in deletes if file.spec == spec]
        if found:
            parts.append(DeleteFilesOfSpec(entries=table_of(found, spec), spec=partition_spec, partition_type=kind))
            order += found
    return DeleteFileIndex(parts, KINDS), order


def matched(deletes: list[File], data: list[File]) -> dict[str, list[str]]:
    """Return the paths of the delete files of each data file."""
    index, order = index_of(deletes)
    assert len(index) == len(order)
    found: dict[str, list[str]] = {}
    for spec in SPECS:
        files = [file for file in data if file.spec == spec]
        matches = index.match(table_of(files, spec), spec)
        for place, file in enumerate(files):
            numbers = [] if matches is None else matches.indices[matches.offsets[place] : matches.offsets[place + 1]].tolist()
            assert numbers == sorted(set(numbers))
            found[file.path] = [order[number].path for number in numbers]
    return found


@settings(max_examples=examples(600))
@given(st.data())
def test_the_index_finds_the_delete_files_in_scope_except_those_that_bounds_rule_out(draw):
    data = draw.draw(data_files())
    deletes = draw.draw(delete_files(data))
    found = matched(deletes, data)
    for file in data:
        in_scope = {delete.path for delete in deletes if applies(delete, file, deletes)}
        needed = {delete.path for delete in deletes if delete.path in in_scope and changes(delete, file)}
        assert needed <= set(found[file.path]) <= in_scope
        unbounded = [delete for delete in deletes if delete.path in in_scope and not (delete.has_bounds and file.has_bounds)]
        # Without bounds a delete file is ruled out only by the paths that position deletes contain, or where one side has no rows.
        assert {delete.path for delete in unbounded if not can_be_ruled_out(delete, file)} <= set(found[file.path])


def can_be_ruled_out(delete: File, data: File) -> bool:
    return delete.has_bounds if delete.content == 1 else not (delete.rows and data.rows)


@settings(max_examples=examples(100))
@given(st.data())
def test_matching_in_small_blocks_of_pairs_gives_the_same_result(draw):
    data = draw.draw(data_files())
    deletes = draw.draw(delete_files(data))
    whole = matched(deletes, data)
    before = delete_file_index.MAX_PAIRS
    try:
        delete_file_index.MAX_PAIRS = draw.draw(st.integers(1, 3))
        assert matched(deletes, data) == whole
    finally:
        delete_file_index.MAX_PAIRS = before


DATA = File(PATHS[0], 0, (1.5, "x"), 3, rows=((5, "m"), (7, "n")))


def equality(rows: tuple[tuple[Any, Any], ...], **more: Any) -> File:
    return File(**{"path": "d", "spec": 0, "partition": (1.5, "x"), "number": 4, "content": 2, "ids": (ID,), "rows": rows, **more})


@pytest.mark.parametrize(
    ("delete", "is_found"),
    [
        (equality(((5, None),)), True),
        (equality(((8, None), (9, None))), False),
        (equality(((None, None),)), False),  # the data file has no null
        (equality(((4, None), (8, None))), True),
        (equality(((8, None),), has_bounds=False), True),
        (equality(((8, "m"),), ids=(ID, NAME)), False),
        (equality(((5, "m"),), number=3), False),
        (equality(((5, "m"),), partition=(1.5, None)), False),
        (equality(((5, "m"),), spec=2, partition=()), True),
        (equality(((5, "m"),), spec=1, partition=(None,)), True),
        (equality(((5, "m"),), spec=2, partition=(), number=3), False),
        (File("d", 0, (1.5, "x"), 3, 1, paths=(PATHS[0], PATHS[1])), True),
        (File("d", 0, (1.5, "x"), 2, 1, paths=(PATHS[0], PATHS[1])), False),
        (File("d", 0, (1.5, "x"), 3, 1, paths=(PATHS[1], PATHS[2])), False),  # the bounds of its paths rule it out
        (File("d", 0, (1.5, "x"), 3, 1, paths=(PATHS[1],), has_bounds=False), True),
        (File("d", 2, (), 3, 1, paths=(PATHS[0],)), False),  # there are no global position deletes
        (File("d", 0, (1.5, "x"), 3, 1, "PUFFIN", referenced=PATHS[0]), True),
        (File("d", 0, (1.5, "x"), 3, 1, "PUFFIN", referenced=PATHS[1]), False),
        (File("d", 0, (2.5, "x"), 3, 1, "PUFFIN", referenced=PATHS[0]), False),
        (File("d", 0, (1.5, "x"), 2, 1, "PUFFIN", referenced=PATHS[0]), False),
    ],
)
def test_one_delete_file_is_matched_to_one_data_file(delete, is_found):
    assert matched([delete], [DATA]) == {DATA.path: ["d"] if is_found else []}


def test_two_deletion_vectors_of_one_data_file_are_refused_with_their_names():
    vectors = [
        File(f"d{number}", spec, (1.5, "x") if spec == 0 else (), 3, 1, "PUFFIN", referenced=PATHS[0]) for number, spec in enumerate((0, 2))
    ]
    with pytest.raises(ManifestFormatError, match=r"two deletion vectors.*s3://b/a.*d0 and d1"):
        index_of(vectors)


def test_a_data_file_without_sequence_number_is_refused_where_deletes_may_apply():
    index, _ = index_of([equality(((5, "m"),))])
    table = table_of([DATA], 0)
    at = table.column_names.index("sequence_number")
    without = table.set_column(at, "sequence_number", pa.array([None], pa.int64()))
    with pytest.raises(ManifestFormatError, match=r"data file s3://b/a has no sequence number"):
        index.match(without, 0)
    assert index.match(without, 2) is None


def test_ten_thousand_vectors_and_a_hundred_thousand_files_are_matched_as_columns():
    count, deletes = 100_000, 10_000
    files = pa.table(
        {
            "file_path": pa.array([f"s3://bucket/data/file-{number}.parquet" for number in range(count)]),
            "sequence_number": pa.array(np.zeros(count, dtype=np.int64)),
        }
    )
    vectors = [
        File(f"v{number}", 2, (), 1, 1, "PUFFIN", referenced=f"s3://bucket/data/file-{number * 10}.parquet") for number in range(deletes)
    ]
    index, _ = index_of(vectors)
    matches = index.match(files, 2)
    assert matches is not None
    assert np.flatnonzero(np.diff(matches.offsets)).tolist() == list(range(0, count, 10))
    assert matches.indices.tolist() == list(range(deletes))
