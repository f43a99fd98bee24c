"""`BoundedCache`: a mapping with a limited number, cost and age of values. The least recently used value is dropped first.

Every cache of this process whose entries are independent of each other is a `BoundedCache`. Its subclass or owner decides what a key is and what a value costs.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class _Entry(Generic[Value]):
    value: Value
    cost: int
    put_at_s: float


@dataclass(slots=True)
class _Load:
    """A value that is being loaded: the first thread that acquires `lock` loads it, the others wait for the lock."""

    lock: Any = field(default_factory=threading.Lock)
    value: Any = None
    is_loaded: bool = False


class BoundedCache(Generic[Key, Value]):
    """A cache of values by key. Any number of threads may use it. A pickled cache arrives empty, because another process loads its own values.

    Args:
        most: The largest number of values; 0 keeps none, None sets no limit.
        most_cost: The largest sum of costs, such as bytes; None sets no limit.
        largest: The largest cost of a value that is kept; `most_cost` by default.
        expiry_s: Seconds after which a value is dropped, from the time when it was put; None for never.
        clock: Returns seconds.
    """

    def __init__(
        self,
        most: int | None = None,
        *,
        most_cost: int | None = None,
        largest: int | None = None,
        expiry_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most = most
        self._most_cost = most_cost
        self._largest = most_cost if largest is None else largest
        self._expiry_s = expiry_s
        self._clock = clock
        self._cost = 0
        self._entries: OrderedDict[Key, _Entry[Value]] = OrderedDict()
        self._loads: dict[Key, _Load] = {}
        self.lock = threading.RLock()  # a caller can hold it to make several calls atomic

    def __reduce__(self) -> tuple[object, ...]:
        return _empty, (type(self), self._most, self._most_cost, self._largest, self._expiry_s, self._clock)

    @property
    def cost(self) -> int:
        """The sum of the costs of all values."""
        return self._cost

    def keys(self) -> list[Key]:
        """Return the keys, the least recently used first."""
        with self.lock:
            return list(self._entries)

    def get(self, key: Key) -> Value | None:
        """Return the value of a key, and make it the most recently used one. Return None if the key has no value, or the value has expired."""
        with self.lock:
            entry = self._find(key)
            return None if entry is None else entry.value

    def put(self, key: Key, value: Value, cost: int = 0) -> None:
        """Set the value of a key. A value that costs more than a single value may is not kept; the key then has no value."""
        with self.lock:
            self.pop(key)
            if self._largest is not None and cost > self._largest:
                return
            self._entries[key] = _Entry(value, cost, self._clock())
            self._cost += cost
            while self._entries and self._is_full():
                self.pop(next(iter(self._entries)))

    def pop(self, key: Key) -> Value | None:
        """Drop the value of a key, and return it; None if the key has no value."""
        with self.lock:
            entry = self._entries.pop(key, None)
            if entry is None:
                return None
            self._cost -= entry.cost
            return entry.value

    def clear(self) -> None:
        """Drop every value."""
        with self.lock:
            self._entries.clear()
            self._cost = 0

    def get_or_load(self, key: Key, load: Callable[[], tuple[Value, int]]) -> Value:
        """Return the value of a key, and load it if necessary. One thread loads it while the others wait; after a failure the next thread tries.

        Args:
            key: The key of the value.
            load: Returns the value and its cost. Its errors are raised here.
        """
        with self.lock:
            entry = self._find(key)
            if entry is not None:
                return entry.value
            loading = self._loads.setdefault(key, _Load())
        with loading.lock:
            if not loading.is_loaded:
                try:
                    loading.value, cost = load()
                    loading.is_loaded = True
                    self.put(key, loading.value, cost)
                finally:
                    with self.lock:
                        if self._loads.get(key) is loading:
                            del self._loads[key]
            value: Value = loading.value
            return value

    def _find(self, key: Key) -> _Entry[Value] | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        if self._expiry_s is not None and self._clock() - entry.put_at_s > self._expiry_s:
            self.pop(key)
            return None
        self._entries.move_to_end(key)
        return entry

    def _is_full(self) -> bool:
        return (self._most is not None and len(self._entries) > self._most) or (
            self._most_cost is not None and self._cost > self._most_cost
        )


def _empty(
    kind: type[BoundedCache[Any, Any]],
    most: int | None,
    most_cost: int | None,
    largest: int | None,
    expiry_s: float | None,
    clock: Callable[[], float],
) -> BoundedCache[Any, Any]:
    cache = kind.__new__(kind)  # a subclass may have a constructor of its own
    BoundedCache.__init__(cache, most, most_cost=most_cost, largest=largest, expiry_s=expiry_s, clock=clock)
    return cache
