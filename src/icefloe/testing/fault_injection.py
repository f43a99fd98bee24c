"""Faults on order: `FaultyStore` and `FaultyFileIO` wrap any pointer store and any storage, and fail as and when a `Faults` tells them to.

    faults = Faults()
    table = Table(TableHandle(identifier=name, store=FaultyStore(store, faults), io=FaultyFileIO(io, faults)), loaded)
    faults.order("swap", Fault.LOST_REPLY)
    faults.order("write", Fault.FULL, matching="snap-", times=2)

A `Faults` is one process: after a crash all that it wraps stays dead, so that nobody cleans up, until `revive()`. Without a fault an order with `meanwhile`
runs another writer's step at that point, which is how writers are made to interleave. What must hold whatever is ordered is `commit_model.py`.
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

from icefloe.catalog_store.catalog_store import CatalogStore, LocationChange, TableLocation, other_tables
from icefloe.catalog_store.identifier import Identifier
from icefloe.errors import InvalidInputError
from icefloe.kernel.commit.outcome import Committed, Conflicted, Outcome, Unknown
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.ports import FileIO
from icefloe.kernel.storage_errors import storage_error
from icefloe.testing.breaking_output import BreakingOutput

# How long an operation with `Fault.SLOW` takes, in seconds, unless the `Faults` is given another number.
SLOW_S = 0.05


class SimulatedCrash(BaseException):
    """The process is dead from here on. No `Exception`: what cleans up after errors must not be able to."""


class Fault(StrEnum):
    """What goes wrong. The first group is of `swap` alone, `HALF` of writing alone; all else is of every operation."""

    CONFLICT = "conflict"  # nothing is swapped, and the store says that the pointer had moved
    LOST_REPLY = "lost reply"  # swapped; nobody hears of it: the outcome is unknown
    OVERTAKEN = "overtaken"  # swapped, `meanwhile` runs, and the store only sees where the pointer is by then
    LATE = "late"  # the outcome is unknown; the swap lands after the pointer was read again
    UNKNOWN = "unknown"  # the outcome is unknown; nothing was swapped, nor will be

    CRASH = "crash"  # the process dies before the operation
    CRASH_AFTER = "crash after"  # the process dies after it
    HALF = "half"  # the process dies in the middle of a write: a stream has left half its bytes, a whole write nothing
    UNAVAILABLE = "unavailable"  # nothing is done; `StorageUnavailableError`
    UNHEARD = "unheard"  # done, and then `StorageUnavailableError`
    FULL = "full"  # nothing is done; `StorageFullError`
    DENIED = "denied"  # nothing is done; `StoragePermissionError`
    INTERRUPT = "interrupt"  # nothing is done; `KeyboardInterrupt`
    INTERRUPT_AFTER = "interrupt after"  # done, and then `KeyboardInterrupt`
    SLOW = "slow"  # done after a while


OF_SWAPS = frozenset({Fault.CONFLICT, Fault.LOST_REPLY, Fault.OVERTAKEN, Fault.LATE, Fault.UNKNOWN})
OF_WRITES = frozenset({Fault.HALF})
WRITES = frozenset({"write", "open_output"})
_ERRNO = {Fault.UNAVAILABLE: errno.ETIMEDOUT, Fault.UNHEARD: errno.ETIMEDOUT, Fault.FULL: errno.ENOSPC, Fault.DENIED: errno.EACCES}


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One operation as it went: of a store or a storage, on what, with which fault; `done` says whether it had its effect."""

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
    """The schedule of one simulated process, and the log of what it did. Without orders everything works."""

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
        """The next `times` calls (None: all) of an operation, after the first `after` of them, whose location or name contains `matching`.

        Operations are the methods' names: `swap`, `load`, `read`, `write`, `delete`, `open_input`, `open_output`, `exists`, `size`, and those of the store.
        `meanwhile` runs just before the operation; with `OVERTAKEN` between the swap and its answer. `loads` is after how many reads of the pointer a late
        swap lands. Orders are looked at in the order in which they were given, and one call takes one.

        Raises:
            InvalidInputError: the fault is none of this operation.
        """
        if (fault in OF_SWAPS and operation != "swap") or (fault in OF_WRITES and operation not in WRITES):
            raise InvalidInputError(f"{fault} cannot happen to {operation}", next_step="see `Fault` for what each is of")
        with self._lock:
            made = _Order(operation=operation, fault=fault, matching=matching, after=after, times=times, meanwhile=meanwhile, loads=loads)
            self._orders.append(made)

    def forget(self) -> None:
        """Takes back all orders that are left."""
        with self._lock:
            self._orders.clear()

    def revive(self) -> None:
        """The process is started again: what it wraps works, and its orders are gone."""
        self.is_dead = False
        self.forget()

    def crash(self) -> NoReturn:
        """The process dies. Raises `SimulatedCrash`."""
        self.is_dead = True
        raise SimulatedCrash

    def take(self, operation: str, target: str) -> _Order | None:
        """The order that this call falls under, whose `meanwhile` has run. Raises `SimulatedCrash` where the process is dead."""
        if self.is_dead:
            raise SimulatedCrash
        found = self._find(operation, target)
        if found is not None and found.meanwhile is not None and found.fault is not Fault.OVERTAKEN:
            found.meanwhile()
        return found

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
        """Writes the call into the log."""
        with self._lock:
            self.log.append(Event(operation=operation, target=target, fault=fault, done=done))

    def carry_out(self, operation: str, target: str, do: Callable[[], Any]) -> Any:
        """Does the operation, with the fault that is ordered for it, none of them of `OF_SWAPS`."""
        order = self.take(operation, target)
        return self.carry_out_with(order.fault if order else None, operation, target, do)

    def carry_out_with(self, fault: Fault | None, operation: str, target: str, do: Callable[[], Any]) -> Any:
        """Does the operation with this fault."""
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
        """Storage is carried to other processes, which go on with a copy of the schedule."""
        return {key: value for key, value in self.__dict__.items() if key != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.RLock()


def _os_error(fault: Fault) -> OSError:
    return OSError(_ERRNO[fault], os.strerror(_ERRNO[fault]))


class FaultyStore:
    """A pointer store that fails on order. All that is not swapped passes through `Faults.carry_out` under its method's name.

    `on_swap` hears of every swap that really happened, at once, with the name and the new location: the true history of the pointer.
    """

    def __init__(self, store: CatalogStore, faults: Faults, *, on_swap: Callable[[Identifier, str], None] | None = None) -> None:
        self.name = store.name
        self.drops_files = getattr(store, "drops_files", False)  # views have none
        self.store = store
        self.faults = faults
        self._on_swap = on_swap
        self._late: list[tuple[int, Callable[[], Outcome]]] = []  # after how many more loads, and what lands then

    def load(self, identifier: Identifier) -> TableLocation:
        """The pointer; after it a late swap may land."""
        return self.load_all([identifier])[0]

    def load_all(self, identifiers: Sequence[Identifier]) -> list[TableLocation]:
        """See `CatalogStore`; of the orders for `load`."""
        names = ", ".join(map(_shown, identifiers))
        found: list[TableLocation] = self.faults.carry_out("load", names, lambda: self.store.load_all(identifiers))
        self._after_a_look()
        return found

    def commit_status(self, changes: Sequence[LocationChange]) -> Outcome:
        """See `CatalogStore`; of the orders for `load`. As long as a late swap has not landed, nobody can tell how it ended."""

        def look() -> Outcome:
            return Unknown(reason=f"simulated: {Fault.LATE}") if self._late else self.store.commit_status(changes)

        target = ", ".join(_shown(change.identifier) for change in changes)
        outcome: Outcome = self.faults.carry_out("load", target, look)
        self._after_a_look()
        return outcome

    def check(self, identifier: Identifier, location: str, metadata: TableMetadata) -> None:
        """See `CatalogStore`."""
        self.store.check(identifier, location, metadata)

    def _after_a_look(self) -> None:
        waiting, self._late = self._late, []
        for left, land in waiting:
            if left > 1:
                self._late.append((left - 1, land))
            else:
                land()

    def swap(self, identifier: Identifier, *, expected: str, new: str) -> Outcome:
        """See `CatalogStore.swap`, and `Fault` for what may become of it."""
        return self._swap([LocationChange(identifier=identifier, expected=expected, new=new)])

    def swap_together(self, changes: Sequence[LocationChange]) -> Outcome:
        """See `CatalogStore.swap_together`; of the orders for `swap`."""
        return self._swap(changes)

    def _swap(self, changes: Sequence[LocationChange]) -> Outcome:
        def swap() -> Outcome:
            first = changes[0]
            if len(changes) == 1 and first.expected is not None:
                outcome = self.store.swap(first.identifier, expected=first.expected, new=first.new)
            else:
                outcome = self.store.swap_together(changes)
            if isinstance(outcome, Committed) and self._on_swap is not None:
                for change in changes:
                    self._on_swap(change.identifier, change.new)
            return outcome

        target = ", ".join(f"{_shown(change.identifier)} {change.new}" for change in changes)
        order = self.faults.take("swap", target)
        if order is None or order.fault not in OF_SWAPS:
            outcome: Outcome = self.faults.carry_out_with(order.fault if order else None, "swap", target, swap)
            return outcome
        return self._unheard(changes, order, target, swap)

    def _unheard(self, changes: Sequence[LocationChange], order: _Order, target: str, swap: Callable[[], Outcome]) -> Outcome:
        """The swap with a fault that hides how it ended."""
        identifier, new = changes[0].identifier, changes[0].new
        done = order.fault in {Fault.LOST_REPLY, Fault.OVERTAKEN}
        outcome = swap() if done else None
        self.faults.note("swap", target, order.fault, done=isinstance(outcome, Committed))
        if order.fault is Fault.CONFLICT:
            return Conflicted(current_location=self.store.load(identifier).metadata_location)
        if order.fault is Fault.OVERTAKEN:
            if order.meanwhile is not None:
                order.meanwhile()
            found = self.store.load(identifier).metadata_location
            return Committed() if found == new else Conflicted(current_location=found, is_reply_lost=True)
        if order.fault is Fault.LATE:
            self._late.append((order.loads, swap))
        return Unknown(reason=f"simulated: {order.fault}")

    def land_late(self) -> None:
        """Lets every late swap land now."""
        waiting, self._late = self._late, []
        for _, land in waiting:
            land()

    def list_namespaces(self, parent: Identifier = ()) -> list[Identifier]:
        """See `CatalogStore`."""
        found: list[Identifier] = self.faults.carry_out("list_namespaces", _shown(parent), lambda: self.store.list_namespaces(parent))
        return found

    def namespace_properties(self, namespace: Identifier) -> dict[str, str]:
        """See `CatalogStore`."""
        found: dict[str, str] = self.faults.carry_out(
            "namespace_properties", _shown(namespace), lambda: self.store.namespace_properties(namespace)
        )
        return found

    def create_namespace(self, namespace: Identifier, properties: Mapping[str, str]) -> None:
        """See `CatalogStore`."""
        self.faults.carry_out("create_namespace", _shown(namespace), lambda: self.store.create_namespace(namespace, properties))

    def drop_namespace(self, namespace: Identifier) -> None:
        """See `CatalogStore`."""
        self.faults.carry_out("drop_namespace", _shown(namespace), lambda: self.store.drop_namespace(namespace))

    def update_namespace(self, namespace: Identifier, *, removals: frozenset[str], updates: Mapping[str, str]) -> None:
        """See `CatalogStore`."""
        self.faults.carry_out(
            "update_namespace", _shown(namespace), lambda: self.store.update_namespace(namespace, removals=removals, updates=updates)
        )

    def list_tables(self, namespace: Identifier) -> list[Identifier]:
        """See `CatalogStore`."""
        return list(self.faults.carry_out("list_tables", _shown(namespace), lambda: self.store.list_tables(namespace)))

    def other_tables(self, identifier: Identifier, naming: str = "") -> list[TableLocation]:
        return list(self.faults.carry_out("other_tables", naming, lambda: other_tables(self.store, identifier, naming)))

    def create(self, identifier: Identifier, metadata_location: str) -> str:
        """See `CatalogStore`."""
        location: str = self.faults.carry_out("create", _shown(identifier), lambda: self.store.create(identifier, metadata_location))
        return location

    def rename(self, source: Identifier, target: Identifier) -> None:
        """See `CatalogStore`."""
        self.faults.carry_out("rename", _shown(source), lambda: self.store.rename(source, target))

    def drop(self, identifier: Identifier, *, expected: str | None = None) -> bool:
        """See `CatalogStore`."""
        return bool(self.faults.carry_out("drop", _shown(identifier), lambda: self.store.drop(identifier, expected=expected)))


def _shown(identifier: Identifier) -> str:
    return ".".join(identifier)


class FaultyFileIO:
    """A storage that fails on order. It pickles as far as the storage and the `meanwhile` of its orders do."""

    def __init__(self, io: FileIO, faults: Faults) -> None:
        self.io = io
        self.faults = faults

    def read(self, location: str) -> bytes:
        """See `FileIO`."""
        content: bytes = self.faults.carry_out("read", location, lambda: self.io.read(location))
        return content

    def write(self, location: str, content: bytes, *, overwrite: bool = False) -> None:
        """See `FileIO`: whole or not at all, also where the process dies in the middle."""
        self.faults.carry_out("write", location, lambda: self.io.write(location, content, overwrite=overwrite))

    def exists(self, location: str) -> bool:
        """See `FileIO`."""
        return bool(self.faults.carry_out("exists", location, lambda: self.io.exists(location)))

    def size(self, location: str) -> int:
        """See `FileIO`."""
        return int(self.faults.carry_out("size", location, lambda: self.io.size(location)))

    def delete(self, location: str) -> None:
        """See `FileIO`."""
        self.faults.carry_out("delete", location, lambda: self.io.delete(location))

    def open_input(self, location: str) -> Any:
        """See `FileIO`."""
        return self.faults.carry_out("open_input", location, lambda: self.io.open_input(location))

    def open_output(self, location: str) -> Any:
        """See `FileIO`. A stream with a fault takes half of what is written to it, and then fails as the fault says."""
        order = self.faults.take("open_output", location)
        fault = order.fault if order else None
        if fault not in {Fault.HALF, Fault.FULL, Fault.CRASH_AFTER}:
            return self.faults.carry_out_with(fault, "open_output", location, lambda: self.io.open_output(location))
        stream = self.io.open_output(location)
        self.faults.note("open_output", location, fault, done=True)
        return pa.PythonFile(BreakingOutput(stream, lambda: self._break_off(fault)), mode="w")

    def _break_off(self, fault: Fault | None) -> NoReturn:
        if fault is Fault.FULL:
            raise _os_error(Fault.FULL)
        self.faults.crash()
