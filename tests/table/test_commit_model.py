"""Many writers on one table, some of them stale, with faults at every call of storage and catalog, compared with a plain model of the commits.

No commit is lost, applied in part or applied twice. A step is one operation of one writer. It orders faults, and steps of other writers during it: before the
n-th call of a port, or between a compare-and-swap and its reply.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from tests.commit_effects import (
    Bag,
    BranchOfEmptyTable,
    CherryPick,
    Effect,
    Expiry,
    Files,
    MergeOnReadDelete,
    Properties,
    Refs,
    Rows,
)
from tests.commit_model import CommitModel
from tests.reference_reader import ReferenceReader
from tests.repetitions import examples

from icefloe import LongType
from icefloe.datafile.deletes.delete_file_output import RowsToDelete, write_position_deletes, write_vectors
from icefloe.datafile.deletes.delete_loader import DeleteLoader
from icefloe.errors import CommitInvalidatedError, CommitUnknownError
from icefloe.io.memory_file_io import MemoryFileIO
from icefloe.maintenance.maintenance_report import ActionState, MaintenanceReport
from icefloe.operations import commit_retries
from icefloe.operations.available_engines import IN_PROCESS
from icefloe.operations.metadata_cache import load_metadata
from icefloe.operations.rows.row_change import specs_of
from icefloe.operations.rows.write_context import write_target
from icefloe.operations.staging import write_audit_publish
from icefloe.operations.table_handle import RandomIds, TableHandle, metadata_content, new_metadata_location
from icefloe.scan.scan_planner import plan_scan
from icefloe.spec.expressions.predicate import AlwaysTrue
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.metadata.metadata_writer import write_table_metadata
from icefloe.spec.metadata.new_table import new_table_metadata
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.partitioning.partition_spec import UNPARTITIONED_SPEC, partition_spec_from_text
from icefloe.spec.partitioning.sort_order import UNSORTED_SORT_ORDER
from icefloe.spec.schema.arrow_schema import schema_from_arrow
from icefloe.spec.schema.schema import assign_fresh_ids
from icefloe.stores.sql_store import SqlCatalogStore
from icefloe.table import Table
from icefloe.table.transaction import Transaction
from icefloe.testing.fault_injection import OF_COMMITS, Fault, Faults, FaultyFileIO, FaultyStore

NAME = ("db", "t")
COLUMNS = ("uid", "part", "value")
SCHEMA = pa.schema([("uid", pa.int64()), ("part", pa.string()), ("value", pa.int64())])
WRITERS = 4
# Tests do not wait between attempts.
PATIENCE = {
    "commit.retry.min-wait-ms": "0",
    "commit.retry.max-wait-ms": "0",
    "commit.status-check.min-wait-ms": "0",
    "commit.status-check.max-wait-ms": "0",
    "commit.manifest.min-count-to-merge": "4",
}
# Properties by which `maintain` has different work: it expires what nothing refers to; converts deletes that a rewrite would apply; rewrites manifests.
POLICIES: list[Mapping[str, str]] = [
    {"history.expire.max-snapshot-age-ms": "1"},
    {"maintenance.skip-actions": "rewrite-data-files"},
    {"maintenance.skip-actions": "rewrite-data-files, convert-equality-deletes", "commit.manifest-merge.enabled": "false"},
]
FILTERS: dict[str, Callable[[tuple[Any, ...]], bool]] = {
    "part = 'a'": lambda row: row[1] == "a",
    "value < 3": lambda row: row[2] < 3,
    "value = 4": lambda row: row[2] == 4,
    "uid < 20 and value > 5": lambda row: row[0] < 20 and row[2] > 5,
    "true": lambda row: True,
}

VALUES = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9)), min_size=1, max_size=6)
FILTER = st.sampled_from(sorted(FILTERS))
# An operation: its name and its arguments.
BRANCH = st.sampled_from(["main", "main", "main", "b"])
ROWS = st.one_of(
    st.tuples(st.just("append"), BRANCH, VALUES),
    st.tuples(st.just("delete"), BRANCH, FILTER),
    st.tuples(st.just("overwrite"), BRANCH, FILTER, VALUES),
    st.tuples(st.just("delete_keys"), BRANCH, st.sampled_from(["uid", "value"]), st.lists(st.integers(0, 9), min_size=1, max_size=3)),
    st.tuples(st.just("upsert"), BRANCH, st.lists(st.integers(0, 30), min_size=1, max_size=3, unique=True), VALUES),
    st.tuples(st.just("overwrite_partitions"), BRANCH, VALUES),
)
FILES = st.one_of(
    st.tuples(st.just("append_file"), BRANCH, st.sampled_from(["fast_append", "merge_append"]), VALUES),
    st.tuples(st.just("delete_file"), BRANCH, st.integers(0, 9)),
    st.tuples(st.just("overwrite_file"), BRANCH, st.integers(0, 9), VALUES),
    st.tuples(st.just("rewrite_file"), BRANCH, st.integers(0, 9)),
    st.tuples(st.just("row_delta"), BRANCH, st.integers(0, 9), VALUES),
    st.tuples(st.just("add_files"), BRANCH, VALUES),
    st.tuples(st.just("rewrite_manifests"), BRANCH),
)
# Operations of `table.maintenance`, which are no part of a transaction.
MAINTENANCE = st.one_of(
    st.tuples(st.just("compact"), BRANCH, st.sampled_from([None, "value DESC", "zorder(uid, value)"]), st.booleans()),
    st.tuples(st.just("remove_dangling_deletes"), BRANCH),
    st.tuples(st.just("convert_equality_deletes"), BRANCH, st.booleans()),
    st.tuples(st.just("rewrite_position_delete_files"), BRANCH, st.booleans()),
    st.tuples(st.just("maintain"), BRANCH),
    st.tuples(st.just("maintain"), BRANCH),
)
# A failure of an action that is no error of Icefloe, as the report of `maintain` shows it.
FOREIGN_ERROR = re.compile(r"\b[A-Z]\w*(Error|Exception|Warning): ")
REFS = st.one_of(
    st.tuples(st.just("create_branch")),
    st.tuples(st.just("remove_branch")),
    st.tuples(st.just("tag"), st.sampled_from("xy")),
    st.tuples(st.just("fast_forward"), st.sampled_from([("main", "b"), ("b", "main")])),
    st.tuples(st.just("replace_branch")),
    st.tuples(st.just("rollback"), st.integers(1, 3)),
    st.tuples(st.just("pick"), st.integers(0, 9)),
)
OTHER = st.one_of(
    st.tuples(st.just("expire"), st.integers(1, 3)),
    st.tuples(st.just("stage"), VALUES),
    st.tuples(st.just("statistics")),
    st.tuples(st.just("audited"), VALUES),
)
PART = st.one_of(ROWS, ROWS, FILES, REFS)
OPERATION = st.one_of(
    ROWS,
    ROWS,
    FILES,
    REFS,
    MAINTENANCE,
    OTHER,
    st.tuples(st.just("together"), st.lists(PART, min_size=1, max_size=3)),
    st.tuples(st.just("property"), st.integers(0, 3), st.integers(0, 9)),
    st.tuples(st.just("mode"), st.sampled_from(["copy-on-write", "merge-on-read"])),
    st.tuples(st.just("add_column")),
    st.tuples(st.just("upgrade"), st.sampled_from([2, 3])),
    st.tuples(st.just("change_spec"), st.sampled_from(["bucket[4]", "truncate[3]"])),
)
FILE_FAULTS = [fault for fault in Fault if fault not in OF_COMMITS and fault is not Fault.HALF]
# Faults of a compare-and-swap. A store that raises a storage error violates its contract; no commit may be lost by that either.
SWAP_FAULTS = [*OF_COMMITS, *FILE_FAULTS]
# The place of a fault: the operation of a port, how many of its calls succeed before, and for how many calls the fault lasts.
FAULT = st.one_of(
    st.tuples(st.just("commit"), st.sampled_from(SWAP_FAULTS), st.integers(0, 1), st.integers(1, 4)),
    st.tuples(st.sampled_from(["load", "read"]), st.sampled_from(FILE_FAULTS), st.integers(0, 4), st.integers(1, 3)),
    st.tuples(st.sampled_from(["write", "open_output"]), st.sampled_from([*FILE_FAULTS, Fault.HALF]), st.integers(0, 3), st.integers(1, 2)),
    st.tuples(st.just("delete"), st.sampled_from(FILE_FAULTS), st.integers(0, 2), st.integers(1, 9)),
)


@dataclass(frozen=True, kw_only=True)
class Step:
    """One operation of a writer, with its faults, and with steps of other writers before the n-th call of a port's operation.

    `writer` is a number among the writers that run no operation.
    """

    writer: int
    operation: tuple[Any, ...]
    faults: Sequence[tuple[str, Fault, int, int]]
    meanwhile: Sequence[tuple[str, int, "Step"]]
    before: str  # refresh the table, keep it, or restart the process


def steps(depth: int) -> st.SearchStrategy[Step]:
    inner = st.nothing() if depth == 0 else steps(depth - 1)
    pause = st.tuples(st.sampled_from(["commit", "commit", "overtake", "load", "read", "write"]), st.integers(0, 2), inner)
    return st.builds(
        Step,
        writer=st.integers(0, WRITERS - 1),
        operation=OPERATION,
        faults=st.one_of(st.just(()), st.lists(FAULT, max_size=2)),
        meanwhile=st.just(()) if depth == 0 else st.one_of(st.just(()), st.lists(pause, max_size=2)),
        before=st.sampled_from(["refresh", "refresh", "stay", "stay", "restart"]),
    )


Operation = tuple[Callable[[Any], Any], list[Effect]]


def metadata_of(table: Any) -> TableMetadata:
    """Return the metadata of a table or of a transaction, on which the next change is based."""
    return table.table_metadata if isinstance(table, Transaction) else table.metadata


class StagedFileReader:
    """Reader of the files of a storage, and of the files that a transaction has not write_files yet."""

    def __init__(self, io: MemoryFileIO, table: Any) -> None:
        self.read = table.mutation_context().read if isinstance(table, Transaction) else io.read


def live_file(table: Any, io: MemoryFileIO, branch: str, number: int) -> DataFile | None:
    """Return a data file of a branch in the metadata of the writer; None if the branch has none."""
    metadata = metadata_of(table)
    if branch not in metadata.refs:
        return None
    read = StagedFileReader(io, table).read
    tasks = plan_scan(metadata, metadata.snapshot_by_id(metadata.refs[branch].snapshot_id), AlwaysTrue(), read).tasks()
    files = sorted((task.file for task in tasks), key=lambda file: file.file_path)
    return files[number % len(files)] if files else None


class Writer:
    """One process: its faults, and the table as it last loaded it."""

    def __init__(self, name: str, store: SqlCatalogStore, model: CommitModel) -> None:
        self.name = name
        self.is_free = True
        self.faults = Faults(slow_s=0)
        self.store = FaultyStore(store, self.faults, on_commit=model.swapped)
        self.handle = TableHandle(identifier=NAME, store=self.store, io=FaultyFileIO(MemoryFileIO(), self.faults))
        self.start()

    def start(self) -> None:
        self.faults.revive()
        self.table = Table(self.handle, load_metadata(self.handle))


class ManyWriters(RuleBasedStateMachine):
    """The state machine with the table, its model, and the writers."""

    taken = 0
    maintained: ClassVar[Counter[str]] = Counter()  # actions of `maintain` that changed the table

    @initialize(
        version=st.sampled_from([1, 2, 3, 3]),
        spec=st.sampled_from([(), ("part",)]),
        mode=st.sampled_from(["copy-on-write", "merge-on-read"]),
        evolves=st.booleans(),
        policy=st.sampled_from(POLICIES),
    )
    def create(self, version: int, spec: tuple[str, ...], mode: str, evolves: bool, policy: Mapping[str, str]) -> None:
        """Create the table, its model and the writers.

        With `evolves` the partition spec changes, and no operation overwrites partitions, because the model computes them by the first spec only.
        """
        self.io, self.spec, self.evolves = MemoryFileIO(), spec, evolves
        self.inner = SqlCatalogStore("lake", "sqlite://")
        self.inner.create_namespace(("db",), {})
        folder = f"memory://model/{RandomIds().uuid()}"
        schema = assign_fresh_ids(schema_from_arrow(SCHEMA, keep_ids=False))
        metadata = new_table_metadata(
            location=folder,
            schema=schema,
            spec=partition_spec_from_text(schema, spec) if spec else UNPARTITIONED_SPEC,
            sort_order=UNSORTED_SORT_ORDER,
            properties={
                "format-version": str(version),
                "write.delete.mode": mode,
                "write.merge.mode": mode,
                "write.wap.enabled": "true",
                "maintenance.compute-table-stats": "true",
                **policy,
                **PATIENCE,
            },
            table_uuid=RandomIds().uuid(),
            now_ms=1,
        )
        location = new_metadata_location(RandomIds(), metadata, previous_location=None)
        self.io.write(location, metadata_content(metadata))
        self.inner.create(NAME, location)
        self.model = CommitModel(self.io, location)
        self.writers = [Writer(f"writer {number}", self.inner, self.model) for number in range(WRITERS)]
        self.next_uid = 0

    @rule(step=steps(2))
    def step(self, step: Step) -> None:
        """Run one step and the steps during it; then check that the table reads as the model requires."""
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
        elif step.before == "restart":  # its process ends; a compare-and-swap in flight is applied first
            writer.store.land_late()
            writer.start()
        self.order(writer, step)
        do, effects = self.operation(step.operation)
        with self.model.commit(writer.name, writer.faults, writer.table, effects) as commit:
            commit.report = do(writer.table)
        if writer.faults.is_dead:
            writer.start()
        writer.faults.clear_orders()
        writer.is_free = True

    def order(self, writer: Writer, step: Step) -> None:
        for operation, after, inner in step.meanwhile:
            run = partial(Context().run, self.run_step, inner)  # another process, without the context settings of this one
            if operation == "overtake":
                writer.faults.order("commit", Fault.OVERTAKEN, after=after, meanwhile=run)
            else:
                writer.faults.order(operation, after=after, meanwhile=run)
        for operation, fault, after, times in step.faults:
            writer.faults.order(operation, fault, after=after, times=times)

    def operation(self, chosen: tuple[Any, ...]) -> Operation:
        """Return the call of an operation, and its effects on the model."""
        name, *arguments = chosen
        return getattr(self, name)(*arguments)

    def rows(self, values: list[tuple[str, int]]) -> tuple[pa.Table, Bag]:
        rows = []
        for part, value in values:
            rows.append((self.next_uid, part, value))
            self.next_uid += 1
        return pa.Table.from_pylist([dict(zip(COLUMNS, row, strict=True)) for row in rows], schema=SCHEMA), Counter(rows)

    def append(self, branch: str, values: list[Any]) -> Operation:
        table, rows = self.rows(values)
        return lambda t: t.append(table, branch=branch), [Rows(branch=branch, change=lambda before: before + rows)]

    def delete(self, branch: str, text: str) -> Operation:
        return lambda t: t.delete(text, branch=branch), [Rows(branch=branch, change=without(FILTERS[text]), may_be_idle=True)]

    def overwrite(self, branch: str, text: str, values: list[Any]) -> Operation:
        (table, rows), change = self.rows(values), without(FILTERS[text])
        return lambda t: t.overwrite(table, text, branch=branch), [Rows(branch=branch, change=lambda before: change(before) + rows)]

    def delete_keys(self, branch: str, column: str, keys: list[int]) -> Operation:
        place = COLUMNS.index(column)
        rows = pa.table({column: pa.array(keys, pa.int64())})
        effect = Rows(branch=branch, change=without(lambda row: row[place] in keys), may_be_idle=True)
        return lambda t: t.delete_keys(rows, [column], branch=branch), [effect]

    def upsert(self, branch: str, uids: list[int], values: list[Any]) -> Operation:
        """Upsert some rows that may exist, and some new ones."""
        _, new = self.rows(values)
        old = [(uid, *values[uid % len(values)]) for uid in uids if uid < self.next_uid - len(values)]
        source = Counter([*new.elements(), *old])
        ids = {row[0] for row in source}
        rows = pa.Table.from_pylist([dict(zip(COLUMNS, row, strict=True)) for row in source], schema=SCHEMA)
        effect = Rows(branch=branch, change=lambda before: without(lambda row: row[0] in ids)(before) + source, may_be_idle=True)
        return lambda t: t.upsert(rows, ["uid"], branch=branch), [effect]

    def overwrite_partitions(self, branch: str, values: list[Any]) -> Operation:
        if self.evolves:
            return self.append(branch, values)
        table, rows = self.rows(values)
        gone = {part for part, _ in values} if self.spec else {"a", "b"}
        effect = Rows(branch=branch, change=lambda before: without(lambda row: row[1] in gone)(before) + rows)
        return lambda t: t.dynamic_partition_overwrite(table, branch=branch), [effect]

    def write_files(self, rows: pa.Table) -> list[DataFile]:
        """Write data files that no snapshot contains, with the writer of the table."""
        quiet = TableHandle(identifier=NAME, store=self.inner, io=self.io)
        return list(IN_PROCESS.write(rows, write_target(quiet, load_metadata(quiet).metadata)))

    def append_file(self, branch: str, kind: str, values: list[Any]) -> Operation:
        table, rows = self.rows(values)
        files = self.write_files(table)

        def do(t: Any) -> None:
            with getattr(t.update_snapshot(branch=branch), kind)() as update:
                for file in files:
                    update.append_file(file)

        return do, [Rows(branch=branch, change=lambda before: before + rows)]

    def delete_file(self, branch: str, number: int) -> Operation:
        effects: list[Effect] = []

        def do(t: Any) -> None:
            file = live_file(t, self.io, branch, number)
            if file is not None:
                effects.append(Files(branch=branch, removed={file.file_path}, added=Counter()))
                with t.update_snapshot(branch=branch).delete_files() as update:
                    update.delete_file(file).validate_files_exist()

        return do, effects

    def overwrite_file(self, branch: str, number: int, values: list[Any]) -> Operation:
        effects: list[Effect] = []
        table, rows = self.rows(values)
        files = self.write_files(table)

        def do(t: Any) -> None:
            file = live_file(t, self.io, branch, number)
            if file is not None:
                effects.append(Files(branch=branch, removed={file.file_path}, added=rows))
                with t.update_snapshot(branch=branch).overwrite() as update:
                    update.delete_file(file)
                    for data_file in files:
                        update.add_file(data_file)

        return do, effects

    def rewrite_file(self, branch: str, number: int) -> Operation:
        """Copy the live rows of a file into a new one; rows that other writers delete concurrently must not reappear."""
        effects: list[Effect] = []

        def do(t: Any) -> None:
            file = live_file(t, self.io, branch, number)
            if file is None:
                return
            metadata = metadata_of(t)
            document, reader = json.loads(write_table_metadata(metadata)), ReferenceReader(StagedFileReader(self.io, t))
            snapshot = reader.snapshot(document, metadata.refs[branch].snapshot_id)
            live = [row.values for row in reader.rows(document, snapshot) if row.path == file.file_path]
            rows = pa.Table.from_pylist([{name: row.get(number + 1) for number, name in enumerate(COLUMNS)} for row in live], schema=SCHEMA)
            files = self.write_files(rows) if live else []
            effects.append(Rows(branch=branch, change=lambda before: before, replaces=True))
            with t.update_snapshot(branch=branch).rewrite_files() as update:
                update.delete_file(file).validate_from_snapshot(metadata.refs[branch].snapshot_id)
                for data_file in files:
                    update.add_file(data_file)

        return do, effects

    def row_delta(self, branch: str, number: int, values: list[Any]) -> Operation:
        """Delete the first row of a file that has no deletes yet, and add rows, in one row delta."""
        effects: list[Effect] = []
        table, rows = self.rows(values)
        files = self.write_files(table)

        def do(t: Any) -> None:
            file, metadata = live_file(t, self.io, branch, number), metadata_of(t)
            if file is None or metadata.format_version == 1:
                return
            reader = StagedFileReader(self.io, t)
            snapshot = metadata.snapshot_by_id(metadata.refs[branch].snapshot_id)
            tasks = plan_scan(metadata, snapshot, AlwaysTrue(), reader.read).tasks()
            if any(task.file.file_path == file.file_path and task.delete_files for task in tasks):
                return
            target = write_target(TableHandle(identifier=NAME, store=self.inner, io=self.io), metadata)
            marked = [RowsToDelete(file=file, positions=np.array([0]))]
            if metadata.format_version == 2:
                written_deletes = write_position_deletes(target, marked, specs=specs_of(metadata), partition_id=0, task_id=0)
            else:
                written_deletes = write_vectors(target, marked, deletes=DeleteLoader(self.io), partition_id=0, task_id=0)
            key = pq.read_table(pa.BufferReader(self.io.read(file.file_path)), columns=["uid"])["uid"][0].as_py()
            effects.append(MergeOnReadDelete(branch=branch, path=file.file_path, keys={key}, added=rows))
            with t.update_snapshot(branch=branch).row_delta() as update:
                update.validate_from_snapshot(
                    snapshot.snapshot_id
                )  # without it, the whole history is validated, and an expired part of it is an error
                for one in files:
                    update.add_rows(one)
                for one in written_deletes.added:
                    update.add_deletes(one)

        return do, effects

    def add_files(self, branch: str, values: list[Any]) -> Operation:
        """Add a file of another writer, outside of the table's folder, whose rows are in one partition of every spec."""
        table, rows = self.rows([values[0]] * len(values))
        ids = pa.schema([field.with_metadata({"PARQUET:field_id": str(number)}) for number, field in enumerate(SCHEMA, 1)])
        sink = pa.BufferOutputStream()
        pq.write_table(table.cast(ids), sink)
        path = f"memory://{RandomIds().uuid()}/foreign.parquet"
        self.io.write(path, sink.getvalue().to_pybytes())
        return lambda t: t.add_files([path], branch=branch), [Rows(branch=branch, change=lambda before: before + rows)]

    def rewrite_manifests(self, branch: str) -> Operation:
        return lambda t: t.rewrite_manifests(branch=branch), [
            Rows(branch=branch, change=lambda before: before, may_be_idle=True, replaces=True)
        ]

    def compact(self, branch: str, order: str | None, is_partial: bool) -> Operation:
        options = {"rewrite-all": True, "partial-progress.enabled": is_partial, "remove-dangling-deletes": True}
        # One thread, so that faults order the same calls each time.
        options["max-concurrent-file-group-rewrites"] = 1
        return lambda t: t.maintenance.rewrite_data_files(branch=branch, sort_order=order, options=options), [same_rows(branch)]

    def remove_dangling_deletes(self, branch: str) -> Operation:
        return lambda t: t.maintenance.remove_dangling_deletes(branch=branch), [same_rows(branch)]

    def convert_equality_deletes(self, branch: str, is_partial: bool) -> Operation:
        options = {"partial-progress.enabled": is_partial, "max-concurrent-file-group-rewrites": 1}
        # Its snapshots are deletes, so that no compaction that was planned before restores a row.
        effect = Rows(branch=branch, change=lambda before: before, may_be_idle=True, replaces=None, repeats=True)
        return lambda t: t.maintenance.convert_equality_deletes(branch=branch, options=options), [effect]

    def rewrite_position_delete_files(self, branch: str, is_partial: bool) -> Operation:
        options = {"rewrite-all": True, "partial-progress.enabled": is_partial, "max-concurrent-file-group-rewrites": 1}
        return lambda t: t.maintenance.rewrite_position_delete_files(branch=branch, options=options), [same_rows(branch)]

    def maintain(self, branch: str) -> Operation:
        # Conversions are no `replace`, see above.
        rows = Rows(branch=branch, change=lambda before: before, may_be_idle=True, replaces=None, repeats=True)

        def do(t: Table) -> MaintenanceReport:
            report = t.maintenance.maintain(branch=branch, engine="in-process", min_age_minutes=0)
            type(self).maintained.update(one.action.value for one in report.actions if one.state is ActionState.DONE)
            raise_failure(report)
            return report

        return do, [rows, Expiry()]

    def upgrade(self, version: int) -> Operation:
        return lambda t: t.upgrade_table_version(version), []

    def change_spec(self, transform: str) -> Operation:
        """Add the partition field of the values, or remove it."""

        def do(table: Table) -> None:
            if self.evolves:
                with table.update_spec() as update:
                    if any(field.name == "by_value" for field in metadata_of(table).spec().fields):
                        update.remove_field("by_value")
                    else:
                        update.add_field("value", transform, "by_value")

        return do, []

    def create_branch(self) -> Operation:
        effects: list[Effect] = []

        def do(t: Any) -> None:
            main = metadata_of(t).refs.get("main")
            if main is None:
                effects.append(BranchOfEmptyTable(branch="b"))
            else:
                effects.append(Refs(change=lambda state: {"b": ("branch", main.snapshot_id)}))
            t.manage_snapshots().create_branch(branch_name="b").commit()

        return do, effects

    def remove_branch(self) -> Operation:
        return lambda t: t.manage_snapshots().remove_branch("b").commit(), [Refs(change=lambda state: {"b": None})]

    def tag(self, name: str) -> Operation:
        """Create a tag at the head of main in the metadata of the writer, or remove the tag if it exists."""
        effects: list[Effect] = []

        def do(t: Any) -> None:
            metadata = metadata_of(t)
            if name in metadata.refs:
                effects.append(Refs(change=lambda state: {name: None}))
                t.manage_snapshots().remove_tag(name).commit()
            elif "main" in metadata.refs:
                effects.append(Refs(change=lambda state: {name: ("tag", metadata.refs["main"].snapshot_id)}))
                t.manage_snapshots().create_tag(tag_name=name).commit()

        return do, effects

    def move_branch(self, name: str, to: str, how: str) -> Operation:
        effects: list[Effect] = []

        def do(t: Any) -> None:
            target = metadata_of(t).refs.get(to)
            if target is not None:
                effects.append(Refs(change=lambda state: {name: ("branch", target.snapshot_id)}))
                getattr(t.manage_snapshots(), how)(name, to).commit()

        return do, effects

    def fast_forward(self, names: tuple[str, str]) -> Operation:
        return self.move_branch(*names, "fast_forward")

    def replace_branch(self) -> Operation:
        return self.move_branch("b", "main", "replace_branch")

    def rollback(self, back: int) -> Operation:
        effects: list[Effect] = []

        def do(t: Any) -> None:
            metadata = metadata_of(t)
            target = metadata.current_snapshot()
            for _ in range(back):
                parent = target.parent_snapshot_id if target else None
                target = metadata.snapshot_by_id(parent) if parent is not None else None
            if target is not None:
                effects.append(Refs(change=lambda state: {"main": ("branch", target.snapshot_id)}))
                t.manage_snapshots().rollback_to_snapshot(target.snapshot_id).commit()

        return do, effects

    def pick(self, number: int) -> Operation:
        """Cherry-pick a snapshot, staged or of a branch, onto main."""
        effects: list[Effect] = []

        def do(t: Any) -> None:
            found = list(metadata_of(t).snapshots)
            if found:
                source = found[-1 - number % len(found)].snapshot_id
                effects.append(CherryPick(source=source))
                t.manage_snapshots().cherry_pick(source).commit()

        return do, effects

    def stage(self, values: list[Any]) -> Operation:
        table, rows = self.rows(values)
        snapshot_properties = {"wap.id": f"w{self.next_uid}"}
        return lambda t: t.append(table, snapshot_properties), [Rows(change=lambda before: before + rows, staged=True)]

    def audited(self, values: list[Any]) -> Operation:
        """Write to the branch `audit`, which is created from main where it does not exist."""
        table, rows = self.rows(values)

        def do(t: Table) -> None:
            with write_audit_publish(branch="audit"):
                t.append(table)

        return do, [Rows(branch="audit", change=lambda before: before + rows, origin="main")]

    def expire(self, retain_last: int) -> Operation:
        later = 4_102_444_800_000  # 2100: every snapshot is older
        return lambda t: t.expire_snapshots(older_than=later, retain_last=retain_last), [Expiry()]

    def statistics(self) -> Operation:
        return lambda t: t.compute_statistics(), []

    def together(self, parts: list[tuple[Any, ...]]) -> Operation:
        made = [self.operation(part) for part in parts]
        every: list[Effect] = []

        def do(table: Table) -> None:
            with table.transaction() as tx:
                for one, effects in made:
                    one(tx)
                    every.extend(effects)  # some effects are known only now

        return do, every

    def property(self, number: int, value: int) -> Operation:
        values = {f"model.{number}": f"{value}"}
        return lambda t: t.set_properties(values), [Properties(values=values)]

    def mode(self, mode: str) -> Operation:
        values = {"write.delete.mode": mode}
        return lambda t: t.set_properties(values), [Properties(values=values)]

    def add_column(self) -> Operation:
        def do(table: Table) -> None:
            with table.update_schema() as update:
                update.add_column(f"c{metadata_of(table).last_column_id}", LongType())

        return do, []

    def teardown(self) -> None:
        if hasattr(self, "model"):
            for writer in self.writers:
                writer.store.land_late()
            self.model.check()


def same_rows(branch: str) -> Rows:
    """Return the effect of maintenance: any number of snapshots with the same rows."""
    return Rows(branch=branch, change=lambda before: before, may_be_idle=True, replaces=True, repeats=True)


def raise_failure(report: MaintenanceReport) -> None:
    """Raise the failure of an action, which `maintain` only reports, as the model expects it of other operations."""
    if not report.has_failures:
        return
    text = str(report)
    assert not FOREIGN_ERROR.search(text), text
    raise (CommitUnknownError if "may or may not have happened" in text else CommitInvalidatedError)(text)


def without(matches: Callable[[tuple[Any, ...]], bool]) -> Callable[[Bag], Bag]:
    return lambda rows: Counter({row: count for row, count in rows.items() if not matches(row)})


def run(runs: int, steps_each: int, *, derandomize: bool) -> int:
    """Run the model, and return the number of operations."""
    ManyWriters.taken = 0
    ManyWriters.maintained.clear()
    run_state_machine_as_test(
        ManyWriters,
        settings=settings(
            max_examples=runs,
            stateful_step_count=steps_each,
            deadline=None,
            derandomize=derandomize,
            suppress_health_check=list(HealthCheck),
        ),
    )
    return ManyWriters.taken


@pytest.fixture(autouse=True)
def no_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no commit wait for the turn of another one, which a writer of the same thread would never end."""
    monkeypatch.setattr(commit_retries, "LONGEST_TURN_S", 0.0)


def test_commits_of_many_writers_with_faults_are_atomic_and_durable() -> None:
    assert run(examples(8, least=6), 25, derandomize=True) > 110


@pytest.mark.slow
def test_thousands_of_steps_of_many_writers_with_faults_are_atomic_and_durable() -> None:
    # Some five minutes on a busy machine of two cores; each run has examples of its own.
    runs = int(os.environ.get("ICEFLOE_MODEL_EXAMPLES", "60"))
    assert run(runs, 50, derandomize=False) >= 40 * runs
    assert ManyWriters.maintained.total() > runs / 2
