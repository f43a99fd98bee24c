"""Files of a few kilobytes that claim, or unpack to, more than a machine has; each is read in a process of its own with little memory: `test_bombs.py`.

`python -m tests.security.bombs '[["NAME", {"limit": 5}, MEGABYTES]]'` builds each bomb in a process of its own, allows the process that much memory beyond
what it has, reads the bomb, and prints the outcome as JSON.
"""

import io
import json
import os
import resource
import signal
import struct
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from icefloe import Limits, set_limits
from icefloe.datafile.data_file_reader import read_task
from icefloe.io.memory_file_io import MemoryFileIO
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spec.avro.avro_columns import read_batches
from icefloe.spec.avro.avro_container import header_bytes, open_container
from icefloe.spec.avro.avro_schema import field, record
from icefloe.spec.avro.projection_tree import ProjectedField, Struct, Value
from icefloe.spec.avro.varint import decode_long, encode_long
from icefloe.spec.expressions.predicate import AlwaysTrue
from icefloe.spec.manifest.data_file import DataFile, FileContent, FileFormat
from icefloe.spec.manifest.manifest_reader import read_columns, read_entries
from icefloe.spec.manifest.manifest_schema import manifest_schema
from icefloe.spec.manifest_list.manifest_file import ManifestFile
from icefloe.spec.manifest_list.manifest_list_reader import read_manifest_list
from icefloe.spec.metadata.metadata_reader import read_table_metadata
from icefloe.spec.partitioning.partition_spec import UNPARTITIONED_SPEC
from icefloe.spec.puffin.puffin_file import in_memory_puffin, read_blob, read_file_metadata
from icefloe.spec.schema.name_mapping import mapping_from_json
from icefloe.spec.schema.schema import Schema
from icefloe.spec.schema.schema_json import schema_from_json
from icefloe.spec.types import FixedType, ListType, LongType, NestedField, StructType

SYNC = b"s" * 16
PATH = "s3://bucket/table/file"
NO_PARTITION = StructType()
MIB = 1024 * 1024
MOST_SECONDS = 30  # of a bomb; one that takes longer is ended

Read = Callable[[], object]


def deflated(size: int, unit: bytes = bytes(MIB)) -> bytes:
    """Return `size` MiB of a unit in raw deflate, a thousandth as large."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return b"".join([*(packer.compress(unit) for _ in range(size)), packer.flush()])


def gzipped(*parts: tuple[bytes, int]) -> bytes:
    """Return texts, each so many times, in gzip."""
    packer = zlib.compressobj(9, wbits=31)
    return b"".join([*(packer.compress(text) for text, times in parts for _ in range(times)), packer.flush()])


def zstandard(blocks: int) -> bytes:
    """Return a frame of so many blocks of four bytes, each of which unpacks to 128 KiB of zeros."""
    block = struct.pack("<I", 0 | 1 << 1 | (128 * 1024) << 3)[:3] + b"\0"
    last = struct.pack("<I", 1 | 1 << 1 | (128 * 1024) << 3)[:3] + b"\0"
    return b"\x28\xb5\x2f\xfd" + b"\x00" + b"\x58" + block * (blocks - 1) + last


def avro(schema: Any, codec: str, *blocks: tuple[int, bytes]) -> bytes:
    """Return an Avro file of blocks, each with how many records it claims and its bytes as they are stored."""
    parts = [header_bytes(json.dumps(schema), {}, codec, SYNC)]
    for count, data in blocks:
        parts += (encode_long(count), encode_long(len(data)), data, SYNC)
    return b"".join(parts)


def manifest(content: bytes) -> ManifestFile:
    return ManifestFile(manifest_path=PATH, manifest_length=len(content), partition_spec_id=0, added_snapshot_id=1)


def read_manifest(content: bytes) -> Read:
    return lambda: read_columns(content, manifest(content), NO_PARTITION)


ENTRY = manifest_schema(NO_PARTITION, 2)


def manifest_in_deflate() -> Read:
    return read_manifest(avro(ENTRY, "deflate", (1, deflated(150))))


def manifest_in_zstandard() -> Read:
    return read_manifest(avro(ENTRY, "zstandard", (1, zstandard(800_000))))


def manifest_in_snappy() -> Read:
    claim = b"\xff\xff\xff\xff\x0f" + bytes(50)
    return read_manifest(avro(ENTRY, "snappy", (1, claim + bytes(4))))


def manifest_of_many_blocks() -> Read:
    schema = {"type": "record", "name": "r", "fields": [{"name": "b", "type": "bytes", "field-id": 1}]}
    size = 8 * MIB
    packed = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packed.compress(encode_long(size) + bytes(size)) + packed.flush()
    content = avro(schema, "deflate", *[(1, block)] * 40)
    projected = Struct((ProjectedField(1, (), Value("b")),))
    return lambda: list(read_batches(open_container(content, PATH), projected))


def manifest_list_of_nothing() -> Read:
    """Return arrays of items that take no bytes: 60,000 in each of 10,000 records of some ten bytes."""
    nothing = [{"name": name, "type": "null", "field-id": number} for name, number in (("contains_null", 509), ("contains_nan", 518))]
    fields = [
        {"name": "manifest_path", "type": "string", "field-id": 500},
        {"name": "manifest_length", "type": "long", "field-id": 501},
        {"name": "partition_spec_id", "type": "int", "field-id": 502},
        {"name": "added_snapshot_id", "type": "long", "field-id": 503},
        {
            "name": "partitions",
            "field-id": 507,
            "type": {"type": "array", "element-id": 508, "items": {"type": "record", "name": "r508", "fields": nothing}},
        },
    ]
    line = encode_long(1) + b"x" + encode_long(1) * 3 + encode_long(60_000) + b"\0"
    content = avro(record("manifest_file", fields), "null", (10_000, line * 10_000))
    return lambda: read_manifest_list(content, PATH)


def manifest_of_nulls_of_a_quarter_gigabyte() -> Read:
    """Return a manifest with a partition value of a fixed type, of which every null takes two hundred million bytes in Arrow."""
    partition = {
        "type": "record",
        "name": "r102",
        "fields": [field(1000, "p", ["null", {"type": "fixed", "name": "f", "size": 200_000_000}])],
    }
    members = [field(100, "path", "string"), field(101, "format", "string"), field(102, "partition", partition)]
    members += [field(103, "rows", "long"), field(104, "size", "long")]
    schema = record("entry", [field(0, "status", "int"), field(2, "data_file", record("r2", members))])
    entry = encode_long(1) + encode_long(1) + b"x" + encode_long(7) + b"PARQUET" + encode_long(0) + encode_long(1) * 2
    content = avro(schema, "null", (500, entry * 500))
    return lambda: read_columns(content, manifest(content), StructType(NestedField(1000, "p", FixedType(200_000_000))))


def schema_of_a_billion_types() -> Read:
    """Return a schema of forty records, each with two fields of the type of the record before it."""
    kind: Any = {"type": "record", "name": "r0", "fields": [{"name": "a", "type": "long"}]}
    for number in range(1, 41):
        first = {"name": "a", "type": kind}
        kind = {"type": "record", "name": f"r{number}", "fields": [first, {"name": "b", "type": f"r{number - 1}"}]}
    schema = {**ENTRY, "fields": [*ENTRY["fields"], {"name": "x", "type": kind}]}
    return read_manifest(avro(schema, "null", (1, b"\0")))


def avro_rows_of_nothing() -> Read:
    """Return a data file of a hundred bytes with a list of a trillion nulls."""
    kind = {"type": "array", "items": "null", "element-id": 2}
    schema = {"type": "record", "name": "table", "fields": [{"name": "x", "type": kind, "field-id": 1}]}
    content = avro(schema, "null", (1, encode_long(2**40) + b"\0"))
    return read_rows(
        content, FileFormat.AVRO, Schema(NestedField(1, "x", ListType(element_id=2, element=LongType(), element_required=False)))
    )


def read_rows(content: bytes, form: FileFormat, schema: Schema, *, rows: int = 1) -> Read:
    store = MemoryFileIO()
    path = "memory://bombs/file"
    store.write(path, content, overwrite=True)
    file = DataFile(
        content=FileContent.DATA,
        file_path=path,
        file_format=form,
        record_count=rows,
        file_size_in_bytes=len(content),
        partition=(),
        spec_id=0,
    )
    task = FileScanTask(file=file, residual=AlwaysTrue(), length=len(content))
    return lambda: sum(batch.num_rows for batch in read_task(store, task, schema=schema, projection=schema, specs={0: UNPARTITIONED_SPEC}))


ONE_COLUMN = Schema(NestedField(1, "n", LongType()))


def orc_stripe_of_many_rows() -> Read:
    file = io.BytesIO()
    schema = pa.schema([pa.field("n", pa.int64(), metadata={"iceberg.id": "1"})])
    orc.write_table(pa.table([pa.repeat(pa.scalar(7, pa.int64()), 3_000_000)], schema=schema), file)
    return read_rows(file.getvalue(), FileFormat.ORC, ONE_COLUMN, rows=3_000_000)


def orc_stripe_of_many_columns() -> Read:
    """Return an ORC file of a hundred columns of 100,000 equal numbers: each takes some hundred bytes, and all of them, read at once, 80 MB."""
    file = io.BytesIO()
    fields = [NestedField(number, f"n{number}", LongType()) for number in range(1, 101)]
    schema = pa.schema([pa.field(field.name, pa.int64(), metadata={"iceberg.id": str(field.field_id)}) for field in fields])
    orc.write_table(pa.table([pa.repeat(pa.scalar(7, pa.int64()), 100_000)] * 100, schema=schema), file)
    return read_rows(file.getvalue(), FileFormat.ORC, Schema(*fields), rows=100_000)


def parquet_footer_of_many_columns() -> Read:
    file = io.BytesIO()
    pq.write_table(pa.table({f"c{number}": [1] for number in range(3_000)}), file)
    return read_rows(file.getvalue(), FileFormat.PARQUET, ONE_COLUMN)


def metadata_in_gzip() -> Read:
    content = gzipped((b"{", 1), (b" " * MIB, 300), (b"}", 1))
    return lambda: read_table_metadata(content, PATH)


def metadata_of_many_values() -> Read:
    """Return metadata whose values take two bytes of text each, and sixty of memory."""
    content = gzipped((b'{"format-version":2,"snapshots":[0', 1), (b",0" * MIB, 40), (b"]}", 1))
    return lambda: read_table_metadata(content, PATH)


def nested_type(kind: str, levels: int) -> str:
    """Return the JSON of a type that is so many levels deep, as text: `json.dumps` would end the stack."""
    opening, closing = [], []
    for level in range(levels):
        number = 2 + level
        as_list = kind == "list" or (kind == "list of structs" and level % 2 == 0)
        if as_list:
            opening.append(f'{{"type":"list","element-id":{number},"element-required":false,"element":')
            closing.append("}")
        else:
            opening.append(f'{{"type":"struct","fields":[{{"id":{number},"name":"f","required":false,"type":')
            closing.append("}]}")
    return "".join(opening) + '"int"' + "".join(reversed(closing))


def metadata_with(kind: str) -> bytes:
    """Return the metadata of an empty table of one column of a type, which is given as JSON."""
    schema = f'{{"type":"struct","schema-id":0,"fields":[{{"id":1,"name":"c","required":false,"type":{kind}}}]}}'
    return (
        '{"format-version":2,"table-uuid":"9c12d441-03fe-4693-9a96-a0705ddf69c1","location":"s3://b/t","last-sequence-number":0,'
        '"last-updated-ms":1,"last-column-id":20000,"current-schema-id":0,"default-spec-id":0,"last-partition-id":999,'
        '"partition-specs":[{"spec-id":0,"fields":[]}],"default-sort-order-id":0,"sort-orders":[{"order-id":0,"fields":[]}],'
        f'"schemas":[{schema}]}}'
    ).encode()


def metadata_with_a_deep_schema() -> Read:
    content = metadata_with(nested_type("struct", 10_000))
    return lambda: read_table_metadata(content, PATH)


def metadata_with_a_schema_just_too_deep() -> Read:
    content = metadata_with(nested_type("list", 101))
    return lambda: read_table_metadata(content, PATH)


def names_of_structs_in_lists() -> Read:
    """Return an allowed schema, for which an index of names with and without `element` at each level would have a quadrillion names."""
    schema = json.loads(
        f'{{"type":"struct","fields":[{{"id":1,"name":"c","required":false,"type":{nested_type("list of structs", 100)}}}]}}'
    )

    def names() -> int | None:
        return schema_from_json(schema).find_id("c" + ".f" * 50)

    return names


def manifest_schema_of_many_types() -> Read:
    """Return a schema of ninety thousand arrays, for each of which a reader that generates code would make thirty lines."""
    more = [{"name": f"x{number}", "type": {"type": "array", "items": "double"}} for number in range(90_000)]
    return read_manifest(avro({**ENTRY, "fields": [*ENTRY["fields"], *more]}, "null", (1, b"\0")))


def deep_name_mapping() -> Read:
    text = '[{"names":["a"],"fields":' * 300 + "[]" + "}]" * 300
    return lambda: mapping_from_json(text)


def parquet_page_of_two_gigabytes() -> Read:
    """Return a Parquet file with a small page in snappy, whose header claims two gigabytes."""
    file = io.BytesIO()
    schema = pa.schema([pa.field("n", pa.int64(), metadata={"PARQUET:field_id": "1"})])
    pq.write_table(pa.table([pa.array(range(100))], schema=schema), file, compression="snappy", use_dictionary=False)
    content = file.getvalue()
    end = 4 + pq.read_metadata(file).row_group(0).column(0).total_compressed_size
    # The page's header follows the magic bytes: its type, its unpacked size and its packed size, as varints; of the sizes each has two bytes.
    assert content[4:7] == b"\x15\x00\x15"
    assert content[9] == 0x15
    packed, _ = decode_long(content, 10)
    # The claim takes three bytes more, which are taken from the page's end, so that all else stays where it is.
    head = content[:7] + encode_long(2**31 - 1) + b"\x15" + encode_long(packed - 3)
    return read_rows(head + content[12 : end - 3] + content[end:], FileFormat.PARQUET, ONE_COLUMN, rows=100)


def puffin_blob() -> Read:
    """Return a Puffin blob in Zstandard, of a hundred gigabytes of zeros, whose frame states its true size."""
    frame = zstandard(800_000)
    stated = b"\x28\xb5\x2f\xfd" + b"\xc0" + b"\x58" + struct.pack("<Q", 800_000 * 128 * 1024) + frame[6:]
    blob = {
        "type": "x",
        "fields": [1],
        "snapshot-id": 1,
        "sequence-number": 1,
        "offset": 4,
        "length": len(stated),
        "compression-codec": "zstd",
    }
    footer = json.dumps({"blobs": [blob]}).encode()
    content = b"PFA1" + stated + b"PFA1" + footer + struct.pack("<ii", len(footer), 0) + b"PFA1"

    def read() -> int:
        source = in_memory_puffin(content, PATH)
        return len(read_blob(source, read_file_metadata(source).blobs[0]))

    return read


def entries_of_a_manifest_in_zstandard() -> Read:
    content = avro(ENTRY, "zstandard", (1, zstandard(800_000)))
    return lambda: read_entries(content, manifest(content), NO_PARTITION)


BOMBS: dict[str, Callable[[], Read]] = {
    found.__name__: found
    for found in (
        manifest_in_deflate,
        manifest_in_zstandard,
        entries_of_a_manifest_in_zstandard,
        manifest_in_snappy,
        manifest_of_many_blocks,
        manifest_list_of_nothing,
        manifest_of_nulls_of_a_quarter_gigabyte,
        schema_of_a_billion_types,
        avro_rows_of_nothing,
        orc_stripe_of_many_rows,
        orc_stripe_of_many_columns,
        parquet_footer_of_many_columns,
        metadata_in_gzip,
        metadata_of_many_values,
        metadata_with_a_deep_schema,
        metadata_with_a_schema_just_too_deep,
        names_of_structs_in_lists,
        manifest_schema_of_many_types,
        deep_name_mapping,
        parquet_page_of_two_gigabytes,
        puffin_blob,
    )
}


def read_with(name: str, limits: dict[str, int], megabytes: int) -> dict[str, Any]:
    """Read a bomb in this process, which may take so many megabytes more, and return the outcome."""
    set_limits(Limits(**limits))
    read = BOMBS[name]()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + megabytes * MIB
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    started = time.process_time()
    error: BaseException | None = None
    try:
        read()
    except BaseException as caught:  # noqa: BLE001  # the test checks which error it is
        error = caught
    return {
        "name": name,
        "error": None if error is None else type(error).__name__,
        "text": "" if error is None else str(error)[:3000],
        "megabytes": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024,
        "cpu_seconds": round(time.process_time() - started, 2),
    }


def main() -> None:
    """Read each bomb of the JSON on the command line, [name, limits, megabytes], in a process of its own, and print a line for each."""
    for name, limits, megabytes in json.loads(sys.argv[1]):
        process = os.fork()
        if not process:
            signal.alarm(MOST_SECONDS)
            print(json.dumps(read_with(name, limits, megabytes)), flush=True)
            os._exit(0)
        _, status = os.waitpid(process, 0)
        if status:
            print(
                json.dumps({"name": name, "error": f"died with status {status}", "text": "", "megabytes": 0, "cpu_seconds": 0}), flush=True
            )


if __name__ == "__main__":
    main()
