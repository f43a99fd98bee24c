"""The reader over fastavro and the compiled reader over the same bytes: what each gives or how it refuses, and that what both give is equal."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

from icefloe.errors import AvroFormatError
from icefloe.kernel.avro import compiled_codec
from icefloe.kernel.avro.avro_columns import read_arrays, read_batches
from icefloe.kernel.avro.avro_container import open_container
from icefloe.kernel.avro.projection_tree import IdMap, Slots, Struct, WantedField

READERS = (False, True) if compiled_codec.AVAILABLE else (False,)
needs_module = pytest.mark.skipif(
    not compiled_codec.AVAILABLE, reason="the C module is not built here: there is no C compiler or no Python.h"
)
# The parameter `by_compiled`, with a name for each reader.
each_reader = pytest.mark.parametrize("by_compiled", READERS, ids=lambda by_compiled: "compiled" if by_compiled else "fastavro")


@contextmanager
def reading_by(by_compiled: bool) -> Iterator[None]:
    """Whatever reads manifests and manifest lists inside reads by one of the readers."""
    before = [reader.__kwdefaults__ for reader in (read_arrays, read_batches)]  # type: ignore[attr-defined]
    for reader in (read_arrays, read_batches):
        reader.__kwdefaults__ = {**reader.__kwdefaults__, "by_compiled": by_compiled}  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for reader, defaults in zip((read_arrays, read_batches), before, strict=True):
            reader.__kwdefaults__ = defaults  # type: ignore[attr-defined]


@pytest.fixture(
    scope="module", autouse=True, params=READERS, ids=lambda by_compiled: "read-by-compiled" if by_compiled else "read-by-fastavro"
)
def manifest_reader(request: pytest.FixtureRequest) -> Iterator[None]:
    """Runs every test of a folder by each reader, where its `conftest.py` imports this."""
    with reading_by(request.param):
        yield


def lists_of(content: bytes, wanted: Struct, *, by_compiled: bool, batch_records: int = 2) -> Any:
    """Every column as a list, or the text of the error."""
    found: dict[str, list[Any]] = {}
    try:
        for batch in read_batches(open_container(content, "some.avro"), wanted, batch_records=batch_records, by_compiled=by_compiled):
            for name, values in batch.items():
                found.setdefault(name, []).extend(values)
    except AvroFormatError as error:
        return str(error)
    return found


def arrays_of(content: bytes, wanted: Struct, *, by_compiled: bool) -> Any:
    """Every column as an Arrow array, checked by Arrow, or the text of the error."""
    try:
        batches = list(read_arrays([open_container(content, "some.avro")], wanted, by_compiled=by_compiled))
    except AvroFormatError as error:
        return str(error)
    for batch in batches:
        for array in batch.values():
            array.validate(full=True)
    return {name: pa.chunked_array([batch[name] for batch in batches]) for name in batches[0]} if batches else {}


def in_lists(values: Any, kind: Any) -> Any:
    """What an Arrow column says in the terms of the lists."""
    if pa.types.is_map(kind):
        return [None if value is None else dict(value) for value in values.to_pylist()]
    if pa.types.is_list(kind):
        rows = pa.types.is_struct(kind.value_type)
        return [None if value is None else tuple(tuple(item.values()) if rows else item for item in value) for value in values.to_pylist()]
    return values.to_pylist()


def has_a_key_twice(content: bytes, wanted: Struct) -> bool:
    """Whether a map that slots are wanted of holds a key twice, which the format forbids; which value counts then is not defined."""
    whole = with_whole_maps(wanted)
    arrays = arrays_of(content, whole, by_compiled=True)
    if isinstance(arrays, str):
        return False
    maps = [column for column in arrays.values() if pa.types.is_map(column.type)]
    return any(len(dict(pairs)) < len(pairs) for column in maps for pairs in column.to_pylist() if pairs is not None)


def with_whole_maps(wanted: Struct) -> Struct:
    """The same wishes with whole maps in place of slots."""

    def whole(want: WantedField) -> WantedField:
        shape: Any = want.shape
        if isinstance(shape, Slots) and shape.columns:
            shape = IdMap(shape.columns[0][1])
        elif isinstance(shape, Struct):
            shape = with_whole_maps(shape)
        return WantedField(want.field_id, want.names, shape, want.required)

    return Struct(tuple(whole(want) for want in wanted.fields))


def result_of(content: bytes, wanted: Struct, *, by_compiled: bool, **options: Any) -> Any:
    """The columns as lists, or the error's text, from one reader; fails where its lists and its arrays differ."""
    found = lists_of(content, wanted, by_compiled=by_compiled, **options)
    arrays = arrays_of(content, wanted, by_compiled=by_compiled)
    if isinstance(found, str):
        assert arrays == found
        return found
    plain = {name: in_lists(column, column.type) for name, column in arrays.items()}
    assert repr(plain) == repr(found) or plain == found or has_a_key_twice(content, wanted)
    return found


def agreed(content: bytes, wanted: Struct, **options: Any) -> Any:
    """The columns as lists from all readers, or the text of an error where one refuses; fails where what they give differs.

    One may refuse damage that the other does not see; `fastavro_reader.py` tells which.
    """
    results = [result_of(content, wanted, by_compiled=by_compiled, **options) for by_compiled in READERS]
    refused = [result for result in results if isinstance(result, str)]
    assert all("some.avro" in text for text in refused)
    if refused:
        return refused[0]
    assert len({repr(result) for result in results}) == 1 or has_a_key_twice(content, wanted), results
    return results[0]
