"""Catalogs that are opened without a configuration: by a warehouse, by a path, and by the wrong name."""

import logging
import re
from pathlib import Path

import pyarrow as pa
import pytest

import icefloe
from icefloe import Catalog, InvalidInputError, NoSuchCatalogError, NoSuchNamespaceError, NoSuchTableError, SqlCatalog, load_catalog
from icefloe.catalog.file_system_catalog import FileSystemCatalog
from icefloe.errors import StorageUnavailableError

ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})


@pytest.fixture(autouse=True)
def _no_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in ("ICEFLOE_HOME", "PYICEBERG_HOME", "ICEFLOE_CATALOG", "PYICEBERG_DEFAULT_CATALOG"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def make_lake(folder: Path, *names: str) -> Path:
    """Make a warehouse with a table `db.t` in each of the catalogs."""
    folder.mkdir(exist_ok=True)
    for name in names:
        fill(SqlCatalog(name, uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder / name)))
    return folder


def fill(catalog: Catalog) -> None:
    catalog.create_namespace("db")
    catalog.create_table("db.t", ROWS.schema).append(ROWS)


@pytest.mark.parametrize("name", ["default", "lake"])
def test_a_warehouse_a_path_and_open_find_the_only_catalog(tmp_path: Path, name: str) -> None:
    lake = make_lake(tmp_path / "lake", name)
    for catalog in (
        load_catalog(warehouse="./lake"),
        load_catalog(warehouse=str(lake)),
        load_catalog(uri="lake/catalog.db"),
        load_catalog(uri=str(lake / "catalog.db")),
        icefloe.open("./lake"),
        icefloe.open(lake),
        icefloe.open(lake / "catalog.db"),
        icefloe.open(f"sqlite:///{lake}/catalog.db"),
    ):
        assert catalog.name == name
        assert catalog.load_table("db.t").scan().to_arrow().num_rows == 2


def test_a_new_warehouse_is_one_by_an_absolute_path(tmp_path: Path) -> None:
    with pytest.raises(StorageUnavailableError, match="make the folder"):
        load_catalog(warehouse="new")
    (tmp_path / "new").mkdir()
    catalog = load_catalog(warehouse="new")
    fill(catalog)
    assert catalog.load_table("db.t").location() == f"{tmp_path}/new/db/t"
    assert icefloe.open("new").list_tables("db") == [("db", "t")]


def test_a_folder_of_tables_is_opened_as_a_file_system_catalog(tmp_path: Path) -> None:
    fill(FileSystemCatalog("folders", warehouse=str(tmp_path / "folders")))
    catalog = icefloe.open("folders")
    assert isinstance(catalog, FileSystemCatalog)
    assert catalog.load_table("db.t").scan().to_arrow().num_rows == 2


def test_of_several_catalogs_one_must_be_named(tmp_path: Path) -> None:
    make_lake(tmp_path / "lake", "red", "blue")
    for open_it in (lambda: icefloe.open("lake"), lambda: load_catalog(warehouse="lake"), lambda: load_catalog(uri="lake/catalog.db")):
        with pytest.raises(InvalidInputError, match="contains 2 catalogs: blue, red") as refused:
            open_it()
        assert "load_catalog(name" in str(refused.value)
    assert load_catalog("red", warehouse="lake").list_tables("db") == [("db", "t")]


@pytest.mark.parametrize("location", ["nothing", "nothing/catalog.db", "empty"])
def test_where_no_catalog_is_nothing_is_made(tmp_path: Path, location: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(NoSuchCatalogError, match=f"no catalog at {re.escape(location)}"):
        icefloe.open(location)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["empty"]


def test_a_table_is_not_opened_as_a_catalog(tmp_path: Path) -> None:
    lake = make_lake(tmp_path / "lake", "default")
    table = load_catalog(warehouse=str(lake)).load_table("db.t")
    for location in (table.location(), table.metadata_location):
        with pytest.raises(InvalidInputError, match="is a table, not a catalog"):
            icefloe.open(location)


def test_a_name_that_is_not_in_the_database_is_reported_with_the_names_that_are(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lake = make_lake(tmp_path / "lake", "default", "blue")
    catalog = load_catalog("lake", uri=str(lake / "catalog.db"), warehouse=str(lake))
    with caplog.at_level(logging.WARNING):
        assert catalog.list_namespaces() == []
        with pytest.raises(NoSuchTableError, match="other catalogs in this database: blue, default"):
            catalog.load_table("db.t")
        with pytest.raises(NoSuchNamespaceError, match="other catalogs in this database: blue, default"):
            catalog.list_tables("db")
    messages = [record.getMessage() for record in caplog.records if "catalog 'lake'" in record.getMessage()]
    assert messages == [
        "catalog 'lake' is empty; its database holds tables of other catalogs: blue, default. Next: give the catalog that name, "
        "by load_catalog('blue', ...) or the setting spark.sql.catalog.blue=icefloe, or open the folder with icefloe.open(...)"
    ]


@pytest.mark.parametrize("by_uri", [False, True])
@pytest.mark.parametrize(("name", "others"), [("lake", ["default"]), ("default", ["lake"]), ("green", ["blue", "default"])])
def test_a_folder_with_catalogs_of_other_names_is_warned_of_when_it_is_opened(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, others: list[str], by_uri: bool
) -> None:
    lake = make_lake(tmp_path / "lake", *others)
    where = {"warehouse": str(lake), **({"uri": f"sqlite:///{lake}/catalog.db"} if by_uri else {})}
    for is_empty in (True, False):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            catalog = load_catalog(name, **where)
            catalog.create_namespace_if_not_exists("mine")
            catalog.list_tables("mine")
        (message,) = [record.getMessage() for record in caplog.records]
        state = "empty" if is_empty else "not the only one"
        assert message.startswith(f"catalog {name!r} is {state}; its database holds tables of other catalogs: {', '.join(others)}. Next:")
        catalog.close()


def test_a_catalog_that_gets_its_first_name_beside_others_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "lake").mkdir()
    uri = f"sqlite:///{tmp_path}/lake/catalog.db"
    served, other = load_catalog("default", uri=uri), load_catalog("lake", uri=uri)
    with caplog.at_level(logging.WARNING):
        other.create_namespace("db")
        assert not caplog.records
        served.create_namespace("db")
        served.create_namespace("db2")
        other.create_namespace("db2")
    (message,) = [record.getMessage() for record in caplog.records]
    assert message.startswith("catalog 'default' is empty; its database holds tables of other catalogs: lake. Next:")
    served.close()
    other.close()


def test_a_folder_with_one_catalog_is_opened_without_a_word(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lake = make_lake(tmp_path / "lake", "lake")
    with caplog.at_level(logging.WARNING):
        for name in ("lake", None):
            load_catalog(name, warehouse=str(lake)).list_tables("db")
    assert not caplog.records


def test_a_hostile_catalog_name_controls_no_terminal(tmp_path: Path) -> None:
    lake = make_lake(tmp_path / "lake", "red\x1b[2J")
    with pytest.raises(NoSuchTableError) as refused:
        load_catalog("lake", uri=str(lake / "catalog.db")).load_table("db.t")
    assert "\x1b" not in str(refused.value)


def configure(folder: Path, **sections: Path) -> None:
    """Write an icefloe.yaml with these catalogs, each with a database in its folder; the first is the default."""
    lines = [f"default-catalog: {next(iter(sections))}", "catalog:"]
    for name, place in sections.items():
        lines += [f"  {name}:", f"    uri: sqlite:///{place}/catalog.db", f"    warehouse: {place}"]
    (folder / "icefloe.yaml").write_text("\n".join(lines) + "\n")


def test_a_configured_default_is_not_opened_in_the_place_of_a_path(tmp_path: Path) -> None:
    configure(tmp_path, prod=make_lake(tmp_path / "prod", "prod"))
    lake = make_lake(tmp_path / "lake", "lake")
    for catalog in (icefloe.open("lake"), icefloe.open(lake / "catalog.db"), load_catalog(warehouse="lake")):
        assert catalog.properties["uri"] == f"sqlite:///{lake}/catalog.db"
    assert icefloe.open("lake").name == "lake"
    assert load_catalog().properties["uri"] == f"sqlite:///{tmp_path}/prod/catalog.db"


def test_a_warehouse_is_opened_beside_a_configured_catalog_of_another_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_lake(tmp_path / "lake", "default")
    monkeypatch.setenv("ICEFLOE_CATALOG__DEFAULT__TYPE", "rest")
    monkeypatch.setenv("ICEFLOE_CATALOG__DEFAULT__URI", "https://catalog.example")
    assert load_catalog(warehouse="lake").list_tables("db") == [("db", "t")]


def test_a_default_that_the_user_names_is_the_catalog_that_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_lake(tmp_path / "lake", "blue", "default")
    monkeypatch.setenv("ICEFLOE_CATALOG", "blue")
    assert load_catalog(uri="lake/catalog.db").name == "blue"


@pytest.mark.parametrize("content", [None, b""])
def test_open_makes_neither_a_database_nor_its_tables(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "other.db"
    if content is not None:
        path.write_bytes(content)
    for location in (path, f"sqlite:///{path}"):
        with pytest.raises((NoSuchCatalogError, StorageUnavailableError)):
            icefloe.open(location)
    assert (path.read_bytes() if path.exists() else None) == content


def test_a_path_that_no_address_of_sqlite_can_have_is_refused(tmp_path: Path) -> None:
    (tmp_path / "we ird?x").mkdir()
    with pytest.raises(InvalidInputError, match="characters"):
        load_catalog(warehouse=str(tmp_path / "we ird?x"))
    assert [path.name for path in tmp_path.iterdir()] == ["we ird?x"]


def test_a_folder_that_is_called_metadata_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "project" / "source" / "package" / "metadata").mkdir(parents=True)
    with pytest.raises(NoSuchCatalogError):
        icefloe.open("project")
