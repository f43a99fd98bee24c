"""Child process that commits existing data files and prints the seconds: `files_commit_child.py icefloe|pyiceberg FOLDER FILES`.

The data files are only described, with statistics of 20 columns and two partition fields. It runs in the Python environment of the engine.
"""

import json
import random
import struct
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa

MODULE_OF_SQL_CATALOG = {"icefloe": "icefloe.catalog.sql_catalog", "pyiceberg": "pyiceberg.catalog.sql"}
COLUMNS = 20
SCHEMA = pa.schema([(f"c{number:02}", pa.int64()) for number in range(1, COLUMNS + 1)])
RECORDS = 10_000


def described(count: int) -> Iterator[dict[str, Any]]:
    """Return the description of each file that both engines receive."""
    chance = random.Random(7)
    columns = range(1, COLUMNS + 1)
    for number in range(count):
        lower = {column: chance.randrange(2**40) for column in columns}
        yield {
            "file_path": f"s3://bucket/warehouse/bench/files/data/c01_bucket={number % 16}/{chance.getrandbits(128):032x}-{number:08}.parquet",
            "record_count": RECORDS,
            "file_size_in_bytes": 1_000_000 + chance.randrange(1_000_000),
            "column_sizes": {column: 10_000 + chance.randrange(50_000) for column in columns},
            "value_counts": dict.fromkeys(columns, RECORDS),
            "null_value_counts": dict.fromkeys(columns, 0),
            "nan_value_counts": {},
            "lower_bounds": {column: struct.pack("<q", low) for column, low in lower.items()},
            "upper_bounds": {column: struct.pack("<q", low + 2**20) for column, low in lower.items()},
            "split_offsets": [4],
            "bucket": number % 16,
            "day": 19_000 + chance.randrange(1_000),
        }


def now() -> tuple[float, float]:
    """Return the wall-clock seconds and the CPU seconds of all threads."""
    return time.perf_counter(), time.process_time()


def since(begin: tuple[float, float]) -> tuple[float, float]:
    """Return the wall-clock and CPU seconds since `begin`."""
    clock, processors = now()
    return clock - begin[0], processors - begin[1]


def icefloe(table: Any, count: int) -> tuple[float, float]:
    """Append the files with Icefloe."""
    data_file = import_module("icefloe.spec.manifest.data_file")
    append = import_module("icefloe.commit.append").Append
    context = import_module("icefloe.operations.rows.write_context").commit_context
    files = []
    for one in described(count):
        partition = (one.pop("bucket"), one.pop("day"))
        one["split_offsets"] = tuple(one["split_offsets"])
        files.append(
            data_file.DataFile(
                file_format=data_file.FileFormat.PARQUET, partition=partition, spec_id=table.spec().spec_id, sort_order_id=0, **one
            )
        )
    start = table.mutation_context()
    begin = now()
    table.apply(append(files, context(start.handle, start.metadata, {}, "main")))
    return since(begin)


def pyiceberg(table: Any, count: int) -> tuple[float, float]:
    """Append the files with PyIceberg's `_append_snapshot_producer`, which its `append` and `add_files` use."""
    module, record = import_module("pyiceberg.manifest"), import_module("pyiceberg.typedef").Record
    files = []
    for one in described(count):
        partition = record(one.pop("bucket"), one.pop("day"))
        file = module.DataFile.from_args(
            content=module.DataFileContent.DATA,
            file_format=module.FileFormat.PARQUET,
            partition=partition,
            sort_order_id=None,
            key_metadata=None,
            **one,
        )
        file.spec_id = table.spec().spec_id
        files.append(file)
    begin = now()
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as appending:
        for file in files:
            appending.append_data_file(file)
    return since(begin)


def main(engine: str, folder: str, count: int) -> None:
    """Commit the files and print the seconds; see the module."""
    made = Path(folder) / engine
    made.mkdir(parents=True, exist_ok=True)
    catalog = import_module(MODULE_OF_SQL_CATALOG[engine]).SqlCatalog(
        "bench", uri=f"sqlite:///{made}/catalog.db", warehouse=f"file://{made}"
    )
    catalog.create_namespace_if_not_exists("bench")
    name = f"bench.t{time.time_ns()}"
    table = catalog.create_table(name, schema=SCHEMA)
    with table.update_spec() as update:
        transforms = import_module("icefloe.spec.partitioning.transforms" if engine == "icefloe" else "pyiceberg.transforms")
        update.add_field("c01", transforms.BucketTransform(16), "c01_bucket")
        update.add_field("c02", transforms.TruncateTransform(10), "c02_trunc")
    table = catalog.load_table(name)
    taken = {"icefloe": icefloe, "pyiceberg": pyiceberg}[engine](table, count)
    snapshot = catalog.load_table(name).current_snapshot()
    files = int((snapshot.summary or {})["total-data-files"])
    if files != count:
        raise SystemExit(f"{files} files were committed, not {count}")
    print(
        json.dumps(
            {
                "seconds": taken[0],
                "cpu": taken[1],
                "manifests": len(list(Path(folder).glob(f"{engine}/**/{name.split('.')[1]}/**/*-m*.avro"))),
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
