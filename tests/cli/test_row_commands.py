"""The commands `head` and `sql`: rows as a grid, CSV and JSON, and which statements need Spark."""

import csv
import datetime as dt
import io
import json
import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.cli.conftest import Command
from tests.inspect.example import make_lake
from tests.table.deviating import list_path, made, one_more_added, rewrite, warned

from icefloe import SqlCatalog
from icefloe.cli import row_commands
from icefloe.cli.row_view import RowBatches, print_rows
from icefloe.cli.select_statement import NeedsSparkError, parse_select
from icefloe.errors import NotInstalledError
from icefloe.spec.tolerance import Deviation

JsonCommand = Callable[..., Any]


@pytest.fixture
def sql(as_json: JsonCommand, warehouse: Path) -> Callable[[str], list[dict[str, Any]]]:
    """Run a statement without Spark and return its rows."""

    def run(text: str) -> list[dict[str, Any]]:
        result = as_json("sql", text, "--engine", "arrow", "--warehouse", warehouse)
        assert result["engine"] == "arrow"
        rows: list[dict[str, Any]] = result["rows"]
        return rows

    return run


# ---- head ----


def test_head_prints_the_first_rows_of_chosen_columns_that_match(as_json: JsonCommand, warehouse: Path) -> None:
    place = ("--warehouse", warehouse)
    found = as_json("head", "demo.events", "-n", 2, "--columns", "id, place.lat", "--columns", "TYPE", "--where", "id >= 303", *place)
    assert [column["name"] for column in found["columns"]] == ["id", "place.lat", "type"]
    assert found["rows"] == [{"id": 303, "place.lat": 51.0, "type": "c8y_Alarm"}, {"id": 306, "place.lat": 51.0, "type": "c8y_Alarm"}]
    assert len(as_json("head", "demo.events", *place)["rows"]) == 10
    assert as_json("head", "demo.events", "-n", 0, *place)["rows"] == []


def test_head_of_a_large_table_reads_few_files(as_json: JsonCommand, tmp_path: Path) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", pa.schema([("n", pa.int64())]), partition_spec=["n"])
    table.append(pa.table({"n": list(range(60)) * 5}))
    paths = [task.file.file_path for task in table.scan().plan_files()]
    assert len(paths) == 60
    # Files are read ahead in at most eight threads.
    for path in paths[20:]:
        Path(path).unlink()
    assert len(as_json("head", "db.t", "-n", 5, "--warehouse", tmp_path)["rows"]) == 5


def test_head_reads_a_snapshot_a_tag_or_a_branch(icefloe: Command, as_json: JsonCommand, tmp_path: Path) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", pa.schema([("n", pa.int64())]))
    table.append(pa.table({"n": [1]}))
    first = table.snapshots()[0].snapshot_id
    table.manage_snapshots().create_tag(first, "v1").commit()
    table.manage_snapshots().create_branch(first, "work").commit()
    table.append(pa.table({"n": [3]}), branch="work")
    table.append(pa.table({"n": [2]}))
    place = ("--warehouse", tmp_path)

    def numbers(*words: object) -> list[int]:
        return sorted(row["n"] for row in as_json("head", "db.t", *words, *place)["rows"])

    assert (numbers(), numbers("--snapshot", first), numbers("--snapshot", "v1")) == ([1, 2], [1], [1])
    assert (numbers("--branch", "work"), numbers("--branch", "main")) == ([1, 3], [1, 2])
    for words, message in (
        (("--snapshot", "7"), "has no snapshot 7"),
        (("--snapshot", "other"), "no branch or tag 'other'"),
        (("--branch", "other"), "no branch or tag 'other'"),
        (("--branch", str(first)), "no branch or tag"),
        (("--branch", "work", "--snapshot", "v1"), "both --snapshot and --branch"),
        (("--csv", "--json"), "both --json and --csv"),
        (("--columns", "nothing"), "nothing"),
        (("--where", "n ="), "n ="),
        (("--where", "upper(n) = 'A'"), "UPPER"),
    ):
        refused = icefloe("head", "db.t", *words, *place)
        assert (refused.exit_code, refused.stdout) == (1, "")
        assert message in " ".join(refused.stderr.split())


def test_head_reads_a_metadata_table_and_refuses_a_view(icefloe: Command, as_json: JsonCommand, tmp_path: Path) -> None:
    catalog, table = make_lake(tmp_path)
    catalog.create_view("demo.v", "SELECT id FROM demo.events", table.schema().select("id"))
    place = ("--warehouse", tmp_path)
    rows = as_json("head", "demo.events.files", "-n", 2, "--columns", "record_count", "--where", "record_count > 10", *place)["rows"]
    assert len(rows) == 2
    assert all(row["record_count"] > 10 for row in rows)
    refused = icefloe("head", "demo.v", *place)
    assert "demo.v is a view" in refused.stderr
    assert 'icefloe sql "SELECT * FROM demo.v LIMIT 10"' in " ".join(refused.stderr.split())
    assert "is a metadata table" in icefloe("head", "demo.events.files", "--branch", "main", *place).stderr
    assert "'demo.nothing' does not exist" in icefloe("head", "demo.nothing", *place).stderr


@pytest.mark.parametrize("names", [("a", "A"), ("A", "a")])
def test_a_filter_is_on_the_field_that_is_spelled_as_in_it(
    icefloe: Command, as_json: JsonCommand, tmp_path: Path, names: tuple[str, str]
) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    item = pa.struct([(name, pa.int64()) for name in names])
    schema = pa.schema([("id", pa.int64()), ("s", item), ("l", pa.list_(item))])
    rows = [{"id": 1, "s": {"a": 5, "A": 6}, "l": []}, {"id": 2, "s": {"a": 6, "A": 5}, "l": []}]
    catalog.create_table("db.t", schema).append(pa.Table.from_pylist(rows, schema))
    place = ("--warehouse", tmp_path)
    for name, expected in (("a", 1), ("A", 2)):
        assert as_json("head", "db.t", "--columns", f"id,s.{name}", "--where", f"s.{name} = 5", *place)["rows"] == [
            {"id": expected, f"s.{name}": 5}
        ]
        assert as_json("sql", f"SELECT id FROM db.t WHERE s.{name} = 5", "--engine", "arrow", *place)["rows"] == [{"id": expected}]
    for words in (("--where", "S.A = 5"), ("--columns", "S.A")):
        assert "2 fields that differ by case: s." in " ".join(icefloe("head", "db.t", *words, *place).stderr.split())
    refused = " ".join(icefloe("head", "db.t", "--columns", "id,l.element.A", *place).stderr.split())
    assert "l.element.A is in a list or map" in refused
    assert "select the whole column, or run icefloe sql with the field in Spark's SQL" in refused


# ---- values ----


@pytest.fixture
def values(tmp_path: Path) -> Path:
    """A warehouse with the table `db.t`: values that are easily shown wrongly, and a row of nulls."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    rows = pa.table(
        {
            "big": [9223372036854775807, None],
            "price": pa.array([Decimal("12345678901234567890.10"), None], pa.decimal128(22, 2)),
            "ratio": pa.array([float("nan"), None], pa.float64()),
            "moment": pa.array([1_700_000_000_123_456_789, None], pa.timestamp("ns", "UTC")),
            "time": pa.array([dt.time(1, 2, 3, 500000), None], pa.time64("us")),
            "text": ['a "b", c\nd\x1b[31m', None],
            "empty": ["", None],
            "data": pa.array([b"\x00\xff", None], pa.binary()),
            "tags": pa.array([{"a": dt.date(2024, 1, 31)}, None], pa.struct([("a", pa.date32())])),
            "counts": pa.array([[("x", 1)], None], pa.map_(pa.string(), pa.int64())),
        }
    )
    table = catalog.create_table("db.t", rows.schema, properties={"format-version": "3"})
    table.append(rows)
    return tmp_path


def test_values_are_whole_in_json(as_json: JsonCommand, values: Path) -> None:
    first, second = as_json("head", "db.t", "--warehouse", values)["rows"]
    assert first == {
        "big": 9223372036854775807,
        "price": "12345678901234567890.10",
        "ratio": "NaN",
        "moment": "2023-11-14 22:13:20.123456789Z",
        "time": "01:02:03.5",
        "text": 'a "b", c\nd\x1b[31m',
        "empty": "",
        "data": "00ff",
        "tags": {"a": "2024-01-31"},
        "counts": {"x": 1},
    }
    assert set(second.values()) == {None}


def test_csv_is_read_back_as_it_was(icefloe: Command, values: Path) -> None:
    text = icefloe("head", "db.t", "--csv", "--warehouse", values).stdout
    header, first, second = csv.reader(io.StringIO(text))
    assert header[:2] == ["big", "price"]
    assert first[5] == 'a "b", c\nd\x1b[31m'
    assert set(second) == {""}
    assert '"",00ff' in text, "empty text is in quotes, null is not"
    assert text.endswith("\n" + "," * 9 + "\n")


def test_control_characters_of_values_do_not_reach_a_grid(icefloe: Command, values: Path) -> None:
    text = icefloe("head", "db.t", "--warehouse", values).stdout
    assert "\x1b" not in text
    assert "\\u001b[31m" in text
    assert "NULL" in text


def test_a_uuid_and_a_variant_are_readable(as_json: JsonCommand, tmp_path: Path, icefloe: Command) -> None:
    assert icefloe("create", "db.t", "--schema", "u uuid", "--warehouse", tmp_path).exit_code == 0
    catalog = SqlCatalog("default", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.load_table("db.t").append(pa.table({"u": pa.array([bytes(range(16))], pa.binary(16))}))
    assert as_json("head", "db.t", "--warehouse", tmp_path)["rows"] == [{"u": "00010203-0405-0607-0809-0a0b0c0d0e0f"}]


# ---- sql without Spark ----


def test_a_select_has_columns_names_conditions_order_and_limits(sql: Callable[[str], list[dict[str, Any]]]) -> None:
    assert sql("SELECT id FROM demo.events WHERE type = 'c8y_Event' AND id < 10 ORDER BY id DESC LIMIT 2 OFFSET 1") == [
        {"id": 4},
        {"id": 1},
    ]
    assert sql("select e.ID as n, E.place.lat from lake.demo.events e where e.id in (3L, 6) order by n desc;") == [
        {"n": 6, "lat": 51.0},
        {"n": 3, "lat": 51.0},
    ]
    condition = 'events.type = "c8y_Alarm" AND events.place.lat > 50.5 AND id <= 3'
    assert sql(f"SELECT demo.events.id FROM demo.events WHERE {condition} ORDER BY id") == [{"id": 0}, {"id": 3}]
    assert list(sql("SELECT ID, events.Type, place.LAT FROM demo.events LIMIT 1")[0]) == ["ID", "Type", "LAT"], "as in Spark"
    assert list(sql("SELECT * FROM demo.events LIMIT 1")[0]) == ["id", "type", "time", "value", "place"]
    assert sql("SELECT count(*) FROM demo.events WHERE time >= TIMESTAMP '2024-01-01'")[0]["count(1)"] > 0
    assert sql("SELECT count(*) AS n FROM demo.events") == [{"n": 400}]


def test_nulls_and_nan_are_ordered_as_in_spark(as_json: JsonCommand, tmp_path: Path) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", pa.schema([("n", pa.float64())]))
    table.append(pa.table({"n": [1.0, None, float("nan"), -1.0]}))

    def ordered(order: str) -> list[Any]:
        result = as_json("sql", f"SELECT n FROM db.t ORDER BY n {order}", "--engine", "arrow", "--warehouse", tmp_path)
        return [row["n"] for row in result["rows"]]

    assert ordered("") == [None, -1.0, 1.0, "NaN"]
    assert ordered("DESC") == ["NaN", 1.0, -1.0, None]
    assert ordered("ASC NULLS LAST") == [-1.0, 1.0, "NaN", None]
    assert ordered("DESC NULLS FIRST") == [None, "NaN", 1.0, -1.0]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_zeros_and_nan_of_either_sign_are_equal_in_an_order_as_in_spark(as_json: JsonCommand, tmp_path: Path, kind: pa.DataType) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", pa.schema([("s", pa.struct([("x", kind)])), ("i", pa.int32())]))
    values = pa.array([0.0, -0.0, math.nan, math.copysign(math.nan, -1), None, 1.0, -math.inf, -0.0, 0.0], kind)
    table.append(pa.table({"s": pa.StructArray.from_arrays([values], names=["x"]), "i": pa.array(range(9), pa.int32())}))

    def ordered(order: str) -> list[int]:
        result = as_json("sql", f"SELECT i FROM db.t ORDER BY {order}", "--engine", "arrow", "--warehouse", tmp_path)
        return [row["i"] for row in result["rows"]]

    assert ordered("s.x, i") == [4, 6, 0, 1, 7, 8, 5, 2, 3]
    assert ordered("s.x DESC, i DESC") == [3, 2, 5, 8, 7, 1, 0, 6, 4]
    first = as_json("sql", "SELECT s.x FROM db.t WHERE i = 1", "--engine", "arrow", "--warehouse", tmp_path)["rows"][0]["x"]
    assert math.copysign(1, first) == -1, "the values are those of the table"


def test_metadata_tables_and_older_versions_are_read(sql: Callable[[str], list[dict[str, Any]]]) -> None:
    snapshots = sql("SELECT snapshot_id FROM demo.events.snapshots WHERE operation = 'append' ORDER BY committed_at")
    assert len(snapshots) == 2
    first = snapshots[0]["snapshot_id"]
    assert sql(f"SELECT count(*) AS n FROM demo.events VERSION AS OF {first}") == [{"n": 300}]
    assert sql("SELECT count(*) AS n FROM demo.events VERSION AS OF 'main'") == [{"n": 400}]
    assert sql("SELECT count(*) AS n FROM lake.demo.events.files") == [{"n": 12}]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT type, count(*) FROM demo.events GROUP BY type", "it has GROUP"),
        ("SELECT DISTINCT type FROM demo.events", "it has DISTINCT"),
        ("SELECT a.id FROM demo.events a JOIN demo.events b ON a.id = b.id", "it has JOINS"),
        ("SELECT id + 1 FROM demo.events", "id + 1 is more than the name of a column"),
        ("SELECT id FROM demo.events WHERE id % 2 = 0", "its condition is more than a filter on columns"),
        ("SELECT id FROM demo.events WHERE id = (SELECT 1)", "its condition is more than a filter on columns"),
        ("SELECT id FROM demo.events ORDER BY 1", "1 is more than the name of a column"),
        ("SELECT id FROM demo.events ORDER BY place", "it is sorted by place, which has the type struct"),
        ("SELECT place.tags.element FROM demo.events", "is in a list or map"),
        ("SELECT * EXCEPT (id) FROM demo.events", "it has EXCEPT"),
        ("SELECT id FROM demo.events TIMESTAMP AS OF '2024-01-01'", "as of a time"),
        ("SELECT id FROM demo.events TABLESAMPLE (10 ROWS)", "it has SAMPLE"),
        ("SELECT id FROM demo.events UNION SELECT 1", "UNION is more than a SELECT from one table"),
        ("SELECT 1", "it does not select from a table"),
        ("WITH e AS (SELECT 1) SELECT * FROM e", "it has WITH"),
        ("DELETE FROM demo.events", "DELETE is more than a SELECT from one table"),
        ("CALL lake.system.expire_snapshots('demo.events')", "CALL is more than a SELECT from one table"),
        ("SHOW TABLES", "SHOW is more than a SELECT from one table"),
        ("SELEC", "it does not begin with SELECT"),
        ("selct events", "it does not begin with SELECT"),
        ("SELECT max(id) OVER () FROM demo.events", "is more than the name of a column"),
        ("SELECT FROM WHERE", "it"),
    ],
)
def test_another_statement_needs_spark_and_the_reason_is_named(icefloe: Command, warehouse: Path, text: str, reason: str) -> None:
    refused = icefloe("sql", text, "--engine", "arrow", "--warehouse", warehouse)
    assert (refused.exit_code, refused.stdout) == (1, "")
    message = " ".join(refused.stderr.split())
    assert "Arrow alone does not run the statement: " in message
    assert reason in message


def test_without_spark_the_error_has_the_command_that_installs_it(
    icefloe: Command, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(_: str) -> Any:
        raise NotInstalledError("Spark needs the package pyspark")

    monkeypatch.setattr(row_commands, "spark_module", missing)
    refused = icefloe("sql", "SELECT type, count(*) FROM demo.events GROUP BY type", "--warehouse", warehouse, "--json")
    error = json.loads(refused.stderr)["error"]
    assert error["what"] == "the statement needs Spark: it has GROUP, and Spark is not installed"
    assert "icefloe[spark]" in error["next_step"]
    assert "SELECT columns FROM table" in error["next_step"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the statement is empty"),
        (" ; ", "the statement is empty"),
        ("SELECT id FROM demo.events; SELECT 1", "more than one statement"),
        ("SELECT nothing FROM demo.events", "nothing"),
        ("SELECT id FROM demo.events WHERE nothing = 1", "nothing"),
        ("SELECT count(*) FROM demo.events WHERE nothing = 1", "nothing"),
        ("SELECT id FROM demo.events WHERE id = 'text'", "id"),
        ("SELECT id FROM demo.nothing", "'demo.nothing' does not exist"),
        ("SELECT id FROM events", "namespace"),
        ("SELECT id FROM demo.events VERSION AS OF 77", "77"),
    ],
)
def test_a_mistake_is_refused_without_starting_spark(
    icefloe: Command, warehouse: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    monkeypatch.setattr(row_commands, "spark_module", lambda _: pytest.fail("Spark was started"))
    refused = icefloe("sql", text, "--warehouse", warehouse)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert message in " ".join(refused.stderr.split())


def test_two_columns_of_one_name_are_refused_as_json_alone(icefloe: Command, warehouse: Path) -> None:
    place = ("--warehouse", warehouse)
    assert icefloe("sql", "SELECT id, id FROM demo.events LIMIT 1", "--csv", *place).stdout.startswith("id,id\n")
    refused = icefloe("sql", "SELECT id, id FROM demo.events LIMIT 1", "--json", *place)
    assert "rename one with AS" in refused.stderr


def test_a_grid_has_the_first_rows_and_names_the_option_for_all(icefloe: Command, warehouse: Path, terminal: Callable[[int], None]) -> None:
    place = ("--warehouse", warehouse)
    assert len(icefloe("sql", "SELECT id FROM demo.events", *place).stdout.splitlines()) == 402, "a pipe gets every row"
    terminal(80)
    text = icefloe("sql", "SELECT id FROM demo.events", *place).stdout
    assert "the first 20 rows; --all shows every row" in text
    assert len(text.splitlines()) == 23
    assert len(icefloe("sql", "SELECT id FROM demo.events", "--all", *place).stdout.splitlines()) == 402
    assert len(icefloe("sql", "SELECT id FROM demo.events", "--csv", *place).stdout.splitlines()) == 401


def test_a_statement_comes_from_standard_input(icefloe: Command, warehouse: Path) -> None:
    result = icefloe("sql", "-", "--csv", "--warehouse", warehouse, answer="SELECT count(*) AS n\nFROM demo.events")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "n\n400\n", "")


def test_a_catalog_of_the_configuration_is_named_in_the_statement(as_json: JsonCommand, warehouse: Path) -> None:
    Path("icefloe.yaml").write_text(f"catalog:\n  lake:\n    uri: sqlite:///{warehouse}/catalog.db\n")
    assert as_json("sql", "SELECT count(*) AS n FROM lake.demo.events")["rows"] == [{"n": 400}]


def test_no_clause_of_a_statement_is_left_out_in_silence() -> None:
    for clause in ("HAVING 1 = 1", "QUALIFY 1 = 1", "LATERAL VIEW explode(a) x AS y", "CLUSTER BY id", "DISTRIBUTE BY id", "SORT BY id"):
        with pytest.raises(NeedsSparkError):
            parse_select(f"SELECT id FROM demo.events {clause}")


# ---- sql with Spark ----


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_spark_runs_what_arrow_does_not(icefloe: Command, warehouse: Path) -> None:
    # The command uses the session of the tests. In a process of its own, the slow test below starts one.
    result = icefloe("sql", "SELECT type, count(*) AS n FROM demo.events GROUP BY type ORDER BY type", "--warehouse", warehouse, "--json")
    assert result.exit_code == 0, result.stderr
    assert "by Spark, because it has GROUP" in result.stderr
    printed = json.loads(result.stdout)
    assert (printed["engine"], printed["rows"]) == ("spark", [{"type": "c8y_Alarm", "n": 200}, {"type": "c8y_Event", "n": 200}])


@pytest.mark.slow
@pytest.mark.spark
def test_spark_and_arrow_return_equal_rows(as_json: JsonCommand, process: Callable[..., Any], warehouse: Path) -> None:
    statement = "SELECT id, type, time, value, place FROM demo.events WHERE time > TIMESTAMP '2024-01-01' ORDER BY value DESC, id LIMIT 30"
    by_arrow = as_json("sql", statement, "--warehouse", warehouse)
    # Another process: the session would stay in this one, for tests that need the working directory of the whole run.
    result = process("sql", statement, "--engine", "spark", "--warehouse", warehouse, "--json")
    assert result.returncode == 0, result.stderr
    by_spark = json.loads(result.stdout)
    assert (by_arrow["engine"], by_spark["engine"]) == ("arrow", "spark")
    assert by_spark["rows"] == by_arrow["rows"]


def test_json_is_written_row_by_row(capsys: pytest.CaptureFixture[str]) -> None:
    printed_before: list[str] = []

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"id": [1], "text": ["größe\n"]})
        yield pa.record_batch({"id": [2], "text": [None]})
        printed_before.append(capsys.readouterr().out)
        yield pa.record_batch({"id": [3], "text": ["c"]})

    source = RowBatches(names=("id", "text"), types=("long", "string"), kinds=(None, None), batches=batches(), engine="arrow")
    print_rows(source, as_json=True, as_csv=False, most=None)
    assert '"id": 2' in printed_before[0]
    columns = [{"name": "id", "type": "long"}, {"name": "text", "type": "string"}]
    rows = [{"id": 1, "text": "größe\n"}, {"id": 2, "text": None}, {"id": 3, "text": "c"}]
    whole = {"engine": "arrow", "columns": columns, "rows": rows}
    assert printed_before[0] + capsys.readouterr().out == json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def test_json_of_no_rows_has_an_empty_list(capsys: pytest.CaptureFixture[str]) -> None:
    source = RowBatches(names=("id",), types=("long",), kinds=(None,), batches=iter(()), engine="arrow")
    print_rows(source, as_json=True, as_csv=False, most=None)
    whole = {"engine": "arrow", "columns": [{"name": "id", "type": "long"}], "rows": []}
    assert capsys.readouterr().out == json.dumps(whole, indent=2) + "\n"


def test_a_grid_in_a_pipe_is_written_in_blocks_of_the_same_widths(capsys: pytest.CaptureFixture[str]) -> None:
    texts = [f"text {number % 10}" for number in range(2_500)]
    texts[1] = "the widest text of the first block"
    texts[-1] = "größer als alle anderen, und allein in ihrem Block so breit"
    printed_before: list[str] = []

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"id": list(range(2_000)), "text": texts[:2_000]})
        printed_before.append(capsys.readouterr().out)
        yield pa.record_batch({"id": list(range(2_000, 2_500)), "text": texts[2_000:]})

    source = RowBatches(names=("id", "text"), types=("long", "string"), kinds=(None, None), batches=batches(), engine="arrow")
    print_rows(source, as_json=False, as_csv=False, most=None)
    assert printed_before[0].count("\n") >= 1_000
    lines = (printed_before[0] + capsys.readouterr().out).splitlines()
    assert lines[0].split() == ["id", "text"]
    assert set(lines[1]) == {"─"}
    assert lines[2:] == [f"{number:>3}   {text}" for number, text in enumerate(texts[:1_000])] + [
        f"{number:>3}   {text}" for number, text in enumerate(texts) if number >= 1_000
    ]


# ---- tolerant reading ----


def test_a_table_with_wrong_counts_is_read_with_tolerant_and_a_warning(icefloe: Command, tmp_path: Path) -> None:
    rewrite(list_path(made(tmp_path)), one_more_added)
    place = ("--warehouse", tmp_path, "--json")
    for words in (("head", "db.t", "-n", 200), ("sql", "SELECT n FROM db.t"), ("sql", "SELECT count(*) FROM db.t"), ("trace", "db.t")):
        refused = icefloe(*words, *place)
        assert refused.exit_code == 1
        assert "the manifest list counts" in refused.output
        with warned(Deviation.MANIFEST_FILE_COUNT):
            assert icefloe(*words, "--tolerant", *place).exit_code == 0
    with warned(Deviation.MANIFEST_FILE_COUNT):
        assert len(json.loads(icefloe("head", "db.t", "-n", 200, "--tolerant", *place).stdout)["rows"]) == 90


def test_a_tolerant_statement_does_not_start_spark(icefloe: Command, warehouse: Path) -> None:
    place = ("--tolerant", "--warehouse", warehouse)
    refused = icefloe("sql", "SELECT max(id) FROM demo.events", *place)
    assert refused.exit_code == 1
    assert "--tolerant is for statements that Arrow alone runs" in refused.output
    assert "omit --engine" in icefloe("sql", "SELECT id FROM demo.events", "--engine", "spark", *place).output
