"""Comparison of the reader with fastavro and the compiled reader on the same bytes: their columns must be equal."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

from icefloe.errors import AvroFormatError
from icefloe.spec.avro import compiled_codec
from icefloe.spec.avro.avro_columns import read_arrays, read_batches
from icefloe.spec.avro.avro_container import open_container
from icefloe.spec.avro.projection_tree import IdMap, ProjectedField, Slots, Struct

READERS = (False, True) if compiled_codec.AVAILABLE else (False,)
needs_module = pytest.mark.skipif(
    not compiled_codec.AVAILABLE, reason="the C module is not built here: there is no C compiler or no Python.h"
)
needs_libdeflate = pytest.mark.skipif(not compiled_codec.INFLATES, reason="the C module is not built here, or found no libdeflate")
needs_libzstd = pytest.mark.skipif(not compiled_codec.UNPACKS_ZSTANDARD, reason="the C module is not built here, or found no libzstd")
needs_libsnappy = pytest.mark.skipif(
    not compiled_codec.UNPACKS_SNAPPY,
    reason="the C module is not built here, or found no libsnappy (on Debian: apt-get install libsnappy1v5)",
)
# Runs a test with each reader, as the parameter `by_compiled`.
each_reader = pytest.mark.parametrize("by_compiled", READERS, ids=lambda by_compiled: "compiled" if by_compiled else "fastavro")


@contextmanager
def without_libdeflate() -> Iterator[None]:
    """Make the compiled reader look for a libdeflate that does not exist."""
    assert not compiled_codec.native().open_libdeflate("libicefloe-has-none.so.1")
    try:
        yield
    finally:
        assert any(map(compiled_codec.native().open_libdeflate, compiled_codec.LIBDEFLATE)) == compiled_codec.INFLATES


@contextmanager
def without_libzstd() -> Iterator[None]:
    """Make the compiled reader look for a libzstd that does not exist."""
    assert not compiled_codec.native().open_libzstd("libicefloe-has-none.so.1")
    try:
        yield
    finally:
        assert any(map(compiled_codec.native().open_libzstd, compiled_codec.LIBZSTD)) == compiled_codec.UNPACKS_ZSTANDARD


@contextmanager
def reading_by(by_compiled: bool) -> Iterator[None]:
    """Make all code in the context read manifests and manifest lists with one of the readers."""
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
    """Run every test of a folder with each reader, if its `conftest.py` imports this fixture."""
    with reading_by(request.param):
        yield


def lists_of(content: bytes, projection: Struct, *, by_compiled: bool, batch_records: int = 2) -> Any:
    """Return every column as a list, or the message of the error."""
    columns: dict[str, list[Any]] = {}
    try:
        for batch in read_batches(open_container(content, "some.avro"), projection, batch_records=batch_records, by_compiled=by_compiled):
            for name, values in batch.items():
                columns.setdefault(name, []).extend(values)
    except AvroFormatError as error:
        return str(error)
    return columns


def arrays_of(content: bytes, projection: Struct, *, by_compiled: bool) -> Any:
    """Return every column as an Arrow array, validated by Arrow, or the message of the error."""
    try:
        batches = list(read_arrays([open_container(content, "some.avro")], projection, by_compiled=by_compiled))
    except AvroFormatError as error:
        return str(error)
    for batch in batches:
        for array in batch.values():
            array.validate(full=True)
    return {name: pa.chunked_array([batch[name] for batch in batches]) for name in batches[0]} if batches else {}


def in_lists(values: Any, kind: Any) -> Any:
    """Return the values of an Arrow column as `lists_of` returns them."""
    if pa.types.is_map(kind):
        return [None if value is None else dict(value) for value in values.to_pylist()]
    if pa.types.is_list(kind):
        rows = pa.types.is_struct(kind.value_type)
        return [None if value is None else tuple(tuple(item.values()) if rows else item for item in value) for value in values.to_pylist()]
    return values.to_pylist()


def has_duplicate_key(content: bytes, projection: Struct) -> bool:
    """Return True if a map with projected slots has a duplicate key, which the format forbids; the value of the slot is then undefined."""
    whole = with_whole_maps(projection)
    arrays = arrays_of(content, whole, by_compiled=True)
    if isinstance(arrays, str):
        return False
    maps = [column for column in arrays.values() if pa.types.is_map(column.type)]
    return any(len(dict(pairs)) < len(pairs) for column in maps for pairs in column.to_pylist() if pairs is not None)


def with_whole_maps(projection: Struct) -> Struct:
    """Return the same projection with complete maps instead of slots."""

    def whole(field: ProjectedField) -> ProjectedField:
        shape: Any = field.shape
        if isinstance(shape, Slots) and shape.columns:
            shape = IdMap(shape.columns[0][1])
        elif isinstance(shape, Struct):
            shape = with_whole_maps(shape)
        return ProjectedField(field.field_id, field.names, shape, field.required)

    return Struct(tuple(whole(field) for field in projection.fields))


def result_of(content: bytes, projection: Struct, *, by_compiled: bool, **options: Any) -> Any:
    """Return the columns of one reader as lists, or the message of its error; fail if its lists and its arrays differ."""
    lists = lists_of(content, projection, by_compiled=by_compiled, **options)
    arrays = arrays_of(content, projection, by_compiled=by_compiled)
    if isinstance(lists, str):
        assert arrays == lists
        return lists
    array_values = {name: in_lists(column, column.type) for name, column in arrays.items()}
    assert repr(array_values) == repr(lists) or array_values == lists or has_duplicate_key(content, projection)
    return lists


def agreed(content: bytes, projection: Struct, **options: Any) -> Any:
    """Return the columns of all readers as lists, or the message of an error if one refuses the file; fail if the columns differ.

    One reader can refuse damage that the other does not detect; `fastavro_reader.py` describes it.
    """
    results = [result_of(content, projection, by_compiled=by_compiled, **options) for by_compiled in READERS]
    refused = [result for result in results if isinstance(result, str)]
    assert all("some.avro" in text for text in refused)
    if refused:
        return refused[0]
    assert len({repr(result) for result in results}) == 1 or has_duplicate_key(content, projection), results
    return results[0]
