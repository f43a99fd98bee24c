"""Every pair of operations on the rows of a real table: one reads it and writes its files, another commits just before its compare-and-swap.

`test_row_pairs.py` checks the rows: they must be those of one operation after the other. Tables are in memory; all pairs begin on a shared base, whose files
are never deleted, but hidden from the pair that deleted them.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from icefloe import LongType, Table
from icefloe.errors import IcefloeError
from icefloe.io.memory_file_io import MemoryFileIO
from icefloe.io.storage_errors import storage_error
from icefloe.operations.available_engines import IN_PROCESS
from icefloe.operations.metadata_cache import load_metadata
from icefloe.operations.rows.write_context import write_target
from icefloe.operations.table_handle import RandomIds, TableHandle, metadata_content, new_metadata_location
from icefloe.spec.metadata.new_table import new_table_metadata
from icefloe.spec.partitioning.partition_spec import partition_spec_from_text
from icefloe.spec.partitioning.sort_order import UNSORTED_SORT_ORDER
from icefloe.spec.ports import Content
from icefloe.spec.schema.arrow_schema import schema_from_arrow
from icefloe.spec.schema.schema import assign_fresh_ids
from icefloe.stores.memory_store import MemoryCatalogStore
from icefloe.testing.fault_injection import Faults, FaultyStore

NAME = ("db", "t")
SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("value", pa.int64())])
LEVELS = ("serializable", "snapshot")
MODES = ("copy-on-write", "merge-on-read")
FAR = 2**52  # milliseconds: every snapshot is older
Rows = Counter[tuple[tuple[str, Any], ...]]


class OwnFiles:
    """Storage in memory over the shared files of the base: a deleted file of the base is only hidden here."""

    def __init__(self) -> None:
        self._io = MemoryFileIO()
        self._gone: set[str] = set()

    def read(self, location: str) -> bytes:
        return self._io.read(self._seen(location))

    def write(self, location: str, content: Content, *, overwrite: bool = False) -> None:
        self._gone.discard(location)
        self._io.write(location, content, overwrite=overwrite)

    def exists(self, location: str) -> bool:
        return location not in self._gone and self._io.exists(location)

    def size(self, location: str) -> int:
        return self._io.size(self._seen(location))

    def delete(self, location: str) -> None:
        self._gone.add(location)

    def open_input(self, location: str) -> Any:
        return self._io.open_input(self._seen(location))

    def open_output(self, location: str) -> Any:
        return self._io.open_output(location)

    def _seen(self, location: str) -> str:
        if location in self._gone:
            raise storage_error(FileNotFoundError(2, "deleted"), location)
        return location


def rows(*given: tuple[int, str, int]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in given], schema=SCHEMA)


def _update_both(table: Any, mark: int) -> None:
    with table.transaction() as tx:
        tx.delete("id = 1 or id = 5")
        tx.append(rows((8, "a", mark)))


def _add_files(table: Table, mark: int) -> None:
    location = f"memory://added/{RandomIds().uuid()}/part=a/x.parquet"
    with table.io.open_output(location) as out:
        pq.write_table(rows((5, "a", mark)), out)
    table.add_files([location])


def _compact(table: Table, *, keeps_age: bool) -> None:
    """Rewrite all rows into new files, without deletes."""
    tasks = list(table.scan().plan_files())
    handle = TableHandle(identifier=NAME, store=MemoryCatalogStore("lake"), io=table.io)
    files = IN_PROCESS.write(table.scan().to_arrow(), write_target(handle, table.metadata))
    snapshot = table.current_snapshot()
    assert snapshot is not None
    change = table.update_snapshot().rewrite_files().validate_from_snapshot(snapshot.snapshot_id)
    for task in tasks:
        change.delete_file(task.file)
    for delete in {(file.file_path, file.content_offset): file for task in tasks for file in task.delete_files}.values():
        change.delete_file(delete)
    for file in files:
        change.add_file(file)
    (change.data_sequence_number(snapshot.sequence_number) if keeps_age else change).commit()


def _compact_and_expire(table: Table, mark: int) -> None:
    _compact(table, keeps_age=False)
    _expire(table, mark)


def _expire(table: Table, _: int) -> None:
    table.expire_snapshots(older_than=FAR, retain_last=1)


def _roll_back(table: Table, _: int) -> None:
    table.manage_snapshots().rollback_to_snapshot(table.snapshots()[0].snapshot_id).commit()


def _change_modes(table: Table, _: int) -> None:
    now = table.properties["write.delete.mode"]
    other = next(mode for mode in MODES if mode != now)
    table.set_properties({"write.delete.mode": other, "write.merge.mode": other})


# The name of an operation, and its function; `mark` distinguishes its rows from those of the other one.
OPERATIONS: dict[str, Callable[[Table, int], Any]] = {
    "append": lambda table, mark: table.append(rows((5, "a", mark))),
    "delete": lambda table, _: table.delete("id = 1 or id = 5"),
    "delete other rows": lambda table, _: table.delete("id = 2 or id = 20"),
    "delete by value": lambda table, _: table.delete("value < 0"),
    "delete partition": lambda table, _: table.delete("part = 'a'"),
    "overwrite": lambda table, mark: table.overwrite(rows((6, "a", mark)), "id = 2 or id = 5"),
    "overwrite all": lambda table, mark: table.overwrite(rows((5, "b", mark))),
    "overwrite partitions": lambda table, mark: table.dynamic_partition_overwrite(rows((7, "a", mark))),
    "delete keys": lambda table, _: table.delete_keys(rows((1, "a", 0), (5, "a", 0), (11, "a", 0)).select(["id"]), ["id"]),
    "upsert": lambda table, mark: table.upsert(rows((2, "a", mark), (5, "a", mark)), ["id"]),
    "upsert elsewhere": lambda table, mark: table.upsert(rows((11, "b", mark), (9, "b", mark)), ["id"]),
    "insert": lambda table, mark: table.upsert(rows((1, "a", mark), (5, "a", mark)), ["id"], when_matched_update_all=False),
    "add files": _add_files,
    "transaction": _update_both,
    "rewrite manifests": lambda table, _: table.rewrite_manifests(),
    "compact": lambda table, _: _compact(table, keeps_age=False),
    "compact, age kept": lambda table, _: _compact(table, keeps_age=True),
    "compact and expire": _compact_and_expire,
    "expire": _expire,
    "roll back": _roll_back,
    "fast-forward": lambda table, _: table.manage_snapshots().fast_forward("main", "side").commit(),
    "properties": _change_modes,
    "add column": lambda table, mark: table.update_schema().add_column(f"extra{-mark}", LongType()).commit(),
    "rename column": lambda table, _: table.update_schema().rename_column("value", "amount").commit(),
    "drop column": lambda table, _: table.update_schema().delete_column("value").commit(),
    "drop key": lambda table, _: table.update_schema().delete_column("id").commit(),
    "partition spec": lambda table, mark: table.update_spec().add_field("id", "bucket[2]", f"bucket{-mark}").commit(),
    "drop partition field": lambda table, _: table.update_spec().remove_field("part").commit(),
    "upgrade": lambda table, _: table.upgrade_table_version(3),
}


@dataclass(frozen=True)
class Base:
    """The start of the table of a version, mode and level."""

    location: str
    version: int
    mode: str
    level: str


class Pair:
    """The table for one pair: its catalog and its files."""

    def __init__(self, base: Base | str) -> None:
        self.store = MemoryCatalogStore("lake")
        self.store.create_namespace(("db",), {})
        self.store.create(NAME, base if isinstance(base, str) else base.location)
        self.io = OwnFiles()
        self.faults = Faults()

    def table(self, *, faulty: bool = False) -> Table:
        store = FaultyStore(self.store, self.faults) if faulty else self.store
        handle = TableHandle(identifier=NAME, store=store, io=self.io)  # type: ignore[arg-type]
        return Table(handle, load_metadata(handle))

    def do(self, name: str, mark: int) -> IcefloeError | None:
        """Run the operation alone, on the current table; return its error."""
        try:
            OPERATIONS[name](self.table(), mark)
        except IcefloeError as error:
            return error
        return None

    def rows(self) -> Rows:
        """Read the rows without their nulls, so that a column without values makes no difference."""
        rows = self.table().scan().to_arrow().to_pylist()
        return Counter(tuple(sorted((key, value) for key, value in row.items() if value is not None)) for row in rows)


def base_table(version: int, mode: str, level: str) -> Base:
    schema = assign_fresh_ids(schema_from_arrow(SCHEMA, keep_ids=False))
    kinds = ("delete", "update", "merge")
    metadata = new_table_metadata(
        location=f"memory://pairs/{RandomIds().uuid()}",
        schema=schema,
        spec=partition_spec_from_text(schema, ("part",)),
        sort_order=UNSORTED_SORT_ORDER,
        properties={
            "format-version": str(version),
            "commit.retry.min-wait-ms": "0",
            "commit.retry.max-wait-ms": "0",
            **{f"write.{kind}.mode": mode for kind in kinds},
            **{f"write.{kind}.isolation-level": level for kind in kinds},
        },
        table_uuid=RandomIds().uuid(),
        now_ms=1,
    )
    location = new_metadata_location(RandomIds(), metadata, previous_location=None)
    MemoryFileIO().write(location, metadata_content(metadata))
    pair = Pair(location)
    table = pair.table()
    table.append(rows((1, "a", 0), (2, "a", 0), (3, "a", 0), (4, "a", 0)))
    table.append(rows((10, "a", 0), (11, "a", 0), (20, "b", 0), (21, "b", 0)))
    table.delete("id = 4")
    table.manage_snapshots().create_branch(branch_name="side").commit()
    table.append(rows((30, "a", 0)), branch="side")
    return Base(table.metadata_location, version, mode, level)


@dataclass(frozen=True)
class Serial:
    """The rows of one operation after the other, each alone; `error` where the second one is refused."""

    rows: Rows
    error: IcefloeError | None


@dataclass(frozen=True)
class Outcome:
    """The result of a pair. `was_second`: the other operation committed first; False if the planned one had nothing to commit."""

    rows: Rows
    error: IcefloeError | None
    was_second: bool


def serial(base: Base, *names_and_marks: tuple[str, int]) -> Serial:
    pair, error = Pair(base), None
    for name, mark in names_and_marks:
        error = pair.do(name, mark)
    return Serial(pair.rows(), error)


def run_pair(base: Base, planned: str, first: str) -> Outcome:
    """Plan `planned` with mark -2 on the base, and commit `first` with mark -1 just before its compare-and-swap."""
    pair, error = Pair(base), None
    done: list[IcefloeError | None] = []
    table = pair.table(faulty=True)
    pair.faults.order("commit", meanwhile=lambda: done.append(pair.do(first, -1)))
    try:
        OPERATIONS[planned](table, -2)
    except IcefloeError as caught:
        error = caught
    was_second = bool(done)
    if not done:
        done.append(pair.do(first, -1))
    return Outcome(pair.rows(), error, was_second)


def both_effects(before: Rows, after: Mapping[str, Rows]) -> Rows:
    """Combine the effects of both operations on the base; neither reads the other."""
    gone = before - before
    for one in after.values():
        gone = gone | (before - one)
    remaining_rows = before - gone
    for one in after.values():
        remaining_rows = remaining_rows + (one - before)
    return remaining_rows
