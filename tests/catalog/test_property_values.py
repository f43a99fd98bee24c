"""Properties are strings: numbers and booleans become strings, and None is refused, as a name and as a value."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from icefloe import LongType, NestedField, Schema, SqlCatalog
from icefloe.errors import InvalidPropertyError

ARROW = pa.schema([("n", pa.int64())])
Doing = Callable[[SqlCatalog, Any], object]
DOINGS: dict[str, Doing] = {
    "create_table": lambda catalog, given: catalog.create_table("db.new", ARROW, properties=given),
    "create_or_replace_table": lambda catalog, given: catalog.create_or_replace_table("db.t", ARROW, properties=given),
    "create_namespace": lambda catalog, given: catalog.create_namespace("new", given),
    "update_namespace": lambda catalog, given: catalog.update_namespace_properties("db", updates=given),
    "set_properties": lambda catalog, given: catalog.load_table("db.t").set_properties(given),
    "append": lambda catalog, given: catalog.load_table("db.t").append(pa.table({"n": [1]}), snapshot_properties=given),
    "create_view": lambda catalog, given: catalog.create_view(
        "db.v", "SELECT 1 AS n", schema=Schema(NestedField(1, "n", LongType())), properties=given
    ),
}


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db", {"owner": "me"})
    catalog.create_table("db.t", ARROW)
    return catalog


@pytest.mark.parametrize("given", [{"key": None}, {None: "value"}, {3: "value"}, {"key": ["value"]}], ids=str)
@pytest.mark.parametrize("doing", DOINGS.values(), ids=DOINGS)
def test_a_property_that_is_not_a_string_is_refused_and_nothing_is_created(
    catalog: SqlCatalog, doing: Doing, given: dict[Any, Any], tmp_path: Path
) -> None:
    with pytest.raises(InvalidPropertyError, match="text"):
        doing(catalog, given)
    assert (catalog.table_exists("db.new"), catalog.namespace_exists("new")) == (False, False)
    assert catalog.load_namespace_properties("db") == {"owner": "me"}
    assert len(catalog.load_table("db.t").snapshots()) == 0
    assert not list(tmp_path.rglob("*.parquet"))


def test_a_removed_property_name_that_is_not_a_string_is_refused(catalog: SqlCatalog) -> None:
    with pytest.raises(InvalidPropertyError, match="None cannot be the name"):
        catalog.update_namespace_properties("db", removals=[None])  # type: ignore[list-item]


@pytest.mark.parametrize("doing", ["create_table", "create_or_replace_table"])
def test_numbers_and_booleans_become_strings(catalog: SqlCatalog, doing: str) -> None:
    made: Any = DOINGS[doing](catalog, {"a": 1, "b": True, "c": 0.5})
    assert {name: made.properties[name] for name in "abc"} == {"a": "1", "b": "true", "c": "0.5"}
