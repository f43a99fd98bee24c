"""Values between tasks and the driver arrive whole, and no bytes make anything but registered classes of plain values."""

import pickle
import uuid
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import examples
from tests.security.forged_errors import MakesFolder

from icefloe.errors import EngineError
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spark.jobs.task_values import TaskValues
from icefloe.spark.row_level.changed_row_values import DeletedPositions, joined_positions
from icefloe.spark.write.data_file_job import TaskFiles
from icefloe.spark.write.failed_attempt_cleanup import TaskAttempt
from icefloe.spec.expressions.bind import bind
from icefloe.spec.expressions.filter_parser import parse_filter
from icefloe.spec.expressions.predicate import AlwaysTrue
from icefloe.spec.manifest.data_file import DataFile, FileContent, FileFormat
from icefloe.spec.manifest_list.manifest_file import ManifestContent, ManifestFile, PartitionFieldSummary
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import DecimalType, DoubleType, ListType, LongType, NestedField, StringType, StructType, UUIDType

VALUES = TaskValues(TaskFiles, TaskAttempt)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=[]))
    | st.binary()
    | st.decimals(allow_nan=False)
    | st.uuids()
)
SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "s", StringType()),
    NestedField(3, "d", DecimalType(38, 2)),
    NestedField(4, "u", UUIDType()),
    NestedField(5, "f", DoubleType()),
    NestedField(6, "l", ListType(element_id=7, element=StructType(NestedField(8, "x", LongType())))),
)


def file_of(**given: Any) -> DataFile:
    return DataFile(**{"file_path": "/a", "file_format": FileFormat.PARQUET, "record_count": 1, "file_size_in_bytes": 2, **given})


def round_trip(value: Any) -> Any:
    return VALUES.from_bytes(VALUES.to_bytes(value), type(value))


@settings(max_examples=examples(200))
@given(
    st.recursive(
        SCALARS, lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(st.integers() | st.text() | st.booleans(), inner)
    )
)
def test_plain_values_arrive_with_their_types(value: Any) -> None:
    copied = round_trip((value,))
    assert copied == (value,)
    assert repr(copied) == repr((value,))  # True is no 1, and a tuple no list


@given(
    st.builds(
        file_of,
        file_path=st.text(st.characters(exclude_categories=[])),
        file_format=st.sampled_from(FileFormat),
        content=st.sampled_from(FileContent),
        partition=st.lists(SCALARS).map(tuple),
        value_counts=st.none() | st.dictionaries(st.integers(0, 99), st.integers(0, 2**63)),
        lower_bounds=st.none() | st.dictionaries(st.integers(0, 99), st.binary()),
        split_offsets=st.none() | st.lists(st.integers(0, 2**63)).map(tuple),
        record_count=st.integers(-(2**70), 2**70),
    )
)
def test_data_files_arrive_whole(file: DataFile) -> None:
    assert round_trip(TaskFiles((file,), TaskAttempt(1, 2, True))) == TaskFiles((file,), TaskAttempt(1, 2, True))


@pytest.mark.parametrize(
    "text",
    [
        "true",
        "id = 5 and s like 'a%'",
        "id in (1, 2, 3) or d > 1.50 or f < 2e300",
        "u = '00112233-4455-6677-8899-aabbccddeeff' and l is not null",
        "not (id is null or s is null)",
    ],
)
def test_scan_tasks_arrive_with_their_filters(text: str) -> None:
    task = FileScanTask(file=file_of(), residual=bind(parse_filter(text), SCHEMA), length=9, delete_files=(file_of(spec_id=4),))
    assert round_trip([task]) == [task]
    assert round_trip(FileScanTask(file=file_of(), residual=AlwaysTrue(), length=1)).residual == AlwaysTrue()


def test_manifests_arrive_whole() -> None:
    manifest = ManifestFile(
        manifest_path="/m",
        manifest_length=5,
        partition_spec_id=1,
        added_snapshot_id=2**62,
        content=ManifestContent.DELETES,
        partitions=(PartitionFieldSummary(True, None, b"a", b"\xff"),),
    )
    assert round_trip((manifest,)) == (manifest,)


def test_positions_arrive_by_path() -> None:
    deleted = DeletedPositions()
    deleted.add(pa.array(["/a", "/b", "/a"]), pa.array([2**40, 0, 7]))
    deleted.add(pa.array(["/a"]), pa.array([8]))
    packed = VALUES.from_bytes(VALUES.to_bytes(dict(deleted.pack())), dict)
    found = joined_positions([packed, {}])
    assert {path: positions.tolist() for path, positions in found.items()} == {"/a": [7, 8, 2**40], "/b": [0]}
    assert all(positions.dtype == np.int64 for positions in found.values())


@dataclass
class NotRegistered:
    value: int = 1


@pytest.mark.parametrize("value", [NotRegistered(), object(), print, NotRegistered, {1}, Path("/a"), lambda: 1])
def test_a_value_of_an_unregistered_class_is_not_sent(value: Any) -> None:
    with pytest.raises(TypeError):
        VALUES.to_bytes([value])


@pytest.mark.parametrize(
    "plain",
    [
        [3, "NotRegistered", 1],
        [3, "os.system", "true"],
        [3, "print", 1],
        [3, "__class__"],
        [3, "Attempt"],
        [3, "Attempt", 1],
        [3, "Attempt", 1, 2, 3, 4],
        [3, ["Attempt"], 1, 2, 3],
        [3, "FileContent", 1],
        [3],
        [4, "Attempt", "stage_id"],
        [4, "FileContent", "__class__"],
        [4, "FileContent", "mro"],
        [5, "x"],
        [5, [1]],
        [6, 5],
        [7, "not a number"],
        [8, b"short"],
        [8, "x"],
        [2, 1],
        [2, [0], 1],
        [99, 1],
        ["x"],
        [None],
        [[0], 1],
        [],
        5,
        None,
        {"a": 1},
    ],
)
def test_bytes_of_another_form_are_an_error_of_icefloe(plain: Any) -> None:
    with pytest.raises(EngineError, match="cannot be decoded"):
        VALUES.from_bytes(msgspec.msgpack.encode([0, plain] if isinstance(plain, list) else plain), tuple)


@given(st.binary())
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    with suppress(EngineError):
        assert isinstance(VALUES.from_bytes(content, list), list)


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(EngineError):
        VALUES.from_bytes(b"\x92\x00" * 100_000 + b"\xc0", list)


def test_a_pickle_is_not_loaded(tmp_path: Path) -> None:
    attack = pickle.dumps(MakesFolder(tmp_path / "attacked"))
    for content in (attack, msgspec.msgpack.encode([0, attack]), msgspec.msgpack.encode(attack)):
        try:
            VALUES.from_bytes(content, list)
        except EngineError:
            continue
    assert not (tmp_path / "attacked").exists()


def test_a_value_of_another_kind_than_expected_is_refused() -> None:
    with pytest.raises(EngineError, match="not a TaskFiles"):
        VALUES.from_bytes(VALUES.to_bytes(TaskAttempt()), TaskFiles)
    assert VALUES.from_bytes(VALUES.to_bytes([Decimal("1.50"), uuid.UUID(int=5)]), list) == [Decimal("1.50"), uuid.UUID(int=5)]
