"""Changes without effect on a stale table are checked on the current table: they are applied there, conflict with it, or really have no effect."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from icefloe import SqlCatalog
from icefloe.errors import CommitConflictError, NoSuchTableError
from icefloe.spec.types import LongType
from icefloe.table import Table

SCHEMA = pa.schema([("n", pa.int64()), ("note", pa.string())])
PROPERTIES = {"a": "1", "commit.retry.min-wait-ms": "1", "commit.retry.max-wait-ms": "2"}


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    for name in ("db.t", "db.other"):
        table = catalog.create_table(name, SCHEMA, properties=PROPERTIES)
        table.append(rows(1))
        table.append(rows(2))
    return catalog


def rows(number: int) -> pa.Table:
    return pa.table({"n": pa.array([number], pa.int64()), "note": pa.array([None], pa.string())})


def set_a(table: Table) -> None:
    table.set_properties(a="1")


def set_a_in_a_transaction(table: Table) -> None:
    with table.transaction() as tx:
        tx.set_properties(a="1")
        tx.remove_properties("nothing")


def remove_b(table: Table) -> None:
    table.remove_properties("b")


def move_back(table: Table) -> None:
    table.set_location(table.location())


def empty_statistics(table: Table) -> None:
    with table.update_statistics() as update:
        update.remove_statistics(table.snapshots()[0].snapshot_id)


def another_property(table: Table) -> None:
    table.set_properties(a="2", b="3")


def another_location(table: Table) -> None:
    table.set_location(f"{table.location()}-moved")


def some_statistics(table: Table) -> None:
    table.compute_statistics(snapshot_id=table.snapshots()[0].snapshot_id)


def state(table: Table) -> tuple[str | None, bool, str, int]:
    return table.properties.get("a"), "b" in table.properties, table.location(), len(table.metadata.statistics)


@pytest.mark.parametrize(
    ("change", "others", "differs_by"),
    [
        (set_a, another_property, 1),
        (set_a_in_a_transaction, another_property, 1),
        (remove_b, another_property, 1),
        (move_back, another_location, 1),
        (empty_statistics, some_statistics, 1),
    ],
)
def test_a_change_without_effect_on_a_stale_table_is_applied_after_concurrent_changes(
    catalog: SqlCatalog, change: Callable[[Table], None], others: Callable[[Table], None], differs_by: int
) -> None:
    stale, before = catalog.load_table("db.t"), catalog.load_table("db.t")
    others(catalog.load_table("db.t"))
    other_writer = catalog.load_table("db.t")
    change(stale)
    now = catalog.load_table("db.t")
    made, wanted, left = state(now), state(before), state(other_writer)
    assert sum(one != other for one, other in zip(made, left, strict=True)) == differs_by, "made on what others left"
    assert all(one in pair for one, *pair in zip(made, wanted, left, strict=True))
    assert stale.metadata == now.metadata
    change(now)
    assert now.metadata_location == catalog.load_table("db.t").metadata_location == stale.metadata_location, "nothing to do is no version"


def same_schema(table: Table) -> None:
    with table.update_schema() as update:
        update.update_column("n", field_type=LongType())


def same_spec(table: Table) -> None:
    with table.update_spec():
        pass


def same_order(table: Table) -> None:
    with table.update_sort_order():
        pass


def same_head(table: Table) -> None:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    with table.manage_snapshots() as manage:
        manage.set_current_snapshot(snapshot.snapshot_id)


def rolled_back_to_the_head(table: Table) -> None:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    with table.transaction() as tx, tx.manage_snapshots() as manage:
        manage.rollback_to_snapshot(snapshot.snapshot_id)


def another_schema(table: Table) -> None:
    with table.update_schema() as update:
        update.delete_column("note")


def another_spec(table: Table) -> None:
    with table.update_spec() as update:
        update.add_field("n", "bucket[4]")


def another_order(table: Table) -> None:
    with table.update_sort_order() as update:
        update.asc("n")


def another_head(table: Table) -> None:
    table.append(rows(3))


@pytest.mark.parametrize(
    ("change", "others"),
    [
        (same_schema, another_schema),
        (same_spec, another_spec),
        (same_order, another_order),
        (same_head, another_head),
        (rolled_back_to_the_head, another_head),
    ],
)
def test_a_change_based_on_concurrently_changed_metadata_is_a_conflict(
    catalog: SqlCatalog, change: Callable[[Table], None], others: Callable[[Table], None]
) -> None:
    stale = catalog.load_table("db.t")
    change(stale)
    others(catalog.load_table("db.t"))
    location = catalog.load_table("db.t").metadata_location
    with pytest.raises(CommitConflictError, match=r"lake\.db\.t"):
        change(stale)
    assert catalog.load_table("db.t").metadata_location == location


def test_a_delete_without_matches_deletes_rows_added_since_or_conflicts(catalog: SqlCatalog) -> None:
    stale = catalog.load_table("db.t")
    catalog.load_table("db.t").append(rows(5))
    try:
        stale.delete("n = 5")
    except CommitConflictError:
        stale.refresh().delete("n = 5")
    assert sorted(catalog.load_table("db.t").scan().to_arrow()["n"].to_pylist()) == [1, 2]
    assert stale.metadata == catalog.load_table("db.t").metadata


def test_a_change_without_effect_in_a_commit_to_several_tables_is_checked_too(catalog: SqlCatalog) -> None:
    with catalog.transaction() as tx:
        tx.load_table("db.other").append(rows(3))
        member = tx.load_table("db.t")
        member.set_properties(a="1")
        another_property(catalog.load_table("db.t"))
    assert catalog.load_table("db.t").properties["a"] == "1"
    assert member.table is not None
    assert member.table.metadata == catalog.load_table("db.t").metadata
    assert catalog.load_table("db.other").scan().to_arrow().num_rows == 3


def test_a_change_without_effect_on_a_dropped_table_is_an_error(catalog: SqlCatalog) -> None:
    stale = catalog.load_table("db.t")
    catalog.drop_table("db.t")
    with pytest.raises(NoSuchTableError, match=r"db\.t"):
        set_a(stale)
    catalog.create_table("db.t", SCHEMA, properties=PROPERTIES)
    with pytest.raises(NoSuchTableError, match="another table now"):
        set_a(stale)
