"""Transactions: several changes are one table version or none; each sees those before it; conflicts are handled as for a single change."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from tests.repetitions import examples

from icefloe import (
    CommitConflictError,
    InvalidInputError,
    InvalidPropertyError,
    InvalidSchemaError,
    LongType,
    ReadOnlyTableError,
    SqlCatalog,
    StaticTable,
    StringType,
    Table,
    UnsupportedError,
)
from icefloe.spec.metadata.metadata_writer import write_table_metadata

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int32()), "kind": ["a", "b", "c"]})
QUICK = {"commit.retry.min-wait-ms": "1", "commit.retry.max-wait-ms": "2"}


def catalog_at(folder: Path) -> SqlCatalog:
    lake = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    lake.create_namespace("db")
    return lake


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    return catalog_at(tmp_path)


@pytest.fixture
def table(catalog: SqlCatalog) -> Table:
    table = catalog.create_table("db.t", ROWS.schema, partition_spec=["kind"], properties={"format-version": "1", **QUICK})
    table.append(ROWS)
    return table


def names(table: Table) -> list[str]:
    return [f"{field.name}:{field.transform}" for field in table.spec().fields]


def test_all_changes_are_one_table_version_and_later_ones_see_earlier_ones(table: Table, tmp_path: Path) -> None:
    before = table.metadata
    with table.transaction() as tx:
        tx.upgrade_table_version(format_version=2)
        with tx.update_schema() as schema:
            schema.add_column("day", LongType()).update_column("id", LongType())
        with tx.update_spec() as spec:
            spec.add_field("day", "bucket[4]").remove_field("kind")
        with tx.update_sort_order() as order:
            order.desc("day")
        with tx.update_schema() as schema:
            schema.rename_column("day", "when")
        tx.set_properties({"owner": "me"}, note="x")
        tx.remove_properties("note")
        tx.set_location(f"{tmp_path}/elsewhere/")
        assert tx.table_metadata.schema().names == ["id", "kind", "when"]
        assert table.refresh().metadata_location == table.metadata_location
        assert table.metadata == before
    after = table.metadata
    assert len(after.metadata_log) == len(before.metadata_log) + 1
    assert (after.format_version, table.schema().names, names(table)) == (2, ["id", "kind", "when"], ["day_bucket_4:bucket[4]"])
    assert [(key.source_id, str(key.direction)) for key in table.sort_order().fields] == [(3, "desc")]
    assert (table.properties["owner"], "note" in table.properties, table.location()) == ("me", False, f"{tmp_path}/elsewhere")
    assert table.metadata_location.startswith(f"{tmp_path}/elsewhere/metadata/")
    assert write_table_metadata(table.refresh().metadata) == write_table_metadata(after)
    table.append(pa.table({"id": [4], "kind": ["d"], "when": [7]}))
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2, 3, 4]


def test_an_error_in_the_block_leaves_the_table_unchanged(table: Table, tmp_path: Path) -> None:
    location, files = table.metadata_location, sorted(tmp_path.rglob("*"))
    tx = table.transaction()
    tx.set_properties(owner="me")
    with pytest.raises(ZeroDivisionError), tx:
        raise ZeroDivisionError
    with pytest.raises(InvalidInputError, match="is over"):
        tx.set_properties(owner="me")
    assert table.refresh().metadata_location == location
    assert sorted(tmp_path.rglob("*")) == files


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda tx: tx.upgrade_table_version(99), UnsupportedError),
        (lambda tx: tx.set_location("/"), InvalidInputError),
        (lambda tx: tx.set_properties({"write.target-file-size-bytes": "x"}), InvalidPropertyError),
        (lambda tx: tx.update_schema().add_column("id", LongType()), InvalidSchemaError),
        (lambda tx: tx.update_schema().rename_column("kind", "id_2").add_column("id_2", LongType()), InvalidSchemaError),
    ],
)
def test_an_invalid_change_is_refused_by_the_call_that_makes_it(table: Table, change: Callable[[Any], Any], error: type[Exception]) -> None:
    tx = table.transaction()
    tx.set_properties(owner="me")
    with pytest.raises(error):
        change(tx)
    tx.commit_transaction()
    assert table.properties["owner"] == "me"


def test_a_transaction_that_changes_nothing_writes_nothing(table: Table) -> None:
    location = table.metadata_location
    with table.transaction() as tx:
        tx.set_location(table.location())
        tx.upgrade_table_version(1)
        tx.remove_properties("none")
    assert table.refresh().metadata_location == location
    with pytest.raises(InvalidInputError, match="is over"):
        tx.commit_transaction()


def test_a_transaction_is_retried_after_a_concurrent_append(catalog: SqlCatalog, table: Table) -> None:
    with table.transaction() as tx:
        with tx.update_schema() as schema:
            schema.rename_column("id", "key")
        with tx.update_schema() as schema:
            schema.add_column("id", LongType())
        catalog.load_table("db.t").append(ROWS)
    assert table.scan().count() == 6
    assert (table.schema().names, len(table.metadata.schemas)) == (["key", "kind", "id"], 3)
    assert len(table.metadata.snapshots) == 2


def test_a_transaction_that_conflicts_with_a_schema_change_changes_nothing(catalog: SqlCatalog, table: Table, tmp_path: Path) -> None:
    tx = table.transaction()
    tx.set_properties(owner="me")
    tx.update_spec().remove_field("kind").commit()
    tx.update_schema().add_column("note", StringType()).commit()
    with catalog.load_table("db.t").update_schema() as other:
        other.add_column("other", LongType())
    files = sorted(tmp_path.rglob("*.json"))
    with pytest.raises(CommitConflictError, match="current schema"):
        tx.commit_transaction()
    assert sorted(tmp_path.rglob("*.json")) == files
    table.refresh()
    assert (table.schema().names, "owner" in table.properties, names(table)) == (["id", "kind", "other"], False, ["kind:identity"])


def test_a_table_opened_by_its_metadata_has_no_transactions(table: Table) -> None:
    with pytest.raises(ReadOnlyTableError, match="cannot be changed"):
        StaticTable.from_metadata(table.metadata_location).transaction()


STEPS = st.lists(
    st.sampled_from(
        [
            lambda it: it.update_schema().add_column(f"c{it_columns(it)}", LongType()).commit(),
            lambda it: it.update_schema().rename_column(it_schema(it).names[-1], f"r{it_columns(it)}").commit(),
            lambda it: it.update_schema().move_first(it_schema(it).names[-1]).commit(),
            lambda it: it.update_spec().add_field(it_schema(it).names[-1], "void", f"p{it_metadata(it).last_partition_id}").commit(),
            lambda it: it.update_sort_order().asc(it_schema(it).names[-1]).commit(),
            lambda it: it.update_sort_order().commit(),
            lambda it: it.set_properties({"a": str(it_columns(it))}),
            lambda it: it.remove_properties("a"),
            lambda it: it.set_properties({"format-version": "2"}),
        ]
    ),
    max_size=7,
)


def is_refused(step: Callable[[Any], Any], it: Any) -> bool:
    try:
        step(it)
    except InvalidInputError:
        return True
    return False


def it_metadata(it: Any) -> Any:
    return it.metadata if isinstance(it, Table) else it.table_metadata


def it_schema(it: Any) -> Any:
    return it_metadata(it).schema()


def it_columns(it: Any) -> int:
    return int(it_metadata(it).last_column_id)


@settings(max_examples=examples(12), suppress_health_check=[HealthCheck.too_slow])
@given(steps=STEPS)
def test_a_transaction_has_the_result_of_its_separate_changes(
    steps: list[Callable[[Any], Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    catalog = catalog_at(tmp_path_factory.mktemp("steps"))
    one_by_one, together = (
        catalog.create_table(name, ROWS.schema, partition_spec=["kind"], properties={"format-version": "1"}) for name in ("db.a", "db.b")
    )
    refused = [is_refused(step, one_by_one) for step in steps]
    with together.transaction() as tx:
        assert [is_refused(step, tx) for step in steps] == refused
        assert seen(tx.table_metadata) == seen(one_by_one.metadata)
    assert seen(together.refresh().metadata) == seen(one_by_one.metadata)
    assert len(together.metadata.metadata_log) <= 1


def seen(metadata: Any) -> tuple[Any, ...]:
    return (
        metadata.format_version,
        [*metadata.schemas],
        metadata.current_schema_id,
        [*metadata.partition_specs],
        metadata.default_spec_id,
        [*metadata.sort_orders],
        metadata.default_sort_order_id,
        metadata.last_column_id,
        metadata.last_partition_id,
        dict(metadata.properties),
    )
