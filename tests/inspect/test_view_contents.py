"""The inspection of a view: its columns, its SQL by dialect, versions and version log; as text, JSON and HTML."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

import icefloe.inspect as look
from icefloe import SqlCatalog, View
from icefloe.errors import NoSuchNamespaceError

COLUMNS = pa.schema([pa.field("type", pa.string(), metadata={"doc": "of the event"}), ("count", pa.int64())])


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db.inner")
    return catalog


@pytest.fixture
def view(catalog: SqlCatalog) -> View:
    view = catalog.create_view("db.v", "SELECT 1", COLUMNS, properties={"comment": "<b>daily</b>"})
    catalog.replace_view("db.v", {"spark": "SELECT 2", "trino": "SELECT '<i>'"}, COLUMNS, default_catalog="prod")
    return view.refresh()


def test_versions_dialects_and_the_log_are_shown(view: View) -> None:
    history = look.view_history(view)
    assert [(version.version_id, version.is_current, dict(version.queries)) for version in history.versions] == [
        (1, False, {"spark": "SELECT 1"}),
        (2, True, {"spark": "SELECT 2", "trino": "SELECT '<i>'"}),
    ]
    assert [line.version_id for line in history.version_log] == [1, 2]
    assert [(column.name, column.type) for column in history.columns] == [("type", "string"), ("count", "long")]
    text = str(history)
    for shown in ("view lake.db.v", "prod.db", "SELECT '<i>'", "version 2 in trino", "spark, trino", "icefloe"):
        assert shown in text
    assert json.loads(history.to_json()) == history.to_dict()
    assert "<i>" not in history._repr_html_()
    assert "<b>" not in history._repr_html_()


def test_views_are_listed_by_themselves_and_with_tables(catalog: SqlCatalog, view: View) -> None:
    catalog.create_table("db.inner.t", COLUMNS)
    catalog.create_view("db.inner.w", "SELECT 3", COLUMNS)
    assert look.view_listing(catalog).views == ("db.v", "db.inner.w")
    assert look.view_listing(catalog, ("db", "inner")).views == ("db.inner.w",)
    with pytest.raises(NoSuchNamespaceError):
        look.view_listing(catalog, ("nowhere",))
    assert [(space.tables, space.views) for space in look.listing(catalog).namespaces] == [
        ((), ("db.v",)),
        (("db.inner.t",), ("db.inner.w",)),
    ]
    assert "1 table, 1 view" in str(look.listing(catalog))


def test_a_catalog_without_views_is_described(tmp_path: Path) -> None:
    assert "has no views" in str(look.view_listing(SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db")))
