"""`MemoryCatalogStore`: a catalog store in the memory of this process, with one lock.

For tests, notebooks and temporary tables. Spec: Metastore Tables.
"""

import threading
from collections.abc import Mapping, Sequence
from typing import NoReturn

from icefloe.commit.outcome import Committed, Conflicted, Outcome, Refused
from icefloe.errors import AlreadyExistsError, NoSuchNamespaceError, NoSuchTableError, ViewAlreadyExistsError
from icefloe.spec.identifier import Identifier, dotted
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.stores.catalog_store import CommitRequest, TableLocation, only_in_this_process
from icefloe.stores.memory_view_store import MemoryViews
from icefloe.stores.name_errors import namespace_exists, namespace_missing, namespace_not_empty, table_exists


class MemoryCatalogStore:
    """The tables and namespaces of the catalog `name`, which exist as long as this object. Any number of threads may use it."""

    drops_files = False
    writes_metadata = False

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = threading.RLock()
        self._namespaces: dict[Identifier, dict[str, str]] = {}
        self._tables: dict[Identifier, TableLocation] = {}
        self._views = MemoryViews(name, self._lock, self._require, self._require_free, self._tables.__contains__)

    def __reduce__(self) -> NoReturn:
        raise only_in_this_process(self.name)

    def views(self) -> MemoryViews:
        """Return the store of the views."""
        return self._views

    def list_namespaces(self, parent: Identifier = ()) -> list[Identifier]:
        with self._lock:
            if parent:
                self._require(parent)
            depth = len(parent) + 1
            return sorted({name[:depth] for name in self._namespaces if len(name) >= depth and name[: depth - 1] == parent})

    def namespace_properties(self, namespace: Identifier) -> dict[str, str]:
        with self._lock:
            self._require(namespace)
            return dict(self._namespaces.get(namespace, {}))

    def create_namespace(self, namespace: Identifier, properties: Mapping[str, str]) -> None:
        with self._lock:
            if self._is_there(namespace):
                raise namespace_exists(self.name, namespace)
            self._namespaces[namespace] = {key: str(value) for key, value in properties.items()}

    def drop_namespace(self, namespace: Identifier) -> None:
        with self._lock:
            self._require(namespace)
            depth = len(namespace)
            names = (*self._tables, *self._views.locations, *self._namespaces)
            content = [dotted(name) for name in names if len(name) > depth and name[:depth] == namespace]
            if content:
                raise namespace_not_empty(namespace, content)
            del self._namespaces[namespace]

    def update_namespace(self, namespace: Identifier, *, removals: frozenset[str], updates: Mapping[str, str]) -> None:
        with self._lock:
            self._require(namespace)
            properties = {key: value for key, value in self._namespaces.get(namespace, {}).items() if key not in removals}
            self._namespaces[namespace] = {**properties, **{key: str(value) for key, value in updates.items()}}

    def list_tables(self, namespace: Identifier) -> list[Identifier]:
        with self._lock:
            self._require(namespace)
            return sorted(name for name in self._tables if name[:-1] == namespace)

    def load(self, identifier: Identifier) -> TableLocation:
        return self.load_all([identifier])[0]

    def load_all(self, identifiers: Sequence[Identifier]) -> list[TableLocation]:
        with self._lock:
            for identifier in identifiers:
                if identifier in self._views.locations:
                    raise NoSuchTableError(
                        f"table {dotted(identifier)!r} does not exist in catalog {self.name!r}: that name is a view",
                        next_step="load it with load_view",
                    )
                if identifier not in self._tables:
                    raise NoSuchTableError(
                        f"table {dotted(identifier)!r} does not exist in catalog {self.name!r}",
                        next_step=f"there are: {', '.join(sorted(map(dotted, self._tables))[:10]) or 'none'}",
                    )
            return [self._tables[identifier] for identifier in identifiers]

    def other_tables(self, identifier: Identifier, naming: str = "") -> list[TableLocation]:
        with self._lock:
            return [table for name, table in self._tables.items() if name != identifier and naming in table.metadata_location]

    def check(self, identifier: Identifier, location: str, metadata: TableMetadata) -> None:
        """Do nothing: a name may have any metadata location."""

    def create(self, identifier: Identifier, metadata_location: str) -> str:
        outcome = self.commit([CommitRequest(identifier=identifier, expected=None, new=metadata_location)])
        if isinstance(outcome, Refused):
            raise outcome.error
        return metadata_location

    def commit(self, requests: Sequence[CommitRequest]) -> Outcome:
        with self._lock:
            for request in requests:
                location = self._tables.get(request.identifier)
                if request.expected is None:
                    try:
                        self._require_free(request.identifier)
                    except (NoSuchNamespaceError, AlreadyExistsError) as error:
                        return Refused(error=error)
                elif location is None or location.metadata_location != request.expected:
                    return Conflicted(current_location=location.metadata_location if location else None, table=dotted(request.identifier))
            for request in requests:
                self._tables[request.identifier] = _table_location(request.identifier, request.new, request.expected)
            return Committed()

    def commit_status(self, requests: Sequence[CommitRequest]) -> Outcome:
        """Determine how a commit ended, by the current locations. Only stores that simulate faults need this, because no reply is lost within a process."""
        with self._lock:
            locations = {request.identifier: self._tables.get(request.identifier) for request in requests}
        for request in requests:
            current = locations[request.identifier]
            if current is not None and current.metadata_location == request.new:
                return Committed()
        first = requests[0]
        current = locations[first.identifier]
        location = current.metadata_location if current else None
        return Conflicted(current_location=location, table=dotted(first.identifier), is_reply_lost=location != first.expected)

    def rename(self, source: Identifier, target: Identifier) -> None:
        with self._lock:
            current = self.load(source)
            self._require_free(target)
            del self._tables[source]
            self._tables[target] = _table_location(target, current.metadata_location, current.previous_metadata_location)

    def drop(self, identifier: Identifier, *, expected: str | None = None) -> bool:
        with self._lock:
            if expected not in (None, self.load(identifier).metadata_location):
                return False
            del self._tables[identifier]
            return True

    def _is_there(self, namespace: Identifier) -> bool:
        return any(name[: len(namespace)] == namespace for name in self._namespaces)

    def _require(self, namespace: Identifier) -> None:
        if not self._is_there(namespace):
            raise namespace_missing(self.name, namespace, self._namespaces)

    def _require_free(self, identifier: Identifier) -> None:
        self._require(identifier[:-1])
        if identifier in self._views.locations:
            raise ViewAlreadyExistsError(
                f"view {dotted(identifier)!r} already exists in catalog {self.name!r}", next_step="load it, drop it, or choose another name"
            )
        if identifier in self._tables:
            raise table_exists(self.name, identifier)


def _table_location(identifier: Identifier, location: str, previous: str | None) -> TableLocation:
    return TableLocation(
        identifier=identifier,
        metadata_location=location,
        previous_metadata_location=previous,
        lookup=lambda: f"the entry of {dotted(identifier)} in this process",
    )
