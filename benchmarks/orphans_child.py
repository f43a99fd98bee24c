"""Child process of the benchmark `orphans`.

`icefloe|java LAKE TABLE...` searches the tables, and prints figures of the last; `memory FILES` and `spark-memory LAKE FILES` compare made-up names.
"""

import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.compaction_child import java_session, java_settings
from benchmarks.planning_child import megabytes
from benchmarks.spark_changes import cpu_seconds
from icefloe import load_catalog
from icefloe.io.file_tree import HiddenNames
from icefloe.io.local_file_io import LocalFileIO
from icefloe.operations.available_engines import engine_named
from icefloe.operations.metadata_cache import LoadedMetadata
from icefloe.operations.orphans.orphan_search import OrphanRequest, find_in_process
from icefloe.operations.orphans.path_database import LISTED
from icefloe.operations.orphans.path_keys import PathKeys, PrefixMismatch
from icefloe.operations.orphans.referenced_files import ReferencedFiles, referenced_files
from icefloe.spark import session

FILES_OF_A_FOLDER = 10_000
FILES_BETWEEN_SAMPLES = 250_000
FOLDER = "/warehouse/bench/t/data"
Search = Callable[[str], Iterable[str]]


def main(side: str, *arguments: str) -> None:
    """Run one side and print its figures."""
    if side == "spark-memory":
        figures = spark_memory(*arguments)
    else:
        figures = memory(int(arguments[0])) if side == "memory" else searched(side, *arguments)
    print(json.dumps(figures))


def searched(side: str, lake: str, *tables: str) -> dict[str, Any]:
    """Search the tables; return the times of the last, and what is found there in a form that can be compared."""
    search = {"icefloe": _icefloe, "java": _java}[side](lake)
    taken: dict[str, Any] = {}
    for table in tables:
        started, started_cpu = time.perf_counter(), cpu_seconds()
        found = search(f"bench.{table}")
        taken = {"wall": time.perf_counter() - started, "cpu": cpu_seconds() - started_cpu}
        paths = sorted(path.removeprefix("file:").removeprefix("//") for path in found)
        if not paths:
            raise SystemExit(f"nothing was found in {table}")
        digest = hashlib.sha256("\n".join(paths).encode()).hexdigest()
        taken |= {"found": f"{len(paths)} {digest}", "peak": megabytes("VmHWM")}
    return taken


def _icefloe(lake: str) -> Search:
    catalog = load_catalog("bench", type="hadoop", warehouse=lake)

    def search(name: str) -> Iterable[str]:
        paths: list[str] = catalog.load_table(name).maintenance.remove_orphan_files(dry_run=True).files["path"].to_pylist()
        return paths

    return search


def _java(lake: str) -> Search:
    spark = java_session(java_settings(Path(lake)))
    call = "CALL lake.system.remove_orphan_files(table => '{0}', dry_run => true)"
    return lambda name: [row[0] for row in spark.sql(call.format(name)).collect()]


class _MadeUp(ReferencedFiles):
    """Every second file of `listed`."""

    def batches(self) -> Iterator[Any]:
        """Yield the locations of the files."""
        for table in listed(int(self.paths[0])):
            yield table["path"].take(pa.array(range(0, len(table), 2)))


def listed(files: int) -> Iterator[Any]:
    """Yield tables of made-up files, one a folder."""
    size, modified = pa.array([1] * FILES_OF_A_FOLDER, pa.int64()), pa.array([0] * FILES_OF_A_FOLDER, pa.int64())
    for first in range(0, files, FILES_OF_A_FOLDER):
        yield pa.table([pa.array(made_up_names(first, first + FILES_OF_A_FOLDER)), size, modified], schema=LISTED)


def made_up_names(first: int, end: int) -> list[str]:
    """Return the names of made-up files with these numbers."""
    return [
        f"{FOLDER}/day={number // FILES_OF_A_FOLDER}/{number:08}-{number * 40503 % 2**32:08x}-c001.parquet" for number in range(first, end)
    ]


def memory(files: int) -> dict[str, Any]:
    """Compare made-up files; return the peak memory of the process in MB."""
    request = OrphanRequest(
        table_name="bench.t",
        io=LocalFileIO(),
        folder="/warehouse/bench/t",
        hidden=HiddenNames(),
        keys=PathKeys.of({}, {}),
        mismatch=PrefixMismatch.ERROR,
        referenced=lambda _: _MadeUp(io=LocalFileIO(), paths=(str(files),), manifests=None),
        files=lambda: listed(files),
    )
    found = sum(len(orphans) for orphans in find_in_process(request))
    if found != files // 2:
        raise SystemExit(f"{found} files were found, not {files // 2}")
    return {"peak": megabytes("VmHWM")}


def spark_memory(lake: str, files: str) -> dict[str, Any]:
    """Compare made-up files by two executors; return the peak memory of the driver's Python, and of live objects in its JVM, in MB."""
    settings = {"spark.driver.memory": "512m", "spark.executor.memory": "1500m", "spark.ui.enabled": "false"}
    spark = session(settings, master="local-cluster[2,2,1500]")
    table = load_catalog("bench", type="hadoop", warehouse=lake).load_table(f"bench.t{files}")
    loaded = LoadedMetadata(location=table.metadata_location, metadata=table.metadata)
    name = f"format_string('{FOLDER}/day=%d/%08d-%08x-c001.parquet', id DIV {FILES_OF_A_FOLDER}, id, (id * 40503) % 4294967296)"
    request = OrphanRequest(
        table_name=table.full_name,
        io=table.io,
        folder="/warehouse/bench/t",
        hidden=HiddenNames(),
        keys=PathKeys.of({}, {}),
        mismatch=PrefixMismatch.ERROR,
        referenced=lambda found: referenced_files(table.full_name, table.io, loaded, (), found),
        view=spark.range(int(files)).selectExpr(f"{name} AS file_path", "TIMESTAMP '2020-01-01' AS last_modified"),
        older_than_ms=int(time.time() * 1000),
    )
    found, heap = 0, _live_objects(spark)
    for orphans in engine_named("spark").orphans(request):
        if (found + len(orphans)) // FILES_BETWEEN_SAMPLES > found // FILES_BETWEEN_SAMPLES:
            heap = max(heap, _live_objects(spark))
        found += len(orphans)
    if found != int(files) // 2:
        raise SystemExit(f"{found} files were found, not {int(files) // 2}")
    return {"python": megabytes("VmHWM"), "heap": heap}


def _live_objects(spark: Any) -> float:
    """Return the memory of live objects in the driver's JVM, after a garbage collection, in MB."""
    spark.sparkContext._jvm.System.gc()
    used: int = spark.sparkContext._jvm.java.lang.management.ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed()
    return used / 1024 / 1024


if __name__ == "__main__":
    main(*sys.argv[1:])
