"""A row id that is twice in a file is found, whatever batches its rows are read in; runs of ids are kept, not ids."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.checks import row_rules
from icefloe.checks.row_rules import _RowIds


@given(st.lists(st.lists(st.integers(0, 40) | st.integers(2**63 - 4, 2**63 - 1), min_size=1, max_size=8), max_size=6))
def test_an_id_is_there_twice_exactly_if_a_set_of_all_ids_has_it(batches: list[list[int]]) -> None:
    row_ids, seen = _RowIds(), set[int]()
    for batch in batches:
        is_twice = len(set(batch)) < len(batch) or bool(seen & set(batch))
        assert row_ids.has_twice(np.array(batch, np.int64)) is is_twice
        if is_twice:
            return
        seen |= set(batch)


def test_successive_ids_are_kept_as_one_run_and_ids_with_too_many_gaps_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    row_ids = _RowIds()
    for start in range(0, 1_000, 10):
        assert not row_ids.has_twice(np.arange(start, start + 10))
    assert (row_ids._firsts.tolist(), row_ids._lasts.tolist()) == ([0], [999])
    assert row_ids.has_twice(np.array([500]))
    monkeypatch.setattr(row_rules, "_MOST_RUNS", 3)
    assert not row_ids.has_twice(np.array([2_000, 3_000, 4_000]))
    assert len(row_ids._firsts) == 0
