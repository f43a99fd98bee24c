"""The stream of planned files: what was written is read, and bytes that are no such stream of the table are refused."""

import json
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from tests.fuzz import mutate
from tests.server.openapi import json_of_stream
from tests.server.planned_streams import STATISTICS, planned, read, stream, streams

from icefloe.errors import MetadataFormatError
from icefloe.scan.scan_plan import ScanPlan
from icefloe.scan.scan_task_stream import DELETES, FORMAT, RESIDUAL, written_stream
from icefloe.server.scan_task_json import ScanTaskJson


def described(plan: ScanPlan) -> list[str]:
    """Return the tasks of a plan without their sequence numbers, which the protocol does not have."""
    files = [(task.file, str(task.residual), [file.file_path for file in task.delete_files]) for task in plan.tasks()]
    return sorted(map(repr, files))


def opened(content: bytes) -> tuple[pa.Schema, list[pa.RecordBatch]]:
    with pa.ipc.open_stream(content) as reading:
        return reading.schema, list(reading)


def written(schema: pa.Schema, batches: list[pa.RecordBatch], **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(**options)) as writing:
        for batch in batches:
            writing.write_batch(batch)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def test_what_was_written_is_read() -> None:
    _, plan = planned()
    assert len(plan.parts) == 2
    assert len(plan.delete_files) == 3
    assert described(read(stream())) == described(plan)


def test_files_whose_columns_have_several_chunks_are_those_of_one() -> None:
    metadata, plan = planned()
    parts = [replace(part, entries=pa.concat_tables([part.entries.slice(0, 1), part.entries.slice(1)])) for part in plan.parts]
    assert {part.entries["file_path"].num_chunks for part in parts} == {2}
    chunked = replace(plan, parts=tuple(parts))
    deletes = np.arange(len(plan.delete_files))
    writer = ScanTaskJson(metadata, STATISTICS)
    response = {"delete-files": [writer.delete_file(file) for file in plan.delete_files]}
    content = bytes(written_stream(parts, response, STATISTICS, deletes))
    assert len(opened(content)[1]) == 2 * len(parts), "each chunk is a batch, so that none is copied"
    assert described(read(content)) == described(chunked) == described(plan)
    assert writer.page(parts) == writer.page(plan.parts)
    for part, whole in zip(parts, plan.parts, strict=True):
        rows = np.array([1, 0])
        pieces = [list(piece.tasks()) for piece in part.divide(rows, [1, 2])]
        assert pieces == [list(piece.tasks()) for piece in whole.divide(rows, [1, 2])]


def test_a_stream_is_one_of_arrow_that_any_library_reads() -> None:
    schema, batches = opened(stream())
    assert [batch.num_rows for batch in batches] == [len(part) for part in planned()[1].parts]
    assert "partition.1000.0" in schema.names
    assert "first_row_id" not in schema.names, "columns without values are left out"


def test_a_stream_represents_the_json_of_the_protocol() -> None:
    metadata, plan = planned()
    page = json.loads(b"{" + ScanTaskJson(metadata, STATISTICS).page(plan.parts) + b"}")
    assert json_of_stream(stream()) == page


def test_statistics_that_the_server_does_not_send_are_unknown() -> None:
    (task, *_) = read(stream(statistics=(1,))).tasks()
    assert set(task.file.lower_bounds or ()) == {1}
    (task, *_) = read(stream(statistics=())).tasks()
    assert task.file.lower_bounds is None


def with_column(name: str, values: Callable[[pa.RecordBatch], Any], field: pa.Field | None = None) -> bytes:
    """Return the stream with another column of a name in each batch."""
    schema, batches = opened(stream())
    place = schema.get_field_index(name)
    changed = schema.set(place, field or schema.field(place))
    columns = [[values(batch) if one == name else batch.column(one) for one in schema.names] for batch in batches]
    return written(changed, [pa.RecordBatch.from_arrays(arrays, schema=changed) for arrays in columns])


def with_metadata(change: Callable[[dict[bytes, bytes]], None]) -> bytes:
    schema, batches = opened(stream())
    metadata = dict(schema.metadata)
    change(metadata)
    changed = schema.with_metadata(metadata)
    return written(changed, [pa.RecordBatch.from_arrays(batch.columns, schema=changed) for batch in batches])


def with_layout(**members: Any) -> bytes:
    def change(metadata: dict[bytes, bytes]) -> None:
        layout = msgspec.json.decode(metadata[b"icefloe.layout"])
        metadata[b"icefloe.layout"] = msgspec.json.encode({**layout, **members})

    return with_metadata(change)


def places(*numbers: int) -> Callable[[pa.RecordBatch], Any]:
    return lambda batch: pa.array(list(numbers)[: batch.num_rows], pa.int32())


FILE = {
    "data-file": {"spec-id": 0, "content": "data", "file-path": "p", "file-format": "parquet", "file-size-in-bytes": 1, "record-count": 1}
}


def with_nulls(name: str) -> bytes:
    """Return the stream with a null in a column whose field allows none."""

    def values(batch: pa.RecordBatch) -> Any:
        column = batch.column(name)
        return pa.Array.from_buffers(column.type, len(column), [pa.py_buffer(b"\x02"), *column.buffers()[1:]])

    return with_column(name, values)


def damaged_text() -> bytes:
    content = stream()
    at = content.index(b"m1m2")
    return content[:at] + b"\xff\xfe" + content[at + 2 :]


def cut_between_batches() -> bytes:
    schema, batches = opened(stream())
    return written(schema, batches[:-1])


def with_another_batch() -> bytes:
    schema, batches = opened(stream())
    return written(schema, [*batches, batches[0]])


def compressed_as_before_version_5() -> bytes:
    """Return the stream compressed as Arrow 0.17 did it: the codec is in the metadata of each message, and not in its record batch."""
    schema, batches = opened(stream())
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd", metadata_version=pa.ipc.MetadataVersion.V4)
    with pa.ipc.new_stream(sink, schema, options=options) as writing:
        for batch in batches:
            writing.write_batch(batch, custom_metadata={"ARROW:experimental_compression": "ZSTD"})
    content = bytearray(sink.getvalue().to_pybytes())
    messages = pa.ipc.MessageReader.open_stream(bytes(content))
    for message in list(messages)[1:]:
        metadata = message.metadata.to_pybytes()

        def number(form: str, at: int, metadata: bytes = metadata) -> int:
            return int(struct.unpack_from(form, metadata, at)[0])

        header = number("<I", 0) + number("<H", number("<I", 0) - number("<i", number("<I", 0)) + 8)
        batch_at = header + number("<I", header)
        compression = batch_at - number("<i", batch_at) + 10
        assert number("<H", compression)
        struct.pack_into("<H", content, bytes(content).index(metadata) + compression, 0)
    assert sum(batch.num_rows for batch in opened(bytes(content))[1]) == 4, "Arrow decompresses it"
    return bytes(content)


def without_files() -> bytes:
    schema, batches = opened(stream())
    return written(schema, [batch.slice(0, 0) for batch in batches])


def with_shared_bytes() -> bytes:
    """Return a stream with a batch of 1000 files whose last two columns are the same bytes."""
    schema, _ = opened(with_layout(**{"spec-ids": [0]}))
    names = ["file_path", FORMAT, RESIDUAL, "record_count", "file_size_in_bytes"]
    plain = pa.schema([schema.field(name) for name in names], metadata=schema.metadata)
    columns = [pa.array([""] * 1000 if name == "file_path" else [0] * 1000, plain.field(name).type) for name in names]
    content = bytearray(written(plain, [pa.RecordBatch.from_arrays(columns, schema=plain)]))
    _, message = list(pa.ipc.MessageReader.open_stream(bytes(content)))
    length, batch = message.body.size, pa.ipc.read_record_batch(message, plain)
    records, sizes = (struct.pack("<qq", batch[name].buffers()[1].address - message.body.address, 8000) for name in names[-2:])
    assert sum(batch.nbytes for batch in opened(bytes(content))[1]) <= length
    for whole, part in ((sizes, records), (struct.pack("<q", length), struct.pack("<q", length - 8000))):
        content = content.replace(whole, part, 1)
    del content[-8008:-8]
    assert opened(bytes(content))[1][0].to_pylist() == batch.to_pylist()
    return bytes(content)


HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "nothing": (lambda: b"", "empty|not Arrow"),
    "an end": (lambda: b"\xff\xff\xff\xff\0\0\0\0", "empty|not Arrow"),
    "JSON": (lambda: b'{"file-scan-tasks":[]}', "not Arrow"),
    "another stream": (lambda: written(pa.schema([("a", pa.int64())]), []), "no response"),
    "no columns": (lambda: written(pa.schema([], metadata=opened(stream())[0].metadata), []), "lacks columns"),
    "cut in a batch": (lambda: stream()[:-100], "damaged"),
    "cut between batches": (cut_between_batches, "cut short"),
    "one more batch": (with_another_batch, "its layout does not have"),
    "compressed": (lambda: written(*opened(stream()), compression="zstd"), "compressed"),
    "compressed with lz4": (lambda: written(*opened(stream()), compression="lz4"), "compressed"),
    "compressed as before version 5": (compressed_as_before_version_5, "compressed"),
    "metadata before version 5": (
        lambda: written(*opened(stream()), metadata_version=pa.ipc.MetadataVersion.V4),
        "another version of Arrow's metadata",
    ),
    "batches of no files": (without_files, "no files"),
    "columns that share bytes": (with_shared_bytes, "overlap"),
    "more batches than any server sends": (lambda: with_layout(**{"spec-ids": [0] * 70_000}), "more than 65,536 batches"),
    "files as JSON too": (lambda: stream(**{"file-scan-tasks": [FILE]}), "beside those of its stream"),
    "a long name": (lambda: with_layout(**{"file-formats": ["x" * 10_000]}), r"x{500,600}\.\.\.\n"),
    "a dictionary": (
        lambda: with_column(
            "file_path", lambda batch: batch["file_path"].dictionary_encode(), pa.field("file_path", pa.dictionary(pa.int32(), pa.string()))
        ),
        "file_path",
    ),
    "another type": (
        lambda: with_column("record_count", lambda batch: batch["record_count"].cast(pa.int32()), pa.field("record_count", pa.int32())),
        "record_count",
    ),
    "nulls allowed": (lambda: with_column("file_path", lambda batch: batch["file_path"], pa.field("file_path", pa.string())), "file_path"),
    "a null path": (lambda: with_nulls("file_path"), "null"),
    "a null count": (lambda: with_nulls("record_count"), "null"),
    "a null in offsets": (
        lambda: with_column("split_offsets", lambda batch: pa.array([[None]] * batch.num_rows, pa.list_(pa.int64()))),
        "null",
    ),
    "no UTF-8": (damaged_text, "damaged"),
    "a negative count": (lambda: with_column("record_count", lambda batch: pa.array([-1] * batch.num_rows, pa.int64())), "-1"),
    "an unknown format": (lambda: with_layout(**{"file-formats": ["exe"]}), "exe"),
    "no formats": (lambda: with_layout(**{"file-formats": []}), "among 0"),
    "a format beyond": (lambda: with_column(FORMAT, places(0, 1)), "among 1"),
    "a residual before": (lambda: with_column(RESIDUAL, places(-1, 0)), "among"),
    "a residual of no column": (lambda: with_layout(**{"residual-filters": [{"type": "eq", "term": "nothing", "value": 1}]}), "residual"),
    "a delete file beyond": (
        lambda: with_column(DELETES, lambda batch: pa.array([[9]] * batch.num_rows, opened(stream())[0].field(DELETES).type)),
        "among 3",
    ),
    "an unknown spec": (lambda: with_layout(**{"spec-ids": [0, 7]}), "partition spec 7"),
    "a spec without columns": (lambda: with_layout(**{"spec-ids": [1, 1]}), "partition.1000.0"),
    "no layout": (lambda: with_metadata(lambda metadata: metadata.pop(b"icefloe.layout")), "no response"),
    "another layout": (lambda: with_metadata(lambda metadata: metadata.update({b"icefloe.layout": b"[]"})), "layout"),
    "deep layout": (lambda: with_metadata(lambda metadata: metadata.update({b"icefloe.layout": b"[" * 100_000})), "layout"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_stream_of_the_table_is_an_error_that_names_it(name: str) -> None:
    make, shown = HOSTILE[name]
    with pytest.raises(MetadataFormatError, match=rf"(?s)db\.t by the server of catalog 'lake'.*({shown})"):
        read(make())


def test_a_column_of_another_name_or_twice_is_refused() -> None:
    schema, batches = opened(stream())
    for name, shown in (("x", "'x'"), ("file_path", "twice")):
        wider = schema.append(pa.field(name, pa.string(), nullable=False))
        content = written(wider, [pa.RecordBatch.from_arrays([*batch.columns, batch["file_path"]], schema=wider) for batch in batches])
        with pytest.raises(MetadataFormatError, match=shown):
            read(content)


def test_a_length_that_the_bytes_do_not_have_takes_no_memory() -> None:
    content = stream()
    for number in (2**31, 2**40, 2**62, 2**63 - 1):
        for at in range(0, len(content) - 8, 8):
            if content[at : at + 8] == (2).to_bytes(8, "little"):  # rows of a batch, lengths of arrays
                before = pa.total_allocated_bytes()
                with suppress(MetadataFormatError):
                    read(content[:at] + number.to_bytes(8, "little") + content[at + 8 :])
                assert pa.total_allocated_bytes() - before < 1_000_000


@pytest.mark.parametrize("damage", [mutate.any_bytes, mutate.sizes])
def test_a_damaged_stream_is_read_or_refused(damage: mutate.Mutate) -> None:
    chance, seeds = Random(7), streams()
    refused = 0
    for _ in range(1500):
        content = damage(chance, seeds)
        try:
            list(read(content).tasks())
        except MetadataFormatError:
            refused += 1
    assert 100 < refused < 1500
