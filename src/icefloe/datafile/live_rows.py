"""`LiveRows`: reads the live rows of the data files that are copied into new files of a table. Spec: Row-level Deletes; Column Projection."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from icefloe.datafile.data_file_reader import read_task
from icefloe.datafile.deletes.delete_loader import DeleteLoader
from icefloe.datafile.write_target import WriteTarget
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spec.expressions.predicate import AlwaysTrue
from icefloe.spec.metadata.table_properties import NAME_MAPPING
from icefloe.spec.partitioning.partition_spec import PartitionSpec
from icefloe.spec.schema.schema import Schema


@dataclass(frozen=True, slots=True)
class LiveRows:
    """A reader of the live rows of scan tasks: those that no delete file deletes. The filters of the tasks are ignored. A pickled copy has no cached deletes.

    Attributes:
        target: The table to which the files belong.
        schema: The table's schema.
        specs: Partition specs of the table, by id.
        deletes: Loader that caches delete files for other tasks.
    """

    target: WriteTarget
    schema: Schema
    specs: Mapping[int, PartitionSpec]
    deletes: DeleteLoader

    def of(self, task: FileScanTask, projection: Schema) -> Iterator[pa.RecordBatch]:
        """Yield the live rows of a file, in the file's order, with the columns of `projection`. Raises the errors of `read_task`."""
        return read_task(
            self.target.io,
            task,
            schema=self.schema,
            projection=projection,
            specs=self.specs,
            row_filter=AlwaysTrue(),
            name_mapping=NAME_MAPPING.read(self.target.properties),
            deletes=self.deletes,
        )


def live_rows(target: WriteTarget, schema: Schema, specs: Mapping[int, PartitionSpec], schemas: Sequence[Schema] = ()) -> LiveRows:
    """Return a reader of live rows. `schemas` are all schemas of the table, because the key columns of an equality delete may have been dropped."""
    loader = DeleteLoader(target.io, schemas=schemas or (schema, *target.older_schemas), name_mapping=NAME_MAPPING.read(target.properties))
    return LiveRows(target, schema, specs, loader)
