"""Files that may have one of the first rows of an ORDER BY with LIMIT, compared with brute force over the rows."""

import math
from dataclasses import replace
from functools import cmp_to_key
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import examples
from tests.spec.brute_force import SCHEMA, VALUES, filters, some_columns, truth
from tests.spec.random_files import RandomFile, columns_of, files_of, specs

from icefloe.scan.first_rows import RowOrder, files_of_first_rows, is_sorted_as_bounds
from icefloe.scan.scan_plan import PlannedFiles, ScanPlan
from icefloe.spec.expressions.bind import bind
from icefloe.spec.expressions.filter_parser import parse_filter
from icefloe.spec.expressions.predicate import AlwaysTrue, BooleanExpression
from icefloe.spec.manifest.data_file import DataFile, FileContent, FileFormat
from icefloe.spec.partitioning.partition_spec import PartitionSpec, partition_type
from icefloe.spec.types import PrimitiveType
from icefloe.spec.values import to_bytes

UNPARTITIONED = PartitionSpec()
# Names of the columns that a query may sort by; those with NaN and with bounds that are shortened are drawn more often.
SORTED = [*(field.name for field in SCHEMA.fields if is_sorted_as_bounds(field.field_type)), *"fffgss"]


def delete_file(content: FileContent, rows: int) -> DataFile:
    return DataFile(
        content=content,
        file_path="d",
        file_format=FileFormat.PARQUET,
        partition=(),
        record_count=rows,
        file_size_in_bytes=1,
        equality_ids=(1,) if content is FileContent.EQUALITY_DELETES else None,
    )


def plan_of(files: list[RandomFile], spec: PartitionSpec, deletes: list[list[DataFile]]) -> ScanPlan:
    """Return a plan of the files, with delete files for each."""
    entries = columns_of(files, spec).entries
    offsets = np.cumsum([0, *map(len, deletes)])
    part = PlannedFiles(
        entries=entries,
        spec_id=spec.spec_id,
        partition_type=partition_type(spec, SCHEMA),
        residuals=(AlwaysTrue(),),
        residual_index=np.zeros(len(files), np.int64),
        covered=None,
        statistics=(),
        delete_offsets=offsets,
        delete_indices=np.arange(offsets[-1]),
        delete_files=[file for of_file in deletes for file in of_file],
    )
    return ScanPlan(snapshot_id=1, schema=SCHEMA, row_filter=AlwaysTrue(), parts=(part,))


def compare(order: RowOrder, left: Any, right: Any) -> int:
    """Compare values as Spark does: NaN is above all other numbers, and both zeros are equal."""
    if left is None or right is None:
        return 0 if left is right else -1 if (left is None) == order.nulls_first else 1
    nans = [isinstance(value, float) and math.isnan(value) for value in (left, right)]
    ascending = nans[0] - nans[1] if any(nans) else (left > right) - (left < right)
    return -ascending if order.is_descending else ascending


def order_of(name: str, *, is_descending: bool, nulls_first: bool, is_only_column: bool) -> RowOrder:
    column = SCHEMA.find_field(name)
    assert isinstance(column.field_type, PrimitiveType)
    return RowOrder(
        field_id=column.field_id,
        kind=column.field_type,
        is_descending=is_descending,
        nulls_first=nulls_first,
        is_only_column=is_only_column,
    )


def random_deletes(chance: Random, file: RandomFile) -> tuple[list[dict[str, Any]], list[DataFile]]:
    """Delete some rows of a file; return the live rows and the delete files, which may count rows of other files too."""
    kind = chance.choice(["none", "none", "vector", "positions", "equality"])
    if kind == "none":
        return file.rows, []
    live = [row for row in file.rows if chance.random() < 0.6]
    count = len(file.rows) - len(live)
    if kind == "equality":
        return live, [delete_file(FileContent.EQUALITY_DELETES, 1)]
    if kind == "vector":
        return live, [replace(delete_file(FileContent.POSITION_DELETES, count), file_format=FileFormat.PUFFIN)]
    first = chance.randint(0, count)
    return live, [
        delete_file(FileContent.POSITION_DELETES, first),
        delete_file(FileContent.POSITION_DELETES, count - first + chance.randint(0, 2)),
    ]


def random_files(chance: Random, spec: PartitionSpec, columns: tuple[str, ...]) -> list[RandomFile]:
    """Return files whose rows have neighbouring values of the first column, so that many files are before others."""
    values = {name: sorted(VALUES[name], key=lambda value: (value != value, value)) for name in columns}  # noqa: PLR0124 NaN is last
    files: list[RandomFile] = []
    for _ in range(chance.randint(2, 6)):
        start, width = chance.randrange(len(values[columns[0]])), chance.randint(1, 3)
        rows = []
        for _ in range(chance.randint(1, 4)):
            row = {name: chance.choice([None, *values[name]]) for name in columns[1:]}
            first = None if chance.random() < 0.2 else chance.choice(values[columns[0]][start : start + width])
            rows.append({**dict.fromkeys(VALUES), **row, columns[0]: first})
        files += files_of(rows, spec, columns, chance, sloppy=chance.random() < 0.5)
    return files


@settings(max_examples=examples(250), deadline=None)
@given(st.data())
def test_the_first_rows_of_the_kept_files_are_those_of_all_files(data: st.DataObject) -> None:
    columns = data.draw(st.sampled_from(SORTED).map(lambda name: (name,)) | some_columns().filter(lambda names: names[0] in SORTED))
    spec = data.draw(st.just(UNPARTITIONED) | specs(columns))
    expression = data.draw(filters(columns) | st.just(AlwaysTrue()))
    chance = Random(data.draw(st.integers(0, 2**32)))
    for _ in range(10):  # drawing an example takes longer than the choice of files
        check_files(chance, spec, columns, expression)


def check_files(chance: Random, spec: PartitionSpec, columns: tuple[str, ...], expression: BooleanExpression) -> None:
    """Compare the first rows of the kept files with those of all files, for random files, deletes and orders."""
    files = random_files(chance, spec, columns)
    if not files:
        return
    live, deletes = zip(*(random_deletes(chance, file) for file in files), strict=True)
    order = order_of(columns[0], **{name: chance.random() < 0.5 for name in ("is_descending", "nulls_first", "is_only_column")})
    count = chance.randint(1, 5)
    plan = plan_of(files, spec, list(deletes))
    (mask,) = files_of_first_rows(plan, order, count, row_filter=bind(expression, SCHEMA), specs={spec.spec_id: spec})
    # A second column orders rows with equal values.
    rows = [
        (row[columns[0]], chance.random(), number) for number, rows in enumerate(live) for row in rows if truth(expression, row) is True
    ]
    key = cmp_to_key(lambda left, right: compare(order, left[0], right[0]) or (left[1] > right[1]) - (left[1] < right[1]))
    first, kept = sorted(rows, key=key)[:count], sorted((row for row in rows if mask[row[2]]), key=key)[:count]
    if order.is_only_column:
        assert [compare(order, left[0], right[0]) for left, right in zip(first, kept, strict=True)] == [0] * len(first)
    else:
        assert first == kept


def numbers(*ranges: tuple[int | None, int | None], nulls: int = 0, rows: int = 10) -> list[RandomFile]:
    """Return files of the column `i` with these bounds, each with some nulls."""
    kind = SCHEMA.find_field("i").field_type
    assert isinstance(kind, PrimitiveType)
    return [
        RandomFile(
            [{}] * rows,
            (),
            {
                "value_count.1": rows,
                "null_value_count.1": nulls,
                "lower_bound.1": None if lower is None else to_bytes(kind, lower),
                "upper_bound.1": None if upper is None else to_bytes(kind, upper),
            },
        )
        for lower, upper in ranges
    ]


@pytest.mark.parametrize(
    ("files", "order", "count", "kept"),
    [
        (numbers((0, 9), (10, 19), (20, 29)), {}, 5, [0]),
        (numbers((0, 9), (10, 19), (20, 29)), {}, 11, [0, 1]),
        (numbers((0, 9), (10, 19), (20, 29)), {"is_descending": True}, 10, [2]),
        (numbers((0, 15), (10, 19), (20, 29)), {}, 5, [0, 1]),
        (numbers((0, 9), (10, 19), (20, 29)), {}, 31, [0, 1, 2]),
        (numbers((0, 9), (None, 19), (20, 29)), {}, 5, [0, 1]),
        (numbers((0, 9), (10, None), (20, 29)), {}, 5, [0]),
        (numbers((5, 5), (5, 5), (5, 9)), {}, 10, [0]),
        (numbers((5, 5), (5, 5), (6, 9)), {"is_only_column": False}, 10, [0, 1]),
        (numbers((0, 9), (10, 19), nulls=5), {"nulls_first": True}, 5, [0]),
        (numbers((0, 9), (10, 19), nulls=5), {"nulls_first": True, "is_only_column": False}, 5, [0, 1]),
        (numbers((0, 9), (10, 19), nulls=5), {"nulls_first": False}, 5, [0]),
        (numbers((0, 9), (10, 19), nulls=5), {"nulls_first": False}, 6, [0, 1]),
    ],
)
def test_files_are_skipped_once_enough_rows_are_before_them(
    files: list[RandomFile], order: dict[str, bool], count: int, kept: list[int]
) -> None:
    given_order = {"is_descending": False, "nulls_first": True, "is_only_column": True, **order}
    plan = plan_of(files, UNPARTITIONED, [[] for _ in files])
    (mask,) = files_of_first_rows(plan, order_of("i", **given_order), count, row_filter=AlwaysTrue(), specs={0: UNPARTITIONED})
    assert np.flatnonzero(mask).tolist() == kept


@pytest.mark.parametrize(
    ("nans", "is_descending", "kept"),
    [(0, False, [0]), (5, False, [0]), (6, False, [0, 1]), (None, False, [0, 1]), (5, True, [0]), (4, True, [0, 1]), (None, True, [0, 1])],
)
def test_nan_is_above_all_other_numbers(nans: int | None, is_descending: bool, kept: list[int]) -> None:
    kind = SCHEMA.find_field("f").field_type
    assert isinstance(kind, PrimitiveType)
    counts = {"value_count.4": 10, "null_value_count.4": 0}
    files = [
        RandomFile(
            [{}] * 10,
            (),
            {**counts, "nan_value_count.4": count, "lower_bound.4": to_bytes(kind, low), "upper_bound.4": to_bytes(kind, low + 9)},
        )
        for count, low in ((nans, 0.0), (0, 10.0))
    ]
    order = order_of("f", is_descending=is_descending, nulls_first=True, is_only_column=True)
    (mask,) = files_of_first_rows(plan_of(files, UNPARTITIONED, [[], []]), order, 5, row_filter=AlwaysTrue(), specs={0: UNPARTITIONED})
    assert np.flatnonzero(mask).tolist() == kept


@pytest.mark.parametrize(
    ("content", "deleted", "kept"),
    [(FileContent.POSITION_DELETES, 5, [0]), (FileContent.POSITION_DELETES, 6, [0, 1]), (FileContent.EQUALITY_DELETES, 1, [0, 1])],
)
def test_rows_that_may_be_deleted_do_not_count(content: FileContent, deleted: int, kept: list[int]) -> None:
    plan = plan_of(numbers((0, 9), (10, 19), (20, 29)), UNPARTITIONED, [[delete_file(content, deleted)], [], []])
    order = order_of("i", is_descending=False, nulls_first=True, is_only_column=True)
    (mask,) = files_of_first_rows(plan, order, 5, row_filter=AlwaysTrue(), specs={0: UNPARTITIONED})
    assert np.flatnonzero(mask).tolist() == kept


def test_only_files_whose_rows_all_match_the_filter_count() -> None:
    plan = plan_of(numbers((0, 9), (10, 19), (20, 29)), UNPARTITIONED, [[], [], []])
    order = order_of("i", is_descending=False, nulls_first=True, is_only_column=True)
    for text, kept in (("i > 5", [0, 1]), ("i >= 0", [0]), ("s = 'a'", [0, 1, 2])):
        (mask,) = files_of_first_rows(plan, order, 5, row_filter=bind(parse_filter(text), SCHEMA), specs={0: UNPARTITIONED})
        assert np.flatnonzero(mask).tolist() == kept
