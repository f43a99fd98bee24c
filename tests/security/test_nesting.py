"""Rows nested more deeply than readers can read are refused before they are written; such tables of others are read, or refused with an error of Icefloe."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.security.bombs import metadata_with, nested_type

from icefloe import Catalog, FormatError, InvalidSchemaError, Limits, SqlCatalog, set_limits
from icefloe.errors import IcefloeError, MetadataFormatError
from icefloe.spec.limits import limits
from icefloe.spec.metadata.metadata_reader import read_table_metadata
from icefloe.spec.schema.arrow_schema import schema_from_arrow
from icefloe.spec.schema.nesting import nesting_of
from icefloe.spec.types import IcebergType, ListType, LongType

KINDS = ("list", "struct", "map")
ALLOWED = Limits().write_nesting


def nested(kind: str, levels: int) -> tuple[Any, Any]:
    """Return an Arrow type that is so many levels deep, and a value of it."""
    found, value = pa.int64(), 7
    for _ in range(levels):
        if kind == "list":
            found, value = pa.list_(found), [value]  # type: ignore[assignment]
        elif kind == "struct":
            found, value = pa.struct([("f", found)]), {"f": value}  # type: ignore[assignment]
        else:
            found, value = pa.map_(pa.string(), found), [("k", value)]  # type: ignore[assignment]
    return found, value


def rows(kind: str, levels: int) -> pa.Table:
    arrow, value = nested(kind, levels)
    return pa.table({"id": pa.array([1], pa.int64()), "c": pa.array([value], arrow)})


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    return catalog


@pytest.fixture
def deeper() -> Iterator[None]:
    """Write deeper columns in this process, as other writers do."""
    before = set_limits(Limits(write_nesting=1000))
    yield
    set_limits(before)


@pytest.mark.parametrize("form", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_deepest_rows_that_are_written_are_read_back(catalog: Catalog, kind: str, form: str) -> None:
    deep_rows = rows(kind, ALLOWED)
    table = catalog.create_table("db.t", deep_rows.schema, properties={"write.format.default": form})
    table.append(deep_rows)
    assert table.scan().to_arrow().column("c").to_pylist() == deep_rows.column("c").to_pylist()
    table.delete("id = 1")
    assert table.scan().to_arrow().num_rows == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("levels", [ALLOWED + 1, 100])
def test_a_deeper_column_is_refused_where_a_table_is_made_or_changed(catalog: Catalog, kind: str, levels: int) -> None:
    deep_rows = rows(kind, levels)
    with pytest.raises(InvalidSchemaError, match=rf"more than {ALLOWED} levels deep: c") as caught:
        catalog.create_table("db.t", deep_rows.schema)
    assert f"its type is {levels} levels deep" in str(caught.value)
    assert "ICEFLOE_LIMITS__WRITE_NESTING" in str(caught.value)
    assert not catalog.table_exists("db.t")
    table = catalog.create_table("db.t", pa.schema([("id", pa.int64())]))
    with pytest.raises(InvalidSchemaError, match="levels deep"), table.update_schema() as update:
        update.add_column("c", schema_from_arrow(deep_rows.schema, keep_ids=False).find_field("c").field_type)
    with pytest.raises(InvalidSchemaError, match="levels deep"), table.update_schema() as update:
        update.union_by_name(deep_rows.schema)
    assert table.schema().names == ["id"]


@pytest.mark.usefixtures("deeper")
@pytest.mark.parametrize("write", ["append", "overwrite", "upsert", "delete"])
def test_rows_of_a_deeper_table_are_refused_before_a_file_is_written(catalog: Catalog, tmp_path: Path, write: str) -> None:
    deep_rows = rows("list", 40)
    table = catalog.create_table("db.t", deep_rows.schema)
    table.append(deep_rows)
    set_limits(Limits())
    assert table.scan().to_arrow().num_rows == 1  # Arrow still reads lists that are 40 deep
    before = {*tmp_path.rglob("*.parquet")}
    attempts = {
        "append": lambda: table.append(deep_rows),
        "overwrite": lambda: table.overwrite(deep_rows),
        "upsert": lambda: table.upsert(deep_rows, join_cols=["id"]),
        "delete": lambda: table.delete("c IS NOT NULL AND id < 5 AND id > 0"),
    }
    with pytest.raises(InvalidSchemaError, match=r"levels deep: c"):
        attempts[write]()
    assert {*tmp_path.rglob("*.parquet")} == before


@pytest.mark.parametrize("levels", [60, 120])
def test_files_of_deeper_columns_are_not_added(catalog: Catalog, tmp_path: Path, levels: int) -> None:
    table = catalog.create_table("db.t", pa.schema([("id", pa.int64())]))
    pq.write_table(rows("list", levels), tmp_path / "f.parquet")
    with pytest.raises(IcefloeError, match=r"f\.parquet"):
        table.add_files([str(tmp_path / "f.parquet")])
    assert table.current_snapshot() is None


@pytest.mark.usefixtures("deeper")
def test_rows_that_arrow_cannot_read_are_an_error_with_the_file(catalog: Catalog) -> None:
    deep_rows = rows("list", 60)
    table = catalog.create_table("db.t", deep_rows.schema)
    table.append(deep_rows)
    with pytest.raises(FormatError, match=r"\.parquet is not a complete, valid Parquet file: Parquet schema too deeply nested"):
        table.scan().to_arrow()


@pytest.mark.parametrize("levels", [101, 400, 3000])
def test_metadata_of_a_schema_that_is_too_deep_is_refused(levels: int) -> None:
    with pytest.raises(MetadataFormatError, match=r"nested too deeply|the limit read_nesting is 100"):
        read_table_metadata(metadata_with(nested_type("struct", levels)), "f")
    assert limits().read_nesting == 100
    for kind in ("struct", "list", "list of structs"):
        metadata = read_table_metadata(metadata_with(nested_type(kind, 100)), "f")
        assert nesting_of(metadata.schema().fields[0].field_type) == 100


def test_a_type_without_fields_or_of_a_primitive_has_no_levels() -> None:
    kind: IcebergType = LongType()
    assert nesting_of(kind) == 0
    for level in range(50_000):
        kind = ListType(element_id=level, element=kind)
    assert nesting_of(kind) == 50_000
