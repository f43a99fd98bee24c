"""Tables created with format version 3, and tables upgraded to it: types, defaults, row ids."""

from pathlib import Path

import pyarrow as pa
import pytest

from icefloe import LongType, NestedField, Schema, SqlCatalog, StringType, TimestampNanoType, UnknownType, VariantType
from icefloe.errors import InvalidInputError, InvalidSchemaError, UnsupportedFormatVersionError
from icefloe.table import Table

ROWS = pa.table({"id": pa.array(range(10), pa.int64()), "part": ["ab"[n % 2] for n in range(10)]})


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    return catalog


def lineage(table: Table) -> dict[int, tuple[int | None, int | None]]:
    names = ("id", "_row_id", "_last_updated_sequence_number")
    return {row["id"]: (row["_row_id"], row["_last_updated_sequence_number"]) for row in table.scan().select(*names).to_arrow().to_pylist()}


@pytest.mark.parametrize("old", [1, 2])
def test_the_first_snapshot_after_the_upgrade_assigns_row_ids_to_existing_rows(catalog: SqlCatalog, old: int) -> None:
    """Upgrade a table: next-row-id is 0 and old snapshots are unchanged; the next commit assigns a first row id to each old manifest.

    Spec: Row Lineage for Upgraded Tables.
    """
    table = catalog.create_table("db.t", ROWS.schema, partition_spec=["part"], properties={"format-version": str(old)})
    table.append(ROWS)
    table.append(ROWS.slice(0, 4))
    table.delete("id = 3")
    before = [snapshot.snapshot_id for snapshot in table.snapshots()]
    if old == 1:
        table.upgrade_table_version(2)
    table.upgrade_table_version(3)
    assert (table.format_version, table.metadata.next_row_id) == (3, 0)
    assert set(lineage(table).values()) == {(None, None)}
    assert all(snapshot.first_row_id is None for snapshot in table.snapshots())
    table.append(pa.table({"id": [100], "part": ["a"]}))
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.first_row_id == 0
    assert table.metadata.next_row_id == snapshot.added_rows
    result = table.scan().select("_row_id", "_last_updated_sequence_number").to_arrow()
    ids = result["_row_id"].to_pylist()
    assert len(set(ids)) == len(ids) == 13
    assert None not in ids
    assert max(ids) < table.metadata.next_row_id
    for manifest in snapshot.manifests(table.io):
        assert manifest.first_row_id is not None
    assert all(table.snapshot_by_id(snapshot_id).first_row_id is None for snapshot_id in before)  # type: ignore[union-attr]
    again = lineage(table)
    table.append(pa.table({"id": [101], "part": ["b"]}))
    assert {key: value for key, value in lineage(table).items() if key != 101} == again


def test_a_delete_can_be_the_first_snapshot_after_the_upgrade(catalog: SqlCatalog) -> None:
    for mode in ("copy-on-write", "merge-on-read"):
        table = catalog.create_table(f"db.{mode[:4]}", ROWS.schema, properties={"write.delete.mode": mode})
        table.append(ROWS)
        table.upgrade_table_version(3)
        table.delete("id < 4")
        first = lineage(table)
        assert None not in {row_id for row_id, _ in first.values()}
        table.delete("id < 6")
        assert lineage(table) == {number: first[number] for number in range(6, 10)}


def test_a_lower_or_unsupported_format_version_is_refused(catalog: SqlCatalog) -> None:
    table = catalog.create_table("db.t", ROWS.schema, properties={"format-version": "3"})
    with pytest.raises(InvalidInputError):
        table.upgrade_table_version(2)
    with pytest.raises(UnsupportedFormatVersionError):
        table.upgrade_table_version(4)
    assert table.format_version == 3


def test_a_new_table_of_version_3_has_types_defaults_and_row_ids(catalog: SqlCatalog) -> None:
    schema = Schema(
        NestedField(1, "id", LongType()),
        NestedField(2, "at", TimestampNanoType()),
        NestedField(3, "nothing", UnknownType()),
        NestedField(4, "kind", StringType(), initial_default="none", write_default="new"),
    )
    table = catalog.create_table("db.t", schema, properties={"format-version": "3"})
    assert (table.format_version, table.metadata.next_row_id, dict(table.properties)) == (3, 0, {})
    table.append(pa.table({"id": [1, 2], "at": pa.array([5, None], pa.timestamp("ns"))}))
    with table.update_schema() as update:
        update.add_column("added", LongType(), default_value=7)
    table.append(pa.table({"id": [3], "added": [8]}))
    rows = table.scan(selected_fields=("*", "_row_id", "_last_updated_sequence_number")).to_arrow().sort_by("id").to_pylist()
    assert [(row["id"], row["kind"], row["added"], row["nothing"]) for row in rows] == [
        (1, "new", 7, None),
        (2, "new", 7, None),
        (3, "new", 8, None),
    ]
    assert [(row["_row_id"], row["_last_updated_sequence_number"]) for row in rows] == [(0, 1), (1, 1), (2, 2)]


@pytest.mark.parametrize(
    "field",
    [
        NestedField(2, "odd", VariantType()),
        NestedField(2, "odd", TimestampNanoType()),
        NestedField(2, "odd", LongType(), initial_default=1),
    ],
)
def test_the_error_for_a_type_or_default_that_version_2_lacks_names_the_column(
    catalog: SqlCatalog, field: NestedField, tmp_path: Path
) -> None:
    schema = Schema(NestedField(1, "id", LongType()), field)
    with pytest.raises(InvalidSchemaError) as refused:
        catalog.create_table("db.t", schema)
    assert "odd" in str(refused.value)
    assert not list(tmp_path.rglob("*.json"))
    catalog.create_table("db.t", schema, properties={"format-version": "3"})
