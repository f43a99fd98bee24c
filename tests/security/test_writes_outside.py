"""The folders to which a table that was registered from a file may write new files."""

import gzip
import json
import logging
from pathlib import Path

import pyarrow as pa
import pytest
from tests.security.forging import forged

from icefloe import SqlCatalog
from icefloe.errors import InvalidPropertyError, LocationNotAllowedError
from icefloe.table import Table

ROWS = pa.table({"a": pa.array([1, 2], pa.int64())})


def catalog_in(folder: Path, **properties: str) -> SqlCatalog:
    folder.mkdir(exist_ok=True)
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder / "warehouse"), **properties)
    catalog.create_namespace_if_not_exists("db")
    return catalog


def hostile(tmp_path: Path, catalog: SqlCatalog, name: str, key: str) -> tuple[Table, Path]:
    """Return a registered table whose property sends new files to a folder of another user."""
    away = tmp_path / "away" / name
    source = catalog_in(tmp_path / "source").create_table(f"db.{name}", ROWS.schema)
    metadata = forged(source, Path(source.location()), lambda document: document["properties"].update({key: str(away)}))
    return catalog.register_table(f"db.{name}", metadata), away


@pytest.mark.parametrize("key", ["write.data.path", "write.metadata.path"])
def test_registering_and_writing_warn_with_the_path_once(tmp_path: Path, caplog: pytest.LogCaptureFixture, key: str) -> None:
    name = key.replace(".", "_")
    with caplog.at_level(logging.WARNING):
        table, away = hostile(tmp_path, catalog_in(tmp_path / "lake"), name, key)
        table.append(ROWS)
        table.append(ROWS)
    assert [record.getMessage() for record in caplog.records if str(away) in record.getMessage() and key in record.getMessage()]
    assert len(caplog.records) == 1


@pytest.mark.parametrize("key", ["write.data.path", "write.metadata.path"])
def test_a_strict_policy_refuses_such_writes_and_leaves_nothing_there(tmp_path: Path, key: str) -> None:
    table, away = hostile(tmp_path, catalog_in(tmp_path / "lake", **{"io.location-policy": "strict"}), "strict", key)
    for write in (lambda: table.append(ROWS), lambda: table.set_properties({"a": "b"})):
        with pytest.raises(LocationNotAllowedError, match=r"away"):
            write()
    assert not away.exists()
    assert table.scan().count() == 0


def test_a_strict_policy_takes_allowed_locations(tmp_path: Path) -> None:
    allowed = {"io.location-policy": "strict", "io.allowed-locations": str(tmp_path / "away")}
    table, away = hostile(tmp_path, catalog_in(tmp_path / "lake", **allowed), "allowed", "write.data.path")
    table.append(ROWS)
    assert list(away.rglob("*.parquet"))


def test_an_unknown_policy_is_refused(tmp_path: Path) -> None:
    catalog = catalog_in(tmp_path / "lake", **{"io.location-policy": "loose"})
    with pytest.raises(InvalidPropertyError, match=r"io\.location-policy"):
        catalog.create_table("db.t", ROWS.schema)


def test_a_registered_view_takes_no_write_at_a_location_that_the_configuration_does_not_allow(tmp_path: Path) -> None:
    lake, home = catalog_in(tmp_path / "lake"), tmp_path / "home" / "me"
    view = lake.create_view("db.v", schema=ROWS.schema, sql="SELECT 1 AS a")
    document = json.loads(gzip.decompress(Path(view.metadata_location).read_bytes()))
    document["location"] = str(home)
    away = tmp_path / "downloads" / "v" / "metadata"
    away.mkdir(parents=True)
    (away / "00001-x.metadata.json").write_text(json.dumps(document))
    hostile = lake.register_view("db.hostile", str(away / "00001-x.metadata.json"))
    with pytest.raises(LocationNotAllowedError, match="view"), hostile.update_properties() as update:
        update.set("a", "b")
    assert not home.exists()
    hostile.set_location(str(home))  # the caller's own choice
    with view.update_properties() as update:
        update.set("a", "b")


def test_a_location_that_the_catalog_allows_takes_writes(tmp_path: Path) -> None:
    home = tmp_path / "home" / "t"
    lake = catalog_in(tmp_path / "lake", **{"io.allowed-locations": str(home)})
    source = catalog_in(tmp_path / "source").create_table("db.t", ROWS.schema)
    table = lake.register_table("db.t", forged(source, tmp_path / "downloads", lambda document: document.update(location=str(home))))
    table.append(ROWS)
    assert list(home.rglob("*.parquet"))
