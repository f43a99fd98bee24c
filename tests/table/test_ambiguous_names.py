"""Two columns with one dotted name: such a schema is refused, and in the table of another writer the name never selects the wrong column."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from icefloe import LongType, NestedField, Schema, SqlCatalog, StructType, Table
from icefloe.errors import InvalidSchemaError

FOO = pa.struct([("bar", pa.int64())])
BOTH = pa.schema([("foo.bar", pa.int64()), ("foo", FOO)])


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    return catalog


@pytest.fixture
def dotted(catalog: SqlCatalog) -> Table:
    return catalog.create_table("db.dotted", pa.schema([("foo.bar", pa.int64()), ("x", FOO), ("n", pa.int64())]))


@pytest.fixture
def nested(catalog: SqlCatalog) -> Table:
    return catalog.create_table("db.nested", pa.schema([("foo", FOO), ("n", pa.int64())]))


@pytest.fixture
def ambiguous(catalog: SqlCatalog) -> Table:
    """Return a table of another writer: the column `foo.bar` has 1 and 2, the field `bar` of `foo` 2 and 3."""
    table = catalog.create_table("db.made", pa.schema([("foo_bar", pa.int64()), ("foo", FOO)]))
    table.append(pa.table({"foo_bar": [1, 2], "foo": pa.array([{"bar": 2}, {"bar": 3}], FOO)}))
    changed = Path(table.metadata_location).with_name("00009-changed.metadata.json")
    changed.write_text(Path(table.metadata_location).read_text().replace('"foo_bar"', '"foo.bar"'))
    return catalog.register_table("db.ambiguous", str(changed))


def rename_nested(table: Table) -> None:
    with table.update_schema() as update:
        update.rename_column("n", "foo.bar")


def add_nested(table: Table) -> None:
    with table.update_schema() as update:
        update.add_column(("foo.bar",), LongType())


def union_nested(table: Table) -> None:
    with table.update_schema() as update:
        update.union_by_name(pa.schema([("foo.bar", pa.int64())]))


def add_struct(table: Table) -> None:
    with table.update_schema() as update:
        update.add_column("foo", StructType(NestedField(1, "bar", LongType())))


def rename_struct(table: Table) -> None:
    with table.update_schema() as update:
        update.rename_column("x", "foo")


def test_no_table_is_created_with_two_columns_of_one_name(catalog: SqlCatalog) -> None:
    with pytest.raises(InvalidSchemaError, match=r"name foo\.bar"):
        catalog.create_table("db.t", BOTH)
    inner = Schema(
        NestedField(1, "foo.bar", LongType()), NestedField(2, "foo", StructType(NestedField(3, "bar", LongType()))), identifier_field_ids=[]
    )
    with pytest.raises(InvalidSchemaError, match=r"name foo\.bar"):
        catalog.create_table("db.t", inner)
    assert not catalog.table_exists("db.t")


def test_no_table_is_replaced_with_two_columns_of_one_name(catalog: SqlCatalog, nested: Table) -> None:
    with pytest.raises(InvalidSchemaError, match=r"foo\.bar"):
        catalog.create_or_replace_table("db.nested", BOTH)
    assert catalog.load_table("db.nested").schema().names == ["foo", "n"]


@pytest.mark.parametrize("change", [rename_nested, add_nested, union_nested])
def test_no_column_gets_the_name_of_a_nested_field(nested: Table, change: Callable[[Table], None]) -> None:
    with pytest.raises(InvalidSchemaError, match=r"two columns named foo\.bar"):
        change(nested)


@pytest.mark.parametrize("change", [add_struct, rename_struct])
def test_no_nested_field_gets_the_name_of_a_column(dotted: Table, change: Callable[[Table], None]) -> None:
    with pytest.raises(InvalidSchemaError, match=r"two columns named foo\.bar"):
        change(dotted)


def test_a_unique_dotted_name_is_an_ordinary_column(dotted: Table) -> None:
    dotted.append(pa.table({"foo.bar": [1, 2], "x": pa.array([{"bar": 5}, {"bar": 6}], FOO), "n": [0, 0]}))
    for name in ("foo.bar", '"foo.bar"', "`foo.bar`"):
        assert dotted.scan(f"{name} = 2").select("foo.bar").to_arrow().to_pylist() == [{"foo.bar": 2}]


@pytest.mark.parametrize("filter", ['"foo.bar" = 2', "`foo.bar` = 2", "foo.bar = 2", "foo.bar is null"])
def test_a_filter_by_an_ambiguous_name_is_refused(ambiguous: Table, filter: str) -> None:
    with pytest.raises(InvalidSchemaError, match=r"two columns have the name foo\.bar") as refused:
        ambiguous.scan(filter).to_arrow()
    assert "rename_column" in str(refused.value)
    for scan in (
        lambda: ambiguous.scan("FOO.BAR = 2", case_sensitive=False).to_arrow(),
        lambda: ambiguous.scan().select("foo.bar").to_arrow(),
    ):
        with pytest.raises(InvalidSchemaError, match="two columns have the name"):
            scan()
    with pytest.raises(InvalidSchemaError, match="two columns have the name"):
        ambiguous.delete(filter)


def test_an_ambiguous_table_is_read_and_repaired_by_a_rename(ambiguous: Table) -> None:
    assert ambiguous.scan().to_arrow().to_pylist() == [{"foo.bar": 1, "foo": {"bar": 2}}, {"foo.bar": 2, "foo": {"bar": 3}}]
    with ambiguous.update_schema() as update:
        update.add_column("other", LongType())
    with pytest.raises(InvalidSchemaError, match="two columns"), ambiguous.update_schema() as update:
        update.rename_column("foo.bar", "plain")
    with ambiguous.update_schema() as update:
        update.rename_column(("foo.bar",), "plain")
    assert ambiguous.schema().names == ["plain", "foo", "other"]
    assert ambiguous.scan("foo.bar = 2").select("plain").to_arrow()["plain"].to_pylist() == [1]
    assert ambiguous.scan("plain = 2").select("plain").to_arrow()["plain"].to_pylist() == [2]
