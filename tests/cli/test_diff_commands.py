"""`icefloe diff` and `icefloe explain commit`: how versions are named, what is printed, and what is refused."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from tests.cli.conftest import Command

from icefloe import SqlCatalog
from icefloe.cli.diff_commands import split_version
from icefloe.errors import IcefloeError


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lake")
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    catalog.create_namespace("db")
    for name in ("t", "u"):
        table = catalog.create_table(f"db.{name}", pa.schema([("n", pa.int64())]))
        table.append(pa.table({"n": [1, 2]}))
        table.manage_snapshots().create_tag(table.current_snapshot().snapshot_id, "v1").commit()
        table.append(pa.table({"n": [3]}))
    return folder


def test_a_table_at_a_tag_is_compared_with_its_current_snapshot(icefloe: Command, lake: Path) -> None:
    result = icefloe("diff", "db.t@v1", "--warehouse", lake)
    assert result.exit_code == 0
    assert "the second follows the first" in result.stdout
    document = json.loads(icefloe("diff", "db.t@v1", "@main", "--rows", "--json", "--warehouse", lake).stdout)
    assert document["data_files"]["added"] == {"files": 1, "rows": 1, "bytes": document["data_files"]["added"]["bytes"]}
    assert document["rows"]["sample"] == [{"n": 3, "_change_type": "INSERT"}]


def test_two_tables_and_their_versions_are_compared(icefloe: Command, lake: Path) -> None:
    result = icefloe("diff", "db.t", "db.u@v1", "--column", "n", "--json", "--warehouse", lake)
    assert json.loads(result.stdout)["rows"]["removed"] == 1
    metadata = max((lake / "db" / "t" / "metadata").glob("*.metadata.json"), key=lambda path: path.name)
    assert icefloe("diff", f"{metadata}@v1", "@main").exit_code == 0


def test_no_more_rows_than_max_rows_are_listed_and_all_are_counted(icefloe: Command, lake: Path) -> None:
    document = json.loads(icefloe("diff", "db.t@main", "@v1", "--rows", "--max-rows", 0, "--json", "--warehouse", lake).stdout)
    assert (document["rows"]["removed"], document["rows"]["sample"]) == (1, [])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["db.t"], "nothing is named"),
        (["db.t@"], "no version after @"),
        (["db.t@v7"], "no snapshot, branch or tag 'v7'"),
        (["db.t@v1", "--column", "nothing"], "no column 'nothing'"),
        (["db.missing@v1"], "does not exist"),
    ],
)
def test_what_cannot_be_compared_is_refused(icefloe: Command, lake: Path, words: list[str], message: str) -> None:
    result = icefloe("diff", *words, "--warehouse", lake)
    assert result.exit_code == 1
    assert message in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("db.t", ("db.t", None)),
        ("db.t@feature/x", ("db.t", "feature/x")),
        ("@v1", ("", "v1")),
        ("/lake/t/metadata/00001-a.metadata.json@v1", ("/lake/t/metadata/00001-a.metadata.json", "v1")),
        ("abfss://lake@account.net/t/metadata/00001-a.metadata.json", ("abfss://lake@account.net/t/metadata/00001-a.metadata.json", None)),
    ],
)
def test_the_version_is_what_follows_the_at_sign(text: str, expected: tuple[str, str | None]) -> None:
    assert split_version(text) == expected


def test_an_empty_version_is_refused() -> None:
    with pytest.raises(IcefloeError):
        split_version("db.t@")


def test_a_commit_is_explained(icefloe: Command, lake: Path) -> None:
    result = icefloe("explain", "commit", "db.t", "v1", "--warehouse", lake)
    assert result.exit_code == 0
    assert "No other writer was first" in result.stdout
    assert json.loads(icefloe("explain", "commit", "db.t", "--json", "--warehouse", lake).stdout)["attempts"] == 1
