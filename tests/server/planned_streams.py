"""Streams of the planned files of a small table, and their reading, for the tests of damaged ones."""

from functools import cache
from typing import Any

import numpy as np
from tests.scan.test_plan_deletes import DeletedFrom, equality, vector
from tests.scan.test_scan_planner import BY_MONTH, MARCH, UNPARTITIONED

from icefloe.scan.scan_plan import ScanPlan
from icefloe.scan.scan_task_stream import written_stream
from icefloe.scan.server_plan import PlanRequest
from icefloe.server.scan_task_json import ScanTaskJson
from icefloe.spec.expressions.predicate import AlwaysTrue
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.stores.rest.scan_tasks import ScanTaskReader, ScanTasks

STATISTICS = (1, 3)


@cache
def planned() -> tuple[TableMetadata, ScanPlan]:
    """Return a table of two partition specs with deletes of each kind, and the plan of a scan of it with residuals."""
    table = DeletedFrom(version=3)
    table.version = 2
    table.deletes("d1.avro", UNPARTITIONED, equality("e1", (), 0, 3))
    table.version = 3
    table.deletes("d2.avro", BY_MONTH, vector("v", (MARCH, "JFK"), "m1"), vector("w", (MARCH, "EWR"), "m2"))
    return table.table(), table.plan("i > 2 AND s != 'x'", include_statistics=True, include_tested=True)


def stream(statistics: tuple[int, ...] = STATISTICS, **response: Any) -> bytes:
    """Return the stream of the files of the plan."""
    metadata, plan = planned()
    writer = ScanTaskJson(metadata, statistics)
    deletes = [writer.delete_file(file) for file in plan.delete_files]
    return bytes(written_stream(plan.parts, {"delete-files": deletes, **response}, statistics, np.arange(len(deletes))))


def streams() -> list[bytes]:
    """Return the stream with and without statistics."""
    return [stream(), stream(())]


def reader() -> ScanTaskReader:
    """Return a reader of the stream."""
    metadata, plan = planned()
    request = PlanRequest(
        table_name="db.t",
        metadata=metadata,
        snapshot_id=1,
        after=None,
        schema=plan.schema,
        uses_snapshot_schema=False,
        row_filter=plan.row_filter,
        case_sensitive=True,
        statistics=STATISTICS,
        include_statistics=True,
    )
    return ScanTaskReader(request, AlwaysTrue(), "lake")


def read(content: bytes) -> ScanPlan:
    """Return the plan that a client makes of a stream. Raises `MetadataFormatError`."""
    tasks = reader()
    return tasks.plan([tasks.page(*tasks.read_stream(content, ScanTasks))])
