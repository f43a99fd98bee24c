"""The search for orphan files by Spark's tasks: the same files and refusals as in this process."""

import os
import random
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.combinations import repetitions
from tests.maintenance.test_remove_orphan_files import OLD, age, folder_of, later, made, stray

from icefloe.errors import EngineError, FormatError, InvalidInputError, NoSuchFileError, StorageError
from icefloe.io.file_tree import local_state
from icefloe.maintenance import remove_orphan_files as removal
from icefloe.operations.available_engines import IN_PROCESS, EngineChoice, choosing_engines, engine_named
from icefloe.spark.maintenance import orphan_files_job
from icefloe.table import Table

pytestmark = pytest.mark.spark
# Parts of names: hidden ones, percent signs, composed and decomposed letters, spaces, and characters of patterns and of SQL.
WORDS = ["a", "_b", ".c", "d e", "%20", "%2F", "é", "e\u0301", "x=1", "*", "'", "😀", "v1.metadata.json", "\\", "\n", "a" * 60]


def found(table: Table, engine: str, **options: Any) -> tuple[list[dict[str, Any]], int]:
    result = table.maintenance.remove_orphan_files(dry_run=True, engine=engine, **options)
    return sorted(result.files.to_pylist(), key=str), result.listed_files


def random_tree(folder: Path, numbers: random.Random, files: int) -> list[Path]:
    paths = []
    for _ in range(files):
        names = [
            numbers.choice(WORDS) + numbers.choice(string.ascii_letters) * numbers.randrange(2) for _ in range(numbers.randrange(1, 6))
        ]
        path = folder.joinpath(*names)
        if any(part.is_file() for part in path.parents) or path.is_dir():
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * numbers.randrange(9))
        os.utime(path, (OLD, OLD) if numbers.random() < 0.8 else None)
        paths.append(path)
    return paths


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))])
def test_random_trees_have_the_same_orphans_as_in_this_process(
    spark: SparkSession, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In rounds of no time each task returns the folders that it has found, so that the tree is divided at every level.
    monkeypatch.setattr(orphan_files_job, "FIRST_SECONDS", 0.0 if seed == 1 else 1.0)
    monkeypatch.setattr(orphan_files_job, "LAST_SECONDS", 0.02)
    numbers = random.Random(seed)
    table = made(tmp_path, 1 + seed % 3)
    table.append(table.scan().to_arrow())
    if seed % 3:
        table.set_properties({"write.delete.mode": "merge-on-read"})
        table.delete("id = 2")
    age(table)
    paths = random_tree(folder_of(table) / "data", numbers, 150)
    outside = random_tree(tmp_path / "added", numbers, 10)
    for path in [*numbers.sample(paths, 20), *outside[:3]]:
        link = folder_of(table) / "data" / f"link{numbers.randrange(10**9)}"
        link.symlink_to(path)
    here, listed = found(table, "in-process")
    assert here
    assert found(table, "spark") == (here, listed)
    location = str(folder_of(table) / ("data", "metadata")[seed % 2])
    assert found(table, "spark", location=location) == found(table, "in-process", location=location)
    rows = [
        (str(path), int(path.stat().st_mtime * 1000)) for path in [*paths, *outside, *folder_of(table).rglob("*.parquet")] if path.exists()
    ]
    view = spark.createDataFrame([(path, ms) for path, ms in rows], "file_path STRING, ms LONG").selectExpr(
        "file_path", "timestamp_millis(ms) AS last_modified"
    )
    of_arrow = pa.table(
        {"file_path": [path for path, _ in rows], "last_modified": pa.array([ms for _, ms in rows], pa.timestamp("ms", "UTC"))}
    )
    in_view = table.maintenance.remove_orphan_files(dry_run=True, file_list_view=of_arrow)
    by_spark = table.maintenance.remove_orphan_files(dry_run=True, file_list_view=view)
    assert (sorted(by_spark.files.to_pylist(), key=str), by_spark.listed_files) == (
        sorted(in_view.files.to_pylist(), key=str),
        in_view.listed_files,
    )
    before = table.scan().to_arrow().sort_by("id")
    assert table.maintenance.remove_orphan_files(engine="spark").deleted_files == len(here)
    assert found(table, "in-process")[0] == []
    assert table.scan().to_arrow().sort_by("id").equals(before)


def test_a_file_behind_a_link_is_kept(spark: SparkSession, tmp_path: Path) -> None:
    table = made(tmp_path)
    link = Path(next(iter(table.scan().plan_files())).file.file_path.removeprefix("file://"))
    real = stray(table, "store/object 1", link.read_bytes())
    link.unlink()
    link.symlink_to(real)
    orphan = stray(table, "store/object-2")
    age(table)
    assert [row["path"] for row in found(table, "spark")[0]] == [str(orphan)]


def test_a_commit_after_the_listing_keeps_its_files(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path)
    stray(table, "data/a.parquet")
    read: Callable[..., Any] = removal.referenced_files
    rows = pa.table({"id": pa.array([9], pa.int64()), "kind": ["z"]})

    def after_a_commit(*arguments: Any) -> Any:
        table.append(rows)
        age(table)
        return read(*arguments)

    monkeypatch.setattr(removal, "referenced_files", after_a_commit)
    assert table.maintenance.remove_orphan_files(engine="spark").deleted_files == 1
    assert table.refresh().scan().count() == 4


def test_a_listing_that_was_lost_with_its_executor_is_not_made_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(tmp_path)
    path = stray(table, "data/a.parquet")
    read: Callable[..., Any] = removal.referenced_files
    rows = pa.table({"id": pa.array([9], pa.int64()), "kind": ["z"]})

    def after_a_loss(*arguments: Any) -> Any:
        referenced = read(*arguments)
        # A file that is committed now is in no list of referenced files, so that another listing would take it for an orphan.
        table.append(rows)
        age(table)
        for stored in spark.sparkContext._jsc.getPersistentRDDs().values():
            stored.unpersist(True)
        return referenced

    monkeypatch.setattr(removal, "referenced_files", after_a_loss)
    with pytest.raises(EngineError):
        table.maintenance.remove_orphan_files(engine="spark")
    assert path.exists()
    assert table.refresh().scan().count() == 4


def test_a_table_that_cannot_be_read_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    table = made(tmp_path)
    path = stray(table, "data/a.parquet")
    snapshot = table.current_snapshot()
    assert snapshot is not None
    manifest = Path(snapshot.manifests(table.io)[0].manifest_path.removeprefix("file://"))
    content = manifest.read_bytes()
    manifest.write_bytes(content[:-1])
    with pytest.raises(FormatError, match=r"no file of lake\.db\.t was deleted"):
        table.maintenance.remove_orphan_files(engine="spark")
    manifest.unlink()
    with pytest.raises(NoSuchFileError, match=r"no file of lake\.db\.t was deleted"):
        table.maintenance.remove_orphan_files(engine="spark")
    manifest.write_bytes(content)
    with pytest.raises(NoSuchFileError, match="there is no folder"):
        table.maintenance.remove_orphan_files(engine="spark", location=f"{folder_of(table)}/none")
    assert path.exists()
    assert table.maintenance.remove_orphan_files(engine="spark").deleted_files == 1


@pytest.mark.parametrize("mode", repetitions(["ERROR", "IGNORE", "DELETE"], "ERROR", "DELETE"))
def test_prefixes_are_compared_as_in_this_process(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    table = made(tmp_path)
    path, other = stray(table, "data/x.parquet"), stray(table, "data/y.parquet")
    read = removal.referenced_files

    def with_prefix(*arguments: Any) -> Any:
        referenced = read(*arguments)
        return removal.replace(referenced, paths=(*referenced.paths, f"s3://bucket{path}"))

    monkeypatch.setattr(removal, "referenced_files", with_prefix)
    if mode == "ERROR":
        errors = []
        for engine in ("spark", "in-process"):
            with pytest.raises(InvalidInputError, match="another scheme or authority") as refused:
                found(table, engine)
            errors.append(refused.value)
        assert str(errors[0]) == str(errors[1])
        assert found(table, "spark", equal_schemes={"s3": "file"}, prefix_mismatch_mode="DELETE") == found(
            table, "in-process", equal_schemes={"s3": "file"}, prefix_mismatch_mode="DELETE"
        )
        return
    by_spark = found(table, "spark", prefix_mismatch_mode=mode)
    assert by_spark == found(table, "in-process", prefix_mismatch_mode=mode)
    assert {row["path"] for row in by_spark[0]} == {str(other)} | ({str(path)} if mode == "DELETE" else set())


def test_the_rows_of_a_view_decide_the_engine(spark: SparkSession, tmp_path: Path) -> None:
    table = made(tmp_path)
    with pytest.raises(InvalidInputError, match="those of the engine in-process"):
        table.maintenance.remove_orphan_files(file_list_view=pa.table({"file_path": ["x"]}), engine="spark")
    with pytest.raises(InvalidInputError, match="file_list_view cannot be used"):
        table.maintenance.remove_orphan_files(file_list_view=spark.range(1))
    for columns in (
        "1 AS file_path, now() AS last_modified",
        "'x' AS file_path, '2020-01-01' AS last_modified",
        "'x' AS file_path, 1L AS last_modified",
    ):
        with pytest.raises(InvalidInputError, match=r"its column (file_path|last_modified) is of type"):
            table.maintenance.remove_orphan_files(file_list_view=spark.range(0).selectExpr(*columns.split(", ")))
    with pytest.raises(InvalidInputError, match="of type int"):
        table.maintenance.remove_orphan_files(file_list_view=7)
    with pytest.raises(EngineError, match="no engine named 'duck'"):
        table.maintenance.remove_orphan_files(engine="duck")


def test_a_running_session_lists_large_tables_and_purges_stay_here(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(tmp_path)
    stray(table, "data/a.parquet")
    used: list[str] = []
    for engine in (IN_PROCESS, engine_named("spark")):
        search = type(engine).orphans
        monkeypatch.setattr(type(engine), "orphans", lambda self, request, search=search: used.append(self.name) or search(self, request))
    found_here = table.maintenance.remove_orphan_files(dry_run=True)
    with choosing_engines(EngineChoice(live_files=1)):
        assert table.maintenance.remove_orphan_files(mode="quarantine").files.equals(found_here.files)
        later(table, 8, monkeypatch)
        assert table.maintenance.remove_orphan_files(mode="purge").deleted_files == 1
    assert used == ["in-process", "spark", "in-process"]
    assert spark.sparkContext._jsc.getPersistentRDDs().isEmpty()


def test_a_local_folder_is_not_listed_by_executors_that_see_another_disk(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(tmp_path)
    path = stray(table, "data/stray.parquet")
    state = local_state(str(path))
    # On the driver alone the manifest list has another size, as on a machine with a folder of the same name.
    monkeypatch.setattr(orphan_files_job, "local_state", lambda _: state)
    with pytest.raises(StorageError, match="is a folder of the driver's machine") as refused:
        found(table, "spark")
    assert "engine='in-process'" in str(refused.value.next_step)
    assert path.exists()
    monkeypatch.undo()
    assert [one["path"] for one in found(table, "spark")[0]] == [str(path)]
