"""Tables through the REST server, beside what the compatibility kit of Java tests (`make test-rck`)."""

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.server.conftest import SCHEMA, Served, serve

from icefloe.catalog import load_catalog
from icefloe.server import credential_vending as storage_access
from icefloe.server import table_operations
from icefloe.server.request import Call, page_of
from icefloe.server.rest_operations import OPERATIONS

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "day": pa.array([1, 1, 2], pa.int32()), "name": ["a", "b", None]})


def required(rows: pa.Table) -> pa.Table:
    return rows.cast(pa.schema([pa.field("id", pa.int64(), nullable=False), *list(rows.schema)[1:]]))


def append(served: Served, name: str = "db.t") -> None:
    served.catalog.load_table(name).append(required(ROWS))


def test_the_configuration_lists_every_operation_but_those_of_configuration_and_tokens(served: Served) -> None:
    config = served.ask("GET", "/config?warehouse=lake")
    assert len(OPERATIONS) == 35
    assert config["idempotency-key-lifetime"] == "PT30M"
    assert len(config["endpoints"]) == 33
    assert "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}" in config["endpoints"]


def test_an_unknown_warehouse_is_no_catalog(served: Served) -> None:
    assert served.ask("GET", "/config?warehouse=other", expect=404)["error"]["type"] == "NoSuchWarehouseException"
    assert served.ask("GET", f"/config?warehouse={served.warehouse}")["defaults"] == {}


def test_a_created_table_is_one_of_the_catalog(served: Served) -> None:
    answer = served.create(
        properties={"owner": "me"}, **{"partition-spec": {"fields": [{"source-id": 2, "transform": "identity", "name": "day"}]}}
    )
    table = served.catalog.load_table("db.t")
    assert answer["metadata-location"] == table.metadata_location
    assert answer["metadata"]["table-uuid"] == str(table.metadata.table_uuid)
    assert table.properties["owner"] == "me"
    assert [field.name for field in table.spec().fields] == ["day"]


def test_a_staged_table_is_created_by_its_commit(served: Served) -> None:
    staged = served.create(**{"stage-create": True})
    assert "metadata-location" not in staged
    assert not served.catalog.table_exists("db.t")
    updates = [
        {"action": "assign-uuid", "uuid": staged["metadata"]["table-uuid"]},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "add-schema", "schema": staged["metadata"]["schemas"][0]},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"fields": [{"source-id": 2, "field-id": 1000, "transform": "identity", "name": "day"}]}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": staged["metadata"]["location"]},
        {"action": "set-properties", "updates": {"owner": "me"}},
    ]
    body = {"requirements": [{"type": "assert-create"}], "updates": updates}
    committed = served.ask("POST", "/namespaces/db/tables/t", body)
    table = served.catalog.load_table("db.t")
    assert committed["metadata"]["table-uuid"] == staged["metadata"]["table-uuid"] == str(table.metadata.table_uuid)
    assert [field.name for field in table.spec().fields] == ["day"]
    table.append(required(ROWS))
    again = served.ask("POST", "/namespaces/db/tables/t", body, expect=409)
    assert again["error"]["type"] == "CommitFailedException"


def test_a_requirement_that_is_not_met_changes_nothing(served: Served) -> None:
    served.create()
    location = served.catalog.load_table("db.t").metadata_location
    body = {
        "requirements": [{"type": "assert-current-schema-id", "current-schema-id": 7}],
        "updates": [{"action": "set-properties", "updates": {"a": "b"}}],
    }
    error = served.ask("POST", "/namespaces/db/tables/t", body, expect=409)["error"]
    assert error["type"] == "CommitFailedException"
    assert "current schema changed: expected id 7 != 0" in error["message"]
    assert served.catalog.load_table("db.t").metadata_location == location


@pytest.mark.parametrize("part", [{"requirements": [{"type": "assert-moon"}]}, {"updates": [{"action": "fly"}]}])
def test_unknown_updates_and_requirements_are_bad_requests(served: Served, part: dict[str, object]) -> None:
    served.create()
    assert served.ask("POST", "/namespaces/db/tables/t", {"requirements": [], "updates": [], **part}, expect=400)


def test_a_transaction_changes_all_tables_or_none(served: Served) -> None:
    served.create("a")
    served.create("b")

    def change(table: str, schema_id: int) -> dict[str, object]:
        return {
            "identifier": {"namespace": ["db"], "name": table},
            "requirements": [{"type": "assert-current-schema-id", "current-schema-id": schema_id}],
            "updates": [{"action": "set-properties", "updates": {"batch": "1"}}],
        }

    served.ask("POST", "/transactions/commit", {"table-changes": [change("a", 0), change("b", 7)]}, expect=409)
    assert "batch" not in served.catalog.load_table("db.a").properties
    served.ask("POST", "/transactions/commit", {"table-changes": [change("a", 0), change("b", 0)]}, expect=204)
    assert [served.catalog.load_table(f"db.{name}").properties["batch"] for name in "ab"] == ["1", "1"]
    served.ask("POST", "/transactions/commit", {"table-changes": [change("a", 0), change("a", 0)]}, expect=400)


def test_a_table_that_the_client_has_is_not_sent_again(served: Served) -> None:
    created = served.client.post("/v1/namespaces", json={"namespace": ["db"]})
    created = served.client.post("/v1/namespaces/db/tables", json={"name": "t", "schema": SCHEMA})
    loaded = served.client.get("/v1/namespaces/db/tables/t")
    tag = loaded.headers["ETag"]
    assert created.headers["ETag"] == tag
    assert loaded.json() == created.json()
    again = served.client.get("/v1/namespaces/db/tables/t", headers={"If-None-Match": tag})
    assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", tag)
    append(served)
    changed = served.client.get("/v1/namespaces/db/tables/t", headers={"If-None-Match": tag})
    assert changed.status_code == 200
    assert changed.headers["ETag"] != tag


@pytest.mark.parametrize("wanted", ["", "vended-credentials", "vended-credentials,remote-signing"])
def test_every_response_with_a_table_has_the_settings_of_the_store(warehouse: Path, monkeypatch: pytest.MonkeyPatch, wanted: str) -> None:
    monkeypatch.setattr(storage_access, "_is_s3", lambda _: True)
    store = {"s3.endpoint": "http://minio:9000", "s3.region": "eu"}
    with load_catalog("lake", warehouse=str(warehouse), **store) as catalog:
        served = Served(catalog, serve(catalog), warehouse)
        expected = {**store, "client.region": "eu", "s3.path-style-access": "true"}
        assert served.create()["config"] == expected
        for query in ("", "", "?snapshots=refs", "?snapshots=refs"):
            loaded = served.ask("GET", f"/namespaces/db/tables/t{query}", X_Iceberg_Access_Delegation=wanted)
            assert loaded["config"] == expected, query
        assert served.create("staged", **{"stage-create": True})["config"] == expected
        served.ask("DELETE", "/namespaces/db/tables/t", expect=204)
        body = {"name": "t", "metadata-location": loaded["metadata-location"]}
        assert served.ask("POST", "/namespaces/db/register", body)["config"] == expected


def test_only_snapshots_with_names_are_sent_where_the_client_requests_them(served: Served) -> None:
    served.create()
    append(served)
    append(served)
    every = served.client.get("/v1/namespaces/db/tables/t?snapshots=all")
    named = served.client.get("/v1/namespaces/db/tables/t?snapshots=refs")
    assert len(every.json()["metadata"]["snapshots"]) == 2
    assert [one["snapshot-id"] for one in named.json()["metadata"]["snapshots"]] == [named.json()["metadata"]["current-snapshot-id"]]
    assert every.headers["ETag"] != named.headers["ETag"]
    served.ask("GET", "/namespaces/db/tables/t?snapshots=some", expect=400)


def test_a_snapshot_of_an_older_version_of_the_table_is_a_conflict(served: Served) -> None:
    served.create()
    append(served)
    snapshot = served.ask("GET", "/namespaces/db/tables/t")["metadata"]["snapshots"][0]
    stale = {**snapshot, "snapshot-id": 99, "parent-snapshot-id": snapshot["snapshot-id"]}
    error = served.ask(
        "POST", "/namespaces/db/tables/t", {"requirements": [], "updates": [{"action": "add-snapshot", "snapshot": stale}]}, expect=409
    )
    assert error["error"]["type"] == "CommitFailedException"


def test_a_commit_whose_metadata_file_later_commits_delete_is_a_success(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    served.create(properties={"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"})
    commit = table_operations.commit_requested

    def committed(*arguments: Any) -> Any:
        loaded = commit(*arguments)
        for number in range(3):
            with served.catalog.load_table("db.t").transaction() as later:
                later.set_properties({"later": str(number)})
        assert not Path(loaded[0].location).exists()
        return loaded

    monkeypatch.setattr(table_operations, "commit_requested", committed)
    update = {"action": "set-properties", "updates": {"mine": "1"}}
    answer = served.ask("POST", "/namespaces/db/tables/t", {"requirements": [], "updates": [update]})
    assert answer["metadata"]["properties"]["mine"] == "1"


def test_an_unregistered_table_keeps_its_files_and_can_be_registered(served: Served) -> None:
    served.create()
    append(served)
    answer = served.ask("POST", "/namespaces/db/tables/t/unregister")
    assert Path(answer["metadata-location"]).exists()
    assert answer["metadata"]["snapshots"]
    served.ask("GET", "/namespaces/db/tables/t", expect=404)
    body = {"name": "again", "metadata-location": answer["metadata-location"]}
    served.ask("POST", "/namespaces/db/register", body)
    assert served.catalog.load_table("db.again").scan().to_arrow().num_rows == 3
    assert served.ask("POST", "/namespaces/db/register", body, expect=409)["error"]["type"] == "AlreadyExistsException"
    served.ask("POST", "/namespaces/db/register", {**body, "overwrite": True})


def test_a_purge_deletes_files_and_a_drop_does_not(served: Served) -> None:
    served.create("kept")
    served.create("gone")
    for name in ("kept", "gone"):
        append(served, f"db.{name}")
    served.ask("DELETE", "/namespaces/db/tables/kept", expect=204)
    served.ask("DELETE", "/namespaces/db/tables/gone?purgeRequested=true", expect=204)
    assert list((served.warehouse / "db" / "kept").rglob("*.parquet"))
    assert not list((served.warehouse / "db" / "gone").rglob("*.parquet"))
    served.ask("DELETE", "/namespaces/db/tables/kept", expect=404)


def test_a_table_without_its_metadata_file_is_not_found_and_can_be_dropped(served: Served) -> None:
    served.create()
    shutil.rmtree(served.warehouse / "db" / "t")
    assert served.ask("GET", "/namespaces/db/tables/t", expect=404)["error"]["type"] == "NotFoundException"
    served.ask("DELETE", "/namespaces/db/tables/t?purgeRequested=true", expect=204)


def test_pages_are_complete_while_names_are_created_and_dropped(served: Served) -> None:
    for number in range(5):
        served.create(f"t{number}")
    first = served.ask("GET", "/namespaces/db/tables?pageSize=2")
    assert [one["name"] for one in first["identifiers"]] == ["t0", "t1"]
    served.ask("DELETE", "/namespaces/db/tables/t0", expect=204)
    second = served.client.get("/v1/namespaces/db/tables", params={"pageSize": 2, "pageToken": first["next-page-token"]}).json()
    third = served.client.get("/v1/namespaces/db/tables", params={"pageSize": 2, "pageToken": second["next-page-token"]}).json()
    assert [one["name"] for page in (second, third) for one in page["identifiers"]] == ["t2", "t3", "t4"]
    assert third["next-page-token"] is None
    served.ask("GET", "/namespaces/db/tables?pageSize=0", expect=400)


@pytest.mark.parametrize("query", [{"pageSize": "999999999"}, {"pageToken": ""}, {"pageSize": "10000"}])
def test_a_page_has_ten_thousand_names_at_most(query: dict[str, str]) -> None:
    names = [("db", f"t{number:05}") for number in range(10_001)]
    first = page_of(names, Call(query=query))
    assert (len(first.items), first.next_token) == (10_000, "db\x1ft09999")
    assert first.next_token is not None
    last = page_of(names, Call(query={**query, "pageToken": first.next_token}))
    assert (last.items, last.next_token) == ([("db", "t10000")], None)


def test_nested_namespaces_have_tables_of_their_own(served: Served) -> None:
    served.ask("POST", "/namespaces", {"namespace": ["a"], "properties": {"owner": "me"}})
    served.create(namespace="a\x1fb")
    assert served.ask("GET", "/namespaces?parent=a")["namespaces"] == [["a", "b"]]
    assert served.ask("GET", "/namespaces")["namespaces"] == [["a"]]
    assert served.ask("GET", "/namespaces/a%1Fb/tables")["identifiers"] == [{"namespace": ["a", "b"], "name": "t"}]
    assert served.ask("GET", "/namespaces/a%1Fb/tables/t")["metadata"]["location"] == f"{served.warehouse}/a/b/t"
    assert served.ask("DELETE", "/namespaces/a", expect=409)["error"]["type"] == "NamespaceNotEmptyException"


def test_a_property_is_not_both_set_and_removed(served: Served) -> None:
    served.ask("POST", "/namespaces", {"namespace": ["a"], "properties": {"x": "1"}})
    served.ask("POST", "/namespaces/a/properties", {"removals": ["x"], "updates": {"x": "2"}}, expect=422)
    answer = served.ask("POST", "/namespaces/a/properties", {"removals": ["x", "y"], "updates": {"z": "2"}})
    assert (answer["removed"], answer["missing"], answer["updated"]) == (["x"], ["y"], ["z"])


def test_there_are_no_functions(served: Served) -> None:
    served.ask("POST", "/namespaces", {"namespace": ["a"]})
    assert served.ask("GET", "/namespaces/a/functions")["identifiers"] == []
    assert served.ask("GET", "/namespaces/a/functions/f", expect=404)["error"]["type"] == "NoSuchFunctionException"
    served.ask("GET", "/namespaces/b/functions", expect=404)


def test_a_commit_through_the_server_and_a_direct_one_see_each_other(served: Served) -> None:
    served.create()
    direct = served.catalog.load_table("db.t")
    body = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"by": "server"}}]}
    served.ask("POST", "/namespaces/db/tables/t", body)
    direct.append(required(ROWS))
    assert direct.properties["by"] == "server"
    assert served.ask("GET", "/namespaces/db/tables/t")["metadata"]["snapshots"]
