"""Written delete files: their content as PyArrow reads it, compared with the spec; the rows that they delete when read; and their manifest entries."""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.datafile.delete_files import position_deletes, vectors
from tests.datafile.tables import IO, target, task_of, write
from tests.repetitions import examples

from icefloe.datafile.data_file_reader import read_task
from icefloe.datafile.deletes.delete_file_output import RowsToDelete, write_equality_deletes, write_position_deletes, write_vectors
from icefloe.datafile.deletes.delete_loader import DeleteLoader
from icefloe.datafile.write_target import WriteTarget
from icefloe.errors import InvalidInputError, SchemaMismatchError, StorageUnavailableError
from icefloe.spec.manifest.data_file import DataFile, FileContent, FileFormat
from icefloe.spec.partitioning.partition_spec import UNPARTITIONED_SPEC, PartitionSpec, partition_spec_from_text
from icefloe.spec.puffin.puffin_file import in_memory_puffin, read_file_metadata
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.spec.schema.metadata_columns import POS
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import DoubleType, ListType, LongType, NestedField, StringType, StructType

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "s", StringType()),
    NestedField(3, "x", DoubleType()),
    NestedField(4, "p", StructType(NestedField(5, "a", LongType()))),
    NestedField(6, "tags", ListType(element_id=7, element=LongType())),
)


def files_of(folder: Path, count: int, rows: int, spec: PartitionSpec = UNPARTITIONED_SPEC) -> list[DataFile]:
    found = []
    for number in range(count):
        where = replace(target(folder, SCHEMA, spec), operation_uuid=f"data{number}")
        found += write(where, [{"id": n, "s": f"s{number % 2}", "x": None, "p": {"a": n % 3}, "tags": []} for n in range(rows)])
    return found


def remaining_ids(file: DataFile, *deletes: DataFile, specs: dict[int, PartitionSpec] | None = None) -> list[int]:
    task = replace(task_of(file), delete_files=deletes)
    batches = read_task(IO, task, schema=SCHEMA, projection=Schema(POS), specs=specs or {0: UNPARTITIONED_SPEC})
    return [pos for batch in batches for pos in batch.column(0).to_pylist()]


def deletes_target(folder: Path, spec: PartitionSpec = UNPARTITIONED_SPEC, **properties: str) -> WriteTarget:
    return replace(target(folder, SCHEMA, spec, **properties), operation_uuid="delete")


def rows_to_delete(file: DataFile, positions: Any, *deletes: DataFile) -> RowsToDelete:
    return RowsToDelete(file=file, positions=np.array(sorted(positions), np.int64), delete_files=deletes)


@settings(max_examples=examples(40))
@given(st.data())
def test_a_deletion_vector_contains_earlier_deletes_and_replaces_only_those_of_its_data_file(data: st.DataObject) -> None:
    positions = st.sets(st.integers(0, 11), max_size=6)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        one, other = files_of(folder, 2, 12)
        old, shared, own, new = (data.draw(positions) for _ in range(4))
        if data.draw(st.booleans()):
            deletes = vectors(folder / "old.puffin", {one.file_path: sorted(old)})
            before, gone = old, deletes
        else:
            both = position_deletes(folder / "both.parquet", [(one.file_path, n) for n in shared] + [(other.file_path, 1)])
            scoped = position_deletes(folder / "own.parquet", [(one.file_path, n) for n in own], referenced_data_file=one.file_path)
            deletes, before, gone = [both, scoped], shared | own, [scoped]
        done = write_vectors(
            deletes_target(folder),
            [rows_to_delete(one, new, *deletes), rows_to_delete(other, {3})],
            deletes=DeleteLoader(IO),
            partition_id=1,
            task_id=2,
        )
        added = {file.referenced_data_file: file for file in done.added}
        assert remaining_ids(other, added[other.file_path]) == [n for n in range(12) if n != 3]
        if new <= before:
            assert set(added) == {other.file_path}
            assert done.superseded == ()
            return
        assert remaining_ids(one, added[one.file_path]) == [n for n in range(12) if n not in before | new]
        assert list(done.superseded) == gone
        entry = added[one.file_path]
        content = Path(entry.file_path).read_bytes()
        blobs = read_file_metadata(in_memory_puffin(content, entry.file_path)).blobs
        assert [
            (blob.offset, blob.length, blob.properties["referenced-data-file"], blob.properties["cardinality"], blob.compression_codec)
            for blob in blobs
        ] == [
            (file.content_offset, file.content_size_in_bytes, file.referenced_data_file, str(file.record_count), None)
            for file in done.added
        ]
        assert {(blob.snapshot_id, blob.sequence_number, blob.fields) for blob in blobs} == {(-1, -1, (2147483645,))}
        assert {(file.file_format, file.content, file.file_size_in_bytes) for file in done.added} == {
            (FileFormat.PUFFIN, FileContent.POSITION_DELETES, len(content))
        }


def test_no_delete_file_is_written_where_all_rows_are_deleted_already(tmp_path: Path) -> None:
    (file,) = files_of(tmp_path, 1, 5)
    old = vectors(tmp_path / "old.puffin", {file.file_path: [1, 2]})
    done = write_vectors(deletes_target(tmp_path), [rows_to_delete(file, {2}, *old)], deletes=DeleteLoader(IO), partition_id=0, task_id=0)
    assert (done.added, done.superseded) == ((), ())
    assert not list(tmp_path.glob("data/*deletes*"))


@pytest.mark.parametrize("file_scoped", [True, False])
def test_position_deletes_are_sorted_and_their_entry_names_the_data_file(tmp_path: Path, file_scoped: bool) -> None:
    spec = partition_spec_from_text(SCHEMA, ["s"])
    files = files_of(tmp_path, 4, 5, spec)
    assert {file.partition for file in files} == {("s0",), ("s1",)}
    deletions = [rows_to_delete(file, {4, 0, number}) for number, file in reversed(list(enumerate(files)))]
    # The metrics modes of the table do not truncate the bounds of delete files.
    where = deletes_target(tmp_path, spec, write__metadata__metrics__default="none", write__format__default="avro")
    done = write_position_deletes(where, deletions, specs={0: spec}, partition_id=0, task_id=0, file_scoped=file_scoped)
    assert len(done.added) == (4 if file_scoped else 2)
    for delete in done.added:
        table = pq.read_table(delete.file_path)
        rows = list(zip(table["file_path"].to_pylist(), table["pos"].to_pylist(), strict=True))
        assert rows == sorted(set(rows))
        assert [int(field.metadata[b"PARQUET:field_id"]) for field in table.schema] == [2147483546, 2147483545]
        assert not any(field.nullable for field in table.schema)
        assert delete.lower_bounds == {2147483546: rows[0][0].encode(), 2147483545: (0).to_bytes(8, "little")}
        assert delete.upper_bounds == {2147483546: rows[-1][0].encode(), 2147483545: (4).to_bytes(8, "little")}
        assert (delete.record_count, delete.sort_order_id, delete.content) == (len(rows), None, FileContent.POSITION_DELETES)
        assert delete.referenced_data_file == (rows[0][0] if file_scoped else None)
        assert {file.partition for file in files if file.file_path in dict(rows)} == {delete.partition}
        for number, file in enumerate(files):
            gone = {4, 0, number} if file.file_path in dict(rows) else set()
            assert remaining_ids(file, delete, specs={0: spec}) == [n for n in range(5) if n not in gone]


def test_equality_deletes_delete_the_rows_with_their_keys(tmp_path: Path) -> None:
    (file,) = files_of(tmp_path, 1, 9)
    keys = pa.Table.from_pylist([{"id": 4, "p": {"a": 1}}, {"id": 5, "p": {"a": 0}}], schema=schema_to_arrow(SCHEMA.select("id", "p.a")))
    done = write_equality_deletes(deletes_target(tmp_path), keys.to_batches(), [1, 5], partition_id=0, task_id=0)
    (delete,) = done.added
    assert (delete.content, delete.equality_ids, delete.sort_order_id, delete.record_count) == (
        FileContent.EQUALITY_DELETES,
        (1, 5),
        None,
        2,
    )
    assert remaining_ids(file, delete) == [0, 1, 2, 3, 5, 6, 7, 8]
    assert pq.read_schema(delete.file_path).names == ["id", "p"]


@pytest.mark.parametrize(
    ("ids", "message"), [([], "no key column"), ([3], "double"), ([99], "not in the schema"), ([7], "inside a list"), ([4], "struct")]
)
def test_key_columns_that_the_format_forbids_are_refused(tmp_path: Path, ids: list[int], message: str) -> None:
    with pytest.raises(InvalidInputError, match="cannot be deleted") as refused:
        write_equality_deletes(deletes_target(tmp_path), [], ids, partition_id=0, task_id=0)
    assert message in str(refused.value)


def test_rows_that_do_not_fit_the_key_columns_are_refused_and_leave_no_file(tmp_path: Path) -> None:
    rows = pa.record_batch({"id": pa.array([1, None], pa.int64())})
    with pytest.raises(SchemaMismatchError):
        write_equality_deletes(deletes_target(tmp_path), [rows], [1], partition_id=0, task_id=0)
    assert not list(tmp_path.rglob("*.parquet"))


@pytest.mark.parametrize("positions", [{-1}, {5}, {0, 2**40}])
def test_positions_outside_the_data_file_are_refused(tmp_path: Path, positions: set[int]) -> None:
    (file,) = files_of(tmp_path, 1, 5)
    for write_them in (
        lambda deletions: write_vectors(deletes_target(tmp_path), deletions, deletes=DeleteLoader(IO), partition_id=0, task_id=0),
        lambda deletions: write_position_deletes(
            deletes_target(tmp_path), deletions, specs={0: UNPARTITIONED_SPEC}, partition_id=0, task_id=0
        ),
    ):
        with pytest.raises(InvalidInputError) as refused:
            write_them([rows_to_delete(file, positions)])
        assert file.file_path in str(refused.value)
        with pytest.raises(InvalidInputError, match="cannot be deleted"):
            write_them([rows_to_delete(file, {1}), rows_to_delete(file, {2})])


def test_a_failed_write_leaves_no_delete_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = files_of(tmp_path, 3, 5)
    written: list[str] = []
    plain = type(IO).write_unique

    def write_two(io: Any, location: str, content: Any) -> None:
        written.append(location)
        if len(written) > 2:
            raise StorageUnavailableError("away", path=location)
        plain(io, location, content)

    monkeypatch.setattr(type(IO), "write_unique", write_two)
    deletions = [rows_to_delete(file, {1}) for file in files]
    with pytest.raises(StorageUnavailableError):
        write_position_deletes(deletes_target(tmp_path), deletions, specs={0: UNPARTITIONED_SPEC}, partition_id=0, task_id=0)
    assert len(written) == 3
    assert sorted(str(path) for path in tmp_path.rglob("*.parquet")) == sorted(file.file_path for file in files)
