"""`PartialEntries`: a list of metadata of which a few entries are at hand, and which is loaded whole when anything else of it is needed.

A catalog can send a table with the snapshots of its branches and tags only. A reader of these never needs the others; a caller that lists, searches, counts or
changes snapshots gets all of them, so that none takes a part for the whole. Spec: REST catalog, loadTable (`snapshots`).
"""

from collections.abc import Callable
from typing import Any, TypeVar

from icefloe.spec.metadata.raw_entries import RawEntries

T = TypeVar("T")
_LOADED = ("_blocks", "_decoded", "_ids", "_length", "_starts")


class PartialEntries(RawEntries[T]):
    """Some entries of a list, and the way to all of them. It behaves as the whole list.

    The fields of `RawEntries` are not set until one of them is used, which Python passes to `__getattr__`.

    Args:
        known: The entries at hand.
        whole: Returns the whole list; all copies share what it has loaded.
    """

    __slots__ = ("_known", "_whole")

    def __init__(self, entries: RawEntries[T], whole: Callable[[], RawEntries[T]]) -> None:
        self._kind = entries._kind
        self._path = entries._path
        self._known = entries
        self._whole = whole

    def __getattr__(self, name: str) -> Any:
        if name not in _LOADED:
            raise AttributeError(name)
        entries = self._whole().fresh(self._path)
        for loaded in _LOADED:
            setattr(self, loaded, getattr(entries, loaded))
        return getattr(entries, name)

    def get(self, entry_id: int) -> T | None:
        """Return the entry with this id, or None."""
        entry = self._known.get(entry_id)
        return super().get(entry_id) if entry is None else entry

    def fresh(self, path: str | None = None) -> RawEntries[T]:
        return PartialEntries(self._known.fresh(path), self._whole)
