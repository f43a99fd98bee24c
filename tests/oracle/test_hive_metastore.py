"""The Hive catalog on metastores of Hive 3 and 4: the suite of all catalogs, locks, lost replies, and tables shared with PyIceberg and Java."""

import pickle
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import thrift
from tests.oracle.conftest import ORACLES, run
from tests.oracle.hive_metastore import hive_metastore

from icefloe import Catalog, load_catalog
from icefloe.catalog.hive_catalog import HiveCatalog
from icefloe.commit.outcome import Committed, Conflicted, Unknown
from icefloe.errors import (
    InvalidIdentifierError,
    InvalidInputError,
    NoSuchTableError,
    StorageUnavailableError,
    TableAlreadyExistsError,
    UnsupportedFeatureError,
)
from icefloe.stores.catalog_store import CommitRequest
from icefloe.stores.hive_lock import LockError, MetastoreLock
from icefloe.stores.hive_metastore import MetastoreError, MetastoreSession, hive_types
from icefloe.testing.catalog_suite import QUICK, SCHEMA, UNUSUAL_NAMES, CatalogSuite, numbers, rows

pytestmark = pytest.mark.oracle

FAST = {"iceberg.hive.lock-check-min-wait-ms": "10", "iceberg.hive.lock-check-max-wait-ms": "100"}


@pytest.fixture(scope="module", params=[3, 4], ids=["hive3", "hive4"])
def metastore(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, str]]:
    version: int = request.param
    with hive_metastore(tmp_path_factory.mktemp(f"hive{version}-"), version) as address:
        yield version, address


@pytest.fixture
def opened(metastore: tuple[int, str], tmp_path: Path) -> Iterator[Callable[..., HiveCatalog]]:
    """Return a function that opens the catalog, which is empty before and after each test: the metastore lasts longer."""

    def open_catalog(**properties: str) -> HiveCatalog:
        return HiveCatalog("lake", uri=metastore[1], warehouse=str(tmp_path / "warehouse"), **FAST, **properties)

    yield open_catalog
    with MetastoreSession({"uri": metastore[1]}) as session:
        for database in session.call("get_all_databases"):
            for table in session.call("get_all_tables", database):
                session.call("drop_table", database, table, False)
            if database != "default":
                session.call("drop_database", database, False, False)


@pytest.fixture
def catalog(opened: Callable[..., HiveCatalog]) -> HiveCatalog:
    return opened()


def in_hive(catalog: Catalog, name: str, database: str = "db") -> Any:
    with MetastoreSession(catalog.properties) as session:
        return session.call("get_table_req", hive_types().GetTableRequest(dbName=database, tblName=name)).table


class TestHive(CatalogSuite):
    commits_several_tables = nests_namespaces = False
    built_in_namespaces = frozenset({"default"})
    refused_names = frozenset(UNUSUAL_NAMES) - {"under_score", "select", "x" * 100, "metadata", "v1"}

    @pytest.fixture
    def reopen(self, opened: Callable[..., HiveCatalog]) -> Callable[[], Catalog]:
        return opened


class TestHiveWithoutLocks(CatalogSuite):
    """Hive 4 compares the expected location itself; Hive 3 ignores it, so that locks must not be switched off there."""

    commits_several_tables = nests_namespaces = False
    built_in_namespaces = frozenset({"default"})
    refused_names = TestHive.refused_names

    @pytest.fixture(autouse=True)
    def _only_hive_4(self, metastore: tuple[int, str]) -> None:
        if metastore[0] < 4:
            pytest.skip("a metastore of Hive 3 does not compare the expected location")

    @pytest.fixture
    def reopen(self, opened: Callable[..., HiveCatalog], monkeypatch: pytest.MonkeyPatch) -> Callable[[], Catalog]:
        monkeypatch.setattr(MetastoreLock, "__enter__", lambda *_: pytest.fail("a lock was taken"))
        return lambda: opened(**{"hadoop.iceberg.engine.hive.lock-enabled": "false"})

    @pytest.fixture
    def catalog(self, reopen: Callable[[], Catalog]) -> Catalog:
        return reopen()


def test_hive_shows_the_columns_the_folder_the_counts_and_both_metadata_locations(catalog: HiveCatalog) -> None:
    catalog.create_namespace("db")
    schema = pa.schema(
        [("id", pa.int64()), ("tags", pa.list_(pa.string())), ("at", pa.timestamp("us", "UTC")), ("price", pa.decimal128(9, 2))]
    )
    table = catalog.create_table("db.t", schema, properties={"comment": "Prices", "gc.enabled": "true"})
    first = table.metadata_location
    shown = in_hive(catalog, "t")
    assert (shown.tableType, shown.parameters["comment"], shown.parameters["external.table.purge"]) == ("EXTERNAL_TABLE", "Prices", "true")
    assert (shown.parameters["table_type"], shown.parameters["uuid"]) == ("ICEBERG", table.metadata.table_uuid)
    assert shown.sd.location.removeprefix("file:") == table.location().removeprefix("file:")
    assert [(column.name, column.type) for column in shown.sd.cols] == [
        ("id", "bigint"),
        ("tags", "array<string>"),
        ("at", "timestamp with local time zone"),
        ("price", "decimal(9,2)"),
    ]
    with table.update_schema() as update:
        update.rename_column("price", "amount")
    table.append(pa.table({"id": pa.array([1, 2], pa.int64())}))
    table.transaction().remove_properties("comment").commit_transaction()
    shown = in_hive(catalog, "t")
    assert [column.name for column in shown.sd.cols] == ["id", "tags", "at", "amount"]
    assert shown.parameters["metadata_location"] == table.metadata_location
    assert shown.parameters["previous_metadata_location"] != first
    assert (shown.parameters["numRows"], shown.parameters["numFiles"], "comment" in shown.parameters) == ("2", "1", False)
    assert shown.parameters["current-snapshot-id"] == str(table.metadata.current_snapshot_id)


def test_parameters_that_others_have_set_are_kept(catalog: HiveCatalog) -> None:
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", SCHEMA)
    shown = in_hive(catalog, "t")
    shown.parameters["owner-team"] = "me"
    with MetastoreSession(catalog.properties) as session:
        session.call("alter_table_with_environment_context", "db", "t", shown, hive_types().EnvironmentContext())
    table.append(rows(1))
    assert in_hive(catalog, "t").parameters["owner-team"] == "me"


def test_hive_can_read_a_table_whose_property_allows_it(catalog: HiveCatalog) -> None:
    catalog.create_namespace("db")
    catalog.create_table("db.t", SCHEMA, properties={"engine.hive.enabled": "true"})
    shown = in_hive(catalog, "t")
    assert shown.parameters["storage_handler"].endswith("HiveIcebergStorageHandler")
    assert shown.sd.serdeInfo.serializationLib.endswith("HiveIcebergSerDe")


def test_a_table_that_is_encrypted_by_its_metastore_is_not_written(catalog: HiveCatalog) -> None:
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", SCHEMA)
    shown = in_hive(catalog, "t")
    shown.parameters["encryption.key-id"] = "k"
    with MetastoreSession(catalog.properties) as session:
        session.call("alter_table_with_environment_context", "db", "t", shown, hive_types().EnvironmentContext())
    with pytest.raises(UnsupportedFeatureError, match="encrypted"):
        table.append(rows(1))


def test_a_commit_waits_for_the_lock_of_another_writer_and_gives_up_after_its_time(
    catalog: HiveCatalog, opened: Callable[..., HiveCatalog]
) -> None:
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", SCHEMA, properties=QUICK)
    types = hive_types()
    component = types.LockComponent(type=types.LockType.EXCLUSIVE, level=types.LockLevel.TABLE, dbname="db", tablename="t")
    with MetastoreSession(catalog.properties) as other:
        held = other.call("lock", types.LockRequest(component=[component], user="other", hostname="elsewhere"))
        assert held.state == types.LockState.ACQUIRED
        request = CommitRequest(identifier=("db", "t"), expected=table.metadata_location, new="file:///none")
        impatient = opened(**{"iceberg.hive.lock-timeout-ms": "300"})
        outcome = impatient.store.commit([request])
        assert isinstance(outcome, Conflicted)
        assert "another writer has held the lock" in str(outcome.reason)
        writer = threading.Thread(target=table.append, args=(rows(1),))
        writer.start()
        time.sleep(0.5)
        assert numbers(catalog.load_table("db.t")) == []
        other.call("unlock", types.UnlockRequest(lockid=held.lockid))
        writer.join(30)
        assert numbers(catalog.load_table("db.t")) == [1]
        assert not other.call("show_locks", types.ShowLocksRequest(dbname="db", tablename="t")).locks


def test_a_lock_whose_reply_is_lost_is_found_and_released(catalog: HiveCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", SCHEMA)
    call = MetastoreSession.call
    lost: list[int] = []

    def losing(self: MetastoreSession, operation: str, *arguments: Any) -> Any:
        result = call(self, operation, *arguments)
        if operation == "lock" and not lost:
            lost.append(result.lockid)
            self.close()
            raise MetastoreError("", "TTransportException: the reply was lost")
        return result

    monkeypatch.setattr(MetastoreSession, "call", losing)
    table.append(rows(1))
    assert lost
    with MetastoreSession(catalog.properties) as session:
        assert not session.call("show_locks", hive_types().ShowLocksRequest(dbname="db", tablename="t")).locks
    assert numbers(catalog.load_table("db.t")) == [1]


def test_a_lock_that_is_lost_is_renewed_no_more_and_nothing_is_changed(catalog: HiveCatalog, opened: Callable[..., HiveCatalog]) -> None:
    catalog.create_namespace("db")
    catalog.create_table("db.t", SCHEMA)
    properties = opened(**{"iceberg.hive.lock-heartbeat-interval-ms": "20"}).properties
    with MetastoreSession(properties) as session, MetastoreLock(session, properties, ("db", "t")) as lock:
        time.sleep(0.3)
        lock.require_held()
        session.call("unlock", hive_types().UnlockRequest(lockid=lock._id))
        until = time.monotonic() + 20
        while time.monotonic() < until and not lock._failure:
            time.sleep(0.05)
        with pytest.raises(LockError, match="was lost"):
            lock.require_held()


def test_a_lost_reply_is_resolved_by_the_location_and_by_sending_again(catalog: HiveCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", SCHEMA)
    new = f"{table.location()}/metadata/00001-x.metadata.json"
    table.io.write(new, table.io.read(table.metadata_location))
    request = CommitRequest(identifier=("db", "t"), expected=table.metadata_location, new=new)
    call = MetastoreSession.call

    def disturbed(*, is_sent: bool) -> Any:
        def calling(self: MetastoreSession, operation: str, *arguments: Any) -> Any:
            if not operation.startswith("alter_table"):
                return call(self, operation, *arguments)
            if is_sent:
                call(self, operation, *arguments)
            self.close()
            raise MetastoreError("", "TTransportException: the reply was lost")

        return calling

    monkeypatch.setattr(MetastoreSession, "call", disturbed(is_sent=False))
    assert isinstance(catalog.store.commit([request]), Unknown)
    assert isinstance(catalog.store.commit_status([request]), Unknown)
    monkeypatch.setattr(MetastoreSession, "call", disturbed(is_sent=True))
    assert isinstance(catalog.store.commit([request]), Unknown)
    monkeypatch.undo()
    assert isinstance(catalog.store.commit_status([request]), Committed)
    other = CommitRequest(identifier=("db", "t"), expected=request.expected, new=f"{new}.other")
    assert catalog.store.commit_status([other]) == Conflicted(current_location=request.new, is_reply_lost=True)


def test_a_writer_without_the_lock_is_noticed_by_hive_4(
    catalog: HiveCatalog, opened: Callable[..., HiveCatalog], metastore: tuple[int, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if metastore[0] < 4:
        pytest.skip("a metastore of Hive 3 does not compare the expected location")
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", SCHEMA, properties=QUICK)
    call = MetastoreSession.call
    raced: list[str] = []

    def with_another_commit(self: MetastoreSession, operation: str, *arguments: Any) -> Any:
        if operation.startswith("alter_table") and not raced:
            raced.append(operation)
            opened(**{"iceberg.engine.hive.lock-enabled": "false"}).load_table("db.t").append(rows(7))
        return call(self, operation, *arguments)

    monkeypatch.setattr(MetastoreSession, "call", with_another_commit)
    table.append(rows(1))
    assert numbers(catalog.load_table("db.t")) == [1, 7]


def test_tables_of_other_formats_are_not_tables_of_the_catalog(catalog: HiveCatalog) -> None:
    catalog.create_namespace("db")
    catalog.create_table("db.ours", SCHEMA)
    shown = in_hive(catalog, "ours")
    shown.tableName, shown.parameters = "hive", {"EXTERNAL": "TRUE"}
    with MetastoreSession(catalog.properties) as session:
        session.call("create_table", shown)
    assert catalog.list_tables("db") == [("db", "ours")]
    with pytest.raises(NoSuchTableError, match="no Iceberg table"):
        catalog.load_table("db.hive")
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table("db.hive", SCHEMA)
    with pytest.raises(TableAlreadyExistsError):
        catalog.rename_table("db.ours", "db.hive")


def test_names_that_would_be_changed_are_refused(catalog: HiveCatalog) -> None:
    catalog.create_namespace("db")
    with pytest.raises(InvalidIdentifierError, match="lower case"):
        catalog.create_table("db.Trips", SCHEMA)
    with pytest.raises(UnsupportedFeatureError, match="do not nest"):
        catalog.create_namespace("a.b")


def test_a_namespace_has_a_folder_a_comment_and_an_owner(catalog: HiveCatalog, tmp_path: Path) -> None:
    catalog.create_namespace("db", {"location": f"{tmp_path}/own", "comment": "x", "hive.metastore.database.owner": "me"})
    properties = catalog.load_namespace_properties("db")
    assert properties.pop("location").removeprefix("file:") == f"{tmp_path}/own"
    assert properties == {"comment": "x", "hive.metastore.database.owner": "me", "hive.metastore.database.owner-type": "USER"}
    assert catalog.create_table("db.t", SCHEMA).location().removeprefix("file:").replace("//", "/") == f"{tmp_path}/own/t"
    with pytest.raises(InvalidInputError, match="without a location"):
        catalog.update_namespace_properties("db", removals={"location"})


def test_a_pickled_catalog_works(catalog: HiveCatalog) -> None:
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", SCHEMA)
    pickle.loads(pickle.dumps(table)).append(rows(1))
    assert numbers(pickle.loads(pickle.dumps(catalog)).load_table("db.t")) == [1]


def test_the_second_address_is_used_where_the_first_does_not_respond(metastore: tuple[int, str], tmp_path: Path) -> None:
    catalog = load_catalog("lake", uri=f"thrift://127.0.0.1:9,{metastore[1]}", warehouse=str(tmp_path))
    assert ("default",) in catalog.list_namespaces()


def test_an_unreachable_metastore_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(StorageUnavailableError, match=r"127\.0\.0\.1:9: "):
        HiveCatalog("lake", uri="thrift://127.0.0.1:9", warehouse=str(tmp_path)).list_namespaces()


PYICEBERG = """
import sys
sys.path.append(sys.argv[3])  # thrift, which PyIceberg's own environment may not have
import pyarrow as pa
from pyiceberg.catalog.hive import HiveCatalog
catalog = HiveCatalog("lake", uri=sys.argv[1], warehouse=sys.argv[2])
table = catalog.load_table("db.t")
for number in range(3):
    table.refresh()
    table.append(pa.table({"n": pa.array([100 + number], pa.int64())}))
catalog.create_table("db.py", pa.schema([("n", pa.int64())])).append(pa.table({"n": pa.array([5], pa.int64())}))
print(sorted(catalog.load_table("db.t").scan().to_arrow()["n"].to_pylist()))
"""

JAVA = """
import sys
sys.path.insert(0, sys.argv[1])
from java_session import session
spark = session(sys.argv[4], **{
    "spark.sql.catalog.h": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.h.type": "hive",
    "spark.sql.catalog.h.uri": sys.argv[2],
    "spark.sql.catalog.h.warehouse": sys.argv[3],
})
spark.sql("INSERT INTO h.db.t VALUES (200)")
spark.sql("CREATE TABLE h.db.java (n BIGINT) USING iceberg TBLPROPERTIES ('a' = 'b')")
spark.sql("INSERT INTO h.db.java VALUES (6)")
print("ROWS", sorted(row.n for row in spark.table("h.db.t").collect()))
"""


def skip_where_get_table_is_missing(version: int, client: str) -> None:
    if version > 3:
        pytest.skip(f"{client} calls get_table, which a metastore of Hive 4.0.1 does not have")


def test_pyiceberg_and_icefloe_use_the_same_tables(
    catalog: HiveCatalog, metastore: tuple[int, str], pyiceberg: Callable[..., str], tmp_path: Path
) -> None:
    skip_where_get_table_is_missing(metastore[0], "PyIceberg 0.12")
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", SCHEMA, properties=QUICK)
    table.append(rows(1))
    writer = threading.Thread(target=lambda: [table.refresh().append(rows(10 + number)) for number in range(5)])
    writer.start()
    pyiceberg(PYICEBERG, catalog.properties["uri"], str(tmp_path / "warehouse"), str(Path(thrift.__file__).parents[1]))
    writer.join()
    assert numbers(catalog.load_table("db.t")) == [1, 10, 11, 12, 13, 14, 100, 101, 102]
    theirs = catalog.load_table("db.py")
    theirs.append(rows(6))
    assert numbers(theirs) == [5, 6]


def test_java_and_icefloe_use_the_same_tables(catalog: HiveCatalog, metastore: tuple[int, str], tmp_path: Path) -> None:
    skip_where_get_table_is_missing(metastore[0], "the Hive client of Spark 3.5")
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", SCHEMA, properties=QUICK)
    table.append(rows(1))
    printed = run("java", "-c", JAVA, str(ORACLES), catalog.properties["uri"], str(tmp_path / "warehouse"), str(tmp_path / "unused"))
    assert "ROWS [1, 200]" in printed
    assert numbers(table.refresh()) == [1, 200]
    theirs = catalog.load_table("db.java")
    theirs.append(rows(7))
    assert (numbers(theirs), theirs.properties["a"]) == ([6, 7], "b")
