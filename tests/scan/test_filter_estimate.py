"""The estimated share of rows that a filter keeps: within limits and monotone for any statistics, exact for evenly spread values and for counts."""

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import examples
from tests.spec.brute_force import SCHEMA, filters, some_columns, truth
from tests.spec.random_files import columns_of, specs, tables

from icefloe.catalog.in_memory_catalog import InMemoryCatalog
from icefloe.scan.filter_estimate import LEAST_SHARE, kept_share, kept_shares
from icefloe.spec.expressions import predicate as p
from icefloe.spec.expressions.bind import bind
from icefloe.spec.expressions.filter_parser import parse_filter
from icefloe.spec.manifest.manifest_columns import ManifestColumns
from icefloe.spec.values import to_bytes

# Fractions of files are compared with counts of rows.
CLOSE = pytest.approx
EPOCH = date(1970, 1, 1).toordinal()


def files_of(column: str, files: Sequence[Sequence[Any]]) -> ManifestColumns:
    """Return the entries of files whose rows have these values in a column."""
    field = SCHEMA.find_field(column)
    bounds = [sorted(value for value in values if value is not None) for values in files]
    return ManifestColumns(
        pa.table(
            {
                "record_count": pa.array([len(values) for values in files], pa.int64()),
                f"null_value_count.{field.field_id}": pa.array([list(values).count(None) for values in files], pa.int64()),
                f"lower_bound.{field.field_id}": pa.array([to_bytes(field.field_type, b[0]) if b else None for b in bounds], pa.binary()),
                f"upper_bound.{field.field_id}": pa.array([to_bytes(field.field_type, b[-1]) if b else None for b in bounds], pa.binary()),
            }
        )
    )


def estimated(text: str, columns: ManifestColumns, distinct: dict[int, int] | None = None) -> list[float]:
    return [float(share) for share in kept_shares(columns, bind(parse_filter(text), SCHEMA), distinct or {})]


@settings(max_examples=examples(150))
@given(st.data())
def test_a_share_is_between_0_and_1_and_more_terms_change_it_in_one_direction(data):
    columns = data.draw(some_columns())
    spec = data.draw(specs(columns))
    entries = columns_of(data.draw(tables(spec, columns)), spec)
    one, other = bind(data.draw(filters(columns)), SCHEMA), bind(data.draw(filters(columns)), SCHEMA)
    distinct = data.draw(st.dictionaries(st.sampled_from(sorted(SCHEMA.field_ids)), st.integers(0, 20)))
    share, both, either = (kept_shares(entries, expression, distinct) for expression in (one, p.And(one, other), p.Or(one, other)))
    for shares in (share, both, either):
        assert ((shares >= 0) & (shares <= 1)).all()
    assert (both <= share + 1e-9).all(), (str(one), str(other))
    assert (either >= share - 1e-9).all(), (str(one), str(other))


@st.composite
def even_files(draw: st.DrawFn, column: str) -> list[list[Any]]:
    """Generate files that have each number between two bounds equally often, and nulls."""
    files = []
    for _ in range(draw(st.integers(1, 3))):
        low = draw(st.integers(-20, 20))
        numbers = range(low, low + draw(st.integers(1, 12)))
        values = [Decimal(number).scaleb(-2) if column == "m" else number for number in numbers]
        files.append(values * draw(st.integers(1, 2)) + [None] * draw(st.integers(0, 3)))
    return files


@st.composite
def conditions(draw: st.DrawFn, column: str) -> p.BooleanExpression:
    """Generate a conjunction of ranges of a column, or another test of it."""
    numbers = st.integers(-25, 25)
    value = numbers.map(lambda number: Decimal(number).scaleb(-2)) if column == "m" else numbers
    value = value.map(lambda number: date.fromordinal(EPOCH + number)) if column == "d" else value
    ranges = st.sampled_from([p.LessThan, p.LessThanOrEqual, p.GreaterThan, p.GreaterThanOrEqual])
    of_one = st.builds(lambda kind, literal: kind(column, literal), st.sampled_from([p.EqualTo, p.NotEqualTo]), value)
    of_set = st.builds(
        lambda kind, literals: kind(column, literals), st.sampled_from([p.In, p.NotIn]), st.lists(value, min_size=1, max_size=4)
    )
    of_range = st.builds(lambda kind, literal: kind(column, literal), ranges, value)
    of_ranges = st.lists(of_range, min_size=1, max_size=3).map(p.all_of)
    return draw(st.one_of(of_ranges, of_one, of_set, st.sampled_from([p.IsNull(column), p.NotNull(column)])))


@pytest.mark.parametrize("column", ["i", "l", "d", "m"])
@settings(max_examples=examples(50))
@given(data=st.data())
def test_the_share_of_evenly_spread_values_is_exact(column, data):
    files = data.draw(even_files(column))
    expression = data.draw(conditions(column))
    shares = kept_shares(files_of(column, files), bind(expression, SCHEMA), {})
    for values, share in zip(files, shares, strict=True):
        rows = [None if value is None else date.fromordinal(EPOCH + value) if column == "d" else value for value in values]
        kept = sum(truth(expression, {column: value}) is True for value in rows)
        assert share * len(values) == CLOSE(kept, abs=1e-6), (str(expression), values)


def test_ranges_of_one_column_are_one_interval_and_those_of_two_columns_are_independent() -> None:
    day = files_of("d", [[0, 999]])
    assert estimated("d >= '1970-04-11' AND d < '1970-07-20'", day) == [CLOSE(0.1)]
    assert estimated("d < '1970-04-11' OR d >= '1972-01-01'", day) == [CLOSE(0.1 + 0.27)]
    assert estimated("d >= '1970-07-20' AND d < '1970-04-11'", day) == [0.0]
    numbers = files_of("i", [[1, 4]]).entries
    both = day.entries
    for name in numbers.column_names[1:]:
        both = both.append_column(name, numbers[name])
    assert estimated("d < '1970-04-11' AND i = 2", ManifestColumns(both)) == [CLOSE(0.1 / 4)]


def test_times_and_floats_are_estimated_by_the_share_of_their_range() -> None:
    hours = files_of("t", [[0, 24 * 3_600_000_000]])
    assert estimated("t < '1970-01-01T06:00:00'", hours) == [CLOSE(0.25)]
    floats = files_of("f", [[-1.0, 3.0]])
    assert estimated("f < 0.0", floats) == [CLOSE(0.25)]
    assert estimated("f > 0.0", floats) == [1.0]  # the values may be NaN, which is above all numbers
    assert estimated("f = 0.0", floats) == [1.0]
    infinite = files_of("f", [[float("-inf"), float("inf")], [-1.7e308, 1.7e308]])
    assert estimated("f < 0.0", infinite) == [1.0, 1.0]


def test_what_no_statistic_describes_counts_as_kept() -> None:
    names = files_of("s", [["a", "b", None, "c"]])
    for text in ("s = 'b'", "s LIKE 'b%'", "s <> 'b'", "s IN ('a', 'b')", "s > 'b'"):
        assert estimated(text, names) == [0.75], text
    assert estimated("s = 'b'", names, {3: 3}) == [CLOSE(0.25)]
    assert estimated("s <> 'b'", names, {3: 3}) == [CLOSE(0.5)]
    assert estimated("s IN ('a', 'b')", names, {3: 3}) == [CLOSE(0.5)]
    bare = ManifestColumns(pa.table({"record_count": pa.array([5], pa.int64())}))
    for text in ("i < 3", "i = 3", "i IS NULL", "i IS NOT NULL", "NOT i = 3", "b", "m > 1.5"):
        assert estimated(text, bare) == [1.0], text


def test_the_number_of_distinct_values_counts_for_equality_where_fewer_values_than_numbers_exist() -> None:
    keys = files_of("l", [[1, 1000]])
    assert estimated("l = 7", keys) == [CLOSE(0.001)]
    assert estimated("l = 7", keys, {2: 10}) == [CLOSE(0.1)]
    assert estimated("l = 2000", keys, {2: 10}) == [0.0]
    assert estimated("l IN (7, 9, 2000)", keys, {2: 10}) == [CLOSE(0.2)]


def test_the_share_of_a_plan_has_a_least_value_and_covered_files_count_whole() -> None:
    catalog = InMemoryCatalog("lake")
    catalog.create_namespace("db")
    rows = pa.table({"id": pa.array(range(1000), pa.int64())})
    table = catalog.create_table("db.t", rows.schema)
    table.append(rows)
    table.append(pa.table({"id": pa.array(range(5000, 6000), pa.int64())}))

    def share(text: str) -> float:
        return kept_share(catalog.load_table("db.t").scan(text).plan(find_covered=True, include_tested=True), {})

    assert share("id < 500") == CLOSE(0.5)
    assert share("id < 1") == LEAST_SHARE
    assert share("id >= 500") == CLOSE(0.75)  # one file half, the other whole
    assert share("true") == 1.0
    assert share("id < 0") == 1.0  # without files there is nothing to estimate


def test_a_share_is_one_number_for_each_file() -> None:
    shares = kept_shares(files_of("i", [[1, 10], [1, 100], [50, 60], [None]]), bind(parse_filter("i <= 10"), SCHEMA), {})
    assert np.allclose(shares, [1.0, 0.1, 0.0, 0.0])
