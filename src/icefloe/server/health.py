"""`Health`: reports whether the catalog can be read, for load balancers. It needs no token and gives no details.

Anyone may send any number of such requests. The catalog is therefore read at most once a second, by one thread at a time, however long a read takes; all
requests wait for its result.
"""

import asyncio
import time
from collections.abc import Callable

import anyio
import anyio.to_thread
import msgspec
from starlette.requests import Request
from starlette.responses import Response

from icefloe.errors import IcefloeError
from icefloe.server.error_response import UNAVAILABLE

# The seconds for which a result is valid, and the seconds after which a catalog that does not reply counts as unreadable.
COUNTS_S, LONGEST_S = 1.0, 10.0


class Health:
    """The endpoint `/health` of one worker."""

    def __init__(self, read: Callable[[], object], clock: Callable[[], float] = time.monotonic) -> None:
        """Create the endpoint.

        Args:
            read: Reads the catalog. It raises `IcefloeError` if the catalog cannot be read.
            clock: Returns seconds.
        """
        self._read = read
        self._clock = clock
        self._lock = anyio.Lock()
        self._thread = anyio.CapacityLimiter(1)
        self._reading: asyncio.Task[bool] | None = None
        self._is_well = False
        self._until = float("-inf")

    async def respond(self, _: Request) -> Response:
        """Return the status 200 if the catalog can be read, otherwise 503."""
        async with self._lock:
            if self._clock() >= self._until:
                self._is_well = await self._can_be_read()
                self._until = self._clock() + COUNTS_S
        status = "ok" if self._is_well else "unavailable"
        return Response(msgspec.json.encode({"status": status}), 200 if self._is_well else UNAVAILABLE, media_type="application/json")

    async def _can_be_read(self) -> bool:
        """Wait for the running read, or for a new one. Threads cannot be stopped, so that a catalog that does not reply keeps one thread busy, but only one."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._result())
        try:
            return await asyncio.wait_for(asyncio.shield(self._reading), LONGEST_S)
        except TimeoutError:
            return False

    async def _result(self) -> bool:
        try:
            await anyio.to_thread.run_sync(self._read, abandon_on_cancel=True, limiter=self._thread)
        except IcefloeError:
            return False
        return True
