"""The memory of a compaction is bounded by new files, not by the files of a group: wide rows, and many equality deletes, on a driver with a heap of 1 GB.

The sizes are those that users reported, or a part of them: 585 equality-delete files of 17 keys; and rows of 18 KB, a fifth of 25 GB of them.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from icefloe import SqlCatalog
from icefloe.table.table import Table

pytestmark = pytest.mark.slow

DELETE_FILES, KEYS = 585, 17
BYTES_OF_A_ROW = 18_000
# Megabytes above those before the call, for two files that are written at once, and of a worker of Spark. Each file holds a row group of 128 MB several times:
# as it is stored, as it is read and as it is written.
MOST_MEGABYTES, MOST_MEGABYTES_OF_A_WORKER = 1_600, 1_000


def made(folder: Path, schema: pa.Schema) -> Table:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    catalog.create_namespace("db")
    return catalog.create_table("db.t", schema, properties={"format-version": "2", "commit.manifest-merge.enabled": "true"})


def compacted(folder: Path, engine: str, **options: Any) -> dict[str, Any]:
    """Compact the table in a process of its own, so that the peak is that of this work."""
    program = Path(__file__).with_name("compaction_child.py")
    command = [sys.executable, str(program), str(folder), engine, json.dumps(options), "1g"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-3000:]
    return dict(json.loads(result.stdout.splitlines()[-1]))


def wide_rows(folder: Path, files: int, rows: int) -> Table:
    """Make a table of files with rows of 18 KB, which compress well: each has a text of its own and some of a few bodies."""
    schema = pa.schema([("id", pa.int64()), ("body", pa.string())])
    table, chance = made(folder, schema), np.random.default_rng(1)
    bodies = [chance.bytes(BYTES_OF_A_ROW // 2).hex() for _ in range(16)]

    def batches(first: int) -> Iterator[pa.RecordBatch]:
        for start in range(first, first + rows, 2_000):
            ids = range(start, min(start + 2_000, first + rows))
            yield pa.record_batch([pa.array(ids, pa.int64()), pa.array([f"{one:08}{bodies[one % 16]}" for one in ids])], schema=schema)

    for number in range(files):
        table.append(pa.RecordBatchReader.from_batches(schema, batches(number * rows)))
    return table


@pytest.mark.spark
@pytest.mark.parametrize("engine", ["in-process", "spark"])
def test_many_equality_deletes_are_applied_in_little_memory(tmp_path: Path, engine: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("value", pa.string())])
    table = made(tmp_path, schema)
    rows = 500_000
    for start in range(0, 4 * rows, rows):
        table.append(
            pa.table({"id": range(start, start + rows), "value": [f"value {one}" for one in range(start, start + rows)]}, schema=schema)
        )
    for number in range(DELETE_FILES):
        table.delete_keys(pa.table({"id": range(number * KEYS * 100, (number + 1) * KEYS * 100, 100)}, schema=schema.remove(1)), ["id"])
    taken = compacted(tmp_path, engine, **{"delete-file-threshold": 1})
    assert (taken["rewritten"], taken["failed"], taken["deleted_rows"]) == (4, 0, DELETE_FILES * KEYS)
    assert taken["peak"] - taken["before"] < MOST_MEGABYTES
    assert taken["worker"] < MOST_MEGABYTES_OF_A_WORKER
    table.refresh()
    assert table.scan().count() == 4 * rows - DELETE_FILES * KEYS
    assert table.scan("id = 1700 or id = 1701").to_arrow()["id"].to_pylist() == [1701]


@pytest.mark.spark
@pytest.mark.parametrize("engine", ["in-process", "spark"])
def test_wide_rows_are_compacted_on_a_small_heap(tmp_path: Path, engine: str) -> None:
    table = wide_rows(tmp_path, 4, 70_000)  # 5 GB before compression; a file has a few MB
    target = sum(task.file.file_size_in_bytes for task in table.scan().plan_files()) // 2
    taken = compacted(tmp_path, engine, **{"target-file-size-bytes": target, "rewrite-all": True})
    assert (taken["rewritten"], taken["failed"]) == (4, 0)
    assert taken["peak"] - taken["before"] < MOST_MEGABYTES
    assert taken["worker"] < MOST_MEGABYTES_OF_A_WORKER
    table.refresh()
    assert table.scan().count() == 280_000


def test_memory_in_this_process_does_not_grow_with_the_group(tmp_path: Path) -> None:
    peaks = []
    for name, files in (("small", 6), ("large", 24)):
        (tmp_path / name).mkdir()
        wide_rows(tmp_path / name, files, 8_000)  # 0.9 GB and 3.5 GB before compression
        taken = compacted(tmp_path / name, "in-process", **{"rewrite-all": True, "max-concurrent-file-group-rewrites": 2})
        peaks.append(taken["peak"] - taken["before"])
    assert peaks[1] < peaks[0] * 1.5
