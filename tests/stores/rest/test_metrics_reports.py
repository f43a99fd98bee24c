"""Reports of scans and commits to a server that takes them: in the background, without values of filters, never in the way of a query."""

import logging
import pickle
import threading
from typing import Any

import pyarrow as pa
import pytest
from tests.stores.rest.rest_double import Answer, OneTable, RestDouble

from icefloe.catalog.rest_catalog import RestCatalog
from icefloe.server.metrics_reports import _COMMIT, _SCAN
from icefloe.spec.schema.json_shape import object_problems
from icefloe.stores.rest import metrics_sender
from icefloe.stores.rest.metrics_sender import RestMetricsReporter, flush_reports
from icefloe.stores.rest.rest_connection import RestConnection
from icefloe.stores.rest.rest_paths import Endpoint
from icefloe.table import Table


@pytest.fixture
def table(server: RestDouble, stored: OneTable) -> Table:
    return RestCatalog("r", uri=server.uri).load_table("db.t")


def reports(server: RestDouble) -> list[Any]:
    flush_reports(20)
    return [request.json for request in server.reports]


def test_a_commit_and_a_scan_are_reported(server: RestDouble, table: Table) -> None:
    table.append(pa.table({"n": pa.array([1, 2, 77_001], pa.int64())}))
    assert table.scan("n = 77001").to_arrow().num_rows == 1
    commit, scan = reports(server)
    assert {request.path for request in server.reports} == {f"{OneTable.path}/metrics"}
    assert list(object_problems(commit, "$", _COMMIT)) == []
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert (commit["report-type"], commit["table-name"], commit["operation"]) == ("commit-report", "r.db.t", "append")
    assert (commit["snapshot-id"], commit["sequence-number"]) == (snapshot.snapshot_id, snapshot.sequence_number)
    metrics = commit["metrics"]
    assert metrics["attempts"] == {"unit": "count", "value": 1}
    assert metrics["added-records"] == {"unit": "count", "value": 3}
    assert metrics["added-data-files"] == {"unit": "count", "value": 1}
    assert metrics["added-files-size-bytes"]["unit"] == "bytes"
    assert metrics["total-duration"]["time-unit"] == "nanoseconds"
    assert 0 < metrics["total-duration"]["total-duration"] < 60e9

    assert list(object_problems(scan, "$", _SCAN)) == []
    assert (scan["report-type"], scan["snapshot-id"], scan["projected-field-names"]) == ("scan-report", snapshot.snapshot_id, ["n"])
    assert scan["filter"] == {"type": "eq", "term": "n", "value": "(long)"}
    assert "77001" not in str(scan)
    assert scan["metrics"]["result-data-files"]["value"] == scan["metrics"]["scanned-data-manifests"]["value"] == 1


def test_a_filter_of_every_form_is_reported_without_its_values(server: RestDouble, table: Table) -> None:
    table.append(pa.table({"n": pa.array([1], pa.int64())}))
    table.scan("NOT (n IN (91, 92) OR n IS NULL) AND n < 93").plan()
    scan = reports(server)[-1]
    assert not {"91", "92", "93"} & set(str(scan["filter"]).replace("'", " ").split())
    assert scan["filter"]["type"] == "and"


def test_nothing_is_sent_where_the_server_takes_none_or_the_user_sends_none(server: RestDouble, stored: OneTable) -> None:
    for name, endpoints in (
        ("false", list(Endpoint)),
        ("true", [one for one in Endpoint if one is not Endpoint.REPORT_METRICS]),
    ):
        server.on("GET", "/v1/config", Answer(200, {"defaults": {}, "overrides": {}, "endpoints": [str(one) for one in endpoints]}))
        table = RestCatalog("r", uri=server.uri, **{"rest-metrics-reporting-enabled": name}).load_table("db.t")
        table.append(pa.table({"n": pa.array([1], pa.int64())}))
        table.scan().to_arrow()
    assert reports(server) == []


def test_a_report_that_cannot_be_sent_fails_no_query(
    table: Table, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(RestConnection, "request", _failing_for_reports(RestConnection.request))
    with caplog.at_level(logging.DEBUG):
        table.append(pa.table({"n": pa.array([1], pa.int64())}))
        assert table.scan().count() == 1
        flush_reports(20)
    assert "was not sent" in caplog.text


def _failing_for_reports(request: Any) -> Any:
    def sent(self: Any, endpoint: Endpoint, *arguments: Any, **options: Any) -> Any:
        if endpoint is Endpoint.REPORT_METRICS:
            raise OSError("no network")
        return request(self, endpoint, *arguments, **options)

    return sent


def test_reports_that_come_faster_than_they_are_sent_are_lost_and_nothing_waits(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []
    may_send = threading.Event()

    def held(self: RestMetricsReporter, content: Any) -> None:
        assert may_send.wait(20)
        sent.append(content)

    monkeypatch.setattr(RestMetricsReporter, "send", held)
    monkeypatch.setattr(metrics_sender, "MOST_WAITING", 3)
    reporter = table.reporter
    assert reporter is not None
    for number in range(50):
        reporter.report({"number": number})
    assert sent == []  # none of the 50 calls has waited for a report to be sent
    may_send.set()
    flush_reports(20)
    assert 1 <= len(sent) <= 4  # the one that is being sent, and those that wait


def test_a_copy_in_another_process_has_no_property_of_the_user(table: Table) -> None:
    copy = pickle.loads(pickle.dumps(table.reporter))
    assert isinstance(copy, RestMetricsReporter)
    assert copy._connection.own_properties == {}
