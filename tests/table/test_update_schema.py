"""Schema changes of a table: in one commit or not at all, also with concurrent writers; every row of every snapshot is still read correctly."""

from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.combinations import combinations

from icefloe import (
    CommitConflictError,
    DecimalType,
    DoubleType,
    IntegerType,
    InvalidInputError,
    InvalidPropertyError,
    InvalidSchemaError,
    LongType,
    NestedField,
    ReadOnlyTableError,
    Schema,
    SortField,
    SortOrder,
    SqlCatalog,
    StaticTable,
    StringType,
    StructType,
    TimestampType,
)
from icefloe.commit.metadata_change import MetadataChange
from icefloe.commit.outcome import Conflicted, Outcome
from icefloe.spec.metadata.layout_updates import LAST_ADDED, AddSchema, SetCurrentSchema
from icefloe.spec.schema.name_mapping import mapping_for, mapping_from_json, mapping_to_json
from icefloe.stores.catalog_store import CommitRequest
from icefloe.stores.sql_store import SqlCatalogStore
from icefloe.table import Table

ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int32()),
        "name": ["a", "b", None],
        "ratio": pa.array([0.5, None, 2.0], pa.float32()),
        "price": pa.array([Decimal("1.50"), Decimal("-2.25"), None], pa.decimal128(9, 2)),
        "place": pa.array(
            [{"lat": 1.0, "lon": 2.0}, None, {"lat": None, "lon": 4.0}], pa.struct([("lat", pa.float32()), ("lon", pa.float64())])
        ),
    }
)
QUICK = {"commit.retry.min-wait-ms": "1", "commit.retry.max-wait-ms": "2"}


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    return catalog


@pytest.fixture(params=["1", "2"])
def table(catalog: SqlCatalog, request: pytest.FixtureRequest) -> Table:
    table = catalog.create_table("db.t", ROWS.schema, properties={"format-version": request.param, **QUICK})
    table.append(ROWS)
    return table


def column(table: Table, name: str, **options: Any) -> list[Any]:
    return table.scan(**options).to_arrow()[name].to_pylist()  # type: ignore[no-any-return]


def test_changes_are_one_commit_without_a_snapshot(table: Table) -> None:
    before = table.metadata
    with table.update_schema() as update:
        update.add_column("note", StringType(), doc="free").rename_column("name", "label").update_column("id", LongType())
        update.move_first("note")
    after = table.metadata
    assert (len(after.schemas), after.current_schema_id, len(after.metadata_log)) == (2, 1, len(before.metadata_log) + 1)
    assert after.current_snapshot_id == before.current_snapshot_id
    assert after.last_column_id == before.last_column_id + 1
    assert table.schema().names == ["note", "id", "label", "ratio", "price", "place"]
    assert table.refresh().metadata.current_schema_id == 1


def test_old_rows_are_read_with_the_new_schema_and_an_old_snapshot_with_its_schema(table: Table) -> None:
    first = table.snapshots()[0].snapshot_id
    with table.update_schema() as update:
        update.update_column("id", LongType()).update_column("ratio", DoubleType()).update_column("price", DecimalType(20, 2))
        update.rename_column("name", "label").add_column("place.name", StringType()).delete_column("place.lon")
        update.add_column("name", IntegerType())
    table.append(pa.table({"id": [2**40], "label": ["z"], "name": pa.array([7], pa.int32())}))
    rows = {row["id"]: row for row in table.scan().to_arrow().to_pylist()}
    assert rows[1] == {"id": 1, "label": "a", "ratio": 0.5, "price": Decimal("1.50"), "place": {"lat": 1.0, "name": None}, "name": None}
    assert rows[2]["place"] is None
    assert (rows[2**40]["label"], rows[2**40]["name"], rows[2**40]["place"]) == ("z", 7, None)
    assert table.scan(snapshot_id=first).to_arrow() == ROWS.cast(table.scan(snapshot_id=first).to_arrow().schema)
    assert column(table, "id", row_filter="id < 3 and label = 'a'") == [1]
    assert column(table, "id", row_filter="name = 7") == [2**40]
    assert column(table, "name", row_filter="name = 'a'", snapshot_id=first) == ["a"]


def test_rows_of_old_files_are_deleted_by_the_new_names(table: Table) -> None:
    with table.update_schema() as update:
        update.rename_column("name", "label").update_column("id", LongType()).add_column("extra", LongType())
    table.append(pa.table({"id": [10, 11], "label": ["a", "q"], "extra": [1, 2]}))
    table.delete("label = 'a' and id < 10 or extra = 2")
    assert sorted(column(table, "id")) == [2, 3, 10]
    table.overwrite(pa.table({"id": [99], "extra": [5]}), "extra is null")
    assert sorted(column(table, "id")) == [10, 99]


def test_a_dropped_column_added_again_has_no_old_values(table: Table) -> None:
    with table.update_schema() as update:
        update.delete_column("name")
    with table.update_schema() as update:
        update.add_column("name", StringType())
    assert column(table, "name") == [None, None, None]


def test_a_schema_that_existed_before_keeps_its_id(table: Table) -> None:
    with table.update_schema() as update:
        update.rename_column("name", "label")
    with table.update_schema() as update:
        update.rename_column("label", "name")
    assert (len(table.metadata.schemas), table.metadata.current_schema_id) == (2, 0)


def test_without_a_change_nothing_is_committed(table: Table) -> None:
    before = table.metadata_location
    with table.update_schema() as update:
        update.update_column("name", required=False)
    with table.update_schema() as update:
        update.add_column("x", LongType()).delete_column("x")
    assert table.metadata_location == before


def test_an_error_in_the_block_commits_nothing(table: Table) -> None:
    before = table.metadata_location

    def change() -> None:
        with table.update_schema() as update:
            update.add_column("x", LongType())
            raise KeyError("x")

    with pytest.raises(KeyError):
        change()
    assert table.refresh().metadata_location == before


def test_an_invalid_change_is_refused_by_the_call_that_makes_it(table: Table) -> None:
    update = table.update_schema()
    with pytest.raises(InvalidSchemaError, match="only widen"):
        update.update_column("id", StringType())
    with pytest.raises(InvalidInputError, match="no schema"):
        update.union_by_name({"id": "long"})
    update.add_column("x", LongType())
    assert update.schema().names[-1] == "x"
    update.commit()
    assert "x" in table.schema().names


def test_union_by_name_accepts_the_schema_of_rows(table: Table) -> None:
    more = ROWS.append_column("extra", pa.array([True, False, None]))
    more = more.set_column(0, "id", more["id"].cast(pa.int64()))
    with table.update_schema() as update:
        update.union_by_name(more.schema)
    table.append(more)
    assert sorted(column(table, "extra"), key=str) == [False, None, None, None, None, True]
    with table.update_schema() as update:
        update.union_by_name(Schema(NestedField(1, "extra2", StructType(NestedField(2, "a", LongType())))))
    assert table.schema().column_names[-2:] == ["extra2", "extra2.a"]


def test_required_columns_without_a_default_are_added_if_incompatible_changes_are_allowed(catalog: SqlCatalog, table: Table) -> None:
    empty = catalog.create_table("db.empty", pa.schema([("a", pa.int64())]))
    for one in (table, empty):
        with pytest.raises(InvalidInputError, match="cannot be added as required"):
            one.update_schema().add_column("key", LongType(), required=True)
        with pytest.raises(InvalidInputError, match="cannot be added as required"), one.transaction() as tx:
            tx.update_schema().add_column("key", LongType(), required=True)
    with empty.update_schema(allow_incompatible_changes=True) as update:
        update.add_column("key", LongType(), required=True).set_identifier_fields("key")
    assert empty.schema().identifier_field_ids == (2,)
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.update_column("id", required=True).set_identifier_fields("id")
    assert sorted(column(table, "id")) == [1, 2, 3]
    with table.update_schema() as update:
        update.set_identifier_fields()
        update.make_column_optional("id")
    assert table.schema().find_field("id").optional


@pytest.mark.parametrize(
    ("spec", "change", "message"),
    [
        (["name"], lambda update: update.delete_column("name"), r"column name cannot be deleted: partition field name \(identity\)"),
        (["bucket(4, name)"], lambda update: update.delete_column("name"), "partition field name_bucket"),
        (["place.lat"], lambda update: update.delete_column("place"), r"column place\.lat cannot be deleted"),
        (["truncate(10, id)"], lambda update: update.update_column("id", LongType()), r"truncate\[10\] of it.*wrap around"),
    ],
)
def test_the_source_column_of_a_partition_field_cannot_be_changed_incompatibly(
    catalog: SqlCatalog, spec: list[str], change: Callable[[Any], Any], message: str
) -> None:
    table = catalog.create_table("db.p", ROWS.schema, partition_spec=spec)
    with pytest.raises(InvalidSchemaError, match=message) as refused:
        change(table.update_schema()).commit()
    assert refused.value.next_step
    with pytest.raises(InvalidSchemaError, match=message):
        change(table.update_schema()).schema()


def test_a_column_with_the_name_of_a_partition_field_is_refused(catalog: SqlCatalog) -> None:
    table = catalog.create_table("db.p", ROWS.schema, partition_spec=["bucket(4, id)"])
    with pytest.raises(InvalidSchemaError, match="column id_bucket cannot have this name"):
        table.update_schema().add_column("id_bucket", LongType()).commit()
    with table.update_spec() as update:
        update.remove_field("id_bucket")
    with pytest.raises(InvalidSchemaError, match="column id_bucket cannot have this name"):
        table.update_schema().rename_column("name", "id_bucket").commit()


@pytest.mark.parametrize(
    ("spec", "version"),
    combinations(
        [["id"], ["bucket(4, id)"], ["truncate(8, id)"], ["ratio"], ["price"], ["bucket(3, price)"], ["truncate(7, price)"]], ["1", "2"]
    ),
)
def test_partition_columns_are_promoted_if_no_partition_value_changes(catalog: SqlCatalog, spec: list[str], version: str) -> None:
    table = catalog.create_table("db.p", ROWS.schema, partition_spec=spec, properties={"format-version": version})
    table.append(ROWS)
    first = table.snapshots()[0].snapshot_id
    with table.update_schema() as update:
        update.update_column("id", LongType()).update_column("ratio", DoubleType()).update_column("price", DecimalType(30, 2))
    wide = ROWS.cast(
        pa.schema(
            [
                ("id", pa.int64()),
                ("name", pa.string()),
                ("ratio", pa.float64()),
                ("price", pa.decimal128(30, 2)),
                ROWS.schema.field("place"),
            ]
        )
    )
    table.append(wide)
    for row_filter in ("id = 2", "id > 2", "ratio = 0.5", "ratio > 1", "price < 0", "price = 1.50", "price is null", "id in (1, 2)"):
        for snapshot, times in ((None, 2), (first, 1)):
            found = sorted(column(table, "id", row_filter=row_filter, snapshot_id=snapshot))
            once = {"id = 2": [2], "id > 2": [3], "ratio = 0.5": [1], "ratio > 1": [3], "price < 0": [2], "price = 1.50": [1]}
            assert found == sorted(once.get(row_filter, [3] if "null" in row_filter else [1, 2]) * times), row_filter
    table.delete("id >= 2 and ratio is null")
    assert sorted(column(table, "id")) == [1, 1, 3, 3]
    table.delete("ratio = 0.5")
    assert sorted(column(table, "id")) == [3, 3]


def test_a_column_of_the_sort_order_cannot_be_dropped(catalog: SqlCatalog) -> None:
    table = catalog.create_table(
        "db.s", Schema(NestedField(1, "a", LongType()), NestedField(2, "b", LongType())), sort_order=SortOrder(SortField(2))
    )
    with pytest.raises(InvalidSchemaError, match="column b cannot be deleted: the table's sort order"):
        table.update_schema().delete_column("b").commit()


def test_the_metrics_mode_of_a_column_is_renamed_with_it(catalog: SqlCatalog) -> None:
    prefix = "write.metadata.metrics.column."
    table = catalog.create_table(
        "db.m", ROWS.schema, properties={f"{prefix}name": "none", f"{prefix}place.lat": "counts", f"{prefix}id": "full"}
    )
    with table.update_schema() as update:
        update.rename_column("name", "label").rename_column("place", "where").delete_column("id")
    assert {key: text for key, text in table.properties.items() if key.startswith(prefix)} == {
        f"{prefix}label": "none",
        f"{prefix}where.lat": "counts",
    }


# ---- concurrent writers ----


def test_a_schema_change_is_retried_after_a_concurrent_append(catalog: SqlCatalog, table: Table) -> None:
    update = table.update_schema().add_column("note", StringType())
    other = catalog.load_table("db.t")
    other.append(ROWS)
    update.commit()
    assert table.scan().count() == 6
    assert table.schema().names[-1] == "note"
    assert table.metadata.current_snapshot_id == other.metadata.current_snapshot_id


def test_a_concurrent_schema_change_is_a_conflict_and_changes_nothing(catalog: SqlCatalog, table: Table, tmp_path: Path) -> None:
    update = table.update_schema().add_column("note", StringType())
    with catalog.load_table("db.t").update_schema() as other:
        other.add_column("note", LongType())
    files = set(tmp_path.rglob("*.json"))
    with pytest.raises(CommitConflictError, match="current schema") as refused:
        update.commit()
    assert refused.value.table == "lake.db.t"
    assert "refresh" in str(refused.value)
    assert set(tmp_path.rglob("*.json")) == files
    assert table.refresh().schema().find_type("note") == LongType()


def test_a_column_added_and_dropped_concurrently_is_a_conflict(catalog: SqlCatalog, table: Table) -> None:
    update = table.update_schema().add_column("note", StringType())
    other = catalog.load_table("db.t")
    with other.update_schema() as change:
        change.add_column("x", LongType())
    with other.update_schema() as change:
        change.delete_column("x")
    assert other.metadata.current_schema_id == table.metadata.current_schema_id
    with pytest.raises(CommitConflictError, match="last column id"):
        update.commit()


def test_an_append_retried_after_a_schema_change_has_its_old_columns(catalog: SqlCatalog, table: Table) -> None:
    with catalog.load_table("db.t").update_schema() as change:
        change.rename_column("name", "label").add_column("x", LongType()).update_column("id", LongType())
    assert table.append(ROWS).attempts == 2
    assert sorted(column(table, "label"), key=str) == [None, None, "a", "a", "b", "b"]
    assert column(table, "x") == [None] * 6


def test_a_delete_retried_after_a_schema_change_uses_the_new_columns(catalog: SqlCatalog, table: Table) -> None:
    with catalog.load_table("db.t").update_schema() as change:
        change.rename_column("name", "label").add_column("name", StringType())
    table.delete("name = 'a'")
    assert sorted(column(table, "id")) == [1, 2, 3]


def test_an_overtaken_schema_change_is_found_in_the_metadata_log(
    catalog: SqlCatalog, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    original: Callable[..., Outcome] = SqlCatalogStore.commit

    def reply_lost_and_overtaken(self: SqlCatalogStore, requests: Sequence[CommitRequest]) -> Outcome:
        original(self, requests)
        monkeypatch.undo()
        catalog.load_table("db.t").append(ROWS)
        return Conflicted(current_location=self.load(requests[0].identifier).metadata_location)

    monkeypatch.setattr(SqlCatalogStore, "commit", reply_lost_and_overtaken)
    with table.update_schema() as update:
        update.add_column("note", StringType())
    assert table.schema().names[-1] == "note"
    assert len(table.metadata.schemas) == 2


def test_a_table_opened_by_its_metadata_cannot_be_changed(table: Table) -> None:
    with pytest.raises(ReadOnlyTableError, match="cannot be changed"):
        StaticTable.from_metadata(table.metadata_location).update_schema()


def test_the_smallest_values_of_an_int_that_another_engine_promoted_are_read_and_kept(tmp_path: Path) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/wrapped.db", warehouse=str(tmp_path / "wrapped"))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", pa.schema([("n", pa.int32())]), partition_spec=["truncate(10, n)"])
    table.append(pa.table({"n": pa.array([-(2**31), 5], pa.int32())}))
    widened = Schema(NestedField(1, "n", LongType()))
    # Icefloe refuses this promotion; Java allows it.
    table.apply(MetadataChange(lambda base: (AddSchema(widened), SetCurrentSchema(LAST_ADDED)), ()))
    assert table.scan("n < 0").to_arrow()["n"].to_pylist() == [-(2**31)]
    assert table.scan("n = -2147483648").to_arrow()["n"].to_pylist() == [-(2**31)]
    assert [decision.kept for decision in table.scan("n < 0").plan(explain=True).decisions if decision.level == "file"] == [True, False]
    table.delete("n > 2000000000")
    assert sorted(table.scan().to_arrow()["n"].to_pylist()) == [-(2**31), 5]


def test_the_name_mapping_is_updated_in_the_same_commit(table: Table) -> None:
    table.set_properties({"schema.name-mapping.default": mapping_to_json(mapping_for(table.schema()))})
    log = len(table.metadata.metadata_log)
    with table.update_schema() as update:
        update.rename_column("name", "label").add_column("place.alt", DoubleType())
    assert len(table.metadata.metadata_log) == log + 1
    mapping = mapping_from_json(table.properties["schema.name-mapping.default"])
    found = [mapping.find_id(path) for path in (["name"], ["label"], ["place", "alt"])]
    assert found == [2, 2, table.metadata.last_column_id]


def test_an_invalid_name_mapping_is_refused_with_its_faults(catalog: SqlCatalog, table: Table) -> None:
    with pytest.raises(InvalidPropertyError, match=r"\$\[0\].names") as caught:
        table.set_properties({"schema.name-mapping.default": '[{"names": 1}]'})
    assert "schema.name-mapping.default" in caught.value.message
    assert "schema.name-mapping.default" not in table.refresh().properties


# ---- format version 3 ----


@pytest.fixture
def newest(catalog: SqlCatalog) -> Table:
    new_table = catalog.create_table("db.v3", ROWS.schema, properties=QUICK)
    new_table.set_properties({"format-version": "3"})
    new_table.append(ROWS)
    return new_table


def test_the_default_is_read_for_older_rows_and_written_for_newer_ones(newest: Table) -> None:
    with newest.update_schema() as update:
        update.add_column("n", LongType(), required=True, default_value=7).add_column("place.z", StringType(), default_value="q")
    assert column(newest, "n") == [7, 7, 7]
    assert [place and place["z"] for place in column(newest, "place")] == ["q", None, "q"]
    with newest.update_schema() as update:
        update.set_default_value("n", 8)
    newest.append(ROWS)
    assert sorted(column(newest, "n")) == [7, 7, 7, 8, 8, 8]
    assert (newest.scan("n = 7").count(), newest.scan("n > 7").count(), newest.scan("n < 7").count()) == (3, 3, 0)
    newest.delete("n = 7")
    assert column(newest, "n") == [8, 8, 8]


def test_defaults_below_version_3_are_refused_with_the_upgrade_as_next_step(table: Table) -> None:
    with pytest.raises(InvalidSchemaError, match=f"the table has version {table.format_version}") as caught:
        table.update_schema().add_column("n", LongType(), default_value=7)
    assert "format-version" in str(caught.value)
    with table.transaction() as tx:
        tx.upgrade_table_version(2)
        tx.upgrade_table_version(3)
        with tx.update_schema() as update:
            update.add_column("n", LongType(), default_value=7)
    assert (table.format_version, column(table, "n")) == (3, [7, 7, 7])


@pytest.mark.parametrize(
    ("transform", "allowed"), [("identity", False), ("bucket[3]", False), ("day", True), ("year", True), ("month", True)]
)
@pytest.mark.parametrize("is_default_spec", [True, False])
def test_a_date_is_promoted_to_a_timestamp_if_no_partition_value_changes(
    catalog: SqlCatalog, transform: str, allowed: bool, is_default_spec: bool
) -> None:
    rows = pa.table({"d": pa.array([-1, 0, None], pa.date32())})
    table = catalog.create_table("db.dates", rows.schema)
    table.update_spec().add_field("d", transform, "p").commit()
    table.append(rows)
    if not is_default_spec:
        table.update_spec().remove_field("p").commit()
    table.set_properties({"format-version": "3"})
    update = table.update_schema()
    if not allowed:
        with pytest.raises(InvalidSchemaError, match="whose value would change"):
            update.update_column("d", TimestampType()).commit()
        return
    update.update_column("d", TimestampType()).commit()
    table.append(pa.table({"d": pa.array([-1], pa.timestamp("us"))}))
    assert (table.scan("d < '1970-01-01'").count(), table.scan("d >= '1970-01-01'").count()) == (2, 1)


def test_a_whole_schema_is_replaced(newest: Table) -> None:
    new_schema = pa.schema([("place", pa.struct([("lat", pa.float64())])), ("new", pa.string()), ("id", pa.int64())])
    with newest.update_schema() as update:
        update.replace_with(new_schema)
    assert newest.scan().to_arrow().to_pylist() == [
        {"place": {"lat": 1.0}, "new": None, "id": 1},
        {"place": None, "new": None, "id": 2},
        {"place": {"lat": None}, "new": None, "id": 3},
    ]
    with pytest.raises(InvalidSchemaError, match="because of id") as caught:
        newest.update_schema().replace_with(pa.schema([("id", pa.string())]))
    assert [problem.where for problem in caught.value.problems] == ["id"]


def test_nulls_of_a_column_that_became_required_are_reported_and_can_be_deleted(catalog: SqlCatalog) -> None:
    table = catalog.create_table("db.late", pa.schema([("key", pa.int64()), ("x", pa.int64())]))
    table.append(pa.table({"key": pa.array([None, None, 5], pa.int64()), "x": [1, 2, 3]}))
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.update_column("key", required=True)
    assert table.scan().filter("key IS NULL").to_arrow()["x"].to_pylist() == [1, 2]
    assert table.scan().filter("key IS NOT NULL").to_arrow()["x"].to_pylist() == [3]
    table.delete("key IS NULL")
    assert table.scan().to_arrow().to_pylist() == [{"key": 5, "x": 3}]
