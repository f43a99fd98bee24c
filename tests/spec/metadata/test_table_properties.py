"""Table properties: defaults, and errors that name the property and its text."""

import pytest

from icefloe.errors import InvalidPropertyError
from icefloe.spec.metadata import table_properties as p


@pytest.mark.parametrize(
    ("known", "name", "default"),
    [
        (p.COMMIT_NUM_RETRIES, "commit.retry.num-retries", 4),
        (p.COMMIT_MIN_WAIT_MS, "commit.retry.min-wait-ms", 100),
        (p.COMMIT_MAX_WAIT_MS, "commit.retry.max-wait-ms", 60_000),
        (p.COMMIT_TOTAL_TIMEOUT_MS, "commit.retry.total-timeout-ms", 1_800_000),
        (p.STATUS_CHECK_NUM_RETRIES, "commit.status-check.num-retries", 3),
        (p.TARGET_FILE_SIZE_BYTES, "write.target-file-size-bytes", 536_870_912),
        (p.PARQUET_CODEC, "write.parquet.compression-codec", "zstd"),
        (p.PARQUET_COMPRESSION_LEVEL, "write.parquet.compression-level", None),
        (p.PARQUET_ROW_GROUP_SIZE_BYTES, "write.parquet.row-group-size-bytes", 134_217_728),
        (p.PARQUET_PAGE_ROW_LIMIT, "write.parquet.page-row-limit", 20_000),
        (p.PARQUET_DICT_SIZE_BYTES, "write.parquet.dict-size-bytes", 2_097_152),
        (p.AVRO_CODEC, "write.avro.compression-codec", "gzip"),
        (p.METADATA_CODEC, "write.metadata.compression-codec", "none"),
        (p.METADATA_PREVIOUS_VERSIONS_MAX, "write.metadata.previous-versions-max", 100),
        (p.METADATA_DELETE_AFTER_COMMIT, "write.metadata.delete-after-commit.enabled", False),
        (p.METRICS_DEFAULT, "write.metadata.metrics.default", "truncate(16)"),
        (p.METRICS_MAX_INFERRED_COLUMNS, "write.metadata.metrics.max-inferred-column-defaults", 100),
        (p.DISTRIBUTION_MODE, "write.distribution-mode", "hash"),
        (p.DELETE_MODE, "write.delete.mode", "copy-on-write"),
        (p.DATA_PATH, "write.data.path", None),
        (p.METADATA_PATH, "write.metadata.path", None),
    ],
)
def test_a_property_that_is_not_set_has_the_formats_default(known: p.Property[object], name: str, default: object) -> None:
    assert known.name == name
    assert known.read({}) == default
    assert known in p.ALL


@pytest.mark.parametrize(
    ("known", "text", "value"),
    [
        (p.COMMIT_NUM_RETRIES, "0", 0),
        (p.PARQUET_COMPRESSION_LEVEL, "-5", -5),
        (p.METADATA_DELETE_AFTER_COMMIT, "TRUE", True),
        (p.PARQUET_CODEC, "Snappy", "snappy"),
        (p.METRICS_DEFAULT, "Truncate(4)", "truncate(4)"),
        (p.DATA_PATH, "s3://b/data/", "s3://b/data"),
    ],
)
def test_property_texts_of_other_writers_are_read(known: p.Property[object], text: str, value: object) -> None:
    assert known.read({known.name: text}) == value


@pytest.mark.parametrize(
    ("known", "text"),
    [
        (p.COMMIT_NUM_RETRIES, "-1"),
        (p.COMMIT_NUM_RETRIES, "1_000"),
        (p.TARGET_FILE_SIZE_BYTES, "0"),
        (p.TARGET_FILE_SIZE_BYTES, "512MB"),
        (p.METADATA_DELETE_AFTER_COMMIT, "yes"),
        (p.PARQUET_CODEC, "zip"),
        (p.METRICS_DEFAULT, "truncate(0)"),
        (p.DISTRIBUTION_MODE, ""),
        (p.DATA_PATH, ""),
    ],
)
def test_an_invalid_text_is_refused_with_the_property_its_text_and_the_allowed_values(known: p.Property[object], text: str) -> None:
    with pytest.raises(InvalidPropertyError) as caught:
        known.read({known.name: text})
    assert known.name in str(caught.value)
    assert repr(text) in str(caught.value)
    assert known.allowed in str(caught.value)


def test_every_invalid_property_is_listed_and_unknown_ones_are_ignored() -> None:
    given = {"commit.retry.num-retries": "x", "write.metadata.metrics.column.a": "some", "mine": "anything"}
    with pytest.raises(InvalidPropertyError) as caught:
        p.check_properties(given)
    assert [problem.where for problem in caught.value.problems] == ["commit.retry.num-retries", "write.metadata.metrics.column."]
    p.check_properties({"mine": "anything", "write.format.default": "parquet"})


def test_metrics_modes_of_columns_are_found_by_column() -> None:
    given = {
        "write.metadata.metrics.column.a.b": "none",
        "write.metadata.metrics.column.c": "FULL",
        "write.metadata.metrics.default": "counts",
    }
    assert p.column_metrics_modes(given) == {"a.b": "none", "c": "full"}


def test_property_names_are_unique() -> None:
    assert len({known.name for known in p.ALL}) == len(p.ALL) > 30
