"""The commands that create, describe, rename, register and drop tables, views and namespaces."""

import fcntl
import os
import pty
import subprocess
import sys
import termios
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.conftest import Command
from tests.combinations import repetitions

from icefloe import SqlCatalog
from icefloe.errors import CommitUnknownError, StorageFullError

JsonCommand = Callable[..., Any]
EXECUTABLE = str(Path(sys.executable).with_name("icefloe"))


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def catalog_at(lake: Path) -> SqlCatalog:
    return SqlCatalog("default", uri=f"sqlite:///{lake}/catalog.db", warehouse=str(lake))


# ---- create ----


def test_create_makes_a_table_with_columns_partitions_order_properties_version_and_location(
    icefloe: Command, lake: Path, tmp_path: Path
) -> None:
    result = icefloe(
        "create", "db.t", "--schema", "id long not null, time timestamptz comment 'when', tags list<string>",
        "--partition", "day(time), bucket(8, id)", "--sort", "time desc nulls last", "--sort", "id",
        "--property", "write.format.default=orc", "--format-version", 3, "--location", tmp_path / "elsewhere", "--warehouse", lake,
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    assert "created the namespace db" in result.stderr
    table = catalog_at(lake).load_table("db.t")
    assert [(field.name, str(field.field_type), field.required, field.doc) for field in table.schema().fields] == [
        ("id", "long", True, None),
        ("time", "timestamptz", False, "when"),
        ("tags", "list<string>", False, None),
    ]
    assert [(field.name, str(field.transform)) for field in table.spec().fields] == [("time_day", "day"), ("id_bucket", "bucket[8]")]
    assert str(table.sort_order()) == "[identity(2) desc nulls-last, identity(1) asc nulls-first]"
    assert (table.format_version, table.properties["write.format.default"]) == (3, "orc")
    assert table.location() == str(tmp_path / "elsewhere")


def test_create_prints_the_table(as_json: JsonCommand, lake: Path) -> None:
    printed = as_json("create", "db.t", "--schema", "id long", "--warehouse", lake)
    assert (printed["name"], printed["format_version"], printed["columns"][0]["name"]) == ("default.db.t", 2, "id")


def test_create_takes_the_columns_of_a_parquet_file(icefloe: Command, lake: Path, tmp_path: Path) -> None:
    rows = pa.table({"n": pa.array([1], pa.int32()), "place": pa.array([{"lat": 1.0}]), "day": pa.array([0], pa.date32())})
    pq.write_table(rows, tmp_path / "rows.parquet")
    assert icefloe("create", "db.t", "--schema-file", tmp_path / "rows.parquet", "--warehouse", lake).exit_code == 0
    fields = catalog_at(lake).load_table("db.t").schema().fields
    assert [(field.name, str(field.field_type)) for field in fields] == [
        ("n", "int"),
        ("place", "struct<4: lat: optional double>"),
        ("day", "date"),
    ]


def test_create_takes_the_schema_that_schema_show_prints_and_that_of_a_metadata_file(icefloe: Command, lake: Path, tmp_path: Path) -> None:
    assert icefloe("create", "db.t", "--schema", "id long not null, p struct<x: int>", "--warehouse", lake).exit_code == 0
    (tmp_path / "s.json").write_text(icefloe("schema", "show", "db.t", "--json", "--warehouse", lake).stdout)
    metadata = catalog_at(lake).load_table("db.t").metadata_location
    for name, file in (("db.u", tmp_path / "s.json"), ("db.v", metadata)):
        result = icefloe("create", name, "--schema-file", file, "--warehouse", lake)
        assert result.exit_code == 0, result.stderr
        copied = catalog_at(lake).load_table(name).schema()
        assert copied.fields == catalog_at(lake).load_table("db.t").schema().fields


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "the columns of the table are needed"),
        (("--schema", "id long", "--schema-file", "x"), "the columns of the table are needed"),
        (("--schema", "id lang"), "there is no type 'lang'"),
        (("--schema", "id long", "--partition", "day(id)"), "day"),
        (("--schema", "id long", "--partition", "nothing"), "nothing"),
        (("--schema", "id long", "--sort", "nothing desc"), "'nothing desc' is not a sort key"),
        (("--schema", "id long", "--property", "name"), "--property 'name' has no value"),
        (("--schema", "id long", "--property", "a=1", "--property", "a=2"), "--property a is given twice"),
        (("--schema", "id long", "--format-version", "9"), "9"),
        (("--schema", "v variant"), "variant"),
        (("--schema-file", "missing.parquet"), "missing.parquet"),
        (("--schema-file", "damaged.parquet"), "damaged.parquet"),
        (("--schema-file", "notes.txt"), "neither Parquet nor JSON"),
        (("--schema-file", "other.json"), "other.json"),
        (("--schema-file", "deep.json"), "neither Parquet nor JSON"),
    ],
)
def test_create_refuses_and_leaves_no_table_and_no_namespace(icefloe: Command, lake: Path, options: tuple[str, ...], message: str) -> None:
    Path("damaged.parquet").write_bytes(b"PAR1" + b"\x00" * 20)
    Path("deep.json").write_text('{"type": "struct", "fields": ' + "[" * 200_000)
    Path("notes.txt").write_text("only notes")
    Path("other.json").write_text('{"type": "struct", "fields": [{"name": "a"}]}')
    result = icefloe("create", "db.t", *options, "--warehouse", lake)
    assert result.exit_code == 1
    assert message in " ".join(result.stderr.split())
    assert catalog_at(lake).list_namespaces() == []


@pytest.mark.parametrize(
    ("error", "exit_code", "namespaces"),
    [
        (KeyboardInterrupt(), 130, []),
        (StorageFullError("no space left"), 1, []),
        (CommitUnknownError("the reply was lost"), 1, [("db",)]),
    ],
    ids=["interrupt", "error", "unknown"],
)
def test_create_drops_its_new_namespace_unless_the_table_may_exist(
    icefloe: Command, lake: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, exit_code: int, namespaces: list[tuple[str, ...]]
) -> None:
    def fails(*_: object, **__: object) -> None:
        assert catalog_at(lake).list_namespaces() == [("db",)]
        raise error

    monkeypatch.setattr(SqlCatalog, "create_table", fails)
    assert icefloe("create", "db.t", "--schema", "id long", "--warehouse", lake).exit_code == exit_code
    assert catalog_at(lake).list_namespaces() == namespaces


def test_create_keeps_the_namespace_of_another_writer(icefloe: Command, lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def created_by_another(self: SqlCatalog, namespace: Any, properties: Any = None) -> None:
        creates(catalog_at(lake), namespace)
        creates(self, namespace, properties)

    def fails(*_: object, **__: object) -> None:
        raise StorageFullError("no space left")

    creates = SqlCatalog.create_namespace
    monkeypatch.setattr(SqlCatalog, "create_namespace", created_by_another)
    monkeypatch.setattr(SqlCatalog, "create_table", fails)
    assert "no space left" in icefloe("create", "db.t", "--schema", "id long", "--warehouse", lake).stderr
    assert catalog_at(lake).list_namespaces() == [("db",)]


def test_create_prints_its_error_where_the_new_namespace_cannot_be_dropped(
    icefloe: Command, lake: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise StorageFullError("no space left")

    def cannot_drop(*_: object) -> None:
        raise StorageFullError("the database is full too")

    monkeypatch.setattr(SqlCatalog, "create_table", fails)
    monkeypatch.setattr(SqlCatalog, "drop_namespace", cannot_drop)
    result = icefloe("create", "db.t", "--schema", "id long", "--warehouse", lake)
    assert (result.exit_code, "icefloe: no space left" in result.stderr) == (1, True)
    assert "the new namespace db could not be dropped and remains: the database is full too" in caplog.text


def test_create_of_an_existing_name_is_refused_or_skipped(icefloe: Command, lake: Path) -> None:
    assert icefloe("create", "db.t", "--schema", "id long", "--warehouse", lake).exit_code == 0
    refused = icefloe("create", "db.t", "--schema", "other string", "--warehouse", lake)
    assert (refused.exit_code, "already exists" in refused.stderr) == (1, True)
    skipped = icefloe("create", "db.t", "--schema", "other string", "--if-not-exists", "--warehouse", lake)
    assert (skipped.exit_code, "nothing was changed" in skipped.stderr) == (0, True)
    assert catalog_at(lake).load_table("db.t").schema().fields[0].name == "id"


# ---- describe, rename, register, drop ----


@pytest.fixture
def filled(lake: Path) -> Path:
    """A warehouse with the table `db.t` of three rows, the view `db.v` and the empty namespace `empty`."""
    lake.mkdir()
    catalog = catalog_at(lake)
    catalog.create_namespace("db", {"owner": "tests"})
    catalog.create_namespace("empty")
    table = catalog.create_table("db.t", pa.schema([("n", pa.int64())]))
    table.append(pa.table({"n": [1, 2, 3]}))
    catalog.create_view("db.v", "SELECT n FROM db.t", table.schema())
    return lake


def test_describe_shows_a_table_a_view_or_a_namespace(as_json: JsonCommand, filled: Path) -> None:
    assert as_json("describe", "db.t", "--warehouse", filled)["total_records"] == 3
    assert as_json("describe", "db.v", "--warehouse", filled)["versions"][0]["queries"] == {"spark": "SELECT n FROM db.t"}
    assert as_json("describe", "db", "--warehouse", filled) == {
        "name": "db", "properties": {"owner": "tests"}, "namespaces": [], "tables": ["db.t"], "views": ["db.v"],
    }  # fmt: skip


def test_a_name_of_two_things_needs_a_type(icefloe: Command, as_json: JsonCommand, filled: Path) -> None:
    catalog_at(filled).create_namespace("db.t")
    refused = icefloe("describe", "db.t", "--warehouse", filled)
    assert refused.exit_code == 1
    assert "db.t is a table and a namespace" in refused.stderr
    assert "--type table|namespace" in refused.stderr
    assert as_json("describe", "db.t", "--type", "namespace", "--warehouse", filled)["name"] == "db.t"


@pytest.mark.parametrize("name", ["nothing", "db.nothing", "nowhere.t"])
@pytest.mark.parametrize("command", [("describe",), ("drop", "--yes")])
def test_a_name_of_nothing_is_refused(icefloe: Command, filled: Path, command: tuple[str, ...], name: str) -> None:
    result = icefloe(*command, name, "--warehouse", filled)
    assert result.exit_code == 1
    assert name.rsplit(".", maxsplit=1)[-1] in result.stderr or "nowhere" in result.stderr
    assert "Next:" in result.stderr


def test_rename_works_for_tables_and_views(icefloe: Command, filled: Path) -> None:
    assert icefloe("rename", "db.t", "empty.t2", "--warehouse", filled).exit_code == 0
    assert icefloe("rename", "db.v", "db.v2", "--warehouse", filled).exit_code == 0
    catalog = catalog_at(filled)
    assert (catalog.list_tables("empty"), catalog.list_views("db")) == ([("empty", "t2")], [("db", "v2")])
    for words in (("db.t", "db.x"), ("empty.t2", "nowhere.t"), ("empty.t2", "db.v2"), ("empty.t2", "x"), ("empty", "other")):
        assert icefloe("rename", *words, "--warehouse", filled).exit_code == 1


def test_drop_keeps_the_files_and_register_restores_the_table(icefloe: Command, as_json: JsonCommand, filled: Path) -> None:
    dropped = as_json("drop", "db.t", "--yes", "--warehouse", filled)
    assert (dropped["type"], dropped["name"], dropped["purged"]) == ("table", "db.t", False)
    assert icefloe("tree", "db.t", "--warehouse", filled).exit_code == 1
    assert icefloe("register", "db.again", dropped["metadata_location"], "--warehouse", filled).exit_code == 0
    assert catalog_at(filled).load_table("db.again").scan().count() == 3


def test_drop_with_purge_deletes_the_files_and_counts_them(as_json: JsonCommand, filled: Path) -> None:
    location = Path(catalog_at(filled).load_table("db.t").location())
    dropped = as_json("drop", "db.t", "--purge", "--yes", "--warehouse", filled)
    assert dropped["totals"]["data files"]["files"] == 1
    assert [path for path in location.rglob("*") if path.is_file()] == []


def test_drop_removes_views_and_empty_namespaces(icefloe: Command, filled: Path) -> None:
    assert icefloe("drop", "db.v", "-y", "--warehouse", filled).exit_code == 0
    assert icefloe("drop", "empty", "-y", "--warehouse", filled).exit_code == 0
    refused = icefloe("drop", "db", "-y", "--warehouse", filled)
    assert refused.exit_code == 1
    assert catalog_at(filled).list_namespaces() == [("db",)]
    assert icefloe("drop", "db", "-y", "--purge", "--warehouse", filled).exit_code == 1


def test_drop_without_a_terminal_needs_yes(icefloe: Command, filled: Path) -> None:
    for words in (("drop", "db.t"), ("drop", "db.t", "--purge"), ("drop", "empty"), ("namespace", "drop", "empty")):
        result = icefloe(*words, "--warehouse", filled)
        assert result.exit_code == 1
        assert "a confirmation is needed to drop the" in result.stderr
        assert "Next: add --yes" in result.stderr
    assert catalog_at(filled).table_exists("db.t")


@pytest.mark.parametrize(("answer", "exit_code"), [("y\n", 0), ("n\n", 1), ("\n", 1)])
def test_a_confirmation_is_read_from_standard_input(
    icefloe: Command, filled: Path, monkeypatch: pytest.MonkeyPatch, answer: str, exit_code: int
) -> None:
    monkeypatch.setattr("typer.testing._NamedTextIOWrapper.isatty", lambda stream: stream.name == "<stdin>", raising=False)
    result = icefloe("drop", "db.t", "--warehouse", filled, answer=answer)
    assert "Drop the table db.t, whose files remain? [y/N] " in result.stderr
    assert result.exit_code == exit_code
    assert catalog_at(filled).table_exists("db.t") == (exit_code != 0)


@pytest.mark.parametrize(("answer", "exit_code"), repetitions([("y\n", 0), ("n\n", 1), ("\n", 1), ("\x03", 130)], ("\x03", 130)))
def test_drop_in_a_terminal_needs_a_confirmation(filled: Path, answer: str, exit_code: int) -> None:
    parent, child = pty.openpty()
    with subprocess.Popen([EXECUTABLE, "drop", "db.t", "--warehouse", str(filled)], stdin=child, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, preexec_fn=lambda: _own_terminal(child)) as running:  # fmt: skip  # noqa: PLW1509
        os.close(child)
        assert running.stderr is not None
        question = ""
        while not question.endswith("[y/N] ") and (character := running.stderr.read(1)):
            question += character
        assert question == "Drop the table db.t, whose files remain? [y/N] "
        for _ in range(60):
            # An answer is repeated: Python does not notice a Ctrl-C that comes right before it waits for a line, and waits.
            os.write(parent, answer.encode())
            with suppress(subprocess.TimeoutExpired):
                running.wait(1)
                break
        running.kill()
        assert running.wait() == exit_code
    os.close(parent)
    assert catalog_at(filled).table_exists("db.t") == (exit_code != 0)


def _own_terminal(terminal: int) -> None:
    """Make a pseudo-terminal the controlling one, so that Ctrl-C in it interrupts the process."""
    os.setsid()
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)


# ---- namespaces ----


def test_namespaces_are_created_listed_shown_changed_and_dropped(icefloe: Command, as_json: JsonCommand, lake: Path) -> None:
    place = ("--warehouse", lake)
    printed = as_json("namespace", "create", "a", "--property", "owner=me", "--location", "/somewhere", *place)
    assert printed["properties"] == {"location": "/somewhere", "owner": "me"}
    assert icefloe("namespace", "create", "a", *place).exit_code == 1
    assert icefloe("namespace", "create", "a", "--if-not-exists", *place).exit_code == 0
    assert icefloe("namespace", "create", "a.b", *place).exit_code == 0
    assert [item["name"] for item in as_json("namespace", "list", *place)["namespaces"]] == ["a"]
    assert [item["name"] for item in as_json("namespace", "list", "a", *place)["namespaces"]] == ["a.b"]
    assert as_json("namespace", "show", "a", *place)["namespaces"] == ["a.b"]
    assert icefloe("namespace", "drop", "a", "--yes", *place).exit_code == 1
    assert icefloe("namespace", "drop", "a.b", "--yes", *place).exit_code == 0
    assert icefloe("namespace", "drop", "a", "--yes", *place).exit_code == 0
    assert as_json("list", *place)["namespaces"] == []


def test_properties_of_a_namespace_are_printed_set_and_removed(icefloe: Command, as_json: JsonCommand, filled: Path) -> None:
    place = ("--warehouse", filled)
    assert icefloe("namespace", "properties", "db", "get", "owner", *place).stdout == "tests\n"
    assert as_json("namespace", "properties", "db", "set", "owner=you", "b=c=d", *place)["properties"] == {"b": "c=d", "owner": "you"}
    assert as_json("namespace", "properties", "db", "remove", "b", *place)["properties"] == {"owner": "you"}
    missing = icefloe("namespace", "properties", "db", "get", "nothing", *place)
    assert (missing.exit_code, "its properties are: owner" in missing.stderr) == (1, True)


# ---- what other command lines have ----


def test_one_value_is_printed_alone(icefloe: Command, as_json: JsonCommand, filled: Path) -> None:
    table = catalog_at(filled).load_table("db.t")
    place = ("--warehouse", filled)
    assert icefloe("location", "db.t", *place).stdout == f"{table.location()}\n"
    assert icefloe("uuid", "db.t", *place).stdout == f"{table.metadata.table_uuid}\n"
    assert as_json("uuid", "db.t", *place) == {"name": "default.db.t", "uuid": str(table.metadata.table_uuid)}
    icefloe("properties", "db.t", "set", "a=b", *place)
    assert icefloe("properties", "db.t", "get", "a", *place).stdout == "b\n"
    assert icefloe("properties", "db.t", "get", "nothing", *place).exit_code == 1


def test_files_are_those_of_a_snapshot_or_of_all(as_json: JsonCommand, filled: Path) -> None:
    table = catalog_at(filled).load_table("db.t")
    first = table.current_snapshot()
    assert first is not None
    table.overwrite(pa.table({"n": [4]}))
    place = ("--warehouse", filled)
    assert [file["records"] for file in as_json("files", "db.t", *place)["files"]] == [1]
    assert [file["records"] for file in as_json("files", "db.t", "--snapshot", first.snapshot_id, *place)["files"]] == [3]
    assert sorted(file["records"] for file in as_json("files", "db.t", "--history", *place)["files"]) == [1, 3]


def test_refs_are_all_or_only_branches_or_tags(icefloe: Command, as_json: JsonCommand, filled: Path) -> None:
    place = ("--warehouse", filled)
    icefloe("tag", "create", "db.t", "v1", *place)
    assert [ref["name"] for ref in as_json("refs", "db.t", *place)["refs"]] == ["main", "v1"]
    assert [ref["name"] for ref in as_json("refs", "db.t", "--type", "tag", *place)["refs"]] == ["v1"]


def test_list_of_one_namespace_leaves_the_others_out(icefloe: Command, as_json: JsonCommand, filled: Path) -> None:
    assert [space["name"] for space in as_json("list", "db", "--warehouse", filled)["namespaces"]] == ["db"]
    assert icefloe("list", "nowhere", "--warehouse", filled).exit_code == 1


@pytest.mark.parametrize("subject", [("properties", "db.t"), ("namespace", "properties", "db")], ids=" ".join)
def test_an_action_on_properties_is_written_before_or_after_the_name(
    icefloe: Command, as_json: JsonCommand, tmp_path: Path, subject: tuple[str, ...]
) -> None:
    where = ("--warehouse", tmp_path)
    assert icefloe("create", "db.t", "--schema", "id long", *where).exit_code == 0
    *command, name = subject
    assert as_json(*command, "set", name, "k=v", "l=w", *where)["properties"]["k"] == "v"
    assert icefloe(*command, *where, "get", name, "l").stdout == "w\n"
    assert icefloe(*command, name, "get", "l", *where).stdout == "w\n"
    assert "k" not in as_json(*command, "remove", name, "k", *where)["properties"]
    refused = icefloe(*command, "set", name, *where)
    assert refused.exit_code == 1
    assert "set KEY=VALUE" in refused.stderr


@pytest.mark.parametrize(("uri", "address"), [("thrift://127.0.0.1:9", "127.0.0.1:9"), ("http://127.0.0.1:9", "127.0.0.1:9")])
def test_a_uri_of_a_service_opens_a_catalog_of_its_type_and_no_database(icefloe: Command, uri: str, address: str) -> None:
    result = icefloe("list", "--uri", uri)
    assert result.exit_code == 1
    assert address in result.stderr
    assert "SQLAlchemy" not in result.stderr
