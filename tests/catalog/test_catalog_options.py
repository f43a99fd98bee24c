"""Properties of a catalog that hold for its tables: defaults, overrides, the default namespace, unique locations."""

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from icefloe import SqlCatalog, load_catalog
from icefloe.catalog import Catalog
from icefloe.errors import InvalidIdentifierError, InvalidPropertyError, TableAlreadyExistsError

ARROW = pa.schema([("id", pa.int64())])


def catalog_with(folder: Path, **properties: str) -> Catalog:
    """Return a catalog of these properties with the namespaces `db` and `db.inner`."""
    catalog = load_catalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder / "warehouse"), **properties)
    catalog.create_namespace("db")
    catalog.create_namespace(("db", "inner"))
    return catalog


def test_given_properties_replace_table_defaults_but_not_table_overrides(tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "table-default.write.format.default": "orc",
        "table-default.format-version": "3",
        "table-default.my_own": "kept as it is spelt",
        "table-override.commit.retry.num-retries": "9",
        "table-override.write.wap.enabled": "true",
    }
    catalog = catalog_with(tmp_path, **options)
    bare = catalog.create_table("db.bare", ARROW)
    assert bare.format_version == 3
    expected = {
        "write.format.default": "orc",
        "my_own": "kept as it is spelt",
        "commit.retry.num-retries": "9",
        "write.wap.enabled": "true",
    }
    assert bare.properties.items() >= expected.items()
    given = catalog.create_table("db.given", ARROW, properties={"write.format.default": "avro", "commit.retry.num-retries": "1"})
    assert given.properties.items() >= {**expected, "write.format.default": "avro"}.items()


def test_table_overrides_apply_to_tables_of_transactions_and_to_replaced_tables(tmp_path: Path) -> None:
    catalog = catalog_with(tmp_path)
    catalog.create_table("db.old", ARROW, properties={"gc.enabled": "true", "own": "stays"})
    known = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": str(tmp_path / "warehouse")}
    stricter = SqlCatalog("lake", **known, **{"table-override.gc.enabled": "false"})
    replaced = stricter.replace_table("db.old", pa.schema([("n", pa.int32())]))
    assert replaced.properties.items() >= {"gc.enabled": "false", "own": "stays"}.items()
    with stricter.transaction() as tx:
        tx.create_table("db.new", ARROW)
    assert stricter.load_table("db.new").properties["gc.enabled"] == "false"


def test_a_wrong_table_default_is_refused_like_a_given_property(tmp_path: Path) -> None:
    catalog = catalog_with(tmp_path, **{"table-default.write.format.default": "csv"})  # type: ignore[arg-type]
    with pytest.raises(InvalidPropertyError, match=r"write\.format\.default"):
        catalog.create_table("db.t", ARROW)


def test_a_name_of_one_part_is_in_the_default_namespace(tmp_path: Path) -> None:
    catalog = catalog_with(tmp_path, **{"default-namespace": "db.inner"})  # type: ignore[arg-type]
    table = catalog.create_table("t", ARROW)
    assert table.name() == ("db", "inner", "t")
    assert catalog.load_table("t").location() == catalog.load_table("db.inner.t").location()
    assert catalog.table_exists("t")
    assert not catalog.table_exists("db.t")
    with catalog.transaction() as tx:
        tx.load_table("t").append(pa.table({"id": [1]}))
    assert catalog.load_table(("t",)).scan().count() == 1
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table("t", ARROW)
    catalog.create_view("v", "SELECT 1 AS id", ARROW)
    assert catalog.load_view("v").name() == ("db", "inner", "v")
    catalog.rename_table("t", "u")
    catalog.drop_table("u")
    assert catalog.list_tables("db.inner") == []
    with pytest.raises(InvalidIdentifierError, match="names no namespace"):
        catalog_with(tmp_path / "other").load_table("t")


@pytest.fixture(autouse=True)
def _other_folder(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()


def test_unique_locations_let_a_name_be_used_again_while_the_first_table_s_files_remain(tmp_path: Path) -> None:
    catalog = catalog_with(tmp_path, **{"unique-table-location": "true"})  # type: ignore[arg-type]
    first = catalog.create_table("db.t", ARROW)
    first.append(pa.table({"id": [1]}))
    assert re.fullmatch(rf"{tmp_path}/warehouse/db/t-[0-9a-f]{{32}}", first.location())
    catalog.drop_table("db.t")
    second = catalog.create_table("db.t", ARROW)
    assert second.location() != first.location()
    assert second.scan().count() == 0
    assert catalog.create_table("db.own", ARROW, location=f"{tmp_path}/own").location() == f"{tmp_path}/own"
    with pytest.raises(InvalidPropertyError, match="unique-table-location"):
        load_catalog("folders", type="file-system", warehouse=str(tmp_path), **{"unique-table-location": "true"})  # type: ignore[arg-type]
