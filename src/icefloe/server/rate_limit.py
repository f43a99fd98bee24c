"""`RateLimit`: how many requests a user, or an address without a valid token, may send in a second. Each worker counts for itself."""

import math
import time
from collections.abc import Callable

from icefloe.bounded_cache import BoundedCache

# Callers that are remembered; the one that was longest quiet is dropped first.
REMEMBERED = 10_000


class RateLimit:
    """A bucket of requests for each caller, which fills at a rate up to the requests of a burst."""

    def __init__(self, per_second: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Make the limit.

        Args:
            per_second: Requests a second; 0 for no limit.
            burst: Requests at once after a pause.
            clock: Returns seconds.
        """
        self._rate = per_second
        self._burst = max(burst, 1.0)
        self._clock = clock
        self._buckets: BoundedCache[str, tuple[float, float]] = BoundedCache(REMEMBERED)  # requests left, and when that was

    def take(self, caller: str) -> int | None:
        """Take a request of a caller.

        Args:
            caller: The user or address.

        Returns:
            None if it may run; else the whole seconds after which the next one may.
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
