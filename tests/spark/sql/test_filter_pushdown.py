"""Filters of every kind and type by Spark SQL over a partitioned and evolved table, beside the same SQL over the same rows in Spark's own cache."""

import json
import uuid
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from tests.repetitions import examples

from icefloe import DateType, LongType, NestedField, Schema, SqlCatalog, TimestampType, UUIDType
from icefloe.spark.attach_catalog import attach
from icefloe.spark.scan.filter_pushdown import to_expressions
from icefloe.spark.scan.function_pushdown import LocalDays
from icefloe.spark.types.spark_types import SPARK_TIME
from icefloe.spark.write import write_builder
from icefloe.spec.expressions.predicate import BooleanExpression, all_of
from icefloe.table import Table

pytestmark = pytest.mark.spark

NAN = float("nan")
DAY_US = 86_400_000_000
# On both sides of where a signed number would change its sign.
UUIDS = tuple(str(uuid.UUID(int=number)) for number in (0, (1 << 127) - 1, 1 << 127, 0xF79C3E09677C4BBDA4793F349CB785E7))
COLUMNS: dict[str, tuple[pa.DataType, tuple[Any, ...], tuple[str, ...]]] = {
    # Each with values that rows have, and literals to compare them with.
    "i": (pa.int32(), (-1, 0, 7, 2**31 - 1), ("0", "7", "6.5BD", "2147483648", "-1L", "CAST(7 AS BYTE)")),
    "l": (pa.int64(), (-(2**63), 0, 3, 2**53 + 1), ("3", "0", "9007199254740993", "3.0D", "CAST('-Infinity' AS DOUBLE)")),
    "f": (pa.float32(), (NAN, -0.0, 0.0, 0.1, float("inf")), ("FLOAT('NaN')", "0.1F", "0.1D", "-0.0F", "0", "FLOAT('Infinity')")),
    "d": (pa.float64(), (NAN, -0.0, 0.0, 1.5, float("-inf")), ("DOUBLE('NaN')", "0.0D", "-0.0D", "1.5D", "2", "1.5BD")),
    "n": (pa.decimal128(9, 2), (Decimal("-1.50"), Decimal("0.00"), Decimal("12.34")), ("12.34BD", "0", "12.345BD", "-1.5BD", "1e10D")),
    "s": (pa.string(), ("", "a", "ab", "aB", "b", "é"), ("''", "'a'", "'ab'", "'é'", "'B'")),
    "b": (pa.bool_(), (True, False), ("true", "false")),
    "x": (pa.binary(), (b"", b"\x00", b"\xff\x01"), ("X''", "X'00'", "X'FF01'")),
    "day": (pa.date32(), (date(1969, 12, 31), date(2024, 2, 29)), ("DATE'2024-02-29'", "DATE'1969-12-31'", "'2024-02-29'")),
    "at": (
        pa.timestamp("us", tz="UTC"),
        (datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), datetime(2024, 3, 31, 1, 30, tzinfo=UTC)),
        ("TIMESTAMP'2024-03-31 01:30:00Z'", "TIMESTAMP'2024-03-31 03:30:00 Europe/Berlin'", "'2024-03-30 20:30:00'", "DATE'2024-03-31'"),
    ),
    "local": (
        pa.timestamp("us"),
        (datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2024, 3, 31, 2, 30)),
        ("TIMESTAMP_NTZ'2024-03-31 02:30:00'", "'1969-12-31 23:59:59.999999'", "DATE'2024-03-31'"),
    ),
    "st.q": (pa.int64(), (1, 2), ("1", "2", "1.5D")),
    "st.t": (pa.string(), ("k", "kk"), ("'k'", "'kk'")),
    "later": (pa.int64(), (5, 6), ("5", "6")),
    "u": (pa.string(), UUIDS, (*(f"'{one}'" for one in UUIDS), f"'{UUIDS[1].upper()}'", "'8'", "'zz'")),
}
if SPARK_TIME is not None:
    COLUMNS["clock"] = (
        pa.time64("us"),
        (time(0, 0), time(12, 30, 0, 1), time(23, 59, 59, 999999)),
        ("TIME'12:30:00.000001'", "TIME'12:30:00'", "TIME'00:00:00'"),
    )
ROWS = 48


def _cell(name: str, row: int) -> Any:
    """Return the value of a column in a row: its values one after the other, and null."""
    values = COLUMNS[name][1]
    place = (row * 7 + len(name) + ord(name[-1])) % (len(values) + 1)
    return None if place == len(values) else values[place]


def _rows(first: int, last: int, names: list[str]) -> pa.Table:
    """Return rows with these ids; `st` is a struct that is sometimes null."""
    rows = range(first, last)
    arrays: dict[str, Any] = {"id": pa.array(rows, pa.int64())}
    for name in names:
        if name == "st":
            kind = pa.struct([("q", pa.int64()), ("t", pa.string())])
            values = [None if row % 5 == 0 else {"q": _cell("st.q", row), "t": _cell("st.t", row)} for row in rows]
            arrays[name] = pa.array(values, kind)
        else:
            arrays[name] = pa.array([_cell(name, row) for row in rows], COLUMNS[name][0])
    return pa.table(arrays)


def with_uuids(rows: pa.Table) -> pa.Table:
    """Convert texts of uuids in the rows to uuids."""
    found = [None if text is None else uuid.UUID(text).bytes for text in rows["u"].to_pylist()]
    return rows.set_column(rows.schema.get_field_index("u"), "u", pa.ExtensionArray.from_storage(pa.uuid(), pa.array(found, pa.binary(16))))


@pytest.fixture(scope="module")
def table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Table]:
    """Create `lake.db.t`, with several specs, a renamed column and a column added later, and the same rows as the view `plain`."""
    folder: Path = tmp_path_factory.mktemp("filters")
    lake = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder / "warehouse"))
    lake.create_namespace("db")
    names = [name for name in COLUMNS if "." not in name and name != "later"] + ["st"]
    first = _rows(0, 16, names)
    form = first.schema.set(first.schema.get_field_index("u"), pa.field("u", pa.uuid()))
    table = lake.create_table("db.t", form, partition_spec=["d", "day(at)"], properties={"format-version": "2"})
    table.append(with_uuids(first))
    with table.update_spec() as update:
        update.remove_field("d")
        update.remove_field("at_day")
        update.add_field("s", "identity", "s_part")
        update.add_field("i", "bucket[3]", "i_bucket")
        update.add_field("day", "identity", "day_part")
        update.add_field("u", "bucket[2]", "u_bucket")
    table.append(with_uuids(_rows(16, 32, names)))
    with table.update_schema() as update:
        update.add_column("later", LongType())
        update.rename_column("n", "number")
    table.append(with_uuids(_rows(32, ROWS, [*names, "later"])).rename_columns({"n": "number"}))
    attach(spark, "lake", lake)
    table = lake.load_table("db.t")
    found = pa.concat_tables([_rows(0, 32, names), _rows(32, ROWS, [*names, "later"])], promote_options="default")
    # Spark's cache prunes batches by bounds that ignore NaN.
    settings = {"spark.sql.inMemoryColumnarStorage.partitionPruning": "false"}
    if SPARK_TIME is not None:
        settings["spark.sql.timeType.enabled"] = "true"
    for setting, value in settings.items():
        spark.conf.set(setting, value)
    plain = spark.createDataFrame(found.rename_columns({"n": "number"})).cache()
    assert plain.count() == ROWS
    plain.createOrReplaceTempView("plain")
    yield table
    plain.unpersist()
    for setting in settings:
        spark.conf.unset(setting)
    spark.catalog.dropTempView("plain")


def _column(name: str) -> str:
    return "number" if name == "n" else name


def _leaves() -> st.SearchStrategy[str]:
    names = st.sampled_from(sorted(COLUMNS))
    comparisons = names.flatmap(
        lambda name: st.builds(
            lambda operator, literal, mirrored: (
                f"{literal} {operator} {_column(name)}" if mirrored else f"{_column(name)} {operator} {literal}"
            ),
            st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"]),
            st.sampled_from([*COLUMNS[name][2], "NULL"]),
            st.booleans(),
        )
    )
    members = names.flatmap(
        lambda name: st.lists(st.sampled_from([*COLUMNS[name][2], "NULL"]), min_size=1, max_size=4).map(
            lambda literals: f"{_column(name)} IN ({', '.join(literals)})"
        )
    )
    nulls = names.map(lambda name: f"{_column(name)} IS NULL")
    patterns = st.builds(
        lambda name, pattern: f"{name} LIKE '{pattern}'",
        st.sampled_from(["s", "st.t"]),
        st.sampled_from(["a%", "%b", "", "%", "a_", "k%", "é%"]),
    )
    others = st.sampled_from(
        ["b", "st IS NULL", "i = l", "date_trunc('DAY', at) = DATE'2024-03-31'", "isnan(f)", "upper(s) = 'AB'", "id < 20", "i + 1 > 1"]
    )
    return st.one_of(comparisons, comparisons, members, nulls, patterns, others, _periods())


def _periods() -> st.SearchStrategy[str]:
    """Return predicates on the hour, day, week, month, quarter or year of a column; dates have no hours."""
    columns = st.sampled_from(["at", "local", "day"])
    days = ("DATE'2024-03-31'", "DATE'2024-03-30'", "DATE'1969-12-31'", "DATE'2024-01-01'", "DATE'2024-03-25'", "DATE'2024-02-29'", "NULL")
    functions = st.sampled_from(
        [("CAST({} AS DATE)", days), ("year({})", ("2024", "1969", "1970", "NULL"))]
        + [(f"trunc({{}}, '{unit}')", days) for unit in ("week", "MM", "quarter", "yy", "day")]
        + [("lake.system.days({})", days), ("lake.system.years({})", ("54", "-1", "0", "2147483647", "NULL"))]
        + [("lake.system.months({})", ("650", "-1", "0", "649", "-2147483648", "NULL"))]
        + [("lake.system.hours(TIMESTAMP({}))", ("475489", "-1", "0", "475490", "-2147483648", "NULL"))]
        + [("lake.system.hours({})", ("475489", "-1", "0", "475490", "-2147483648", "NULL"))]
    )
    tests = st.sampled_from(
        ["= {0}", "<> {0}", "< {0}", "<= {0}", "> {1}", ">= {1}", "<=> {0}", "IN ({0}, {1})", "NOT IN ({0}, {1})", "IS NULL"]
    )

    def predicate(column: str, function: tuple[str, tuple[str, ...]], test: str, places: tuple[int, int]) -> str:
        source = "at" if column == "day" and "hours({})" in function[0] else column
        return f"{function[0].format(source)} {test.format(*(function[1][place % len(function[1])] for place in places))}"

    return st.builds(
        predicate,
        columns,
        functions,
        tests,
        st.tuples(st.integers(0, 6), st.integers(0, 6)),
    )


PREDICATES = st.recursive(
    _leaves(),
    lambda inner: st.one_of(
        inner.map(lambda one: f"NOT ({one})"),
        st.builds(lambda one, word, other: f"({one}) {word} ({other})", inner, st.sampled_from(["AND", "OR"]), inner),
        inner.map(lambda one: f"({one}) <=> true"),
    ),
    max_leaves=4,
)
QUIET = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


def _ids(rows: list[Any]) -> list[int]:
    return sorted(row[0] for row in rows)


@given(predicate=PREDICATES, zone=st.sampled_from(["UTC", "America/New_York", "Asia/Kathmandu"]))
@settings(max_examples=examples(20), suppress_health_check=QUIET, derandomize=True)
def test_a_query_keeps_the_rows_that_spark_keeps_of_the_same_rows(table: Table, spark: SparkSession, predicate: str, zone: str) -> None:
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        found = spark.sql(f"SELECT id FROM lake.db.t WHERE {predicate}").collect()
        counted = spark.sql(f"SELECT count(*) FROM lake.db.t WHERE {predicate}").collect()
        wanted = _ids(spark.sql(f"SELECT id FROM plain WHERE {predicate}").collect())
    except Py4JError as error:
        # Before 4.3 Spark fails to convert `(x AND NULL) <=> true` to a predicate of any source, its own JDBC catalog included.
        if spark.version >= "4.3" or "util.V2ExpressionBuilder.generateExpression" not in str(error):
            raise
        reject()
    finally:
        spark.conf.unset("spark.sql.session.timeZone")
    assert _ids(found) == wanted
    assert counted[0][0] == len(wanted)


def test_a_translated_condition_of_a_delete_matches_exactly_its_rows(
    table: Table, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A DELETE of whole files relies on it. While Spark optimizes a DELETE, it passes the whole condition to the table, for EXPLAIN too."""
    translated: list[tuple[Any, list[BooleanExpression]]] = []

    def record(predicates: Any, schema: Schema) -> list[BooleanExpression | None]:
        expressions = to_expressions(predicates, schema)
        if None not in expressions:
            translated.append((predicates, [expression for expression in expressions if expression is not None]))
        return [None]  # so that Spark plans the statement by rows

    monkeypatch.setattr(write_builder, "to_expressions", record)
    checked = 0

    @given(predicate=PREDICATES)
    @settings(max_examples=40, suppress_health_check=QUIET, derandomize=True)
    def check(predicate: str) -> None:
        nonlocal checked
        translated.clear()
        spark.sql(f"EXPLAIN DELETE FROM lake.db.t WHERE {predicate}").collect()
        for predicates, expressions in translated:
            rows = table.scan(all_of(expressions), selected_fields=("id",)).to_arrow()
            expected = _ids(spark.sql(f"SELECT id FROM plain WHERE {predicate}").collect())
            assert sorted(rows["id"].to_pylist()) == expected, json.dumps(predicates)
            checked += 1

    check()
    assert checked >= 10


REFERENCE = {"kind": "reference", "parts": ["d"]}
NOT_A_NUMBER = {"kind": "literal", "type": '"double"', "value": "NaN"}


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        # Each predicate with the rows for which it is true; rows with null in d match only the predicates on null.
        (
            {"kind": "Not", "name": "NOT", "children": [{"kind": "Predicate", "name": ">=", "children": [REFERENCE, NOT_A_NUMBER]}]},
            "d < DOUBLE('NaN')",
        ),
        (
            {"kind": "Not", "name": "NOT", "children": [{"kind": "Predicate", "name": "<=>", "children": [REFERENCE, NOT_A_NUMBER]}]},
            "NOT (d <=> DOUBLE('NaN'))",
        ),
        (
            {"kind": "Not", "name": "NOT", "children": [{"kind": "Predicate", "name": "<>", "children": [REFERENCE, NOT_A_NUMBER]}]},
            "d = DOUBLE('NaN')",
        ),
        ({"kind": "Predicate", "name": ">", "children": [{"kind": "literal", "type": '"double"', "value": "0.0"}, REFERENCE]}, "d < 0"),
    ],
)
def test_the_negation_of_an_unknown_predicate_is_not_true(table: Table, spark: SparkSession, predicate: Any, expected: str) -> None:
    """Spark simplifies these predicates before it pushes them down; another version may not."""
    (said,) = to_expressions([predicate], table.schema())
    assert said is not None
    found = sorted(table.scan(said, selected_fields=("id",)).to_arrow()["id"].to_pylist())
    assert found == _ids(spark.sql(f"SELECT id FROM plain WHERE {expected}").collect())


@pytest.mark.parametrize(
    ("zone", "days"),
    [
        ("UTC", (0, 19783)),
        ("America/Sao_Paulo", (date(2018, 11, 4), date(2018, 2, 18))),  # clocks are set forward at midnight; back at midnight
        ("America/Havana", (date(2024, 3, 10), date(2024, 11, 3))),
        ("America/St_Johns", (date(2006, 10, 29), date(2006, 4, 2), date(2006, 10, 30))),  # back at one minute past midnight
        ("Pacific/Apia", (date(2011, 12, 30), date(2011, 12, 31))),  # a day that was skipped
        ("Africa/Monrovia", (date(1972, 1, 7), date(1960, 5, 5))),  # seconds beside whole minutes
        ("+18:00", (0, 19783)),
        ("-18:00", (0,)),
    ],
)
def test_days_begin_at_the_same_instant_as_in_spark(spark: SparkSession, zone: str, days: tuple[Any, ...]) -> None:
    """Compare every minute of the neighbouring days, and the microseconds around the first instant."""
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        for given in days:
            day = given if isinstance(given, int) else (given - date(1970, 1, 1)).days
            start = LocalDays(spark, zone).start(day)
            around = [] if start is None else [start - 1, start]
            instants = [*range((day - 2) * DAY_US, (day + 2) * DAY_US, 60_000_000), *around]
            frame = spark.createDataFrame(pa.table({"us": instants})).selectExpr(
                "us", f"CAST(timestamp_micros(us) AS DATE) >= DATE'1970-01-01' + {day}"
            )
            reached = {row[0]: row[1] for row in frame.collect()}
            firsts = [instant for instant in sorted(reached) if reached[instant]]
            if start is None:
                assert zone == "America/St_Johns"
                assert not all(reached[instant] for instant in sorted(reached) if instant >= firsts[0])
            else:
                assert firsts[0] == start
                assert all(reached[instant] == (instant >= start) for instant in reached)
    finally:
        spark.conf.unset("spark.sql.session.timeZone")


def _call(name: str, *children: Any) -> dict[str, Any]:
    return {"kind": "call", "name": name, "children": children}


def _literal(kind: str, value: Any) -> dict[str, Any]:
    return {"kind": "literal", "type": json.dumps(kind), "value": str(value)}


LOCAL, DAY, UUID = ({"kind": "reference", "parts": [name]} for name in ("local", "day", "u"))
DATE_OF_LOCAL = {"kind": "cast", "type": '"date"', "children": [LOCAL]}
YEAR_OF_LOCAL = {"kind": "Extract", "children": [DATE_OF_LOCAL], "text": "EXTRACT(YEAR FROM CAST(local AS date))"}


@pytest.mark.parametrize(
    ("predicate", "said"),
    [
        (_call("=", YEAR_OF_LOCAL, _literal("integer", 2024)), "local >= 1704067200000000 AND local < 1735689600000000"),
        (_call("<=>", DATE_OF_LOCAL, _literal("date", 0)), "local >= 0 AND local < 86400000000"),
        (_call("=", _call("TRUNC", DAY, _literal("string", "MM")), _literal("date", 31)), "day >= 31 AND day < 59"),
        (_call("=", _call("TRUNC", DAY, _literal("string", "MM")), _literal("date", 32)), "FALSE"),
        (_call(">", UUID, _literal("string", UUIDS[2])), f"u > '{UUIDS[2]}'"),
        (_call("=", UUID, _literal("string", "8")), "None"),
    ],
)
def test_dates_of_times_and_uuids_become_ranges(predicate: dict[str, Any], said: str) -> None:
    schema = Schema(NestedField(1, "local", TimestampType()), NestedField(2, "day", DateType()), NestedField(3, "u", UUIDType()))
    assert [str(one) for one in to_expressions([predicate], schema)] == [said]
