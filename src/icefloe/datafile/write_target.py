"""`WriteTarget`: everything a task needs to write data files of one table, as one value that crosses process borders.

What is done with it is `write.py` and `rewrite.py`. Spec: Writing Data Files.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from icefloe.kernel.partitioning.partition_spec import UNPARTITIONED_SPEC, PartitionSpec
from icefloe.kernel.partitioning.sort_order import UNSORTED_SORT_ORDER, SortOrder
from icefloe.kernel.ports import FileIO
from icefloe.kernel.schema.schema import Schema


@dataclass(frozen=True, kw_only=True)
class WriteTarget:
    """Where rows go, and in what form. Pickles whenever its `io` does.

    `data_location` is the folder under which partition folders and data files are made, without a slash at its end. `operation_uuid` stands in every
    file name, so two operations never choose the same name; it is drawn by the caller, as this floor draws no random numbers.
    """

    table_name: str
    schema: Schema
    data_location: str
    io: FileIO
    operation_uuid: str
    spec: PartitionSpec = UNPARTITIONED_SPEC
    sort_order_id: int | None = 0
    # The order an engine brings rows into before it hands them over; writing itself keeps the order it is given.
    sort_order: SortOrder = UNSORTED_SORT_ORDER
    properties: Mapping[str, str] = field(default_factory=dict)
    # Schemas that still have the columns of older specs, where the table's has dropped them: files are copied within their own spec.
    older_schemas: tuple[Schema, ...] = ()
