"""Changes of partition spec, sort order and properties, also with concurrent writers; files of every spec are read, pruned and rewritten correctly."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from icefloe import (
    BucketTransform,
    CommitConflictError,
    CommitInvalidatedError,
    DayTransform,
    InvalidInputError,
    InvalidPartitionSpecError,
    InvalidPropertyError,
    InvalidSchemaError,
    NullOrder,
    ReadOnlyTableError,
    SortDirection,
    SqlCatalog,
    StaticTable,
    UnsupportedError,
)
from icefloe.table import Table

QUICK = {"commit.retry.min-wait-ms": "1", "commit.retry.max-wait-ms": "2"}
DAY = 86_400_000_000


def rows(start: int, stop: int) -> pa.Table:
    numbers = range(start, stop)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "kind": ["abc"[n % 3] for n in numbers],
            "at": pa.array([n * DAY // 2 for n in numbers], pa.timestamp("us")),
        }
    )


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    return catalog


@pytest.fixture(params=["1", "2"])
def table(catalog: SqlCatalog, request: pytest.FixtureRequest) -> Table:
    made = catalog.create_table("db.t", rows(0, 1).schema, partition_spec=["kind"], properties={"format-version": request.param, **QUICK})
    made.append(rows(0, 10))
    return made


def ids(table: Table, row_filter: str | None = None, snapshot_id: int | None = None) -> list[int]:
    return sorted(table.scan(row_filter, snapshot_id=snapshot_id).to_arrow()["id"].to_pylist())


def fields(table: Table) -> list[tuple[int, str, str]]:
    return [(field.field_id, field.name, str(field.transform)) for field in table.spec().fields]


def partitions(table: Table) -> set[str]:
    """Return the folders of the live files below the data folder."""
    return {str(Path(task.file.file_path).parent).rpartition("/data")[2] for task in table.scan().plan_files()}


def test_rows_of_every_spec_are_read_pruned_and_deleted(table: Table) -> None:
    first = table.snapshots()[0].snapshot_id
    with table.update_spec() as update:
        update.add_field("at", DayTransform()).add_field("id", "bucket[2]", "b")
    table.append(rows(10, 20))
    with table.update_spec() as update:
        update.remove_field("kind").rename_field("b", "shard")
    table.append(rows(20, 30))
    assert len(table.specs()) == 3
    assert ids(table) == list(range(30))
    assert ids(table, "kind = 'a'") == list(range(0, 30, 3))
    assert ids(table, "at >= '1970-01-08' and id < 25") == list(range(14, 25))
    assert ids(table, "kind = 'a'", first) == [0, 3, 6, 9]
    assert table.scan("at = '1970-01-11'").plan().files_kept <= 4  # all files of the first spec, and one of the third
    table.delete("kind = 'a' and id < 25")
    assert ids(table) == [n for n in range(30) if n % 3 or n >= 25]
    table.delete("at < '1970-01-03' or at >= '1970-01-14'")
    assert ids(table) == [n for n in range(4, 26) if n % 3 or n >= 25]
    table.overwrite(rows(100, 101), "id = 5")
    assert 100 in ids(table)


def test_partition_field_ids_are_unique_over_all_specs_and_reused_for_equal_fields(table: Table) -> None:
    with table.update_spec() as update:
        update.add_field("id", BucketTransform(4))
    with table.update_spec() as update:
        update.remove_field("kind")
    with table.update_spec() as update:
        update.add_identity("kind")
    version_1 = table.format_version == 1
    bucket = (1001, "id_bucket_4", "bucket[4]")
    assert fields(table) == (
        [(1000, "kind_1000", "void"), bucket, (1002, "kind", "identity")] if version_1 else [bucket, (1000, "kind", "identity")]
    )
    assert table.metadata.last_partition_id == (1002 if version_1 else 1001)
    table.append(rows(10, 13))
    assert ids(table, "kind = 'a'") == [0, 3, 6, 9, 12]


def test_a_spec_that_existed_before_keeps_its_id(table: Table) -> None:
    with table.update_spec() as update:
        update.rename_field("kind", "sort_of")
    with table.update_spec() as update:
        update.rename_field("sort_of", "kind")
    assert (len(table.specs()), table.metadata.default_spec_id) == (2, 0)


def test_all_partition_fields_can_be_removed_and_then_their_column(table: Table) -> None:
    with table.update_spec() as update:
        update.remove_field("kind")
    assert table.spec().is_unpartitioned()
    table.append(rows(10, 20))
    assert len(table.scan("kind = 'b'").plan_files()) == 2
    with table.update_schema() as schema:
        schema.delete_column("kind")
    table.append(rows(20, 21).drop_columns(["kind"]))
    assert ids(table) == list(range(21))
    table.delete("id in (1, 2, 15)")
    assert ids(table) == [n for n in range(21) if n not in (1, 2, 15)]
    with table.update_spec() as update:
        update.add_field("at", "month")
    table.append(rows(21, 22).drop_columns(["kind"]))
    assert ids(table, "id > 19") == [20, 21]


def test_without_a_change_nothing_is_committed(table: Table) -> None:
    before = table.metadata_location
    with table.update_spec() as update:
        update.remove_field("kind").add_identity("kind")
        assert update.spec() == table.spec()
    with table.update_sort_order():
        pass
    table.set_properties({})
    table.set_properties(QUICK)
    table.remove_properties("not.there")
    assert table.metadata_location == before


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (lambda update: update.add_field("nowhere", "day"), InvalidSchemaError, "no field 'nowhere'"),
        (lambda update: update.add_field("kind", "day"), InvalidPartitionSpecError, "day does not work"),
        (lambda update: update.add_field("kind", 4), InvalidInputError, "not a transform"),
        (lambda update: update.add_identity("kind"), InvalidPartitionSpecError, "already"),
        (lambda update: update.remove_field("id"), InvalidPartitionSpecError, "no partition field 'id'"),
    ],
)
def test_an_invalid_change_is_refused_by_the_call_that_makes_it(table: Table, change: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        change(table.update_spec())


def test_names_are_matched_without_case_if_requested(table: Table) -> None:
    assert [field.name for field in table.update_spec(case_sensitive=False).add_field("AT", "year").spec().fields] == ["kind", "at_year"]
    with table.update_sort_order(case_sensitive=False) as update:
        update.asc("ID")
    assert table.sort_order().fields[0].source_id == 1


def test_a_sort_order_is_replaced_and_an_old_one_keeps_its_id(table: Table) -> None:
    with table.update_sort_order() as update:
        update.desc("id").asc("at", "day", NullOrder.NULLS_LAST)
    order = table.sort_order()
    assert [(key.direction, key.null_order, str(key.transform)) for key in order.fields] == [
        (SortDirection.DESC, NullOrder.NULLS_LAST, "identity"),
        (SortDirection.ASC, NullOrder.NULLS_LAST, "day"),
    ]
    assert order.order_id == 1
    table.append(rows(10, 16))
    new = [task.file for task in table.scan("id >= 10").plan_files()]
    assert {file.sort_order_id for file in new} == {1}
    with table.replace_sort_order():
        pass
    assert (table.metadata.default_sort_order_id, table.sort_order().is_unsorted) == (0, True)
    with table.replace_sort_order() as update:
        update.desc("id").asc("at", "day", NullOrder.NULLS_LAST)
    assert table.metadata.default_sort_order_id == 1


def test_a_sort_key_must_fit_its_column(table: Table) -> None:
    with pytest.raises(InvalidInputError, match="day does not work on type string"):
        table.update_sort_order().asc("kind", "day")


def test_properties_are_set_and_removed(table: Table) -> None:
    table.set_properties({"owner": "me", "write.target-file-size-bytes": 1000}, flag=True)
    assert {"owner": "me", "write.target-file-size-bytes": "1000", "flag": "true"}.items() <= table.properties.items()
    assert "commit.retry.min-wait-ms" in table.properties
    table.remove_properties("owner", "flag", "never")
    assert "owner" not in table.refresh().properties
    for wrong in ({"write.target-file-size-bytes": "much"}, {"owner": None}):
        with pytest.raises(InvalidPropertyError, match=next(iter(wrong))):
            table.set_properties(wrong)


def test_the_format_version_is_upgraded_by_its_property(table: Table) -> None:
    with table.update_spec() as update:
        update.add_field("at", "year")
    table.append(rows(10, 20))
    table.set_properties({"format-version": "2"})
    assert table.format_version == 2
    assert "format-version" not in table.properties
    with table.update_spec() as update:
        update.remove_field("kind")
    table.append(rows(20, 30))
    table.delete("id = 3 or id = 13 or id = 23")
    assert ids(table) == [n for n in range(30) if n % 10 != 3]
    with pytest.raises(InvalidInputError, match="cannot go back"):
        table.set_properties({"format-version": "1"})
    with pytest.raises(UnsupportedError):
        table.set_properties({"format-version": "9"})


@pytest.mark.parametrize("version", ["2", "3"])
def test_an_upgrade_assigns_a_uuid_to_a_v1_table_without_one(catalog: SqlCatalog, tmp_path: Path, version: str) -> None:
    made = catalog.create_table("db.old", rows(0, 1).schema, properties={"format-version": "1"})
    made.append(rows(0, 10))
    document = json.loads(Path(made.metadata_location.removeprefix("file://")).read_text())
    del document["table-uuid"]
    nameless = tmp_path / "00005-nameless.metadata.json"
    nameless.write_text(json.dumps(document))
    table = catalog.register_table("db.nameless", str(nameless))
    table.set_properties(owner="me")
    assert table.metadata.table_uuid is None
    with table.transaction() as transaction:
        transaction.upgrade_table_version(2)
        transaction.set_properties({"format-version": version})
    uuid = table.metadata.table_uuid
    assert (table.format_version, uuid is not None) == (int(version), True)
    table.set_properties(owner="you")
    assert catalog.load_table("db.nameless").metadata.table_uuid == uuid
    assert ids(table) == list(range(10))


# ---- concurrent writers ----


def test_a_change_is_retried_after_a_concurrent_append_or_schema_change(catalog: SqlCatalog, table: Table) -> None:
    spec, order = table.update_spec().add_field("at", "day"), table.update_sort_order().asc("id")
    other = catalog.load_table("db.t")
    other.append(rows(10, 20))
    with other.update_schema() as schema:
        schema.rename_column("at", "moment")
    spec.commit()
    order.commit()
    table.set_properties(owner="me")
    assert ids(table) == list(range(20))
    assert [field.name for field in table.spec().fields] == ["kind", "at_day"]
    assert (table.sort_order().order_id, table.properties["owner"]) == (1, "me")


def test_a_concurrent_change_of_the_same_kind_is_a_conflict(catalog: SqlCatalog, table: Table) -> None:
    spec, order = table.update_spec().add_field("at", "day"), table.update_sort_order().asc("id")
    other = catalog.load_table("db.t")
    with other.update_spec() as change:
        change.add_field("id", "bucket[2]")
    with other.update_sort_order() as change:
        change.desc("id")
    for ours, what in ((spec, "partition"), (order, "sort order")):
        with pytest.raises(CommitConflictError, match=what) as refused:
            ours.commit()
        assert "refresh" in str(refused.value)
    assert table.refresh().metadata_location == other.metadata_location


def test_properties_set_by_two_concurrent_writers_are_both_set(catalog: SqlCatalog, table: Table) -> None:
    other = catalog.load_table("db.t")
    other.set_properties(a="1", b="1")
    table.set_properties(b="2")
    assert (table.properties["a"], table.properties["b"]) == ("1", "2")


def test_a_concurrently_dropped_column_cannot_be_a_partition_source(catalog: SqlCatalog, table: Table) -> None:
    update = table.update_spec().add_field("at", "day")
    with catalog.load_table("db.t").update_schema() as schema:
        schema.delete_column("at")
    with pytest.raises(CommitInvalidatedError, match="no column with field id 3"):
        update.commit()


def test_an_append_retried_after_a_spec_change_keeps_its_spec(catalog: SqlCatalog, table: Table) -> None:
    with catalog.load_table("db.t").update_spec() as change:
        change.add_field("at", "day").remove_field("kind")
    table.append(rows(10, 13))
    assert ids(table, "kind = 'a'") == [0, 3, 6, 9, 12]
    assert partitions(table) == {"/kind=a", "/kind=b", "/kind=c"}


def test_a_table_opened_by_its_metadata_cannot_be_changed(table: Table) -> None:
    static = StaticTable.from_metadata(table.metadata_location)
    for change in (
        static.update_spec,
        static.update_sort_order,
        static.replace_sort_order,
        static.set_properties,
        static.remove_properties,
    ):
        with pytest.raises(ReadOnlyTableError, match="cannot be changed"):
            change()


def with_unknown_transforms(table: Table) -> None:
    """Rewrite the newest metadata file with transforms that are unknown to the format, in the spec and the sort order."""
    path = Path(table.metadata_location)
    metadata = json.loads(path.read_text())
    for spec in metadata["partition-specs"]:
        number, text = spec["fields"][:2]
        number |= {"transform": "zed[3]", "name": "id_zed"}
        del text["source-id"]
        text |= {"transform": "bucket[4]", "source-ids": [2, 1], "name": "both"}
    metadata["sort-orders"].append(
        {"order-id": 7, "fields": [{"source-ids": [1, 2], "transform": "zed", "direction": "asc", "null-order": "nulls-last"}]}
    )
    metadata["default-sort-order-id"] = 7
    metadata.pop("partition-spec", None)
    path.write_text(json.dumps(metadata))


@pytest.fixture(params=["1", "2"])
def unknown(catalog: SqlCatalog, request: pytest.FixtureRequest) -> Table:
    made = catalog.create_table(
        "db.u", rows(0, 1).schema, partition_spec=["id", "kind"], properties={"format-version": request.param, **QUICK}
    )
    made.append(rows(0, 10))
    with_unknown_transforms(made)
    return catalog.load_table("db.u")


def test_a_table_with_unknown_transforms_is_read_and_its_schema_can_be_changed(unknown: Table) -> None:
    assert ids(unknown) == list(range(10))
    assert (ids(unknown, "id = 3"), ids(unknown, "kind = 'a'")) == ([3], [0, 3, 6, 9])
    with unknown.update_schema() as update:
        update.rename_column("kind", "sort")
    unknown.set_properties(owner="me")
    assert ids(unknown, "sort = 'a'") == [0, 3, 6, 9]
    written = json.loads(Path(unknown.metadata_location).read_text())
    sources = [(field.get("source-id"), field.get("source-ids"), field["transform"]) for field in written["partition-specs"][0]["fields"]]
    assert sources == [(1, None, "zed[3]"), (None, [2, 1], "bucket[4]")]
    assert written["sort-orders"][-1]["fields"][0]["source-ids"] == [1, 2]


def test_nothing_is_written_with_an_unknown_transform(unknown: Table, tmp_path: Path) -> None:
    files = sorted(path.name for path in (tmp_path / "db" / "u").rglob("*.parquet"))
    for change in (lambda: unknown.append(rows(10, 12)), lambda: unknown.overwrite(rows(10, 12)), lambda: unknown.delete("id = 3")):
        with pytest.raises(UnsupportedError, match=r"zed\[3\]"):
            change()
    with pytest.raises(InvalidSchemaError, match="is computed from it"), unknown.update_schema() as update:
        update.delete_column("kind")
    with pytest.raises(InvalidPartitionSpecError, match="no transform 'zed'"):
        unknown.update_spec().add_field("at", "zed")
    with pytest.raises(InvalidInputError, match="no transform 'zed'"):
        unknown.update_sort_order().asc("at", "zed")
    assert sorted(path.name for path in (tmp_path / "db" / "u").rglob("*.parquet")) == files


def test_rows_are_written_once_the_unknown_fields_are_removed(unknown: Table) -> None:
    with pytest.raises(InvalidPartitionSpecError, match="of 2 columns"), unknown.update_spec() as update:
        update.remove_field("id_zed")
    with unknown.update_spec() as update:
        update.remove_field("id_zed").remove_field("both")
    unknown.append(rows(10, 12))
    assert ids(unknown, "id > 7") == [8, 9, 10, 11]
    unknown.delete("id = 10")
    assert ids(unknown) == [*range(10), 11]
