"""`icefloe completion`: the scripts in the shells that this machine has."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Command
from tests.inspect.example import make_lake

from icefloe.spec.types import LongType

SHELLS = Path(sys.executable).parent

# Each shell runs the script that the command prints, and then completes words, one line of candidates each.
BASH = """
eval "$(icefloe completion bash)"
complete_words() { COMP_WORDS=("$@"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _icefloe_completion icefloe; echo "${COMPREPLY[@]}"; }
complete_words icefloe sch
complete_words icefloe schema ''
complete_words icefloe tree --warehouse "$WAREHOUSE" demo.
complete_words icefloe completion ''
"""
ZSH = """
compdef() {}
_arguments() { print -r -- "$@" }
eval "$(icefloe completion zsh)"
complete_words() { words=("$@"); CURRENT=${#words}; _icefloe_completion }
complete_words icefloe sch
complete_words icefloe schema ''
complete_words icefloe tree --warehouse "$WAREHOUSE" demo.
complete_words icefloe completion ''
"""
FISH = """
icefloe completion fish | source
complete -C 'icefloe sch' | string join ' '
complete -C 'icefloe schema ' | string join ' '
complete -C "icefloe tree --warehouse $WAREHOUSE demo." | string join ' '
complete -C 'icefloe completion ' | string join ' '
"""


@pytest.mark.parametrize(("shell", "script"), [("bash", BASH), ("zsh", ZSH), ("fish", FISH)])
def test_a_shell_completes_commands_and_names_of_tables(shell: str, script: str, warehouse: Path, tmp_path: Path) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    without_startup_files = {"bash": ["--norc", "--noprofile"], "zsh": ["-f"], "fish": ["--no-config"]}[shell]
    environment = {**os.environ, "PATH": f"{SHELLS}{os.pathsep}{os.environ['PATH']}", "WAREHOUSE": str(warehouse), "HOME": str(tmp_path)}
    result = subprocess.run(
        [program, *without_startup_files, "-c", script], capture_output=True, text=True, check=False, timeout=120, env=environment
    )
    assert (result.returncode, result.stderr) == (0, ""), result.stderr
    commands, actions, tables, shells = result.stdout.splitlines()
    assert "schema" in commands
    assert "list" not in commands
    assert all(action in actions for action in ("show", "add", "rename", "widen", "drop"))
    assert "demo.events" in tables
    assert all(name in shells for name in ("bash", "zsh", "fish"))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_printed_unwrapped_and_names_the_program(icefloe: Command, terminal: Callable[[int], None], shell: str) -> None:
    terminal(40)
    result = icefloe("completion", shell)
    assert result.exit_code == 0
    assert "_ICEFLOE_COMPLETE=complete_" in result.stdout
    assert max(map(len, result.stdout.splitlines())) > 40


def test_an_unknown_shell_is_wrong_usage(icefloe: Command) -> None:
    assert icefloe("completion", "tcsh").exit_code == 2


@pytest.fixture
def completed(tmp_path: Path) -> Callable[..., list[str]]:
    """A function that returns the words with which bash would complete the last one, in a warehouse with a table of hostile names too."""
    _, table = make_lake(tmp_path)
    table.manage_snapshots().create_tag(table.snapshots()[0].snapshot_id, "v1").commit()
    table.manage_snapshots().create_tag(table.snapshots()[0].snapshot_id, "v$(touch pwned)").commit()
    table.update_schema().add_column("v `id`", LongType()).commit()

    def complete(*words: str) -> list[str]:
        line = ["icefloe", *(word.replace("LAKE", str(tmp_path)) for word in words)]
        environment = {**os.environ, "_ICEFLOE_COMPLETE": "complete_bash", "COMP_WORDS": "\n".join(line), "COMP_CWORD": str(len(line) - 1)}
        run = subprocess.run([str(SHELLS / "icefloe")], capture_output=True, text=True, check=False, timeout=120, env=environment)
        assert run.stderr == ""
        return run.stdout.split()

    return complete


@pytest.mark.slow
def test_branches_tags_and_columns_are_completed_without_names_that_a_shell_would_run(completed: Callable[..., list[str]]) -> None:
    lake = ("--warehouse", "LAKE")
    assert completed("rollback", *lake, "demo.events", "v") == ["v1"]
    assert completed("tree", *lake, "demo.events", "--snapshot", "m") == ["main"]
    assert completed("schema", "drop", *lake, "demo.events", "v") == ["value"]
    assert completed("schema", "drop", *lake, "demo.nothing", "v") == []
