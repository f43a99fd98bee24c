"""Storage that fails at each operation of a write: the error has the right class, and no file is left."""

import errno
import gc
import itertools
import os
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.datafile.tables import target
from tests.repetitions import ALL

from icefloe.datafile import data_file_writer as write_module
from icefloe.datafile.data_file_writer import write_batches
from icefloe.errors import (
    FileAlreadyExistsError,
    SchemaMismatchError,
    StorageError,
    StorageFullError,
    StoragePermissionError,
    StorageUnavailableError,
)
from icefloe.io import local_file_io
from icefloe.io.local_file_io import LocalFileIO
from icefloe.io.storage_errors import storage_error
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.partitioning.partition_spec import partition_spec_from_text
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import DecimalType, DoubleType, GeometryType, ListType, LongType, NestedField, StringType

SCHEMA = Schema(NestedField(1, "p", LongType()), NestedField(2, "n", LongType()))
ROWS = pa.table({"p": pa.array([i % 3 for i in range(3000)]), "n": pa.array(range(3000))})


class _FailingIO(LocalFileIO):
    """A local file IO whose nth operation (opening or writing), or every one from there on, fails with an error."""

    def __init__(self, operation: int, failure: BaseException, *, deletes: bool = True, lasting: bool = False) -> None:
        object.__setattr__(self, "left", itertools.count(operation, -1))
        object.__setattr__(self, "failure", failure)
        object.__setattr__(self, "deletes", deletes)
        object.__setattr__(self, "lasting", lasting)

    __slots__ = ("deletes", "failure", "lasting", "left")

    def open_output(self, location: str) -> Any:
        try:
            self.count()
        except OSError as error:
            raise storage_error(error, location) from error
        super().open_output(location).close()
        return pa.PythonFile(_FailingFile(open(location, "wb"), self), mode="w")

    def write_unique(self, location: str, content: Any) -> None:
        with self.open_output(location) as file:
            file.write(content)

    def delete(self, location: str) -> None:
        if not self.deletes:
            raise StorageUnavailableError("gone", path=location)
        super().delete(location)

    def count(self) -> None:
        left = next(self.left)
        if left == 0 or (self.lasting and left < 0):
            raise self.failure


class _FailingFile:
    def __init__(self, file: Any, io: _FailingIO) -> None:
        self._file, self._io = file, io

    def write(self, content: Any) -> int:
        self._io.count()
        return int(self._file.write(content))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def _write(folder: Path, io: Any) -> list[Any]:
    spec = partition_spec_from_text(SCHEMA, ["p"])
    plain = target(folder, SCHEMA, spec, write__parquet__row_group_size_bytes="4000")
    where = type(plain)(**{**plain.__dict__, "io": io})
    return write_batches(where, ROWS.to_batches(max_chunksize=300), partition_id=0, task_id=0)


def _left(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def _operations(folder: Path) -> int:
    """Count the operations of a write that does not fail."""
    io = _FailingIO(10**9, OSError())
    _write(folder / "whole", io)
    return 10**9 - next(io.left)


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, StorageFullError),
        (errno.EACCES, StoragePermissionError),
        (errno.EIO, StorageError),
        (errno.ESTALE, StorageUnavailableError),
    ],
)
def test_a_failure_at_any_operation_leaves_no_file_and_raises_its_error_class(tmp_path, number: int, kind: type[StorageError]) -> None:
    total = _operations(tmp_path)
    assert total > 20
    for operation in range(0, total, (1 if ALL else 3) if number == errno.ENOSPC else 7):
        folder = tmp_path / str(operation)
        with pytest.raises(StorageError) as raised:
            _write(folder, _FailingIO(operation, OSError(number, "failed"), lasting=operation % 2 == 0))
        assert type(raised.value) is kind
        assert str(folder) in str(raised.value)
        assert _left(folder) == []
    gc.collect()  # a writer that is still open would now retry, and warn


def test_an_interrupt_at_any_operation_leaves_no_file(tmp_path) -> None:
    for operation in range(0, _operations(tmp_path), 5):
        folder = tmp_path / str(operation)
        with pytest.raises(KeyboardInterrupt):
            _write(folder, _FailingIO(operation, KeyboardInterrupt()))
        assert _left(folder) == []


def test_an_error_while_rows_are_produced_leaves_no_file(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(write_module, "MAX_ROW_GROUP_ROWS", 100)

    def rows() -> Iterator[Any]:
        yield from ROWS.to_batches(max_chunksize=300)
        assert _left(tmp_path), "something was written before the failure"
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="the source broke"):
        write_batches(target(tmp_path, SCHEMA), rows(), partition_id=0, task_id=0)
    assert _left(tmp_path) == []


def test_rows_that_do_not_fit_leave_no_file(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(write_module, "MAX_ROW_GROUP_ROWS", 100)
    batches = [*ROWS.to_batches(), pa.record_batch({"p": ["text"], "n": [1]})]
    with pytest.raises(SchemaMismatchError):
        write_batches(target(tmp_path, SCHEMA), [batches[0], batches[1]], partition_id=0, task_id=0)
    assert _left(tmp_path) == []


def test_the_first_error_is_raised_even_if_the_clean_up_fails(tmp_path) -> None:
    with pytest.raises(StorageFullError):
        _write(tmp_path, _FailingIO(12, OSError(errno.ENOSPC, "full"), deletes=False))


def test_an_existing_file_is_neither_replaced_nor_deleted(tmp_path) -> None:
    taken = tmp_path / "data" / "00000-0-op-00001.parquet"
    taken.parent.mkdir()
    taken.write_bytes(b"someone's")
    with pytest.raises(FileAlreadyExistsError):
        write_batches(target(tmp_path, SCHEMA), ROWS.to_batches(), partition_id=0, task_id=0)
    assert taken.read_bytes() == b"someone's"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
@pytest.mark.parametrize("small_file_bytes", [-1, write_module.SMALL_FILE_BYTES], ids=["by arrow", "whole"])
def test_a_full_disk_raises_a_storage_error(tmp_path, monkeypatch, small_file_bytes: int) -> None:
    class FullIO(LocalFileIO):
        def open_output(self, location: str) -> Any:
            return pa.OSFile("/dev/full", "wb")

        def write_unique(self, location: str, content: Any) -> None:
            monkeypatch.setattr(local_file_io, "_NEW_FILE", os.O_WRONLY)
            (tmp_path / "full").symlink_to("/dev/full")
            super().write_unique(str(tmp_path / "full"), content)

    monkeypatch.setattr(write_module, "SMALL_FILE_BYTES", small_file_bytes)
    where = target(tmp_path, SCHEMA)
    with pytest.raises(StorageFullError, match="no space is left"):
        write_batches(type(where)(**{**where.__dict__, "io": FullIO()}), ROWS.to_batches(), partition_id=0, task_id=0)


def _written_by_many(folder: Path, io: Any) -> list[DataFile]:
    spec = partition_spec_from_text(_MIXED, ["p"])
    where = replace(target(folder, _MIXED, spec), io=io)
    return write_batches(where, _mixed_rows().to_batches(), partition_id=0, task_id=0)


_POINT = b"\x01\x01\x00\x00\x00" + bytes(16)  # the point 0, 0
_MIXED = Schema(
    NestedField(1, "p", LongType(), required=False),
    NestedField(2, "text", StringType(), required=False),
    NestedField(3, "number", DoubleType(), required=False),
    NestedField(4, "price", DecimalType(20, 2), required=False),
    NestedField(5, "place", GeometryType(), required=False),
    NestedField(6, "tags", ListType(7, StringType(), element_required=False), required=False),
)


def _mixed_rows() -> Any:
    """Return 300 rows of 100 partitions, with nulls, both zeros, NaN, and texts too long for a footer."""
    numbers = range(300)
    return pa.table(
        {
            "p": [number % 100 if number % 100 else None for number in numbers],
            "text": [
                None if number % 7 == 0 else chr(97 + number % 26) * (5000 if number % 11 == 0 else number % 20) for number in numbers
            ],
            "number": [(None, float("nan"), -0.0, 0.0, number / 3)[number % 5] for number in numbers],
            "price": [Decimal(number - 150) / 4 if number % 3 else None for number in numbers],
            "place": [_POINT if number % 2 else None for number in numbers],
            "tags": [["a", None] * (number % 3) if number % 4 else None for number in numbers],
        },
        schema=schema_to_arrow(_MIXED),
    )


def test_small_files_that_threads_write_are_those_that_are_written_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    by_threads = _written_by_many(tmp_path / "a", LocalFileIO())
    monkeypatch.setattr(write_module, "SMALL_FILE_BYTES", -1)
    one_by_one = _written_by_many(tmp_path / "b", LocalFileIO())
    assert len(by_threads) == 100
    assert [replace(file, file_path="") for file in by_threads] == [replace(file, file_path="") for file in one_by_one]
    assert [Path(file.file_path).read_bytes() for file in by_threads] == [Path(file.file_path).read_bytes() for file in one_by_one]


@pytest.mark.parametrize("number", [0, 1, 60, 137, 199])
@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "no space"), KeyboardInterrupt()], ids=["full", "interrupt"])
def test_a_failure_in_a_thread_leaves_none_of_the_small_files(tmp_path: Path, number: int, failure: BaseException) -> None:
    with pytest.raises(KeyboardInterrupt if isinstance(failure, KeyboardInterrupt) else StorageFullError):
        _written_by_many(tmp_path, _FailingIO(number, failure))
    assert _left(tmp_path) == []
