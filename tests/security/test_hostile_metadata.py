"""Metadata of other writers is read or refused with an error of Icefloe, whatever its numbers and ids are."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import icefloe.inspect as look
from icefloe.catalog import load_catalog
from icefloe.catalog.catalog import Catalog
from icefloe.errors import DataFileFormatError, ManifestFormatError, MetadataFormatError, StorageError
from icefloe.scan.file_objects import file_objects
from icefloe.table.static_table import StaticTable
from icefloe.table.table import Table


@pytest.fixture
def lake(tmp_path: Path) -> Catalog:
    catalog = load_catalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    rows = pa.table({"kind": ["a", "b"], "id": [1, 2]})
    catalog.create_table("db.t", rows.schema, partition_spec=["kind"]).append(rows)
    return catalog


def forged(lake: Catalog, change: Callable[[Any], None]) -> StaticTable:
    """Return the table with its metadata changed."""
    place = Path(lake.load_table("db.t").metadata_location.removeprefix("file://"))
    metadata = json.loads(place.read_text())
    change(metadata)
    place = place.with_name("00099-forged.metadata.json")
    place.write_text(json.dumps(metadata))
    return StaticTable.from_metadata(str(place))


def test_two_partition_fields_of_one_id_are_refused(lake: Catalog) -> None:
    def twice(metadata: Any) -> None:
        fields = metadata["partition-specs"][0]["fields"]
        fields.append({**fields[0], "name": "other"})

    with pytest.raises(MetadataFormatError, match="field id 1000 occurs twice"):
        forged(lake, twice).scan("id = 1").to_arrow()


def registered(lake: Catalog, change: Callable[[Any], None]) -> Table:
    """Return a writable table of the changed metadata."""
    return lake.register_table("db.forged", forged(lake, change).metadata_location)


def test_a_table_with_the_highest_sequence_number_is_read_and_refuses_snapshots(lake: Catalog) -> None:
    table = registered(lake, lambda metadata: metadata.update({"last-sequence-number": 2**63 - 1}))
    assert len(table.scan().to_arrow()) == 2
    for change in (lambda: table.append(pa.table({"kind": ["a"], "id": [3]})), lambda: table.delete("id = 1")):
        with pytest.raises(MetadataFormatError, match="last-sequence-number is 9223372036854775807") as refused:
            change()
        assert "restore an earlier metadata file" in str(refused.value)
    assert len(lake.load_table("db.forged").scan().to_arrow()) == 2


@pytest.mark.parametrize("key", ["last-sequence-number", "last-updated-ms", "last-column-id"])
def test_a_number_of_more_than_64_bits_is_refused_when_the_table_is_read(lake: Catalog, key: str) -> None:
    with pytest.raises(MetadataFormatError, match=rf"\$\.{key}: .*64-bit|\$\.{key}: .*32-bit"):
        forged(lake, lambda metadata: metadata.update({key: 2**63}))


def test_a_table_without_row_ids_left_refuses_an_append(lake: Catalog) -> None:
    table = registered(lake, lambda metadata: metadata.update({"format-version": 3, "next-row-id": 2**63 - 1}))
    with pytest.raises(MetadataFormatError, match="next-row-id would become"):
        table.append(pa.table({"kind": ["a"], "id": [3]}))


@pytest.mark.parametrize("text", ["9" * 5000, "²", "-1", ""])
def test_a_count_of_a_summary_that_is_no_number_is_unknown(lake: Catalog, text: str) -> None:
    table = forged(
        lake, lambda metadata: metadata["snapshots"][0]["summary"].update({"total-records": text, "total-position-deletes": text})
    )
    assert look.table(table).total_records is None
    assert "unknown" in str(look.table(table))
    assert len(table.scan().to_arrow()) == 2


@pytest.mark.parametrize("transform", ["bucket", "truncate"])
def test_a_parameter_of_thousands_of_digits_is_refused_with_the_rule(lake: Catalog, transform: str) -> None:
    with pytest.raises(MetadataFormatError, match="from 1 to 2147483647"):
        forged(lake, lambda metadata: metadata["partition-specs"][0]["fields"][0].update(transform=f"{transform}[{'9' * 5000}]"))


@pytest.mark.parametrize("kind", ["device", "pipe"])
@pytest.mark.parametrize("place", ["manifest-list", "data"])
def test_a_device_or_pipe_in_the_place_of_a_file_is_refused_and_not_read(lake: Catalog, tmp_path: Path, kind: str, place: str) -> None:
    """A device such as `/dev/zero` has no end, and a read of a pipe never returns."""
    os.mkfifo(tmp_path / "pipe")
    endless = "/dev/zero" if kind == "device" else str(tmp_path / "pipe")
    if place == "data":
        path = Path(next(iter(lake.load_table("db.t").scan().plan_files())).file.file_path)
        path.unlink()
        path.symlink_to(endless)
        table = lake.load_table("db.t")
    else:
        table = forged(lake, lambda metadata: metadata["snapshots"][0].update({"manifest-list": endless}))  # type: ignore[assignment]
    with pytest.raises(StorageError, match="a device, a pipe or a socket"):
        table.scan().to_arrow()


def test_a_summary_with_strange_digits_does_not_make_a_commit_look_failed(lake: Catalog) -> None:
    table = lake.load_table("db.t")
    result = table.dynamic_partition_overwrite(
        pa.table({"kind": ["c"], "id": [3]}), snapshot_properties={"note": "²", "number": "9" * 5000}
    )
    assert result.snapshot_id == table.refresh().current_snapshot().snapshot_id  # type: ignore[union-attr]
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2, 3]


@pytest.mark.parametrize("name", ["file_format", "content"])
def test_a_code_that_the_format_does_not_define_is_refused_by_its_name(name: str) -> None:
    rows = pa.table({"file_format": ["P\x00RQUET" if name == "file_format" else "PARQUET"], "content": [7 if name == "content" else 0]})
    with pytest.raises(ManifestFormatError, match=f"has the {name} "):
        file_objects(rows, 0, [()])


def test_a_footer_with_text_that_is_not_unicode_is_refused(lake: Catalog) -> None:
    table = lake.load_table("db.t")
    path = Path(next(iter(table.scan().plan_files())).file.file_path.removeprefix("file://"))
    content = path.read_bytes()
    assert content.count(b"parquet-cpp-arrow") == 1
    path.write_bytes(content.replace(b"parquet-cpp-arrow", b"parquet-cpp-\xff\xfe\xff\xfe\xff"))
    with pytest.raises(DataFileFormatError, match="the footer cannot be read"):
        look.data_file(table, str(path))
