"""Tables by the folder of their location: read and written by the formats, with the commits of a file-system catalog."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from tests.combinations import repetitions

from icefloe import SqlCatalog
from icefloe.catalog.file_system_catalog import FileSystemCatalog
from icefloe.spark.attach_catalog import attach

pytestmark = pytest.mark.spark
COLUMNS = pa.schema([("id", pa.int64()), ("s", pa.string())])


@pytest.fixture
def folder(tmp_path: Path, spark: SparkSession, lake: SqlCatalog) -> str:
    """The folder of a table, and a session with a catalog that does not have the table."""
    attach(spark, "lake", lake)
    catalog = FileSystemCatalog("folders", warehouse=str(tmp_path / "warehouse"))
    catalog.create_namespace("some")
    catalog.create_table("some.table", COLUMNS)
    return f"{tmp_path}/warehouse/some/table"


def rows(spark: SparkSession, path: str) -> list[tuple[int, str]]:
    return sorted(tuple(row) for row in spark.read.format("iceberg").load(path).collect())


@pytest.mark.parametrize(
    ("prefix", "ending"),
    repetitions([("", ""), ("", "/"), ("file:", ""), ("file:", "/"), ("file://", ""), ("file://", "/")], ("file:", "/"), ("", "")),
)
def test_a_table_is_appended_to_and_overwritten_by_its_location(spark: SparkSession, folder: str, prefix: str, ending: str) -> None:
    path = f"{prefix}{folder}{ending}"
    frame = spark.createDataFrame([(1, "a"), (2, "b")], "id bigint, s string")
    for _ in range(2):
        frame.write.format("iceberg").mode("append").save(path)
    assert rows(spark, path) == [(1, "a"), (1, "a"), (2, "b"), (2, "b")]
    frame.where("id = 1").write.format("icefloe").mode("overwrite").save(path)
    assert rows(spark, path) == [(1, "a")]
    written = FileSystemCatalog("folders", warehouse=str(Path(folder).parent.parent)).load_table("some.table")
    assert [snapshot.summary["operation"] for snapshot in written.snapshots()] == ["append", "append", "overwrite"]
    assert {Path(name.metadata_file).parent for name in written.metadata.metadata_log} == {Path(folder) / "metadata"}


def test_the_folder_may_have_any_name_and_must_be_the_one_that_the_metadata_names(spark: SparkSession, tmp_path: Path, folder: str) -> None:
    odd = tmp_path / "junit5.123 tmp" / "a table.of mine"
    odd.parent.mkdir()
    Path(folder).rename(odd)
    frame = spark.createDataFrame([(2, "b")], "id bigint, s string")
    with pytest.raises(PySparkException, match="opened by its metadata file"):  # its metadata has another location
        frame.write.format("iceberg").mode("append").save(str(odd))
    metadata = odd / "metadata/v1.metadata.json"
    metadata.write_text(metadata.read_text().replace(folder, str(odd)))
    for path in (str(odd), f"{odd.parent}/../{odd.parent.name}/{odd.name}"):
        frame.write.format("iceberg").mode("append").save(path)
    assert rows(spark, str(odd)) == [(2, "b"), (2, "b")]
    assert not Path(folder).exists()


def test_save_modes_that_create_a_table_find_the_table_in_the_folder(spark: SparkSession, folder: str, tmp_path: Path) -> None:
    frame = spark.createDataFrame([(1, "a")], "id bigint, s string")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        frame.write.format("iceberg").save(folder)
    frame.write.format("iceberg").mode("ignore").save(folder)
    assert rows(spark, folder) == []
    with pytest.raises(PySparkException, match="only a table of an attached catalog is made"):
        frame.write.format("iceberg").save(f"{tmp_path}/nothing/here")


def test_the_folder_of_a_table_of_another_catalog_refuses_writes(spark: SparkSession, lake: SqlCatalog, folder: str) -> None:
    table = lake.create_table("db.t", COLUMNS)
    frame = spark.createDataFrame([(1, "a")], "id bigint, s string")
    for path in (table.location(), table.metadata_location):
        with pytest.raises(PySparkException, match=r"is a folder, not a metadata file|opened by its metadata file"):
            frame.write.format("iceberg").mode("append").save(path)
    assert lake.load_table("db.t").snapshots() == []


def test_namespaces_are_folders_and_create_table_as_select_writes_into_one(spark: SparkSession, folder: str) -> None:
    catalog = FileSystemCatalog("folders", warehouse=str(Path(folder).parent.parent))
    attach(spark, "folders", catalog)
    spark.sql("CREATE NAMESPACE folders.more")
    with pytest.raises(PySparkException, match="have no properties: a, owner"):
        spark.sql("CREATE NAMESPACE folders.other WITH PROPERTIES ('a' = 'b')")
    assert catalog.list_namespaces() == [("more",), ("some",)]
    spark.sql("CREATE TABLE folders.some.made USING iceberg AS SELECT 1 AS id")
    spark.sql("CREATE OR REPLACE TABLE folders.some.made USING iceberg AS SELECT 2 AS id UNION ALL SELECT 3")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        spark.sql("CREATE TABLE folders.some.made USING iceberg AS SELECT 4 AS id")
    assert sorted(tuple(row) for row in spark.table("folders.some.made").collect()) == [(2,), (3,)]
    assert len(catalog.load_table("some.made").snapshots()) == 2


@pytest.mark.parametrize("name", ["iceberg", "icefloe"])
def test_settings_of_the_session_are_options_of_the_format(spark: SparkSession, folder: str, name: str) -> None:
    spark.conf.set(f"spark.datasource.{name}.snapshot-property.made-by", name)
    try:
        spark.createDataFrame([(1, "a")], "id bigint, s string").write.format(name).mode("append").save(folder)
    finally:
        spark.conf.unset(f"spark.datasource.{name}.snapshot-property.made-by")
    catalog = FileSystemCatalog("folders", warehouse=str(Path(folder).parent.parent))
    snapshot = catalog.load_table("some.table").current_snapshot()
    assert snapshot is not None
    assert snapshot.summary["made-by"] == name


def test_metadata_tables_are_read_by_the_folder_and_their_name(spark: SparkSession, folder: str) -> None:
    for number in range(2):
        spark.createDataFrame([(number, "a")], "id bigint, s string").write.format("iceberg").mode("append").save(folder)
    read = spark.read.format("iceberg")
    assert [row.record_count for row in read.load(f"{folder}#files").collect()] == [1, 1]
    assert read.load(f"{folder}#snapshots").count() == 2
    first = min((row.committed_at, row.snapshot_id) for row in read.load(f"{folder}#snapshots").collect())[1]
    assert spark.read.format("iceberg").option("snapshot-id", first).load(f"{folder}#entries").count() == 1
    assert spark.read.format("iceberg").load(f"{folder}#changes").count() == 2
    assert spark.read.format("iceberg").option("versionAsOf", first).load(folder).count() == 1
    assert spark.read.format("iceberg").option("versionAsOf", first).load(f"{folder}#entries").count() == 1
    for other in ("branch", "tag"):
        with pytest.raises(PySparkException, match="by another option"):
            spark.read.format("iceberg").option("versionAsOf", first).option(other, "main").load(folder)
    for point in ({"versionAsOf": first}, {"timestampAsOf": "2001-01-01 00:00:00"}):
        with pytest.raises(PySparkException, match="by another option that chooses snapshots"):
            spark.read.format("iceberg").options(**point).option("start-snapshot-id", first).load(folder)
    with pytest.raises(PySparkException, match="no snapshot"):
        spark.read.format("iceberg").option("timestampAsOf", "2001-01-01 00:00:00").load(folder)
    with pytest.raises(PySparkException, match="select and filter the DataFrame"):
        spark.read.format("iceberg").option("where", "record_count > 0").load(f"{folder}#files").collect()
