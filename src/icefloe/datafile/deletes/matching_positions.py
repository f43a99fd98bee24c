"""`matching_positions`: positions of the live rows of a data file that match a filter, for a merge-on-read delete.

`delete_file_output.py` writes them to delete files. Spec: Row-level Deletes.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icefloe.datafile.data_file_reader import read_task
from icefloe.datafile.deletes.delete_loader import DeleteLoader
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spec.arrow_values import numpy_of
from icefloe.spec.expressions.predicate import BooleanExpression
from icefloe.spec.partitioning.partition_spec import PartitionSpec
from icefloe.spec.ports import FileIO
from icefloe.spec.schema.metadata_columns import POS
from icefloe.spec.schema.name_mapping import NameMapping
from icefloe.spec.schema.schema import Schema


def matching_positions(
    io: FileIO,
    task: FileScanTask,
    delete_filter: BooleanExpression,
    *,
    schema: Schema,
    specs: Mapping[int, PartitionSpec],
    name_mapping: NameMapping | None = None,
    deletes: DeleteLoader | None = None,
) -> NDArray[np.int64]:
    """Return the positions in the task's file, ascending, of live rows for which `delete_filter` (bound to `schema`) is TRUE.

    Only the columns of the filter and of equality deletes are read. Raises as `read_task`.
    """
    batches = read_task(
        io,
        task,
        schema=schema,
        projection=Schema(POS),
        specs=specs,
        row_filter=delete_filter,
        name_mapping=name_mapping,
        deletes=deletes,
    )
    positions: list[NDArray[Any]] = [numpy_of(batch.column(0)) for batch in batches]
    return np.concatenate(positions) if positions else np.empty(0, np.int64)
