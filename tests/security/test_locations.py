"""The stores that a hostile location can reach, and the credentials that are sent there."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.security.forging import forged

from icefloe import SqlCatalog
from icefloe.errors import IcefloeError, LocationNotAllowedError
from icefloe.io import object_store_file_io
from icefloe.io.bulk_delete import delete_files
from icefloe.io.file_io_by_scheme import check_locations, load_file_io

ROWS = pa.table({"a": pa.array([1, 2], pa.int64())})

REQUESTS = [
    "http://169.254.169.254/latest/meta-data",
    "https://example.invalid/x.parquet",
    "HTTP://169.254.169.254/x",
    "ftp://host/x",
    "smb://host/share/x",
    "github://org:repo@main/x",
    "ssh://host/x",
    "sftp://host/x",
    "webhdfs://host:50070/x",
    "zip://x::http://169.254.169.254/a.zip",
    "filecache::http://169.254.169.254/x",
    "simplecache::s3://bucket/x",
    "reference://x",
    "data://text/plain,x",
    "hf://datasets/x",
    "http:/169.254.169.254/x",
    "jar:file:/x!/y",
    "hdfs://169.254.169.254:80/x",
    "abfss://c@evil.example/x",
    "abfss://c@account.dfs.core.windows.net.evil.example/x",
    "abfss://c@evil.example#.dfs.core.windows.net/x",
    "abfss://c@evil.example\\.dfs.core.windows.net/x",
    "abfss://c@evil.example@account.dfs.core.windows.net/x",
    "abfss://c@evil.core.windows.net/x",
    "abfss://c@dfs.core.windows.net/x",
    "abfss://c@evil.example.dfs.core.windows.net/x",
    "wasbs://c@evil.example?.blob.core.windows.net/x",
    "s3://key:secret@bucket/x",
    "hdfs://user@nn/x",
]


@pytest.fixture
def no_requests(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, dict[str, Any]]]]:
    """Return the requests to fsspec, which connects to nothing."""
    requests: list[tuple[str, dict[str, Any]]] = []

    class Nowhere:
        def __init__(self, protocol: str, options: dict[str, Any]) -> None:
            self.options = (protocol, options)

        def rm(self, paths: list[str]) -> None:
            requests.append(("rm", {**self.options[1], "paths": paths}))

        def __getattr__(self, name: str) -> Any:
            def refuse(*_: Any, **__: Any) -> Any:
                raise OSError("no request in this test")

            return refuse

    def filesystem(protocol: str, **options: Any) -> Any:
        requests.append((protocol, options))
        return Nowhere(protocol, options)

    monkeypatch.setattr("fsspec.filesystem", filesystem)
    object_store_file_io._connect.cache_clear()
    yield requests
    object_store_file_io._connect.cache_clear()


@pytest.mark.parametrize("location", REQUESTS)
@pytest.mark.parametrize("base", ["/lake/db/t/metadata/x.json", "s3://lake/db/t/metadata/x.json"])
def test_no_request_follows_a_location_that_is_not_allowed(no_requests: list[Any], location: str, base: str) -> None:
    io = load_file_io({"warehouse": "s3://lake", "s3.secret-access-key": "sesame"}, base)
    del no_requests[:]
    for ask in (io.read, io.exists, io.size, io.open_input, io.delete, io.open_output):
        with pytest.raises(IcefloeError):
            ask(location)
    with pytest.raises(IcefloeError):
        io.write(location, b"")
    with pytest.raises(IcefloeError):
        check_locations(io, pa.array(["s3://lake/db/t/data/x", location]))
    assert no_requests == []


def test_a_scheme_is_allowed_by_the_catalog_alone(no_requests: list[Any]) -> None:
    io = load_file_io({"io.allowed-schemes": "ftp, HTTP://", "warehouse": "oss://lake/x"})
    for location in ("ftp://host/x", "http://host/x", "oss://lake/x/y"):
        with pytest.raises(IcefloeError, match="no request in this test"):
            io.read(location)
    assert [protocol for protocol, _ in no_requests] == ["ftp", "http", "oss"]


def test_a_table_in_an_object_store_reads_no_file_of_this_machine(tmp_path: Path, no_requests: list[Any]) -> None:
    (tmp_path / "shadow").write_text("root")
    metadata = "s3://lake/db/t/metadata/x.json"
    for properties in ({}, {"warehouse": str(tmp_path)}):
        io = load_file_io(properties, metadata)
        for location in (str(tmp_path / "shadow"), f"file:{tmp_path}/shadow", f"FILE://{tmp_path}/shadow", "x"):
            with pytest.raises(LocationNotAllowedError, match="object store"):
                io.read(location)
            with pytest.raises(LocationNotAllowedError):
                check_locations(io, pa.array([location]))
    assert load_file_io({"io.allowed-schemes": "file"}, metadata).read(str(tmp_path / "shadow")) == b"root"
    assert load_file_io({}, f"{tmp_path}/metadata/x.json").read(str(tmp_path / "shadow")) == b"root"


def catalog_in(folder: Path, **properties: str) -> SqlCatalog:
    folder.mkdir(exist_ok=True)
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder / "warehouse"), **properties)
    catalog.create_namespace_if_not_exists("db")
    return catalog


def test_a_strict_policy_reads_the_table_the_warehouse_and_allowed_locations_alone(tmp_path: Path) -> None:
    away = tmp_path / "away"
    away.mkdir()
    pq.write_table(ROWS, away / "a.parquet")
    open_lake = catalog_in(tmp_path / "lake")
    open_lake.create_table("db.t", ROWS.schema).add_files([str(away / "a.parquet")])
    assert open_lake.load_table("db.t").scan().count() == 2
    strict = catalog_in(tmp_path / "lake", **{"io.location-policy": "strict"})
    with pytest.raises(LocationNotAllowedError, match="strict"):
        strict.load_table("db.t").scan().to_arrow()
    strict.create_table("db.own", ROWS.schema).append(ROWS)
    assert strict.load_table("db.own").scan().to_arrow().num_rows == 2
    allowed = catalog_in(tmp_path / "lake", **{"io.location-policy": "strict", "io.allowed-locations": str(away)})
    assert allowed.load_table("db.t").scan().to_arrow().num_rows == 2


@pytest.mark.parametrize("place", ["manifest-list", "statistics", "data file"])
def test_a_table_whose_metadata_names_a_host_makes_no_request(tmp_path: Path, no_requests: list[Any], place: str) -> None:
    lake = catalog_in(tmp_path / "lake")
    table = lake.create_table("db.t", ROWS.schema)
    table.append(ROWS)
    file = str(next(iter(table.scan().plan_files())).file.file_path)
    url = "http://169.254.169.254/latest"

    def change(document: dict[str, Any]) -> None:
        if place == "manifest-list":
            document["snapshots"][0]["manifest-list"] = url
        if place == "statistics":
            snapshot = document["snapshots"][0]["snapshot-id"]
            document["partition-statistics"] = [{"snapshot-id": snapshot, "statistics-path": url, "file-size-in-bytes": 4}]

    hostile = lake.register_table(
        "db.hostile", forged(table, tmp_path / "lake" / "x", change, {file: url} if place == "data file" else None)
    )
    if place != "statistics":
        with pytest.raises(LocationNotAllowedError, match=r"169\.254"):
            hostile.scan().to_arrow()
    lake.purge_table("db.hostile")
    assert no_requests == []


ACCOUNT = {
    "adls.account-name": "mine",
    "adls.account-key": "key-of-mine",
    "adls.sas-token": "sas-of-mine",
    "adls.connection-string": "AccountName=mine;AccountKey=key-of-mine",
    "adls.client-secret": "of-the-principal",
}


def options_for(requests: list[tuple[str, dict[str, Any]]], properties: dict[str, str], location: str) -> dict[str, Any]:
    object_store_file_io._connect.cache_clear()
    with pytest.raises(IcefloeError):
        load_file_io(properties).read(location)
    return requests[-1][1]


def test_keys_of_one_storage_account_are_not_sent_to_another(no_requests: list[Any]) -> None:
    own_account = options_for(no_requests, ACCOUNT, "abfss://c@MINE.dfs.core.windows.net/x")
    assert (own_account["account_key"], own_account["sas_token"]) == ("key-of-mine", "sas-of-mine")
    assert options_for(no_requests, ACCOUNT, "abfs://c/x")["account_key"] == "key-of-mine"
    for other in ("abfss://c@theirs.dfs.core.windows.net/x", "wasbs://c@theirs.blob.core.windows.net/x"):
        other_account = options_for(no_requests, ACCOUNT, other)
        assert other_account["account_name"] == "theirs"
        assert other_account["account_host"] == "theirs.blob.core.windows.net"
        assert "of-mine" not in json.dumps(other_account)


def test_the_account_of_a_key_is_that_of_the_connection_string_or_the_warehouse(no_requests: list[Any]) -> None:
    other = "abfss://c@theirs.dfs.core.windows.net/x"
    named = {"adls.connection-string": "DefaultEndpointsProtocol=https;AccountName=Mine;AccountKey=key-of-mine"}
    for properties in (named, {"adls.sas-token": "sas-of-mine", "warehouse": "abfss://w@mine.dfs.core.windows.net/lake"}):
        assert "of-mine" not in json.dumps(options_for(no_requests, properties, other))
        assert "of-mine" in json.dumps(options_for(no_requests, properties, "abfss://c@mine.dfs.core.windows.net/x"))


def test_the_same_holds_for_deletions_in_one_request(no_requests: list[Any]) -> None:
    theirs, mine = "abfss://c@theirs.dfs.core.windows.net/x", "abfss://c@mine.dfs.core.windows.net/y"
    assert delete_files(load_file_io(ACCOUNT), [theirs, mine]) == []
    requests = {paths[0]: options for options in (o for name, o in no_requests if name == "rm") for paths in [options["paths"]]}
    # The library reads names without the host; the account is among its options.
    assert "of-mine" not in json.dumps(requests["abfs://c/x"])
    assert "of-mine" in json.dumps(requests["abfs://c/y"])


def test_keys_of_s3_and_of_google_go_to_the_configured_endpoint_alone(no_requests: list[Any]) -> None:
    properties = {
        "s3.endpoint": "https://s3.mine",
        "s3.secret-access-key": "secret",
        "gcs.oauth2.token": "of-google",
        "gcs.service.host": "https://gcs.mine",
    }
    assert options_for(no_requests, properties, "s3://any.bucket/x")["endpoint_url"] == "https://s3.mine"
    assert options_for(no_requests, properties, "gs://any-bucket/x")["endpoint_url"] == "https://gcs.mine"
    assert "of-google" not in json.dumps(options_for(no_requests, properties, "s3://bucket/x"))


def test_hosts_that_the_configuration_names_are_known(no_requests: list[Any]) -> None:
    for properties, base in (
        ({"hdfs.host": "nn"}, None),
        ({"warehouse": "hdfs://NN:8020/lake"}, None),
        ({"io.allowed-locations": "hdfs://nn/x"}, None),
        ({}, "hdfs://nn:8020/db/t/metadata/x.json"),
    ):
        io = load_file_io(properties, base, is_trusted=True)
        with pytest.raises(IcefloeError, match="no request in this test"):
            io.read("hdfs://nn:8020/x")
        with pytest.raises(IcefloeError, match="no request in this test"):
            io.read("hdfs:///x")
