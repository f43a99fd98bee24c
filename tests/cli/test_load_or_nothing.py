"""A load is one commit or nothing: the state after a load that fails or is interrupted. Rows are Arrow here, so that no Spark starts."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from tests.cli.conftest import Command

import icefloe.cli.load_command as loading
from icefloe import SqlCatalog
from icefloe.errors import CommitUnknownError, EngineError, StorageFullError
from icefloe.kernel.schema.arrow_schema import schema_from_arrow
from icefloe.table import Table

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "kind": ["a", "b", "a"]})
Fault = Callable[[Table], None]


@contextmanager
def nothing_wrong() -> Iterator[None]:
    yield


@pytest.fixture(autouse=True)
def _arrow_instead_of_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = SimpleNamespace(frame=ROWS, schema=schema_from_arrow(ROWS.schema, keep_ids=False))
    modules = SimpleNamespace(running_tasks=lambda spark: lambda: (0, 0), reading=nothing_wrong)
    monkeypatch.setattr(loading, "start_spark", lambda: None)
    monkeypatch.setattr(loading, "stop_spark", lambda: None)
    monkeypatch.setattr(loading, "spark_module", lambda name: modules)
    monkeypatch.setattr(loading, "read_rows", lambda *arguments, **options: rows)
    Path("a.csv").write_text("id,kind\n")


@pytest.fixture
def load(icefloe: Command) -> Command:
    return lambda *words: icefloe("load", "a.csv", "--warehouse", "lake", *words)


@pytest.fixture
def fails_with(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Make the write fail after one of its data files was written."""

    def arrange(error: BaseException) -> None:
        def write(table: Table, *arguments: object, **options: object) -> None:
            folder = Path(table.location()) / "data"
            folder.mkdir(exist_ok=True)
            (folder / "half.parquet").write_text("half")
            raise error

        monkeypatch.setattr(loading, "write_rows", write)

    return arrange


def catalog() -> SqlCatalog:
    return SqlCatalog("default", uri=f"sqlite:///{Path('lake/catalog.db').absolute()}", warehouse=str(Path("lake").absolute()))


def files() -> list[str]:
    return sorted(str(path.relative_to("lake")) for path in Path("lake").rglob("*") if path.is_file() and path.name != "catalog.db")


def catalog_rows() -> list[int]:
    with sqlite3.connect("lake/catalog.db") as database:
        counts = [
            database.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in ("iceberg_tables", "iceberg_namespace_properties")
        ]
    database.close()
    return counts


def test_a_load_creates_namespace_table_and_one_snapshot(load: Command) -> None:
    result = load("--into", "new.rows", "--partition", "kind", "--partition", "bucket(4, id)")
    assert result.exit_code == 0
    table = catalog().load_table("new.rows")
    assert [snapshot.operation for snapshot in table.snapshots()] == ["append"]
    assert [str(field.transform) for field in table.spec().fields] == ["identity", "bucket[4]"]
    assert table.scan().to_arrow().num_rows == 3
    assert "added 3 rows" in result.stdout


def test_a_second_load_appends_and_overwrite_replaces(load: Command) -> None:
    for words in ((), (), ("--append",)):
        assert load("--into", "n.t", *words).exit_code == 0
    assert catalog().load_table("n.t").scan().to_arrow().num_rows == 9
    assert load("--into", "n.t", "--overwrite").exit_code == 0
    assert catalog().load_table("n.t").scan().to_arrow().num_rows == 3


@pytest.mark.parametrize("error", [EngineError("Spark fell over"), StorageFullError("no space left"), KeyboardInterrupt()])
def test_a_load_that_fails_leaves_no_table_no_namespace_and_no_file(
    load: Command, fails_with: Callable[[BaseException], None], error: BaseException
) -> None:
    fails_with(error)
    result = load("--into", "new.rows")
    assert result.exit_code == (130 if isinstance(error, KeyboardInterrupt) else 1)
    assert result.stdout == ""
    assert catalog_rows() == [0, 0]
    assert files() == []
    assert not Path("lake/new").exists()


def test_an_interrupted_load_reports_that_no_snapshot_was_created(load: Command, fails_with: Callable[[BaseException], None]) -> None:
    fails_with(KeyboardInterrupt())
    assert "interrupted: no snapshot was made, new.rows is unchanged" in load("--into", "new.rows").stderr


@pytest.mark.parametrize("error", [EngineError("Spark fell over"), KeyboardInterrupt()])
def test_a_failed_load_leaves_an_existing_table_unchanged(
    load: Command, fails_with: Callable[[BaseException], None], error: BaseException
) -> None:
    load("--into", "n.t")
    before = catalog().load_table("n.t").metadata_location
    fails_with(error)
    assert load("--into", "n.t").exit_code != 0
    assert catalog().load_table("n.t").metadata_location == before


def test_a_failed_load_keeps_an_existing_namespace(load: Command, fails_with: Callable[[BaseException], None]) -> None:
    Path("lake").mkdir()
    catalog().create_namespace("n")
    fails_with(EngineError("Spark fell over"))
    load("--into", "n.t")
    assert catalog_rows() == [0, 1]


def test_a_failed_load_keeps_the_files_of_an_existing_folder(load: Command, fails_with: Callable[[BaseException], None]) -> None:
    Path("lake/n/t/data").mkdir(parents=True)
    Path("lake/n/t/data/old.parquet").write_text("of a table dropped long ago")
    fails_with(EngineError("Spark fell over"))
    load("--into", "n.t")
    assert "n/t/data/old.parquet" in files()


def test_an_unknown_commit_state_deletes_nothing(load: Command, fails_with: Callable[[BaseException], None]) -> None:
    fails_with(CommitUnknownError("the response was lost"))
    assert load("--into", "n.t").exit_code == 1
    assert catalog_rows() == [1, 1]
    assert "n/t/data/half.parquet" in files()


def test_an_interrupt_after_the_commit_keeps_and_reports_it(load: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(table: Table, *arguments: object, **options: object) -> None:
        table.append(ROWS)
        raise KeyboardInterrupt

    monkeypatch.setattr(loading, "write_rows", write)
    result = load("--into", "n.t")
    assert result.exit_code == 130
    assert "may have happened already" in result.stderr
    assert catalog().load_table("n.t").scan().to_arrow().num_rows == 3


def test_a_load_with_an_invalid_partitioning_leaves_nothing(load: Command) -> None:
    for partition in ("month(kind)", "nowhere", "bucket(id)"):
        assert load("--into", "n.t", "--partition", partition).exit_code == 1
    assert catalog_rows() == [0, 0]
    assert files() == []


def test_a_table_keeps_its_partitioning(load: Command) -> None:
    load("--into", "n.t", "--partition", "kind")
    assert load("--into", "n.t", "--partition", "kind").exit_code == 0
    result = load("--into", "n.t", "--partition", "bucket(4, id)")
    assert result.exit_code == 1
    assert "is partitioned by kind, not by bucket(4, id)" in result.stderr


@pytest.mark.parametrize("into", ["rows", "n.", "n/x.t", "n.t\n"])
def test_an_invalid_table_name_is_refused_before_anything_is_created(load: Command, into: str) -> None:
    assert load("--into", into).exit_code == 1
    assert not Path("lake").exists()


def test_an_option_of_the_reader_requires_a_value(load: Command) -> None:
    result = load("--into", "n.t", "--option", "nullValue")
    assert result.exit_code == 1
    assert "KEY=VALUE" in result.stderr


def test_a_warehouse_that_cannot_be_created_is_refused(icefloe: Command) -> None:
    Path("file").write_text("not a folder")
    result = icefloe("load", "a.csv", "--into", "n.t", "--warehouse", "file/lake")
    assert result.exit_code == 1
    assert "cannot create the folder" in result.stderr
