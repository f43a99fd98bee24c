"""Credentials of five seconds, in reads, writes and maintenance that take longer: in this process, and in tasks of Spark.

`icefloe serve` vends them from a token service, and an S3 in front of moto enforces them. A process with an expired key gets a new one itself. No credential
is in a plan, a log, an EXPLAIN, an error, a snapshot or a file.
"""

import io
import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.emulators import ObjectStore
from tests.object_stores.enforcing_store import ROLE, EnforcingStore
from tests.stores.rest.own_server import own_server

import icefloe.spark
from icefloe.catalog.rest_catalog import RestCatalog
from icefloe.errors import IcefloeError
from icefloe.inspect import trace
from icefloe.io.listing import files_of
from icefloe.server.server_settings import Delegation

pytestmark = pytest.mark.emulator
LIFETIME_S = 5.0
# Long enough for the key of the beginning to have expired.
LONGER_S = LIFETIME_S * 1.6
SCHEMA = pa.schema([("id", pa.int64()), ("kind", pa.string())])
# S3 takes no shorter parts of an upload but the last; a batch of the writes below has more, so that a part is sent after each.
PART_BYTES = 5 * 2**20
BATCHES, VALUE_BYTES, VALUES = 8, 750_000, 8


@pytest.fixture
def enforcing(s3: ObjectStore) -> Iterator[EnforcingStore]:
    store = EnforcingStore(s3.properties["s3.endpoint"], LIFETIME_S)
    yield store
    store.close()


@pytest.fixture
def catalog(enforcing: EnforcingStore, s3: ObjectStore, tmp_path: Path) -> Iterator[RestCatalog]:
    """A catalog of the server; its user has no key to the store."""
    properties = {**s3.properties, "s3.endpoint": enforcing.address}
    delegation = Delegation(sts_role=ROLE, sts_endpoint=enforcing.address)
    with own_server(tmp_path, warehouse=f"{s3.bucket}/lake", properties=properties, delegation=delegation) as address:
        catalog = RestCatalog("vended", uri=address, **{"s3.multipart.part-size-bytes": str(PART_BYTES)})
        catalog.create_namespace("db")
        enforcing.seen.accepted.clear()
        yield catalog
        catalog.close()


def rows(start: int, count: int) -> pa.Table:
    return pa.table({"id": range(start, start + count), "kind": [f"k{number % 3}" for number in range(count)]}, SCHEMA)


def keys_of_clients(store: EnforcingStore) -> int:
    """Return how many of the issued keys were used."""
    return len([key for key in store.seen.accepted if key in store.issued])


def assert_nowhere(store: EnforcingStore, *texts: str) -> None:
    for secret in (*store.secrets(), *store.issued):
        for text in texts:
            assert secret not in text


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what was logged by Icefloe at any level, and by others at INFO or above: botocore writes whole requests and responses at DEBUG."""
    return [record.getMessage() for record in caplog.records if record.name.startswith("icefloe") or record.levelno >= logging.INFO]


def test_a_write_in_this_process_lasts_longer_than_its_credentials(catalog: RestCatalog, enforcing: EnforcingStore) -> None:
    schema = pa.schema([("id", pa.int64()), ("content", pa.binary())])
    table = catalog.create_table("db.t", schema, properties={"write.parquet.row-group-limit": str(VALUES)})

    batches = [
        pa.record_batch([[number] * VALUES, [os.urandom(VALUE_BYTES) for _ in range(VALUES)]], schema=schema) for number in range(BATCHES)
    ]
    enforcing.latency_s = LONGER_S / BATCHES  # of each part of the upload
    started = time.monotonic()
    table.append(pa.RecordBatchReader.from_batches(schema, batches))
    enforcing.latency_s = 0.0
    assert time.monotonic() - started > LIFETIME_S
    assert len([path for method, path in enforcing.seen.paths if method == "PUT" and "partNumber" in path]) > 2
    assert table.scan().count() == BATCHES * VALUES
    assert keys_of_clients(enforcing) >= 2


def test_a_read_in_this_process_lasts_longer_than_its_credentials(catalog: RestCatalog, enforcing: EnforcingStore) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    for number in range(4):
        table.append(rows(number * 10, 10))
    enforcing.seen.accepted.clear()
    found = 0
    for batch in catalog.load_table("db.t").scan().to_arrow_batch_reader():
        time.sleep(LONGER_S / 4)
        found += batch.num_rows
    assert found == 40
    assert catalog.load_table("db.t").scan().to_arrow().num_rows == 40
    assert keys_of_clients(enforcing) >= 2


@pytest.mark.spark
def test_tasks_of_spark_renew_their_credentials_themselves(
    spark: SparkSession, catalog: RestCatalog, enforcing: EnforcingStore, caplog: pytest.LogCaptureFixture
) -> None:
    icefloe.spark.attach(spark, "vended", catalog)
    spark.sql(f"CREATE TABLE vended.db.t (id BIGINT, content BINARY) TBLPROPERTIES ('write.parquet.row-group-limit'='{VALUES}')")

    def filled(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for start in range(0, batch.num_rows, VALUES):
                ids = batch["id"].slice(start, VALUES)
                yield pa.record_batch({"id": ids, "content": pa.array([os.urandom(VALUE_BYTES) for _ in range(len(ids))], pa.binary())})

    with caplog.at_level(logging.DEBUG):
        source = spark.range(0, BATCHES * VALUES, numPartitions=1)
        enforcing.latency_s = LONGER_S / BATCHES  # of each part of the upload
        started = time.monotonic()
        source.mapInArrow(filled, "id BIGINT, content BINARY").writeTo("vended.db.t").append()
        enforcing.latency_s = 0.0
        assert time.monotonic() - started > LIFETIME_S
        assert spark.table("vended.db.t").count() == BATCHES * VALUES
        written = keys_of_clients(enforcing)
        assert written >= 2

        for number in range(3):
            spark.sql(f"INSERT INTO vended.db.t SELECT id, CAST('more' AS BINARY) FROM range({2000 + 100 * number}, {2100 + 100 * number})")
        enforcing.seen.accepted.clear()
        enforcing.latency_s = LONGER_S / 5  # at least six requests one after another in a task of two files or more
        spark.conf.set("spark.sql.files.maxPartitionBytes", "1g")
        read = spark.table("vended.db.t").where("id >= 0")
        started = time.monotonic()
        assert read.coalesce(1).agg({"id": "max"}).collect()[0][0] == 2299
        enforcing.latency_s = 0.0
        assert time.monotonic() - started > LIFETIME_S
        assert keys_of_clients(enforcing) >= 2

        plans = [
            spark.sql(f"EXPLAIN {form} SELECT id FROM vended.db.t WHERE id = 7").collect()[0][0]
            for form in ("EXTENDED", "FORMATTED", "CODEGEN")
        ]
        plans += [read._jdf.queryExecution().toString(), str(trace(catalog.load_table("db.t"), "id = 7"))]
        described = "\n".join(map(str, spark.sql("DESCRIBE EXTENDED vended.db.t").collect()))
        settings = "\n".join(f"{name}={value}" for name, value in spark.sparkContext.getConf().getAll())
    assert_nowhere(enforcing, *plans, described, settings, *logged(caplog))


def test_compaction_of_many_files_lasts_longer_than_its_credentials(catalog: RestCatalog, enforcing: EnforcingStore) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    for number in range(24):
        table.append(rows(number * 10, 10))
    enforcing.seen.accepted.clear()
    enforcing.latency_s = 0.25
    started = time.monotonic()
    result = catalog.load_table("db.t").maintenance.rewrite_data_files(engine="in-process", options={"min-input-files": "2"})
    enforcing.latency_s = 0.0
    assert time.monotonic() - started > LIFETIME_S
    assert result.rewritten_files == 24
    assert catalog.load_table("db.t").scan().count() == 240
    assert keys_of_clients(enforcing) >= 2


@pytest.mark.spark
def test_compaction_by_spark_lasts_longer_than_its_credentials(
    spark: SparkSession, catalog: RestCatalog, enforcing: EnforcingStore
) -> None:
    icefloe.spark.attach(spark, "compacted", catalog)
    table = catalog.create_table("db.t", SCHEMA)
    for number in range(16):
        table.append(rows(number * 10, 10))
    enforcing.seen.accepted.clear()
    enforcing.latency_s = 0.5
    started = time.monotonic()
    spark.sql("CALL compacted.system.rewrite_data_files(table => 'db.t', options => map('min-input-files', '2'))").collect()
    enforcing.latency_s = 0.0
    assert time.monotonic() - started > LIFETIME_S
    assert len(catalog.load_table("db.t").scan().plan_files()) == 1
    assert catalog.load_table("db.t").scan().count() == 160
    assert keys_of_clients(enforcing) >= 2


def test_no_credential_is_in_an_error_a_log_a_snapshot_or_a_file(
    catalog: RestCatalog, enforcing: EnforcingStore, caplog: pytest.LogCaptureFixture
) -> None:
    shown = io.StringIO()
    with caplog.at_level(logging.DEBUG):
        table = catalog.create_table("db.t", SCHEMA)
        table.append(rows(0, 10))
        table.delete("id = 3")
        loaded = catalog.load_table("db.t")
        print(loaded, repr(loaded), repr(loaded.scan()), loaded.handle, loaded.io, catalog, catalog.properties, file=shown)
        print(*loaded.snapshots(), *loaded.history(), loaded.properties, trace(loaded, "id = 1"), file=shown)
        for file in files_of(loaded.io, loaded.location()):
            shown.write(loaded.io.read(file).decode("latin-1"))
    assert_nowhere(enforcing, shown.getvalue(), *logged(caplog))


def test_a_refused_key_is_an_error_without_it(catalog: RestCatalog, enforcing: EnforcingStore, monkeypatch: pytest.MonkeyPatch) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    table.append(rows(0, 10))
    known = dict(enforcing.issued)
    monkeypatch.setattr(enforcing, "refusal", lambda *_: "ExpiredToken")
    with pytest.raises(IcefloeError) as raised:
        catalog.load_table("db.t").scan().to_arrow()
    enforcing.issued.update(known)
    chain: list[BaseException] = []
    error: BaseException | None = raised.value
    while error is not None:
        chain.append(error)
        error = error.__cause__ or error.__context__
    assert_nowhere(enforcing, *map(repr, chain), *map(str, chain))
