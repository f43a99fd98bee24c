"""The clients of a REST server that returns a folder of its choice delete no file in it, whatever they do; honest servers lose nothing."""

import os
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.combinations import combinations
from tests.security.forging import forged
from tests.stores.rest.rest_double import Answer, OneTable, Request, RestDouble, problem, running

from icefloe import SqlCatalog
from icefloe.catalog.rest_catalog import RestCatalog
from icefloe.errors import CommitConflictError, IcefloeError, LocationNotAllowedError
from icefloe.io.file_io_by_scheme import load_file_io
from icefloe.repair import plan
from icefloe.spec.metadata.metadata_reader import read_table_metadata
from icefloe.stores.rest import http_client
from icefloe.stores.rest.rest_paths import Endpoint
from icefloe.table import Table

ROWS = pa.table({"a": pa.array([1, 2], pa.int64())})
LIST = "_orphan-files-20200101T000000-00000000000000000000000000000000.parquet"
LATER = datetime.now(UTC) + timedelta(days=30)
DELETE_AFTER_COMMIT = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[RestDouble]:
    monkeypatch.setattr(http_client, "FIRST_WAIT_S", 0.001)
    with running(RestDouble()) as double:
        yield double


class Hostile(OneTable):
    """The table `db.t`, whose server claims the folder `victim` as its location and keeps the manifests in a folder of its own."""

    def __init__(self, double: RestDouble, folder: Path, victim: str) -> None:
        super().__init__(double, str(folder / "unused"))
        own = SqlCatalog("own", uri=f"sqlite:///{folder}/own.db", warehouse=str(folder / "of-the-server"))
        own.create_namespace("db")
        table = own.create_table("db.t", ROWS.schema, properties=DELETE_AFTER_COMMIT)
        table.append(ROWS)
        table.overwrite(ROWS)
        table.append(ROWS)
        first = next(iter(table.scan(snapshot_id=table.snapshots()[0].snapshot_id).plan_files())).file.file_path
        path = forged(table, Path(table.location()), paths={first: f"{victim}/data/taken.parquet"})
        self.victim = victim
        self.metadata = read_table_metadata(Path(path).read_bytes(), path)
        self.at(victim)
        double.on("GET", "/v1/namespaces", Answer(200, {"namespaces": [["db"]]}))
        double.on("DELETE", self.path, Answer(204))

    def _write(self) -> None:
        """Write nothing: this server need not be able to write where it leads its clients."""


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """Return a folder with files of another program, some of which look like those of a table."""
    folder = tmp_path / "home" / "of-the-user"
    names = ("data/taken.parquet", "metadata/00000-x.metadata.json", "metadata/00001-x.metadata.json", "thesis.txt", f"metadata/{LIST}")
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("of the user")
        os.utime(folder / name, (1_000_000_000, 1_000_000_000))
    return folder


@pytest.fixture
def hostile(server: RestDouble, tmp_path: Path, victim: Path) -> Hostile:
    return Hostile(server, tmp_path, str(victim))


def opened(server: RestDouble, **properties: str) -> RestCatalog:
    return RestCatalog("r", uri=server.uri, **{"rest-catalog-purge": "false", **properties})


def expire(catalog: RestCatalog) -> Any:
    return catalog.load_table("db.t").expire_snapshots(LATER, retain_last=1)


def remove_orphans(catalog: RestCatalog) -> Any:
    return catalog.load_table("db.t").maintenance.remove_orphan_files(older_than=datetime.now(UTC) - timedelta(days=1), dry_run=False)


def lose_every_race(catalog: RestCatalog) -> Any:
    return catalog.load_table("db.t").append(ROWS)


def rewrite(catalog: RestCatalog) -> Any:
    table = catalog.load_table("db.t")
    return [
        table.rewrite_manifests(),
        table.set_properties({"a": "b"}),
        table.set_properties({"a": "c"}),
        table.expire_snapshots(LATER, retain_last=1, clean_expired_metadata=True),
    ]


def repair_it(catalog: RestCatalog) -> Any:
    planned = plan(catalog, "db.t")
    return planned.apply() if planned.repairs else planned


OPERATIONS: dict[str, Callable[[RestCatalog], Any]] = {
    "expire": expire,
    "purge": lambda catalog: catalog.purge_table("db.t"),
    "drop with purge": lambda catalog: catalog.drop_table("db.t", purge=True),
    "orphan files": remove_orphans,
    "rewrite and old metadata": rewrite,
    "failed commit": lose_every_race,
    "lists of orphan files": lambda catalog: catalog.load_table("db.t").maintenance.remove_orphan_files(mode="undo"),
    "repair": repair_it,
    "drop a view": lambda catalog: catalog.drop_view("db.v"),
}

REFUSALS: dict[str, tuple[type[IcefloeError], str | None]] = {
    "purge": (LocationNotAllowedError, r"io\.allowed-locations"),
    "drop with purge": (LocationNotAllowedError, r"io\.allowed-locations"),
    "orphan files": (LocationNotAllowedError, r"io\.allowed-locations"),
    "lists of orphan files": (LocationNotAllowedError, r"io\.allowed-locations"),
    "rewrite and old metadata": (LocationNotAllowedError, r"io\.allowed-locations"),  # once the file that the server names does not exist
    "failed commit": (CommitConflictError, None),
}


def serve_view(server: RestDouble, location: str) -> None:
    server.on(
        "GET",
        "/v1/config",
        Answer(200, {"defaults": {}, "overrides": {"view-endpoints-supported": "true"}}),
    )
    server.on("DELETE", "/v1/namespaces/db/views/v", Answer(204))
    server.on("GET", "/v1/namespaces/db/views/v", Answer(200, {"metadata-location": f"{location}/metadata/00000-x.metadata.json"}))


@pytest.mark.parametrize(("operation", "policy"), combinations([*OPERATIONS], ["warn", "strict"]))
def test_no_operation_deletes_in_a_folder_that_only_the_server_names(
    server: RestDouble, hostile: Hostile, victim: Path, tmp_path: Path, operation: str, policy: str
) -> None:
    before = files_below(victim)
    if operation == "failed commit":
        hostile.before = [problem(409, "CommitFailedException") for _ in range(50)]
    if operation == "drop a view":
        serve_view(server, str(victim))
    # With the strict policy the manifests of the server are in what the user allows, and the folder is not.
    catalog = opened(server, **{"io.location-policy": policy, "io.allowed-locations": str(tmp_path / "of-the-server")})
    expected = REFUSALS.get(operation)
    with pytest.raises(expected[0], match=expected[1]) if expected is not None else nullcontext():
        OPERATIONS[operation](catalog)
    after = files_below(victim)
    kept = {name: after.get(name) for name in before} if "rewrite" in operation else after  # a rewrite adds files
    assert kept == before
    if "purge" in operation:
        assert not server.of("DELETE", hostile.path), "the name stays where the files cannot be deleted"


def test_the_report_of_an_expiry_names_the_files_that_stay_and_the_setting(server: RestDouble, hostile: Hostile, victim: Path) -> None:
    report = expire(opened(server))
    assert f"{victim}/data/taken.parquet" in report.outside["path"].to_pylist()
    assert report.deleted_files == 0
    assert report.unproven == str(victim)
    assert "io.allowed-locations" in str(report)


def test_a_folder_in_memory_that_only_the_server_names_keeps_its_files(server: RestDouble, tmp_path: Path) -> None:
    Hostile(server, tmp_path, "memory://home/of-the-user")
    io = load_file_io({}, "memory://home/of-the-user")
    io.write("memory://home/of-the-user/data/taken.parquet", b"x", overwrite=True)
    expire(opened(server))
    assert io.exists("memory://home/of-the-user/data/taken.parquet")


def test_what_the_server_configures_allows_no_folder(server: RestDouble, hostile: Hostile, victim: Path) -> None:
    allowed = {"io.allowed-locations": str(victim), "io.delete-outside": str(victim), "warehouse": str(victim.parent)}
    server.on("GET", "/v1/config", Answer(200, {"defaults": allowed, "overrides": allowed}))
    before = files_below(victim)
    expire(opened(server))
    assert files_below(victim) == before


@pytest.mark.parametrize(
    "allowed",
    [
        lambda victim: {"warehouse": str(victim.parent)},
        lambda victim: {"io.allowed-locations": str(victim)},
        lambda victim: {"io.delete-outside": str(victim)},
    ],
)
def test_the_users_own_configuration_allows_a_folder(
    server: RestDouble, hostile: Hostile, victim: Path, allowed: Callable[[Path], dict[str, str]]
) -> None:
    report = expire(opened(server, **allowed(victim)))
    assert f"{victim}/data/taken.parquet" in report.files["path"].to_pylist()
    assert not (victim / "data" / "taken.parquet").exists()
    assert (victim / "thesis.txt").exists()


def test_a_folder_in_the_warehouse_is_searched_for_orphans_only_if_the_name_leads_to_it(
    server: RestDouble, hostile: Hostile, victim: Path
) -> None:
    before = files_below(victim)
    with pytest.raises(LocationNotAllowedError, match=r"answer of the catalog's server is all that makes"):
        remove_orphans(opened(server, warehouse=str(victim.parent)))
    assert files_below(victim) == before


@pytest.mark.parametrize("name", ["../home/of-the-user", "x/../../home/of-the-user"])
def test_a_name_with_slashes_leads_to_no_folder(server: RestDouble, hostile: Hostile, victim: Path, tmp_path: Path, name: str) -> None:
    before = files_below(victim)
    server.on("GET", "/v1/namespaces/db/tables/" + name.replace("/", "%2F"), call=hostile.load)
    table = opened(server, warehouse=str(tmp_path)).load_table(("db", name))
    with pytest.raises(LocationNotAllowedError):
        table.maintenance.remove_orphan_files(older_than=datetime.now(UTC) - timedelta(days=1), dry_run=False)
    assert files_below(victim) == before


class Creating(OneTable):
    """A server that creates `db.t` in a folder of its choice."""

    def __init__(self, double: RestDouble, location: str) -> None:
        super().__init__(double, location)
        double.on("GET", "/v1/namespaces", Answer(200, {"namespaces": [["db"]]}))
        double.on("POST", "/v1/namespaces/db/tables", call=self.create)

    def create(self, request: Request) -> Answer:
        return self.load(request)


def with_history(table: Table) -> str:
    """Return the data file of the first snapshot, which an expiry deletes."""
    table.append(pa.table({"n": [1]}))
    first = next(iter(table.scan().plan_files())).file.file_path
    table.overwrite(pa.table({"n": [2]}))
    return str(first)


@pytest.mark.parametrize("others", [False, True])
def test_a_table_that_this_client_created_in_a_new_folder_is_its_own(server: RestDouble, tmp_path: Path, others: bool) -> None:
    Creating(server, str(tmp_path / "chosen"))
    if others:
        (tmp_path / "chosen" / "thesis.txt").write_text("of the user")
    catalog = opened(server)
    first = with_history(catalog.create_table("db.t", pa.schema([("n", pa.int64())])))
    report = expire(catalog)
    assert Path(first).exists() is others
    assert (report.deleted_files > 0) is not others
    assert Path(first).exists() or expire(opened(server)).deleted_files == 0


def test_a_folder_that_the_caller_chose_for_a_new_table_is_its_own(server: RestDouble, tmp_path: Path) -> None:
    Creating(server, str(tmp_path / "chosen"))
    (tmp_path / "chosen" / "older.txt").write_text("of the user")
    catalog = opened(server)
    first = with_history(catalog.create_table("db.t", pa.schema([("n", pa.int64())]), location=str(tmp_path / "chosen")))
    expire(catalog)
    assert not Path(first).exists()


@pytest.mark.parametrize("drop", ["drop_table", "purge_table", "unregister_table"])
def test_the_folder_of_a_table_that_was_dropped_is_its_own_no_more(server: RestDouble, tmp_path: Path, drop: str) -> None:
    folder = tmp_path / "chosen"
    stored = Creating(server, str(folder))
    catalog = opened(server, **{"rest-catalog-purge": "true"})
    first = with_history(catalog.create_table("db.t", pa.schema([("n", pa.int64())]), location=str(folder)))
    server.on("DELETE", stored.path, Answer(204))
    server.on("POST", f"{stored.path}/unregister", call=stored.load)
    if drop == "unregister_table" and not catalog.store.connection.paths.has(Endpoint.UNREGISTER_TABLE):
        server.on("GET", "/v1/config", Answer(200, {"endpoints": [str(one) for one in Endpoint]}))
        catalog.store.connection._paths = None
    getattr(catalog, drop)("db.t")
    assert expire(catalog).unproven == str(folder)
    assert Path(first).exists()


def test_a_folder_that_the_server_puts_in_the_place_of_the_chosen_one_is_not(server: RestDouble, tmp_path: Path) -> None:
    Creating(server, str(tmp_path / "chosen"))
    (tmp_path / "chosen" / "older.txt").write_text("of the user")
    catalog = opened(server)
    first = with_history(catalog.create_table("db.t", pa.schema([("n", pa.int64())]), location=str(tmp_path / "another")))
    expire(catalog)
    assert Path(first).exists()


def test_a_failed_commit_deletes_what_it_wrote_itself(server: RestDouble, hostile: Hostile, victim: Path) -> None:
    before = files_below(victim)
    hostile.before = [problem(409, "CommitFailedException") for _ in range(50)]
    with pytest.raises(IcefloeError):
        opened(server).load_table("db.t").append(ROWS)
    assert files_below(victim) == before
