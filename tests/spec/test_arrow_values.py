"""Arrow values converted without pandas equal those of PyArrow."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import examples

from icefloe.spec.arrow_values import array_of, fill_nulls, mask_array, numbers_array, numpy_of, offsets_of, scalar_of

VALUES = {
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.float64(): st.floats(allow_nan=False),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(max_size=5) | st.text(max_size=5).map(str.encode),
    pa.binary(): st.binary(max_size=5),
    pa.list_(pa.int64()): st.lists(st.integers(-9, 9), max_size=3).map(tuple),
    pa.decimal128(9, 2): st.integers(-999, 999).map(lambda cents: Decimal(cents).scaleb(-2)),
}


@settings(max_examples=examples(200))
@given(st.data())
def test_arrays_and_scalars_equal_those_of_pyarrow(data):
    kind = data.draw(st.sampled_from(list(VALUES)))
    values = data.draw(st.lists(st.none() | VALUES[kind], max_size=20))
    array = array_of(values, kind)
    array.validate(full=True)
    assert array.equals(pa.array(values, kind))
    assert array.null_count == values.count(None)
    assert [scalar_of(value, kind) for value in values[:3]] == [pa.scalar(value, kind) for value in values[:3]]


@settings(max_examples=examples(100))
@given(st.data())
def test_numpy_gets_the_values_of_sliced_and_chunked_arrays(data):
    kind = data.draw(st.sampled_from([pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.bool_()]))
    chunks = data.draw(st.lists(st.lists(VALUES[kind], max_size=12), max_size=3))
    start, length = data.draw(st.integers(0, 12)), data.draw(st.integers(0, 12))
    for array in (pa.chunked_array(chunks, kind), pa.array([value for chunk in chunks for value in chunk], kind)):
        assert numpy_of(array).tolist() == array.to_pylist()
        assert numpy_of(array.slice(start, length)).tolist() == array.slice(start, length).to_pylist()


@given(st.lists(st.tuples(st.booleans(), st.integers(-9, 9))))
def test_masks_and_numbers_become_arrow_with_nulls_where_unknown(rows):
    known, numbers = np.array([row[0] for row in rows], bool), np.array([row[1] for row in rows], np.int64)
    assert mask_array(known).to_pylist() == known.tolist()
    assert numbers_array(numbers, pa.int64(), known).to_pylist() == [number if is_known else None for is_known, number in rows]
    assert numbers_array(numbers > 0, pa.bool_(), known).to_pylist() == [number > 0 if is_known else None for is_known, number in rows]


def test_nulls_are_filled():
    assert fill_nulls(pa.array([1, None]), -1).to_pylist() == [1, -1]
    assert fill_nulls(pa.chunked_array([[None], [True]], pa.bool_()), False).to_pylist() == [False, True]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (2**31, pa.int32()),
        (2**63, pa.int64()),
        (b"12", pa.int64()),
        (1.5, pa.int64()),
        ("1", pa.float64()),
        (1, pa.bool_()),
        (1, pa.binary()),
        ("a", pa.binary()),
        (b"\xff", pa.string()),
        ((1, "a"), pa.list_(pa.int64())),
        (1, pa.list_(pa.int64())),
        (Decimal("1.234"), pa.decimal128(9, 2)),
    ],
)
def test_a_value_of_another_type_is_refused(value, kind):
    for values in ([value], [value, None]):
        with pytest.raises((TypeError, ValueError, OverflowError, pa.ArrowException)):
            array_of(values, kind)


def test_buffers_longer_or_shorter_than_a_number_of_values_are_read() -> None:
    numbers = pa.Array.from_buffers(pa.int64(), 2, [None, pa.py_buffer(bytes(17))])
    numbers.validate(full=True)
    assert (numpy_of(numbers).tolist(), numpy_of(numbers[1:]).tolist()) == ([0, 0], [0])
    for length, offsets in ((0, b""), (0, bytes(5)), (1, bytes(9))):
        lists = pa.Array.from_buffers(pa.list_(pa.int64()), length, [None, pa.py_buffer(offsets)], children=[pa.array([], pa.int64())])
        lists.validate(full=True)
        assert offsets_of(lists).tolist() == [0] * (length + 1)
