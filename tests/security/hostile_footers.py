"""Parquet files whose footers contradict themselves, and their readers, each in a process of its own, since Arrow may end it."""

import io
import json
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from icefloe.datafile.data_file_reader import read_task
from icefloe.datafile.foreign_files import FooterReader, FooterRequest
from icefloe.errors import IcefloeError
from icefloe.inspect.data_file_contents import parquet_footer
from icefloe.io.memory_file_io import MemoryFileIO
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spec.expressions.bind import bind
from icefloe.spec.expressions.filter_parser import parse_filter
from icefloe.spec.expressions.predicate import AlwaysTrue, BooleanExpression
from icefloe.spec.manifest.data_file import DataFile, FileContent, FileFormat
from icefloe.spec.partitioning.partition_spec import UNPARTITIONED_SPEC
from icefloe.spec.schema.name_mapping import NameMapping
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import LongType, NestedField, StringType

PATH = "memory://footers/file.parquet"
SCHEMA = Schema(NestedField(1, "n", LongType()), NestedField(2, "s", StringType()))
MOST_SECONDS = 20
# These scans look at the metadata of no column chunk, or of column `s` alone, so they may read the rows of a file whose footer contradicts itself.
ALL_ROWS, ONE_COLUMN = "scan of all rows", "scan with a filter on s"
_INTEGERS, _BINARY, _LISTS, _STRUCT = (4, 5, 6), 8, (9, 10), 12

# A struct of Thrift: number, type and value of each field. A list: the type of its elements, and the elements.
Tree = list[list[Any]]


def sound_file() -> bytes:
    """Return a file of two columns and two row groups."""
    kinds = (("n", pa.int64(), "1"), ("s", pa.string(), "2"))
    schema = pa.schema([pa.field(name, kind, metadata={"PARQUET:field_id": number}) for name, kind, number in kinds])
    file = io.BytesIO()
    rows = pa.table([[1, 2, 3, None], ["a", "bb", None, "d"]], schema=schema)
    pq.write_table(rows, file, row_group_size=2, store_schema=False)
    return file.getvalue()


def divided(content: bytes) -> tuple[bytes, bytes]:
    """Return the bytes before the footer, and the footer."""
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    return content[:start], content[start:-8]


def with_footer(head: bytes, footer: bytes) -> bytes:
    return head + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def changed(change: Callable[[Tree], None]) -> bytes:
    """Return the sound file after a change to its footer's tree."""
    head, footer = divided(sound_file())
    tree, _ = _struct(footer, 0)
    assert _encoded(_STRUCT, tree) == footer
    change(tree)
    return with_footer(head, _encoded(_STRUCT, tree))


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7


def _as_varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 128:
        encoded.append(value & 127 | 128)
        value >>= 7
    return bytes([*encoded, value])


def _value(data: bytes, position: int, kind: int) -> tuple[Any, int]:
    if kind in (1, 2):
        return None, position
    if kind in _INTEGERS:
        return _varint(data, position)
    if kind == _BINARY:
        size, position = _varint(data, position)
        return data[position : position + size], position + size
    if kind in _LISTS:
        head = data[position]
        count, position = (head >> 4, position + 1) if head >> 4 < 15 else _varint(data, position + 1)
        values = []
        for _ in range(count):
            value, position = _value(data, position, head & 15)
            values.append(value)
        return [head & 15, values], position
    assert kind == _STRUCT, kind
    return _struct(data, position)


def _struct(data: bytes, position: int) -> tuple[Tree, int]:
    encoded: Tree = []
    number = 0
    while head := data[position]:
        number += head >> 4
        value, position = _value(data, position + 1, head & 15)
        encoded.append([number, head & 15, value])
    return encoded, position + 1


def _encoded(kind: int, value: Any) -> bytes:
    if kind in (1, 2):
        return b""
    if kind in _INTEGERS:
        return _as_varint(value)
    if kind == _BINARY:
        return _as_varint(len(value)) + value
    if kind in _LISTS:
        inner, values = value
        head = bytes([len(values) << 4 | inner]) if len(values) < 15 else bytes([0xF0 | inner]) + _as_varint(len(values))
        return head + b"".join(_encoded(inner, entry) for entry in values)
    encoded, last = b"", 0
    for number, inner, entry in value:
        step = number - last
        encoded += bytes([step << 4 | inner]) if 0 < step < 16 else bytes([inner]) + _as_varint(number << 1)
        encoded += _encoded(inner, entry)
        last = number
    return encoded + b"\0"


def member(tree: Tree, number: int) -> list[Any]:
    """Return a field of a struct, to be changed in place."""
    return next(entry for entry in tree if entry[0] == number)


def chunks(tree: Tree) -> list[Tree]:
    """Return the column chunks of the first row group."""
    column_chunks: list[Tree] = member(member(tree, 4)[2][1][0], 1)[2][1]
    return column_chunks


def metadata(tree: Tree, place: int = 0) -> Tree:
    """Return the metadata of a chunk."""
    chunk_metadata: Tree = member(chunks(tree)[place], 3)[2]
    return chunk_metadata


def _set(number: int, value: Any, place: int = 0) -> Callable[[Tree], None]:
    def change(tree: Tree) -> None:
        member(metadata(tree, place), number)[2] = value

    return change


def _set_bound(number: int, value: bytes) -> Callable[[Tree], None]:
    def change(tree: Tree) -> None:
        member(member(metadata(tree), 12)[2], number)[2] = value

    return change


def _sizes(value: Tree) -> Callable[[Tree], None]:
    def change(tree: Tree) -> None:
        chunk = metadata(tree)
        chunk[:] = [*(entry for entry in chunk if entry[0] != 16), [16, _STRUCT, value]]

    return change


def _encrypted(tree: Tree) -> None:
    chunks(tree)[0].append([8, _STRUCT, [[2, _STRUCT, [[1, 9, [8, [b"n"]]]]]]])


def _type_as_elements_of_another_type(tree: Tree) -> None:
    """A list of encodings that states texts: Arrow reads numbers from it all the same, and so finds other fields after it."""
    member(metadata(tree), 2)[2] = [8, [b"\x18\x00"]]


# Every change, and words of the error.
CONTRADICTIONS: dict[str, tuple[Callable[[Tree], None], str]] = {
    "another type than the schema": (_set(1, 2 << 1 ^ 6), "INT64 in the schema"),
    "a type that Parquet does not know": (_set(1, 50 << 1), "is of type 50"),
    "a codec that Parquet does not know": (_set(4, 9 << 1), "codec 9"),
    "a codec below zero": (_set(4, 1), "codec -1"),
    "a type of more than 32 bits": (_set(1, 2 << 1 | 1 << 32), "more than 32 bits"),
    "an upper bound cut short": (_set_bound(5, b"1234"), "has 4 bytes"),
    "a lower bound of no bytes": (_set_bound(6, b""), "has 0 bytes"),
    "an old upper bound cut short": (_set_bound(1, b"1"), "has 1 bytes"),
    "a count of levels that there are not": (_sizes([[3, 9, [6, [2, 2, 2]]]]), "counts 3 levels"),
    "a count of repetitions that there are not": (_sizes([[2, 9, [6, [2, 2]]]]), "counts 2 levels"),
    "a size of texts in a column of numbers": (_sizes([[1, 6, 2]]), "size of texts"),
    "a row group with a column less": (lambda tree: chunks(tree).pop(), "has 1 columns"),
    "a row group with a column more": (lambda tree: chunks(tree).append(chunks(tree)[0]), "has 3 columns"),
    "a chunk without metadata": (lambda tree: chunks(tree)[0].remove(member(chunks(tree)[0], 3)), "ColumnChunk lacks"),
    "a chunk without a type": (lambda tree: metadata(tree).remove(member(metadata(tree), 1)), ""),
    "a type that is given twice": (lambda tree: metadata(tree).append([1, 5, 2 << 1]), "given twice"),
    "an encrypted column": (_encrypted, "encrypted"),
    "a list of another type": (_type_as_elements_of_another_type, ""),
}


def readers(content: bytes) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield each way by which Icefloe reads a footer, and its name."""
    store = MemoryFileIO()
    store.write(PATH, content, overwrite=True)
    file = DataFile(
        content=FileContent.DATA,
        file_path=PATH,
        file_format=FileFormat.PARQUET,
        record_count=4,
        file_size_in_bytes=len(content),
        partition=(),
        spec_id=0,
    )
    both_columns = bind(parse_filter("n > 1 AND s < 'z'"), SCHEMA)

    def scanned(start: int, residual: BooleanExpression) -> int:
        task = FileScanTask(file=file, residual=residual, start=start, length=len(content))
        return sum(batch.num_rows for batch in read_task(store, task, schema=SCHEMA, projection=SCHEMA, specs={0: UNPARTITIONED_SPEC}))

    request = FooterRequest(schema=SCHEMA, properties={}, name_mapping=NameMapping(()), io=store)
    yield "scan", lambda: scanned(0, both_columns)
    yield "scan of a split", lambda: scanned(1, both_columns)
    yield ONE_COLUMN, lambda: scanned(0, bind(parse_filter("s < 'z'"), SCHEMA))
    yield ALL_ROWS, lambda: scanned(0, AlwaysTrue())
    yield "add_files", lambda: FooterReader(request, extremes_of=frozenset({1, 2})).read(PATH)
    yield "inspect", lambda: parquet_footer(SimpleNamespace(io=store), PATH)  # type: ignore[arg-type]


def outcome(read: Callable[[], object]) -> str:
    """Read in a forked process, and return "read", the text of Icefloe's error, or how the process ended."""
    sender, receiver = os.pipe()[::-1]
    process = os.fork()
    if not process:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.alarm(MOST_SECONDS)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            read()
            outcome_text = "read"
        except IcefloeError as error:
            outcome_text = f"{type(error).__name__}: {error}"
        except BaseException as error:  # noqa: BLE001  # the test looks at it
            outcome_text = f"not an error of `icefloe.errors`: {error!r}"
        os.write(sender, outcome_text.encode("utf-8", "replace")[:4000])
        os._exit(0)
    os.close(sender)
    with os.fdopen(receiver, "rb") as stream:
        outcome_text = stream.read().decode("utf-8", "replace")
    _, status = os.waitpid(process, 0)
    return f"the process ended with status {status}" if status else outcome_text


def flipped() -> Iterator[tuple[int, list[bytes]]]:
    """Yield each place in the sound file's footer, with files that have other bytes there: one bit changed, zero, the byte's neighbours."""
    head, footer = divided(sound_file())
    for place, byte in enumerate(footer):
        values = {byte ^ 1, byte ^ 2, byte ^ 4, byte ^ 0x10, 0, (byte + 1) & 255} - {byte}
        yield place, [with_footer(head, footer[:place] + bytes([value]) + footer[place + 1 :]) for value in sorted(values)]


def read_all(contents: list[bytes]) -> None:
    """Read each file by every reader, and ignore errors."""
    for content in contents:
        for _, read in readers(content):
            with suppress(IcefloeError):
                read()


def main() -> None:
    """Print the outcome of every contradiction as JSON, or the places where a flipped byte was neither read nor refused."""
    if sys.argv[1] == "contradictions":
        for name, (change, _) in {"nothing": (lambda _: None, ""), **CONTRADICTIONS}.items():
            for reader, read in readers(changed(change)):
                print(json.dumps([name, reader, outcome(read)]), flush=True)
        return
    for place, contents in flipped():
        outcome_text = outcome(partial(read_all, contents))
        if outcome_text != "read":
            print(json.dumps([str(place), "all", outcome_text]), flush=True)


if __name__ == "__main__":
    main()
