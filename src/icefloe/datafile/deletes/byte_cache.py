"""`ByteCache`: a cache of values that several threads load, limited in bytes; the least recently used value is removed first.

Spec: none.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any


class _Entry:
    """One value. The first thread that acquires `lock` loads it; the others wait for the lock."""

    __slots__ = ("lock", "size", "value")

    def __init__(self) -> None:
        self.lock = Lock()
        self.value: Any = None
        self.size: int | None = None


class ByteCache:
    """Cached values by key. Threads that need a value at the same time load it once; after a failure the next thread loads it again."""

    def __init__(self, max_bytes: int) -> None:
        """Create an empty cache."""
        self._max_bytes = max_bytes
        self._bytes = 0
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable, load: Callable[[], tuple[Any, int]]) -> Any:
        """Return the value of a key. `load` returns it and its size in bytes; a value larger than the limit is not cached."""
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            self._entries.move_to_end(key)
        with entry.lock:
            if entry.size is None:
                try:
                    value, size = load()
                except BaseException:
                    with self._lock:
                        if self._entries.get(key) is entry:
                            del self._entries[key]
                    raise
                entry.value, entry.size = value, size
                self._add(key, entry, size)
            return entry.value

    @property
    def bytes_held(self) -> int:
        """Return the size of the cached values."""
        return self._bytes

    def _add(self, key: Hashable, entry: _Entry, size: int) -> None:
        with self._lock:
            if self._entries.get(key) is not entry:
                return
            if size > self._max_bytes:
                del self._entries[key]
                return
            self._bytes += size
            # Entries that are being loaded have no size yet, and are kept.
            loaded = [(name, cached) for name, cached in self._entries.items() if cached.size is not None and cached is not entry]
            for name, cached in loaded:
                if self._bytes <= self._max_bytes:
                    break
                del self._entries[name]
                self._bytes -= cached.size or 0
