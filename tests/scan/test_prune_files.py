"""Pruning of data files: no matching row is lost, compared with brute force; and the bound that decides is explained."""

import math
import struct
from itertools import compress

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import examples
from tests.spec.brute_force import SCHEMA, arrow_table, filters, some_columns, truth
from tests.spec.random_files import RandomFile, columns_of, specs, tables

from icefloe.scan.decisions import Reason
from icefloe.scan.pruning import FileMetricsEvaluator, explain, inclusive_mask, required_statistics, strict_mask
from icefloe.spec.expressions.bind import bind
from icefloe.spec.expressions.filter_parser import parse_filter
from icefloe.spec.expressions.row_evaluator import arrow_mask
from icefloe.spec.manifest.manifest_columns import ManifestColumns, every_statistic, statistic_column
from icefloe.spec.partitioning.partition_spec import PartitionField, PartitionSpec
from icefloe.spec.partitioning.transforms import (
    BucketTransform,
    DayTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    parse_transform,
)

UNPARTITIONED = PartitionSpec()


@settings(max_examples=examples(300))
@given(st.data())
def test_no_file_with_a_matching_row_is_skipped_and_a_covered_file_matches_whole(data):
    columns = data.draw(some_columns())
    spec = data.draw(specs(columns))
    files = data.draw(tables(spec, columns))
    expression = data.draw(filters(columns))
    bound = bind(expression, SCHEMA)
    table = columns_of(files, spec)
    may, must = inclusive_mask(table, bound, spec, SCHEMA), strict_mask(table, bound, spec, SCHEMA)
    for index, file in enumerate(files):
        matches = [truth(expression, row) is True for row in file.rows]
        assert may[index] or not any(matches), (str(bound), file)
        assert not must[index] or all(matches), (str(bound), file)


@pytest.mark.parametrize(
    ("column", "transform", "value", "text", "left"),
    [
        ("s", "identity", "JFK", "s = 'JFK' AND i > 5", "i > 5"),
        ("s", "identity", "JFK", "s = 'EWR' AND i > 5", "FALSE"),
        ("s", "identity", None, "s != 'EWR' OR i > 5", "s != 'EWR' OR i > 5"),
        ("s", "identity", None, "s IS NULL", "TRUE"),
        ("t", "month", 521, "t >= '2013-06-01' AND t < '2013-07-01'", "TRUE"),
        ("t", "month", 522, "t >= '2013-06-15'", "TRUE"),
        ("t", "month", 521, "t >= '2013-06-15'", "t >= TIMESTAMP '2013-06-15 00:00:00'"),
        ("i", "bucket[16]", 4, "i = 34", "FALSE"),
        ("i", "bucket[16]", 3, "i = 34", "i = 34"),
        ("i", "void", None, "i = 34", "i = 34"),
    ],
)
def test_a_residual_keeps_the_predicates_that_the_partition_does_not_decide(column, transform, value, text, left):
    spec = PartitionSpec(PartitionField(SCHEMA.find_field(column).field_id, 1000, parse_transform(transform), "p"))
    test = FileMetricsEvaluator(columns_of([RandomFile([{}], (value,))], spec), bind(parse_filter(text), SCHEMA), spec, SCHEMA)
    (residual,), _ = test.residuals(np.array([True]))
    assert str(residual) == left


@settings(max_examples=examples(200))
@given(st.data())
def test_a_residual_keeps_the_same_rows_as_the_filter(data):
    columns = data.draw(some_columns())
    spec = data.draw(specs(columns))
    files = data.draw(tables(spec, columns))
    expression = data.draw(filters(columns))
    test = FileMetricsEvaluator(columns_of(files, spec), bind(expression, SCHEMA), spec, SCHEMA)
    chosen = np.array(data.draw(st.lists(st.booleans(), min_size=len(files), max_size=len(files))), dtype=bool)
    residuals, index = test.residuals(chosen)
    assert len(index) == chosen.sum()
    for file, position in zip(compress(files, chosen), index, strict=True):
        kept = arrow_mask(residuals[position], arrow_table(file.rows)).to_pylist()
        assert kept == [truth(expression, row) is True for row in file.rows]


@settings(max_examples=examples(150))
@given(st.data())
def test_every_skipped_file_has_an_explanation(data):
    columns = data.draw(some_columns())
    spec = data.draw(specs(columns))
    files = data.draw(tables(spec, columns))
    bound = bind(data.draw(filters(columns)), SCHEMA)
    table = columns_of(files, spec)
    for (reason, explanation), keep in zip(explain(table, bound, spec, SCHEMA), inclusive_mask(table, bound, spec, SCHEMA), strict=True):
        if keep:
            assert reason in (Reason.MAY_MATCH, Reason.ALL_MATCH)
        else:
            assert explanation or reason is Reason.NEVER_TRUE
            assert "unknown" not in explanation


def one_file(**slots):
    """Return the columns of one file of 10 rows of an unpartitioned table, with these slot columns."""
    values = {"record_count": 10, **{name.replace("_of_", "."): value for name, value in slots.items()}}
    return ManifestColumns(
        pa.table({name: pa.array([value], pa.binary() if "bound" in name else pa.int64()) for name, value in values.items()})
    )


def decision(text, **slots):
    return explain(one_file(**slots), bind(parse_filter(text), SCHEMA), UNPARTITIONED, SCHEMA)[0]


FIVE_TO_NINE = {"lower_bound_of_1": struct.pack("<i", 5), "upper_bound_of_1": struct.pack("<i", 9), "null_value_count_of_1": 0}
TEXTS = {"lower_bound_of_3": b"c8y_Alarm", "upper_bound_of_3": b"c8y_Event", "null_value_count_of_3": 0}
FLOATS = {"lower_bound_of_4": struct.pack("<d", -0.0), "upper_bound_of_4": struct.pack("<d", 2.0), "null_value_count_of_4": 0}


@pytest.mark.parametrize(
    ("text", "slots", "explanation"),
    [
        ("i = 10", FIVE_TO_NINE, "i: upper bound 9 < 10"),
        ("i = 4", FIVE_TO_NINE, "i: lower bound 5 > 4"),
        ("i > 9", FIVE_TO_NINE, "i: upper bound 9 <= 9"),
        ("i >= 10", FIVE_TO_NINE, "i: upper bound 9 < 10"),
        ("i < 5", FIVE_TO_NINE, "i: lower bound 5 >= 5"),
        ("i <= 4", FIVE_TO_NINE, "i: lower bound 5 > 4"),
        ("i IN (1, 10, 11)", FIVE_TO_NINE, "i: 5 to 9 contains none of 1, 10, 11"),
        ("i IN (10, 11)", FIVE_TO_NINE, "i: upper bound 9 < 10"),
        ("i IN (1, 2, 3, 4)", FIVE_TO_NINE, "i: lower bound 5 > 4"),
        ("i IS NULL", FIVE_TO_NINE, "i: no nulls"),
        ("i IS NOT NULL", {"null_value_count_of_1": 10}, "i: only nulls"),
        ("i = 1", {"null_value_count_of_1": 10}, "i: only nulls"),
        ("i != 5", {**FIVE_TO_NINE, "upper_bound_of_1": struct.pack("<i", 5)}, "i: every value is 5"),
        ("s = 'd'", TEXTS, "s: upper bound 'c8y_Event' < 'd'"),
        (r"s LIKE 'c8y\_F%'", TEXTS, "s: upper bound 'c8y_Event' < 'c8y_F'"),
        ("s LIKE 'b%'", TEXTS, "s: lower bound 'c8y_Alarm' is above every text that starts with 'b'"),
        ("s NOT LIKE 'c8y%'", TEXTS, "s: every value starts with 'c8y'"),
        ("f < 0.0", FLOATS, "f: lower bound -0.0 >= 0.0"),
        ("f > 2", {**FLOATS, "nan_value_count_of_4": 0}, "f: upper bound 2.0 <= 2.0"),
        ("f IS NAN", {**FLOATS, "nan_value_count_of_4": 0}, "f: no NaN"),
        ("f < 5", {"nan_value_count_of_4": 10, "null_value_count_of_4": 0}, "f: only NaN"),
        ("f IS NOT NAN", {"nan_value_count_of_4": 10, "null_value_count_of_4": 0}, "f: only NaN"),
        ("i > 3 AND s = 'd'", {**FIVE_TO_NINE, **TEXTS}, "s: upper bound 'c8y_Event' < 'd'"),
        ("i > 9 OR s = 'd'", {**FIVE_TO_NINE, **TEXTS}, "i: upper bound 9 <= 9 and s: upper bound 'c8y_Event' < 'd'"),
        ("d < '1970-01-02'", {"lower_bound_of_6": struct.pack("<i", 365)}, "d: lower bound 1971-01-01 >= 1970-01-02"),
    ],
)
def test_a_file_is_skipped_by_the_bound_that_decides(text, slots, explanation):
    assert decision(text, **slots) == (Reason.BY_METRICS, explanation)


@pytest.mark.parametrize(
    ("text", "slots"),
    [
        ("i = 10", {}),
        ("i > 9", {"lower_bound_of_1": struct.pack("<i", 5)}),
        ("i < 5", {"upper_bound_of_1": struct.pack("<i", 9)}),
        ("i IS NULL", {}),
        ("i IS NULL", {"null_value_count_of_1": 1}),
        ("i IS NULL", {"null_value_count_of_1": 0, "value_count_of_1": 9}),
        ("i IS NOT NULL", {"null_value_count_of_1": 9}),
        ("i = 7", {"null_value_count_of_1": 10, **{name: value for name, value in FIVE_TO_NINE.items() if "bound" in name}}),
        ("i != 5", {"lower_bound_of_1": struct.pack("<i", 5), "upper_bound_of_1": struct.pack("<i", 5)}),
        ("i = 10", {"lower_bound_of_1": struct.pack("<i", 9), "upper_bound_of_1": struct.pack("<i", 5)}),
        ("i = 10", {"upper_bound_of_1": b"\x09"}),
        ("f > 2", FLOATS),
        ("f >= 3", {**FLOATS, "nan_value_count_of_4": 1}),
        ("f = 3", {"upper_bound_of_4": struct.pack("<d", math.nan)}),
        ("f = 0.0", FLOATS),
        ("s = 'c8y_Beta'", TEXTS),
        ("s != 'x'", {"null_value_count_of_3": 10}),
        ("i = 1", {"null_value_count_of_1": 0, "record_count": -1}),
    ],
)
def test_a_file_with_unknown_statistics_is_kept(text, slots):
    assert decision(text, **slots) == (Reason.MAY_MATCH, "")


@pytest.mark.parametrize(
    ("text", "slots"),
    [
        ("i >= 5 AND i < 10", FIVE_TO_NINE),
        ("i != 4", FIVE_TO_NINE),
        ("i NOT IN (1, 2, 10)", FIVE_TO_NINE),
        ("i = 5", {**FIVE_TO_NINE, "upper_bound_of_1": struct.pack("<i", 5)}),
        ("s LIKE 'c8y%'", TEXTS),
        ("s NOT LIKE 'c9%'", TEXTS),
        ("i IS NULL", {"null_value_count_of_1": 10}),
        ("f > -1", FLOATS),  # NaN is greater, too
        ("f > 100", {"nan_value_count_of_4": 10, "null_value_count_of_4": 0}),
    ],
)
def test_a_file_is_covered_where_its_bounds_prove_it(text, slots):
    assert decision(text, **slots) == (Reason.ALL_MATCH, "")


@pytest.mark.parametrize(
    ("text", "slots"),
    [
        ("i >= 5", {name: value for name, value in FIVE_TO_NINE.items() if "bound" in name}),
        ("i >= 5", {**FIVE_TO_NINE, "null_value_count_of_1": 1}),
        ("i != 4", {**FIVE_TO_NINE, "null_value_count_of_1": 1}),
        ("f < 3", FLOATS),
        ("f < 3", {**FLOATS, "nan_value_count_of_4": 1}),
    ],
)
def test_a_file_that_may_have_a_null_or_nan_is_not_covered(text, slots):
    assert not strict_mask(one_file(**slots), bind(parse_filter(text), SCHEMA), UNPARTITIONED, SCHEMA).any()


def test_a_file_without_rows_is_skipped_and_covered():
    columns = one_file(record_count=0)
    bound = bind(parse_filter("i = 1"), SCHEMA)
    assert explain(columns, bound, UNPARTITIONED, SCHEMA) == [(Reason.NO_ROWS, "")]
    assert strict_mask(columns, bound, UNPARTITIONED, SCHEMA).all()


def test_a_large_in_list_is_pruned_by_its_least_and_largest_value():
    bound = bind(parse_filter(f"i IN ({', '.join(map(str, range(10, 1000)))})"), SCHEMA)
    assert explain(one_file(**FIVE_TO_NINE), bound, UNPARTITIONED, SCHEMA) == [(Reason.BY_METRICS, "i: upper bound 9 < 10")]


def test_a_partition_value_decides_before_statistics():
    spec = PartitionSpec(
        PartitionField(7, 1000, MonthTransform(), "t_month"),
        PartitionField(3, 1001, IdentityTransform(), "s"),
        PartitionField(1, 1002, BucketTransform(4), "i_bucket"),
        PartitionField(2, 1003, TruncateTransform(10), "l_trunc"),
    )
    columns = ManifestColumns(
        pa.table(
            {
                "record_count": [10],
                "partition.1000": pa.array([518], pa.int32()),
                "partition.1001": ["JFK"],
                "partition.1002": pa.array([2], pa.int32()),
                "partition.1003": pa.array([None], pa.int64()),
            }
        )
    )

    def decision_of(text):
        return explain(columns, bind(parse_filter(text), SCHEMA), spec, SCHEMA)[0]

    assert decision_of("t >= '2013-06-01'") == (Reason.BY_PARTITION, "partition t_month is 2013-03, required: >= 2013-06")
    assert decision_of("s = 'EWR'") == (Reason.BY_PARTITION, "partition s is 'JFK', required: = 'EWR'")
    assert decision_of("s LIKE 'E%' AND i = 1") == (Reason.BY_PARTITION, "partition s is 'JFK', required: a text that starts with 'E'")
    assert decision_of("l = 15") == (Reason.BY_PARTITION, "partition l_trunc is null, required: = 10")
    assert decision_of("s = 'JFK' AND l IS NULL") == (Reason.ALL_MATCH, "")
    assert decision_of("t >= '2013-03-15'") == (Reason.MAY_MATCH, "")


@settings(max_examples=examples(300))
@given(st.data())
def test_statistics_that_are_not_required_do_not_change_the_masks(data):
    columns = data.draw(some_columns())
    spec = data.draw(specs(columns))
    full = columns_of(data.draw(tables(spec, columns)), spec)
    bound = bind(data.draw(filters(columns)), SCHEMA)
    every = {statistic_column(*statistic) for statistic in every_statistic(SCHEMA.field_ids)}

    def thin(*, strict):
        required = {statistic_column(*statistic) for statistic in required_statistics(bound, spec, SCHEMA, strict=strict)}
        return ManifestColumns(full.entries.drop_columns(sorted(every & set(full.entries.column_names) - required)))

    for strict in (False, True):
        assert inclusive_mask(thin(strict=strict), bound, spec, SCHEMA).tolist() == inclusive_mask(full, bound, spec, SCHEMA).tolist()
    assert strict_mask(thin(strict=True), bound, spec, SCHEMA).tolist() == strict_mask(full, bound, spec, SCHEMA).tolist()


def test_statistics_are_required_only_of_columns_that_no_partition_decides():
    spec = PartitionSpec(
        PartitionField(3, 1000, IdentityTransform(), "s"),
        PartitionField(1, 1001, BucketTransform(4), "b"),
        PartitionField(7, 1002, DayTransform(), "d"),
    )
    counts, bounds = ("value_count", "null_value_count"), ("lower_bound", "upper_bound")

    def required(text, *, strict=False):
        return required_statistics(bind(parse_filter(text), SCHEMA), spec, SCHEMA, strict=strict)

    assert required("TRUE") == required("s = 'a'") == required("i IS NULL") == required("t >= '2024-03-01' AND t < '2024-03-02'") == set()
    assert required("t < '2024-03-01 12:00:00'") == {(name, 7) for name in counts + bounds}
    assert required("s = 'a' AND i = 1") == {(name, 1) for name in counts + bounds}
    assert required("l IS NULL") == {(name, 2) for name in counts}
    assert required("l IS NULL", strict=True) == {(name, 2) for name in counts + bounds}
    assert required("f > 1 OR f IS NAN") == {(name, 4) for name in (*counts, "nan_value_count", *bounds)}


def test_a_hundred_thousand_files_are_pruned_as_columns():
    count = 100_000
    numbers = np.arange(count, dtype="<i4")
    bounds = pa.Array.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(np.arange(0, 4 * count + 1, 4, dtype=np.int32)), pa.py_buffer(numbers.tobytes())]
    )
    columns = ManifestColumns(
        pa.table(
            {
                "record_count": np.full(count, 5),
                "lower_bound.1": bounds,
                "upper_bound.1": bounds,
                "null_value_count.1": np.zeros(count, "int64"),
            }
        )
    )
    mask = inclusive_mask(columns, bind(parse_filter("i BETWEEN 10 AND 19"), SCHEMA), UNPARTITIONED, SCHEMA)
    assert np.flatnonzero(mask).tolist() == list(range(10, 20))
