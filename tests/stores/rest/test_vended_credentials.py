"""Credentials that a REST catalog gives with a table: which of them a file gets, and their renewal, here and in another process."""

import pickle
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from tests.stores.rest.rest_double import Answer, OneTable, Request, RestDouble, problem

from icefloe.catalog.rest_catalog import RestCatalog
from icefloe.errors import IcefloeError, LocationNotAllowedError, StoragePermissionError
from icefloe.io import object_store_file_io
from icefloe.spec.ports import VENDED_GOOGLE_TOKEN
from icefloe.stores.rest import table_access
from icefloe.stores.rest.rest_paths import Endpoint
from icefloe.stores.rest.table_access import TableAccess

CREDENTIALS = f"{OneTable.path}/credentials"
# Seconds that a vended key is valid for.
LIFETIME_S = 600.0


class SetClock:
    """The time of the server, of the store and of the client; a test lets it pass."""

    def __init__(self) -> None:
        self.now_s = 1_800_000_000.0

    def time(self) -> float:
        return self.now_s

    def pass_s(self, seconds: float) -> None:
        self.now_s += seconds + 0.01


CLOCK = SetClock()


class ExpiringStore(MemoryFileSystem):
    """A store in memory, called s3, that takes a key until it expires; `used` are the keys of its requests."""

    protocol = ("s3",)
    cachable = False
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    valid_until: ClassVar[dict[str, float]] = {}
    used: ClassVar[list[str]] = []

    def __init__(self, key: str = "", **options: Any) -> None:
        super().__init__(**options)
        self.key = key

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        return MemoryFileSystem._strip_protocol(str(path).replace("s3://", "memory://"))

    def _check(self) -> None:
        self.used.append(self.key)
        if CLOCK.time() > self.valid_until.get(self.key, 0):
            raise PermissionError(f"ExpiredToken: {self.key}")

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        self._check()
        options.pop("max_concurrency", None)
        return bytes(super().cat_file(path, start, end, **options))

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> None:
        self._check()
        super().pipe_file(path, value, mode=mode, **options)

    def info(self, path: str, **options: Any) -> Any:
        self._check()
        return super().info(path, **options)

    def open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        self._check()
        return super().open(path, mode, **options)


class Vending:
    """A server whose keys are valid for a short time, which it states or not."""

    def __init__(self, server: RestDouble, stored: OneTable, *, tells_expiry: bool = True) -> None:
        self.tells_expiry = tells_expiry
        self.keys = 0
        server.on(
            "GET", "/v1/config", Answer(200, {"defaults": {}, "overrides": {}, "endpoints": [str(endpoint) for endpoint in Endpoint]})
        )
        stored.result = {"storage-credentials": [self.credential()]}
        server.on("GET", CREDENTIALS, call=lambda _: Answer(200, {"storage-credentials": [self.credential()]}))

    def credential(self) -> dict[str, Any]:
        self.keys += 1
        key, expiry = f"key-{self.keys}", CLOCK.time() + LIFETIME_S
        ExpiringStore.valid_until[key] = expiry
        config = {"s3.access-key-id": key, "s3.secret-access-key": "vended-secret", "s3.session-token": "vended-token"}
        return {
            "prefix": "s3://lake/",
            "config": {**config, **({"s3.session-token-expires-at-ms": str(int(expiry * 1000))} if self.tells_expiry else {})},
        }


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_access, "time", CLOCK)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    known = fsspec.registry.get("s3")
    fsspec.register_implementation("s3", ExpiringStore, clobber=True)
    monkeypatch.setattr(object_store_file_io, "CREATES_EXCLUSIVELY", frozenset())
    monkeypatch.setattr(table_access, "LEAST_WAIT_S", 0.02)
    object_store_file_io._connect.cache_clear()
    yield
    object_store_file_io._connect.cache_clear()
    if known is not None:
        fsspec.register_implementation("s3", known, clobber=True)
    for kept in (ExpiringStore.store, ExpiringStore.valid_until, ExpiringStore.used):
        kept.clear()


@pytest.fixture
def in_store(server: RestDouble, store: None, tmp_path: Path) -> OneTable:
    table = OneTable(server, str(tmp_path / "t"))
    assert table.metadata is not None
    table.at("s3://lake/db/t")
    return table


def access(server: RestDouble, **properties: str) -> TableAccess:
    stored = RestCatalog("r", uri=server.uri, **properties).store.load(("db", "t"))
    assert isinstance(stored.access, TableAccess)
    return stored.access


def test_the_longest_prefix_wins_then_config_then_own_properties(server: RestDouble, in_store: OneTable) -> None:
    in_store.result = {
        "config": {"s3.access-key-id": "config", "client.region": "eu-west-1", "py-io-impl": "os.system"},
        "storage-credentials": [
            {"prefix": "s3://lake/", "config": {"s3.access-key-id": "short"}},
            {"prefix": "s3://lake/db/t/", "config": {"s3.access-key-id": "long"}},
            {"prefix": "gs", "config": {"gcs.oauth2.token": "google"}},
        ],
    }
    given = access(server, **{"s3.access-key-id": "own", "s3.path-style-access": "true"})
    for location, key in (
        ("s3://lake/db/t/x", "long"),
        ("s3a://lake/db/t/x", "long"),
        ("s3://lake/other", "short"),
        ("s3://else/x", "config"),
    ):
        assert given.settings_for(location).properties["s3.access-key-id"] == key
    properties = given.settings_for("s3://lake/x").properties
    assert (properties["s3.region"], properties["s3.path-style-access"]) == ("eu-west-1", "true")
    assert "py-io-impl" not in properties
    assert given.settings_for("gs://b/x").properties[VENDED_GOOGLE_TOKEN] == "google"


def test_own_keys_are_not_sent_to_a_host_that_the_server_names(server: RestDouble, in_store: OneTable) -> None:
    in_store.result = {"config": {"s3.endpoint": "https://evil.example", "gcs.service.host": "https://evil.example"}}
    own = {"s3.access-key-id": "mine", "s3.secret-access-key": "mine", "gcs.oauth2.token": "mine", "s3.region": "x"}
    assert (
        "mine"
        not in access(server, **own, **{"s3.anonymous": "true", "gcs.no-auth": "true"}).settings_for("s3://lake/x").properties.values()
    )
    own["s3.endpoint"] = "https://evil.example"
    assert access(server, **own).settings_for("s3://lake/x").properties["s3.access-key-id"] == "mine", "the user named this host"


@pytest.mark.parametrize(
    ("host", "key"),
    [
        ("gcs.endpoint", "gcs.oauth2.token"),
        ("adls.account-host", "adls.sas-token.lake"),
        ("adls.account-host", "adls.connection-string.lake"),
        ("adls.account-host", "adls.auth.shared-key.account.key"),
    ],
)
def test_own_keys_of_every_name_are_not_sent_to_a_host_that_the_server_names(
    server: RestDouble, in_store: OneTable, host: str, key: str
) -> None:
    in_store.result = {"config": {host: "evil.example"}}
    assert "mine" not in access(server, **{key: "mine"}).settings_for("s3://lake/x").properties.values()


@pytest.mark.parametrize(
    ("host", "location", "key"),
    [
        ("s3.endpoint", "s3a://lake/x", "s3.access-key-id"),
        ("s3.proxy-uri", "s3://lake/x", "s3.access-key-id"),
        ("gcs.service.host", "gs://lake/x", "gcs.oauth2.token"),
        ("gcs.endpoint", "gcs://lake/x", "gcs.oauth2.token"),
        ("adls.account-host", "abfss://c@lake.dfs.core.windows.net/x", "adls.sas-token.lake"),
    ],
)
@pytest.mark.parametrize("of_catalog", [False, True])
def test_the_credentials_of_the_machine_are_not_sent_to_a_host_that_the_server_names(
    server: RestDouble, in_store: OneTable, host: str, location: str, key: str, of_catalog: bool
) -> None:
    named = {host: "https://evil.example"}
    if of_catalog:
        listed = [str(endpoint) for endpoint in Endpoint]
        server.on("GET", "/v1/config", Answer(200, {"defaults": named, "overrides": {}, "endpoints": listed}))
    else:
        in_store.result = {"config": named}
    for given in (access(server), pickle.loads(pickle.dumps(access(server)))):
        with pytest.raises(StoragePermissionError, match=r"gives no credentials for it") as caught:
            given.settings_for(location)
        assert host in str(caught.value.next_step)
        assert given.settings_for("s3://lake/x" if location.startswith(("g", "a")) else "gs://lake/x").properties is not None
    trusted = access(server, **named)
    for given in (trusted, pickle.loads(pickle.dumps(trusted)), trusted.of_plan("p", [])):
        assert given.settings_for(location).properties[host] == "https://evil.example", "the user named this host"
    vended = {key: "vended", "s3.secret-access-key": "vended"}
    in_store.result = {"config": named, "storage-credentials": [{"prefix": location[:6], "config": vended}]}
    assert "vended" in access(server).settings_for(location).properties.values()


S3_HOST, GOOGLE_HOST, AZURE_HOST = ({name: "https://evil.example"} for name in ("s3.endpoint", "gcs.service.host", "adls.account-host"))
AT_S3, AT_GOOGLE, AT_AZURE = "s3://lake/x", "gs://lake/x", "abfss://c@lake.dfs.core.windows.net/x"


@pytest.mark.parametrize(
    ("location", "config"),
    [
        (AT_S3, {**S3_HOST, "s3.session-token-expires-at-ms": "1"}),
        (AT_S3, {**S3_HOST, "s3.session-token": "vended"}),
        (AT_S3, {**S3_HOST, "s3.access-key-id": "vended"}),
        (AT_S3, {**S3_HOST, "s3.access-key-id": "vended", "s3.secret-access-key": ""}),
        (AT_S3, {**S3_HOST, "s3.access-key-id": "", "s3.secret-access-key": ""}),
        (AT_GOOGLE, {**GOOGLE_HOST, "gcs.oauth2.token-expires-at": "1"}),
        (AT_GOOGLE, {**GOOGLE_HOST, "gcs.oauth2.token": ""}),
        (AT_GOOGLE, {**GOOGLE_HOST, "s3.remote-signing-enabled": "true"}),
        (AT_AZURE, {**AZURE_HOST, "adls.sas-token-expires-at-ms": "1"}),
        (AT_AZURE, {**AZURE_HOST, "adls.sas-token-expires-at-ms.lake": "1"}),
        (AT_AZURE, {**AZURE_HOST, "adls.sas-token.other": "vended"}),
        (AT_AZURE, {**AZURE_HOST, "adls.connection-string.other": "vended"}),
        (AT_AZURE, {**AZURE_HOST, "adls.sas-token": "", "adls.sas-token.lake": "", "adls.account-key": ""}),
        (AT_AZURE, {**AZURE_HOST, "adls.client-secret": "vended", "adls.client-id": "vended"}),
        (AT_AZURE, {**AZURE_HOST, "adls.client-secret": "vended", "adls.client-id": "vended", "adls.tenant-id": ""}),
    ],
)
def test_what_is_no_whole_credential_opens_no_host_of_the_server(
    server: RestDouble, in_store: OneTable, location: str, config: dict[str, str]
) -> None:
    in_store.result = {"config": config}
    with pytest.raises(StoragePermissionError, match=r"gives no credentials for it"):
        access(server).settings_for(location)


@pytest.mark.parametrize(
    ("location", "config"),
    [
        (AT_S3, {**S3_HOST, "s3.access-key-id": "vended", "s3.secret-access-key": "vended"}),
        (AT_AZURE, {**AZURE_HOST, "adls.connection-string.lake": "vended"}),
        (AT_AZURE, {**AZURE_HOST, "adls.client-secret": "vended", "adls.client-id": "vended", "adls.tenant-id": "vended"}),
    ],
)
def test_a_whole_credential_opens_the_host_of_the_server(
    server: RestDouble, in_store: OneTable, location: str, config: dict[str, str]
) -> None:
    in_store.result = {"config": config}
    assert config.items() <= access(server).settings_for(location).properties.items()


def test_a_variable_of_the_environment_that_is_preferred_opens_no_host_of_the_server(
    server: RestDouble, in_store: OneTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_store.result = {"config": {**AZURE_HOST, "adls.sas-token": "vended"}}
    assert access(server).settings_for(AT_AZURE).properties["adls.sas-token"] == "vended"
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "of-the-machine")
    with pytest.raises(StoragePermissionError, match=r"gives no credentials for it"):
        access(server).settings_for(AT_AZURE)


@pytest.mark.parametrize("token", ["google_default", "cache", "cloud", "browser", "anon", __file__])
def test_the_token_of_a_server_is_a_token_whatever_its_text(server: RestDouble, in_store: OneTable, token: str) -> None:
    for config in ({"gcs.oauth2.token": token}, {**GOOGLE_HOST, "gcs.oauth2.token": token}):
        in_store.result = {"config": config}
        properties = access(server).settings_for(AT_GOOGLE).properties
        assert properties[VENDED_GOOGLE_TOKEN] == token
        assert "gcs.oauth2.token" not in properties
    in_store.result = {}
    assert access(server, **{"gcs.oauth2.token": token}).settings_for(AT_GOOGLE).properties == {"gcs.oauth2.token": token}, "the user may"
    server.on("GET", "/v1/config", Answer(200, {"defaults": {"gcs.oauth2.token": token}, "overrides": {}}))
    assert access(server).settings_for(AT_GOOGLE).properties == {VENDED_GOOGLE_TOKEN: token}


@pytest.mark.parametrize("name", ["adls.account-name", "adls.auth.shared-key.account.name"])
@pytest.mark.parametrize("of_catalog", [False, True])
def test_own_keys_are_not_sent_to_an_account_that_the_server_names(
    server: RestDouble, in_store: OneTable, name: str, of_catalog: bool
) -> None:
    named = {name: "evil"}
    if of_catalog:
        server.on("GET", "/v1/config", Answer(200, {"defaults": {}, "overrides": named}))
    else:
        in_store.result = {"config": named}
    keys = dict.fromkeys(("adls.account-key", "adls.auth.shared-key.account.key", "adls.sas-token", "adls.connection-string"), "mine")
    for own in (keys, {**keys, "adls.auth.shared-key.account.name": "lake"}):
        properties = access(server, **own).settings_for("abfss://c@evil.dfs.core.windows.net/x").properties
        assert "mine" not in properties.values() or properties.get(name) != "evil"
    assert set(keys) <= set(access(server, **keys, **{name: "Evil"}).settings_for(AT_AZURE).properties), "the user named this account"


def test_an_account_of_the_server_is_no_part_of_another_address(server: RestDouble, in_store: OneTable) -> None:
    in_store.result = {"config": {"adls.account-name": "evil.example/"}}
    assert access(server).settings_for("abfs://container/x").properties == {}


@pytest.mark.parametrize(
    ("own", "sent"),
    [
        ("http://localhost:9000", "http://localhost:9000/"),
        ("https://minio", "https://minio:443"),
        ("http://minio:80/", "http://MINIO"),
        ("http://minio:9000", ""),
        ("", ""),
    ],
)
def test_another_text_for_the_host_of_the_user_is_no_other_host(server: RestDouble, in_store: OneTable, own: str, sent: str) -> None:
    in_store.result = {"config": {"s3.endpoint": sent}}
    keys = {"s3.access-key-id": "mine", "s3.secret-access-key": "mine"}
    properties = access(server, **keys, **({"s3.endpoint": own} if own else {})).settings_for(AT_S3).properties
    assert keys.items() <= properties.items()
    assert properties.get("s3.endpoint", "") == sent or not sent


def test_own_keys_stay_where_the_own_host_replaces_that_of_the_catalog(server: RestDouble, in_store: OneTable) -> None:
    own = {"s3.access-key-id": "mine", "s3.secret-access-key": "mine", "s3.endpoint": "http://localhost:9000"}
    server.on("GET", "/v1/config", Answer(200, {"defaults": {}, "overrides": {"s3.endpoint": "http://minio:9000"}}))
    assert access(server, **own).settings_for(AT_S3).properties == own


def test_the_server_chooses_no_profile_of_the_machine(server: RestDouble, in_store: OneTable) -> None:
    in_store.result = {
        "config": {"s3.profile-name": "prod"},
        "storage-credentials": [{"prefix": "s3", "config": {"s3.profile-name": "prod"}}],
    }
    server.on("GET", "/v1/config", Answer(200, {"defaults": {"s3.profile-name": "prod"}, "overrides": {}}))
    assert "prod" not in access(server).settings_for("s3://lake/x").properties.values()
    assert access(server, **{"s3.profile-name": "mine"}).settings_for("s3://lake/x").properties["s3.profile-name"] == "mine"


def test_a_write_that_lasts_longer_than_its_credentials_is_finished(server: RestDouble, in_store: OneTable) -> None:
    vending = Vending(server, in_store)
    table = RestCatalog("r", uri=server.uri).load_table("db.t")
    for number in range(4):
        table.append(pa.table({"n": [number]}))
        CLOCK.pass_s(LIFETIME_S / 2)
    assert sorted(table.scan().to_arrow()["n"].to_pylist()) == [0, 1, 2, 3]
    assert vending.keys > 1
    assert server.of("GET", CREDENTIALS)


def test_a_stream_that_is_open_longer_than_its_credentials_is_written(server: RestDouble, in_store: OneTable) -> None:
    Vending(server, in_store)
    io = RestCatalog("r", uri=server.uri).load_table("db.t").io
    with io.open_output("s3://lake/db/t/data/x") as stream:
        for _ in range(4):
            stream.write(b"abc")
            CLOCK.pass_s(LIFETIME_S / 3)
    assert io.read("s3://lake/db/t/data/x") == b"abc" * 4


def test_a_store_that_refuses_early_gets_new_credentials(server: RestDouble, in_store: OneTable, monkeypatch: pytest.MonkeyPatch) -> None:
    Vending(server, in_store, tells_expiry=False)
    table = RestCatalog("r", uri=server.uri).load_table("db.t")
    table.append(pa.table({"n": [1]}))
    CLOCK.pass_s(LIFETIME_S)
    assert table.scan().to_arrow()["n"].to_pylist() == [1]


def test_a_thread_that_used_the_old_key_reads_with_the_one_that_another_thread_got(
    server: RestDouble, in_store: OneTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    Vending(server, in_store, tells_expiry=False)
    io = RestCatalog("r", uri=server.uri).load_table("db.t").io
    io.write("s3://lake/db/t/data/x", b"abc")
    monkeypatch.setattr(table_access, "LEAST_WAIT_S", LIFETIME_S)
    CLOCK.pass_s(LIFETIME_S)
    both, first_is_done, read = threading.Barrier(2), threading.Event(), []
    check = ExpiringStore._check

    def refuse(store: ExpiringStore) -> None:
        if store.key == "key-1":
            both.wait(20)
            if threading.current_thread().name == "second":
                first_is_done.wait(20)
        check(store)

    def run() -> None:
        read.append(io.read("s3://lake/db/t/data/x"))
        first_is_done.set()

    monkeypatch.setattr(ExpiringStore, "_check", refuse)
    threads = [threading.Thread(target=run, name=name) for name in ("first", "second")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read == [b"abc", b"abc"]
    assert len(server.of("GET", CREDENTIALS)) == 1


def test_a_server_without_an_operation_for_credentials_gives_them_with_the_table(server: RestDouble, in_store: OneTable) -> None:
    vending = Vending(server, in_store)
    server.on("GET", "/v1/config", Answer(200, {"defaults": None, "overrides": None}))
    table = RestCatalog("r", uri=server.uri).load_table("db.t")
    table.append(pa.table({"n": [1]}))
    CLOCK.pass_s(LIFETIME_S)
    config = {name: text for name, text in vending.credential()["config"].items() if "expires" not in name}
    in_store.result = {"config": config}
    ExpiringStore.valid_until[config["s3.access-key-id"]] = float("inf")
    assert table.scan().to_arrow()["n"].to_pylist() == [1]
    assert not server.of("GET", CREDENTIALS)


# Properties of a catalog, each with a value that is in no other text, and whether a Spark task needs them to renew its credentials and to read.
OF_REQUESTS = {"credential": "the-client:the-secret", "header.X-Gateway": "of-the-gateway", "rest.client.proxy.password": "of-the-proxy"}
OF_STORAGE = {"s3.connect-timeout": "98765"}
OF_THE_DRIVER = {
    "warehouse": "the-warehouse",
    "rest.auth.basic.password": "not-used-by-oauth2",
    "table-default.owner": "of-new-tables",
    "py-io-impl": "of-pyiceberg",
    "glue.secret-access-key": "of-another-catalog",
    "password": "of-something-else",
}


def in_a_copy(copied: bytes, properties: Mapping[str, str]) -> set[str]:
    """Return the properties of which a part of the value is in pickled bytes."""
    return {name for name, text in properties.items() if any(part.encode() in copied for part in text.split(":"))}


@pytest.fixture
def oauth2(server: RestDouble) -> RestDouble:
    server.on("POST", "/v1/oauth/tokens", Answer(200, {"access_token": "the-token", "token_type": "bearer", "expires_in": 3600}))
    return server


def test_a_copy_in_another_process_renews_by_itself_and_has_no_more_properties_than_that_needs(
    oauth2: RestDouble, in_store: OneTable
) -> None:
    Vending(oauth2, in_store)
    properties = {**OF_REQUESTS, **OF_STORAGE, **OF_THE_DRIVER}
    table = RestCatalog("r", uri=oauth2.uri, **properties).load_table("db.t")
    table.append(pa.table({"n": [1]}))
    copied = pickle.dumps(table.io)
    assert in_a_copy(copied, properties) == {*OF_REQUESTS, *OF_STORAGE}
    CLOCK.pass_s(LIFETIME_S)
    (path,) = [file.file_path for file in (task.file for task in table.scan().plan_files())]
    oauth2.requests.clear()
    assert len(pickle.loads(copied).read(path)) > 100
    assert {request.headers["authorization"] for request in oauth2.requests} == {"Bearer the-token"}


def test_a_copy_has_nothing_that_authenticates_the_catalog_where_the_server_sent_a_token_with_the_table(
    oauth2: RestDouble, in_store: OneTable
) -> None:
    Vending(oauth2, in_store)
    in_store.result = {**in_store.result, "config": {"token": "of-the-table"}}
    table = RestCatalog("r", uri=oauth2.uri, credential="the-client:the-secret").load_table("db.t")
    table.append(pa.table({"n": [1]}))
    copied = pickle.dumps(table.io)
    assert in_a_copy(copied, {"credential": "the-client:the-secret", "token": "the-token"}) == set()
    CLOCK.pass_s(LIFETIME_S)
    (path,) = [file.file_path for file in (task.file for task in table.scan().plan_files())]
    oauth2.requests.clear()
    assert len(pickle.loads(copied).read(path)) > 100
    assert {request.headers["authorization"] for request in oauth2.requests} == {"Bearer of-the-table"}


def test_no_secret_of_a_copy_is_in_its_text_or_in_an_error_that_repeats_it(
    oauth2: RestDouble, in_store: OneTable, caplog: pytest.LogCaptureFixture
) -> None:
    Vending(oauth2, in_store)
    table = RestCatalog("r", uri=oauth2.uri, **OF_REQUESTS).load_table("db.t")
    given = pickle.loads(pickle.dumps(table.io)).access
    echo = " ".join([*OF_REQUESTS.values(), "the-secret", "the-token", "vended-secret"])
    oauth2.on("GET", CREDENTIALS, problem(403, "ForbiddenException", echo))
    CLOCK.pass_s(LIFETIME_S)
    with caplog.at_level("DEBUG"):
        given.settings_for("s3://lake/x")
    assert "could not be fetched" in caplog.text
    for text in (
        caplog.text,
        repr(given),
        repr(table.io),
        repr(given._connection),
        repr(given._connection.auth),
        repr(given._connection.client),
    ):
        assert not any(secret in text for secret in echo.split())


def test_credentials_that_cannot_be_renewed_are_used_as_long_as_the_store_takes_them(server: RestDouble, in_store: OneTable) -> None:
    Vending(server, in_store)
    server.on("GET", CREDENTIALS, problem(403, "ForbiddenException", "no vended-secret for you"))
    table = RestCatalog("r", uri=server.uri).load_table("db.t")
    table.append(pa.table({"n": [1]}))
    CLOCK.pass_s(LIFETIME_S)
    with pytest.raises(StoragePermissionError) as refused:
        table.append(pa.table({"n": [2]}))
    assert "vended" not in str(refused.value)


def test_no_credential_is_in_metadata_texts_or_logs(server: RestDouble, in_store: OneTable, caplog: pytest.LogCaptureFixture) -> None:
    Vending(server, in_store)
    catalog = RestCatalog("r", uri=server.uri)
    table = catalog.load_table("db.t")
    with caplog.at_level("DEBUG"):
        table.append(pa.table({"n": [1]}))
        scan = table.scan()
    shown = [repr(table), str(table), repr(table.io), repr(table.handle), repr(scan), str(table.metadata), repr(catalog.store), caplog.text]
    shown += [
        bytes(content.getvalue() if hasattr(content, "getvalue") else content).decode("latin-1") for content in ExpiringStore.store.values()
    ]
    shown += [request.body.decode("latin-1") for request in server.requests]
    for text in shown:
        assert "vended" not in text
        assert "key-1" not in text


@pytest.mark.parametrize("body", [{}, {"storage-credentials": 5}, {"storage-credentials": [{"prefix": 1, "config": {}}]}])
def test_an_answer_with_damaged_credentials_changes_nothing(server: RestDouble, in_store: OneTable, body: Any) -> None:
    Vending(server, in_store)
    given = access(server)
    server.on("GET", CREDENTIALS, Answer(200, body))
    CLOCK.pass_s(LIFETIME_S)
    assert given.settings_for("s3://lake/x").properties["s3.access-key-id"] == "key-1"
    assert not given.renew()


def test_an_expired_table_token_is_an_error_of_the_catalog(server: RestDouble, in_store: OneTable) -> None:
    in_store.result = {"config": {"token": "of-the-table"}}
    table = RestCatalog("r", uri=server.uri, token="of-the-catalog").load_table("db.t")  # noqa: S106

    def refuse(request: Request) -> Answer:
        assert request.headers["authorization"] == "Bearer of-the-table"
        return problem(401, "NotAuthorizedException")

    server.on("POST", OneTable.path, call=refuse)
    with pytest.raises(IcefloeError, match="401"), table.transaction() as transaction:
        transaction.set_properties({"a": "1"})


class NamedByTheServer(OneTable):
    """A table whose metadata file the server names by an address of its own, as Nessie does."""

    @property
    def location(self) -> str:
        return f"http://catalog.example/main/db.t/{self.version}"


def test_a_location_that_the_server_gives_access_to_is_written_whatever_names_the_metadata_file(
    server: RestDouble, store: None, tmp_path: Path
) -> None:
    table = NamedByTheServer(server, str(tmp_path / "t"))
    table.at("s3://lake/db/t")
    without_access = RestCatalog("r", uri=server.uri).load_table("db.t")
    with pytest.raises(LocationNotAllowedError), without_access.transaction() as transaction:
        transaction.set_properties({"a": "b"})
    Vending(server, table)
    catalog = RestCatalog("r", uri=server.uri)
    catalog.load_table("db.t").append(pa.table({"n": pa.array([1, 2], pa.int64())}))
    assert catalog.load_table("db.t").scan().to_arrow().num_rows == 2


FILE, OTHER = "s3a://lake/db/t/data/1.parquet", "gs://lake/1.parquet"


@pytest.mark.parametrize(
    ("result", "file", "other"),
    [
        ({}, False, False),
        ({"config": {"s3.endpoint": "http://localhost", "client.region": "eu-west-1"}}, False, False),
        ({"storage-credentials": [{"prefix": "s3://lake/db", "config": {"s3.session-token": "x"}}]}, True, False),
        ({"storage-credentials": [{"prefix": "gs", "config": {"gcs.oauth2.token": "x"}}]}, False, True),
        ({"config": {"s3.access-key-id": "x", "s3.secret-access-key": "y"}}, True, False),
        ({"config": {"s3.access-key-id": "", "s3.secret-access-key": "y"}}, False, False),
        ({"config": {"s3.remote-signing-enabled": "true"}}, True, False),
    ],
)
def test_files_for_which_the_server_gives_access_are_known_so_that_no_other_library_opens_them(
    server: RestDouble, in_store: OneTable, result: dict[str, Any], file: bool, other: bool
) -> None:
    in_store.result = result
    given = access(server, **{"s3.access-key-id": "own", "s3.secret-access-key": "own"})
    assert (given.vends_any([FILE]), given.vends_any([OTHER])) == (file, other)
    assert given.vends_any(["/data/1.parquet", OTHER, FILE]) is (file or other)
    assert given.vends_any(["/data/1.parquet", "file:///data/2.parquet"]) is False


def test_keys_that_the_server_gives_for_all_tables_are_its_own_and_those_of_the_user_are_not(
    server: RestDouble, in_store: OneTable
) -> None:
    keys = {"s3.access-key-id": "x", "s3.secret-access-key": "y"}
    assert not access(server, **keys).vends_any([FILE])
    server.on("GET", "/v1/config", Answer(200, {"defaults": keys, "overrides": {}, "endpoints": [str(endpoint) for endpoint in Endpoint]}))
    assert access(server).vends_any([FILE])


KEYS = {"s3.access-key-id": "vended", "s3.secret-access-key": "vended"}
SIGNING = {"s3.remote-signing-enabled": "true"}


@pytest.mark.parametrize(("first", "second"), [(KEYS, SIGNING), (SIGNING, KEYS)])
def test_a_connection_has_keys_or_signatures_of_one_answer_when_another_thread_fetches_the_next(
    server: RestDouble, in_store: OneTable, monkeypatch: pytest.MonkeyPatch, first: dict[str, str], second: dict[str, str]
) -> None:
    monkeypatch.setattr(table_access, "LEAST_WAIT_S", 0.0)
    in_store.result = {"storage-credentials": [{"prefix": "s3://lake/", "config": first}]}
    server.on("GET", "/v1/config", Answer(200, {"defaults": {}, "overrides": {}, "endpoints": [str(endpoint) for endpoint in Endpoint]}))
    server.on("GET", CREDENTIALS, Answer(200, {"storage-credentials": [{"prefix": "s3://lake/", "config": second}]}))
    given = access(server)
    connections: list[tuple[bool, bool]] = []
    options_for = object_store_file_io._options_for

    def fetch_meanwhile(protocol: str, location: str, properties: Mapping[str, str]) -> dict[str, str]:
        assert given.renew()
        return options_for(protocol, location, properties)

    def record(protocol: str, properties: tuple[tuple[str, str], ...], extra: str | None, signer: Any = None) -> None:
        connections.append(("s3.access-key-id" in dict(properties), signer is given))

    io = object_store_file_io.ObjectStoreFileIO("s3", {}, "s3", given)
    with monkeypatch.context() as patched:
        patched.setattr(object_store_file_io, "_options_for", fetch_meanwhile)
        patched.setattr(object_store_file_io, "_connect", record)
        io.connect("s3://lake/x")
        io.connect("s3://lake/x")
    has_keys = first is KEYS
    assert connections == [(has_keys, not has_keys), (not has_keys, has_keys)]
