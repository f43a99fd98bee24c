"""Merging of position delete files by Icefloe and by Java, each by `rewrite_position_delete_files` on the same table and version of Spark.

The table of format version 2 has 10,000,000 rows in 20 files, and 200 position delete files of 10,000 rows, each of all data files. Runs are those of
`converting.py`.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks import measure
from benchmarks.converting import FILES, ROWS_OF_A_FILE, compared
from benchmarks.measure import Comparison, say
from benchmarks.spark_lake import new_lake_in
from icefloe.datafile.deletes.delete_file_output import RowsToDelete, write_position_deletes
from icefloe.operations.rows.row_change import specs_of
from icefloe.operations.rows.write_context import write_target

DELETE_FILES, ROWS_OF_A_DELETE_FILE = 200, 10_000
PROPERTIES = {"format-version": "2", "write.delete.granularity": "partition"}


def run() -> list[Comparison]:
    """Measure both sides, and compare the rows that they leave."""
    say(f"merging_deletes: a table of {FILES * ROWS_OF_A_FILE:,} rows and {DELETE_FILES} position delete files (made once)")
    large, small = (_made(name, files, deletes) for name, files, deletes in (("large", FILES, DELETE_FILES), ("small", 2, 5)))
    return compared("merge", f"`rewrite_position_delete_files` of {DELETE_FILES} files", large, small, "")


def _made(name: str, files: int, deletes: int) -> str:
    """Return the location of the table's metadata file."""
    folder: Path = measure.BUILD / f"merging-deletes-{name}"
    done = folder / "metadata-location"
    if done.exists():
        return done.read_text()
    table = new_lake_in(folder).create_table("bench.t", pa.schema([("id", pa.int64())]), properties=PROPERTIES)
    chance = np.random.default_rng(7)
    for number in range(files):
        table.append(pa.table({"id": np.arange(ROWS_OF_A_FILE) + number * ROWS_OF_A_FILE}))
    data_files = [task.file for task in table.scan().plan_files()]
    for _ in range(deletes):
        rows = [
            RowsToDelete(file=file, positions=np.unique(chance.integers(0, ROWS_OF_A_FILE, ROWS_OF_A_DELETE_FILE // files)))
            for file in data_files
        ]
        target = write_target(table.handle, table.metadata)
        written = write_position_deletes(target, rows, specs=specs_of(table.metadata), partition_id=0, task_id=0, file_scoped=False)
        update = table.update_snapshot().row_delta()
        for file in written.added:
            update.add_deletes(file)
        update.commit()
    done.write_text(table.metadata_location)
    return table.metadata_location
