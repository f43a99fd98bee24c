"""Random sequences of writes, schema changes and upgrades on one table, compared with a plain dict of rows; every row keeps its row id."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.repetitions import examples

from icefloe import LongType, SqlCatalog
from icefloe.errors import UnsupportedFeatureError
from icefloe.table import Table

Row = dict[str, Any]
SCHEMA = pa.schema([("uid", pa.int64()), ("a", pa.int32()), ("s", pa.string())])
VALUES = st.lists(st.tuples(st.one_of(st.none(), st.integers(0, 9)), st.one_of(st.none(), st.sampled_from("xyz"))), min_size=1, max_size=8)
# A filter as text and as a function of a row; null is never true.
FILTERS: list[tuple[str, Callable[[Row], bool]]] = [
    ("a >= 5", lambda row: row["a"] is not None and row["a"] >= 5),
    ("a < 3", lambda row: row["a"] is not None and row["a"] < 3),
    ("a is null", lambda row: row["a"] is None),
    ("uid < 7", lambda row: row["uid"] < 7),
    ("a = 4 or uid = 3", lambda row: row["a"] == 4 or row["uid"] == 3),
    ("true", lambda row: True),
]
MODES = ("copy-on-write", "merge-on-read")
SPECS = [(), ("s",), ("bucket(3, uid)",), ("truncate(4, a)", "s")]


class AnyTable(RuleBasedStateMachine):
    """The table, and its expected rows by uid. `text` is the current name of the column s; `extra` are further columns and their defaults."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.rows: dict[int, Row] = {}
        self.row_ids: dict[int, int] = {}
        self.text = "s"
        self.extra: dict[str, int | None] = {}
        self.next_uid = 0
        self.next_field = 0

    @initialize(version=st.sampled_from([1, 2, 3]), spec=st.sampled_from(SPECS), granularity=st.sampled_from(["file", "partition"]))
    def create(self, version: int, spec: tuple[str, ...], granularity: str) -> None:
        catalog = SqlCatalog("lake", uri=f"sqlite:///{self.folder}/catalog.db", warehouse=str(self.folder))
        catalog.create_namespace("db")
        settings = {"format-version": str(version), "write.delete.granularity": granularity}
        self.catalog = catalog
        self.table: Table = catalog.create_table("db.t", SCHEMA, partition_spec=spec, properties=settings)

    def made(self, values: list[tuple[int | None, str | None]]) -> list[Row]:
        made = []
        for a, text in values:
            made.append({"uid": self.next_uid, "a": a, self.text: text, **dict.fromkeys(self.extra, self.next_uid * 10)})
            self.next_uid += 1
        return made

    def arrow(self, rows: list[Row]) -> pa.Table:
        fields = [("uid", pa.int64()), ("a", pa.int32()), (self.text, pa.string()), *((name, pa.int64()) for name in self.extra)]
        return pa.Table.from_pylist(rows, schema=pa.schema(fields))

    def add(self, rows: list[Row]) -> None:
        self.rows.update((row["uid"], row) for row in rows)

    def keep(self, is_kept: Callable[[Row], bool]) -> int:
        before = len(self.rows)
        self.rows = {uid: row for uid, row in self.rows.items() if is_kept(row)}
        return before - len(self.rows)

    @rule(values=VALUES)
    def append(self, values: list[Any]) -> None:
        rows = self.made(values)
        self.table.append(self.arrow(rows))
        self.add(rows)

    @rule(chosen=st.sampled_from(FILTERS), mode=st.sampled_from(MODES), values=st.one_of(st.none(), VALUES))
    def replace(self, chosen: tuple[str, Callable[[Row], bool]], mode: str, values: list[Any] | None) -> None:
        text, matches = chosen
        self.table.set_properties({"write.delete.mode": mode})
        rows = self.made(values) if values else []
        try:
            result = self.table.overwrite(self.arrow(rows), text) if values else self.table.delete(text)
        except UnsupportedFeatureError:
            assert (self.table.format_version, mode) == (1, "merge-on-read")
            return
        assert result.deleted_records == self.keep(lambda row: not matches(row))
        self.add(rows)

    @precondition(lambda self: self.table.format_version > 1)
    @rule(
        values=VALUES, columns=st.sampled_from([("a",), ("uid",), ("text", "a"), ("text",)]), uids=st.lists(st.integers(0, 20), min_size=8)
    )
    def delete_by_key(self, values: list[Any], columns: tuple[str, ...], uids: list[int]) -> None:
        names = [self.text if name == "text" else name for name in columns]
        rows = [{**row, "uid": uid} for row, uid in zip(self.made(values), uids, strict=False)]
        self.table.delete_keys(self.arrow(rows), names)
        gone = {tuple(row[name] for name in names) for row in rows}
        self.keep(lambda row: tuple(row[name] for name in names) not in gone)

    @rule(values=VALUES, chosen=st.sampled_from(FILTERS))
    def write_twice_in_one_transaction(self, values: list[Any], chosen: tuple[str, Callable[[Row], bool]]) -> None:
        text, matches = chosen
        rows = self.made(values)
        try:
            with self.table.transaction() as tx:
                tx.append(self.arrow(rows))
                tx.delete(text)
        except UnsupportedFeatureError:
            assert self.table.format_version == 1
            return
        self.add(rows)
        self.keep(lambda row: not matches(row))

    @rule(default=st.one_of(st.none(), st.integers(0, 5)))
    def add_column(self, default: int | None) -> None:
        if self.table.format_version < 3:
            default = None
        name = f"c{self.table.metadata.last_column_id}"
        with self.table.update_schema() as update:
            update.add_column(name, LongType(), default_value=default)
        self.extra[name] = default
        for row in self.rows.values():
            row[name] = default

    @precondition(lambda self: self.extra)
    @rule()
    def drop_column(self) -> None:
        name = next(iter(self.extra))
        with self.table.update_schema() as update:
            update.delete_column(name)
        del self.extra[name]
        for row in self.rows.values():
            del row[name]

    @rule()
    def rename_column(self) -> None:
        new = f"t{len(self.table.metadata.schemas)}"
        if new == self.text:
            return
        with self.table.update_schema() as update:
            update.rename_column(self.text, new)
        for row in self.rows.values():
            row[new] = row.pop(self.text)
        self.text = new

    @rule(transform=st.sampled_from(["bucket[2]", "truncate[3]"]))
    def evolve_spec(self, transform: str) -> None:
        own = [field.name for field in self.table.spec().fields if str(field.transform) == transform and field.name.startswith("p_")]
        with self.table.update_spec() as update:
            if own:
                update.remove_field(own[0])
            else:
                self.next_field += 1
                update.add_field("a", transform, f"p_{self.next_field}")

    @precondition(lambda self: self.table.format_version < 3)
    @rule()
    def upgrade(self) -> None:
        self.table.upgrade_table_version(self.table.format_version + 1)

    @rule()
    def load_again(self) -> None:
        self.table = self.catalog.load_table("db.t")

    @invariant()
    def rows_and_row_ids_are_right(self) -> None:
        if not hasattr(self, "table"):
            return
        assert self.table.scan().count() == len(self.rows)
        if self.table.current_snapshot() is None:
            return
        rows = self.table.scan(selected_fields=("*", "_row_id", "_last_updated_sequence_number")).to_arrow().to_pylist()
        ids = {row["uid"]: row.pop("_row_id") for row in rows}
        numbers = {row["uid"]: row.pop("_last_updated_sequence_number") for row in rows}
        assert {row["uid"]: row for row in rows} == self.rows
        assert len(rows) == len(self.rows)
        snapshot = self.table.metadata.current_snapshot()
        assert snapshot is not None
        if snapshot.first_row_id is None:
            assert set(ids.values()) <= {None}
            return
        assert None not in {*ids.values(), *numbers.values()}
        assert len(set(ids.values())) == len(ids)
        assert all(0 <= row_id < self.table.metadata.next_row_id for row_id in ids.values())
        kept = self.row_ids.keys() & ids.keys()
        assert {uid: ids[uid] for uid in kept} == {uid: self.row_ids[uid] for uid in kept}
        self.row_ids = ids

    def teardown(self) -> None:
        if hasattr(self, "table"):
            on_disk = {str(path) for path in self.folder.rglob("data/**/*") if path.is_file()}
            assert on_disk <= named_files(self.table), "a file that nothing names"
        shutil.rmtree(self.folder)


def named_files(table: Table) -> set[str]:
    manifests = {manifest.manifest_path: manifest for snapshot in table.snapshots() for manifest in snapshot.manifests(table.io)}
    entries = [entry for manifest in manifests.values() for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False)]
    return {entry.data_file.file_path for entry in entries}


QUICK = settings(max_examples=examples(12, least=5), stateful_step_count=12, suppress_health_check=list(HealthCheck))


class TestAnyTable(AnyTable.TestCase):  # type: ignore[misc,name-defined]
    settings = QUICK


@pytest.mark.slow
class TestAnyTableForLong(AnyTable.TestCase):  # type: ignore[misc,name-defined]
    settings = settings(QUICK, max_examples=150, stateful_step_count=25)
