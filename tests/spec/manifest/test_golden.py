"""Manifest lists and manifests written by Java, Spark, Flink, PyIceberg and others."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pytest

from icefloe.spec.manifest.manifest_columns import STATISTICS, every_statistic, statistic_column
from icefloe.spec.manifest.manifest_reader import read_columns, read_entries, read_manifest_header
from icefloe.spec.manifest_list.manifest_file import ManifestFile
from icefloe.spec.manifest_list.manifest_list_reader import read_manifest_list
from icefloe.spec.manifest_list.manifest_list_writer import write_manifest_list
from icefloe.spec.types import DateType, IntegerType, NestedField, StringType, StructType, TimestampType

GOLDEN = Path(__file__).parents[4] / "shared" / "golden"
pytestmark = pytest.mark.skipif(not GOLDEN.is_dir(), reason="the golden data of other implementations is not beside this checkout")

LISTS = sorted([*GOLDEN.glob("manifest-lists/*.avro"), *GOLDEN.glob("tables/**/snap-*.avro")])
TYPES = {"date": DateType(), "timestamp": TimestampType(), "string": StringType(), "int": IntegerType()}


def records(path: Path) -> list[dict[str, Any]]:
    with path.open("rb") as file:
        return list(fastavro.reader(file))


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.name)
def test_manifest_lists_are_read_as_another_library_reads_them(path: Path) -> None:
    found = read_manifest_list(path.read_bytes(), str(path))
    for manifest, other in zip(found, records(path), strict=True):
        assert (manifest.manifest_path, manifest.manifest_length) == (other["manifest_path"], other["manifest_length"])
        assert manifest.added_files_count == other.get("added_files_count", other.get("added_data_files_count"))
        assert (manifest.sequence_number, manifest.content) == (other.get("sequence_number", 0), other.get("content", 0))
        assert len(manifest.partitions or ()) == len(other["partitions"] or ())
    if all(manifest.added_files_count is not None for manifest in found):
        again = write_manifest_list(found, format_version=2, snapshot_id=1, parent_snapshot_id=None, sequence_number=1)
        assert read_manifest_list(again, "again") == found


def manifests() -> Iterator[ManifestFile]:
    seen = set()
    for path in LISTS:
        for manifest in read_manifest_list(path.read_bytes(), str(path)):
            if manifest.manifest_path not in seen and (GOLDEN / "tables" / manifest.manifest_path).is_file():
                seen.add(manifest.manifest_path)
                yield manifest


def partition_type(header: dict[str, str]) -> StructType:
    columns = {column["id"]: column["type"] for column in json.loads(header["schema"])["fields"]}
    fields = json.loads(header["partition-spec"])
    assert all(field["transform"] in ("identity", "bucket[16]", "day", "month") for field in fields)
    kinds = [TYPES[columns[field["source-id"]]] if field["transform"] == "identity" else IntegerType() for field in fields]
    return StructType(*(NestedField(field["field-id"], field["name"], kind) for field, kind in zip(fields, kinds, strict=True)))


def test_golden_manifests_exist() -> None:
    assert len(list(manifests())) >= 20


@pytest.mark.parametrize("manifest", list(manifests()) if GOLDEN.is_dir() else [], ids=lambda manifest: manifest.manifest_path[-60:])
def test_manifests_are_read_as_another_library_reads_them(manifest: ManifestFile) -> None:
    path = GOLDEN / "tables" / manifest.manifest_path
    content = path.read_bytes()
    assert len(content) == manifest.manifest_length
    kind = partition_type(read_manifest_header(content, str(path)))
    entries = read_entries(content, manifest, kind)
    rows = read_columns(content, manifest, kind, statistics=every_statistic(range(1, 16))).entries.to_pylist()
    for entry, row, other in zip(entries, rows, records(path), strict=True):
        file, fastavro_file = entry.data_file, other["data_file"]
        assert (entry.status, entry.snapshot_id) == (other["status"], other["snapshot_id"] or manifest.added_snapshot_id)
        assert (file.file_path, file.record_count) == (fastavro_file["file_path"], fastavro_file["record_count"])
        assert (row["file_path"], row["record_count"]) == (fastavro_file["file_path"], fastavro_file["record_count"])
        assert [value is None for value in file.partition] == [value is None for value in fastavro_file["partition"].values()]
        for plural, single in STATISTICS.items():
            pairs = None if fastavro_file[plural] is None else {pair["key"]: pair["value"] for pair in fastavro_file[plural]}
            assert getattr(file, plural) == pairs
            assert all(row[statistic_column(single, i)] == (pairs or {}).get(i) for i in range(1, 16))
