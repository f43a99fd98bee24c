"""Child process of the benchmark `maintain` that looks at the table of `planning_20m_table.py`: `icefloe <metadata file>`."""

import json
import sys
import time
from tempfile import TemporaryDirectory

from icefloe.catalog.sql_catalog import SqlCatalog
from icefloe.inspect import health

TABLE = "bench.looked"


def main(metadata: str) -> None:
    """Print the seconds, of the clock and of CPU time, of each look at the table."""
    with TemporaryDirectory() as folder:
        lake = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")
        lake.create_namespace("bench")
        lake.register_table(TABLE, metadata)
        print(json.dumps(_taken(lake)))


def _taken(lake: SqlCatalog) -> dict[str, tuple[float, float]]:
    """Plan a scan, measure health and plan maintenance, each on a table that is loaded again."""
    looks = {
        "plan": lambda: lake.load_table(TABLE).scan().plan(),
        "`icefloe health`": lambda: health(lake.load_table(TABLE)),
        "`icefloe maintain --plan`": lambda: lake.load_table(TABLE).maintenance.maintain(dry_run=True),
    }
    taken = {}
    for name, look in looks.items():
        started, started_cpu = time.perf_counter(), time.process_time()
        found = look()
        taken[name] = time.perf_counter() - started, time.process_time() - started_cpu
        print(name, str(found)[:2_000], file=sys.stderr)
    return taken


if __name__ == "__main__":
    main(sys.argv[2])
