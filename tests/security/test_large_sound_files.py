"""Large files that are sound are within the default limits: a manifest in one block, a hundred thousand manifests, long metadata, wide schemas."""

import gzip
import json
from dataclasses import replace

import pytest
from tests.security.bombs import metadata_with
from tests.spec.manifest.made_up_entries import NO_PARTITION, SNAPSHOT_ID, added, data_file, written

from icefloe.spec.avro.avro_container import block_bytes, header_bytes, open_container, unpacked_blocks
from icefloe.spec.manifest.manifest_reader import read_columns
from icefloe.spec.manifest_list.manifest_list_reader import read_manifest_list
from icefloe.spec.manifest_list.manifest_list_writer import write_manifest_list
from icefloe.spec.metadata.metadata_reader import read_table_metadata


@pytest.mark.parametrize("codec", ["null", "deflate", "zstandard", "snappy"])
def test_a_manifest_in_one_block_of_many_megabytes_is_read(codec: str) -> None:
    bounds = dict.fromkeys(range(1, 11), b"x" * 40)
    content, manifest = written([added(data_file(f"{n}.parquet", lower_bounds=bounds, upper_bounds=bounds)) for n in range(100)])
    container = open_container(content, "f")
    few = b"".join(data for _, data in unpacked_blocks(container))
    times = 1 + 16 * 1024 * 1024 // len(few)
    count, data = 100 * times, few * times
    metadata = {key: value.decode() for key, value in container.metadata.items() if not key.startswith("avro.")}
    header = header_bytes(container.schema_text.decode(), metadata, codec, container.sync)
    whole = header + block_bytes(count, data, codec, container.sync)
    assert len(data) > 16 * 1024 * 1024
    listed = replace(manifest, manifest_length=len(whole), added_files_count=count)
    assert len(read_columns(whole, listed, NO_PARTITION).entries) == count


@pytest.mark.slow
def test_a_hundred_thousand_manifests_are_read() -> None:
    _, manifest = written([added(data_file())])
    listed = [replace(manifest, manifest_path=f"s3://b/t/metadata/{number:09}-m0.avro") for number in range(100_000)]
    context = {"format_version": 2, "snapshot_id": SNAPSHOT_ID, "parent_snapshot_id": 8, "first_row_id": None}
    content = write_manifest_list(listed, sequence_number=7, codec="deflate", **context)  # type: ignore[arg-type]
    assert len(read_manifest_list(content, "f")) == 100_000


@pytest.mark.slow
def test_a_hundred_megabytes_of_snapshots_in_gzip_are_read() -> None:
    document = json.loads(metadata_with('"int"'))
    summary = {"operation": "append", **{f"key-{number}": f"a value of some length {number * 7919}" for number in range(160)}}
    document["last-sequence-number"] = 20_000
    document["snapshots"] = [
        {"snapshot-id": n, "sequence-number": n, "timestamp-ms": n, "manifest-list": f"s3://b/{n}.avro", "summary": summary, "schema-id": 0}
        for n in range(1, 20_001)
    ]
    text = json.dumps(document).encode()
    assert len(text) > 100 * 1024 * 1024
    assert len(read_table_metadata(gzip.compress(text, 1), "f").snapshots) == 20_000


def test_a_schema_of_ten_thousand_columns_is_read() -> None:
    members = ",".join(f'{{"id":{number + 2},"name":"column_{number}","required":false,"type":"string"}}' for number in range(10_000))
    metadata = read_table_metadata(metadata_with(f'{{"type":"struct","fields":[{members}]}}'), "f")
    assert len(metadata.schema().field_ids) == 10_001
