"""What the commands print in terminals of several widths, in a pipe, and where their output cannot be written."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Command
from tests.cli.test_show_commands import LOOKS

EXECUTABLE = str(Path(sys.executable).with_name("icefloe"))
# A word of more characters, such as a path or a checksum, may continue in the next line.
LONGEST_WORD = 20


@pytest.mark.parametrize("width", [60, 80, 100, 200])
@pytest.mark.parametrize("words", LOOKS, ids=" ".join)
def test_no_id_number_size_or_name_is_cut_at_any_width(
    icefloe: Command, warehouse: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], width: int
) -> None:
    complete = set(icefloe(*words, "--warehouse", warehouse).stdout.split())
    monkeypatch.setenv("COLUMNS", str(width))
    printed = icefloe(*words, "--warehouse", warehouse).stdout
    assert max(map(len, printed.splitlines())) <= width
    long_words = [word for word in complete if len(word) > LONGEST_WORD]
    for word in printed.split():
        if any(character.isdigit() for character in word) and word not in complete:
            assert any(word in long_word for long_word in long_words), f"{word} is a part of a number, an id or a name"


@pytest.mark.parametrize("words", LOOKS, ids=" ".join)
def test_a_pipe_gets_every_column_with_a_row_in_one_line(icefloe: Command, warehouse: Path, words: tuple[str, ...]) -> None:
    assert "not shown at this width" not in icefloe(*words, "--warehouse", warehouse).stdout


def test_columns_that_give_way_are_named(icefloe: Command, warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    printed = icefloe("show", "snapshots", "demo.events", "--warehouse", warehouse).stdout
    assert "not shown at this width: seq, made" in printed
    assert "--json shows them" in printed


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_ends_a_command_with_one_line_and_an_exit_code(warehouse: Path) -> None:
    with open("/dev/full", "w") as full:
        run = subprocess.run(
            [EXECUTABLE, "show", "metadata", "demo.events", "--warehouse", str(warehouse)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert run.returncode == 1
    assert run.stderr == "icefloe: standard output: No space left on device\n"


@pytest.mark.parametrize("words", [("show", "metadata", "demo.events"), ("tree", "demo.events"), ("--help",)], ids=" ".join)
def test_a_closed_pipe_ends_a_command_without_a_word(warehouse: Path, words: tuple[str, ...]) -> None:
    place = () if words == ("--help",) else ("--warehouse", str(warehouse))
    with subprocess.Popen([EXECUTABLE, *words, *place], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        run.stdout.close()
        assert run.stderr.read() == ""
        assert run.wait(60) in (0, 1)  # 0 if all of it had been written before the pipe was closed


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_commands_that_change_print_within_the_width_and_cut_no_id(
    icefloe: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    warehouse = tmp_path / "lake"
    for words in (
        ("namespace", "create", "a", "--property", "owner=somebody.with.a.long.name@example.org"),
        ("create", "a.t", "--schema", "id long not null comment 'the number of the order', note string", "--partition", "bucket(4, id)"),
        ("schema", "add", "a.t", "a_rather_long_name_of_a_column struct<first: double, second: list<string>>"),
        ("schema", "rename", "a.t", "note", "remark"),
        ("spec", "add", "a.t", "truncate(8, remark) as beginning"),
        ("sort", "a.t", "remark desc nulls last"),
        ("properties", "a.t", "set", "write.parquet.compression-codec=zstd"),
        ("upgrade", "a.t", "3"),
        ("rename", "a.t", "a.u"),
        ("rewrite-manifests", "a.u"),
        ("describe", "a.u"),
        ("drop", "a.u", "--purge", "--yes"),
        ("drop", "a", "--yes"),
    ):
        result = icefloe(*words, "--warehouse", warehouse)
        assert result.exit_code == 0, (words, result.stderr)
        assert max(map(len, result.stdout.splitlines())) <= width, words
        if words[0] in ("create", "describe", "rename"):
            assert re.search(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\n", result.stdout), "the uuid of the table is whole"
