"""`MatchingPositions`: find the live rows of data files that match a filter, for a merge-on-read delete. `delete_file_output.py` writes the positions.

Spec: Row-level Deletes.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from icefloe.datafile.data_file_reader import read_task
from icefloe.datafile.deletes.delete_loader import DeleteLoader
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spec.arrow_values import numpy_of
from icefloe.spec.expressions.predicate import BooleanExpression
from icefloe.spec.partitioning.partition_spec import PartitionSpec
from icefloe.spec.ports import FileIO
from icefloe.spec.puffin.deletion_vector import DeletionVector, deletion_vector_from_positions
from icefloe.spec.schema.metadata_columns import POS
from icefloe.spec.schema.name_mapping import NameMapping
from icefloe.spec.schema.schema import Schema


@dataclass(frozen=True, kw_only=True)
class MatchingPositions:
    """A function that finds the live rows of a data file that match a filter. It can be pickled, so that Spark's tasks can run it.

    Attributes:
        io: The storage.
        row_filter: A filter bound to `schema`.
        schema: The table's schema.
        specs: Partition specs of the table, by id.
        name_mapping: Field ids for the columns of files without ids.
        deletes: Loader that caches delete files for other data files.
    """

    io: FileIO
    row_filter: BooleanExpression
    schema: Schema
    specs: Mapping[int, PartitionSpec]
    name_mapping: NameMapping | None = None
    deletes: DeleteLoader | None = None

    def __call__(self, task: FileScanTask) -> DeletionVector:
        """Return the positions of the rows in a file that are live and for which the filter is TRUE.

        Only the columns of the filter and of equality deletes are read. Raises the errors of `read_task`.
        """
        batches = read_task(
            self.io,
            task,
            schema=self.schema,
            projection=Schema(POS),
            specs=self.specs,
            row_filter=self.row_filter,
            name_mapping=self.name_mapping,
            deletes=self.deletes,
        )
        positions = [numpy_of(batch.column(0)) for batch in batches]
        return deletion_vector_from_positions(np.concatenate(positions) if positions else np.empty(0, np.int64))
