"""What Spark's tasks that change rows share: rows in the table's form, with the row ids they keep, and the positions of rows that go, by file.

The tasks are those of `upsert.py` and `changed_rows_job.py`. Spec: Row Lineage; Row-level Deletes.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.kernel.arrow_values import numpy_of
from icefloe.kernel.puffin.deletion_vector import decode_deletion_vector, deletion_vector_from_positions, encode_deletion_vector
from icefloe.kernel.schema.metadata_columns import with_lineage
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.schema.schema_cast import cast_to_schema
from icefloe.spark.types.arrow_conversion import from_spark_form

Positions = NDArray[np.int64]
# By the path of a data file: how many positions there are, and their deletion vector as bytes.
PackedPositions = Mapping[str, tuple[int, bytes]]


def rows_in_form(batch: pa.RecordBatch, places: Sequence[int], names: Sequence[str], schema: Schema) -> Any:
    """The columns at these places, called so, as the table has them: a `pyarrow.Table`. Raises `SchemaMismatchError`."""
    kinds = {column.name: column.field_type for column in schema.fields}
    arrays = [from_spark_form(batch.column(place), kinds[name], name) for place, name in zip(places, names, strict=True)]
    return cast_to_schema(pa.Table.from_arrays(arrays, names=list(names)), schema)


def with_row_ids(rows: Any, row_ids: Any, schema: Schema) -> Any:
    """The rows with the columns of row lineage, whose names `with_lineage` gives them. Null: the row gets an id when it is committed."""
    lineage = (row_ids, pa.nulls(rows.num_rows, pa.int64()))
    for added, column in zip(with_lineage(schema.fields)[-2:], lineage, strict=True):
        rows = rows.append_column(added.name, column)
    return rows


class GonePositions:
    """The positions of rows that go, gathered by the path of their file."""

    def __init__(self) -> None:
        self._found: dict[str, list[Positions]] = {}

    def note(self, paths: Any, positions: Any) -> None:
        """Adds rows: Arrow arrays of their paths and positions, without nulls."""
        coded = paths.dictionary_encode()
        codes, numbers = numpy_of(coded.indices), numpy_of(positions.cast(pa.int64()))
        for code, path in enumerate(coded.dictionary.to_pylist()):
            self._found.setdefault(path, []).append(numbers[codes == code])

    def packed(self) -> PackedPositions:
        """Return how many they are and their deletion vector as bytes, which are few, by path."""
        return {path: _packed(np.unique(np.concatenate(found))) for path, found in self._found.items()}


def joined_positions(packed: Iterable[PackedPositions]) -> dict[str, Positions]:
    """The positions of all tasks by path, ascending; from what `GonePositions.packed` of each gave."""
    found: dict[str, list[Positions]] = {}
    for outcome in packed:
        for path, (count, vector) in outcome.items():
            found.setdefault(path, []).append(decode_deletion_vector(vector, cardinality=count, path=path).positions().astype(np.int64))
    return {path: np.sort(np.concatenate(parts)) for path, parts in found.items()}


def _packed(positions: NDArray[Any]) -> tuple[int, bytes]:
    return len(positions), encode_deletion_vector(deletion_vector_from_positions(positions))
