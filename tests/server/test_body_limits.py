"""Requests that define much at once: refused by the name of the limit, after the user's rights were checked and before the catalog is read."""

from pathlib import Path
from typing import Any

import pytest
from tests.server.conftest import SCHEMA, Served, serve
from tests.server.test_access_control import TOKENS, USERS

from icefloe.catalog import load_catalog
from icefloe.server.server_settings import ServerLimits


def spec(number: int, fields: int = 1) -> dict[str, Any]:
    named = [
        {"source-id": 2, "field-id": 1000 + number * 50 + at, "name": f"f{number}_{at}", "transform": f"bucket[{at + 1}]"}
        for at in range(fields)
    ]
    return {"action": "add-spec", "spec": {"spec-id": number, "fields": named}}


def add_schema(fields: int) -> dict[str, Any]:
    added = [{"id": 4 + at, "name": f"c{at}", "required": False, "type": "int"} for at in range(fields)]
    return {"action": "add-schema", "schema": {**SCHEMA, "fields": [*SCHEMA["fields"], *added]}}


def nested(depth: int) -> dict[str, Any]:
    kind: Any = "long"
    for at in range(depth):
        kind = {"type": "list", "element-id": 2 + at, "element": kind, "element-required": False}
    return {"type": "struct", "fields": [{"id": 1, "name": "a", "required": False, "type": kind}]}


SET_ONE = [{"action": "set-properties", "updates": {"a": "b"}}]
NO_REF = {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None}
STATISTICS = {"snapshot-id": 1, "statistics-path": "x", "file-size-in-bytes": 1, "file-footer-size-in-bytes": 1}
BLOB = {"type": "x", "snapshot-id": 1, "sequence-number": 1, "fields": [1]}
FEW = ServerLimits(
    tables=3,
    commit_items=10,
    definitions=3,
    columns=20,
    layout_fields=4,
    statistics=4,
    properties=12,
    representations=2,
    requests_per_second=0,
)
VIEW = {"version-id": 1, "timestamp-ms": 1, "schema-id": 0, "summary": {}, "default-namespace": ["db"]}


def dialects(count: int) -> dict[str, Any]:
    return {**VIEW, "representations": [{"type": "sql", "sql": "SELECT 1", "dialect": f"d{at}"} for at in range(count)]}


COMMIT, CREATE, VIEWS = "/namespaces/db/tables/t", "/namespaces/db/tables", "/namespaces/db/views"
AMOUNTS: list[tuple[str, str, Any]] = [
    ("commit_items", COMMIT, {"requirements": [], "updates": SET_ONE * 11}),
    ("commit_items", COMMIT, {"requirements": [NO_REF] * 10, "updates": SET_ONE}),
    ("definitions", COMMIT, {"requirements": [], "updates": [spec(number) for number in range(1, 5)]}),
    ("definitions", COMMIT, {"requirements": [], "updates": [add_schema(0), add_schema(1), spec(1), spec(2)]}),
    ("columns", COMMIT, {"requirements": [], "updates": [add_schema(9), add_schema(9)]}),
    ("layout_fields", COMMIT, {"requirements": [], "updates": [spec(1, fields=5)]}),
    (
        "statistics",
        COMMIT,
        {"requirements": [], "updates": [{"action": "set-statistics", "statistics": {**STATISTICS, "blob-metadata": [BLOB] * 4}}]},
    ),
    (
        "statistics",
        COMMIT,
        {"requirements": [], "updates": [{"action": "set-partition-statistics", "partition-statistics": STATISTICS}] * 5},
    ),
    ("properties", COMMIT, {"requirements": [], "updates": [{"action": "set-properties", "updates": dict.fromkeys("abcdefg", "v")}] * 2}),
    ("properties", COMMIT, {"requirements": [], "updates": [{"action": "remove-properties", "removals": list("abcdefghijklm")}]}),
    ("columns", CREATE, {"name": "u", "schema": nested(21)}),
    ("columns", CREATE, {"name": "u", "schema": add_schema(18)["schema"]}),
    ("layout_fields", CREATE, {"name": "u", "schema": SCHEMA, "partition-spec": spec(0, fields=5)["spec"]}),
    ("layout_fields", CREATE, {"name": "u", "schema": SCHEMA, "write-order": {"fields": [{"source-id": 2}] * 5}}),
    ("properties", CREATE, {"name": "u", "schema": SCHEMA, "properties": dict.fromkeys("abcdefghijklm", "v")}),
    ("properties", "/namespaces/db/properties", {"removals": list("abcdefg"), "updates": dict.fromkeys("hijklm", "v")}),
    ("properties", "/namespaces", {"namespace": ["other"], "properties": dict.fromkeys("abcdefghijklm", "v")}),
    ("representations", VIEWS, {"name": "v", "schema": SCHEMA, "properties": {}, "view-version": dialects(3)}),
    (
        "tables",
        "/transactions/commit",
        {"table-changes": [{"identifier": {"namespace": ["db"], "name": f"t{at}"}, "requirements": [], "updates": []} for at in range(4)]},
    ),
    (
        "definitions",
        "/transactions/commit",
        {
            "table-changes": [
                {"identifier": {"namespace": ["db"], "name": name}, "requirements": [], "updates": [spec(1), spec(2)]} for name in "tu"
            ]
        },
    ),
]


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Served:
    warehouse = tmp_path_factory.mktemp("few")
    catalog = load_catalog("lake", warehouse=str(warehouse))
    served = Served(catalog, serve(catalog, limits=FEW), warehouse)
    served.create()
    return served


@pytest.mark.parametrize(("limit", "path", "body"), AMOUNTS)
def test_a_request_that_defines_more_than_a_limit_is_refused_by_the_name_of_the_limit(
    few: Served, limit: str, path: str, body: Any
) -> None:
    before = few.catalog.load_table("db.t").metadata_location
    error = few.ask("POST", path, body, expect=413)["error"]
    assert f"the server's limit {limit} is {getattr(FEW, limit)}" in error["message"]
    assert few.catalog.load_table("db.t").metadata_location == before
    assert few.catalog.list_tables("db") == [("db", "t")]


def test_a_request_within_the_limits_is_carried_out(few: Served) -> None:
    few.ask("POST", COMMIT, {"requirements": [NO_REF] * 7, "updates": [spec(1, fields=4), spec(2), *SET_ONE]})
    assert len(few.catalog.load_table("db.t").metadata.partition_specs) == 3


def test_what_a_user_without_rights_sends_is_not_counted(warehouse: Path) -> None:
    catalog = load_catalog("lake", warehouse=str(warehouse))
    served = Served(catalog, serve(catalog, USERS, limits=FEW), warehouse)
    for _, path, body in AMOUNTS:
        served.ask("POST", path, body, token=TOKENS["reader"], expect=403)


@pytest.mark.parametrize("depth", [200, 20_000])
def test_a_schema_that_is_deeper_than_the_stack_is_a_bad_request(served: Served, depth: int) -> None:
    served.create()
    opened = '{"type":"list","element-required":false,"element-id":2,"element":' * depth
    schema = f'{{"type":"struct","fields":[{{"id":1,"name":"a","required":false,"type":{opened}"long"{"}" * depth}}}]}}'
    for path, body in (
        (CREATE, f'{{"name":"u","schema":{schema}}}'),
        (COMMIT, f'{{"requirements":[],"updates":[{{"action":"add-schema","schema":{schema}}}]}}'),
    ):
        response = served.client.post(f"/v1{path}", content=body, headers={"content-type": "application/json"})
        assert response.status_code in (400, 413), response.text
        assert "deep" in response.text or "nest" in response.text.lower() or "recursion" in response.text, response.text
