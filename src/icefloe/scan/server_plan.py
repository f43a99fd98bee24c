"""`ServerPlanner`: the port to a catalog's server that plans scans; and `PlanRequest`, the scan to plan.

The server's files are returned as a `ScanPlan`, as by `plan_scan`, so that everything after planning is the same. Spec: REST catalog, planTableScan.
"""

from dataclasses import dataclass
from typing import Protocol

from icefloe.scan.scan_plan import ScanPlan
from icefloe.spec.expressions.predicate import BooleanExpression
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.schema.schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """A request to a server to plan a scan.

    Attributes:
        table_name: The table, for messages.
        metadata: The metadata of the table.
        snapshot_id: The snapshot to read.
        after: The snapshot after which rows were appended, in an incremental scan; else None.
        schema: The schema that the filter is bound to.
        uses_snapshot_schema: Whether `schema` is the schema of the snapshot instead of the table's current schema.
        row_filter: The bound filter.
        case_sensitive: Whether names are matched by letter case.
        columns: The names of the columns to read; empty for all.
        statistics: Field ids of the columns whose statistics are columns of the plan.
        include_statistics: Whether the files of the tasks have statistics too.
        enough_rows: Number of rows after which planning may stop; None to plan all files.
    """

    table_name: str
    metadata: TableMetadata
    snapshot_id: int
    after: int | None
    schema: Schema
    uses_snapshot_schema: bool
    row_filter: BooleanExpression
    case_sensitive: bool
    columns: tuple[str, ...] = ()
    statistics: tuple[int, ...] = ()
    include_statistics: bool = False
    enough_rows: int | None = None


class ServerPlanner(Protocol):
    """A catalog's server that plans the scans of one table. Implementations must be picklable, because scans are sent to other processes."""

    def plan(self, request: PlanRequest) -> ScanPlan:
        """Return the planned files. Raises `IcefloeError` if the server refuses the request, cannot be reached, or violates the protocol."""
