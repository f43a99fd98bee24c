"""Writes 500 MB of Arrow rows, spread over 1,000 partitions, in one task; prints the growth of the process's peak memory, and what Arrow held at most."""

import json
import resource
import sys
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from icefloe.datafile.data_file_writer import write_batches
from icefloe.datafile.write_target import WriteTarget
from icefloe.io.local_file_io import LocalFileIO
from icefloe.spec.arrow_values import numbers_array
from icefloe.spec.partitioning.partition_spec import partition_spec_from_text
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import FixedType, LongType, NestedField

PARTITIONS, ROWS, WIDTH, BATCHES = 1_000, 8_192, 500, 120
SCHEMA = Schema(NestedField(1, "p", LongType(), required=False), NestedField(2, "content", FixedType(WIDTH), required=False))


def batches() -> Iterator[pa.RecordBatch]:
    """Yield batches with rows of every partition, in another order in each."""
    random = np.random.default_rng(1)
    for _ in range(BATCHES):
        numbers = numbers_array(random.integers(0, PARTITIONS, ROWS), pa.int64())
        content = pa.Array.from_buffers(pa.binary(WIDTH), ROWS, [None, pa.py_buffer(random.bytes(ROWS * WIDTH))])
        yield pa.RecordBatch.from_arrays([numbers, content], names=["p", "content"])


def main(folder: str) -> None:
    """Write the rows."""
    target = WriteTarget(
        table_name="t",
        schema=SCHEMA,
        spec=partition_spec_from_text(SCHEMA, ["p"]),
        properties={},
        data_location=folder,
        io=LocalFileIO(),
        operation_uuid="one",
    )
    write_batches(target, [next(batches())], partition_id=0, task_id=0)  # so that imports and pools are no part of the growth
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    files = write_batches(target, batches(), partition_id=0, task_id=1)
    growth = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    partitions = {file.partition for file in files}
    arrow = pa.default_memory_pool().max_memory()
    print(json.dumps({"growth": growth, "arrow": arrow, "rows": sum(file.record_count for file in files), "partitions": len(partitions)}))


if __name__ == "__main__":
    main(sys.argv[1])
