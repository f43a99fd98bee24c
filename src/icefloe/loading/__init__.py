"""Loading of CSV, JSON and Parquet files into tables in this process, without Spark. The command is `icefloe load`.

The whole interface is one function: `load_files(catalog, "taxi.trips", "trips.csv", upsert=["id"], bad_rows="quarantine")`.
"""

from typing import TYPE_CHECKING

from icefloe.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from icefloe.loading.bad_rows import BadRow as BadRow
    from icefloe.loading.bad_rows import BadRows as BadRows
    from icefloe.loading.csv_input import MixedColumn as MixedColumn
    from icefloe.loading.file_load import load_files as load_files
    from icefloe.loading.load_progress import LoadProgress as LoadProgress
    from icefloe.loading.load_request import LoadRequest as LoadRequest
    from icefloe.loading.load_request import LoadResult as LoadResult
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "icefloe.loading.bad_rows": "BadRow, BadRows",
            "icefloe.loading.csv_input": "MixedColumn",
            "icefloe.loading.file_load": "load_files",
            "icefloe.loading.load_progress": "LoadProgress",
            "icefloe.loading.load_request": "LoadRequest, LoadResult",
        },
    )
