"""`WriteTarget`: all that tasks need to write data files of a table, as a value that can be pickled; and `WritingTask`, one attempt of such a task.

`data_file_writer.py`, `copy_data_file.py` and `deletes/delete_file_output.py` write to it. Spec: Writing Data Files.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from icefloe.spec.partitioning.curve_cells import CurveOrder
from icefloe.spec.partitioning.partition_spec import UNPARTITIONED_SPEC, PartitionSpec
from icefloe.spec.partitioning.sort_order import UNSORTED_SORT_ORDER, SortOrder
from icefloe.spec.ports import FileIO
from icefloe.spec.schema.schema import Schema


@dataclass(frozen=True, kw_only=True)
class WriteTarget:
    """All that a task needs to write files of a table: its schema, spec, properties and storage. It can be pickled if its `io` can.

    `data_location` is the folder of partition folders and data files, without a slash at its end. `operation_uuid` is part of every file name, so that two
    operations never choose the same name. The caller generates it, because this package does not generate random numbers.
    """

    table_name: str
    schema: Schema
    data_location: str
    io: FileIO
    operation_uuid: str
    spec: PartitionSpec = UNPARTITIONED_SPEC
    sort_order_id: int | None = 0
    # The order in which an engine sorts rows before they are written here; the writer itself does not sort.
    sort_order: SortOrder = UNSORTED_SORT_ORDER
    # The space-filling curve along which rows are sorted, instead of by `sort_order`.
    curve: CurveOrder | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    # The number of equal parts into which sorted rows are divided, each for one or more files; None if only the size of files decides.
    sorted_parts: int | None = None
    # Older schemas of the table. Files are copied within their own partition spec, whose source columns may have been dropped from the current schema.
    older_schemas: tuple[Schema, ...] = ()
    # The last two names of the table's location, if files are written to a folder elsewhere that other tables may share.
    location_context: str = ""


@dataclass(frozen=True, slots=True)
class WritingTask:
    """One attempt of a task that writes files.

    Attributes:
        partition_id: Number of the engine's partition, part of the new files' names.
        task_id: Number of the task attempt, part of the new files' names.
        is_stopped: A function that returns True if the files are not needed any more; it is called for each batch of rows.
    """

    partition_id: int
    task_id: int = 0
    is_stopped: Callable[[], bool] = lambda: False
