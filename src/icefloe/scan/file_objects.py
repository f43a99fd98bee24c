"""Functions that create `DataFile` objects, for data files and delete files, from the rows of a `ManifestColumns` table.

Spec: Data File Fields.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from itertools import pairwise
from typing import Any, overload

import numpy as np
import pyarrow.compute as pc

from icefloe.errors import ManifestFormatError
from icefloe.spec.arrow_values import MALLOC, array_of_chunks, numpy_of, offsets_of
from icefloe.spec.avro.avro_objects import Same, Values, objects
from icefloe.spec.manifest.data_file import DataFile, FileContent, FileFormat
from icefloe.spec.manifest.manifest_columns import STATISTICS, partition_column, statistic_column
from icefloe.spec.manifest.partition_values import primitive
from icefloe.spec.types import DoubleType, FloatType, StructType
from icefloe.spec.values import physical_list

_FORMATS = {form.value: form for form in FileFormat}
_CONTENTS = {int(content): content for content in FileContent}
# Columns whose values become `DataFile` fields unchanged. Tables of data files lack some of them, which only delete files have, and the reverse.
_PLAIN = (
    "file_path",
    "record_count",
    "file_size_in_bytes",
    "sort_order_id",
    "first_row_id",
    "referenced_data_file",
    "content_offset",
    "content_size_in_bytes",
)
_LISTS = ("split_offsets", "equality_ids")
# Columns of names or codes, each with a mapping from name or code to the value of the `DataFile` field.
_NAMED: Mapping[str, Mapping[Any, Any]] = {"file_format": _FORMATS, "content": _CONTENTS}


def file_objects(
    rows: Any, spec_id: int, partitions: list[tuple[Any, ...]], statistics: Sequence[int] = (), known: Mapping[str, Values] | None = None
) -> list[DataFile]:
    """Return a `DataFile` for each row, in order.

    Args:
        rows: A `ManifestColumns` table of one partition spec.
        spec_id: The partition spec.
        partitions: The partition tuple of each row.
        statistics: Field ids whose column statistics the objects get; `rows` must have the statistics columns of these.
        known: Values that replace those in `rows`, by name of the `DataFile` field, with one value for each row.

    Raises:
        ManifestFormatError: A row has a content or file format that the specification does not define.
    """
    columns = {name: array_of_chunks(rows[name]) for name in (*_PLAIN, *_LISTS, *_NAMED) if name in rows.column_names}
    values: dict[str, Values] = {
        **{field.name: Same(None) for field in fields(DataFile)},
        **{name: columns[name] for name in _PLAIN if name in columns},
        **{name: _tuples(columns[name]) for name in _LISTS if name in columns},
        **({name: _maps(rows, statistic, statistics) for name, statistic in STATISTICS.items()} if statistics else {}),
        **{name: _values_of_codes(name, columns[name], kinds) for name, kinds in _NAMED.items()},
        "partition": partitions,
        "spec_id": Same(spec_id),
        **(known or {}),
    }
    return objects(DataFile, values, rows.num_rows)


class LazyFiles(Sequence[DataFile]):
    """A sequence of files with a known length; the objects are built together at the first access."""

    def __init__(self, count: int, build: Callable[[], Sequence[DataFile]]) -> None:
        self._count = count
        self._build = build

    @cached_property
    def _files(self) -> Sequence[DataFile]:
        return self._build()

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> DataFile: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[DataFile]: ...
    def __getitem__(self, place: int | slice) -> DataFile | Sequence[DataFile]:
        return self._files[place]

    def __iter__(self) -> Iterator[DataFile]:
        return iter(self._files)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))


def partition_tuples(
    rows: Any, partition_type: StructType, shared: dict[tuple[Any, ...], tuple[Any, ...]] | None = None
) -> list[tuple[Any, ...]]:
    """Return the partition tuple of each row of a `ManifestColumns` table: physical values in spec order. Equal tuples are the same object."""
    fields_of = [(primitive(field.field_type), rows[partition_column(field.field_id)]) for field in partition_type.fields]
    if not fields_of:
        return [()] * int(rows.num_rows)
    if any(isinstance(kind, FloatType | DoubleType) for kind, _ in fields_of):  # -0.0 equals 0.0, but is a different partition
        return list(zip(*(physical_list(kind, column) for kind, column in fields_of), strict=True))
    encoded = [pc.dictionary_encode(array_of_chunks(column), null_encoding="encode", memory_pool=MALLOC) for _, column in fields_of]
    codes = numpy_of(encoded[0].indices).astype(np.int64)
    for part in encoded[1:]:
        # The tuples are numbered again after each column, so that a number times the count of distinct values does not overflow.
        _, codes = np.unique(codes, return_inverse=True)
        codes = codes * len(part.dictionary) + numpy_of(part.indices)
    _, first, codes = np.unique(codes, return_index=True, return_inverse=True)
    parts = zip(fields_of, encoded, strict=True)
    values = [(physical_list(kind, part.dictionary), numpy_of(part.indices)[first].tolist()) for (kind, _), part in parts]
    distinct = list(zip(*(map(of_field.__getitem__, indices) for of_field, indices in values), strict=True))
    if shared is not None:
        distinct = list(map(shared.setdefault, distinct, distinct))
    return [distinct[code] for code in codes.tolist()]


def _values_of_codes(name: str, codes: Any, kinds: Mapping[Any, Any]) -> Values:
    """Return the value in `kinds` for the name or code in each row; a `Same` if all rows have the same. Raises `ManifestFormatError` for an unknown one."""
    distinct = pc.unique(codes, memory_pool=MALLOC).to_pylist()
    if unknown := [code for code in distinct if code not in kinds]:
        raise ManifestFormatError(
            f"a manifest entry has the {name} {unknown[0]!r}, which the format does not define",
            next_step=f"restore the manifest from a copy; the format defines {', '.join(map(str, kinds))}",
        )
    return Same(kinds[distinct[0]]) if len(distinct) == 1 else [kinds[code] for code in codes.to_pylist()]


def _tuples(lists: Any) -> Values:
    """Return a column of lists as a sequence of tuples. Equal tuples are the same object."""
    if lists.null_count == len(lists):
        return Same(None)
    offsets = offsets_of(lists)
    lengths = np.diff(offsets)
    if not lists.null_count and (lengths == lengths[0]).all():
        rows = numpy_of(lists.values)[offsets[0] : offsets[-1]].reshape(len(lists), -1)
        if (rows == rows[0]).all():
            return Same(tuple(rows[0].tolist()))
    items = lists.values.to_pylist()
    spans = pairwise(offsets.tolist())
    shared: dict[tuple[int, ...], tuple[int, ...]] = {}
    tuples: list[tuple[int, ...] | None] = [shared.setdefault(row, row) for row in (tuple(items[start:end]) for start, end in spans)]
    return [row if is_valid else None for row, is_valid in zip(tuples, pc.is_valid(lists, memory_pool=MALLOC).to_pylist(), strict=True)]


def _maps(rows: Any, statistic: str, field_ids: Sequence[int]) -> list[dict[int, Any] | None]:
    """Return for each file the map of a statistic, from field id to value, built from its statistics columns; None for a file without a value."""
    maps: list[dict[int, Any]] = [{} for _ in range(rows.num_rows)]
    for field_id in field_ids:
        for values, value in zip(maps, rows[statistic_column(statistic, field_id)].to_pylist(), strict=True):
            if value is not None:
                values[field_id] = value
    return [values or None for values in maps]
