"""Rows of a catalog that another user wrote: they allow deletions in no folder, and send no credential to a host."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pytest
from tests.security.forging import forged

from icefloe import SqlCatalog, Table
from icefloe.catalog.file_system_catalog import FileSystemCatalog
from icefloe.errors import IcefloeError, LocationNotAllowedError
from icefloe.io import object_store_file_io
from icefloe.io.file_io_by_scheme import check_locations, load_file_io

ROWS = pa.table({"a": pa.array([1, 2], pa.int64())})


def catalog_in(folder: Path) -> SqlCatalog:
    folder.mkdir(exist_ok=True)
    return SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder / "warehouse"))


def with_history(catalog: SqlCatalog | FileSystemCatalog) -> Table:
    catalog.create_namespace_if_not_exists("db")
    table = catalog.create_table("db.t", ROWS.schema)
    table.append(ROWS)
    table.overwrite(ROWS)
    return table


def first_data_file(table: Table) -> str:
    first = table.snapshots()[0].snapshot_id
    return str(next(iter(table.scan(snapshot_id=first).plan_files())).file.file_path)


def expire(table: Table) -> Any:
    return table.expire_snapshots(datetime.now(UTC) + timedelta(days=1), retain_last=1)


@pytest.fixture
def thesis(tmp_path: Path) -> Path:
    path = tmp_path / "home" / "me" / "papers" / "thesis.pdf"
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    return path


@pytest.mark.parametrize("claim", ["location", "write.data.path"])
@pytest.mark.parametrize("operation", ["expire", "purge"])
def test_the_location_of_a_namespace_allows_no_deletion(tmp_path: Path, thesis: Path, claim: str, operation: str) -> None:
    source = with_history(catalog_in(tmp_path / "elsewhere"))
    lake = catalog_in(tmp_path)
    lake.create_namespace("hostile", {"location": str(thesis.parents[1])})

    def change(document: dict[str, Any]) -> None:
        if claim == "location":
            document["location"] = str(thesis.parent)
        else:
            document["location"] = str(tmp_path / "downloads")
            document["properties"][claim] = str(thesis.parent)

    metadata = forged(source, tmp_path / "downloads", change, {first_data_file(source): str(thesis)})
    table = lake.register_table("hostile.t", metadata)
    try:
        report = expire(table) if operation == "expire" else lake.purge_table("hostile.t")
        assert str(thesis) in report.outside["path"].to_pylist()
    except LocationNotAllowedError:
        assert (claim, operation) == ("location", "expire")
    assert thesis.read_text() == "mine"


def test_a_new_table_in_the_location_of_its_namespace_deletes_its_own_files(tmp_path: Path) -> None:
    lake = catalog_in(tmp_path)
    lake.create_namespace("db", {"location": str(tmp_path / "elsewhere" / "db")})
    table = with_history(lake)
    assert table.location().startswith(str(tmp_path / "elsewhere" / "db"))
    first = first_data_file(table)
    assert expire(table).outside_files == 0
    assert not Path(first).exists()


def test_a_table_that_is_opened_by_its_folder_deletes_nothing_outside_the_folder(tmp_path: Path, thesis: Path) -> None:
    source = with_history(FileSystemCatalog("lake", warehouse=str(tmp_path / "lake")))
    folder = tmp_path / "home" / "me" / "downloads" / "t"

    def change(document: dict[str, Any]) -> None:
        document["location"] = str(folder)
        document["properties"]["write.data.path"] = str(thesis.parent)

    metadata = Path(forged(source, folder, change, {first_data_file(source): str(thesis)}))
    metadata.rename(metadata.with_name("v3.metadata.json"))
    table = FileSystemCatalog.table_at(str(folder))
    assert isinstance(table, Table)
    assert str(thesis) in expire(table).outside["path"].to_pylist()
    assert thesis.read_text() == "mine"


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    requests: list[dict[str, Any]] = []

    def connect(protocol: str, **options: Any) -> Any:
        requests.append({"protocol": protocol, **options})
        raise ValueError("no request in this test")

    monkeypatch.setattr(fsspec, "filesystem", connect)
    object_store_file_io._connect.cache_clear()
    yield requests
    object_store_file_io._connect.cache_clear()


@pytest.mark.parametrize(
    "location",
    [
        "abfss://c@evil.example/t/metadata/1.metadata.json",
        "abfss://c@mine.evil.example/t/metadata/1.metadata.json",
        "wasbs://c@evil.example:443/t/metadata/1.metadata.json",
        "hdfs://169.254.169.254:80/t/metadata/1.metadata.json",
    ],
)
def test_a_metadata_location_in_a_catalog_names_no_host_to_connect_to(requests: list[dict[str, Any]], location: str) -> None:
    properties = {"warehouse": "abfss://c@mine.dfs.core.windows.net/lake", "adls.account-key": "key-of-mine"}
    with pytest.raises(LocationNotAllowedError, match=r"io\.allowed-locations"):
        load_file_io(properties, location)
    assert requests == []


def test_a_row_of_a_catalog_that_names_a_foreign_host_is_refused_without_a_request(tmp_path: Path, requests: list[dict[str, Any]]) -> None:
    lake = catalog_in(tmp_path)
    lake.create_namespace("db")
    lake.store.create(("db", "t"), "abfss://c@evil.example/t/metadata/1.metadata.json")
    with pytest.raises(LocationNotAllowedError):
        lake.load_table("db.t")
    assert json.dumps(requests) == "[]"


def test_a_strict_policy_follows_no_link_in_the_place_of_a_file(tmp_path: Path, thesis: Path) -> None:
    lake = tmp_path / "warehouse"
    lake.mkdir()
    (lake / "file").write_text("own")
    (lake / "link").symlink_to(thesis)
    (lake / "inner").symlink_to(lake / "file")
    io = load_file_io({"warehouse": str(lake), "io.location-policy": "strict"})
    assert io.read(str(lake / "inner")) == io.read(str(lake / "file")) == b"own"
    with pytest.raises(LocationNotAllowedError):
        io.read(str(lake / "link"))
    with pytest.raises(LocationNotAllowedError):
        check_locations(io, pa.array([str(lake / "link")]))
    with pytest.raises(IcefloeError):
        io.open_input(str(lake / "link"))
