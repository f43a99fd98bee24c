"""No path of a hostile table makes expiry, purge or the clean-up of old metadata files delete a file outside the table."""

import logging
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.combinations import combinations
from tests.security.forging import forged

from icefloe import SqlCatalog, load_catalog
from icefloe.catalog.catalog import Catalog
from icefloe.errors import InvalidInputError, LocationNotAllowedError
from icefloe.io.bulk_delete import delete_files
from icefloe.io.file_io_by_scheme import load_file_io
from icefloe.table import Table

ROWS = pa.table({"a": pa.array([1, 2], pa.int64())})
Files = dict[Path, bytes]


@pytest.fixture
def lake(tmp_path: Path) -> SqlCatalog:
    return catalog_in(tmp_path)


def catalog_in(folder: Path, **properties: str) -> SqlCatalog:
    folder.mkdir(exist_ok=True)
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder / "warehouse"), **properties)
    catalog.create_namespace_if_not_exists("db")
    return catalog


def with_history(catalog: Catalog, name: str = "db.t", **options: Any) -> Table:
    """Return a table whose first snapshot and its data file can be expired."""
    table = catalog.create_table(name, ROWS.schema, **options)
    table.append(ROWS)
    table.overwrite(ROWS)
    return table


def expire(table: Table, **options: Any) -> Any:
    return table.expire_snapshots(datetime.now(UTC) + timedelta(days=1), retain_last=1, **options)


def first_data_file(table: Table) -> str:
    files = table.snapshots()[0]
    return str(next(iter(table.scan(snapshot_id=files.snapshot_id).plan_files())).file.file_path)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """Return a file that no table may delete."""
    path = tmp_path / "etc" / "shadow"
    path.parent.mkdir()
    path.write_text("root")
    return path


def spellings(path: Path, table_folder: str) -> list[str]:
    """Return ways to write the path of a file, some of them from within the table's folder."""
    link = Path(table_folder, "data", "link")
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(path.parent)
    up = "/".join([".."] * len(Path(table_folder).parts))
    return [
        str(path),
        f"file:{path}",
        f"file://{path}",
        f"FILE://localhost{path}",
        f"{table_folder}/{up}{path}",
        f"{table_folder}/data/../../../..{'/..' * 30}{path}",
        f"/{table_folder}//data/./{'../' * 40}{str(path)[1:]}",
        f"{table_folder}/data/link/{path.name}",
        f"file:{table_folder}/data/link/../{path.parent.name}/{path.name}",
    ]


@pytest.mark.parametrize(("way", "operation"), combinations(range(9), ["expire", "purge"]))
def test_a_file_elsewhere_that_a_manifest_names_is_kept(lake: SqlCatalog, secret: Path, way: int, operation: str) -> None:
    table = with_history(lake)
    path = spellings(secret, table.location())[way]
    hostile = lake.register_table("db.hostile", forged(table, Path(table.location()), paths={first_data_file(table): path}))
    lake.drop_table("db.t")
    report = expire(hostile) if operation == "expire" else lake.purge_table("db.hostile")
    assert secret.read_text() == "root"
    assert report.outside["path"].to_pylist() == [path]
    assert (report.outside_files, report.undeleted) == (1, ())
    assert path in str(report)
    assert "allow_outside" in str(report)


def statistics_of(path: str) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        first = document["snapshots"][0]["snapshot-id"]
        document["statistics"] = [
            {
                "snapshot-id": first,
                "statistics-path": path,
                "file-size-in-bytes": 4,
                "file-footer-size-in-bytes": 4,
                "blob-metadata": [],
            }
        ]
        document["partition-statistics"] = [{"snapshot-id": first, "statistics-path": path, "file-size-in-bytes": 4}]

    return change


def test_expiry_and_purge_keep_a_file_elsewhere_that_statistics_name(lake: SqlCatalog, secret: Path) -> None:
    table = with_history(lake)
    hostile = lake.register_table("db.hostile", forged(table, Path(table.location()), statistics_of(str(secret))))
    lake.drop_table("db.t")
    assert str(secret) in expire(hostile).outside["path"].to_pylist()
    again = lake.register_table("db.again", forged(table, Path(table.location()), statistics_of(str(secret))))
    assert str(secret) in lake.purge_table(again.name()).outside["path"].to_pylist()
    assert secret.exists()


def test_purge_keeps_a_file_elsewhere_that_the_metadata_log_names(lake: SqlCatalog, secret: Path) -> None:
    table = with_history(lake)
    hostile = lake.register_table("db.hostile", forged(table, Path(table.location()), with_log(str(secret))))
    report = lake.purge_table(hostile.name())
    assert secret.exists()
    assert str(secret) in report.outside["path"].to_pylist()


CLEANING = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}


def with_log(*paths: str) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        document["metadata-log"] = [{"timestamp-ms": number, "metadata-file": path} for number, path in enumerate(paths, start=1)]

    return change


def test_an_append_keeps_what_a_forged_metadata_log_names(lake: SqlCatalog, secret: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = with_history(lake, properties=CLEANING)
    other = with_history(lake, "db.victim")
    inside = first_data_file(table)
    named = [*spellings(secret, table.location()), other.metadata_location, inside, f"{table.location()}/metadata/../data/x.metadata.json"]
    hostile = lake.register_table("db.hostile", forged(table, Path(table.location()), with_log(*named)))
    with caplog.at_level(logging.WARNING):
        hostile.append(ROWS)
    assert secret.exists()
    assert Path(other.metadata_location).exists()
    assert Path(inside).exists()
    assert str(secret) in caplog.text


def test_old_metadata_files_of_an_honest_table_are_still_deleted(lake: SqlCatalog) -> None:
    table = lake.create_table("db.t", ROWS.schema, properties=CLEANING)
    for _ in range(4):
        table.append(ROWS)
    assert len(list(Path(table.location(), "metadata").glob("*.metadata.json"))) == 2


def test_an_append_keeps_the_metadata_of_another_table_whose_folder_it_claims(lake: SqlCatalog, tmp_path: Path) -> None:
    victim = with_history(lake, "db.victim")
    source = with_history(catalog_in(tmp_path / "elsewhere"), properties=CLEANING)

    def change(document: dict[str, Any]) -> None:
        with_log(victim.metadata_location, *(entry.metadata_file for entry in victim.metadata.metadata_log))(document)
        document["location"] = victim.location()

    hostile = lake.register_table("db.hostile", forged(source, tmp_path / "downloads" / "t", change))
    before = snapshot_of(victim)
    hostile.append(ROWS)
    hostile.append(ROWS)
    assert before.items() <= snapshot_of(victim).items()


def snapshot_of(table: Table) -> Files:
    return {path: path.read_bytes() for path in Path(table.location()).rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("claim", "operation"),
    combinations(["own", "location", "data", "warehouse", "namespace", "data path", "warehouse path"], ["expire", "purge"]),
)
def test_files_of_another_table_of_the_catalog_are_kept_whatever_folder_is_claimed(
    lake: SqlCatalog, tmp_path: Path, claim: str, operation: str
) -> None:
    victim = with_history(lake, "db.victim")
    live = first_live_file(victim)
    source = with_history(catalog_in(tmp_path / "elsewhere"))
    warehouse = tmp_path / "warehouse"

    def change(document: dict[str, Any]) -> None:
        statistics_of(victim.metadata_location)(document)
        claims = {
            "location": victim.location(),
            "data": f"{victim.location()}/data",
            "warehouse": str(warehouse),
            "namespace": str(warehouse / "db"),
        }
        document["location"] = claims.get(claim, document["location"])
        if claim == "data path":
            document["properties"]["write.data.path"] = f"{victim.location()}/data"
        if claim == "warehouse path":
            document["properties"]["write.metadata.path"] = str(warehouse)

    metadata = forged(source, tmp_path / "downloads" / "t", change, {first_data_file(source): live})
    hostile = lake.register_table("db.hostile", metadata)
    before = snapshot_of(victim)
    if operation == "purge":
        lake.purge_table("db.hostile")
    else:
        try:
            expire(hostile)
        except LocationNotAllowedError:
            assert claim in ("own", "data path", "warehouse", "warehouse path")
    assert before.items() <= snapshot_of(victim).items()
    assert lake.load_table("db.victim").scan().count() == 2


def first_live_file(table: Table) -> str:
    return str(next(iter(table.scan().plan_files())).file.file_path)


def test_a_folder_with_other_tables_in_it_belongs_to_no_table_wherever_their_metadata_is(lake: SqlCatalog, tmp_path: Path) -> None:
    group = tmp_path / "warehouse" / "db" / "group"
    with_history(lake, "db.seen", location=str(group / "seen"))
    hidden = with_history(
        lake, "db.hidden", location=str(group / "hidden"), properties={"write.metadata.path": str(tmp_path / "warehouse" / "meta")}
    )
    live = first_live_file(hidden)
    source = with_history(catalog_in(tmp_path / "elsewhere"))
    metadata = forged(
        source, tmp_path / "downloads", lambda document: document.update(location=str(group)), {first_data_file(source): live}
    )
    lake.register_table("db.hostile", metadata)
    report = lake.purge_table("db.hostile")
    assert live in report.outside["path"].to_pylist()
    assert hidden.scan().count() == 2


def test_a_table_with_nested_namespaces_below_it_still_deletes_its_own_files(lake: SqlCatalog) -> None:
    table = with_history(lake, "db.t")
    lake.create_namespace("db.t")
    inner = with_history(lake, "db.t.u")
    assert inner.location().startswith(table.location())
    first = first_data_file(table)
    assert expire(table).outside_files == 0
    assert not Path(first).exists()
    assert inner.scan().count() == 2


def test_a_location_that_the_configuration_does_not_allow_takes_no_write_and_loses_no_file(lake: SqlCatalog, tmp_path: Path) -> None:
    home = tmp_path / "home"
    precious = home / "me" / "thesis"
    precious.parent.mkdir(parents=True)
    precious.write_text("mine")
    source = with_history(catalog_in(tmp_path / "elsewhere"))
    for folder in (tmp_path / "downloads" / "t", home / "me" / "downloads" / "t"):
        name = f"db.{folder.parts[-3].replace('-', '_')}"
        metadata = forged(
            source, folder, lambda document: document.update(location=str(home / "me")), {first_data_file(source): str(precious)}
        )
        hostile = lake.register_table(name, metadata)
        with pytest.raises(LocationNotAllowedError, match=r"io\.allowed-locations"):
            hostile.append(ROWS)
        with pytest.raises(LocationNotAllowedError):
            expire(hostile)
        assert expire(hostile, dry_run=True).outside_files > 0
        report = lake.purge_table(name)
        assert str(precious) in report.outside["path"].to_pylist()
    assert precious.read_text() == "mine"


@pytest.mark.parametrize("root", ["/", "file:///", "//", "/..", "/etc"])
def test_the_root_of_a_machine_is_no_location_of_a_table(lake: SqlCatalog, tmp_path: Path, secret: Path, root: str) -> None:
    source = with_history(catalog_in(tmp_path / "elsewhere"))
    metadata = forged(
        source, tmp_path / "downloads", lambda document: document.update(location=root), {first_data_file(source): str(secret)}
    )
    lake.register_table("db.hostile", metadata)
    report = lake.purge_table("db.hostile")
    assert secret.exists()
    assert report.files.num_rows == 0


@pytest.mark.parametrize("with_warehouse", [True, False])
def test_a_table_that_is_the_warehouse_is_written_and_loses_only_what_is_allowed(tmp_path: Path, with_warehouse: bool) -> None:
    warehouse = {"warehouse": str(tmp_path / "w")} if with_warehouse else {}
    lake = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", **warehouse)
    lake.create_namespace("db")
    table = with_history(lake, location=str(tmp_path / "w"))
    first = first_data_file(table)
    assert (expire(table, dry_run=True).outside_files > 0) is with_warehouse
    assert expire(table, allow_outside=[str(tmp_path / "w")]).outside_files == 0
    assert not Path(first).exists()


def test_folders_that_the_caller_or_the_catalog_allows_are_cleaned(tmp_path: Path) -> None:
    for number, configured in enumerate([False, True]):
        imports = tmp_path / f"imports{number}"
        imports.mkdir()
        lake = catalog_in(tmp_path / f"lake{number}", **({"io.delete-outside": f" {imports} "} if configured else {}))
        added = imports / "a.parquet"
        pq.write_table(ROWS, added)
        beside = tmp_path / f"imports{number}x"
        beside.mkdir()
        pq.write_table(ROWS, beside / "b.parquet")
        table = lake.create_table("db.t", ROWS.schema)
        table.add_files([str(added), str(beside / "b.parquet")])
        table.overwrite(ROWS)
        allowed = [] if configured else [f"file:{imports}/"]
        planned = expire(table, dry_run=True, allow_outside=allowed)
        assert planned.outside["path"].to_pylist() == [str(beside / "b.parquet")]
        report = expire(table, allow_outside=allowed)
        assert not added.exists()
        assert (beside / "b.parquet").exists()
        assert report.outside["path"].to_pylist() == [str(beside / "b.parquet")]


def test_a_value_that_is_no_list_of_folders_is_refused_before_anything_is_done(lake: SqlCatalog) -> None:
    table = with_history(lake)
    for wrong in ("/data", ["s3://bucket/../x"], [3]):
        with pytest.raises(InvalidInputError, match="allow_outside"):
            expire(table, allow_outside=wrong)
        with pytest.raises(InvalidInputError, match="allow_outside"):
            lake.purge_table("db.t", allow_outside=wrong)  # type: ignore[arg-type]
    assert len(table.snapshots()) == 2


def test_a_folder_that_becomes_a_link_after_the_plan_is_not_followed(lake: SqlCatalog, tmp_path: Path) -> None:
    table = with_history(lake)
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    victim = stranger / Path(first_data_file(table)).name
    victim.write_text("mine")
    folder = Path(table.location(), "data")

    def swap(*_: Any) -> None:
        if not folder.is_symlink():
            os.rename(folder, f"{folder}-moved")
            folder.symlink_to(stranger)

    catalog_table = lake.load_table("db.t")
    apply = catalog_table.apply

    def apply_and_swap(action: Any, afterwards: Any) -> Any:
        return apply(action, lambda: (swap(), afterwards())[1])

    catalog_table.apply = apply_and_swap  # type: ignore[method-assign]
    report = expire(catalog_table)
    assert victim.read_text() == "mine"
    assert report.outside_files == 1


def test_a_folder_that_becomes_a_link_between_the_check_and_the_deletion_is_not_followed(tmp_path: Path) -> None:
    own, stranger = tmp_path / "own", tmp_path / "stranger"
    for folder in (own, stranger):
        folder.mkdir()
        (folder / "file").write_text(folder.name)
    checked: list[str] = []

    def swaps(path: str) -> bool:
        checked.append(path)
        os.rename(own, f"{own}-moved")
        own.symlink_to(stranger)
        return True

    assert delete_files(load_file_io({}), [f"file:{own}/file"], swaps) == []
    assert (stranger / "file").read_text() == "stranger"
    assert not Path(f"{own}-moved", "file").exists()
    assert checked == [str(own / "file")]


def test_a_link_to_a_folder_elsewhere_is_checked_by_its_real_path(tmp_path: Path) -> None:
    (tmp_path / "stranger").mkdir()
    (tmp_path / "stranger" / "file").write_text("mine")
    (tmp_path / "own").symlink_to(tmp_path / "stranger")
    checked: list[str] = []
    failed = delete_files(load_file_io({}), [str(tmp_path / "own" / "file")], lambda path: bool(checked.append(path)))
    assert checked == [str(tmp_path / "stranger" / "file")]
    assert len(failed) == 1


def test_tables_that_share_a_folder_keep_the_files_of_the_other_and_lose_those_that_neither_reaches(lake: SqlCatalog) -> None:
    first = with_history(lake, "db.t_new")
    lake.rename_table("db.t_new", "db.t")
    second = with_history(lake, "db.t_new")
    assert first.location() == second.location()
    own = first_data_file(second)
    report = expire(lake.load_table("db.t_new"))
    assert (report.outside_files, Path(own).exists()) == (0, False)
    old = first_data_file(lake.load_table("db.t"))
    assert expire(lake.load_table("db.t")).outside_files == 0
    assert not Path(old).exists()
    assert lake.load_table("db.t").scan().count() == lake.load_table("db.t_new").scan().count() == 2


def test_dropping_in_a_file_system_catalog_follows_no_link(tmp_path: Path, secret: Path) -> None:
    lake = load_catalog("lake", type="file-system", warehouse=str(tmp_path / "folders"))
    lake.create_namespace("db")
    table = with_history(lake)
    Path(table.location(), "data", "link").symlink_to(secret.parent)
    Path(table.location(), "metadata", "link").symlink_to(secret.parent)
    lake.drop_table("db.t")
    assert secret.exists()
    again = with_history(lake)
    Path(again.location(), "data", "link").symlink_to(secret.parent)
    lake.purge_table("db.t")
    assert secret.exists()
    assert not Path(again.location()).exists()
