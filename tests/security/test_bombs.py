"""Bombs: every size and count that a file claims is checked against a limit before memory is allocated. Each bomb is read under a limit of memory."""

import json
import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.security.bombs import BOMBS

from icefloe import Limits
from icefloe.errors import AvroFormatError, PuffinFormatError
from icefloe.spec.avro import avro_codec
from icefloe.spec.puffin import puffin_codec

# All tests of this file run in one process of xdist, which reads each bomb once.
pytestmark = pytest.mark.xdist_group("bombs")
LIMITS = {field.name for field in fields(Limits)}
AVRO = ("manifest", "entries", "schema_of")  # read by the compiled reader and by the one over fastavro
ROOT = Path(__file__).parents[2]
LITTLE = 16 * 1024 * 1024  # bytes: limits that a test sets, so that bombs can be small

# Each bomb: its error, words of the error, the limits that are set, and the megabytes that the process may take.
REFUSED: dict[str, tuple[str, str, dict[str, int], int]] = {
    "manifest_in_deflate": ("AvroFormatError", "avro_block_bytes", {"avro_block_bytes": LITTLE}, 120),
    "manifest_in_zstandard": ("AvroFormatError", "avro_block_bytes", {}, 700),
    "entries_of_a_manifest_in_zstandard": ("AvroFormatError", "avro_block_bytes", {"avro_block_bytes": LITTLE}, 120),
    "manifest_in_snappy": ("AvroFormatError", "claims to unpack to 4294967295", {}, 120),
    "manifest_of_many_blocks": ("AvroFormatError", "avro_file_bytes", {"avro_file_bytes": 2 * LITTLE}, 250),
    "manifest_list_of_nothing": ("AvroFormatError", "more items than there are bytes", {}, 300),
    "manifest_of_nulls_of_a_quarter_gigabyte": ("AvroFormatError", "avro_block_bytes", {}, 700),
    "schema_of_a_billion_types": ("AvroFormatError", "manifest_schema_types", {}, 300),
    "avro_rows_of_nothing": ("DataFileFormatError", "items that take no bytes", {}, 200),
    "orc_stripe_of_many_rows": ("DataFileFormatError", "orc_stripe_rows", {"orc_stripe_rows": 1_000_000}, 300),
    "orc_stripe_of_many_columns": ("DataFileFormatError", "orc_stripe_values", {"orc_stripe_values": 1_000_000}, 60),
    "parquet_footer_of_many_columns": ("DataFileFormatError", "PARQUET_FOOTER_ITEMS", {"parquet_footer_items": 1000}, 300),
    "metadata_in_gzip": ("MetadataFormatError", "metadata_bytes", {"metadata_bytes": LITTLE}, 120),
    "metadata_of_many_values": ("MetadataFormatError", "metadata_values", {"metadata_values": 1_000_000}, 400),
    "metadata_with_a_deep_schema": ("MetadataFormatError", "nested too deeply", {}, 200),
    "metadata_with_a_schema_just_too_deep": ("MetadataFormatError", "read_nesting", {}, 200),
    "manifest_schema_of_many_types": ("AvroFormatError", "manifest_schema_types", {}, 400),
    "deep_name_mapping": ("MetadataFormatError", "read_nesting", {}, 100),
    "parquet_page_of_two_gigabytes": ("OutOfMemoryError", "cannot be read in the available memory", {}, 400),
    "puffin_blob": ("PuffinFormatError", "puffin_blob_bytes", {}, 120),
}


NATIVE, FASTAVRO = "the compiled reader", "the reader over fastavro"
# Making this file takes longer than reading it.
LONGEST = ("orc_stripe_of_many_columns",)


@pytest.fixture(scope="module")
def outcomes() -> dict[tuple[str, str], dict[str, Any]]:
    """Return the outcome of each bomb, by reader; fastavro reads where the compiled reader is missing."""
    bombs = [(name, limits, megabytes) for name, (_, _, limits, megabytes) in REFUSED.items() if name not in LONGEST]
    readers = {NATIVE: [*bombs, ("names_of_structs_in_lists", {}, 200)], FASTAVRO: [bomb for bomb in bombs if bomb[0].startswith(AVRO)]}
    hide = "import sys; sys.modules['icefloe.spec.avro.native._manifest'] = None; "
    return {
        (reader, outcome["name"]): outcome
        for reader, bombs in readers.items()
        for outcome in read_bombs(bombs, hide if reader == FASTAVRO else "")
    }


def read_bombs(bombs: list[tuple[str, dict[str, int], int]], start: str = "") -> list[dict[str, Any]]:
    """Read bombs in a process that begins with the code `start`."""
    command = [sys.executable, "-c", f"{start}from tests.security import bombs; bombs.main()", json.dumps(bombs)]
    environment = {**os.environ, "MALLOC_ARENA_MAX": "2", "ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=500)
    assert ended.returncode == 0, ended.stderr[-2000:]
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_every_bomb_has_its_expectation() -> None:
    assert {*REFUSED, "names_of_structs_in_lists"} == set(BOMBS)


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) if name in LONGEST else name for name in REFUSED])
def test_a_bomb_is_refused_in_little_memory_with_the_file_and_the_setting(
    outcomes: dict[tuple[str, str], dict[str, Any]], name: str
) -> None:
    error, text, limits, megabytes = REFUSED[name]
    if name in LONGEST:
        outcomes = {(NATIVE, name): read_bombs([(name, limits, megabytes)])[0]}
    for reader in (NATIVE, FASTAVRO) if name.startswith(AVRO) else (NATIVE,):
        outcome = outcomes[reader, name]
        assert (outcome["error"], text in outcome["text"]) == (error, True), (reader, outcome)
        assert name == "deep_name_mapping" or "s3://bucket/table/file" in outcome["text"] or "memory://bombs/file" in outcome["text"]
        assert text not in LIMITS or f"ICEFLOE_LIMITS__{text.upper()}" in outcome["text"], (reader, outcome)
        assert outcome["megabytes"] < megabytes
        assert outcome["cpu_seconds"] < 20


def test_a_schema_of_structs_in_lists_has_as_many_names_as_fields(outcomes: dict[tuple[str, str], dict[str, Any]]) -> None:
    outcome = outcomes[NATIVE, "names_of_structs_in_lists"]
    assert outcome["error"] is None, outcome
    assert outcome["cpu_seconds"] < 5


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
@pytest.mark.parametrize(
    ("decompress", "options"),
    [(avro_codec.decompress, {"codec": "zstandard"}), (puffin_codec.decompress, {"codec": "zstd", "limit": "puffin_blob_bytes"})],
)
def test_damaged_zstandard_data_leave_no_address_space_behind(decompress: Any, options: dict[str, Any]) -> None:
    """A process whose address space is larger than the memory of the machine cannot be forked."""
    data = bytes(pa.Codec("zstd").compress(bytes(50_000_000) + os.urandom(8_000), asbytes=True))
    damaged = data[:-100] + b"\xff" * 100
    before = address_space()
    for _ in range(35):
        with pytest.raises((AvroFormatError, PuffinFormatError)):
            decompress(data=damaged, path="some.file", offset=0, **options)
    assert address_space() - before < 1_500_000_000  # pyarrow reserves 1 GiB once; 35 buffers have 1.75 GB at least


def address_space() -> int:
    """Return the bytes of this process's address space."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
