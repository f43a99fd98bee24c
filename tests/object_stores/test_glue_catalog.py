"""The Glue catalog on moto: the suite of all catalogs, what is written to Glue, races and refusals."""

import pickle
import sys
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pyarrow as pa
import pytest
from tests.emulators import KEY, SECRET, ObjectStore, new_bucket, running, s3_properties
from tests.stores.rest.own_server import serving

from icefloe import Catalog, load_catalog
from icefloe.catalog.glue_catalog import GlueCatalog
from icefloe.commit.outcome import Committed, Conflicted, Unknown
from icefloe.errors import (
    InvalidIdentifierError,
    NoSuchTableError,
    StoragePermissionError,
    StorageUnavailableError,
    UnsupportedFeatureError,
)
from icefloe.stores import glue_client
from icefloe.stores.catalog_store import CommitRequest
from icefloe.testing.catalog_suite import QUICK, SCHEMA, CatalogSuite, numbers, rows

pytestmark = pytest.mark.emulator


@pytest.fixture(scope="module")
def glue_address() -> Iterator[str]:
    pytest.importorskip("moto", reason="moto is not installed: run make test-object-stores")
    with running([sys.executable, "-m", "tests.glue_server", "{port}"]) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def store(glue_address: str) -> ObjectStore:
    properties = {
        **s3_properties(glue_address),
        "glue.endpoint": glue_address,
        "glue.region": "us-east-1",
        "glue.access-key-id": KEY,
        "glue.secret-access-key": SECRET,
        "glue.id": "123456789012",
    }
    connection = HTTPConnection(glue_address.removeprefix("http://"), timeout=60)
    connection.request("POST", "/moto-api/reset")  # moto has one catalog for all ids
    assert connection.getresponse().status == 200
    connection.close()
    return ObjectStore(bucket=f"s3://{new_bucket(glue_address)}", properties=properties)


@pytest.fixture
def catalog(store: ObjectStore) -> GlueCatalog:
    return GlueCatalog("lake", warehouse=f"{store.bucket}/w", **store.properties)


def client_of(catalog: GlueCatalog) -> Any:
    return glue_client._client(tuple(sorted(catalog.store._glue._properties.items())))


def in_glue(catalog: GlueCatalog, name: str) -> dict[str, Any]:
    found: dict[str, Any] = client_of(catalog).get_table(DatabaseName="db", Name=name, CatalogId=catalog.properties["glue.id"])["Table"]
    return found


class TestGlue(CatalogSuite):
    commits_several_tables = nests_namespaces = False
    refused_names = frozenset({"UPPER", "Größe"})  # Glue has names in lower case

    @pytest.fixture
    def reopen(self, store: ObjectStore) -> Callable[[], Catalog]:
        return lambda: load_catalog("lake", type="glue", warehouse=f"{store.bucket}/w", **store.properties)

    @pytest.fixture
    def catalog(self, reopen: Callable[[], Catalog]) -> Catalog:
        return reopen()


class TestGlueBehindTheOwnServer(CatalogSuite):
    """`icefloe serve` in front of Glue; its clients have keys of their own to the store."""

    names_of_server = True
    commits_several_tables = nests_namespaces = False
    refused_names = TestGlue.refused_names

    @pytest.fixture
    def address(self, store: ObjectStore) -> Iterator[str]:
        with serving(GlueCatalog("lake", warehouse=f"{store.bucket}/w", **store.properties)) as address:
            yield address

    @pytest.fixture
    def reopen(self, address: str, store: ObjectStore) -> Callable[[], Catalog]:
        keys = {name: text for name, text in store.properties.items() if name.startswith("s3.")}
        return lambda: load_catalog("own", type="rest", uri=address, warehouse=f"{store.bucket}/w", **keys)

    @pytest.fixture
    def catalog(self, reopen: Callable[[], Catalog]) -> Catalog:
        return reopen()


def test_consoles_show_the_columns_the_folder_and_both_metadata_locations(catalog: GlueCatalog) -> None:
    catalog.create_namespace("db")
    schema = pa.schema(
        [("id", pa.int64()), ("tags", pa.list_(pa.string())), ("at", pa.timestamp("us", "UTC")), ("price", pa.decimal128(9, 2))]
    )
    table = catalog.create_table("db.t", schema, properties={"comment": "Prices"})
    first = table.metadata_location
    shown = in_glue(catalog, "t")
    assert (shown["TableType"], shown["Description"]) == ("EXTERNAL_TABLE", "Prices")
    assert shown["Parameters"]["table_type"] == "ICEBERG"
    assert shown["StorageDescriptor"]["Location"] == table.location() == f"{catalog.properties['warehouse']}/db.db/t"
    assert [(column["Name"], column["Type"]) for column in shown["StorageDescriptor"]["Columns"]] == [
        ("id", "bigint"),
        ("tags", "array<string>"),
        ("at", "timestamp"),
        ("price", "decimal(9,2)"),
    ]
    with table.update_schema() as update:
        update.rename_column("price", "amount")
    shown = in_glue(catalog, "t")
    assert [column["Name"] for column in shown["StorageDescriptor"]["Columns"]] == ["id", "tags", "at", "amount"]
    assert shown["Parameters"]["metadata_location"] == table.metadata_location
    assert shown["Parameters"]["previous_metadata_location"] == first


def test_parameters_that_others_have_set_are_kept(catalog: GlueCatalog) -> None:
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", SCHEMA)
    shown = in_glue(catalog, "t")
    changed = {field: shown[field] for field in ("Name", "StorageDescriptor", "TableType")}
    client_of(catalog).update_table(
        DatabaseName="db",
        CatalogId=catalog.properties["glue.id"],
        TableInput={**changed, "Parameters": {**shown["Parameters"], "owner": "me"}},
    )
    table.append(rows(1))
    assert in_glue(catalog, "t")["Parameters"]["owner"] == "me"


def test_a_table_that_changes_between_reading_and_updating_is_a_conflict(catalog: GlueCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", SCHEMA, properties=QUICK)
    call, calls = glue_client.GlueClient.call, []

    def with_another_commit(self: Any, operation: str, **arguments: Any) -> Any:
        if operation == "update_table" and not calls:
            calls.append(operation)
            catalog.load_table("db.t").append(rows(7))
        return call(self, operation, **arguments)

    monkeypatch.setattr(glue_client.GlueClient, "call", with_another_commit)
    table.append(rows(1))
    assert numbers(catalog.load_table("db.t")) == [1, 7]


def test_a_lost_reply_is_resolved_by_the_location_and_by_sending_again(catalog: GlueCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", SCHEMA)
    request = CommitRequest(identifier=("db", "t"), expected=table.metadata_location, new=f"{table.location()}/metadata/1.metadata.json")
    call = glue_client.GlueClient.call

    def lost(self: Any, operation: str, **arguments: Any) -> Any:
        result = call(self, operation, **arguments)
        if operation == "update_table":
            raise glue_client.GlueError("", "ReadTimeoutError: the reply was lost")
        return result

    def never_sent(self: Any, operation: str, **arguments: Any) -> Any:
        if operation == "update_table":
            raise glue_client.GlueError("", "ConnectTimeoutError")
        return call(self, operation, **arguments)

    monkeypatch.setattr(glue_client.GlueClient, "call", never_sent)
    assert isinstance(catalog.store.commit([request]), Unknown)
    assert isinstance(catalog.store.commit_status([request]), Unknown)
    monkeypatch.setattr(glue_client.GlueClient, "call", lost)
    assert isinstance(catalog.store.commit([request]), Unknown)
    monkeypatch.undo()
    assert isinstance(catalog.store.commit_status([request]), Committed)
    other = CommitRequest(identifier=("db", "t"), expected=request.expected, new="s3://x/other.json")
    assert catalog.store.commit_status([other]) == Conflicted(current_location=request.new, is_reply_lost=True)


def test_an_error_of_lake_formation_is_passed_on_and_its_commit_left_no_file(catalog: GlueCatalog) -> None:
    catalog.create_namespace("db")
    table = catalog.create_table("db.denied", SCHEMA)
    with pytest.raises(StoragePermissionError, match="Insufficient Lake Formation permission") as raised:
        table.append(rows(1))
    assert "Lake Formation" in str(raised.value.next_step)
    assert SECRET not in str(raised.value)
    assert numbers(catalog.load_table("db.denied")) == []
    with pytest.raises(StoragePermissionError, match=r"not dropped: .*Insufficient Lake Formation permission"):
        catalog.drop_table("db.denied")
    assert catalog.table_exists("db.denied")


def test_tables_of_other_formats_are_not_tables_of_the_catalog(catalog: GlueCatalog) -> None:
    catalog.create_namespace("db")
    client_of(catalog).create_table(
        DatabaseName="db", CatalogId=catalog.properties["glue.id"], TableInput={"Name": "hive", "Parameters": {}}
    )
    assert catalog.list_tables("db") == []
    with pytest.raises(NoSuchTableError, match="no Iceberg table"):
        catalog.load_table("db.hive")


def test_names_that_would_be_changed_are_refused(catalog: GlueCatalog) -> None:
    catalog.create_namespace("db")
    with pytest.raises(InvalidIdentifierError, match="lower case"):
        catalog.create_table("db.Trips", SCHEMA)
    with pytest.raises(UnsupportedFeatureError, match="do not nest"):
        catalog.create_namespace("a.b")


def test_the_folder_of_a_namespace_is_where_its_tables_are(catalog: GlueCatalog, store: ObjectStore) -> None:
    catalog.create_namespace("db", {"location": f"{store.bucket}/own", "comment": "x", "owner": "me"})
    assert catalog.load_namespace_properties("db") == {"location": f"{store.bucket}/own", "comment": "x", "owner": "me"}
    assert catalog.create_table("db.t", SCHEMA).location() == f"{store.bucket}/own/t"


def test_a_pickled_catalog_works(catalog: GlueCatalog) -> None:
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", SCHEMA)
    pickle.loads(pickle.dumps(table)).append(rows(1))
    assert numbers(pickle.loads(pickle.dumps(catalog)).load_table("db.t")) == [1]


def test_an_unreachable_service_is_an_error_that_names_the_settings(store: ObjectStore) -> None:
    properties = {**store.properties, "glue.endpoint": "http://127.0.0.1:9", "glue.max-retries": "1"}
    with pytest.raises(StorageUnavailableError, match="could not be listed") as raised:
        GlueCatalog("lake", warehouse=store.bucket, **properties).list_namespaces()
    assert "glue.endpoint" in str(raised.value.next_step)


def test_a_commit_during_a_drop_is_followed_and_a_table_created_again_is_kept(
    catalog: GlueCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", SCHEMA, properties=QUICK)
    call, seen = glue_client.GlueClient.call, []

    def with_another_commit(self: Any, operation: str, **arguments: Any) -> Any:
        if operation == "update_table" and not seen:
            seen.append(operation)
            table.append(rows(7))
        return call(self, operation, **arguments)

    monkeypatch.setattr(glue_client.GlueClient, "call", with_another_commit)
    assert catalog.store.drop(("db", "t"), expected=table.metadata_location) is False
    assert numbers(catalog.load_table("db.t")) == [7]
    seen.clear()
    catalog.drop_table("db.t")
    assert seen
    assert catalog.list_tables("db") == []
    assert numbers(catalog.create_table("db.t", SCHEMA)) == []


@pytest.fixture
def throttled() -> Iterator[tuple[str, list[str]]]:
    """Return the address of a Glue that takes every request as one too many, and the operations that it gets."""
    seen = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append(str(self.headers["X-Amz-Target"]))
            self.rfile.read(int(self.headers["Content-Length"]))
            body = b'{"__type": "ThrottlingException", "message": "Rate exceeded"}'
            self.send_response(400)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", seen
    server.shutdown()
    server.server_close()


def test_boto3_repeats_other_requests_and_no_deletion(throttled: tuple[str, list[str]]) -> None:
    pytest.importorskip("boto3", reason="boto3 is not installed: run make test-object-stores")
    address, seen = throttled
    credentials = {"glue.region": "us-east-1", "glue.access-key-id": KEY, "glue.secret-access-key": SECRET}
    client = glue_client.GlueClient({**credentials, "glue.endpoint": address, "glue.max-retries": "1"})
    with pytest.raises(glue_client.GlueError) as raised:
        client.call_once("delete_table", DatabaseName="db", Name="t")
    assert seen == ["AWSGlue.DeleteTable"]
    assert raised.value.is_denial
    with pytest.raises(glue_client.GlueError) as raised:
        client.call("update_table", DatabaseName="db", TableInput={"Name": "t"})
    assert seen[1:] == ["AWSGlue.UpdateTable"] * 2
    assert raised.value.was_repeated
    assert raised.value.is_throttled
    assert not raised.value.is_denial
