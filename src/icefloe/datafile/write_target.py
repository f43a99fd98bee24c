"""`WriteTarget`: what tasks need to write data files of one table, as one value that can be pickled; `WritingTask` is one of them.

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
    """The table that rows are written to: its schema, spec, properties and storage. It can be pickled if its `io` can.

    `data_location` is the folder of partition folders and data files, without a slash at its end. `operation_uuid` is part of every file name, so that two
    operations never choose the same name; the caller draws it, because this package draws no random numbers.
    """

    table_name: str
    schema: Schema
    data_location: str
    io: FileIO
    operation_uuid: str
    spec: PartitionSpec = UNPARTITIONED_SPEC
    sort_order_id: int | None = 0
    # The order in which an engine sorts rows before they are written here; the writer does not sort.
    sort_order: SortOrder = UNSORTED_SORT_ORDER
    # The order of rows along a space-filling curve, in place of a sort order.
    curve: CurveOrder | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    # Number of equal parts into which sorted rows are divided, each for one file or more; None if the size of files alone decides.
    sorted_parts: int | None = None
    # Older schemas of the table. Files are copied within their own partition spec, whose source columns may be dropped from the current schema.
    older_schemas: tuple[Schema, ...] = ()
    # The last two names of the table's location, where files are in a folder elsewhere that other tables may share.
    location_context: str = ""


@dataclass(frozen=True, slots=True)
class WritingTask:
    """One attempt of a task that writes files.

    Attributes:
        partition_id: Number of the engine's partition, part of the new files' names.
        task_id: Number of the task attempt, part of the new files' names.
        is_stopped: Returns True where the files are not needed any more; it is called for each batch of rows.
    """

    partition_id: int
    task_id: int = 0
    is_stopped: Callable[[], bool] = lambda: False
