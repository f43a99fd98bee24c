"""Bloom filters of Parquet files: which columns have one, how large it is, and the warning for columns that cannot have one."""

import logging
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icefloe import SqlCatalog
from icefloe.datafile.parquet import parquet_appender
from icefloe.datafile.parquet.parquet_appender import max_distinct
from icefloe.errors import InvalidPropertyError

ROWS = pa.table(
    {
        "id": pa.array(range(20_000)),
        "flag": pa.array([True] * 20_000),
        "place": pa.array([{"code": str(number)} for number in range(20_000)]),
        "tags": pa.array([[str(number)] for number in range(20_000)]),
        "plain": pa.array(range(20_000)),
    }
)
ENABLED, NDV, FPP = (f"write.parquet.bloom-filter-{what}.column." for what in ("enabled", "ndv", "fpp"))
writes = pytest.mark.skipif(
    not parquet_appender.writer_accepts(parquet_appender.BLOOM_FILTERS), reason="this pyarrow writes no bloom filters"
)


def lengths(folder: Path, properties: dict[str, str]) -> dict[str, int]:
    """Return the bytes of the filter of each column that has one."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder / "warehouse"))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", ROWS.schema, properties=properties)
    table.append(ROWS)
    (task,) = table.scan().plan_files()
    group = pq.read_metadata(task.file.file_path).row_group(0)
    found = [group.column(place) for place in range(group.num_columns)]
    return {column.path_in_schema: column.bloom_filter_length for column in found if column.bloom_filter_offset}


@writes
def test_bloom_filters_are_configured_by_the_column_names_of_the_table(tmp_path: Path) -> None:
    properties = {f"{ENABLED}{name}": "true" for name in ("id", "place.code", "tags.element")} | {f"{ENABLED}plain": "false"}
    filter_lengths = lengths(tmp_path, properties)
    assert sorted(filter_lengths) == ["id", "place.code", "tags.list.element"]
    assert all(
        16_384 < length < 40_000 for length in filter_lengths.values()
    )  # 20,000 values at one in a hundred: 10 bits each, up to a power of two


@writes
def test_filter_sizes_depend_on_distinct_values_and_probability_up_to_the_limit(tmp_path: Path) -> None:
    properties = {f"{ENABLED}{name}": "true" for name in ("id", "plain", "place.code")}
    properties |= {f"{NDV}id": "100", f"{FPP}plain": "0.5", f"{NDV}place.code": "9000000", "write.parquet.bloom-filter-max-bytes": "8192"}
    filter_lengths = lengths(tmp_path, properties)
    assert filter_lengths["id"] < 300
    assert filter_lengths["plain"] <= 8192 + 64
    assert 8192 <= filter_lengths["place.code"] <= 8192 + 64


def test_the_largest_number_of_distinct_values_fills_the_largest_filter() -> None:
    assert max_distinct(1_048_576, 0.01) == max_distinct(2_000_000, 0.01)
    assert 800_000 < max_distinct(1_048_576, 0.01) < 1_048_576


def test_a_column_that_cannot_have_a_bloom_filter_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    parquet_appender._warn_once.cache_clear()
    monkeypatch.setattr(parquet_appender, "writer_accepts", lambda _: False)
    properties = {f"{ENABLED}{name}": "true" for name in ("flag", "nothing", "id")}
    with caplog.at_level(logging.WARNING, logger=parquet_appender.LOG.name):
        for folder in ("one", "two"):
            (tmp_path / folder).mkdir()
            assert lengths(tmp_path / folder, properties) == {}
    assert sorted(record.message.partition(",")[0].partition(":")[0] for record in caplog.records) == [
        "no bloom filter is written for flag",
        "no bloom filter is written for nothing",
        "no bloom filters are written for flag",
    ]


@pytest.mark.parametrize(("name", "value"), [(f"{ENABLED}id", "yes"), (f"{FPP}id", "2"), (f"{NDV}id", "0")])
def test_wrong_properties_are_refused_when_the_table_is_created(tmp_path: Path, name: str, value: str) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    with pytest.raises(InvalidPropertyError):
        catalog.create_table("db.t", ROWS.schema, properties={f"{ENABLED}id": "true", name: value})
