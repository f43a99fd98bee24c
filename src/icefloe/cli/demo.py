"""`icefloe demo`: loads files into Iceberg tables with Spark, and then shows every level of their metadata.

`demo_data.py` makes the data, `demo_folder.py` the folder, `demo_story.py` the text.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

import icefloe.inspect as look
from icefloe.catalog.sql_catalog import SqlCatalog
from icefloe.cli.demo_data import EVENTS_SCHEMA, FLIGHTS, FLIGHTS_SCHEMA, event_files, flights_csv, packed_flights
from icefloe.cli.demo_folder import CATALOG_NAME, NAMESPACE, DemoFolder, prepare
from icefloe.cli.demo_story import TRACED, print_story
from icefloe.cli.screen import step, write_json
from icefloe.cli.shared_options import AsJson
from icefloe.cli.spark_access import spark_module, start_spark
from icefloe.display.progress import Poll
from icefloe.display.reportable import json_ready
from icefloe.errors import EngineError
from icefloe.loading.file_load import FileLoad
from icefloe.loading.input_files import InputFormat, find_files
from icefloe.loading.load_request import LoadRequest, LoadResult
from icefloe.operations.write_result import WriteResult
from icefloe.table.table import Table

Folder = Annotated[Path, typer.Option("--dir", metavar="DIR", help="The folder that becomes the warehouse.")]
Replace = Annotated[bool, typer.Option("--replace", help="Delete an earlier demonstration in the folder first.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """One table of the demonstration: the results of its writes, and the number of rows that Spark reads afterwards."""

    table: Table
    results: tuple[WriteResult, ...]
    rows_read_back: int


def demo(folder: Folder = Path("demo-warehouse"), replace_earlier: Replace = False, as_json: AsJson = False) -> None:
    """Load 336,776 flights and 90,000 events into Iceberg tables with Spark, and walk through their metadata."""
    # A missing package must be reported before an earlier demonstration is deleted.
    packed = packed_flights()
    spark_module("runtime.spark_versions")
    place = prepare(folder, replace=replace_earlier)
    with step("Unpacking the flights"):
        flights_file = flights_csv(packed, place.input)
    with step("Making 90,000 events"):
        events = event_files(place.input)
    with step("Starting Spark"):
        spark = start_spark()
    catalog = SqlCatalog(CATALOG_NAME, uri=place.uri, warehouse=str(place.path))
    catalog.create_namespace(NAMESPACE)
    poll = spark_module("runtime.running_jobs").running_tasks(spark)
    flights = _load_flights(spark, catalog, flights_file, poll)
    device_events = _load_events(spark, catalog, events, poll)
    if as_json:
        write_json(_as_json(place, flights, device_events))
    else:
        print_story(place, catalog, flights.table, device_events.table, [str(result) for result in device_events.results])


def _load_flights(spark: Any, catalog: SqlCatalog, path: Path, poll: Poll) -> Loaded:
    # NA means null in this file: flights that never left.
    request = LoadRequest(columns=FLIGHTS_SCHEMA, partition=["month(time_hour)", "origin"], options={"nullValue": "NA"})
    with step(f"Writing {FLIGHTS:,} flights into {NAMESPACE}.flights", poll):
        loaded = _load(spark, FileLoad(catalog, f"{NAMESPACE}.flights", find_files([str(path)], InputFormat.CSV), request))
    return _check_count(loaded.table, (loaded.write,), poll)


def _load_events(spark: Any, catalog: SqlCatalog, paths: list[Path], poll: Poll) -> Loaded:
    results: list[WriteResult] = []
    name = f"{NAMESPACE}.events"
    request = LoadRequest(columns=EVENTS_SCHEMA)
    for number, path in enumerate(paths, start=1):
        if number == len(paths):
            # The last file is loaded after the delete, so that the history has an append before and after the delete.
            with step("Deleting the location updates", poll):
                results.append(catalog.load_table(name).delete("type = 'c8y_LocationUpdate'"))
        with step(f"Appending {path.name} to {name}", poll):
            files = find_files([str(path)], InputFormat.JSON)
            new_table = replace(request, partition=["month(time)", "type"]) if number == 1 else request
            results.append(_load(spark, FileLoad(catalog, name, files, new_table)).write)
    return _check_count(catalog.load_table(name), tuple(results), poll)


def _load(spark: Any, load: FileLoad) -> LoadResult:
    with load.all_or_nothing():
        load.open()
        return load.write(spark_module("scan.input_file_rows").read_files(spark, load.spark_request()))


def _check_count(table: Table, results: tuple[WriteResult, ...], poll: Poll) -> Loaded:
    """Count the table's rows with Spark.

    Args:
        table: The table.
        results: The results of all writes to it.
        poll: Returns the progress of Spark's job.

    Raises:
        EngineError: The count differs from the number of rows written.
    """
    written_rows = sum(result.added_records - (result.deleted_records or 0) for result in results)
    with step(f"Counting the rows of {table.full_name} with Spark", poll):
        counted_rows = int(table.scan().to_spark().count())
    if counted_rows != written_rows:
        raise EngineError(
            f"Spark reads {counted_rows:,} rows of {table.full_name}, but {written_rows:,} were written",
            table=table.full_name,
            next_step="this is a fault of Icefloe: please report it with the versions that `icefloe --version` prints",
        )
    return Loaded(table=table, results=results, rows_read_back=counted_rows)


def _as_json(place: DemoFolder, *loaded: Loaded) -> dict[str, Any]:
    return {
        "dir": str(place.path),
        "catalog": CATALOG_NAME,
        "uri": place.uri,
        "tables": [
            {
                "table": item.table.full_name,
                "metadata_location": item.table.metadata_location,
                "rows_read_back": item.rows_read_back,
                "writes": [json_ready(result) for result in item.results],
                "snapshots": look.snapshots(item.table).to_dict()["snapshots"],
                "overhead": look.overhead(item.table).to_dict(),
            }
            for item in loaded
        ],
        "trace": look.trace(loaded[-1].table, TRACED).to_dict(),
    }
