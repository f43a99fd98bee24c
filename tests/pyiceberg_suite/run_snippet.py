"""Run one snippet of PyIceberg's documentation in a folder: `run_snippet.py FOLDER`, which contains `snippet.py`.

The objects that the page assumes are there: a catalog, which every `load_catalog` of the snippet opens, a table with the columns that the page uses, rows.
"""

import os
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, os.path.dirname(__file__))
import renamed_imports  # noqa: F401  `import pyiceberg` imports icefloe from here on

import icefloe.catalog
import icefloe.expressions
import icefloe.partitioning
import icefloe.schema
import icefloe.table.sorting
import icefloe.transforms
import icefloe.types
from icefloe.catalog.sql import SqlCatalog
from icefloe.table.statistics import StatisticsFile
from icefloe.view import SQLViewRepresentation, ViewVersion

CODE = (Path(sys.argv[1]) / "snippet.py").read_text()
TIME = datetime(2024, 1, 31, 12)
BIDS: dict[str, list[Any]] = {
    "id": [1, 2],
    "datetime": [TIME] * 2,
    "event_ts": [TIME] * 2,
    "symbol": ["AAPL", "MSFT"],
    **({} if 'add_column("some_field"' in CODE else {"some_field": ["x", "y"]}),
    "tip_per_mile": [0.5, 0.0],
    "tip_amount": [6.0, 0.0],
    "bid": pa.array([1.0, 2.0], pa.float32()),
    "ask": [1.5, 2.5],
    "details": [
        {"created_by": "a", "exchange": "c"} | ({} if 'update.add_column(("details", "confirmed_by")' in CODE else {"confirmed_by": "b"})
    ]
    * 2,
    "trip_distance": [12.0, 1.0],
    "VendorID": [1, 2],
    "tpep_pickup_datetime": [TIME] * 2,
    "tpep_dropoff_datetime": [TIME] * 2,
}
CITIES = pa.Table.from_pylist([{"city": "Amsterdam", "lat": 52.371807, "long": 4.896029}, {"city": "Paris", "lat": 48.8, "long": 2.3}])


def names_for(code: str, folder: str) -> dict[str, Any]:
    """Return the names that the page assumes before this snippet."""
    catalog = SqlCatalog("default", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    icefloe.catalog.load_catalog = lambda *_name, **_options: catalog  # type: ignore[assignment]
    for namespace in ("default", "docs_example", "nyc", "analytics"):
        if f'create_namespace("{namespace}")' not in code:
            catalog.create_namespace(namespace)
    table = _table(catalog, "default.assumed", pa.table(BIDS))
    table.append(pa.table(BIDS))
    cities = _table(catalog, "default.assumed_cities", CITIES)
    for name in ("docs_example.bids", "nyc.taxis", "analytics.user_events", "default.some_view"):
        if name in code and "create_table" not in code and "create_view" not in code and "register" not in code:
            _assumed(catalog, name)
    _prepare(table, code)
    snapshots = [snapshot.snapshot_id for snapshot in table.snapshots()]
    everything = {
        name: value
        for module in (icefloe.types, icefloe.transforms, icefloe.expressions, icefloe.partitioning, icefloe.table.sorting)
        for name, value in vars(module).items()
        if not name.startswith("_")
    }
    statistics = StatisticsFile(snapshot_id=snapshots[0], statistics_path="x", file_size_in_bytes=1, file_footer_size_in_bytes=1)
    query = SQLViewRepresentation(type="sql", sql="SELECT 1 AS some_col", dialect="spark")
    version = ViewVersion(schema_id=1, representations=[query], default_namespace=["default"])
    view = catalog.create_view("default.assumed_view", schema=pa.schema([("some_col", pa.int32())]), view_version=version)
    inhabitants = pa.schema([pa.field("city", pa.string(), nullable=False), pa.field("inhabitants", pa.int32(), nullable=False)])
    views = {"view_version": version, "view": view, "arrow_schema": inhabitants, "Schema": icefloe.schema.Schema, "pl": pl}
    tickets = _table(catalog, "default.tickets", pa.table({"ticket_id": [1, 20], "customer_id": [1, 2]}))
    if "upd = tbl.upsert" in code:
        cities = catalog.create_table(
            "default.inhabitants",
            icefloe.schema.Schema(
                icefloe.types.NestedField(1, "city", "string", True),
                icefloe.types.NestedField(2, "inhabitants", "int", True),
                identifier_field_ids=[1],
            ),
        )
        cities.append(
            pa.Table.from_pylist(
                [{"city": "Drachten", "inhabitants": 45019}, {"city": "Paris", "inhabitants": 2103000}], schema=inhabitants
            )
        )
    if "df_corrected" in code and "dynamic" in code:
        cities = catalog.create_table("default.parts", CITIES.schema, partition_spec=["city"])
        cities.append(CITIES)
    if "existing table object" in code or "table.schema().as_arrow()" in code:
        table = cities
    assumed = {
        **views,
        "iceberg_table": tickets,
        "catalog": catalog,
        "table": table,
        "tbl": cities,
        "pa": pa,
        "df": CITIES,
        "statistics_file": statistics,
    }
    ids = {"snapshot_id": snapshots[0], "snapshot_id1": snapshots[0], "snapshot_id2": snapshots[1]}
    return {
        **everything,
        "load_catalog": icefloe.catalog.load_catalog,
        **assumed,
        **ids,
        "schema": CITIES.schema,
        "batch_iter": CITIES.to_batches(),
    }


def _prepare(table: Any, code: str) -> None:
    """Make what a snippet changes or deletes."""
    for _ in range(3):
        table.append(pa.table(BIDS))
    for name, column in (("some_partition_name", "symbol"), ("bucketed_id", "id")):
        if f'remove_field("{name}")' in code or f'rename_field("{name}"' in code:
            table.update_spec().add_field(column, "bucket[16]", name).commit()
    snapshot_id = table.snapshots()[0].snapshot_id
    if 'remove_tag("v1.0.0")' in code:
        table.manage_snapshots().create_tag(snapshot_id, "v1.0.0").commit()
    if 'remove_branch("dev")' in code:
        table.manage_snapshots().create_branch(snapshot_id, "dev").commit()


def _table(catalog: Any, name: str, rows: pa.Table) -> Any:
    table = catalog.create_table(name, rows.schema)
    table.append(rows)
    return table


def _assumed(catalog: Any, name: str) -> None:
    if name.endswith("view"):
        catalog.create_view(name, "SELECT 1 AS some_col", pa.schema([("some_col", pa.int32())]))
    else:
        _prepare(_table(catalog, name, pa.table(BIDS)), "")


def main(folder: str) -> None:
    code = CODE
    names = names_for(code, folder)
    for number in (1, 2):
        pq.write_table(CITIES, f"{folder}/existing-{number}.parquet")
    code = code.replace("s3a://warehouse/default/existing", f"{folder}/existing")
    ids = [snapshot.snapshot_id for snapshot in names["table"].snapshots()]
    for text, snapshot_id in zip(("805611270568163028", "12345", "67890", "11111"), (ids[0], *ids), strict=False):
        code = code.replace(text, str(snapshot_id))
    code = code.replace("s3://warehouse/path/to/metadata.json", names["table"].metadata_location)
    if "ns == [" in code:  # the namespace of the snippet before it is the only one
        names["catalog"] = SqlCatalog("other", uri=f"sqlite:///{folder}/other.db", warehouse=folder)
        names["catalog"].create_namespace("docs_example")
    exec(compile(code, "snippet", "exec"), names)  # noqa: S102  the snippet


main(sys.argv[1])
