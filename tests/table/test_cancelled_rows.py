"""Rows that cancel out are found as a count of all values finds them: for every type, in any order, and where a shortcut would take other rows for equal."""

import math
import random
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from icefloe import InMemoryCatalog
from icefloe.datafile.parquet import parquet_rows
from icefloe.datafile.parquet.parquet_rows import ParquetRows
from icefloe.operations.change_feed import copied_rows, row_pairs, row_words
from icefloe.operations.change_feed.row_pairs import remaining_rows

NAN = float("nan")
POOLS: dict[str, tuple[Any, list[Any]]] = {
    "long": (pa.int64(), [0, 1, -1, 2**62, None]),
    "text": (pa.string(), ["", "a", "a\0", "a" * 8, "a" * 9, "a" * 16, "a" * 17, "a" * 8 + "X" + "a" * 8, "a" * 8 + "Y" + "a" * 8, None]),
    "double": (pa.float64(), [0.0, -0.0, NAN, 1.5, None]),
    "float": (pa.float32(), [0.0, -0.0, NAN, None]),
    "boolean": (pa.bool_(), [True, False, None]),
    "decimal": (pa.decimal128(20, 2), [None, Decimal("1.00"), Decimal("-1.00"), Decimal("184467440737095516.17")]),
    "fixed": (pa.binary(3), [b"abc", b"abd", None]),
    "null": (pa.null(), [None]),
    "time": (pa.timestamp("us"), [None, 0, 1]),
    "struct": (
        pa.struct([("a", pa.int32()), ("b", pa.float64())]),
        [None, {"a": None, "b": None}, {"a": 0, "b": 0.0}, {"a": 0, "b": -0.0}],
    ),
    "nans": (pa.struct([("b", pa.float32())]), [{"b": NAN}, {"b": 0.0}, {"b": None}, None]),
    "list": (pa.list_(pa.string()), [None, [], [None], ["a"], ["a", "b"], ["b", "a"]]),
    "map": (pa.map_(pa.string(), pa.float64()), [None, [], [("a", 1.0), ("b", 0.0)], [("b", 0.0), ("a", 1.0)], [("b", -0.0), ("a", 1.0)]]),
    "zeros": (
        pa.map_(pa.float64(), pa.int32()),
        [None, [(0.0, 1), (-0.0, 2)], [(-0.0, 2), (0.0, 1)], [(0.0, 2), (-0.0, 1)], [(NAN, 1), (0.0, 2)], [(0.0, 2), (NAN, 1)]],
    ),
    "keys": (
        pa.map_(pa.struct([("k", pa.int32())]), pa.int32()),
        [None, [({"k": 1}, 1), ({"k": 2}, 2)], [({"k": 2}, 2), ({"k": 1}, 1)], [({"k": 2}, 1), ({"k": 1}, 1)]],
    ),
}


def key(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else repr(value)
    if isinstance(value, dict):
        return tuple((name, key(item)) for name, item in value.items())
    if isinstance(value, list):
        parts = [repr(key(item)) for item in value]
        return ("list", *(sorted(parts) if value and isinstance(value[0], tuple) else parts))
    return tuple(map(key, value)) if isinstance(value, tuple) else value


def check(rows: pa.Table, removed: np.ndarray) -> None:
    values = [tuple(map(key, row)) for row in zip(*(column.to_pylist() for column in rows.columns), strict=True)]
    deletes, inserts = (
        Counter(value for value, is_removed in zip(values, removed, strict=True) if is_removed == side) for side in (True, False)
    )
    rank: Counter[Any] = Counter()
    expected = []
    for value, is_removed in zip(values, removed, strict=True):
        cancelled, place = min(deletes[value], inserts[value]), rank[value, bool(is_removed)]
        rank[value, bool(is_removed)] += 1
        expected.append(place < deletes[value] - cancelled if is_removed else place >= cancelled)
    assert remaining_rows(rows, removed, rows.column_names).tolist() == expected, (rows.to_pylist(), removed)


@pytest.mark.parametrize("hashes", ["usual", "all equal"])
def test_rows_cancel_out_as_their_values_are_counted(monkeypatch: pytest.MonkeyPatch, hashes: str) -> None:
    if hashes == "all equal":
        monkeypatch.setattr(row_pairs, "row_hashes", lambda _, rows: np.zeros(rows, np.uint64))
    chance = random.Random(5)
    for _ in range(150):
        count, names = chance.randint(0, 30), chance.sample(list(POOLS), chance.randint(1, 4))
        removed = np.array([chance.random() < 0.5 for _ in range(count)], np.bool_)
        columns = {name: pa.array([chance.choice(POOLS[name][1]) for _ in range(count)], POOLS[name][0]) for name in names}
        if chance.random() < 0.4:  # a column that is in order on both sides, as where a file was copied
            removed = np.sort(removed)[::-1].copy()
            deletes, step = int(removed.sum()), chance.choice([1, 1, 2])
            columns["order"] = pa.array([place // step for place in [*range(deletes), *range(count - deletes)]], pa.int64())
        rows = pa.table(columns)
        skipped = chance.randint(0, 3)
        if chance.random() < 0.5:  # in several chunks, with an offset
            rows = pa.concat_tables([rows.slice(0, skipped), rows]).slice(min(skipped, count))
        check(rows, removed)


def test_rows_that_only_a_shortcut_takes_for_equal_are_not_lost() -> None:
    # Long texts with the same begin, end and length; nested values of the same length; one row in each of two row orders.
    count = 500
    texts = [f"{'p' * 20}{number:06}{'s' * 20}" for number in range(count)]
    lists = [[number, 7] for number in range(count)]
    before = pa.table({"text": texts, "list": lists})
    for order in (list(range(count)), list(reversed(range(count)))):
        for column, changed in (("text", "p" * 20 + "-00250" + "s" * 20), ("list", [250, 8])):
            values = before.to_pydict()
            values[column][250] = changed
            after = pa.table(values, schema=before.schema).take(order)
            removed = np.arange(2 * count) < count
            remains = remaining_rows(pa.concat_tables([before, after]), removed, before.column_names)
            assert np.flatnonzero(remains).tolist() == [250, count + order.index(250)]


def test_words_of_equal_values_are_equal_and_decide_where_they_can() -> None:
    for kind, values in POOLS.values():
        column = pa.array(values, kind)
        words = row_words.ColumnWords.of(column)
        left, right = (side.ravel() for side in np.indices((len(values), len(values))))
        same = words.equal(left, right)
        assert same.tolist() == [key(values[one]) == key(values[other]) for one, other in zip(left, right, strict=True)], kind


class Rewritten:
    """A table whose snapshot rewrote files of several small row groups: rows were copied, also in another order, and some of them were changed."""

    def __init__(self, seed: int, version: int) -> None:
        chance = np.random.default_rng(seed)
        properties = {"format-version": str(version), "write.parquet.row-group-limit": "50", "write.parquet.row-group-size-bytes": "1000"}
        catalog = InMemoryCatalog(f"rewritten{seed}{version}")
        catalog.create_namespace("db")
        self.table = catalog.create_table("db.t", self.rows([], 0).schema, properties=properties)
        parts = chance.permutation(4).tolist()
        for part in parts:
            self.table.append(self.rows([part * 200 + number for number in range(200)], 0))
        self.start = self.table.snapshots()[-1].snapshot_id
        ids = np.arange(800) if seed % 2 else chance.permutation(800)  # in order, or in none
        changed = set(chance.choice(800, 30, replace=False).tolist())
        kept = [number for number in ids.tolist() if number not in changed]
        # Some rows are there twice, and some changed rows are new ones.
        after = pa.concat_tables([self.rows(kept, 0), self.rows(sorted(changed)[:20], 1), self.rows(kept[:3], 0)])
        self.table.overwrite(after)
        self.expected = Counter({("DELETE", number, 0.0): 1 for number in changed})
        self.expected += Counter(
            [("INSERT", number, 1.0) for number in sorted(changed)[:20]] + [("INSERT", number, 0.0) for number in kept[:3]]
        )

    @staticmethod
    def rows(ids: list[int], value: int) -> pa.Table:
        names = [f"{'n' * 30}{number % 7}" for number in ids]
        columns = [pa.array(ids, pa.int64()), pa.array([float(value)] * len(ids), pa.float64()), pa.array(names, pa.string())]
        return pa.table(columns, names=["id", "value", "name"])

    def uncopied(self, most_bytes: int) -> tuple[Counter[Any], int]:
        """Return the rows that remain after those that are returned are compared once more, and how many were returned."""
        scan = self.table.changes(self.start)
        (changes,) = scan.plan()
        reader, task = scan.reader(self.table.schema()), scan.snapshot_task(changes)
        found = list(copied_rows.uncopied_rows(reader, [file.file for file in task.files], reader.projection.names, most_bytes=most_bytes))
        rows = [
            (kind, *values) for kind, part in found for values in zip(*(column.to_pylist() for column in part.columns[:2]), strict=True)
        ]
        sides = {side: Counter(row[1:] for row in rows if row[0] == side) for side in ("DELETE", "INSERT")}
        left = Counter({("DELETE", *row): count for row, count in (sides["DELETE"] - sides["INSERT"]).items()})
        return left + Counter({("INSERT", *row): count for row, count in (sides["INSERT"] - sides["DELETE"]).items()}), len(rows)


@pytest.mark.parametrize("seed", [0, 1])
def test_files_that_are_read_side_by_side_lose_no_changed_row_however_few_rows_wait(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    rewritten = Rewritten(seed, 2)
    monkeypatch.setattr(copied_rows, "_ROWS_OF_A_STEP", 60)
    monkeypatch.setattr(copied_rows, "_LEAST_ROWS_OF_A_STEP", 1)
    monkeypatch.setattr(parquet_rows, "BATCH_ROWS", 20)
    everything, changed = 800 + 793, sum(rewritten.expected.values())
    assert rewritten.uncopied(10**9) == (rewritten.expected, changed), "all copies are found if any number of rows may wait"
    for most_bytes in (0, 20_000):
        found, count = rewritten.uncopied(most_bytes)
        assert found == rewritten.expected
        assert changed <= count < everything
    if seed:  # in the order of the ids, few rows must wait, although the files are in another order
        assert rewritten.uncopied(20_000)[1] < changed + 60
    chance = random.Random(seed)
    real = ParquetRows.row_group_bounds

    def wrong(self: Any, *arguments: Any) -> Any:
        bounds = [(low, low + chance.randint(0, 9)) for low in (chance.randint(0, 99) for _ in self.row_group_starts())]
        return dict.fromkeys(real(self, *arguments), bounds)

    monkeypatch.setattr(ParquetRows, "row_group_bounds", wrong)
    assert rewritten.uncopied(10**9) == (rewritten.expected, changed), "statistics only order the work"
    assert rewritten.uncopied(1000)[0] == rewritten.expected


@pytest.mark.parametrize("rows", [0, 2**62])
@pytest.mark.parametrize("size", [1, 2**62])
def test_counts_in_manifests_that_are_wrong_neither_lose_rows_nor_read_all_at_once(
    monkeypatch: pytest.MonkeyPatch, rows: int, size: int
) -> None:
    monkeypatch.setattr(copied_rows, "_ROWS_OF_A_STEP", 60)
    monkeypatch.setattr(parquet_rows, "BATCH_ROWS", 20)
    rewritten = Rewritten(1, 2)
    real, most = copied_rows._Side.__init__, []

    def wrong(self: Any, *arguments: Any, **options: Any) -> None:
        real(self, *arguments, **options)
        self.rows, self.bytes = rows, size

    def compared(waiting: dict[str, Any], names: Any) -> Any:
        most.append(sum(map(len, waiting.values())))
        return without_copies(waiting, names)

    without_copies = copied_rows._without_copies
    monkeypatch.setattr(copied_rows._Side, "__init__", wrong)
    monkeypatch.setattr(copied_rows, "_without_copies", compared)
    assert rewritten.uncopied(10**9)[0] == rewritten.expected
    assert max(most) < 600, "of 1593 rows"


@pytest.mark.parametrize("version", [2, 3])
def test_tasks_of_a_partition_may_have_rows_of_one_kind_only(version: int) -> None:
    catalog = InMemoryCatalog(f"partitions{version}")
    catalog.create_namespace("db")
    rows = pa.table({"part": pa.array([1, 1, 2, 2]), "value": pa.array([1, 2, 3, 4])})
    table = catalog.create_table("db.t", rows.schema, partition_spec=["part"], properties={"format-version": str(version)})
    table.append(rows)
    start = table.snapshots()[-1].snapshot_id
    table.overwrite(pa.table({"part": pa.array([1, 1, 3]), "value": pa.array([5, 9, 3])}))
    scan = table.changes(start)
    (changes,) = scan.plan()
    whole = scan.snapshot_task(changes)
    found: Counter[Any] = Counter()
    for part in (1, 2, 3):
        task = replace(whole, files=tuple(file for file in whole.files if file.file.task.file.partition == (part,)))
        for found_rows in scan.pairing().uncopied_rows(task):
            assert len(found_rows)
            found.update(zip(*(found_rows[name].to_pylist() for name in ("_change_type", "part", "value")), strict=True))
    assert found == Counter(
        [("DELETE", 1, 1), ("DELETE", 1, 2), ("INSERT", 1, 5), ("INSERT", 1, 9), ("DELETE", 2, 3), ("DELETE", 2, 4), ("INSERT", 3, 3)]
    )
