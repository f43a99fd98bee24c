"""`RateLimit`: the number of requests that a user, or an address without a valid token, may send in a second. Each worker counts by itself."""

import math
import time
from collections.abc import Callable

from icefloe.bounded_cache import BoundedCache

# The most callers that are remembered. The caller whose last request is the oldest is dropped first.
REMEMBERED = 10_000


class RateLimit:
    """A bucket of requests for each caller. It is filled at a constant rate, and holds at most the requests of a burst."""

    def __init__(self, per_second: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Create the limit.

        Args:
            per_second: The number of requests a second; 0 for no limit.
            burst: The number of requests that may be sent at once after a pause.
            clock: Returns seconds.
        """
        self._rate = per_second
        self._burst = max(burst, 1.0)
        self._clock = clock
        self._buckets: BoundedCache[str, tuple[float, float]] = BoundedCache(REMEMBERED)  # remaining requests, and the time of the count

    def take(self, caller: str) -> int | None:
        """Count a request of a caller.

        Args:
            caller: The user or address.

        Returns:
            None if the request may run; otherwise the number of whole seconds after which the next request may run.
        """
        if self._rate <= 0:
            return None
        now = self._clock()
        with self._buckets.lock:
            left, since = self._buckets.get(caller) or (self._burst, now)
            left = min(self._burst, left + (now - since) * self._rate)
            is_allowed = left >= 1.0
            self._buckets.put(caller, (left - 1.0 if is_allowed else left, now))
        return None if is_allowed else max(1, math.ceil((1.0 - left) / self._rate))
