"""Helpers for Spark tasks that change rows: conversion of rows to the table's schema, row ids that rows keep, and positions of deleted rows by data file.

`changed_rows_job.py` and `upsert_job.py` run these tasks. Spec: Row Lineage; Row-level Deletes.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.spark.types.arrow_conversion import from_spark_form
from icefloe.spec.arrow_values import numpy_of
from icefloe.spec.puffin.deletion_vector import decode_deletion_vector, deletion_vector_from_positions, encode_deletion_vector
from icefloe.spec.schema.metadata_columns import with_lineage
from icefloe.spec.schema.schema import Schema
from icefloe.spec.schema.schema_cast import cast_to_schema

Positions = NDArray[np.int64]
# For each location of a data file, the number of positions, and their serialized deletion vector.
PackedPositions = Mapping[str, tuple[int, bytes]]


def table_rows(batch: pa.RecordBatch, ordinals: Sequence[int], names: Sequence[str], schema: Schema) -> Any:
    """Convert columns of a batch to rows with the table's schema.

    Args:
        batch: rows as a Spark task receives them, with Spark's Arrow types.
        ordinals: ordinals of the columns in the batch.
        names: the table's names for these columns, in the same order.
        schema: the table's schema.

    Returns:
        A `pyarrow.Table`.

    Raises:
        SchemaMismatchError: a value does not fit its column.
    """
    field_types = {column.name: column.field_type for column in schema.fields}
    arrays = [from_spark_form(batch.column(ordinal), field_types[name], name) for ordinal, name in zip(ordinals, names, strict=True)]
    return cast_to_schema(pa.Table.from_arrays(arrays, names=list(names)), schema)


def with_row_ids(rows: Any, row_ids: Any, schema: Schema) -> Any:
    """Add the two row lineage columns to rows of a `pyarrow.Table`: the row ids, and null sequence numbers. The commit replaces nulls in both."""
    lineage = (row_ids, pa.nulls(rows.num_rows, pa.int64()))
    for field, column in zip(with_lineage(schema.fields)[-2:], lineage, strict=True):
        rows = rows.append_column(field.name, column)
    return rows


class DeletedPositions:
    """Collects the positions of the rows that a task deletes, by location of the data file."""

    def __init__(self) -> None:
        self._by_path: dict[str, list[Positions]] = {}

    def add(self, paths: Any, positions: Any) -> None:
        """Add deleted rows: two Arrow arrays without nulls, with the locations of their files and their positions."""
        encoded = paths.dictionary_encode()
        codes, all_positions = numpy_of(encoded.indices), numpy_of(positions.cast(pa.int64()))
        for code, path in enumerate(encoded.dictionary.to_pylist()):
            self._by_path.setdefault(path, []).append(all_positions[codes == code])

    def pack(self) -> PackedPositions:
        """Return for each location the number of positions and their serialized deletion vector, to send them to the driver."""
        return {path: _pack(np.unique(np.concatenate(parts))) for path, parts in self._by_path.items()}


def joined_positions(packed: Iterable[PackedPositions]) -> dict[str, Positions]:
    """Merge the results of `DeletedPositions.pack` of all tasks. Return the positions by location, each as an ascending array."""
    by_path: dict[str, list[Positions]] = {}
    for outcome in packed:
        for path, (count, vector) in outcome.items():
            by_path.setdefault(path, []).append(decode_deletion_vector(vector, cardinality=count, path=path).positions().astype(np.int64))
    return {path: np.sort(np.concatenate(parts)) for path, parts in by_path.items()}


def _pack(positions: NDArray[Any]) -> tuple[int, bytes]:
    return len(positions), encode_deletion_vector(deletion_vector_from_positions(positions))
