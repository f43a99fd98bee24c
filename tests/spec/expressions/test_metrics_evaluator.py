"""The end of a prefix, contradicting bounds, and float bounds."""

import pyarrow as pa
import pytest

from icefloe.spec.expressions.metrics_evaluator import after_prefix, valid_bounds
from icefloe.spec.types import DoubleType, FloatType, IntegerType


@pytest.mark.parametrize(
    ("prefix", "after"),
    [
        ("a", "b"),
        ("ab", "ac"),
        ("a\ud7ff", "a\ue000"),  # the code points between are surrogates, which no string contains
        ("a\U0010ffff", "b"),
        ("\U0010ffff", None),
        ("", None),
    ],
)
def test_the_first_string_after_a_prefix(prefix, after):
    assert after_prefix(prefix) == after


def test_contradicting_bounds_and_nan_are_unknown():
    low, high = valid_bounds(IntegerType(), pa.array([1, 5, None], pa.int32()), pa.array([2, 4, 3], pa.int32()))
    assert (low.to_pylist(), high.to_pylist()) == ([1, None, None], [2, None, 3])
    low, high = valid_bounds(DoubleType(), pa.array([float("nan"), 1.0]), pa.array([1.0, float("nan")]))
    assert (low.to_pylist(), high.to_pylist()) == ([None, 1.0], [1.0, None])


def test_float_bounds_are_compared_as_doubles():
    low, _ = valid_bounds(FloatType(), pa.array([0.1], pa.float32()), pa.array([1.0], pa.float32()))
    assert low.type == pa.float64()
    assert low[0].as_py() > 0.1
