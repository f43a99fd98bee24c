"""Metadata files written by other implementations: each is read, or refused for the reason in its name."""

from pathlib import Path

import pytest

from icefloe.errors import IcefloeError, MetadataFormatError, UnsupportedFormatVersionError
from icefloe.spec.metadata.metadata_reader import check_table_metadata, read_table_metadata
from icefloe.spec.metadata.metadata_writer import write_table_metadata
from icefloe.spec.metadata.statistics_file import PartitionStatisticsFile, StatisticsBlob, StatisticsFile

GOLDEN = Path(__file__).parents[4] / "shared" / "golden"
pytestmark = pytest.mark.skipif(not GOLDEN.is_dir(), reason="the golden data of other implementations is not beside this checkout")

READ = [
    "TableMetadataPartitionStatisticsFiles",
    "TableMetadataStatisticsFiles",
    "TableMetadataV1Compat",
    "TableMetadataV1PartitionSpecsWithoutDefaultId",
    "TableMetadataV1SchemasWithoutCurrentId",
    "TableMetadataV1Valid",
    "TableMetadataV2Valid",
    "TableMetadataV2ValidMinimal",
    "TableMetadataV3ValidMinimal",
]
REFUSED: dict[str, tuple[type[IcefloeError], str]] = {
    "TableMetadataUnsupportedVersion": (UnsupportedFormatVersionError, "format version 42"),
    "TableMetadataV1MissingSchemaType": (MetadataFormatError, "$.schema.type: is required, and is missing"),
    "TableMetadataV1NoValidSchema": (MetadataFormatError, "$.schema: is required, and is missing"),
    "TableMetadataV2CurrentSchemaNotFound": (MetadataFormatError, "$.current-schema-id: there is no"),
    "TableMetadataV2MissingLastPartitionId": (MetadataFormatError, "$.last-partition-id: is required, and is missing"),
    "TableMetadataV2MissingPartitionSpecs": (MetadataFormatError, "$.partition-specs: is required, and is missing"),
    "TableMetadataV2MissingSchemas": (MetadataFormatError, "$.schemas: is required, and is missing"),
    "TableMetadataV2MissingSortOrder": (MetadataFormatError, "$.sort-orders: is required, and is missing"),
}


def content(name: str) -> bytes:
    return (GOLDEN / "table-metadata" / f"{name}.json").read_bytes()


def test_every_golden_file_is_covered() -> None:
    assert {path.stem for path in (GOLDEN / "table-metadata").glob("*.json")} == {*READ, *REFUSED}


@pytest.mark.parametrize("name", READ)
def test_a_good_file_is_read_without_problems_and_survives_a_rewrite(name: str) -> None:
    metadata = read_table_metadata(content(name), name)
    assert check_table_metadata(content(name), name) == []
    assert read_table_metadata(write_table_metadata(metadata), name) == metadata


@pytest.mark.parametrize("name", REFUSED)
def test_a_bad_file_is_refused_for_the_reason_in_its_name(name: str) -> None:
    kind, reason = REFUSED[name]
    with pytest.raises(kind) as caught:
        read_table_metadata(content(name), name)
    assert reason in str(caught.value)
    assert name in str(caught.value)


def test_every_key_of_a_v2_file_is_read() -> None:
    metadata = read_table_metadata(content("TableMetadataV2Valid"), "x")
    assert metadata.format_version == 2
    assert metadata.table_uuid == "9c12d441-03fe-4693-9a96-a0705ddf69c1"
    assert metadata.last_sequence_number == 34
    assert [schema.schema_id for schema in metadata.schemas] == [0, 1]
    assert metadata.schema().identifier_field_ids == (1, 2)
    assert [str(field.transform) for field in metadata.spec().fields] == ["identity"]
    assert [str(field) for field in metadata.sort_order().fields] == ["identity(2) asc nulls-first", "bucket[4](3) desc nulls-last"]
    current = metadata.current_snapshot()
    assert current is not None
    assert (current.snapshot_id, current.parent_snapshot_id, current.sequence_number) == (3055729675574597004, 3051729675574597004, 1)
    assert metadata.snapshot_by_name("main") == current
    assert [entry.snapshot_id for entry in metadata.snapshot_log] == [3051729675574597004, 3055729675574597004]


def test_statistics_files_are_read() -> None:
    metadata = read_table_metadata(content("TableMetadataStatisticsFiles"), "x")
    blob = StatisticsBlob(type="ndv", snapshot_id=3055729675574597004, sequence_number=1, fields=(1,))
    assert list(metadata.statistics) == [
        StatisticsFile(
            snapshot_id=3055729675574597004,
            statistics_path="s3://a/b/stats.puffin",
            file_size_in_bytes=413,
            file_footer_size_in_bytes=42,
            blob_metadata=(blob,),
        )
    ]


def test_partition_statistics_files_are_read() -> None:
    metadata = read_table_metadata(content("TableMetadataPartitionStatisticsFiles"), "x")
    path = "s3://a/b/partition-stats.parquet"
    assert list(metadata.partition_statistics) == [
        PartitionStatisticsFile(snapshot_id=3055729675574597004, statistics_path=path, file_size_in_bytes=43)
    ]


def test_the_defaults_of_a_column_are_read() -> None:
    column = read_table_metadata(content("TableMetadataV3ValidMinimal"), "x").schema().find_field("x")
    assert (column.initial_default, column.write_default) == (1, 1)


def test_v1_without_a_default_spec_takes_the_newest() -> None:
    metadata = read_table_metadata(content("TableMetadataV1PartitionSpecsWithoutDefaultId"), "x")
    assert metadata.default_spec_id == 2
    assert metadata.last_partition_id == 1001


def test_every_metadata_file_of_the_golden_tables_is_read() -> None:
    files = sorted((GOLDEN / "tables").rglob("*.metadata.json"))
    assert files
    for path in files:
        metadata = read_table_metadata(path.read_bytes(), path.name)
        assert check_table_metadata(path.read_bytes(), path.name) == []
        assert read_table_metadata(write_table_metadata(metadata), path.name) == metadata
