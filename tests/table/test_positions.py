"""Positions of matching rows: the result of the in-process engine, compared with a count row by row."""

from pathlib import Path

import pyarrow as pa

from icefloe import SqlCatalog
from icefloe.operations.available_engines import IN_PROCESS
from icefloe.operations.rows.row_change import Removal
from icefloe.spec.expressions.row_filter import to_expression


def test_positions_are_returned_in_the_order_of_the_tasks(tmp_path: Path) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    numbers = pa.table({"n": pa.array(range(40), pa.int64()), "part": [n % 3 for n in range(40)]})
    table = catalog.create_table("db.t", numbers.schema, partition_spec=["part"])
    table.append(numbers)
    tasks = table.scan().plan_files()
    removal = Removal(handle=table.handle, row_filter=to_expression("n < 7 or n > 30"), case_sensitive=True)
    for task, positions in zip(tasks, removal.positions(IN_PROCESS, tasks, table.metadata), strict=True):
        own = [n for n in range(40) if n % 3 == task.file.partition[0]]
        assert positions.tolist() == [place for place, n in enumerate(own) if n < 7 or n > 30]
    assert removal.positions(IN_PROCESS, [], table.metadata) == []
