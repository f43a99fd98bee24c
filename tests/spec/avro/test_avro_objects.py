"""Objects created from columns: compiled code and Python create the same as `__init__`."""

import pickle
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.spec.avro import compiled_codec
from icefloe.spec.avro.avro_objects import Same, objects

MAKERS = [
    pytest.param(False, id="python"),
    pytest.param(True, marks=pytest.mark.skipif(not compiled_codec.AVAILABLE, reason="not compiled"), id="compiled"),
]
NUMBERS = st.lists(st.one_of(st.none(), st.integers(-(2**31), 2**31 - 1)), min_size=6, max_size=6)
TEXTS = st.lists(st.one_of(st.none(), st.text(max_size=4)), min_size=6, max_size=6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing:
    text: str | None
    long: int | None
    short: int | None
    listed: Any
    same: Any = ()


@pytest.mark.parametrize("by_compiled", MAKERS)
@given(TEXTS, NUMBERS, NUMBERS, st.integers(0, 6), st.integers(0, 6), st.sampled_from([None, (), (1, 2), [3], "x"]))
def test_objects_from_columns_equal_those_of_their_constructor(
    by_compiled: bool, texts: list[Any], longs: list[Any], shorts: list[Any], start: int, length: int, same: Any
) -> None:
    rows = slice(start, start + length)
    columns = (pa.array(texts, pa.string()), pa.array([n and n * 2**31 for n in longs], pa.int64()), pa.array(shorts, pa.int32()))
    text, long, short = (column.slice(start, length) for column in columns)
    listed = [object() for _ in texts[rows]]
    values = {"text": text, "long": long, "short": short, "listed": listed, "same": Same(same)}
    created = objects(Thing, values, len(listed), by_compiled=by_compiled)
    rows_of = zip(texts[rows], [n and n * 2**31 for n in longs[rows]], shorts[rows], listed, strict=True)
    assert created == [Thing(text=a, long=b, short=c, listed=d, same=same) for a, b, c, d in rows_of]


@pytest.mark.parametrize("by_compiled", MAKERS)
def test_objects_outlive_their_columns_and_can_be_pickled(by_compiled: bool) -> None:
    values = {
        "text": pa.array(["\u00fc" * 40] * 3),
        "long": pa.array([2**40] * 3),
        "short": pa.array([7] * 3, pa.int32()),
        "listed": [1, 2, 3],
        "same": Same(()),
    }
    created = objects(Thing, values, 3, by_compiled=by_compiled)
    del values
    assert pickle.loads(pickle.dumps(created)) == [Thing(text="\u00fc" * 40, long=2**40, short=7, listed=n) for n in (1, 2, 3)]


@pytest.mark.parametrize("by_compiled", MAKERS)
@pytest.mark.parametrize("name", ["text", "long", "listed"])
def test_a_field_with_too_few_values_is_refused(name: str, by_compiled: bool) -> None:
    full = {
        "text": pa.array(["a"] * 3),
        "long": pa.array([1] * 3),
        "short": pa.array([1] * 3, pa.int32()),
        "listed": [1, 2, 3],
        "same": Same(None),
    }
    with pytest.raises(ValueError, match="values"):
        objects(Thing, {**full, name: full[name][:2]}, 3, by_compiled=by_compiled)


@pytest.mark.skipif(not compiled_codec.AVAILABLE, reason="not compiled")
def test_compiled_code_refuses_inconsistent_columns() -> None:
    make = compiled_codec.native().make_objects
    offsets = pa.py_buffer(b"\x00\x00\x00\x00\x09\x00\x00\x00")
    for column in (
        (1, 0, 8, None, None, b"\x00" * 7),
        (1, 0, 0, None, offsets, b"short"),
        (1, 0, 3, None, None, b"123"),
        (1, -1, 8, None, None, b""),
    ):
        with pytest.raises(ValueError, match="column"):
            make(Thing, ((Thing.text, column),), 1)
    with pytest.raises(UnicodeDecodeError):
        make(Thing, ((Thing.text, (1, 0, 0, None, offsets, b"\xff" * 9)),), 1)
    with pytest.raises(TypeError):
        make(Thing, ((Thing.text, (1,)),), 1)
    with pytest.raises(TypeError):
        make(Thing, (("text", 1),), 1)
    with pytest.raises(TypeError):
        make(int, (), 1)
