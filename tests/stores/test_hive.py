"""The Hive catalog without a metastore: addresses, settings, refusals, and what a table of the metastore contains. `tests/oracle` has real metastores."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from icefloe import InMemoryCatalog, load_catalog
from icefloe.catalog.hive_catalog import HiveCatalog
from icefloe.errors import (
    InvalidIdentifierError,
    InvalidInputError,
    InvalidPropertyError,
    StorageError,
    StoragePermissionError,
    StorageUnavailableError,
    UnsupportedFeatureError,
)
from icefloe.stores import hive_objects
from icefloe.stores.hive_lock import HEARTBEAT, MetastoreLock
from icefloe.stores.hive_metastore import MetastoreError, MetastoreSession, addresses, hive_types, user_of

NOWHERE = "thrift://127.0.0.1:9"


@pytest.fixture
def garbage() -> Iterator[str]:
    """A server whose response to every request is a text that claims two gigabytes."""
    server = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            with client:
                client.recv(65536)
                client.sendall(b"\x80\x01\x00\x02" + b"\x7f\xff\xff\xff" + b"x" * 100)

    threading.Thread(target=answer, daemon=True).start()
    yield f"thrift://127.0.0.1:{server.getsockname()[1]}"
    server.close()


def test_several_addresses_are_separated_by_commas_and_have_hives_port_by_default() -> None:
    assert addresses("thrift://a, thrift://b:9084,") == (("a", 9083), ("b", 9084))


@pytest.mark.parametrize("uri", ["", "http://a", "thrift://", "thrift://a:port", "thrift://[", "a:9083", ","])
def test_an_address_that_is_none_is_refused_without_its_text(uri: str) -> None:
    with pytest.raises(InvalidInputError) as raised:
        HiveCatalog("lake", uri=uri)
    assert "thrift://" in str(raised.value.next_step)


def test_a_uri_of_thrift_and_the_class_of_java_are_hive_catalogs(tmp_path: Path) -> None:
    assert isinstance(load_catalog("a", uri=NOWHERE), HiveCatalog)
    by_class = load_catalog("b", uri=NOWHERE, warehouse=str(tmp_path), **{"catalog-impl": "org.apache.iceberg.hive.HiveCatalog"})
    assert isinstance(by_class, HiveCatalog)


def test_settings_may_have_the_prefix_of_hadoop() -> None:
    catalog = HiveCatalog("lake", uri=NOWHERE, **{"hadoop.iceberg.engine.hive.lock-enabled": "false"})
    assert catalog.properties["hadoop.iceberg.engine.hive.lock-enabled"] == "false"


def test_kerberos_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedFeatureError, match="Kerberos"):
        HiveCatalog("lake", uri=NOWHERE, **{"hive.kerberos-authentication": "true"})


def test_an_unreachable_metastore_is_named_and_the_group_of_its_user_is_not() -> None:
    catalog = HiveCatalog("lake", uri=NOWHERE, ugi="me:long-secret-group")
    with pytest.raises(StorageUnavailableError, match=r"127\.0\.0\.1:9") as raised:
        catalog.list_namespaces()
    assert "long-secret-group" not in str(raised.value)
    assert user_of(catalog.properties) == "me"


def test_a_response_that_claims_any_size_is_refused(garbage: str) -> None:
    with pytest.raises(StorageUnavailableError):
        HiveCatalog("lake", uri=garbage).list_namespaces()


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("MetaException", "java.security.AccessControlException: Permission denied: user=me", StoragePermissionError),
        ("InvalidOperationException", "The following columns have types incompatible with the existing columns", InvalidInputError),
        ("InvalidObjectException", "x", InvalidInputError),
        ("", "TTransportException: TSocket read 0 bytes", StorageUnavailableError),
        ("MetaException", "the database is full", StorageError),
    ],
)
def test_failures_of_a_metastore_become_errors_by_what_to_do_next(kind: str, text: str, expected: type[Exception]) -> None:
    error = MetastoreError(kind, text).as_icefloe_error("table 'db.t' was not created")
    assert type(error) is expected
    assert error.next_step


@pytest.mark.parametrize("text", ["soon", "0", "-1"])
def test_a_setting_that_is_no_number_of_milliseconds_is_refused(text: str) -> None:
    properties = {"uri": NOWHERE, f"hadoop.{HEARTBEAT}": text}
    with pytest.raises(InvalidPropertyError, match=HEARTBEAT):
        MetastoreLock(MetastoreSession(properties), properties, ("db", "t"))._seconds(HEARTBEAT)


@pytest.mark.parametrize("name", ["Trips", "größe", "a\u0000b"])
def test_names_that_hive_changes_are_refused_before_a_request(name: str) -> None:
    with pytest.raises(InvalidIdentifierError):
        HiveCatalog("lake", uri=NOWHERE).create_namespace(name)


def test_a_table_of_the_metastore_follows_its_metadata_and_no_property_of_it_replaces_what_the_catalog_needs() -> None:
    catalog = InMemoryCatalog("lake")
    catalog.create_namespace("db")
    given = {"metadata_location": "file:///etc/passwd", "table_type": "VIEW", "EXTERNAL": "FALSE", "storage_handler": "Evil", "a": "b"}
    metadata = catalog.create_table("db.t", pa.schema([("Id", pa.int64()), ("at", pa.timestamp("us", "UTC"))]), properties=given).metadata
    table = hive_objects.new_table(("db", "t"), "file:///new.json", metadata, {"hive.hive2-compatible": "true"})
    assert (table.parameters["metadata_location"], table.parameters["table_type"], table.parameters["EXTERNAL"]) == (
        "file:///new.json",
        "ICEBERG",
        "TRUE",
    )
    assert ("storage_handler" in table.parameters, table.parameters["a"]) == (False, "b")
    assert [(column.name, column.type) for column in table.sd.cols] == [("id", "bigint"), ("at", "timestamp")]
    hive_objects.update_table(table, "file:///newer.json", metadata, {"iceberg.hive.table-property-max-size": "10"}, removed={"gone"})
    assert table.parameters["previous_metadata_location"] == "file:///new.json"
    assert "current-schema" not in table.parameters


def test_an_owner_of_an_unknown_kind_is_refused() -> None:
    database = hive_types().Database(name="db")
    with pytest.raises(InvalidInputError, match="not a kind of owner"):
        hive_objects.set_namespace_properties(database, {"hive.metastore.database.owner-type": "MOON"}, {})


def test_the_folder_of_a_database_in_the_warehouse_is_the_one_that_it_is_created_with(tmp_path: Path) -> None:
    assert HiveCatalog("lake", uri=NOWHERE, warehouse=f"{tmp_path}/").warehouse_folder(("db",)) == f"{tmp_path}/db.db"
    assert HiveCatalog("lake", uri=NOWHERE).warehouse_folder(("db",)) is None
