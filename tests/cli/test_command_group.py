"""What every command has in common: errors as JSON, and the groups of the help text."""

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Command
from tests.combinations import combinations, repetitions
from tests.inspect.example import make_lake
from typer.testing import CliRunner

from icefloe.cli.application import app
from icefloe.cli.command_group import LazyCommand, lazy_commands
from icefloe.cli.failure_output import error_as_json
from icefloe.errors import CommitConflictError, MetadataFormatError, Problem

PAGE = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text()
KEYS = {"code", "what", "table", "file", "snapshot_id", "field", "rule", "problems", "next_step", "exit_code"}


def error_of(stderr: str) -> dict[str, Any]:
    assert stderr.count("\n") == 1, "one line, which is the last one of standard error"
    content: dict[str, Any] = json.loads(stderr)["error"]
    return content


def test_an_error_with_json_has_what_table_next_step_and_exit_code(icefloe: Command, warehouse: Path) -> None:
    result = icefloe("tree", "demo.nothing", "--warehouse", warehouse, "--json")
    assert (result.exit_code, result.stdout) == (1, "")
    error = error_of(result.stderr)
    assert error.keys() == KEYS
    assert (error["code"], error["table"], error["exit_code"]) == ("no-such-table", "demo.nothing", 1)
    assert "does not exist" in error["what"]
    assert error["next_step"] == "the namespace holds demo.events"


def test_an_error_with_json_names_the_file_field_and_rule(icefloe: Command, tmp_path: Path) -> None:
    _, table = make_lake(tmp_path)
    path = Path(table.metadata_location)
    content = json.loads(path.read_text())
    del content["last-column-id"]
    path.write_text(json.dumps(content))
    error = error_of(icefloe("tree", "demo.events", "--warehouse", tmp_path, "--json").stderr)
    assert error["file"] == table.metadata_location
    assert "last-column-id" in f"{error['field']} {error['rule']}"
    assert error["problems"] == [{"field": error["field"], "rule": error["rule"]}]


def test_wrong_usage_with_json_is_json_with_exit_code_2(icefloe: Command) -> None:
    for words in (
        ("tree",),
        ("tree", "demo.events", "--nothing"),
        ("branch", "create", "demo.events"),
        ("expire", "a.b", "--retain-last", "x"),
    ):
        result = icefloe(*words, "--json")
        assert (result.exit_code, result.stdout) == (2, "")
        error = error_of(result.stderr)
        assert (error["code"], error["exit_code"]) == ("usage", 2)
        assert error["next_step"] == f"see icefloe {' '.join(words[: 2 if words[0] == 'branch' else 1])} --help"


def test_an_unknown_command_of_a_group_is_refused_with_the_commands_that_it_has(icefloe: Command) -> None:
    result = icefloe("show", "demo.events")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "No such command 'demo.events'. icefloe show has catalog, table, snapshots, " in " ".join(result.stderr.split())
    assert error_of(icefloe("branch", "nothing", "--json").stderr)["what"].startswith("No such command 'nothing'. icefloe branch has ")
    assert icefloe("branch", "creat").stderr.rstrip().endswith("Did you mean 'create'?")
    assert icefloe("nothing").stderr.rstrip().endswith("No such command 'nothing'.")


def test_an_interrupt_with_json_is_json_with_exit_code_130(icefloe: Command, monkeypatch: pytest.MonkeyPatch, warehouse: Path) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("icefloe.inspect.tree", interrupted)
    result = icefloe("tree", "demo.events", "--warehouse", warehouse, "--json")
    assert result.exit_code == 130
    assert error_of(result.stderr)["exit_code"] == 130
    assert icefloe("tree", "demo.events", "--warehouse", warehouse).stderr == "icefloe: interrupted\n"


@pytest.mark.parametrize(
    ("module", "options"),
    combinations(["typer", "icefloe.cli.command_group", "pyarrow", "icefloe.inspect", "sqlalchemy"], [(), ("--json",)]),
)
def test_an_interrupt_during_an_import_ends_with_exit_code_130_and_no_traceback(
    warehouse: Path, module: str, options: tuple[str, ...]
) -> None:
    words = ["icefloe", "tree", "demo.events", "--warehouse", str(warehouse), *options]
    script = (
        "import sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}:\n"
        "            sys.meta_path.remove(self)\n"
        "            raise KeyboardInterrupt\n"
        f"from icefloe.cli.main import main\nsys.meta_path.insert(0, Interrupt())\nsys.argv = {words!r}\nmain()"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert (run.returncode, run.stdout) == (130, "")
    if options:
        assert (error_of(run.stderr)["code"], error_of(run.stderr)["exit_code"]) == ("interrupted", 130)
    else:
        assert run.stderr == "icefloe: interrupted\n"


def test_an_interrupt_has_the_state_that_the_command_left(icefloe: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    Path("rows.csv").write_text("a,b\n1,2\n")
    monkeypatch.setattr("icefloe.loading.file_load.FileLoad.open", interrupted)
    words = ("load", "rows.csv", "--into", "n.t", "--warehouse", tmp_path / "lake")
    text = icefloe(*words)
    assert (text.exit_code, "icefloe: interrupted: n.t was not created" in text.stderr) == (130, True)
    error = json.loads(icefloe(*words, "--json").stderr.splitlines()[-1])["error"]
    assert (error["code"], error["what"]) == ("interrupted", "interrupted: n.t was not created")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_with_json_is_json(warehouse: Path) -> None:
    command = [str(Path(sys.executable).with_name("icefloe")), "tree", "demo.events", "--json", "--warehouse", str(warehouse)]
    with open("/dev/full", "w") as full:
        run = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    assert (run.returncode, error_of(run.stderr)["what"]) == (1, "standard output: No space left on device")


def test_an_error_as_json_keeps_every_problem_and_its_snapshot() -> None:
    problems = [Problem(where="$.a", what="is missing"), Problem(where="", what="is not JSON")]
    error = error_as_json(MetadataFormatError("it is damaged", path="s3://b/x.json", snapshot_id=7, problems=problems))["error"]
    assert (error["file"], error["snapshot_id"]) == ("s3://b/x.json", 7)
    assert (error["field"], error["rule"]) == ("$.a", "is missing")
    assert error["problems"] == [{"field": "$.a", "rule": "is missing"}, {"field": None, "rule": "is not JSON"}]
    assert error_as_json(CommitConflictError("other writers won"))["error"]["field"] is None


def test_control_characters_in_a_json_error_are_escaped(icefloe: Command, warehouse: Path) -> None:
    result = icefloe("tree", "demo.a\x1b[31mb", "--warehouse", warehouse, "--json")
    assert "\x1b" not in result.stderr
    assert result.exit_code == 1


def test_the_help_text_groups_the_commands_by_purpose(icefloe: Command) -> None:
    text = icefloe("--help").stdout
    places = [text.index(f"\n{name}:\n") for name in ("Look", "Change", "Maintain", "Files in", "Serve", "Set up")]
    assert places == sorted(places)
    assert "\nCommands:\n" not in text


def test_every_command_is_in_a_group_and_has_the_first_sentence_of_its_help_text() -> None:
    for command in lazy_commands():
        assert command.rich_help_panel in ("Look", "Change", "Maintain", "Files in", "Serve", "Set up"), command.name
        assert command.short_help == command.command.get_short_help_str(10_000), command.name
        assert command.name == command.command.name


def commands_of(commands: Iterable[Any], above: str = "icefloe") -> Iterator[str]:
    for listed in commands:
        command = listed.command if isinstance(listed, LazyCommand) else listed
        yield f"{above} {command.name}"
        yield from commands_of(getattr(command, "commands", {}).values(), f"{above} {command.name}")


def test_the_page_of_the_documentation_names_every_command() -> None:
    named = set(re.findall(r"`([a-z-]+)[^`]*`", PAGE)) | {
        word for words in re.findall(r"icefloe ([a-z -]+)", PAGE) for word in words.split()
    }
    top = {command.split()[1] for command in commands_of(lazy_commands())}
    assert top - named == set()


def test_every_command_that_the_comparison_names_exists() -> None:
    existing = set(commands_of(lazy_commands()))
    named = set(re.findall(r"`(icefloe (?!--)[a-z -]+?)`", PAGE[PAGE.index("## For users of the command lines") :]))
    assert len(named) > 25
    assert named - existing == set()


def test_the_log_is_shown_from_a_level_on(warehouse: Path) -> None:
    words = ["list", "--warehouse", str(warehouse)]
    script = (
        "import logging, sys\nfrom icefloe.cli.main import main\n"
        "for options in ([], ['--log-level', 'INFO']):\n"
        f"    sys.argv = ['icefloe', *options, *{words!r}]\n"
        "    try:\n        main()\n    except SystemExit:\n        pass\n"
        "    logging.getLogger('icefloe.table').info('a message of %s', options)"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert result.stdout.startswith("catalog lake")
    assert result.stdout.count("catalog lake") == 2
    assert "INFO icefloe.table: a message of ['--log-level', 'INFO']" in result.stderr
    assert "a message of []" not in result.stderr


def test_no_command_that_arrow_runs_loads_spark(warehouse: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    make_lake(lake)
    Path("a.csv").write_text("id\n1\n")
    commands = [
        # These do not load pandas either.
        (["head", "demo.events"], warehouse),
        (["sql", "SELECT id FROM demo.events LIMIT 3"], warehouse),
        (["tree", "demo.events"], warehouse),
        (["create", "demo.n", "--schema", "id long"], lake),
        (["describe", "demo.n"], lake),
        (["schema", "show", "demo.n"], lake),
        (["files", "demo.events"], lake),
        (["drop", "demo.n", "--yes"], lake),
        (["load", "a.csv", "--into", "n.t"], lake),
    ]
    script = (
        "import json, sys\nfrom typer.testing import CliRunner\nfrom icefloe.cli.application import app\n"
        f"for words in json.loads({json.dumps(json.dumps([[*words, '--warehouse', str(place)] for words, place in commands]))}):\n"
        "    result = CliRunner().invoke(app, words)\n"
        "    assert result.exit_code == 0, (words, result.output)\n"
        "    print(words[0], sorted({'pyspark', 'py4j', 'pandas'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    loaded = result.stdout.splitlines()
    assert loaded[:2] == ["head []", "sql []"], result.stderr
    assert len(loaded) == len(commands), result.stderr
    assert not [line for line in loaded if "py" in line.partition("[")[2]]


@pytest.mark.parametrize("width", repetitions([60, 80, 100, 200], 60, 200))
def test_no_help_text_is_cut(width: int) -> None:
    for command in ["icefloe", *commands_of(lazy_commands())]:
        result = CliRunner().invoke(app, [*command.split()[1:], "--help"], terminal_width=width)
        assert result.exit_code == 0
        assert max(map(len, result.stdout.splitlines())) <= width, command
        assert "…" not in result.stdout, command
        assert not re.search(r"[a-z]\.\.\.$", result.stdout, re.MULTILINE), command
        if command == "icefloe schema":
            assert "Change a column's type to a wider one" in " ".join(result.stdout.split())
