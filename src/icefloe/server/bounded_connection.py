"""`BoundedConnection`: the HTTP connection of a client, which takes no place from another client while the server waits for it.

uvicorn refuses every request while as many connections are open as it may have, whatever they do. Connections need no token, so that anyone could shut out all
clients by connections that send nothing. Here a connection keeps its place only for a request that the server has received as a whole. Any other is closed when
its client lets the server wait too long, and is given up for a new connection where there are too many, the one that has waited longest first.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class BoundedConnection(HttpToolsProtocol):
    """One connection. The server waits for its client from the start and from each response on, until it has the next request with its body.

    Two waits end after `timeout_keep_alive` seconds: that for the head of a request, also of one that is sent byte by byte, and that for a client that does not
    read its response. A body has the time of its request (`RequestHandler`).
    """

    _waits_since: float | None = None  # None from the end of a request to that of its response
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Begin to wait for the first request, in the place of another connection where there is none."""
        super().connection_made(transport)
        self._wait_for_request()
        most = self.limit_concurrency
        while most is not None and len(self.connections) >= most:
            others = [connection for connection in self.connections if isinstance(connection, BoundedConnection) and connection is not self]
            longest = min(
                (other for other in others if other._waits_since is not None), key=lambda other: other._waits_since or 0.0, default=None
            )
            if longest is None:
                return  # every other connection has a request: uvicorn sends this one the response that the server is busy
            self.connections.discard(longest)
            longest.transport.abort()

    def on_headers_complete(self) -> None:
        """End the wait for the head."""
        self._set_deadline(is_set=self.flow.write_paused)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """End the wait for the request, unless its response was sent before its body came."""
        super().on_message_complete()
        cycle: Any = self.cycle  # None without a request, which uvicorn does not declare
        if cycle is not None and not cycle.response_complete:
            self._waits_since = None

    def on_response_complete(self) -> None:
        """Begin to wait for the next request, unless the client has sent it already; or for the client to read the last response."""
        super().on_response_complete()
        if self.cycle.response_complete:
            self._wait_for_request()

    def pause_writing(self) -> None:
        """Begin to wait for the client to read."""
        super().pause_writing()
        self._set_deadline(is_set=True)

    def resume_writing(self) -> None:
        """End the wait for the client to read."""
        super().resume_writing()
        self._set_deadline(is_set=self._waits_since is not None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop the deadline of the connection."""
        self._waits_since = None
        super().connection_lost(exc)
        self._set_deadline(is_set=False)

    def _wait_for_request(self) -> None:
        self._waits_since = self.loop.time()
        self._set_deadline(is_set=True)

    def _set_deadline(self, *, is_set: bool) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(self.timeout_keep_alive, self._end) if is_set else None

    def _end(self) -> None:
        # What the client has not read until now is not waited for, as `close` would.
        self.transport.abort()
