"""`TableCache`: the tables that were loaded last, with the tag of each version, so that the next load is an answer without a body (304).

Spec: REST catalog, loadTable (`If-None-Match`), ETag.
"""

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass

from icefloe.stores.catalog_store import TableLocation
from icefloe.stores.identifier import Identifier


@dataclass(frozen=True, slots=True)
class _Entry:
    etag: str
    table: TableLocation
    kept_at_s: float


class TableCache:
    """Tables by name and way of loading; the least recently used leaves first.

    Args:
        most: The number of tables; 0 keeps none.
        expiry_ms: Milliseconds after which a table is loaded again in any case.
    """

    def __init__(self, most: int, expiry_ms: int) -> None:
        self._most = most
        self._expiry_s = expiry_ms / 1000
        self._lock = threading.Lock()
        self._entries: OrderedDict[tuple[Identifier, str], _Entry] = OrderedDict()

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle an empty cache: another process loads for itself."""
        return TableCache, (self._most, int(self._expiry_s * 1000))

    def get(self, identifier: Identifier, mode: str) -> tuple[str, TableLocation] | None:
        """Return the tag and the table that was loaded under a name; None if there is none, or it has expired."""
        with self._lock:
            entry = self._entries.get((identifier, mode))
            if entry is None:
                return None
            if time.monotonic() - entry.kept_at_s > self._expiry_s:
                del self._entries[identifier, mode]
                return None
            self._entries.move_to_end((identifier, mode))
            return entry.etag, entry.table

    def keep(self, identifier: Identifier, mode: str, etag: str | None, table: TableLocation) -> None:
        """Keep a table that was loaded; one without a tag replaces the older version by nothing."""
        with self._lock:
            self._entries.pop((identifier, mode), None)
            if etag and self._most:
                self._entries[identifier, mode] = _Entry(etag, table, time.monotonic())
                if len(self._entries) > self._most:
                    self._entries.popitem(last=False)

    def forget(self, identifier: Identifier) -> None:
        """Drop what is kept of a name."""
        with self._lock:
            for key in [key for key in self._entries if key[0] == identifier]:
                del self._entries[key]
