"""Loads by Spark: the same rows and types as by Arrow, and bad rows counted as there."""

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
from pyspark.sql import SparkSession
from tests.cli.conftest import Command
from tests.spark_session import ROOT

from icefloe import SqlCatalog
from icefloe.table import Table

# The commands use the session of the tests: one that they start would be in the folder of a test, where workers find no module of the tests.
pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

CSV = (
    'id,name,at,point,price,code\r\n1,"a ""b"", c",2024-01-05 10:00:00,2024-01-05T10:00:00Z,1.5,007\r\n'
    '2,"two\nlines",2024-01-06T10:00:00.123456,2024-01-06T10:00:00+02:00,NA,1\r\n3,,NA,2024-01-07T10:00:00,2,2\r\n'
)
JSON_LINES = [
    {"id": number, "at": f"2024-0{number % 3 + 1}-05T10:00:00Z", "clock": "12:30", "o": {"a": [number]}, "mixed": [1, "x"][number % 2]}
    for number in range(9)
]


@pytest.fixture
def load(icefloe: Command) -> Command:
    return lambda *words: icefloe("load", *words, "--warehouse", "lake")


@pytest.fixture
def refused(load: Command) -> Callable[..., str]:
    """Run a load that must be refused, and return its message in one line. It must create no table."""

    def run(*words: str) -> str:
        result = load(*words, "--engine", "spark", "--into", "n.refused")
        assert (result.exit_code, result.stdout) == (1, "")
        assert "Traceback" not in result.stderr
        assert not Path("lake/n/refused").exists()
        return " ".join(result.stderr.split())

    return run


def table(name: str) -> Table:
    return SqlCatalog("default", uri=f"sqlite:///{Path('lake/catalog.db').absolute()}", warehouse="lake").load_table(name)


def loaded_by_both(load: Command, *words: str) -> Table:
    """Load by both engines, check that types and rows are equal, and return the table that Spark wrote."""
    for engine in ("spark", "arrow"):
        result = load(*words, "--engine", engine, "--into", f"n.{engine}", "--json")
        assert result.exit_code == 0, result.stderr
        assert json.loads(result.stdout)["engine"] == {"spark": "spark", "arrow": "in-process"}[engine]
    by_spark, by_arrow = table("n.spark"), table("n.arrow")
    assert by_spark.schema() == by_arrow.schema()
    assert by_spark.scan().to_arrow().sort_by("id").to_pylist() == by_arrow.scan().to_arrow().sort_by("id").to_pylist()
    assert len(by_spark.snapshots()) == 1
    return by_spark


@pytest.mark.slow
def test_a_load_leaves_the_session_of_the_tests_running(load: Command, spark: SparkSession) -> None:
    Path("a.csv").write_text("id\n1\n")
    assert load("a.csv", "--engine", "spark", "--into", "n.t").exit_code == 0
    assert spark.range(3).rdd.map(lambda _: os.getcwd()).distinct().collect() == [str(ROOT)]


def test_csv_is_loaded_equally(load: Command) -> None:
    Path("a.csv").write_bytes(CSV.encode())
    loaded = loaded_by_both(load, "a.csv", "--option", "nullValue=NA")
    assert {field.name: str(field.field_type) for field in loaded.schema().fields} == {
        "id": "long",
        "name": "string",
        "at": "timestamp",
        "point": "timestamptz",
        "price": "double",
        "code": "string",
    }


def test_declared_columns_of_csv_are_loaded_equally(load: Command) -> None:
    Path("a.csv").write_text("name,id,more\na,1,x\n")
    loaded = loaded_by_both(load, "a.csv", "--schema", "id bigint, name string")
    assert loaded.scan().to_arrow().to_pylist() == [{"id": 1, "name": "a"}]


def test_unusual_column_names_are_kept(load: Command) -> None:
    Path("a.csv").write_text("id,b c,a.b,`d`\n1,2,3,4\n")
    loaded = loaded_by_both(load, "a.csv", "--partition", "a.b")
    assert loaded.scan().to_spark().collect()[0].asDict() == {"id": 1, "b c": 2, "a.b": 3, "`d`": 4}


def test_json_lines_are_loaded_equally(load: Command) -> None:
    Path("in").mkdir()
    for number in range(3):
        lines = "".join(json.dumps(row) + "\n" for row in JSON_LINES[number::3])
        Path(f"in/{number}.json.gz").write_bytes(gzip.compress(lines.encode()))
    loaded = loaded_by_both(load, "in", "--partition", "month(at)")
    assert loaded.scan("id = 4").to_arrow()["at"].to_pylist() == [dt.datetime(2024, 2, 5, 10, tzinfo=dt.UTC)]


def test_parquet_is_loaded_equally(load: Command) -> None:
    pq.write_table(
        pa.table({"id": pa.array([1, 2], pa.int32()), "day": [dt.date(2024, 1, 1)] * 2, "tags": [["a"], None]}), "p [1]{x}*.parquet"
    )
    pq.write_table(pa.table({"id": pa.array([3], pa.int64()), "o": [{"x": 1.5}]}), "q.parquet")
    loaded_by_both(load, "p [1]{x}*.parquet", "q.parquet")


def test_upserts_and_new_columns_are_loaded_equally(load: Command) -> None:
    Path("a.csv").write_text("id,v\n1,a\n2,b\n")
    Path("b.csv").write_text("id,v,w\n2,B,1\n3,c,2\n")
    for engine in ("spark", "arrow"):
        assert load("a.csv", "--engine", engine, "--into", f"n.{engine}").exit_code == 0
        result = load("b.csv", "--engine", engine, "--into", f"n.{engine}", "--upsert", "id", "--add-columns")
        assert result.exit_code == 0, result.stderr
        assert len(table(f"n.{engine}").metadata.metadata_log) == 1
    assert table("n.spark").scan().to_arrow().sort_by("id") == table("n.arrow").scan().to_arrow().sort_by("id")


@pytest.mark.slow
def test_every_bad_row_is_counted_where_spark_ends_at_the_first(refused: Callable[..., str]) -> None:
    Path("a.csv").write_text("id,v\n1,2\n3\nx,4\n5,y\n")
    message = refused("a.csv", "--schema", "id int, v int")
    assert "3 of 4 rows of a.csv cannot be loaded" in message
    assert "a.csv line 4, column 'id': is not an int" in message
    Path("a.json").write_text('{"a": 1}\n{"a": \n{"a": "x"}\n')
    assert "2 of 3 rows of a.json" in refused("a.json", "--schema", "a bigint")


def test_an_array_is_not_loaded_by_spark(refused: Callable[..., str]) -> None:
    Path("a.json").write_text('[{"a": 1},\n{"a": 2}]')
    assert "omit --engine spark" in refused("a.json")


@pytest.mark.slow
@pytest.mark.parametrize("after", ["Starting Spark", "Loading into"])
def test_an_interrupted_load_ends_with_130_and_leaves_nothing(tmp_path: Path, after: str) -> None:
    with open(tmp_path / "big.jsonl", "w", encoding="utf-8") as file:
        file.writelines(f'{{"id": {number}, "kind": "k{number % 7}", "value": {number / 7}}}\n' for number in range(1_500_000))
    command = [Path(sys.executable).with_name("icefloe"), "load", "big.jsonl", "--into", "n.t", "--warehouse", "lake", "--engine", "spark"]
    environment: dict[str, Any] = dict(os.environ)
    running = subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, cwd=tmp_path, env=environment
    )
    assert running.stderr is not None
    printed = b""
    while after.encode() not in printed and (block := running.stderr.read(1)):
        printed += block
    os.killpg(running.pid, signal.SIGINT)  # to the whole process group, as a terminal does
    out, rest = running.communicate(timeout=120)
    assert (running.returncode, out) == (130, b"")
    assert "interrupted: n.t was not created" in " ".join(rest.decode().split())
    assert "Traceback" not in rest.decode()
    assert [path.name for path in (tmp_path / "lake").rglob("*")] == ["catalog.db"]
