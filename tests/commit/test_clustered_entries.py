"""The order of entries in rewritten manifests: how many of them a filter by a partition value opens, compared with a count over the manifests."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import examples

from icefloe.commit import clustered_entries
from icefloe.commit.clustered_entries import clustered_rows, opened_share, ranks_of, sorted_rows


def share_by_count(columns: list[np.ndarray], rows: np.ndarray, rows_per_manifest: int) -> float:
    """Return the share that a filter by one value opens, counted for each value and manifest."""
    manifests = [rows[start : start + rows_per_manifest] for start in range(0, len(rows), rows_per_manifest)]
    share = 0.0
    for column in columns:
        values = range(int(column.max()) + 1)
        opened = sum(column[part].min() <= value <= column[part].max() for value in values for part in manifests)
        share += opened / (len(manifests) * len(values))
    return share


@pytest.mark.parametrize("fields", [3, 7])
def test_of_very_many_partitions_few_orders_are_compared(fields: int, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = np.random.default_rng(fields)
    columns = [ranks_of(pa.array(numbers.integers(0, 2 + 3 * place, 500))) for place in range(fields)][::-1]
    sorts: list[int] = []
    monkeypatch.setattr(clustered_entries, "MOST_SORTED", 100)
    monkeypatch.setattr(clustered_entries, "sorted_rows", lambda ranks: sorts.append(1) or sorted_rows(ranks))
    rows = clustered_rows(columns, 20)
    assert len(sorts) == 2
    assert share_by_count(columns, rows, 20) <= share_by_count(columns, sorted_rows(columns), 20) + 1e-9


@settings(max_examples=examples(60))
@given(data=st.data())
def test_the_chosen_order_is_the_best_of_the_compared_ones(data: st.DataObject) -> None:
    fields = data.draw(st.integers(2, 3))
    seed = data.draw(st.integers(0, 10_000))
    numbers = np.random.default_rng(seed)
    count = data.draw(st.integers(1, 200))
    drawn = [numbers.integers(0, data.draw(st.integers(1, 30)), count) for _ in range(fields)]
    columns = [ranks_of(pa.array(column)) for column in drawn]
    size = data.draw(st.integers(1, 50))
    rows = clustered_rows(columns, size)
    assert sorted(rows.tolist()) == list(range(count))
    chosen = share_by_count(columns, rows, size)
    assert chosen <= min(share_by_count(columns, sorted_rows(order), size) for order in (columns, columns[::-1])) + 1e-9
    partitions, counts = np.unique(np.stack(columns, axis=1), axis=0, return_counts=True)
    by_partition = list(partitions.T)
    spec_order = sorted_rows(by_partition)
    assert opened_share(by_partition, counts, spec_order, size) == pytest.approx(share_by_count(columns, sorted_rows(columns), size))


def test_a_grid_of_days_and_buckets_is_read_by_squares() -> None:
    days, buckets = (part.ravel() for part in np.meshgrid(np.arange(64), np.arange(64)))
    rows = clustered_rows([days, buckets], 64)
    by_spec = share_by_count([days, buckets], sorted_rows([days, buckets]), 64)
    assert by_spec == pytest.approx(1 + 1 / 64)
    assert share_by_count([days, buckets], rows, 64) == pytest.approx(2 / 8)


def test_nulls_decimals_and_binary_values_are_ranked() -> None:
    assert ranks_of(pa.array([None, "b", "a", None, "b"])).tolist() == [2, 1, 0, 2, 1]
    assert ranks_of(pa.array([3, -1, 3], pa.decimal128(9, 2))).tolist() == [1, 0, 1]
    assert ranks_of(pa.array([b"bb", None, b"aa"], pa.binary(2))).tolist() == [1, 2, 0]
    assert ranks_of(pa.array([True, False, None])).tolist() == [1, 0, 2]
    assert ranks_of(pa.array([1.5, float("nan"), -0.5])).tolist() == [1, 2, 0]
    assert ranks_of(pa.chunked_array([[2], [1]])).tolist() == [1, 0]
