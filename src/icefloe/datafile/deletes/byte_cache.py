"""`ByteCache`: what several threads read, kept once, up to so many bytes; the least recently used goes first.

Spec: none.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any


class _Entry:
    """One value, or the place where it will be: whoever holds `lock` first loads it, the others wait there."""

    __slots__ = ("lock", "size", "value")

    def __init__(self) -> None:
        self.lock = Lock()
        self.value: Any = None
        self.size: int | None = None


class ByteCache:
    """Values by key. A value is loaded once however many threads ask at the same time; one that fails to load is asked for again by the next."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._bytes = 0
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable, load: Callable[[], tuple[Any, int]]) -> Any:
        """The value of the key. `load` gives it and its size in bytes; a value that alone is over the limit is given out and not kept."""
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
                self._keep(key, entry, size)
            return entry.value

    @property
    def bytes_held(self) -> int:
        """What the kept values take."""
        return self._bytes

    def _keep(self, key: Hashable, entry: _Entry, size: int) -> None:
        with self._lock:
            if self._entries.get(key) is not entry:
                return
            if size > self._most:
                del self._entries[key]
                return
            self._bytes += size
            # Those that are being loaded have no size yet, and stay.
            loaded = [(name, held) for name, held in self._entries.items() if held.size is not None and held is not entry]
            for name, held in loaded:
                if self._bytes <= self._most:
                    break
                del self._entries[name]
                self._bytes -= held.size or 0
