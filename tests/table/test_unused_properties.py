"""Every table and catalog property of Java Iceberg has an effect, or a warning that it has none, with the reason."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.java_names import CATALOG_PROPERTIES, TABLE_PROPERTIES

from icefloe import SqlCatalog, load_catalog
from icefloe.catalog.unused_options import UNUSED_CATALOG_PROPERTIES
from icefloe.errors import InvalidPropertyError
from icefloe.operations import warnings_once
from icefloe.spec.metadata.table_properties import ALL, BLOOM_ENABLED_PREFIX, DERIVED, METRICS_COLUMN_PREFIX
from icefloe.spec.metadata.unused_properties import UNUSED_PREFIXES, UNUSED_PROPERTIES

ARROW = pa.schema([("id", pa.int64()), ("v", pa.string())])
# Names that `ALL` does not list: prefixes, properties whose values are in the column `comment` or in the metadata, and the format version.
OTHERS = {
    METRICS_COLUMN_PREFIX,
    BLOOM_ENABLED_PREFIX,
    "write.parquet.bloom-filter-fpp.column.",
    "write.parquet.bloom-filter-ndv.column.",
    "comment",
}
CATALOG_EFFECTS = {
    *(
        "warehouse",
        "rest-catalog-purge",
        "uri",
        "catalog-impl",
        "table-default.",
        "table-override.",
        "view-default.",
        "view-override.",
        "unique-table-location",
        "io.manifest.cache-enabled",
        "io.manifest.cache.expiration-interval-ms",
        "io.manifest.cache.max-total-bytes",
        "io.manifest.cache.max-content-length",
        "default-namespace",
    ),
}


@pytest.fixture(autouse=True)
def _a_new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clear the record of logged warnings, as in a new process."""
    monkeypatch.setattr(warnings_once, "_WARNED", set())


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))
    catalog.create_namespace("db")
    return catalog


def warned(caplog: pytest.LogCaptureFixture, kind: str) -> list[str]:
    begin = f"the {kind} "
    return [line.removeprefix(begin).split(" ")[0] for line in caplog.messages if line.startswith(begin) and " has no effect: " in line]


def test_every_table_property_of_java_has_an_effect_or_a_reason_for_none() -> None:
    acted_on = {known.name for known in ALL} | OTHERS | DERIVED
    unused = {*UNUSED_PROPERTIES, *UNUSED_PREFIXES}
    assert [name for name in TABLE_PROPERTIES if name not in acted_on | unused] == []
    assert acted_on & unused == set()


def test_every_catalog_property_of_java_has_an_effect_or_a_reason_for_none() -> None:
    assert [name for name in CATALOG_PROPERTIES if name not in CATALOG_EFFECTS | UNUSED_CATALOG_PROPERTIES.keys()] == []
    assert CATALOG_EFFECTS & UNUSED_CATALOG_PROPERTIES.keys() == set()


def test_a_table_property_without_effect_is_logged_once(catalog: SqlCatalog, caplog: pytest.LogCaptureFixture) -> None:
    of_columns = {f"{prefix}{column}": "false" for prefix in UNUSED_PREFIXES for column in ("v", "id", "a line\nand another")}
    given = dict.fromkeys(UNUSED_PROPERTIES, "1") | of_columns
    catalog.create_table("db.t", ARROW, properties=given)
    assert sorted(warned(caplog, "table property")) == sorted([*UNUSED_PROPERTIES, *UNUSED_PREFIXES])
    assert not any("\n" in line for line in caplog.messages)
    assert all("first met in lake.db.t" in line for line in caplog.messages)
    caplog.clear()
    catalog.load_table("db.t").scan().to_arrow()
    catalog.create_table("db.u", ARROW, properties=given)
    assert caplog.messages == []


def test_a_table_property_without_effect_is_logged_when_it_is_set(catalog: SqlCatalog, caplog: pytest.LogCaptureFixture) -> None:
    table = catalog.create_table("db.t", ARROW, properties={"write.format.default": "orc", "own": "1"})
    assert caplog.messages == []
    table.set_properties({"write.location-provider.impl": "com.example.Provider"})
    assert caplog.messages == [
        "the table property write.location-provider.impl has no effect: Java classes are not loaded; data files are written below write.data.path "
        "or the table's location (first met in lake.db.t)"
    ]


def test_a_catalog_property_without_effect_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    given: dict[str, Any] = dict.fromkeys(UNUSED_CATALOG_PROPERTIES, "true")
    known: dict[str, Any] = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": str(tmp_path), "s3.region": "x"}
    load_catalog("lake", **known, **given)
    load_catalog("lake", **known, **given)
    assert sorted(warned(caplog, "catalog property")) == sorted(given)


@pytest.mark.parametrize(("name", "text", "codec"), [("compression-codec", "gzip", "GZIP"), ("compression-codec", "zstd", "ZSTD")])
def test_properties_of_delete_files_replace_those_of_data_files(catalog: SqlCatalog, name: str, text: str, codec: str) -> None:
    properties = {
        "write.parquet.compression-codec": "snappy",
        f"write.delete.parquet.{name}": text,
        "write.parquet.page-version": "v2",
        "write.delete.mode": "merge-on-read",
    }
    table = catalog.create_table("db.t", ARROW, properties=properties)
    table.append(pa.table({"id": range(5), "v": ["a"] * 5}))
    table.delete("id = 1")
    (task,) = table.scan().plan_files()
    (deletes,) = task.delete_files
    assert pq.ParquetFile(task.file.file_path).metadata.row_group(0).column(0).compression == "SNAPPY"
    assert pq.ParquetFile(deletes.file_path).metadata.row_group(0).column(0).compression == codec
    with pytest.raises(InvalidPropertyError, match=r"write\.delete\.parquet\.compression-codec"):
        table.set_properties({"write.delete.parquet.compression-codec": "none of them"})


def test_parquet_pages_have_the_version_of_the_property(catalog: SqlCatalog) -> None:
    sizes = {}
    for version in ("v1", "v2"):
        table = catalog.create_table(
            f"db.{version}", ARROW, properties={"write.parquet.page-version": version, "write.parquet.compression-codec": "uncompressed"}
        )
        table.append(pa.table({"id": range(1000), "v": [f"text {number}" for number in range(1000)]}))
        (task,) = table.scan().plan_files()
        sizes[version] = Path(task.file.file_path).read_bytes()
        assert table.scan().to_arrow()["id"].to_pylist() == list(range(1000))
    assert sizes["v1"] != sizes["v2"]
