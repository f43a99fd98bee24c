"""Many writers on one table, some of them stale, with faults at every call of storage and catalog, against a plain model: nothing is lost, torn or done twice.

A step is one operation of one writer. Its plan orders faults, and other writers' steps in the middle of it: before the n-th call of a port, or between a swap
and its answer.
"""

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from icefloe import LongType
from icefloe.io.memory import MemoryFileIO
from icefloe.kernel.metadata.new_table import new_table_metadata
from icefloe.kernel.partitioning.partition_spec import UNPARTITIONED_SPEC, partition_spec_from_text
from icefloe.kernel.partitioning.sort_order import UNSORTED_SORT_ORDER
from icefloe.kernel.schema.arrow import schema_from_arrow
from icefloe.kernel.schema.schema import assign_fresh_ids
from icefloe.pointer.sql import SqlPointerStore
from icefloe.table import Table
from icefloe.table.handle import TableHandle, load_metadata, write_new_metadata
from icefloe.table.system import RandomIds
from icefloe.testing.faults import OF_SWAPS, Fault, Faults, FaultyFileIO, FaultyStore
from icefloe.testing.model import Bag, CommitModel, Effect, Properties, Rows

NAME = ("db", "t")
COLUMNS = ("uid", "part", "value")
SCHEMA = pa.schema([("uid", pa.int64()), ("part", pa.string()), ("value", pa.int64())])
WRITERS = 4
# Nobody waits in a test.
PATIENCE = {
    "commit.retry.min-wait-ms": "0",
    "commit.retry.max-wait-ms": "0",
    "commit.status-check.min-wait-ms": "0",
    "commit.status-check.max-wait-ms": "0",
}
FILTERS: dict[str, Callable[[tuple[Any, ...]], bool]] = {
    "part = 'a'": lambda row: row[1] == "a",
    "value < 3": lambda row: row[2] < 3,
    "value = 4": lambda row: row[2] == 4,
    "uid < 20 and value > 5": lambda row: row[0] < 20 and row[2] > 5,
    "true": lambda row: True,
}

VALUES = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9)), min_size=1, max_size=6)
FILTER = st.sampled_from(sorted(FILTERS))
# A part of an operation: its name and its arguments.
PART = st.one_of(
    st.tuples(st.just("append"), VALUES),
    st.tuples(st.just("delete"), FILTER),
    st.tuples(st.just("overwrite"), FILTER, VALUES),
    st.tuples(st.just("delete_keys"), st.sampled_from(["uid", "value"]), st.lists(st.integers(0, 9), min_size=1, max_size=3)),
)
OPERATION = st.one_of(
    PART,
    st.tuples(st.just("together"), st.lists(PART, min_size=1, max_size=3)),
    st.tuples(st.just("property"), st.integers(0, 3), st.integers(0, 9)),
    st.tuples(st.just("mode"), st.sampled_from(["copy-on-write", "merge-on-read"])),
    st.tuples(st.just("add_column")),
)
FILE_FAULTS = [fault for fault in Fault if fault not in OF_SWAPS and fault is not Fault.HALF]
# What a store may answer to a swap: its contract is that it raises for nothing that has to do with storage.
SWAP_FAULTS = [*OF_SWAPS, Fault.CRASH, Fault.CRASH_AFTER, Fault.INTERRUPT, Fault.INTERRUPT_AFTER, Fault.SLOW]
# Where a fault happens: the operation of a port, how many calls of it go well before, and for how many calls it lasts.
FAULT = st.one_of(
    st.tuples(st.just("swap"), st.sampled_from(SWAP_FAULTS), st.integers(0, 1), st.integers(1, 4)),
    st.tuples(st.sampled_from(["load", "read"]), st.sampled_from(FILE_FAULTS), st.integers(0, 4), st.integers(1, 3)),
    st.tuples(st.sampled_from(["write", "open_output"]), st.sampled_from([*FILE_FAULTS, Fault.HALF]), st.integers(0, 3), st.integers(1, 2)),
    st.tuples(st.just("delete"), st.sampled_from(FILE_FAULTS), st.integers(0, 2), st.integers(1, 9)),
)


@dataclass(frozen=True, kw_only=True)
class Step:
    """One operation of the writer, counted from those that are free; `faults`; and steps of others before the n-th call of a port's operation."""

    writer: int
    operation: tuple[Any, ...]
    faults: Sequence[tuple[str, Fault, int, int]]
    meanwhile: Sequence[tuple[str, int, "Step"]]
    before: str  # what the writer does first


def steps(depth: int) -> st.SearchStrategy[Step]:
    inner = st.nothing() if depth == 0 else steps(depth - 1)
    pause = st.tuples(st.sampled_from(["swap", "swap", "overtake", "load", "read", "write"]), st.integers(0, 2), inner)
    return st.builds(
        Step,
        writer=st.integers(0, WRITERS - 1),
        operation=OPERATION,
        faults=st.one_of(st.just(()), st.lists(FAULT, max_size=2)),
        meanwhile=st.just(()) if depth == 0 else st.one_of(st.just(()), st.lists(pause, max_size=2)),
        before=st.sampled_from(["refresh", "refresh", "stay", "stay", "restart"]),
    )


class Writer:
    """One process: its faults, and the table as it last saw it."""

    def __init__(self, name: str, store: SqlPointerStore, model: CommitModel) -> None:
        self.name = name
        self.is_free = True
        self.faults = Faults(slow_s=0)
        self.store = FaultyStore(store, self.faults, on_swap=model.swapped)
        self.handle = TableHandle(identifier=NAME, store=self.store, io=FaultyFileIO(MemoryFileIO(), self.faults))
        self.start()

    def start(self) -> None:
        self.faults.revive()
        self.table = Table(self.handle, load_metadata(self.handle))


class ManyWriters(RuleBasedStateMachine):
    """The table, its model, and the writers."""

    taken = 0

    @initialize(
        version=st.sampled_from([1, 2, 3, 3]),
        spec=st.sampled_from([(), ("part",)]),
        mode=st.sampled_from(["copy-on-write", "merge-on-read"]),
    )
    def create(self, version: int, spec: tuple[str, ...], mode: str) -> None:
        self.io = MemoryFileIO()
        self.inner = SqlPointerStore("lake", "sqlite://")
        self.inner.create_namespace(("db",), {})
        folder = f"memory://model/{RandomIds().uuid()}"
        schema = assign_fresh_ids(schema_from_arrow(SCHEMA, keep_ids=False))
        metadata = new_table_metadata(
            location=folder,
            schema=schema,
            spec=partition_spec_from_text(schema, spec) if spec else UNPARTITIONED_SPEC,
            sort_order=UNSORTED_SORT_ORDER,
            properties={"format-version": str(version), "write.delete.mode": mode, **PATIENCE},
            table_uuid=RandomIds().uuid(),
            now_ms=1,
        )
        location = write_new_metadata(self.io, RandomIds(), metadata, previous_location=None)
        self.inner.create(NAME, location)
        self.model = CommitModel(self.io, location)
        self.writers = [Writer(f"writer {number}", self.inner, self.model) for number in range(WRITERS)]
        self.next_uid = 0

    @rule(step=steps(2))
    def step(self, step: Step) -> None:
        """One step, with all that happens meanwhile; then the table reads as the model says."""
        self.run_step(step)
        for writer in self.writers:
            assert writer.is_free
        fresh = Table(
            TableHandle(identifier=NAME, store=self.inner, io=self.io),
            load_metadata(TableHandle(identifier=NAME, store=self.inner, io=self.io)),
        )
        self.model.check_reading(fresh, COLUMNS)

    def run_step(self, step: Step) -> None:
        free = [writer for writer in self.writers if writer.is_free]
        if not free:
            return
        writer = free[step.writer % len(free)]
        writer.is_free = False
        type(self).taken += 1
        if step.before == "refresh":
            writer.table.refresh()
        elif step.before == "restart":  # its process ends without a word; what it left in flight may land first
            writer.store.land_late()
            writer.start()
        self.order(writer, step)
        do, effects = self.operation(step.operation)
        with self.model.commit(writer.name, writer.faults, writer.table, effects):
            do(writer.table)
        if writer.faults.is_dead:
            writer.start()
        writer.faults.forget()
        writer.is_free = True

    def order(self, writer: Writer, step: Step) -> None:
        for operation, after, inner in step.meanwhile:
            run = lambda inner=inner: self.run_step(inner)  # noqa: E731
            if operation == "overtake":
                writer.faults.order("swap", Fault.OVERTAKEN, after=after, meanwhile=run)
            else:
                writer.faults.order(operation, after=after, meanwhile=run)
        for operation, fault, after, times in step.faults:
            writer.faults.order(operation, fault, after=after, times=times)

    def operation(self, chosen: tuple[Any, ...]) -> tuple[Callable[[Any], None], list[Effect]]:
        """What to call, and what it does to the model."""
        name, *arguments = chosen
        return getattr(self, name)(*arguments)

    def rows(self, values: list[tuple[str, int]]) -> tuple[pa.Table, Bag]:
        rows = []
        for part, value in values:
            rows.append((self.next_uid, part, value))
            self.next_uid += 1
        return pa.Table.from_pylist([dict(zip(COLUMNS, row, strict=True)) for row in rows], schema=SCHEMA), Counter(rows)

    def append(self, values: list[Any]) -> Any:
        table, rows = self.rows(values)
        return lambda t: t.append(table), [Rows(change=lambda before: before + rows)]

    def delete(self, text: str) -> Any:
        return lambda t: t.delete(text), [Rows(change=without(FILTERS[text]), may_be_idle=True)]

    def overwrite(self, text: str, values: list[Any]) -> Any:
        (table, rows), change = self.rows(values), without(FILTERS[text])
        return lambda t: t.overwrite(table, text), [Rows(change=lambda before: change(before) + rows)]

    def delete_keys(self, column: str, keys: list[int]) -> Any:
        place = COLUMNS.index(column)
        rows = pa.table({column: pa.array(keys, pa.int64())})
        return lambda t: t.delete_keys(rows, [column]), [Rows(change=without(lambda row: row[place] in keys), may_be_idle=True)]

    def together(self, parts: list[tuple[Any, ...]]) -> Any:
        made = [self.operation(part) for part in parts]

        def do(table: Table) -> None:
            with table.transaction() as tx:
                for one, _ in made:
                    one(tx)

        return do, [effect for _, effects in made for effect in effects]

    def property(self, number: int, value: int) -> Any:
        values = {f"model.{number}": f"{value}"}
        return lambda t: t.set_properties(values), [Properties(values=values)]

    def mode(self, mode: str) -> Any:
        values = {"write.delete.mode": mode}
        return lambda t: t.set_properties(values), [Properties(values=values)]

    def add_column(self) -> Any:
        def do(table: Table) -> None:
            with table.update_schema() as update:
                update.add_column(f"c{table.metadata.last_column_id}", LongType())

        return do, []

    def teardown(self) -> None:
        if hasattr(self, "model"):
            for writer in self.writers:
                writer.store.land_late()
            self.model.check()


def without(matches: Callable[[tuple[Any, ...]], bool]) -> Callable[[Bag], Bag]:
    return lambda rows: Counter({row: count for row, count in rows.items() if not matches(row)})


def run(examples: int, steps_each: int, *, derandomize: bool) -> int:
    """Runs the model, and returns how many operations there were."""
    ManyWriters.taken = 0
    run_state_machine_as_test(
        ManyWriters,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps_each,
            deadline=None,
            derandomize=derandomize,
            suppress_health_check=list(HealthCheck),
        ),
    )
    return ManyWriters.taken


def test_many_writers_with_faults_lose_nothing_and_tear_nothing() -> None:
    assert run(12, 30, derandomize=True) > 200


@pytest.mark.slow
def test_ten_thousand_steps_of_many_writers_with_faults() -> None:
    examples = int(os.environ.get("ICEFLOE_MODEL_EXAMPLES", "250"))
    assert run(examples, 50, derandomize=False) >= 40 * examples
