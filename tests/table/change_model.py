"""Random histories of a table beside a dictionary by key, for the change feed: what a snapshot contains is known without reading the table."""

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from icefloe import InMemoryCatalog
from icefloe.catalog import Catalog
from icefloe.spec.types import IcebergType, LongType, StringType
from icefloe.table import Table

KEYS = range(24)
SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("value", pa.int32())])
REMOVED, ADDED = ("DELETE", "UPDATE_BEFORE"), ("INSERT", "UPDATE_AFTER")
FAR = 2**52  # milliseconds: every snapshot is older

# The values of a row by field id, so that renamed columns keep their values.
Row = dict[int, Any]


@dataclass
class History:
    """A table, and what each of its snapshots contains by key. `steps` names the operations, for a failing test."""

    table: Table
    chance: random.Random
    rows: dict[int, Row] = field(default_factory=dict)
    states: dict[int, dict[int, Row]] = field(default_factory=dict)
    steps: list[str] = field(default_factory=list)
    number: int = 0
    sql: Callable[[str], Any] | None = None

    @classmethod
    def begin(cls, seed: int, catalog: Catalog | None = None, sql: Callable[[str], Any] | None = None) -> "History":
        """Create the table `db.t`, in memory or in a catalog that has the namespace. `sql` runs statements of Spark on the catalog `lake`."""
        chance = random.Random(seed)
        if catalog is None:
            catalog = InMemoryCatalog(f"changes{seed}")
            catalog.create_namespace("db")
        version = chance.choice([1, 2, 2, 3, 3])
        mode = "copy-on-write" if version == 1 else chance.choice(["copy-on-write", "merge-on-read"])
        properties = {
            "format-version": str(version),
            **{f"write.{verb}.mode": mode for verb in ("delete", "update", "merge")},
            "commit.manifest.min-count-to-merge": str(chance.choice([2, 100])),
        }
        spec = chance.choice([[], ["part"], ["bucket(2, id)"]])
        return cls(catalog.create_table("db.t", SCHEMA, partition_spec=spec, properties=properties), chance, sql=sql)

    def step(self, *names: str) -> None:
        """Apply a random operation, one of the names if there are any, to the table and to the rows, and note what the new snapshot contains."""
        name = self.chance.choice([name for name in names or OPERATIONS for _ in range(WEIGHTS.get(name, 1))])
        before = self.table.metadata.current_snapshot_id
        OPERATIONS[name](self)
        self.steps.append(name)
        self.note(before)

    def note(self, before: int | None) -> None:
        """Note the rows of the current snapshot, and of those between it and an earlier one, which are steps of one operation."""
        now = self.table.metadata.current_snapshot_id
        if now is not None and now != before:
            self.states[now] = {key: dict(row) for key, row in self.rows.items()}

    def some_keys(self, present: bool, most: int = 4) -> list[int]:
        keys = [key for key in KEYS if (key in self.rows) == present]
        return sorted(self.chance.sample(keys, min(len(keys), self.chance.randint(1, most))))

    def new_row(self, key: int) -> Row:
        """Return a row with new values; the number of the step, with few values, so that rows return to earlier values."""
        self.number += 1
        names = {column.name: column.field_id for column in self.table.schema().fields}
        values = {"id": key, "part": "ab"[key % 2], "value": self.number % 5}
        row = {names[name]: value for name, value in values.items() if name in names}
        others = {field_id for name, field_id in names.items() if name not in values}
        return row | {field_id: f"n{self.number % 3}" if self._is_text(field_id) else self.number % 3 for field_id in others}

    def _is_text(self, field_id: int) -> bool:
        return isinstance(self.table.schema().find_type(field_id), StringType)

    def arrow(self, rows: Iterable[Row]) -> pa.Table:
        columns = self.table.schema().fields
        arrow = self.table.schema().as_arrow()
        return pa.Table.from_pylist([{column.name: row.get(column.field_id) for column in columns} for row in rows], schema=arrow)

    def state(self, snapshot_id: int | None) -> Counter[tuple[Any, ...]]:
        """Return the rows of a snapshot in the columns of the current schema."""
        ids = [column.field_id for column in self.table.schema().fields]
        rows = {} if snapshot_id is None else self.states[snapshot_id]
        return Counter(tuple(row.get(field_id) for field_id in ids) for row in rows.values())


def _write(history: History, keys: list[int], write: Callable[[pa.Table], Any]) -> None:
    rows = {key: history.new_row(key) for key in keys}
    if rows:
        write(history.arrow(rows.values()))
        history.rows.update(rows)


def append(history: History) -> None:
    _write(history, history.some_keys(False, 6), history.table.append)


def delete(history: History) -> None:
    keys = history.some_keys(True)
    if keys:
        history.table.delete(f"id in ({', '.join(map(str, keys))})")
        history.rows = {key: row for key, row in history.rows.items() if key not in keys}


def delete_by_value(history: History) -> None:
    """Delete whole files too."""
    part = history.chance.choice("ab")
    names = {column.name: column.field_id for column in history.table.schema().fields}
    history.table.delete(f"part = '{part}'")
    history.rows = {key: row for key, row in history.rows.items() if row.get(names["part"]) != part}


def delete_keys(history: History) -> None:
    if history.table.format_version == 1:
        return
    keys = history.some_keys(True) + history.some_keys(False, 2)
    history.table.delete_keys(pa.table({"id": pa.array(keys, pa.int64())}), ["id"])
    history.rows = {key: row for key, row in history.rows.items() if key not in keys}


def upsert(history: History) -> None:
    _write(history, history.some_keys(True) + history.some_keys(False, 2), lambda rows: history.table.upsert(rows, ["id"]))


def merge(history: History) -> None:
    """Run MERGE with every kind of clause. Without Spark, which runs it, the step is an upsert."""
    if history.sql is None:
        return upsert(history)
    columns = history.table.schema().fields
    value = next((column.name for column in columns if column.field_id == 3), None)
    source = {key: history.new_row(key) for key in history.some_keys(True) + history.some_keys(False, 2)}
    deleted_by_value, unmatched = history.chance.sample(range(5), 2)
    literals = ["(" + ", ".join(_literal(row[column.field_id], column.field_type) for column in columns) + ")" for row in source.values()]
    names = ", ".join(column.name for column in columns)
    history.sql(
        f"MERGE INTO lake.db.t AS t USING (SELECT * FROM VALUES {', '.join(literals)} AS s({names})) AS s ON t.id = s.id"
        f" WHEN MATCHED AND s.{value} = {deleted_by_value} THEN DELETE WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        f" WHEN NOT MATCHED BY SOURCE AND t.{value} = {unmatched} THEN DELETE"
    )
    history.table.refresh()
    deleted = {key for key, row in source.items() if key in history.rows and row[3] == deleted_by_value}
    deleted |= {key for key, row in history.rows.items() if key not in source and row.get(3) == unmatched}
    history.rows = {key: row for key, row in (history.rows | source).items() if key not in deleted}
    return None


def _literal(value: Any, column_type: IcebergType) -> str:
    return f"CAST({value if isinstance(value, int) else repr(value)} AS {column_type})"


def overwrite(history: History) -> None:
    """Replace rows by their keys: some with new values, others with the values that they have."""
    keys = history.some_keys(True)
    if keys:
        rows = {key: history.new_row(key) if history.chance.random() < 0.7 else history.rows[key] for key in keys}
        history.table.overwrite(history.arrow(rows.values()), f"id in ({', '.join(map(str, keys))})")
        history.rows.update(rows)


def upsert_stream(history: History) -> None:
    """Write as a stream of upserts does: delete the keys, and insert their new rows in the same commit."""
    if history.table.format_version == 1:
        return append(history)
    keys = history.some_keys(True) + history.some_keys(False, 2)
    rows = {key: history.new_row(key) for key in keys}
    with history.table.transaction() as tx:
        tx.delete_keys(pa.table({"id": pa.array(keys, pa.int64())}), ["id"])
        tx.append(history.arrow(rows.values()))
    # A transaction may have a snapshot for each of its operations.
    metadata = history.table.metadata
    last = metadata.current_snapshot()
    if last is not None and last.parent_snapshot_id not in history.states and last.parent_snapshot_id is not None:
        history.states[last.parent_snapshot_id] = {key: dict(row) for key, row in history.rows.items() if key not in keys}
    history.rows.update(rows)
    return None


def compact(history: History) -> None:
    history.table.maintenance.rewrite_data_files(options={"rewrite-all": "true"})


def rewrite_manifests(history: History) -> None:
    if history.table.metadata.current_snapshot_id is not None:
        history.table.rewrite_manifests()


def change_schema(history: History) -> None:
    names = [column.name for column in history.table.schema().fields]
    with history.table.update_schema() as update:
        match history.chance.randrange(3):
            case 0 if len(names) < 6:
                update.add_column(f"c{history.number}_{len(history.steps)}", history.chance.choice([StringType(), LongType()]))
            case 1:
                if "value" in names:
                    update.rename_column("value", f"was_value_{len(history.steps)}")
            case _:
                if (
                    isinstance(history.table.schema().find_type(3) if 3 in history.table.schema() else None, LongType)
                    or 3 not in history.table.schema()
                ):
                    return
                update.update_column(history.table.schema().find_field(3).name, LongType())


def change_spec(history: History) -> None:
    with history.table.update_spec() as update:
        fields = history.table.spec().fields
        live = [spec_field for spec_field in fields if "void" not in str(spec_field.transform)]
        if live:
            update.remove_field(live[0].name)
        else:
            update.add_field("part", "identity", f"part_{len(history.steps)}")


def upgrade(history: History) -> None:
    version = history.table.format_version
    if version < 3:
        history.table.upgrade_table_version(version + 1)


def change_mode(history: History) -> None:
    mode = "copy-on-write" if history.table.format_version == 1 else history.chance.choice(["copy-on-write", "merge-on-read"])
    history.table.set_properties({f"write.{verb}.mode": mode for verb in ("delete", "update", "merge")})


def write_to_branch(history: History) -> None:
    """Commit to another branch, whose changes are not in the history of main."""
    metadata = history.table.metadata
    if metadata.current_snapshot_id is None:
        return
    if "other" not in metadata.refs:
        history.table.manage_snapshots().create_branch(branch_name="other").commit()
    history.table.append(history.arrow([history.new_row(100)]), branch="other")


def roll_back(history: History) -> None:
    line = [snapshot.snapshot_id for snapshot in history.table.ancestors()]
    if len(line) > 1:
        snapshot_id = history.chance.choice(line[1:3])
        history.table.manage_snapshots().rollback_to_snapshot(snapshot_id).commit()
        history.rows = {key: dict(row) for key, row in history.states[snapshot_id].items()}


def expire(history: History) -> None:
    history.table.expire_snapshots(older_than=FAR, retain_last=history.chance.randint(2, 5))


OPERATIONS: dict[str, Callable[[History], Any]] = {
    function.__name__: function
    for function in (
        append,
        delete,
        delete_by_value,
        delete_keys,
        upsert,
        upsert_stream,
        merge,
        overwrite,
        compact,
        rewrite_manifests,
        change_schema,
        change_spec,
        upgrade,
        change_mode,
        write_to_branch,
        roll_back,
        expire,
    )
}
WEIGHTS = {"append": 4, "delete": 3, "delete_keys": 2, "upsert": 3, "upsert_stream": 2, "merge": 2, "overwrite": 3}


def new_history(seed: int, steps: int, catalog: Catalog | None = None, sql: Callable[[str], Any] | None = None) -> History:
    """Return a history of so many random steps. The rest is as for `History.begin`."""
    history = History.begin(seed, catalog, sql)
    append(history)
    history.note(None)
    for _ in range(steps):
        history.step()
    return history


def apply_changes(rows: Counter[tuple[Any, ...]], changes: pa.Table, columns: int) -> Counter[tuple[Any, ...]]:
    """Return the rows after changes, whose first columns are those of the rows. A deleted row that is not there is an error."""
    after = Counter(rows)
    listed = [tuple(row.values()) for row in changes.select(changes.column_names[:columns]).to_pylist()]
    kinds = changes["_change_type"].to_pylist()
    for number in sorted(set(changes["_change_ordinal"].to_pylist())):
        of_snapshot = [
            (kind, row)
            for kind, row, ordinal in zip(kinds, listed, changes["_change_ordinal"].to_pylist(), strict=True)
            if ordinal == number
        ]
        after.subtract(Counter(row for kind, row in of_snapshot if kind in REMOVED))
        missing = {row: count for row, count in after.items() if count < 0}
        assert not missing, f"deleted, and never there: {missing}"
        after.update(Counter(row for kind, row in of_snapshot if kind in ADDED))
    return +after
