"""The commands for views: their effects, output and refusals."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.cli.conftest import Command

from icefloe import SqlCatalog

JsonCommand = Callable[..., Any]


@pytest.fixture
def lake(tmp_path: Path) -> SqlCatalog:
    catalog = SqlCatalog("default", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    return catalog


@pytest.fixture
def run(icefloe: Command, lake: SqlCatalog) -> Command:
    return lambda *words: icefloe("view", *words, "--warehouse", Path(lake.properties["warehouse"]))


CREATE = ("create", "db.v", "--sql", "SELECT type, n FROM t", "--schema", "type string, n decimal(9, 2)", "--property", "comment=a=b")


def test_a_view_is_created_shown_and_listed(run: Command, lake: SqlCatalog) -> None:
    made = run(*CREATE)
    assert (made.exit_code, made.stderr) == (0, "")
    assert "view default.db.v" in made.stdout
    view = lake.load_view("db.v")
    assert (view.properties, [str(field.field_type) for field in view.schema().fields]) == ({"comment": "a=b"}, ["string", "decimal(9, 2)"])
    shown = json.loads(run("show", "db.v", "--json").stdout)
    assert shown["versions"][0]["queries"] == {"spark": "SELECT type, n FROM t"}
    assert [column["name"] for column in shown["columns"]] == ["type", "n"]
    assert json.loads(run("list", "--json").stdout) == {"catalog": "default", "views": ["db.v"]}
    assert "db.v" in run("list", "db").stdout


def test_a_view_is_replaced_rolled_back_renamed_dropped_and_registered(run: Command, lake: SqlCatalog, tmp_path: Path) -> None:
    run(*CREATE)
    (tmp_path / "q.sql").write_text("SELECT 2\n")
    assert run("replace", "db.v", "--file", tmp_path / "q.sql", "--dialect", "trino").exit_code == 0
    assert lake.load_view("db.v").current_version().dialects == ("spark", "trino")
    changed = run(
        "replace", "db.v", "--drop-dialect", "trino", "--property", "replace.drop-dialect.allowed=true", "--default-namespace", "a.b"
    )
    assert changed.exit_code == 0
    version = lake.load_view("db.v").current_version()
    assert (version.dialects, version.default_namespace) == (("spark",), ("a", "b"))
    assert run("rollback", "db.v", 1).exit_code == 0
    assert [entry.version_id for entry in lake.load_view("db.v").history()] == [1, 2, 3, 1]
    assert "view default.db.w" in run("rename", "db.v", "db.w").stdout
    dropped = run("drop", "db.w")
    assert (dropped.exit_code, "view default.db.w" in dropped.stdout) == (0, True)
    location = dropped.stderr.replace("\n", "").rpartition(" ")[2]
    assert lake.list_views("db") == []
    assert run("register", "db.back", location).exit_code == 0
    assert lake.load_view("db.back").current_version().version_id == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("create", "db.x", "--sql", "SELECT 1"), "was given no schema"),
        (("create", "db.x", "--schema", "n long"), "exactly one SELECT statement"),
        (("create", "db.x", "--sql", "SELECT 1", "--schema", "n"), "a type is missing at the end"),
        (("create", "db.x", "--sql", "SELECT 1", "--schema", "n lonk"), "types are boolean"),
        (("create", "db.x", "--sql", " ", "--schema", "n long"), "its SQL is empty"),
        (("create", "db.x", "--file", "/nowhere.sql", "--schema", "n long"), "cannot be read from /nowhere.sql"),
        (("create", "db.t", "--sql", "SELECT 1", "--schema", "n long"), "table 'db.t' already exists"),
        (("create", "db.x", "--sql", "SELECT 1", "--schema", "n long", "--property", "comment"), "--property 'comment' has no value"),
        (("show", "db.t"), "that name is a table"),
        (("replace", "db.nothing", "--sql", "SELECT 1"), "does not exist"),
        (("replace", "db.v"), "exactly one SELECT statement"),
        (("replace", "db.v", "--drop-dialect", "presto"), "it has spark"),
        (("replace", "db.v", "--drop-dialect", "presto", "--property", "comment=new"), "it has spark"),
        (("rollback", "db.v", "7"), "no version 7"),
        (("rename", "db.v", "db.t"), "already exists"),
        (("list", "nowhere"), "nowhere"),
    ],
)
def test_an_error_has_the_reason_and_the_next_step(run: Command, lake: SqlCatalog, words: tuple[str, ...], message: str) -> None:
    lake.create_table("db.t", pa.schema([("n", pa.int64())]))
    run(*CREATE)
    before = lake.load_view("db.v")
    refused = run(*words)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert message in " ".join(refused.stderr.split())
    assert "Next:" in refused.stderr
    assert (lake.load_view("db.v"), lake.list_views("db")) == (before, [("db", "v")])
