"""The metrics reports of clients. Each process keeps the last ones, and shows them on request. Spec: REST catalog, reportMetrics."""

import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from icefloe.server.error_response import bad_request
from icefloe.server.request import Call, checked_object, identifier_json
from icefloe.server.rest_operations import Role
from icefloe.spec.identifier import Identifier
from icefloe.spec.schema.json_shape import Key, a_long, a_string, an_object, anything

# The most reports that a process keeps, and the most bytes of a report.
KEPT_REPORTS = 500
MOST_BYTES = 256 * 1024

_SCAN = (
    Key("table-name", a_string),
    Key("snapshot-id", a_long),
    Key("filter", anything),
    Key("schema-id", a_long),
    Key("projected-field-ids", anything),
    Key("projected-field-names", anything),
    Key("metrics", an_object),
)
_COMMIT = (
    Key("table-name", a_string),
    Key("snapshot-id", a_long),
    Key("sequence-number", a_long),
    Key("operation", a_string),
    Key("metrics", an_object),
)
_KEYS: Mapping[str, tuple[Key, ...]] = {"scan-report": _SCAN, "commit-report": _COMMIT}


class MetricsReports:
    """The last metrics reports that this process received. Any number of threads may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: deque[tuple[Identifier, dict[str, Any]]] = deque(maxlen=KEPT_REPORTS)

    def add(self, table: Identifier, call: Call) -> None:
        """Keep a report.

        Raises:
            RefusedRequest: The body is not a metrics report, or is too long.
        """
        kind = call.json_object(Key("report-type", a_string))["report-type"]
        if kind not in _KEYS:
            raise bad_request(f"the report-type is {kind!r}; it is {' or '.join(_KEYS)}")
        if len(call.body) > MOST_BYTES:
            raise bad_request(f"the report has {len(call.body)} bytes; it may have {MOST_BYTES}")
        report = checked_object(call.content, "$", *_KEYS[kind])
        entry = {
            "received-ms": time.time_ns() // 1_000_000,
            "user": call.access.user,
            "table": identifier_json(table),
            "report": dict(report),
        }
        with self._lock:
            self._kept.append((table, entry))

    def list_reports(self, call: Call) -> list[dict[str, Any]]:
        """Return the reports of the tables that the user may read, newest first."""
        with self._lock:
            reports = list(self._kept)
        return [entry for table, entry in reversed(reports) if call.access.role_in(table[:-1]) >= Role.READ]
