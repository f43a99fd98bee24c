"""`icefloe load`: its options, what it prints, the engine that it chooses, and an interrupt. What is loaded is tested in `tests/loading`."""

import io
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from tests.cli.conftest import Command, Process

import icefloe.cli.load_command as command
from icefloe import SqlCatalog
from icefloe.cli import load_command
from icefloe.cli.load_command import LoadEngine, choose_engine
from icefloe.errors import NotInstalledError, StorageUnavailableError
from icefloe.loading import LoadProgress, LoadRequest
from icefloe.loading.bad_rows import BadRows
from icefloe.loading.file_load import FileLoad
from icefloe.loading.input_files import find_files
from icefloe.operations.available_engines import EngineChoice, choosing_engines
from icefloe.table.table import Table


@pytest.fixture
def load(icefloe: Command) -> Command:
    return lambda *words: icefloe("load", *words, "--into", "n.t", "--warehouse", "lake")


def table() -> Table:
    return SqlCatalog("default", uri=f"sqlite:///{Path('lake/catalog.db').absolute()}", warehouse="lake").load_table("n.t")


def write(name: str, text: str) -> str:
    Path(name).write_text(text)
    return name


def test_a_load_prints_what_it_did_and_how_to_open_the_table(load: Command) -> None:
    result = load(write("a.csv", "id,kind\n1,a\n2,b\n"), "--partition", "kind", "--property", "format-version=3")
    assert result.exit_code == 0, result.stderr
    assert "n.t: append by in-process: 2 rows inserted; 2 files added" in result.stdout
    assert "Arrow loads a.csv, 16 B" in result.stderr
    assert "--load-id" not in result.stderr
    assert "catalog.load_table('n.t')" in result.stderr
    assert (table().metadata.format_version, len(table().snapshots())) == (3, 1)


def test_a_long_load_prints_the_id_to_run_it_again_with(load: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_command, "_RESUMABLE_BYTES", 7)
    result = load(write("a.csv", "id\n1\n2\n"))
    load_id = table().metadata.snapshots[0].summary["icefloe.load-id"]
    assert f"--load-id {load_id}: that is refused where its rows are in the table" in result.stderr
    again = load("a.csv", "--load-id", load_id)
    assert (again.exit_code, f"the load '{load_id}' is in" in again.stderr) == (1, True)


def test_every_option_reaches_the_load(load: Command) -> None:
    load(write("a.csv", "id;v\n1;a\n2;b\n"), "--option", "sep=;")
    write("b.csv", "id;v;extra\n2;NA;1\n3;c;2\nx;d;3\n9;e;4\n")
    words = ("--option", "sep=;", "--option", "nullValue=NA", "--upsert", "id", "--add-columns", "--where", "id < 9")
    result = load("b.csv", *words, "--bad-rows", "quarantine", "--bad-rows-file", "bad.csv", "--json")
    assert result.exit_code == 0, result.stderr
    printed = json.loads(result.stdout)
    counts = {key: printed[key] for key in ("rows_updated", "rows_inserted", "filtered_rows", "bad_rows", "bad_rows_file")}
    assert counts == {"rows_updated": 1, "rows_inserted": 1, "filtered_rows": 1, "bad_rows": 1, "bad_rows_file": "bad.csv"}
    assert (printed["attempts"], len(table().metadata.metadata_log)) == (1, 1)
    assert printed["first_bad_rows"][0] == {"file": "b.csv", "line": 4, "column": "id", "reason": "is not a long", "text": "x;d;3"}
    assert table().scan().to_arrow().sort_by("id").to_pylist() == [
        {"id": 1, "v": "a", "extra": None},
        {"id": 2, "v": None, "extra": 1},
        {"id": 3, "v": "c", "extra": 2},
    ]


def test_bad_rows_are_reported(load: Command) -> None:
    write("a.csv", "id,v\n1,a\n2\nx,y,z\n")
    failed = load("a.csv")
    assert (failed.exit_code, failed.stdout) == (1, "")
    assert "2 of 3 rows of a.csv cannot be loaded" in failed.stderr
    assert "a.csv line 3: has 1 value, the header has 2: 2" in failed.stderr
    skipped = load("a.csv", "--bad-rows", "skip")
    assert "n.t: 2 bad rows skipped, the first: a.csv line 3" in skipped.stdout
    assert f"2 bad rows written to {Path('_a.csv.bad-rows').absolute()}" in load("a.csv", "--bad-rows", "quarantine").stdout


def test_nanoseconds_are_cut_with_the_option_that_the_error_names(load: Command) -> None:
    pq.write_table(pa.table({"t": pa.array([1001], pa.timestamp("ns"))}), "a.parquet")
    assert "--cast-nanos" in load("a.parquet").stderr
    assert load("a.parquet", "--cast-nanos").exit_code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--option", "header=false"], "--option header cannot be set"),
        (["--option", "nulValue=NA"], "did you mean nullValue?"),
        (["--option", "sep"], "KEY=VALUE"),
        (["--option", "sep=;", "--option", "sep=,"], "--option sep is given twice"),
        (["--property", "x"], "--property 'x' has no value"),
        (["--upsert", "id,"], "names no column"),
        (["--upsert", "id", "--overwrite"], "contradict"),
        (["--where", "nothing = 1"], "nothing"),
        (["--schema", "id bogus"], "there is no type 'bogus'"),
        (["--engine", "spark", "--bad-rows", "skip"], "Spark does not load with --bad-rows skip"),
        (["--engine", "spark", "--where", "id = 1"], "Spark does not load with --where"),
    ],
)
def test_a_wrong_option_is_refused_by_name_and_nothing_is_created(load: Command, words: list[str], message: str) -> None:
    result = load(write("a.csv", "id\n1\n"), *words)
    assert (result.exit_code, result.stdout) == (1, "")
    assert message in " ".join(result.stderr.split())
    assert not Path("lake/n").exists()


@pytest.mark.parametrize("into", ["rows", "n.", "n/x.t", "n.t\n"])
def test_an_invalid_table_name_is_refused_before_anything_is_created(icefloe: Command, into: str) -> None:
    write("a.csv", "id\n1\n")
    assert icefloe("load", "a.csv", "--into", into, "--warehouse", "lake").exit_code == 1
    assert not Path("lake").exists()


def test_a_missing_file_creates_no_catalog(load: Command) -> None:
    assert "nothing.csv" in load("nothing.csv").stderr
    assert not Path("lake").exists()


def test_a_warehouse_that_cannot_be_created_is_refused(icefloe: Command) -> None:
    write("file", "not a folder")
    result = icefloe("load", write("a.csv", "id\n1\n"), "--into", "n.t", "--warehouse", "file/lake")
    assert result.exit_code == 1
    assert "cannot create the folder" in result.stderr


def test_control_characters_of_a_file_do_not_reach_the_terminal(load: Command) -> None:
    result = load(write("a.csv", "id,\x1b[31mv\n1,2\n\x1b]0;x\x07\n"))
    assert result.exit_code == 1
    assert "\x1b" not in result.stderr
    assert "\x07" not in result.stderr


# ---- the engine ----


def test_spark_is_chosen_for_large_files_that_it_can_load(monkeypatch: pytest.MonkeyPatch) -> None:
    write("a.csv", "id\n1\n")
    write("a.csv.zst", "id\n1\n")
    files, packed, plain = find_files(["a.csv"], None), find_files(["a.csv.zst"], None), LoadRequest()
    assert choose_engine(LoadEngine.AUTO, files, plain)[0] is LoadEngine.ARROW
    assert choose_engine(LoadEngine.SPARK, files, plain) == (LoadEngine.SPARK, " (--engine)")
    with choosing_engines(EngineChoice(bytes_to_start=1)):
        monkeypatch.setattr(command, "find_spec", lambda name: object())
        assert choose_engine(LoadEngine.AUTO, files, plain) == (LoadEngine.SPARK, " (1 B or more; --engine arrow chooses Arrow)")
        assert choose_engine(LoadEngine.ARROW, files, plain)[0] is LoadEngine.ARROW
        for other in (LoadRequest(bad_rows=BadRows.SKIP), LoadRequest(where="id = 1"), LoadRequest(cast_nanos=True)):
            assert choose_engine(LoadEngine.AUTO, files, other)[0] is LoadEngine.ARROW
        assert choose_engine(LoadEngine.AUTO, packed, plain) == (LoadEngine.ARROW, " (Spark does not load .zst files)")
        monkeypatch.setattr(command, "find_spec", lambda name: None)
        assert choose_engine(LoadEngine.AUTO, files, plain) == (LoadEngine.ARROW, " (Spark is not installed)")
        with pytest.raises(NotInstalledError, match=r"icefloe\[spark\]"):
            choose_engine(LoadEngine.SPARK, files, plain)


@pytest.mark.parametrize("content", ['[{"id": 1},\n{"id": 2}]', '{\n"id": 1\n}\n{\n"id": 2}'])
def test_large_files_that_spark_would_not_read_whole_are_loaded_by_arrow(
    load: Command, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    with choosing_engines(EngineChoice(bytes_to_start=1)):
        monkeypatch.setattr(command, "find_spec", lambda name: object())
        result = load(write("a.json", content))
        assert result.exit_code == 0, result.stderr
        assert "Arrow loads them, because Spark does not load JSON with an object over several lines" in " ".join(result.stderr.split())
        assert table().scan().to_arrow()["id"].to_pylist() == [1, 2]
        assert "omit --engine spark" in load("a.json", "--engine", "spark").stderr


@pytest.mark.parametrize(
    ("exists", "is_reachable", "state"),
    [
        (False, True, "interrupted: n.t was not created"),
        (True, True, "interrupted: no snapshot was made, n.t is unchanged"),
        (False, False, "the commit may have happened already"),
        (True, False, "the commit may have happened already"),
    ],
)
def test_an_interrupt_is_reported_with_the_state_of_the_table(
    load: Command, monkeypatch: pytest.MonkeyPatch, exists: bool, is_reachable: bool, state: str
) -> None:
    def unreachable(self: FileLoad) -> None:
        raise StorageUnavailableError("the catalog is down")

    def interrupted(self: FileLoad, progress: object) -> None:
        if not is_reachable:
            monkeypatch.setattr(FileLoad, "_table_if_exists", unreachable)
        raise KeyboardInterrupt

    file = write("a.csv", "id\n1\n")
    if exists:
        assert load(file).exit_code == 0
    monkeypatch.setattr(FileLoad, "open", interrupted)
    result = load(file)
    assert (result.exit_code, state in result.stderr) == (130, True)


# ---- in a process of its own ----


def _in_terminal(words: list[str], until: str | None = None, columns: int = 80) -> tuple[int, str]:
    """Run the command in a terminal; press Ctrl-C once it has printed `until`."""
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": str(columns)}
    script = Path(sys.executable).with_name("icefloe")
    with subprocess.Popen(
        [script, *words], stdin=follower, stdout=follower, stderr=follower, env=environment, start_new_session=True
    ) as running:
        os.close(follower)
        printed, end = b"", time.monotonic() + 60
        while time.monotonic() < end:
            if select.select([leader], [], [], 0.1)[0]:
                try:
                    block = os.read(leader, 65536)
                except OSError:
                    break
                printed += block
            if until is not None and until.encode() in printed:
                os.killpg(running.pid, signal.SIGINT)
                until = None
        os.close(leader)
    return running.returncode, printed.decode()


def _large_file(rows: int) -> None:
    with open("big.jsonl", "w", encoding="utf-8") as file:
        file.writelines(f'{{"id": {number}, "kind": "k{number % 7}", "value": {number / 7}}}\n' for number in range(rows))


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_a_terminal_shows_rows_bytes_and_the_time_left(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr("icefloe.cli.screen.console", lambda **options: Console(file=screen, force_terminal=True, width=width))
    monkeypatch.setattr("icefloe.display.progress.UPDATE_S", 0.01)
    with load_command._load_step("Reading the columns") as progress:
        for done in (1, 40, 80):
            progress(LoadProgress(step="rows", rows=done * 12_345_678, done_bytes=done << 20, all_bytes=160 << 20))
            time.sleep(0.15)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue())
    assert re.search(r"Reading the columns .* 987,654,240 rows 80\.0/160\.0 MiB \d:\d\d:\d\d", plain), plain
    assert re.search(r"✓ Reading the columns  \d\.\d s", plain)
    assert all(len(line) <= width for line in plain.splitlines())


def test_a_load_in_a_terminal_shows_its_steps() -> None:
    write("a.csv", "id\n1\n")
    code, printed = _in_terminal(["load", "a.csv", "--into", "n.t", "--warehouse", "lake"])
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", printed)
    assert code == 0, plain
    assert "✓ Reading the columns" in plain
    assert "✓ Loading the rows" in plain


def test_a_pipe_gets_no_progress(process: Process) -> None:
    write("a.csv", "id\n1\n")
    done = process("load", "a.csv", "--into", "n.t", "--warehouse", "lake")
    assert done.returncode == 0
    assert len(done.stderr.splitlines()) == 3
    assert "\x1b" not in done.stderr + done.stdout
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("step", ["Reading the columns", "Loading the rows"])
def test_ctrl_c_leaves_nothing_half_written(step: str) -> None:
    _large_file(700_000)
    code, printed = _in_terminal(["load", "big.jsonl", "--into", "n.t", "--warehouse", "lake", "--bad-rows", "quarantine"], until=step)
    assert code == 130, printed
    assert "interrupted: n.t was not created" in " ".join(printed.split())
    assert "Traceback" not in printed
    assert [path.name for path in Path("lake").rglob("*")] == ["catalog.db"]
    assert sorted(os.listdir()) == ["big.jsonl", "lake"]


@pytest.mark.slow
def test_memory_does_not_grow_with_the_size_of_the_files() -> None:
    """The most memory of a load of 120 MB is little above that of a load of 12 MB."""
    peaks = []
    for name, rows in (("small.csv", 200_000), ("large.csv", 2_000_000)):
        with open(name, "w", encoding="utf-8") as file:
            file.write("id,kind,value,text\n")
            file.writelines(f"{number},k{number % 7},{number / 7},some text of the row {number}\n" for number in range(rows))
        script = (
            "import resource; from icefloe.cli.application import app\n"
            f"try: app(['load', '{name}', '--into', 'n.{name[0]}', '--warehouse', 'lake', '--property', 'write.parquet.row-group-size-bytes=8388608'])\n"
            "except SystemExit as end: assert not end.code\n"
            "print('peak', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        peaks.append(int(done.stdout.rsplit("peak", 1)[1]))
    assert peaks[1] < peaks[0] + 250_000, peaks


@pytest.mark.parametrize(("is_installed", "begin"), [(True, "In SQL:    icefloe"), (False, "In SQL (needs icefloe[spark]): icefloe")])
def test_the_line_for_sql_names_the_package_that_it_needs(
    icefloe: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_installed: bool, begin: str
) -> None:
    monkeypatch.setattr(command, "find_spec", lambda name: object() if is_installed else None)
    (tmp_path / "a.csv").write_text("id\n1\n")
    result = icefloe("load", tmp_path / "a.csv", "--into", "a.t", "--warehouse", tmp_path / "lake")
    assert begin in result.stderr
