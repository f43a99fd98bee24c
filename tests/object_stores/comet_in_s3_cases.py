"""Tests that `test_comet_in_s3.py` runs in a process of its own, whose Spark session has Apache DataFusion Comet and Hadoop's file system of S3.

The store is an S3 that checks the signature of each request.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.emulators import KEY, SECRET, ObjectStore
from tests.object_stores.enforcing_store import ROLE, EnforcingStore
from tests.spark.comet_cases import NATIVE, read, same, same_as_in_process, settings
from tests.spark.merge_on_read import delete_positions
from tests.stores.rest.own_server import own_server

from icefloe import LongType, SqlCatalog
from icefloe.catalog.rest_catalog import RestCatalog
from icefloe.server.server_settings import Delegation
from icefloe.spark import attach
from icefloe.table import Table

pytestmark = [pytest.mark.emulator, pytest.mark.spark]

S3A = "org.apache.hadoop.fs.s3a.S3AFileSystem"
KINDS = ["a b", "c%2Fd", "é+#?", None, "x=y/z"]
AGGREGATE = "SELECT kind, count(*), sum(key), max(new) FROM lake.db.t WHERE key > 3 GROUP BY kind"
# Settings by which Hadoop's file system would send other keys than Comet, to another host, or decrypt what Comet does not.
REFUSED = {
    "fs.s3a.aws.credentials.provider": ("org.example.OwnProvider", "Comet has no credential provider org.example.OwnProvider"),
    "fs.s3a.bucket.{}.aws.credentials.provider": (
        "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider, org.example.OwnProvider",
        "Comet has no credential provider org.example.OwnProvider",
    ),
    "hadoop.security.credential.provider.path": (
        "jceks://file/keys",
        "Comet does not read the setting hadoop.security.credential.provider.path",
    ),
    "fs.s3a.bucket.{}.security.credential.provider.path": ("jceks://file/keys", "Comet does not read the setting fs.s3a.bucket."),
    "fs.s3a.proxy.host": ("proxy", "Comet does not read the setting fs.s3a.proxy.host"),
    "fs.s3a.endpoint.fips": ("true", "Comet does not read the setting fs.s3a.endpoint.fips"),
    "fs.s3a.aws.credentials.provider.mapping": ("a=b", "Comet does not read the setting fs.s3a.aws.credentials.provider.mapping"),
    "fs.s3a.encryption.algorithm": ("CSE-KMS", "Comet does not decrypt objects by CSE-KMS"),
    "fs.s3.impl": ("org.apache.hadoop.fs.LocalFileSystem", "whose settings Comet does not know"),
}


@pytest.fixture
def store(s3: ObjectStore) -> Iterator[EnforcingStore]:
    enforcing = EnforcingStore(s3.properties["s3.endpoint"], lifetime_s=300)
    yield enforcing
    enforcing.close()


@pytest.fixture(autouse=True)
def hadoops_settings(spark: SparkSession, store: EnforcingStore) -> Iterator[None]:
    """Have Spark's file system and Comet reach the store with the keys of the emulator."""
    values = {
        "endpoint": store.address,
        "endpoint.region": "us-east-1",
        "access.key": KEY,
        "secret.key": SECRET,
        "path.style.access": "true",
    }
    with settings(spark, {"fs.s3.impl": S3A, **{f"fs.s3a.{name}": value for name, value in values.items()}}):
        yield


def made_table(spark: SparkSession, s3: ObjectStore, folder: Path, scheme: str = "s3") -> Table:
    """Make a table that is partitioned by values that need escapes in paths, and has a renamed and an added column."""
    warehouse = f"{scheme}{s3.bucket.removeprefix('s3')}/w"
    lake = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=warehouse, **s3.properties)
    attach(spark, "lake", lake)
    lake.create_namespace("db")
    schema = pa.schema([("id", pa.int64()), ("kind", pa.string())])
    table = lake.create_table("db.t", schema, partition_spec=["kind"], properties={"format-version": "3"})
    for kind in KINDS:
        table.append(rows(table, kind))
    with table.update_schema() as update:
        update.rename_column("id", "key").add_column("new", LongType())
    table.append(rows(table, "new"))
    return table


def rows(table: Table, kind: str | None) -> pa.Table:
    names = table.schema().column_names
    return pa.table({name: [kind] * 10 if name == "kind" else pa.array(range(10), pa.int64()) for name in names})


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_comet_opens_the_files_in_the_store(
    spark: SparkSession, s3: ObjectStore, store: EnforcingStore, tmp_path: Path, scheme: str
) -> None:
    table = made_table(spark, s3, tmp_path, scheme)
    files = len(table.scan().plan_files())
    store.seen.paths.clear()
    assert NATIVE in read(spark, AGGREGATE).plan
    assert len({path for method, path in store.seen.paths if method == "GET" and path.endswith(".parquet")}) == files
    same(spark, AGGREGATE)
    same(spark, "SELECT key, _file FROM lake.db.t WHERE kind = 'c%2Fd'")
    same_as_in_process(spark, table)
    assert store.seen.refused == []


def test_files_with_deletes_are_read_by_spark_and_the_others_by_comet(spark: SparkSession, s3: ObjectStore, tmp_path: Path) -> None:
    table = made_table(spark, s3, tmp_path)
    delete_positions(table, {table.scan("kind = 'a b'").plan_files()[0].file.file_path: [2, 5]})
    plan = same(spark, AGGREGATE).plan
    assert "(Comet does not read it: rows are deleted by position)" in plan
    same_as_in_process(spark, table)


@pytest.mark.parametrize("setting", REFUSED)
def test_spark_reads_where_comet_would_access_the_store_in_another_way(
    spark: SparkSession, s3: ObjectStore, tmp_path: Path, setting: str
) -> None:
    made_table(spark, s3, tmp_path)
    value, reason = REFUSED[setting]
    assert NATIVE in explained(spark, {})
    bucket = s3.bucket.removeprefix("s3://")
    plan = explained(spark, {setting.format(bucket): value})
    assert NATIVE not in plan
    assert "FileScan parquet lake.db.t (Comet does not read it: " in plan
    assert reason in plan
    assert NATIVE in explained(spark, {setting.format("another-bucket"): value}) or "{}" not in setting


def explained(spark: SparkSession, values: Mapping[str, str]) -> str:
    with settings(spark, values):
        return str(spark.sql(f"EXPLAIN {AGGREGATE}").collect()[0][0])


def test_files_with_credentials_of_the_catalog_are_read_with_these(
    spark: SparkSession, s3: ObjectStore, store: EnforcingStore, tmp_path: Path
) -> None:
    properties = {**s3.properties, "s3.endpoint": store.address}
    delegation = Delegation(sts_role=ROLE, sts_endpoint=store.address)
    with own_server(tmp_path, warehouse=f"{s3.bucket}/lake", properties=properties, delegation=delegation) as address:
        catalog = RestCatalog("vended", uri=address)
        catalog.create_namespace("db")
        table = catalog.create_table("db.t", pa.schema([("id", pa.int64()), ("kind", pa.string())]))
        table.append(rows(table, "a"))
        attach(spark, "vended", catalog)
        query = "SELECT kind, sum(id) FROM vended.db.t GROUP BY kind"
        with settings(spark, {"fs.s3a.access.key": "AKIAOFSPARK"}):  # with which the store would refuse a request
            found = read(spark, query)
        assert (list(found.rows[0].values()), NATIVE in found.plan) == (["a", 45], False)
        assert store.seen.refused == []
        catalog.close()
        own = RestCatalog("own", uri=address, **{"access-delegation": "none"}, **properties)
        attach(spark, "own", own)
        assert same(spark, query.replace("vended", "own")).rows == found.rows
        own.close()
