"""Child process of `test_compaction_memory.py` that compacts a table and prints the peak of its memory in megabytes and what it did.

Arguments: the folder of the catalog, the engine, the options as JSON, the memory of Spark's driver.
"""

import json
import os
import sys
from contextlib import suppress
from pathlib import Path

from icefloe import SqlCatalog


def main(folder: str, engine: str, options: str, heap: str) -> None:
    """Compact the table `db.t`."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=folder)
    if engine == "spark":
        from icefloe.spark import session

        session(**{"spark.driver.memory": heap, "spark.master": "local[4]", "spark.ui.enabled": "false"})
    before = peak()
    result = catalog.load_table("db.t").maintenance.rewrite_data_files(options=json.loads(options), engine=engine)
    figures = {
        "before": before,
        "peak": peak(),
        "worker": max(map(peak, workers()), default=0.0),
        "rewritten": result.rewritten_files,
        "added": result.added_files,
    }
    print(json.dumps({**figures, "deleted_rows": result.deleted_rows, "failed": result.failed_files}))


def peak(process: str = "self") -> float:
    """Return the most megabytes of memory that a process has had."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)


def workers() -> list[str]:
    """Return the Python processes in which Spark's tasks of this process ran; they wait for more."""
    parents = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                parents[folder.name] = (folder / "stat").read_text().rpartition(")")[2].split()[1]
    known = {str(os.getpid())}
    while added := {process for process, parent in parents.items() if parent in known} - known:
        known |= added
    return [process for process in known - {str(os.getpid())} if "python" in Path(f"/proc/{process}/exe").resolve().name]


if __name__ == "__main__":
    main(*sys.argv[1:])
