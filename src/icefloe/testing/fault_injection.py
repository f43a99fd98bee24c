"""Fault injection: `FaultyStore` and `FaultyFileIO` wrap a catalog store and a storage, and fail as a `Faults` object orders.

    faults = Faults()
    table = Table(TableHandle(identifier=name, store=FaultyStore(store, faults), io=FaultyFileIO(io, faults)), loaded)
    faults.order("commit", Fault.LOST_REPLY)
    faults.order("write", Fault.FULL, matching="snap-", times=2)

A `Faults` object simulates one process: after a crash every operation that uses it fails until `revive()`, so that no clean-up runs. An order with only
`meanwhile` and no fault runs a step of another writer at that point, which interleaves writers.
Spec: Optimistic Concurrency; Commit Conflict Resolution and Retry.
"""

import errno
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NoReturn

import pyarrow as pa

from icefloe.commit.outcome import Committed, Conflicted, Outcome, Unknown
from icefloe.errors import InvalidInputError
from icefloe.io.storage_errors import storage_error
from icefloe.spec.identifier import Identifier
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.ports import Content, FileIO
from icefloe.stores.catalog_store import CatalogStore, CommitRequest, TableLocation, other_tables

# The default seconds that an operation with `Fault.SLOW` waits.
SLOW_S = 0.05


class SimulatedCrash(BaseException):
    """The error that simulates the death of the process. It is not an `Exception`, so that no error handler cleans up."""


class Fault(StrEnum):
    """The kinds of faults. CONFLICT to UNKNOWN apply only to `commit`, HALF only to `write` and `open_output`, and all other faults to every operation."""

    CONFLICT = "conflict"  # nothing is committed; the store reports another metadata location than the expected one
    LOST_REPLY = "lost reply"  # committed, but the outcome is unknown
    OVERTAKEN = "overtaken"  # committed, then `meanwhile` runs, and only then the store reads the metadata location again
    LATE = "late"  # the outcome is unknown; the commit happens after the metadata location was read again
    UNKNOWN = "unknown"  # the outcome is unknown; nothing is committed, neither now nor later

    CRASH = "crash"  # the process dies before the operation
    CRASH_AFTER = "crash after"  # the process dies after the operation
    HALF = "half"  # the process dies during a write: a stream has written half of its bytes, a whole write nothing
    UNAVAILABLE = "unavailable"  # nothing is done; `StorageUnavailableError`
    UNAVAILABLE_AFTER = "unavailable after"  # done, and then `StorageUnavailableError`
    FULL = "full"  # nothing is done; `StorageFullError`
    DENIED = "denied"  # nothing is done; `StoragePermissionError`
    INTERRUPT = "interrupt"  # nothing is done; `KeyboardInterrupt`
    INTERRUPT_AFTER = "interrupt after"  # done, and then `KeyboardInterrupt`
    SLOW = "slow"  # done after a while


OF_COMMITS = frozenset({Fault.CONFLICT, Fault.LOST_REPLY, Fault.OVERTAKEN, Fault.LATE, Fault.UNKNOWN})
OF_WRITES = frozenset({Fault.HALF})
WRITES = frozenset({"write", "open_output"})
_ERRNO = {
    Fault.UNAVAILABLE: errno.ETIMEDOUT,
    Fault.UNAVAILABLE_AFTER: errno.ETIMEDOUT,
    Fault.FULL: errno.ENOSPC,
    Fault.DENIED: errno.EACCES,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An entry of the log: one call of a method of a store or a storage.

    Attributes:
        operation: The name of the method.
        target: The location, or the names of the tables.
        fault: The injected fault; None if there was none.
        done: Whether the operation had its effect.
    """

    operation: str
    target: str
    fault: Fault | None
    done: bool


@dataclass(slots=True, kw_only=True)
class _Order:
    operation: str
    fault: Fault | None
    matching: str
    after: int
    times: int | None
    meanwhile: Callable[[], None] | None
    loads: int


class Faults:
    """The ordered faults of one simulated process, and the log of its operations. Without orders every operation works.

    Args:
        slow_s: Seconds that an operation with `Fault.SLOW` waits.
    """

    def __init__(self, *, slow_s: float = SLOW_S) -> None:
        self.slow_s = slow_s
        self.log: list[Event] = []
        self.is_dead = False
        self._orders: list[_Order] = []
        self._lock = threading.RLock()

    def order(
        self,
        operation: str,
        fault: Fault | None = None,
        *,
        matching: str = "",
        after: int = 0,
        times: int | None = 1,
        meanwhile: Callable[[], None] | None = None,
        loads: int = 1,
    ) -> None:
        """Order a fault for later calls of an operation. A call gets the fault of the first order that matches it.

        Args:
            operation: The name of the method: `commit`, `load`, `read`, `write`, `delete`, `open_input`, `open_output`, `exists`, `size`, or another one of the
                store.
            fault: The fault; None only runs `meanwhile`.
            matching: The order applies only to calls whose `target` in the log contains this text.
            after: The number of matching calls that pass before the fault.
            times: The number of calls that get the fault; None for all.
            meanwhile: A function without arguments that runs just before the operation, or with `OVERTAKEN` between the commit and its result.
            loads: For `LATE`, the number of reads of the metadata location after which the commit happens.

        Raises:
            InvalidInputError: The fault does not apply to this operation.
        """
        if (fault in OF_COMMITS and operation != "commit") or (fault in OF_WRITES and operation not in WRITES):
            raise InvalidInputError(
                f"{fault} cannot happen to {operation}", next_step="see `Fault` for the operations that each fault applies to"
            )
        with self._lock:
            order = _Order(operation=operation, fault=fault, matching=matching, after=after, times=times, meanwhile=meanwhile, loads=loads)
            self._orders.append(order)

    def clear_orders(self) -> None:
        """Remove all remaining orders."""
        with self._lock:
            self._orders.clear()

    def revive(self) -> None:
        """Restart the process: its store and storage work again, and its orders are removed."""
        self.is_dead = False
        self.clear_orders()

    def crash(self) -> NoReturn:
        """Simulate the death of the process: raise `SimulatedCrash`, now and in every later operation.

        Raises:
            SimulatedCrash: Always.
        """
        self.is_dead = True
        raise SimulatedCrash

    def take(self, operation: str, target: str) -> _Order | None:
        """Return the order that matches a call; None if no order matches. Its `meanwhile` has run then, except with `OVERTAKEN`.

        Args:
            operation: The name of the method.
            target: The location, or the names of the tables.

        Raises:
            SimulatedCrash: The process is dead.
        """
        if self.is_dead:
            raise SimulatedCrash
        order = self._find(operation, target)
        if order is not None and order.meanwhile is not None and order.fault is not Fault.OVERTAKEN:
            order.meanwhile()
        return order

    def _find(self, operation: str, target: str) -> _Order | None:
        with self._lock:
            for order in self._orders:
                if order.operation != operation or order.matching not in target:
                    continue
                if order.after:
                    order.after -= 1
                    continue
                if order.times is not None:
                    order.times -= 1
                    if not order.times:
                        self._orders.remove(order)
                return order
        return None

    def note(self, operation: str, target: str, fault: Fault | None, *, done: bool) -> None:
        """Add a call to the log.

        Args:
            operation: The name of the method.
            target: The location, or the names of the tables.
            fault: The injected fault; None if there was none.
            done: Whether the operation had its effect.
        """
        with self._lock:
            self.log.append(Event(operation=operation, target=target, fault=fault, done=done))

    def carry_out(self, operation: str, target: str, do: Callable[[], Any]) -> Any:
        """Run an operation with the fault that is ordered for it. The fault must not be one of `OF_COMMITS`.

        Args:
            operation: The name of the method.
            target: The location, or the names of the tables.
            do: Runs the operation.

        Returns:
            The result of `do`.
        """
        order = self.take(operation, target)
        return self.carry_out_with(order.fault if order else None, operation, target, do)

    def carry_out_with(self, fault: Fault | None, operation: str, target: str, do: Callable[[], Any]) -> Any:
        """Run an operation with a fault.

        Args:
            fault: The fault; None for none.
            operation: The name of the method.
            target: The location, or the names of the tables.
            do: Runs the operation.

        Returns:
            The result of `do`.
        """
        done = fault not in {Fault.CRASH, Fault.HALF, Fault.UNAVAILABLE, Fault.FULL, Fault.DENIED, Fault.INTERRUPT}
        if fault is Fault.SLOW:
            time.sleep(self.slow_s)
        try:
            result = do() if done else None
        except BaseException:
            self.note(operation, target, fault, done=False)
            raise
        self.note(operation, target, fault, done=done)
        if fault in {Fault.CRASH, Fault.CRASH_AFTER, Fault.HALF}:
            self.crash()
        if fault in {Fault.INTERRUPT, Fault.INTERRUPT_AFTER}:
            raise KeyboardInterrupt
        if fault in _ERRNO:
            raise storage_error(_os_error(fault), target)
        return result

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the lock, which cannot be pickled: another process that receives the storage has a copy of the ordered faults."""
        return {key: value for key, value in self.__dict__.items() if key != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.RLock()


def _os_error(fault: Fault) -> OSError:
    return OSError(_ERRNO[fault], os.strerror(_ERRNO[fault]))


class FaultyStore:
    """A catalog store with injected faults, which are ordered by the names of its methods.

    Args:
        store: The store that does the work.
        faults: The faults of the process.
        on_commit: Called after every commit that really happened with the table name and the new metadata location, which is the true history of the table.
    """

    def __init__(self, store: CatalogStore, faults: Faults, *, on_commit: Callable[[Identifier, str], None] | None = None) -> None:
        self.name = store.name
        self.drops_files = getattr(store, "drops_files", False)  # stores of views do not have the attribute
        self.writes_metadata = store.writes_metadata
        self.store = store
        self.faults = faults
        self._on_commit = on_commit
        self._late: list[tuple[int, Callable[[], Outcome]]] = []  # for each late commit the number of remaining loads, and the commit

    def load(self, identifier: Identifier) -> TableLocation:
        """Return the metadata location. A late commit may happen after the location was read."""
        return self.load_all([identifier])[0]

    def load_all(self, identifiers: Sequence[Identifier]) -> list[TableLocation]:
        """Return the metadata locations of several tables. Orders for `load` apply."""
        names = ", ".join(map(_dotted, identifiers))
        locations: list[TableLocation] = self.faults.carry_out("load", names, lambda: self.store.load_all(identifiers))
        self._after_load()
        return locations

    def commit_status(self, requests: Sequence[CommitRequest]) -> Outcome:
        """Return whether commits happened. Orders for `load` apply. The status is unknown as long as a late commit has not happened."""

        def check_status() -> Outcome:
            return Unknown(reason=f"simulated: {Fault.LATE}") if self._late else self.store.commit_status(requests)

        target = ", ".join(_dotted(request.identifier) for request in requests)
        outcome: Outcome = self.faults.carry_out("load", target, check_status)
        self._after_load()
        return outcome

    def check(self, identifier: Identifier, location: str, metadata: TableMetadata) -> None:
        self.store.check(identifier, location, metadata)

    def _after_load(self) -> None:
        late_commits, self._late = self._late, []
        for remaining_loads, commit in late_commits:
            if remaining_loads > 1:
                self._late.append((remaining_loads - 1, commit))
            else:
                commit()

    def commit(self, requests: Sequence[CommitRequest]) -> Outcome:
        """Commit with the faults that are ordered; `Fault` describes the faults of a commit."""

        def commit() -> Outcome:
            outcome = self.store.commit(requests)
            if isinstance(outcome, Committed) and self._on_commit is not None:
                for request in requests:
                    self._on_commit(request.identifier, request.new)
            return outcome

        target = ", ".join(f"{_dotted(request.identifier)} {request.new}" for request in requests)
        order = self.faults.take("commit", target)
        if order is None or order.fault not in OF_COMMITS:
            outcome: Outcome = self.faults.carry_out_with(order.fault if order else None, "commit", target, commit)
            return outcome
        return self._commit_with_fault(requests, order, target, commit)

    def _commit_with_fault(self, requests: Sequence[CommitRequest], order: _Order, target: str, commit: Callable[[], Outcome]) -> Outcome:
        """Run or skip a commit as a fault of `OF_COMMITS` requires, and return the outcome that the fault simulates."""
        identifier, new = requests[0].identifier, requests[0].new
        done = order.fault in {Fault.LOST_REPLY, Fault.OVERTAKEN}
        outcome = commit() if done else None
        self.faults.note("commit", target, order.fault, done=isinstance(outcome, Committed))
        if order.fault is Fault.CONFLICT:
            return Conflicted(current_location=self.store.load(identifier).metadata_location)
        if order.fault is Fault.OVERTAKEN:
            if order.meanwhile is not None:
                order.meanwhile()
            current = self.store.load(identifier).metadata_location
            return Committed() if current == new else Conflicted(current_location=current, is_reply_lost=True)
        if order.fault is Fault.LATE:
            self._late.append((order.loads, commit))
        return Unknown(reason=f"simulated: {order.fault}")

    def land_late(self) -> None:
        """Run every commit now that a `LATE` fault has delayed."""
        late_commits, self._late = self._late, []
        for _, commit in late_commits:
            commit()

    def list_namespaces(self, parent: Identifier = ()) -> list[Identifier]:
        namespaces: list[Identifier] = self.faults.carry_out("list_namespaces", _dotted(parent), lambda: self.store.list_namespaces(parent))
        return namespaces

    def namespace_properties(self, namespace: Identifier) -> dict[str, str]:
        properties: dict[str, str] = self.faults.carry_out(
            "namespace_properties", _dotted(namespace), lambda: self.store.namespace_properties(namespace)
        )
        return properties

    def create_namespace(self, namespace: Identifier, properties: Mapping[str, str]) -> None:
        self.faults.carry_out("create_namespace", _dotted(namespace), lambda: self.store.create_namespace(namespace, properties))

    def drop_namespace(self, namespace: Identifier) -> None:
        self.faults.carry_out("drop_namespace", _dotted(namespace), lambda: self.store.drop_namespace(namespace))

    def update_namespace(self, namespace: Identifier, *, removals: frozenset[str], updates: Mapping[str, str]) -> None:
        self.faults.carry_out(
            "update_namespace", _dotted(namespace), lambda: self.store.update_namespace(namespace, removals=removals, updates=updates)
        )

    def list_tables(self, namespace: Identifier) -> list[Identifier]:
        return list(self.faults.carry_out("list_tables", _dotted(namespace), lambda: self.store.list_tables(namespace)))

    def other_tables(self, identifier: Identifier, naming: str = "") -> list[TableLocation]:
        return list(self.faults.carry_out("other_tables", naming, lambda: other_tables(self.store, identifier, naming)))

    def create(self, identifier: Identifier, metadata_location: str) -> str:
        location: str = self.faults.carry_out("create", _dotted(identifier), lambda: self.store.create(identifier, metadata_location))
        return location

    def rename(self, source: Identifier, target: Identifier) -> None:
        self.faults.carry_out("rename", _dotted(source), lambda: self.store.rename(source, target))

    def drop(self, identifier: Identifier, *, expected: str | None = None) -> bool:
        return bool(self.faults.carry_out("drop", _dotted(identifier), lambda: self.store.drop(identifier, expected=expected)))


def _dotted(identifier: Identifier) -> str:
    return ".".join(identifier)


class FaultyFileIO:
    """A storage with injected faults. It can be pickled if the storage and the `meanwhile` functions of the orders can."""

    def __init__(self, io: FileIO, faults: Faults) -> None:
        self.io = io
        self.faults = faults

    def read(self, location: str) -> bytes:
        content: bytes = self.faults.carry_out("read", location, lambda: self.io.read(location))
        return content

    def write(self, location: str, content: Content, *, overwrite: bool = False) -> None:
        """Write a file completely or not at all, even if the process dies during the write."""
        self.faults.carry_out("write", location, lambda: self.io.write(location, content, overwrite=overwrite))

    def exists(self, location: str) -> bool:
        return bool(self.faults.carry_out("exists", location, lambda: self.io.exists(location)))

    def size(self, location: str) -> int:
        return int(self.faults.carry_out("size", location, lambda: self.io.size(location)))

    def delete(self, location: str) -> None:
        self.faults.carry_out("delete", location, lambda: self.io.delete(location))

    def open_input(self, location: str) -> Any:
        return self.faults.carry_out("open_input", location, lambda: self.io.open_input(location))

    def open_output(self, location: str) -> Any:
        """Open a stream to write a file. A stream with a fault writes half of the first bytes and then fails."""
        order = self.faults.take("open_output", location)
        fault = order.fault if order else None
        if fault not in {Fault.HALF, Fault.FULL, Fault.CRASH_AFTER}:
            return self.faults.carry_out_with(fault, "open_output", location, lambda: self.io.open_output(location))
        stream = self.io.open_output(location)
        self.faults.note("open_output", location, fault, done=True)
        return pa.PythonFile(_BreakingOutput(stream, lambda: self._break_off(fault)), mode="w")

    def _break_off(self, fault: Fault | None) -> NoReturn:
        if fault is Fault.FULL:
            raise _os_error(Fault.FULL)
        self.faults.crash()


class _BreakingOutput:
    """A writable file object for PyArrow that writes half of the first bytes and then fails.

    Args:
        stream: The stream to which it writes.
        break_off: Raises the error of the failed write.
    """

    def __init__(self, stream: Any, break_off: Callable[[], NoReturn]) -> None:
        self._stream = stream
        self._break_off = break_off
        self.closed = False

    def write(self, content: Any) -> int:
        """Write half of the content, then fail."""
        part = bytes(content)
        self._stream.write(part[: len(part) // 2])
        self._stream.flush()
        self._break_off()

    def tell(self) -> int:
        """Return 0, because no write ever completes."""
        return 0

    def flush(self) -> None:
        """Do nothing, because a write flushes the stream itself."""

    def close(self) -> None:
        """Close the stream."""
        if not self.closed:
            self.closed = True
            self._stream.close()
