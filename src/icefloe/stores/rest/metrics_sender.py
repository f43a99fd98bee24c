"""`RestMetricsReporter`: sends the metrics reports of a table to the server of a REST catalog, in a background thread.

A query never waits for a report, and never fails because of it. If reports come faster than they can be sent, or if the server refuses them, they are lost,
which is logged at the level DEBUG. At the end of the process, the remaining reports are sent for at most `LAST_S` seconds. Spec: REST catalog, reportMetrics.
"""

import atexit
import logging
import os
import threading
from collections import deque
from collections.abc import Mapping
from typing import Any

from icefloe.errors import in_one_line
from icefloe.spec.identifier import Identifier, dotted
from icefloe.stores.rest.rest_connection import RestConnection
from icefloe.stores.rest.rest_paths import Endpoint

LOG = logging.getLogger(__name__)
# The maximum of waiting reports, and the seconds that the end of a process waits for them.
MOST_WAITING, LAST_S = 1_000, 2.0
# The seconds without a report after which the thread ends.
_IDLE_S = 5.0


class RestMetricsReporter:
    """Sends the reports of one table. See `MetricsReporter`.

    Args:
        connection: The connection to the catalog.
        identifier: The name of the table.
        token: The bearer token that the server sent with the table.
    """

    def __init__(self, connection: RestConnection, identifier: Identifier, token: str | None) -> None:
        self._connection = connection
        self._identifier = identifier
        self._token = token

    def report(self, content: Mapping[str, Any]) -> None:
        """Send a report in the background."""
        _SENDER.add(self, content)

    def send(self, content: Mapping[str, Any]) -> None:
        """Send a report now. A failure is logged."""
        try:
            reply = self._connection.request(Endpoint.REPORT_METRICS, self._identifier, body=content, token=self._token)
        except Exception as error:  # noqa: BLE001  whatever it is, it may not disturb what is reported about
            LOG.debug("a metrics report of %s was not sent: %s", dotted(self._identifier), in_one_line(str(error)))
            return
        if not reply.is_success:
            LOG.debug("the server took no metrics report of %s: %s %s", dotted(self._identifier), reply.status, reply.message)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_connection": self._connection.for_requests()}

    def __repr__(self) -> str:
        return f"RestMetricsReporter({dotted(self._identifier)!r})"


class _Sender:
    """The waiting reports and the thread that sends them. A report starts the thread, which ends after some seconds without reports."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._process_id = os.getpid()
        self._changed = threading.Condition()
        self._waiting: deque[tuple[RestMetricsReporter, Mapping[str, Any]]] = deque()
        self._is_running = self._is_sending = False

    def add(self, reporter: RestMetricsReporter, content: Mapping[str, Any]) -> None:
        """Queue a report; it is dropped if too many reports wait."""
        if self._process_id != os.getpid():  # a forked process has no threads, and must not send the reports of its parent
            self._begin()
        with self._changed:
            if len(self._waiting) >= MOST_WAITING:
                LOG.debug("a metrics report is lost: %d wait to be sent", MOST_WAITING)
                return
            self._waiting.append((reporter, content))
            if not self._is_running:
                self._is_running = True
                threading.Thread(target=self._run, name="icefloe-metrics", daemon=True).start()
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._is_sending = False
                self._changed.notify_all()
                if not self._changed.wait_for(lambda: self._waiting, _IDLE_S):
                    self._is_running = False
                    return
                reporter, content = self._waiting.popleft()
                self._is_sending = True
            reporter.send(content)

    def flush(self, seconds: float) -> None:
        """Wait until every report is sent, for at most this many seconds."""
        if self._process_id != os.getpid():
            return
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting and not self._is_sending, seconds)


_SENDER = _Sender()
atexit.register(lambda: _SENDER.flush(LAST_S))


def flush_reports(seconds: float) -> None:
    """Wait until the reports of this process are sent, for at most this many seconds."""
    _SENDER.flush(seconds)
