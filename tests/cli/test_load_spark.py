"""Loads of real files by Spark: each format, the inferred types, and the message for each fault of a file."""

import datetime as dt
import gzip
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.conftest import Command

from icefloe import SqlCatalog
from icefloe.table import Table

pytestmark = pytest.mark.spark

JSON_LINES = [{"id": number, "at": f"2024-0{number % 3 + 1}-05T10:00:00Z", "clock": "12:30", "year": "2024"} for number in range(9)]


@pytest.fixture
def load(icefloe: Command) -> Command:
    return lambda *words: icefloe("load", *words, "--warehouse", "lake")


@pytest.fixture
def refused(load: Command) -> Callable[..., str]:
    """Run a load that must be refused, and return its message in one line. It must create no table."""

    def run(*words: str) -> str:
        result = load(*words, "--into", "n.refused")
        assert (result.exit_code, result.stdout) == (1, "")
        assert "Traceback" not in result.stderr
        assert not Path("lake/n/refused").exists()
        return " ".join(result.stderr.split())

    return run


def table(name: str) -> Table:
    return SqlCatalog("default", uri=f"sqlite:///{Path('lake/catalog.db').absolute()}", warehouse="lake").load_table(name)


def types_of(found: Table) -> dict[str, str]:
    return {field.name: str(field.field_type) for field in found.schema().fields}


def write_json(path: str, rows: list[dict[str, Any]]) -> str:
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_only_complete_timestamps_in_json_lines_become_timestamp_columns(load: Command) -> None:
    result = load(write_json("a.jsonl", JSON_LINES), "--into", "n.t", "--partition", "month(at)", "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["added_records"] == 9
    found = table("n.t")
    assert types_of(found) == {"at": "timestamptz", "clock": "string", "id": "long", "year": "string"}
    assert len(list(found.scan().plan_files())) == 3
    assert found.scan("id = 4").to_arrow()["at"].to_pylist() == [dt.datetime(2024, 2, 5, 10, tzinfo=dt.UTC)]


def test_a_later_file_is_read_with_the_table_s_types(load: Command) -> None:
    load(write_json("a.jsonl", [{"id": 1, "value": 1.5, "name": "x"}]), "--into", "n.t")
    result = load(write_json("b.jsonl", [{"id": 2, "value": 3}]), "--into", "n.t")
    assert result.exit_code == 0, result.stderr
    rows = table("n.t").scan().to_arrow().sort_by("id").to_pylist()
    assert rows == [{"id": 1, "value": 1.5, "name": "x"}, {"id": 2, "value": 3.0, "name": None}]


def test_csv_is_loaded_with_options_of_the_reader(load: Command) -> None:
    Path("a.csv").write_text("id;at;clock;value\n1;2024-01-05 10:00:00;12:30;1.5\n2;2024-01-06T10:00:00Z;13:30;NA\n")
    result = load("a.csv", "--into", "n.t", "--option", "sep=;", "--option", "nullValue=NA")
    assert result.exit_code == 0, result.stderr
    assert types_of(table("n.t")) == {"id": "int", "at": "timestamptz", "clock": "string", "value": "double"}
    assert table("n.t").scan("id = 2").to_arrow()["value"].to_pylist() == [None]


def test_csv_columns_in_another_order_are_matched_by_name(load: Command) -> None:
    Path("a.csv").write_text("id,name\n1,a\n")
    Path("b.csv").write_text("name,id\nb,2\n")
    assert load("a.csv", "--into", "n.t").exit_code == 0
    assert load("b.csv", "--into", "n.t").exit_code == 0
    assert table("n.t").scan().to_arrow().sort_by("id").to_pylist() == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]


def test_stated_columns_have_their_order_and_types(load: Command) -> None:
    Path("a.csv").write_text("name,id,more\na,1,x\n")
    result = load("a.csv", "--into", "n.t", "--schema", "id bigint, name string")
    assert result.exit_code == 0, result.stderr
    assert types_of(table("n.t")) == {"id": "long", "name": "string"}
    assert table("n.t").scan().to_arrow().to_pylist() == [{"id": 1, "name": "a"}]


def test_a_parquet_file_with_glob_characters_in_its_name_is_loaded(load: Command) -> None:
    rows = pa.table({"id": [1, 2], "day": [dt.date(2024, 1, 1)] * 2, "tags": [["a"], None]})
    pq.write_table(rows, "p [1]{x}*.parquet")
    result = load("p [1]{x}*.parquet", "--into", "n.t", "--partition", "bucket(4, id)")
    assert result.exit_code == 0, result.stderr
    assert table("n.t").scan().to_arrow().sort_by("id").to_pylist() == rows.to_pylist()


def test_unusual_column_names_are_kept(load: Command) -> None:
    Path("a.csv").write_text("a,b c,a.b,`d`\n1,2,3,4\n")
    result = load("a.csv", "--into", "n.t", "--partition", "a.b")
    assert result.exit_code == 0, result.stderr
    assert table("n.t").scan().to_arrow().to_pylist() == [{"a": 1, "b c": 2, "a.b": 3, "`d`": 4}]
    assert table("n.t").scan().to_spark().collect()[0].asDict() == {"a": 1, "b c": 2, "a.b": 3, "`d`": 4}


def test_a_folder_of_compressed_files_is_loaded(load: Command) -> None:
    Path("in").mkdir()
    for number in range(3):
        Path(f"in/{number}.json.gz").write_bytes(gzip.compress(json.dumps({"id": number}).encode()))
    assert load("in", "--into", "n.t").exit_code == 0
    assert sorted(table("n.t").scan().to_arrow()["id"].to_pylist()) == [0, 1, 2]


def test_the_error_names_an_invalid_json_line(refused: Callable[..., str]) -> None:
    Path("a.json").write_text('{"a": 1}\n{"a": \n')
    assert "a.json line 2: Expecting value" in refused("a.json")
    assert "a.json line 2: Expecting value" in refused("a.json", "--schema", "a bigint")


def test_a_value_that_does_not_fit_its_column_is_refused(refused: Callable[..., str]) -> None:
    write_json("a.json", [{"a": 1}, {"a": "x"}])
    assert "a row does not match its columns" in refused("a.json", "--schema", "a bigint")


def test_the_error_names_a_csv_line_of_another_length(refused: Callable[..., str]) -> None:
    Path("a.csv").write_text("a,b\n1,2\n3\n")
    assert "a.csv line 3: has 1 value, the header has 2" in refused("a.csv")


def test_files_without_rows_are_refused(refused: Callable[..., str]) -> None:
    Path("head.csv").write_text("a,b\n")
    Path("blank.json").write_text("\n\n")
    pq.write_table(pa.table({"a": pa.array([], pa.int32())}), "empty.parquet")
    assert "there are no rows" in refused("head.csv")
    assert "have no columns" in refused("blank.json")
    assert "there are no rows" in refused("empty.parquet")


def test_a_file_with_the_wrong_ending_is_refused(refused: Callable[..., str]) -> None:
    Path("a.parquet").write_text("no parquet at all")
    said = refused("a.parquet")
    assert "a.parquet" in said
    assert "not a whole Parquet file" in said


def test_nanoseconds_are_refused_with_a_next_step(refused: Callable[..., str]) -> None:
    pq.write_table(pa.table({"t": pa.array([0], pa.timestamp("ns"))}), "a.parquet")
    assert "microseconds" in refused("a.parquet")


def test_a_schema_that_is_invalid_or_does_not_fit_is_refused(refused: Callable[..., str]) -> None:
    Path("a.csv").write_text("a,b\n1,2\n")
    assert "is not valid" in refused("a.csv", "--schema", "a bogus")
    assert "no column 'c'" in refused("a.csv", "--schema", "a int, c int")


def test_the_error_for_rows_that_do_not_fit_the_table_names_the_column(load: Command) -> None:
    pq.write_table(pa.table({"id": [1]}), "a.parquet")
    pq.write_table(pa.table({"id": ["text"], "extra": [1]}), "b.parquet")
    assert load("a.parquet", "--into", "n.t").exit_code == 0
    result = load("b.parquet", "--into", "n.t")
    assert result.exit_code == 1
    assert "id" in result.stderr
    assert "extra" in result.stderr
    assert table("n.t").scan().to_arrow().num_rows == 1


@pytest.mark.slow
@pytest.mark.parametrize("after", ["Starting Spark", "Looking at", "Loading into"])
def test_an_interrupted_load_ends_with_130_and_leaves_nothing(tmp_path: Path, after: str) -> None:
    with open(tmp_path / "big.jsonl", "w", encoding="utf-8") as file:
        file.writelines(f'{{"id": {number}, "kind": "k{number % 7}", "value": {number / 7}}}\n' for number in range(1_500_000))
    command = [Path(sys.executable).with_name("icefloe"), "load", "big.jsonl", "--into", "n.t", "--warehouse", "lake"]
    running = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    assert running.stderr is not None
    said = b""
    while after.encode() not in said:
        said += running.stderr.read(1)
    os.killpg(running.pid, signal.SIGINT)  # to the whole process group, as a terminal does
    out, rest = running.communicate(timeout=120)
    assert (running.returncode, out) == (130, b"")
    assert "no snapshot was made, n.t is as it was before" in rest.decode()
    assert "Traceback" not in rest.decode()
    assert [path.name for path in (tmp_path / "lake").rglob("*") if path.is_file()] == ["catalog.db"]
