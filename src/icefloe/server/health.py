"""`Health`: whether the catalog can be read, for load balancers: without a token and without details.

Anyone may send such requests, in any number, so the catalog is read at most once in a second, by one thread at a time, however long
it takes; all requests wait for its result.
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

# Seconds that a result counts, and until a catalog that does not reply counts as one that cannot be read.
COUNTS_S, LONGEST_S = 1.0, 10.0


class Health:
    """The endpoint `/health` of one worker."""

    def __init__(self, read: Callable[[], object], clock: Callable[[], float] = time.monotonic) -> None:
        """Make the endpoint.

        Args:
            read: Reads the catalog. Raises `IcefloeError` where it cannot be read.
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
        """Return 200 where the catalog can be read, else 503."""
        async with self._lock:
            if self._clock() >= self._until:
                self._is_well = await self._can_be_read()
                self._until = self._clock() + COUNTS_S
        status = "ok" if self._is_well else "unavailable"
        return Response(msgspec.json.encode({"status": status}), 200 if self._is_well else UNAVAILABLE, media_type="application/json")

    async def _can_be_read(self) -> bool:
        """Wait for the read that runs, or for a new one. A thread cannot be ended: a catalog that does not reply keeps one thread busy, and not more."""
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
