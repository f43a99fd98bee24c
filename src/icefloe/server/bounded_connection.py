"""`BoundedConnection`: an HTTP connection that counts towards the limit of connections only while the server has a request to respond to.

uvicorn refuses every request while too many connections are open, even if they are idle. Connections need no token, so that anyone could shut out all clients
with connections that send nothing. Here a connection keeps its place only while a completely received request is processed. Otherwise it is closed if its
client makes the server wait too long. If there are too many connections, the one that has been waiting longest is closed in favour of a new one.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class BoundedConnection(HttpToolsProtocol):
    """One connection. The server waits for its client from the start of the connection, and from the end of each response, until it has the whole next request.

    Two waits end after `timeout_keep_alive` seconds: the wait for the head of a request, even if it is sent byte by byte, and the wait for a client that does
    not read its response. The wait for a body is limited by the time of the request (`RequestHandler`).
    """

    _waits_since: float | None = None  # None from the end of a request until the end of its response
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Begin to wait for the first request. If there are too many connections, close the one that has been waiting longest."""
        super().connection_made(transport)
        self._wait_for_request()
        most = self.limit_concurrency
        while most is not None and len(self.connections) >= most:
            others = [connection for connection in self.connections if isinstance(connection, BoundedConnection) and connection is not self]
            longest = min(
                (other for other in others if other._waits_since is not None), key=lambda other: other._waits_since or 0.0, default=None
            )
            if longest is None:
                return  # every other connection has a request, so that uvicorn refuses this one as the server is busy
            self.connections.discard(longest)
            longest.transport.abort()

    def on_headers_complete(self) -> None:
        """End the wait for the head of the request."""
        self._set_deadline(is_set=self.flow.write_paused)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """End the wait for the request, unless the response was sent before the body arrived."""
        super().on_message_complete()
        cycle: Any = self.cycle  # None without a request, unlike uvicorn's annotation
        if cycle is not None and not cycle.response_complete:
            self._waits_since = None

    def on_response_complete(self) -> None:
        """Begin to wait for the next request, unless the client has already sent it, or for the client to read the last response."""
        super().on_response_complete()
        if self.cycle.response_complete:
            self._wait_for_request()

    def pause_writing(self) -> None:
        """Begin to wait until the client reads."""
        super().pause_writing()
        self._set_deadline(is_set=True)

    def resume_writing(self) -> None:
        """End the wait for the client's reading."""
        super().resume_writing()
        self._set_deadline(is_set=self._waits_since is not None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the deadline of the connection."""
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
        # `close` would wait until the client has read the rest of the response; `abort` does not.
        self.transport.abort()
