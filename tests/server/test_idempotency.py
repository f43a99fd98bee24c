"""Requests that are sent again under their idempotency key."""

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.server.conftest import SCHEMA, Served
from tests.server.test_access_control import view_body

from icefloe.errors import StorageUnavailableError
from icefloe.server import idempotency_store, request_handler
from icefloe.server.error_response import RefusedRequest
from icefloe.server.idempotency_store import LOADED_AGAIN, MemoryIdempotencyStore, kept_answer
from icefloe.server.request import Answer
from icefloe.server.rest_operations import OPERATIONS, Role
from icefloe.server.served_catalog import ServedCatalog

KEY = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"
OTHER = "017f22e2-79b0-7cc3-98c4-dc0c0c073990"


def test_a_request_that_is_sent_again_gets_the_first_answer(served: Served) -> None:
    served.ask("POST", "/namespaces", {"namespace": ["db"]}, Idempotency_Key=KEY)
    served.ask("POST", "/namespaces", {"namespace": ["db"]}, Idempotency_Key=KEY)
    served.ask("POST", "/namespaces", {"namespace": ["db"]}, Idempotency_Key=KEY.upper())
    served.ask("POST", "/namespaces", {"namespace": ["db"]}, Idempotency_Key=OTHER, expect=409)
    served.ask("POST", "/namespaces", {"namespace": ["db"]}, expect=409)


def test_a_commit_whose_reply_was_lost_is_not_made_twice(served: Served) -> None:
    served.create()
    body = {
        "requirements": [{"type": "assert-current-schema-id", "current-schema-id": 0}],
        "updates": [
            {"action": "add-schema", "schema": {**SCHEMA, "fields": SCHEMA["fields"][:2]}},
            {"action": "set-current-schema", "schema-id": -1},
        ],
    }
    first = served.ask("POST", "/namespaces/db/tables/t", body, Idempotency_Key=KEY)
    location = served.catalog.load_table("db.t").metadata_location
    assert served.ask("POST", "/namespaces/db/tables/t", body, Idempotency_Key=KEY) == first
    assert served.catalog.load_table("db.t").metadata_location == location
    served.ask("POST", "/namespaces/db/tables/t", body, Idempotency_Key=OTHER, expect=409)


def test_a_long_answer_is_loaded_again_for_a_retry(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idempotency_store, "MOST_BYTES", 10)
    body = {"name": "t", "schema": SCHEMA}
    served.ask("POST", "/namespaces", {"namespace": ["db"]})
    first = served.ask("POST", "/namespaces/db/tables", body, Idempotency_Key=KEY)
    assert served.ask("POST", "/namespaces/db/tables", body, Idempotency_Key=KEY) == first


def test_the_answer_of_a_view_is_kept_as_bytes_and_a_long_one_is_loaded_again(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Answer | None] = []

    def recorded(answer: Answer, *, may_be_loaded: bool) -> Answer | None:
        kept.append(kept_answer(answer, may_be_loaded=may_be_loaded))
        return kept[-1]

    monkeypatch.setattr(idempotency_store, "kept_answer", recorded)
    served.ask("POST", "/namespaces", {"namespace": ["db"]})
    served.ask("POST", "/namespaces/db/views", view_body("v"))
    for key, length in ((KEY, 10), (OTHER, 2 * idempotency_store.MOST_BYTES)):
        body = {"updates": [{"action": "set-properties", "updates": {"comment": "c" * length}}]}
        first = served.ask("POST", "/namespaces/db/views/v", body, Idempotency_Key=key)
        assert served.ask("POST", "/namespaces/db/views/v", body, Idempotency_Key=key) == first
    short, long = kept
    assert short is not None
    assert (short.content, json.loads(bytes(short.body or b""))["metadata"]["properties"]) == (None, {"comment": "c" * 10})
    assert long is LOADED_AGAIN


def test_an_error_of_what_is_loaded_for_a_retry_shows_no_more_than_that_of_a_first_try(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency_store, "MOST_BYTES", 10)
    body = {"name": "t", "schema": SCHEMA}
    served.ask("POST", "/namespaces", {"namespace": ["db"]})
    served.ask("POST", "/namespaces/db/tables", body, Idempotency_Key=KEY)

    def fail(*_: Any) -> None:
        raise RuntimeError("the secret of the server")

    monkeypatch.setattr(served.catalog.store, "load", fail)
    assert "secret" not in str(served.ask("POST", "/namespaces/db/tables", body, Idempotency_Key=KEY, expect=500))
    seen: list[object] = []
    monkeypatch.setattr(request_handler, "message_of", lambda error, *_: seen.append(error) or "cleaned")
    monkeypatch.setattr(served.catalog.store, "load", failing)
    assert served.ask("POST", "/namespaces/db/tables", body, Idempotency_Key=KEY, expect=503)["error"]["message"] == "cleaned"
    assert len(seen) == 1


def test_a_staged_table_cannot_be_loaded_so_that_its_long_answer_is_kept(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idempotency_store, "MOST_BYTES", 10)
    body = {"name": "t", "schema": SCHEMA, "stage-create": True}
    served.ask("POST", "/namespaces", {"namespace": ["db"]})
    first = served.ask("POST", "/namespaces/db/tables", body, Idempotency_Key=KEY)
    assert served.ask("POST", "/namespaces/db/tables", body, Idempotency_Key=KEY) == first


def test_no_credentials_are_kept(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = iter(range(100))

    def access_to(*_: Any) -> dict[str, Any]:
        return {"config": {}, "storage-credentials": [{"prefix": "s3://b/t", "config": {"s3.session-token": f"secret{next(numbers)}"}}]}

    monkeypatch.setattr(ServedCatalog, "access_to", access_to)
    kept: list[Answer | None] = []

    def recorded(answer: Answer, *, may_be_loaded: bool) -> Answer | None:
        kept.append(kept_answer(answer, may_be_loaded=may_be_loaded))
        return kept[-1]

    monkeypatch.setattr(idempotency_store, "kept_answer", recorded)
    served.ask("POST", "/namespaces", {"namespace": ["db"]})
    for name, stage in (("t", False), ("staged", True)):
        body, key = {"name": name, "schema": SCHEMA, "stage-create": stage}, {"Idempotency_Key": KEY if stage else OTHER}
        first = served.ask("POST", "/namespaces/db/tables", body, **key)
        again = served.ask("POST", "/namespaces/db/tables", body, **key)
        assert first["storage-credentials"] != again["storage-credentials"]
        assert stage or first["metadata"] == again["metadata"]
    assert kept == [LOADED_AGAIN, None, None]


def test_no_answer_is_kept_of_what_a_reader_may_do() -> None:
    assert not [operation.name for operation in OPERATIONS if operation.takes_key and operation.role <= Role.READ]


def test_a_refusal_is_final_and_a_failure_is_not(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    served.ask("DELETE", "/namespaces/db", Idempotency_Key=KEY, expect=404)
    real = served.catalog.store.create_namespace
    monkeypatch.setattr(served.catalog.store, "create_namespace", failing)
    served.ask("POST", "/namespaces", {"namespace": ["db"]}, Idempotency_Key=OTHER, expect=503)
    monkeypatch.setattr(served.catalog.store, "create_namespace", real)
    served.ask("POST", "/namespaces", {"namespace": ["db"]}, Idempotency_Key=OTHER)
    served.ask("DELETE", "/namespaces/db", Idempotency_Key=KEY, expect=404)


def failing(*_: Any) -> None:
    raise StorageUnavailableError("the database is away")


def test_a_key_is_of_one_request(served: Served) -> None:
    served.ask("POST", "/namespaces", {"namespace": ["a"]}, Idempotency_Key=KEY)
    served.ask("POST", "/namespaces", {"namespace": ["b"]}, Idempotency_Key=KEY, expect=400)
    served.ask("DELETE", "/namespaces/a", Idempotency_Key=KEY, expect=400)


@pytest.mark.parametrize("key", ["x", KEY[:-1], KEY.replace("-7", "-4"), f"{KEY}0", "017f22e279b07cc398c4dc0c0c07398f"])
def test_a_key_that_is_no_uuid_of_version_7_is_a_bad_request(served: Served, key: str) -> None:
    served.ask("POST", "/namespaces", {"namespace": ["a"]}, Idempotency_Key=key, expect=400)


@pytest.mark.parametrize("body", [[1], "x", 7, None])
def test_a_body_of_another_kind_is_a_bad_request_with_a_key_too(served: Served, body: object) -> None:
    served.ask("POST", "/namespaces", {"namespace": ["db"]})
    for path in ("register", "register-view", "tables"):
        served.ask("POST", f"/namespaces/db/{path}", body, Idempotency_Key=KEY.replace("0", str(len(path) % 10)), expect=400)


def once(store: MemoryIdempotencyStore, act: Callable[[], Answer], user: str = "u") -> Answer:
    return store.once(user, KEY, "request", act)


def test_two_requests_of_a_key_at_once_run_once() -> None:
    store, runs, may_end = MemoryIdempotencyStore(), [], threading.Event()

    def act() -> Answer:
        runs.append(1)
        may_end.wait(10)
        return Answer(content={"run": len(runs)})

    answers: list[Answer] = []
    threads = [threading.Thread(target=lambda: answers.append(once(store, act))) for _ in range(5)]
    for thread in threads:
        thread.start()
    may_end.set()
    for thread in threads:
        thread.join()
    assert [answer.encode().body for answer in answers] == [b'{"run":1}'] * 5


def test_a_retry_of_a_request_that_still_runs_has_to_wait() -> None:
    store, may_end, runs = MemoryIdempotencyStore(wait_s=0.01), threading.Event(), threading.Event()

    def act() -> Answer:
        runs.set()
        may_end.wait(10)
        return Answer()

    first = threading.Thread(target=lambda: once(store, act))
    first.start()
    runs.wait(10)
    with pytest.raises(RefusedRequest) as refused:
        once(store, act)
    assert (refused.value.model.code, refused.value.model.headers) == (503, (("Retry-After", "1"),))
    may_end.set()
    first.join()


def test_responses_are_dropped_after_their_time_and_are_of_one_user() -> None:
    now = [0.0]
    store = MemoryIdempotencyStore(lifetime_s=10, clock=lambda: now[0])
    runs: list[int] = []

    def act() -> Answer:
        runs.append(1)
        return Answer(content=len(runs))

    assert [once(store, act, user).encode().body for user in ("u", "u", "other")] == [b"1", b"1", b"2"]
    now[0] = 11.0
    assert once(store, act).content == 3


@pytest.mark.parametrize(
    "answer", [{"body": bytes(60)}, {"content": {"metadata": {"versions": ["v"] * 12}}}, {"headers": {"ETag": "e" * 60}, "body": b""}]
)
def test_a_request_that_runs_is_not_dropped_for_the_responses_of_others(monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any]) -> None:
    monkeypatch.setattr(idempotency_store, "BYTES_OF_ENTRY", 0)
    monkeypatch.setattr(idempotency_store, "MOST_BYTES_OF_ALL", 100)
    store = MemoryIdempotencyStore(wait_s=0.01)
    runs, begun, end = [], threading.Event(), threading.Event()

    def slow() -> Answer:
        runs.append("slow")
        begun.set()
        end.wait()
        return Answer(body=b"slow")

    running = threading.Thread(target=store.once, args=("anna", "slow", "r", slow))
    running.start()
    begun.wait()

    def answered(name: str) -> Answer:
        return store.once("anna", name, "r", lambda: (runs.append(name), Answer(**answer))[1])

    for name in ("a", "b", "c", "c", "a"):
        answered(name)
    assert runs == ["slow", "a", "b", "c", "a"]  # the oldest response was dropped, the newest not
    with pytest.raises(RefusedRequest):
        store.once("anna", "slow", "r", slow)
    end.set()
    running.join()
    assert store.once("anna", "slow", "r", slow).body == b"slow"
    assert runs.count("slow") == 1
