"""`MemoryViews`: the views of a `MemoryCatalogStore`. A name is either a table or a view.

Spec: View spec, Metadata Location.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NoReturn

from icefloe.commit.outcome import Committed, Conflicted, Outcome
from icefloe.errors import NoSuchViewError
from icefloe.spec.identifier import Identifier, dotted
from icefloe.stores.catalog_store import CommitRequest, TableLocation, only_in_this_process


class MemoryViews:
    """The views of a store in memory. See `ViewStore`.

    Args of the constructor: `lock` is the lock of the store; `require_free` raises an error if the name is taken or its namespace is missing; `is_table`
    returns whether a name belongs to a table.
    """

    writes_metadata = False

    def __init__(
        self,
        name: str,
        lock: AbstractContextManager[Any],
        require: Callable[[Identifier], None],
        require_free: Callable[[Identifier], None],
        is_table: Callable[[Identifier], bool],
    ) -> None:
        self.name = name
        self.locations: dict[Identifier, TableLocation] = {}
        self._lock = lock
        self._require = require
        self._require_free = require_free
        self._is_table = is_table

    def __reduce__(self) -> NoReturn:
        raise only_in_this_process(self.name)

    def names(self, namespace: Identifier) -> list[Identifier]:
        with self._lock:
            self._require(namespace)
            return sorted(name for name in self.locations if name[:-1] == namespace)

    def load(self, identifier: Identifier) -> TableLocation:
        return self.load_all([identifier])[0]

    def load_all(self, identifiers: Sequence[Identifier]) -> list[TableLocation]:
        """Return the locations of several views at the same moment. Raises `NoSuchViewError`."""
        with self._lock:
            for identifier in identifiers:
                if identifier not in self.locations:
                    raise self._missing(identifier)
            return [self.locations[identifier] for identifier in identifiers]

    def create(self, identifier: Identifier, metadata_location: str) -> str:
        with self._lock:
            self._require_free(identifier)
            self._set_location(identifier, metadata_location, None)
        return metadata_location

    def commit(self, requests: Sequence[CommitRequest]) -> Outcome:
        (request,) = requests
        with self._lock:
            location = self.locations.get(request.identifier)
            if location is None or location.metadata_location != request.expected:
                return Conflicted(current_location=location.metadata_location if location else None)
            self._set_location(request.identifier, request.new, request.expected)
            return Committed()

    def commit_status(self, requests: Sequence[CommitRequest]) -> Outcome:
        """Determine how a commit ended, by the current location. Only stores that simulate faults need this, because no reply is lost within a process."""
        request = requests[0]
        with self._lock:
            current = self.locations.get(request.identifier)
        location = current.metadata_location if current else None
        return Committed() if location == request.new else Conflicted(current_location=location, is_reply_lost=location != request.expected)

    def rename(self, source: Identifier, target: Identifier) -> None:
        with self._lock:
            current = self.load(source)
            self._require_free(target)
            del self.locations[source]
            self._set_location(target, current.metadata_location, current.previous_metadata_location)

    def drop(self, identifier: Identifier) -> None:
        with self._lock:
            self.load(identifier)
            del self.locations[identifier]

    def _set_location(self, identifier: Identifier, location: str, previous: str | None) -> None:
        self.locations[identifier] = TableLocation(
            identifier=identifier,
            metadata_location=location,
            previous_metadata_location=previous,
            lookup=lambda: f"the view {dotted(identifier)} in this process",
        )

    def _missing(self, identifier: Identifier) -> NoSuchViewError:
        message = f"view {dotted(identifier)!r} does not exist in catalog {self.name!r}"
        if self._is_table(identifier):
            return NoSuchViewError(f"{message}: that name is a table", next_step="load it with load_table")
        return NoSuchViewError(message, next_step=f"there are: {', '.join(sorted(map(dotted, self.locations))[:10]) or 'none'}")
