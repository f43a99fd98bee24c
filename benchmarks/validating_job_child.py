"""Child process that validates a table by a Spark job, and prints time and memory: `validating_job_child.py icefloe METADATA`.

The memory of the Python workers is the most that each had, since they live until the session ends.
"""

import json
import re
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from planning_child import megabytes


def main(_engine: str, metadata: str) -> None:
    """Validate once; starting the session is not measured."""
    validation = import_module("icefloe.checks.table_validation")
    local_io = import_module("icefloe.io.local_file_io").LocalFileIO
    spark = import_module("icefloe.spark").session(**{"spark.master": "local[2]", "spark.driver.memory": "1g"})
    engines = import_module("icefloe.operations.available_engines")
    try:
        started = time.perf_counter()
        with engines.choosing_engines(engines.EngineChoice(manifest_bytes=0)):  # the manifests of this table are compressed well
            result = validation.validate_table("t", metadata, local_io())
        wall = time.perf_counter() - started
        taken = {"wall": wall, "worker": worker_megabytes(), "driver": megabytes("VmHWM"), "heap": heap_megabytes(spark)}
    finally:
        spark.stop()
    print(json.dumps({**taken, "files": result.files}))


def worker_megabytes() -> float:
    """Return the peak memory of the largest Python worker of this process."""
    peaks = [0.0]
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            command = status.with_name("cmdline").read_text()
            found = re.search(r"^VmHWM:\s+(\d+) kB", status.read_text(), re.MULTILINE)
        except OSError:  # it has just ended
            continue
        if "worker_daemon" in command and found and is_below(int(status.parent.name)):
            peaks.append(int(found[1]) / 1024)
    return max(peaks)


def is_below(process: int) -> bool:
    """Return whether a process was started by this one, by way of any others."""
    this = int(Path("/proc/self").resolve().name)
    while process > 1:
        if process == this:
            return True
        try:
            process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return False
    return False


def heap_megabytes(spark: Any) -> float:
    """Return the most megabytes of the JVM's heap that were in use."""
    pools = spark._jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    return sum(pool.getPeakUsage().getUsed() for pool in pools if pool.getType().toString() == "Heap memory") / 2**20


if __name__ == "__main__":
    main(*sys.argv[1:])
