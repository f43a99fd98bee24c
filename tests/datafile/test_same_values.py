"""Columns compared row by row, checked against plain Python."""

from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import examples
from tests.table.format_values import Plain, as_arrow, present, types

from icefloe.datafile.same_values import differing
from icefloe.spec.types import IcebergType, ListType, MapType, StructType


def alike(kind: IcebergType, value: Plain) -> Any:
    """Return a form in which equal values have one text: NaN, both zeros, and entries of a map in any order."""
    if value is None:
        return None
    if isinstance(kind, StructType):
        return [alike(field.field_type, value[field.field_id]) for field in kind.fields]
    if isinstance(kind, ListType):
        return [alike(kind.element, item) for item in value]
    if isinstance(kind, MapType):
        return sorted(((alike(kind.key_type, key), alike(kind.value_type, item)) for key, item in value), key=repr)
    return value + 0.0 if isinstance(value, float) else value


@settings(max_examples=examples(150))
@given(data=st.data())
def test_rows_differ_where_their_values_differ(data: st.DataObject) -> None:
    kind = data.draw(types(3))
    some = st.none() | present(kind) if str(kind) != "unknown" else st.none()
    left = data.draw(st.lists(some, max_size=8))
    right = [
        data.draw(st.sampled_from([value, value, value[::-1] if isinstance(kind, MapType) and value else value]) | some) for value in left
    ]
    arrays = [as_arrow(kind, column) for column in (left, right)]
    expected = [repr(alike(kind, a)) != repr(alike(kind, b)) for a, b in zip(left, right, strict=True)]
    assert differing(*arrays).tolist() == expected
    cut = [pa.concat_arrays([array, array]).slice(len(left)) for array in arrays]
    assert differing(*cut).tolist() == expected
