"""Commits to a REST catalog whose server fails: each ends once, whatever reply is lost."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.combinations import combinations
from tests.stores.rest.own_server import own_server
from tests.stores.rest.rest_double import Answer, OneTable, RestDouble, problem

from icefloe.catalog.rest_catalog import RestCatalog
from icefloe.errors import (
    CommitConflictError,
    CommitUnknownError,
    InvalidInputError,
    NoSuchTableError,
    StoragePermissionError,
    StorageUnavailableError,
    TableAlreadyExistsError,
)
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import LongType, NestedField
from icefloe.stores.rest.http_client import HttpClient
from icefloe.stores.rest.http_reply import Reply
from icefloe.table.table import Table

QUICK = {
    "commit.retry.min-wait-ms": "1",
    "commit.retry.max-wait-ms": "5",
    "commit.retry.num-retries": "5",
    "commit.status-check.min-wait-ms": "1",
    "commit.status-check.max-wait-ms": "5",
    "commit.status-check.num-retries": "3",
}
ROWS = pa.table({"n": [1]})
# The first two come with the status of a success, from something between this process and the server.
LOST = [
    Answer(200, b"<html>"),
    Answer(200, {"metadata-location": "x"}),
    Answer(hangs_up=True),
    *(problem(status, "X") for status in (500, 502, 504, 503)),
    Answer(500, b"<html>"),
]


@pytest.fixture
def table(server: RestDouble, stored: OneTable) -> Table:
    table = RestCatalog("r", uri=server.uri).load_table("db.t")
    with table.transaction() as transaction:
        transaction.set_properties(QUICK)
    stored.commits = 0
    return table


def files(table: Table) -> set[str]:
    return {path.name for path in Path(table.location()).rglob("*") if path.is_file()}


@pytest.mark.parametrize("lost", LOST, ids=lambda answer: f"{answer.status}{answer.hangs_up}")
def test_a_commit_whose_reply_is_lost_is_found_in_the_table(table: Table, stored: OneTable, lost: Answer) -> None:
    stored.answers = [lost]
    table.append(ROWS)
    assert (stored.commits, table.scan().to_arrow().num_rows) == (1, 1)


@pytest.mark.parametrize("lost", LOST, ids=lambda answer: f"{answer.status}{answer.hangs_up}")
def test_a_commit_that_did_not_arrive_is_sent_again(table: Table, stored: OneTable, lost: Answer) -> None:
    stored.before = [lost, lost]
    table.append(ROWS)
    assert (stored.commits, table.scan().to_arrow().num_rows) == (1, 1)


def test_a_change_of_properties_whose_reply_is_lost_is_found_by_its_effect(table: Table, stored: OneTable) -> None:
    stored.answers = [problem(500, "X")]
    with table.transaction() as transaction:
        transaction.set_properties({"a": "1"})
    assert (stored.commits, table.properties["a"]) == (1, "1")


def test_a_new_column_whose_reply_is_lost_is_added_once(table: Table, stored: OneTable) -> None:
    stored.answers = [Answer(hangs_up=True)]
    with table.update_schema() as update:
        update.add_column("x", LongType())
    assert (stored.commits, table.schema().names) == (1, ["n", "x"])


def test_a_commit_that_stays_unknown_deletes_nothing(table: Table, stored: OneTable) -> None:
    stored.before = [problem(500, "X")] * 50
    with pytest.raises(CommitUnknownError, match="snapshot"):
        table.append(ROWS)
    assert any(name.endswith(".parquet") for name in files(table))
    assert any(name.startswith("snap-") for name in files(table))


def test_a_conflict_is_retried_on_the_newer_table(server: RestDouble, table: Table, stored: OneTable) -> None:
    other = RestCatalog("r", uri=server.uri).load_table("db.t")
    other.append(ROWS)
    table.append(ROWS)
    assert table.scan().to_arrow().num_rows == 2
    stored.before = [problem(409, "CommitFailedException")] * 50
    with pytest.raises(CommitConflictError):
        table.append(ROWS)
    assert len([name for name in files(table) if name.endswith(".parquet")]) == 2, "the file of the lost append was deleted"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (problem(400, "BadRequestException", "unknown update"), InvalidInputError),
        (problem(403, "ForbiddenException"), StoragePermissionError),
        (problem(401, "NotAuthorizedException"), StoragePermissionError),
        (problem(429, "SlowDown"), StorageUnavailableError),
    ],
)
def test_a_refused_commit_raises_its_error_and_leaves_no_file(
    table: Table, stored: OneTable, answer: Answer, error: type[Exception]
) -> None:
    before = files(table)
    stored.before = [answer] * 20
    with pytest.raises(error):
        table.append(ROWS)
    assert (files(table), stored.commits) == (before, 0)


def test_a_table_that_was_dropped_meanwhile_is_no_such_table(table: Table, stored: OneTable) -> None:
    stored.metadata = None
    stored.before = [problem(404, "NoSuchTableException")]
    with pytest.raises(NoSuchTableError, match="dropped"):
        table.append(ROWS)


def test_the_key_of_a_commit_stays_when_it_is_sent_again(server: RestDouble, stored: OneTable) -> None:
    server.on("GET", "/v1/config", Answer(200, {"defaults": {}, "overrides": {}, "idempotency-key-lifetime": "PT30M"}))
    table = RestCatalog("r", uri=server.uri).load_table("db.t")
    stored.before = [problem(504, "X"), Answer(hangs_up=True)]
    table.append(ROWS)
    keys = [request.headers["idempotency-key"] for request in server.of("POST", stored.path)]
    assert (len(keys), len(set(keys)), stored.commits) == (3, 1, 1)


@pytest.fixture
def with_keys(server: RestDouble) -> None:
    """A server that takes idempotency keys, and drops them: it carries a request out as often as it comes."""
    server.on("GET", "/v1/config", Answer(200, {"defaults": {}, "overrides": {}, "idempotency-key-lifetime": "PT30M"}))


@pytest.mark.usefixtures("with_keys")
@pytest.mark.parametrize(
    ("lost", "repeated"),
    combinations(
        [Answer(hangs_up=True), problem(502, "X"), problem(500, "CommitStateUnknownException"), problem(504, "X")],
        [None, problem(401, "X"), problem(404, "NoSuchNamespaceException"), problem(429, "X"), problem(400, "X")],
    ),
)
def test_a_new_table_whose_reply_is_lost_is_found_although_the_repeat_fails(
    server: RestDouble, stored: OneTable, lost: Answer, repeated: Answer | None
) -> None:
    stored.staged(server)
    stored.answers = [lost] if repeated is None else [lost, repeated]
    with RestCatalog("r", uri=server.uri).create_table_transaction("db.t", ROWS.schema) as transaction:
        transaction.append(ROWS)
    assert len(server.of("POST", stored.path)) >= 2, "the client repeats a request that has a key"
    table = RestCatalog("r", uri=server.uri).load_table("db.t")
    assert (stored.commits, table.scan().to_arrow().num_rows) == (1, 1)


def created_meanwhile(server: RestDouble, stored: OneTable, *responses: Answer) -> None:
    """Commit a new table whose name another one takes before the commit.

    Args:
        server: The server.
        stored: The table.
        *responses: Responses to the first requests of the commit.
    """
    other = stored.metadata
    assert other is not None
    stored.staged(server)
    with RestCatalog("r", uri=server.uri).create_table_transaction("db.t", ROWS.schema) as transaction:
        transaction.append(ROWS)
        stored.metadata = replace(other, table_uuid="33333333-2222-3333-4444-555555555555")
        stored.before = list(responses)


@pytest.mark.usefixtures("with_keys")
def test_files_of_a_new_table_stay_if_another_one_has_its_name_after_a_lost_reply(
    server: RestDouble, stored: OneTable, tmp_path: Path
) -> None:
    with pytest.raises(CommitUnknownError, match="snapshot"):
        created_meanwhile(server, stored, problem(502, "X"))
    assert len(list(tmp_path.rglob("*.parquet"))) == 1


def test_files_of_a_new_table_are_deleted_if_the_name_is_taken_for_certain(server: RestDouble, stored: OneTable, tmp_path: Path) -> None:
    with pytest.raises(TableAlreadyExistsError):
        created_meanwhile(server, stored)
    assert not list(tmp_path.rglob("*.parquet"))


@pytest.mark.usefixtures("with_keys")
@pytest.mark.parametrize("lost", [Answer(hangs_up=True), problem(502, "X")])
def test_a_new_column_is_no_conflict_if_the_repeat_after_a_lost_reply_is_one(server: RestDouble, stored: OneTable, lost: Answer) -> None:
    table = RestCatalog("r", uri=server.uri).load_table("db.t")
    stored.answers = [lost]
    with table.update_schema() as update:
        update.add_column("x", LongType())
    assert len(server.of("POST", stored.path)) == 2
    assert (stored.commits, table.schema().names) == (1, ["n", "x"])


def test_requirements_and_updates_are_those_of_the_protocol(server: RestDouble, table: Table, stored: OneTable) -> None:
    table.append(ROWS)
    body = server.of("POST", stored.path)[-1].json
    assert body["identifier"] == {"namespace": ["db"], "name": "t"}
    assert [requirement["type"] for requirement in body["requirements"]] == ["assert-table-uuid", "assert-ref-snapshot-id"]
    assert [update["action"] for update in body["updates"]] == ["add-snapshot", "set-snapshot-ref"]


@pytest.mark.parametrize("lost", [{"content": b"<html>"}, {"content": b"{}"}, {"status": 502}], ids=["a page", "no view", "502"])
def test_a_change_of_a_view_whose_reply_is_lost_is_found_in_the_view(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: dict[str, Any]
) -> None:
    with own_server(tmp_path) as address, RestCatalog("own", uri=address) as catalog:
        catalog.create_namespace("db")
        view = catalog.create_view("db.v", "SELECT 1 AS a", Schema(NestedField(1, "a", LongType())))
        send, sent = HttpClient._send_once, []

        def answered(self: HttpClient, named: str, *arguments: Any) -> Reply:
            reply = send(self, named, *arguments)
            if named != "POST v1/namespaces/db/views/v":
                return reply
            sent.append(reply)
            return replace(reply, **lost) if len(sent) == 1 else reply

        monkeypatch.setattr(HttpClient, "_send_once", answered)
        view.update_properties().set("mine", "1").commit()
        assert view.properties["mine"] == "1"
        assert sent[0].is_success
        assert len(catalog.load_view("db.v").history()) == 1
