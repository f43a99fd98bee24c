"""Where the server gives the credentials, and nothing but these is used, a client may delete in the folder that the server names."""

import pickle
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.stores.rest.rest_double import Answer, OneTable, RestDouble
from tests.stores.rest.test_vended_credentials import ExpiringStore, access, store

from icefloe.catalog.rest_catalog import RestCatalog
from icefloe.errors import StoragePermissionError
from icefloe.stores.rest.rest_paths import Endpoint

__all__ = ["store"]  # a fixture

KEYS = {"s3.access-key-id": "vended", "s3.secret-access-key": "vended"}
OWN = {"s3.access-key-id": "own", "s3.secret-access-key": "own"}
FOLDER = "s3://lake/db/t"
LATER = datetime.now(UTC) + timedelta(days=30)


def given(config: dict[str, str], prefix: str = "s3://lake/") -> dict[str, Any]:
    return {"storage-credentials": [{"prefix": prefix, "config": config}]}


@pytest.fixture
def in_store(server: RestDouble, store: None, tmp_path: Path) -> OneTable:
    table = OneTable(server, str(tmp_path / "t"))
    table.at(FOLDER)
    server.on("GET", "/v1/namespaces", Answer(200, {"namespaces": [["db"]]}))
    ExpiringStore.valid_until.update(dict.fromkeys(("vended", "own", ""), float("inf")))
    return table


@pytest.mark.parametrize(
    ("result", "own", "may_delete"),
    [
        (given(KEYS), {}, True),
        (given(KEYS), OWN, True),
        (given(KEYS, "s3a://lake/db/t"), OWN, True),
        (given(KEYS, "S3"), OWN, True),
        ({"config": KEYS}, OWN, True),
        ({"config": {"s3.remote-signing-enabled": "true"}}, OWN, True),
        ({}, {}, False),
        ({}, OWN, False),
        (given({}), OWN, False),
        (given({}), {}, False),
        (given(KEYS, "s3://other/"), OWN, False),
        (given({"s3.region": "eu-west-1"}), OWN, False),
        (given({"s3.access-key-id": "vended"}), OWN, False),
        (given({**KEYS, "s3.secret-access-key": ""}), OWN, False),
        (given({"s3.anonymous": "true"}), {}, False),
        (given({"gcs.oauth2.token": "vended"}), OWN, False),
        (given(KEYS), {**OWN, "s3.session-token": "own"}, False),
        (given(KEYS), {"client.access-key-id": "own", "client.secret-access-key": "own"}, False),
    ],
)
def test_only_whole_credentials_of_the_server_make_a_folder_the_tables_own(
    server: RestDouble, in_store: OneTable, result: dict[str, Any], own: dict[str, str], may_delete: bool
) -> None:
    in_store.result = result
    assert access(server, **own).reserves(FOLDER) is may_delete


def test_credentials_for_all_tables_count_where_the_user_has_none(server: RestDouble, in_store: OneTable) -> None:
    server.on("GET", "/v1/config", Answer(200, {"defaults": KEYS, "overrides": {}}))
    assert access(server).reserves(FOLDER)
    assert not access(server, **OWN).reserves(FOLDER), "the user's own keys replace the server's defaults"


@pytest.mark.parametrize("spelling", [FOLDER, "s3a://lake/db/t", "S3://lake/db/t"])
def test_a_reserved_folder_is_never_reached_with_the_users_keys(server: RestDouble, in_store: OneTable, spelling: str) -> None:
    """A server may give no credentials for a part of the folder, or none any longer."""
    hole = {"prefix": "s3://lake/db/t/data/", "config": {"s3.region": "eu-west-1"}}
    in_store.result = {"storage-credentials": [*given(KEYS)["storage-credentials"], hole]}
    rights = access(server, **OWN)
    assert rights.settings_for(f"{spelling}/data/x").properties["s3.access-key-id"] == "own"
    assert rights.reserves(FOLDER)
    for copy in (rights, pickle.loads(pickle.dumps(rights)), rights.of_plan("p", rights._grant.credentials)):
        assert copy.settings_for(f"{spelling}/x").properties["s3.access-key-id"] == "vended"
        with pytest.raises(StoragePermissionError, match=r"gives no credentials for a file in a folder"):
            copy.settings_for(f"{spelling}/data/x")
    assert rights.settings_for("s3://lake/db/tables/x").properties["s3.access-key-id"] == "vended", "another folder with the same beginning"


def test_credentials_that_end_are_not_replaced_by_the_users(server: RestDouble, in_store: OneTable) -> None:
    server.on("GET", "/v1/config", Answer(200, {"defaults": {}, "overrides": {}, "endpoints": [str(one) for one in Endpoint]}))
    in_store.result = given({**KEYS, "s3.session-token-expires-at-ms": "1"})
    rights = access(server, **OWN)
    assert rights.reserves(FOLDER)
    server.on("GET", f"{OneTable.path}/credentials", Answer(200, {"storage-credentials": [{"prefix": "s3://lake/", "config": {"a": "b"}}]}))
    with pytest.raises(StoragePermissionError, match=r"gives no credentials for a file in a folder"):
        rights.settings_for(f"{FOLDER}/x")


@pytest.mark.parametrize("vended", [True, False])
def test_an_expiry_deletes_with_the_credentials_of_the_server_alone(server: RestDouble, in_store: OneTable, vended: bool) -> None:
    in_store.result = given(KEYS) if vended else {}
    catalog = RestCatalog("r", uri=server.uri, **OWN)
    table = catalog.load_table("db.t")
    table.append(pa.table({"n": [1]}))
    first = next(iter(table.scan().plan_files())).file.file_path
    table.overwrite(pa.table({"n": [2]}))
    report = catalog.load_table("db.t").expire_snapshots(LATER, retain_last=1)
    assert table.io.exists(first) is not vended
    assert (report.deleted_files > 0) is vended
    assert report.unproven == ("" if vended else FOLDER)
