"""What the commands print in terminals of several widths, in a pipe, and where their output cannot be written."""

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Command
from tests.cli.test_show_commands import LOOKS
from tests.combinations import repetitions
from tests.inspect.example import make_lake

Terminal = Callable[[int], None]
EXECUTABLE = str(Path(sys.executable).with_name("icefloe"))
# A word of more characters, such as a path or a checksum, may continue in the next line.
LONGEST_WORD = 20


@pytest.mark.parametrize("words", LOOKS, ids=" ".join)
def test_no_id_number_size_or_name_is_cut_at_any_width_and_a_pipe_gets_every_column(
    icefloe: Command, warehouse: Path, terminal: Terminal, words: tuple[str, ...]
) -> None:
    piped = icefloe(*words, "--warehouse", warehouse).stdout
    assert "not shown at this width" not in piped
    terminal(1000)
    complete = {*piped.split(), *icefloe(*words, "--warehouse", warehouse).stdout.split()}  # with the numbers of lines that are left out
    long_words = [word for word in complete if len(word) > LONGEST_WORD]
    for width in (60, 80, 100, 200):
        terminal(width)
        printed = icefloe(*words, "--warehouse", warehouse).stdout
        assert max(map(len, printed.splitlines())) <= width, width
        for word in printed.split():
            if any(character.isdigit() for character in word) and word not in complete:
                assert any(word in long_word for long_word in long_words), f"{word} is a part of a number, an id or a name at {width}"


@pytest.mark.parametrize(
    "words",
    [("tree",), ("show", "manifest-list"), ("show", "manifest"), ("show", "snapshots"), ("trace",)],
    ids=" ".join,
)
@pytest.mark.parametrize("width", [60, 80, 100, None])
def test_a_printed_file_name_is_whole(
    icefloe: Command, warehouse: Path, terminal: Terminal, words: tuple[str, ...], width: int | None
) -> None:
    if width is not None:
        terminal(width)
    printed = icefloe(*words, "demo.events", "--warehouse", warehouse).stdout
    assert re.search(r"[0-9a-f]{8}…", printed) is None
    names = {path.name for path in (warehouse / "demo" / "events").rglob("*") if path.suffix in (".avro", ".json", ".parquet")}
    assert any(name in re.sub(r"[\s│├└─]", "", printed) for name in names)
    if width is None or (width > 60 and words[0] == "show"):
        assert any(name in printed for name in names), "no line break is within a name"


def test_a_printed_manifest_is_found_by_its_printed_name(icefloe: Command, warehouse: Path, terminal: Terminal) -> None:
    terminal(80)
    printed = icefloe("show", "manifest-list", "demo.events", "--warehouse", warehouse).stdout
    name = re.findall(r"metadata/\S+-m\d+\.avro", printed)[-1]
    shown = icefloe("show", "manifest", "demo.events", name, "--warehouse", warehouse)
    assert shown.exit_code == 0, shown.stderr


def test_a_pipe_gets_every_line_of_a_long_list_and_a_terminal_the_first(icefloe: Command, tmp_path: Path, terminal: Terminal) -> None:
    where = ("--warehouse", tmp_path / "lake")
    for number in range(25):
        assert icefloe("create", f"a.t{number}", "--schema", "id long", *where).exit_code == 0
    query = ("sql", "SELECT * FROM a.t0.metadata_log_entries", *where)
    for number in range(25):
        assert icefloe("properties", "set", "a.t0", f"k{number}=v", *where).exit_code == 0
    piped = icefloe("list", *where).stdout
    assert all(f"a.t{number}" in piped.split() for number in range(25))
    assert "more" not in piped
    assert icefloe(*query).stdout.count(".metadata.json") == 26
    terminal(200)
    assert "… and 5 more" in icefloe("list", *where).stdout
    assert "the first 20 rows; --all shows every row" in icefloe(*query).stdout


def test_columns_is_ignored_where_the_output_is_a_pipe(icefloe: Command, warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    look = ("show", "snapshots", "demo.events", "--warehouse", warehouse)
    wide = icefloe(*look).stdout
    monkeypatch.setenv("COLUMNS", "60")
    assert icefloe(*look).stdout == wide
    missing = "/" + "long/" * 60 + "x.metadata.json"
    assert missing in icefloe("tree", missing).stderr


def test_a_path_in_an_error_is_in_one_line_of_a_terminal(icefloe: Command, terminal: Terminal) -> None:
    terminal(60)
    missing = "/" + "long/" * 40 + "x.metadata.json"
    assert missing in icefloe("tree", missing).stderr


@pytest.mark.parametrize("width", [60, None])
def test_a_dropped_table_is_restored_by_the_printed_line(icefloe: Command, tmp_path: Path, terminal: Terminal, width: int | None) -> None:
    where = ("--warehouse", tmp_path / "a lake" / ("long" * 20))
    assert icefloe("create", "a.t", "--schema", "id long", *where).exit_code == 0
    if width is not None:
        terminal(width)
    printed = icefloe("drop", "a.t", "--yes", *where).stdout
    line = next(line for line in printed.splitlines() if "icefloe register" in line)
    program, *words = shlex.split(line.partition("restored by: ")[2])
    assert program == "icefloe"
    result = icefloe(*words)
    assert result.exit_code == 0, result.stderr
    assert icefloe("describe", "a.t", *where).exit_code == 0


def test_a_dry_run_at_80_columns_is_a_grid(icefloe: Command, tmp_path: Path, terminal: Terminal) -> None:
    make_lake(tmp_path)
    terminal(80)
    printed = icefloe("expire", "demo.events", "--older-than", "0s", "--retain-last", 1, "--dry-run", "--warehouse", tmp_path).stdout
    assert re.search(r"^kind +path +size *$", printed, re.MULTILINE), printed
    assert len(printed.splitlines()) < 40, "two lines for a path wider than the terminal"


def test_columns_of_one_value_give_way_first(icefloe: Command, warehouse: Path, terminal: Terminal) -> None:
    terminal(80)
    printed = icefloe("sql", "SELECT * FROM demo.events.files", "--warehouse", warehouse).stdout
    header, _, _ = printed.partition("not shown at this width")
    assert "spec_id" not in header
    assert "record_count" in header


def test_columns_that_give_way_are_named(icefloe: Command, warehouse: Path, terminal: Terminal) -> None:
    terminal(60)
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


@pytest.mark.parametrize(
    "words",
    [pytest.param(("show", "metadata", "demo.events"), marks=pytest.mark.slow), ("tree", "demo.events"), ("--help",)],
    ids=" ".join,
)
def test_a_closed_pipe_ends_a_command_without_a_word(warehouse: Path, words: tuple[str, ...]) -> None:
    place = () if words == ("--help",) else ("--warehouse", str(warehouse))
    with subprocess.Popen([EXECUTABLE, *words, *place], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        run.stdout.close()
        assert run.stderr.read() == ""
        assert run.wait(60) in (0, 1)  # 0 if all of it had been written before the pipe was closed


@pytest.mark.parametrize("width", repetitions([60, 80, 100, 200], 60, 200))
def test_commands_that_change_print_within_the_width_and_cut_no_id(
    icefloe: Command, tmp_path: Path, terminal: Terminal, width: int
) -> None:
    terminal(width)
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
        ("rewrite-data-files", "a.u"),
        ("convert-equality-deletes", "a.u"),
        ("rewrite-position-delete-files", "a.u"),
        ("remove-dangling-deletes", "a.u"),
        ("remove-orphan-files", "a.u"),
        ("rewrite-manifests", "a.u"),
        ("compute-table-stats", "a.u"),
        ("compute-partition-stats", "a.u"),
        ("describe", "a.u"),
        ("drop", "a.u", "--purge", "--yes"),
        ("drop", "a", "--yes"),
    ):
        result = icefloe(*words, "--warehouse", warehouse)
        assert result.exit_code == 0, (words, result.stderr)
        assert max(map(len, result.stdout.splitlines())) <= width, words
        if words[0] in ("create", "describe", "rename"):
            assert re.search(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12} *\n", result.stdout), "the uuid of the table is whole"
