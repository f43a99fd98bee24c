"""Theta sketches of columns, computed from batches of rows in this process and in Spark's tasks.

The sketches are `spec/puffin/theta_sketch.py`, the hashes of values `spec/distinct_values.py`. Spec: Puffin file format.
"""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from icefloe.spec.distinct_values import column_hashes
from icefloe.spec.puffin.theta_sketch import EMPTY_SKETCH, ThetaSketch
from icefloe.spec.types import PrimitiveType

# Threads that hash columns side by side; hashing is numpy's and Arrow's native code for the most part.
_HASH_THREADS = 4


@dataclass(frozen=True, slots=True)
class SketchedColumn:
    """A column whose distinct values are counted: its type, and the names of the structs around it and its own, outermost first."""

    kind: PrimitiveType
    path: tuple[str, ...]


def column_sketches(batches: Iterable[Any], columns: Sequence[SketchedColumn]) -> list[ThetaSketch]:
    """Return a sketch of each column's values, nulls left out.

    Args:
        batches: Record batches with the outermost columns.
        columns: The columns.

    Returns:
        The sketches, in the order of the columns.
    """
    sketches = [EMPTY_SKETCH] * len(columns)
    with ThreadPoolExecutor(_HASH_THREADS, thread_name_prefix="icefloe-hash") as pool:
        for batch in batches:
            hashes_of_columns = pool.map(lambda column, batch=batch: column_hashes(column.kind, _values(batch, column.path)), columns)
            sketches = [sketch.with_hashes(hashes) for sketch, hashes in zip(sketches, hashes_of_columns, strict=True)]
    return sketches


def _values(batch: Any, path: tuple[str, ...]) -> Any:
    """Return a column's values; null if a struct around them is null."""
    column = batch.column(path[0])
    for name in path[1:]:
        column = pc.struct_field(column, name)
    return column
