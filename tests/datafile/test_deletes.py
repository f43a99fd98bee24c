"""Reads with deletes of every kind, compared with a plain model: rows in a list, and a rule for each kind of delete."""

import math
import pickle
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.datafile.delete_files import POSITIONS, equality_deletes, position_deletes, vectors
from tests.datafile.tables import IO, same, target, task_of, write
from tests.repetitions import examples

from icefloe.datafile.data_file_reader import read_task
from icefloe.datafile.deletes.delete_file_reader import read_position_deletes
from icefloe.datafile.deletes.delete_loader import DeleteLoader
from icefloe.datafile.deletes.matching_positions import MatchingPositions
from icefloe.datafile.parquet import parquet_rows
from icefloe.errors import DataFileFormatError, PuffinFormatError
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spec.expressions.bind import bind
from icefloe.spec.expressions.filter_parser import parse_filter
from icefloe.spec.expressions.predicate import AlwaysTrue
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.partitioning.partition_spec import UNPARTITIONED_SPEC
from icefloe.spec.puffin.deletion_vector import deletion_vector_blob, deletion_vector_from_positions
from icefloe.spec.puffin.puffin_file import write_puffin
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.spec.schema.metadata_columns import DELETED, POS
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import DoubleType, IntegerType, LongType, NestedField, StringType, StructType

SPECS = {0: UNPARTITIONED_SPEC}
INNER = StructType(NestedField(6, "a", LongType()), NestedField(7, "b", StringType()))
SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "g", IntegerType()),
    NestedField(3, "s", StringType()),
    NestedField(4, "x", DoubleType()),
    NestedField(5, "p", INNER),
)
KEYS = {1: ("id",), 2: ("g",), 3: ("s",), 4: ("x",), 6: ("p", "a"), 7: ("p", "b")}
ROW = st.fixed_dictionaries(
    {
        "id": st.none() | st.integers(0, 4),
        "g": st.none() | st.integers(0, 2),
        "s": st.none() | st.sampled_from(["", "a", "b"]),
        "x": st.none() | st.sampled_from([0.0, -0.0, float("nan"), 1.5]),
        "p": st.none() | st.fixed_dictionaries({"a": st.none() | st.integers(0, 2), "b": st.none() | st.sampled_from(["u", "v"])}),
    }
)
ROWS = st.lists(ROW, min_size=1, max_size=40)


def rows_of(task: FileScanTask, projection: Schema = SCHEMA, loader: DeleteLoader | None = None, schema: Schema = SCHEMA) -> list[Any]:
    batches = list(read_task(IO, task, schema=schema, projection=projection, specs=SPECS, deletes=loader))
    assert all(batch.num_rows for batch in batches)
    return pa.Table.from_batches(batches, schema=schema_to_arrow(projection)).to_pylist()


def value_at(row: dict[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = row
    for name in path:
        value = None if value is None else value[name]
    return value


def equal(left: Any, right: Any) -> bool:
    """Return True if a row's value equals a deleted one: null equals null, NaN equals NaN, and the zeros are different, as in Java."""
    if isinstance(left, float) and isinstance(right, float):
        return (math.isnan(left) and math.isnan(right)) or (left == right and math.copysign(1, left) == math.copysign(1, right))
    return left == right and (left is None) == (right is None)


def splits(task: FileScanTask) -> list[FileScanTask]:
    """Split the task at every row group."""
    starts = [0, *(task.file.split_offsets or ())[1:]]
    ends = [*starts[1:], task.length]
    return [replace(task, start=start, length=end - start) for start, end in zip(starts, ends, strict=True)]


@settings(max_examples=examples(120), suppress_health_check=[HealthCheck.too_slow])
@given(ROWS, st.data())
def test_reads_skip_the_rows_that_a_plain_model_deletes(rows: list[dict[str, Any]], data: st.DataObject) -> None:
    rows = pa.Table.from_pylist(rows, schema=schema_to_arrow(SCHEMA)).to_pylist()  # keys in the schema's order
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (file,) = write(
            target(folder, SCHEMA, write__parquet__row_group_size_bytes=str(data.draw(st.sampled_from([200, 600, 10**6])))), rows
        )
        gone: set[int] = set()
        deletes: list[DataFile] = []
        positions = st.sets(st.integers(0, len(rows) - 1))
        if data.draw(st.booleans()):
            found = data.draw(positions)
            gone |= found
            deletes += vectors(folder / "dv.puffin", {"/other": [0, 7], file.file_path: sorted(found)})[1:]
        else:
            for number in range(data.draw(st.integers(0, 3))):
                found = data.draw(positions)
                gone |= found
                pairs = [(file.file_path, pos) for pos in found] + [("/a/file", 1), (file.file_path + "x", 0)]
                deletes.append(position_deletes(folder / f"pos{number}.parquet", pairs))
        for number in range(data.draw(st.integers(0, 2))):
            ids = data.draw(st.sets(st.sampled_from(sorted(KEYS)), min_size=1, max_size=3))
            keys = data.draw(st.lists(ROW, max_size=4))
            deletes.append(equality_deletes(folder / f"eq{number}.parquet", SCHEMA, sorted(ids), keys))
            paths = [KEYS[field_id] for field_id in ids]
            gone |= {
                pos
                for pos, row in enumerate(rows)
                if any(all(equal(value_at(row, path), value_at(key, path)) for path in paths) for key in keys)
            }
        task = replace(task_of(file), delete_files=tuple(deletes))
        loader = DeleteLoader(IO)
        left = [row for pos, row in enumerate(rows) if pos not in gone]
        assert same(rows_of(task, loader=loader), left)
        assert same([row for split in splits(task) for row in rows_of(split, loader=loader)], left)
        # With a cache that is too small to keep anything, position delete files are searched for one data file.
        assert same(rows_of(task, loader=DeleteLoader(IO, cache_bytes=1)), left)
        marked = rows_of(task, Schema(POS, DELETED))
        assert [(row["_pos"], row["_deleted"]) for row in marked] == [(pos, pos in gone) for pos in range(len(rows))]
        where = data.draw(st.sampled_from(["id = 1", "g > 0", "s IS NULL", "x >= 0", "id < 3 AND g = 1"]))
        bound = bind(parse_filter(where), SCHEMA)
        expected = [row["_pos"] for row in rows_of(replace(task_of(file), residual=bound), Schema(POS)) if row["_pos"] not in gone]
        assert MatchingPositions(io=IO, row_filter=bound, schema=SCHEMA, specs=SPECS)(task).positions().tolist() == expected
        with mock.patch.object(parquet_rows, "BATCH_ROWS", 2):  # so that batches without a row that passes are left out
            filtered = rows_of(replace(task, residual=bound), Schema(*SCHEMA.fields, POS))
        assert [row.pop("_pos") for row in filtered] == expected
        assert same(filtered, [rows[pos] for pos in expected])


def one_file(folder: Path, rows: int = 6) -> DataFile:
    (file,) = write(target(folder, SCHEMA), [{"id": n, "g": n % 2, "s": str(n), "x": n / 2, "p": {"a": n, "b": None}} for n in range(rows)])
    return file


def ids(found: list[dict[str, Any]]) -> list[int]:
    return [row["id"] for row in found]


@pytest.mark.parametrize("spelling", ["{}", "file:{}", "file://{}"])
@pytest.mark.parametrize("cache_bytes", [1, 1 << 20])
def test_a_local_path_is_the_same_file_in_each_of_its_spellings(tmp_path: Path, spelling: str, cache_bytes: int) -> None:
    file = one_file(tmp_path)
    for stored in ("{}", "file:{}", "file://{}"):
        deletes = position_deletes(tmp_path / "pos.parquet", [(stored.format(file.file_path), 2)])
        task = replace(task_of(replace(file, file_path=spelling.format(file.file_path))), delete_files=(deletes,))
        assert ids(rows_of(task, loader=DeleteLoader(IO, cache_bytes=cache_bytes))) == [0, 1, 3, 4, 5]


def test_columns_of_position_deletes_without_field_ids_are_found_by_the_names_of_the_spec(tmp_path: Path) -> None:
    file = one_file(tmp_path)
    plain = pa.schema([field.remove_metadata() for field in POSITIONS])
    deletes = position_deletes(tmp_path / "pos.parquet", [(file.file_path, 0)], schema=plain)
    assert ids(rows_of(replace(task_of(file), delete_files=(deletes,)))) == [1, 2, 3, 4, 5]


def test_equality_deletes_on_a_dropped_column_are_applied(tmp_path: Path) -> None:
    file = one_file(tmp_path)
    deletes = equality_deletes(tmp_path / "eq.parquet", SCHEMA.select("g"), [2], [{"g": 1}])
    now = SCHEMA.select("id")
    task = replace(task_of(file), delete_files=(deletes,))
    assert ids(rows_of(task, now, DeleteLoader(IO, schemas=[SCHEMA, now]), now)) == [0, 2, 4]


def test_equality_deletes_on_an_added_column_match_null_in_older_files(tmp_path: Path) -> None:
    file = one_file(tmp_path)
    now = Schema(*SCHEMA.fields, NestedField(9, "late", StringType()))
    for value, left in ((None, [0, 1, 3, 4, 5]), ("x", [0, 1, 2, 3, 4, 5])):
        deletes = equality_deletes(tmp_path / f"{value}.parquet", now.select("id", "late"), [1, 9], [{"id": 2, "late": value}])
        assert ids(rows_of(replace(task_of(file), delete_files=(deletes,)), schema=now)) == left


def test_equality_deletes_on_columns_that_were_never_in_one_schema_are_applied(tmp_path: Path) -> None:
    file = one_file(tmp_path)
    first, second, now = SCHEMA.select("id", "g"), SCHEMA.select("id", "s"), SCHEMA.select("id")
    deletes = equality_deletes(tmp_path / "eq.parquet", SCHEMA.select("g", "s"), [2, 3], [{"g": 1, "s": "3"}, {"g": 0, "s": "1"}])
    task = replace(task_of(file), delete_files=(deletes,))
    assert ids(rows_of(task, now, DeleteLoader(IO, schemas=[first, second, now]), now)) == [0, 1, 2, 4, 5]


@pytest.mark.parametrize(("data_type", "delete_type"), [(IntegerType(), LongType()), (LongType(), IntegerType()), (LongType(), LongType())])
def test_equality_deletes_compare_promoted_types_in_the_newest_type(tmp_path: Path, data_type: Any, delete_type: Any) -> None:
    old = Schema(NestedField(1, "id", data_type))
    (file,) = write(target(tmp_path, old), [{"id": n} for n in range(4)])
    deletes = equality_deletes(tmp_path / "eq.parquet", Schema(NestedField(1, "id", delete_type)), [1], [{"id": 2}])
    now = Schema(NestedField(1, "id", LongType()))
    assert ids(rows_of(replace(task_of(file), delete_files=(deletes,)), now, schema=now)) == [0, 1, 3]


def test_many_deleted_keys_are_joined_with_each_batch_and_delete_the_right_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("icefloe.datafile.parquet.parquet_rows.BATCH_ROWS", 3)
    file = one_file(tmp_path, 50)
    deletes = equality_deletes(tmp_path / "eq.parquet", SCHEMA.select("id"), [1], [{"id": n} for n in range(0, 100, 7)])
    task = replace(task_of(file), delete_files=(deletes,))
    assert ids(rows_of(task)) == [n for n in range(50) if n % 7]
    assert [row["_pos"] for row in rows_of(task, Schema(POS))] == [n for n in range(50) if n % 7]


def test_threads_share_a_loader_which_reads_each_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = one_file(tmp_path)
    deletes = position_deletes(tmp_path / "pos.parquet", [(file.file_path, 1)])
    read = []
    plain = IO.open_input
    monkeypatch.setattr(type(IO), "open_input", lambda self, location: read.append(location) or plain(location))
    loader = DeleteLoader(IO)
    task = replace(task_of(file), delete_files=(deletes,))
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: ids(rows_of(task, loader=loader)), range(16)))
    assert found == [[0, 2, 3, 4, 5]] * 16
    assert read.count(deletes.file_path) == 1
    assert ids(rows_of(task, loader=pickle.loads(pickle.dumps(loader)))) == [0, 2, 3, 4, 5]


def test_the_cache_stays_within_its_byte_limit(tmp_path: Path) -> None:
    loader = DeleteLoader(IO, cache_bytes=3000)
    for number in range(30):
        file = one_file(tmp_path / str(number))
        deletes = position_deletes(tmp_path / f"{number}.parquet", [(file.file_path, 1)])
        rows_of(replace(task_of(file), delete_files=(deletes,)), loader=loader)
        assert 0 < loader._cache.cost <= 3000


# ---- what is refused ----


def test_a_deletion_vector_that_contradicts_its_entry_is_refused(tmp_path: Path) -> None:
    file = one_file(tmp_path)
    (entry,) = vectors(tmp_path / "dv.puffin", {file.file_path: [1, 2]})
    for wrong, message in (
        (replace(entry, record_count=3), "number of positions"),
        (replace(entry, content_offset=5), "no blob starts"),
        (replace(entry, content_size_in_bytes=20), "size in bytes"),
        (replace(entry, referenced_data_file="/other"), "recorded for '/other'"),
        (replace(entry, content_offset=None), "has no offset and size"),
    ):
        with pytest.raises(PuffinFormatError, match=message) as refused:
            rows_of(replace(task_of(file), delete_files=(wrong,)))
        assert refused.value.path == entry.file_path


def test_a_deletion_vector_of_another_data_file_is_refused_whatever_its_entry_contains(tmp_path: Path) -> None:
    file = one_file(tmp_path)
    (entry,) = vectors(tmp_path / "dv.puffin", {"/other": [1]})
    with pytest.raises(PuffinFormatError, match="'/other' in the footer"):
        rows_of(replace(task_of(file), delete_files=(replace(entry, referenced_data_file=file.file_path),)))


def test_every_flipped_byte_of_a_deletion_vector_is_refused(tmp_path: Path) -> None:
    file = one_file(tmp_path)
    (entry,) = vectors(tmp_path / "dv.puffin", {file.file_path: [1, 2]})
    sound = (tmp_path / "dv.puffin").read_bytes()
    start = entry.content_offset or 0
    for at in range(start, start + (entry.content_size_in_bytes or 0)):
        (tmp_path / "dv.puffin").write_bytes(sound[:at] + bytes([sound[at] ^ 1]) + sound[at + 1 :])
        with pytest.raises(PuffinFormatError, match="byte"):
            rows_of(replace(task_of(file), delete_files=(entry,)))


def test_two_deletion_vectors_for_one_data_file_are_refused(tmp_path: Path) -> None:
    file = one_file(tmp_path)
    vector_files = vectors(tmp_path / "a.puffin", {file.file_path: [1]}) + vectors(tmp_path / "b.puffin", {file.file_path: [2]})
    with pytest.raises(DataFileFormatError, match="2 deletion vectors"):
        rows_of(replace(task_of(file), delete_files=tuple(vector_files)))


@pytest.mark.parametrize("pair", [{"file_path": None, "pos": 1}, {"file_path": "FILE", "pos": None}, {"file_path": "FILE", "pos": -1}])
def test_position_deletes_with_a_null_path_or_an_invalid_position_are_refused(tmp_path: Path, pair: dict[str, Any]) -> None:
    file = one_file(tmp_path)
    deletes = position_deletes(tmp_path / "pos.parquet", [(file.file_path, 1)])
    loose = pa.schema([field.with_nullable(True) for field in POSITIONS])
    row = {name: file.file_path if value == "FILE" else value for name, value in pair.items()}
    pq.write_table(pa.Table.from_pylist([row], schema=loose), tmp_path / "pos.parquet")
    deletes = replace(deletes, file_size_in_bytes=(tmp_path / "pos.parquet").stat().st_size)
    with pytest.raises(DataFileFormatError) as refused:
        rows_of(replace(task_of(file), delete_files=(deletes,)))
    assert refused.value.path == deletes.file_path


def test_the_deleted_rows_in_a_position_delete_file_are_ignored(tmp_path: Path) -> None:
    file = one_file(tmp_path)
    row = pa.field("row", pa.struct([pa.field("id", pa.int64(), metadata={b"PARQUET:field_id": b"1"})]), nullable=False)
    whole = pa.schema([*POSITIONS, row.with_metadata({b"PARQUET:field_id": b"2147483544"})])
    pairs = [{"file_path": file.file_path, "pos": 1, "row": {"id": 7}}, {"file_path": file.file_path, "pos": 2, "row": {"id": 8}}]
    deletes = position_deletes(tmp_path / "pos.parquet", [(file.file_path, 1), (file.file_path, 2)])
    pq.write_table(pa.Table.from_pylist(pairs, schema=whole), tmp_path / "pos.parquet")
    deletes = replace(deletes, file_size_in_bytes=(tmp_path / "pos.parquet").stat().st_size)
    (found,) = read_position_deletes(IO, deletes).values()
    assert found.positions().tolist() == [1, 2]


def test_a_path_of_position_deletes_that_is_not_a_string_is_refused(tmp_path: Path) -> None:
    file = one_file(tmp_path)
    deletes = position_deletes(tmp_path / "pos.parquet", [(file.file_path, 1)])
    binary = pa.schema([POSITIONS.field(0).with_type(pa.binary()), POSITIONS.field(1)])
    torn = pa.Table.from_pylist([{"file_path": b"\xff\xfe", "pos": 1}], schema=binary).columns[0].cast(pa.string(), safe=False)
    pq.write_table(pa.Table.from_arrays([torn, pa.chunked_array([[1]], pa.int64())], schema=POSITIONS), tmp_path / "pos.parquet")
    deletes = replace(deletes, file_size_in_bytes=(tmp_path / "pos.parquet").stat().st_size)
    with pytest.raises(DataFileFormatError, match="not valid UTF-8"):
        read_position_deletes(IO, deletes)


@pytest.mark.parametrize(
    ("equality_ids", "message"),
    [((), "names no key columns"), ((99,), "field 99 is in no schema"), ((3,), "lacks the column s"), ((5,), "field 5")],
)
def test_an_equality_delete_file_without_its_keys_is_refused(tmp_path: Path, equality_ids: tuple[int, ...], message: str) -> None:
    file = one_file(tmp_path)
    deletes = equality_deletes(tmp_path / "eq.parquet", SCHEMA.select("id"), equality_ids, [{"id": 1}])
    with pytest.raises(DataFileFormatError, match=message):
        rows_of(replace(task_of(file), delete_files=(deletes,)))


def test_a_filter_that_no_row_matches_reads_no_delete_file(tmp_path: Path) -> None:
    file = one_file(tmp_path)
    gone = position_deletes(tmp_path / "pos.parquet", [(file.file_path, 1)])
    (tmp_path / "pos.parquet").unlink()
    never = replace(task_of(file), residual=bind(parse_filter("FALSE"), SCHEMA), delete_files=(gone,))
    assert rows_of(never) == []
    assert isinstance(task_of(file).residual, AlwaysTrue)


def test_a_deletion_vector_without_length_and_checksum_is_read_like_a_framed_one(tmp_path: Path) -> None:
    file = one_file(tmp_path)
    framed = deletion_vector_blob(deletion_vector_from_positions([1, 4]), file.file_path)
    bare = replace(framed, data=framed.data[8:-4])  # without length, magic bytes and checksum
    content, metadata = write_puffin([bare], properties={})
    (tmp_path / "bare.puffin").write_bytes(content)
    (entry,) = vectors(tmp_path / "framed.puffin", {file.file_path: [1, 4]})
    blob = metadata.blobs[0]
    where = replace(entry, file_path=str(tmp_path / "bare.puffin"), content_offset=blob.offset, content_size_in_bytes=blob.length)
    for found in (entry, where):
        assert ids(rows_of(replace(task_of(file), delete_files=(found,)))) == [0, 2, 3, 5]


@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_deletes_are_applied_to_dictionary_encoded_strings(data: st.DataObject) -> None:
    """Read many rows of few strings, which the file stores as dictionaries; some files continue with distinct strings, which a dictionary cannot hold."""
    words = data.draw(st.lists(st.none() | st.text(max_size=6), min_size=1, max_size=6))
    count = data.draw(st.integers(2000, 4000))
    spread = data.draw(st.integers(1, 50))
    own = data.draw(st.booleans())
    rows = [
        {"id": n, "s": f"{n}" * 9 if own and n > 500 else words[n // spread % len(words)], "g": None if n % 7 else n} for n in range(count)
    ]
    schema = SCHEMA.select("id", "g", "s")
    gone = data.draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=300, unique=True))
    with tempfile.TemporaryDirectory() as folder:
        where = target(folder, schema, **{"write.parquet.dict-size-bytes": "4096", "write.parquet.row-group-size-bytes": "20000"})
        (file,) = write(where, pa.Table.from_pylist(rows, schema=schema_to_arrow(schema)))
        task = replace(task_of(file), delete_files=tuple(vectors(Path(folder) / "v.puffin", {file.file_path: sorted(gone)})))
        expected = [row for row in rows if row["id"] not in set(gone)]
        assert rows_of(task, schema, schema=schema) == [{name: row[name] for name in schema.names} for row in expected]
        filtered = read_task(
            IO,
            task,
            schema=schema,
            projection=schema.select("s"),
            specs=SPECS,
            row_filter=bind(parse_filter("g is not null"), schema, case_sensitive=True),
        )
        assert [text for batch in filtered for text in batch["s"].to_pylist()] == [row["s"] for row in expected if row["g"] is not None]
