"""Requests to S3 that `icefloe serve` signs for clients without keys: in this process and in tasks of Spark, against a store that checks signatures."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.emulators import KEY, SECRET, ObjectStore
from tests.object_stores.enforcing_store import EnforcingStore
from tests.stores.rest.own_server import own_server

import icefloe.spark
from icefloe.catalog.rest_catalog import RestCatalog
from icefloe.errors import IcefloeError, StoragePermissionError
from icefloe.server.server_settings import Delegation

pytestmark = pytest.mark.emulator
SCHEMA = pa.schema([("id", pa.int64()), ("kind", pa.string())])


@pytest.fixture
def enforcing(s3: ObjectStore) -> Iterator[EnforcingStore]:
    store = EnforcingStore(s3.properties["s3.endpoint"], 60)
    yield store
    store.close()


@pytest.fixture
def catalog(enforcing: EnforcingStore, s3: ObjectStore, tmp_path: Path) -> Iterator[RestCatalog]:
    """A catalog of a server that signs; its user has no key to the store."""
    properties = {**s3.properties, "s3.endpoint": enforcing.address}
    with own_server(tmp_path, warehouse=f"{s3.bucket}/lake", properties=properties, delegation=Delegation(signs_requests=True)) as address:
        catalog = RestCatalog("signed", uri=address)
        catalog.create_namespace("db")
        yield catalog
        catalog.close()


def rows(start: int, count: int) -> pa.Table:
    return pa.table({"id": range(start, start + count), "kind": [f"k {number % 3}" for number in range(count)]}, SCHEMA)


def test_a_client_without_keys_writes_reads_changes_and_compacts(catalog: RestCatalog, enforcing: EnforcingStore) -> None:
    table = catalog.create_table("db.t", SCHEMA, partition_spec=["kind"])
    for number in range(3):
        table.append(rows(10 * number, 10))
    table.delete("id = 7")
    table.maintenance.rewrite_data_files(options={"min-input-files": "2"})
    table.expire_snapshots(2**53, retain_last=1)
    assert sorted(catalog.load_table("db.t").scan().to_arrow()["id"].to_pylist()) == sorted({*range(30)} - {7})
    assert set(enforcing.seen.accepted) == {KEY}
    assert not enforcing.seen.refused
    assert SECRET not in repr(table.io) + repr(table.handle)


def test_the_server_signs_nothing_outside_of_the_table(catalog: RestCatalog, enforcing: EnforcingStore) -> None:
    table, other = (catalog.create_table(f"db.{name}", SCHEMA) for name in ("t", "other"))
    other.append(rows(0, 3))
    (task,) = other.scan().plan_files()
    with pytest.raises(IcefloeError):
        table.io.read(task.file.file_path)
    with pytest.raises(IcefloeError):
        table.io.write(task.file.file_path, b"x", overwrite=True)
    with pytest.raises(StoragePermissionError):
        table.io.delete(f"{table.location()}/../other/x")
    assert other.scan().to_arrow().num_rows == 3


@pytest.mark.spark
def test_tasks_of_spark_have_their_requests_signed(spark: SparkSession, catalog: RestCatalog, enforcing: EnforcingStore) -> None:
    icefloe.spark.attach(spark, "signed", catalog)
    spark.sql("CREATE TABLE signed.db.t (id BIGINT, kind STRING)")
    spark.sql("INSERT INTO signed.db.t SELECT id, concat('k', id % 3) FROM range(0, 100)")
    spark.sql("UPDATE signed.db.t SET kind = 'new' WHERE id < 10")
    assert spark.sql("SELECT count(id), count_if(kind = 'new') FROM signed.db.t WHERE id >= 0").collect() == [(100, 10)]
    assert set(enforcing.seen.accepted) == {KEY}
    assert SECRET not in spark.sql("EXPLAIN EXTENDED SELECT * FROM signed.db.t").collect()[0][0]
