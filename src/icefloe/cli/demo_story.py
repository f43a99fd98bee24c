"""What the demonstration tells: the layers of a table from the catalog's row down to the footer of a data file, and why a query reads what it reads."""

from collections.abc import Sequence

from rich.console import Console
from rich.rule import Rule
from rich.text import Text

import icefloe.inspect as look
from icefloe.catalog.catalog import Catalog
from icefloe.cli.demo_data import EVENTS_A_FILE, FLIGHTS
from icefloe.cli.demo_folder import CATALOG_NAME, DemoFolder
from icefloe.cli.screen import console, draw
from icefloe.inspect.inspection import View
from icefloe.table.table import Table

TRACED = "type = 'c8y_Event' AND time > '2024-01-01'"
FLIGHTS_TRACED = "origin = 'JFK' AND dep_delay > 900"
# Lines of a list before the rest is only counted: enough to see how it goes on.
FEW = 8


class _Teller:
    """Numbered chapters on one console."""

    def __init__(self, target: Console) -> None:
        self._console = target
        self._chapter = 0

    def chapter(self, title: str, text: str) -> None:
        """A heading and a paragraph."""
        self._chapter += 1
        self._console.print()
        self._console.print(Rule(Text(f"{self._chapter}. {title}", style="bold"), align="left"))
        self.say(text)

    def say(self, text: str) -> None:
        """A paragraph and a blank line."""
        self._console.print(Text(" ".join(text.split())))
        self._console.print()

    def show(self, view: View, most: int = FEW) -> None:
        """A value of `icefloe.inspect`, with at most `most` lines of each list."""
        draw(view.report(most))

    def lines(self, text: str) -> None:
        """Lines to copy: printed as they are, never wrapped."""
        self._console.print(Text(text), soft_wrap=True)


def tell(place: DemoFolder, catalog: Catalog, flights: Table, events: Table, done: Sequence[str]) -> None:
    """Prints the whole walk."""
    teller = _Teller(console())
    _tell_catalog(teller, catalog, flights, done)
    _tell_history(teller, events)
    _tell_manifests(teller, events)
    _tell_cost(teller, flights, events)
    _tell_traces(teller, flights, events)
    _tell_goodbye(teller, place, events)


def _tell_catalog(teller: _Teller, catalog: Catalog, flights: Table, done: Sequence[str]) -> None:
    teller.chapter(
        "What was done",
        f"""Spark read {FLIGHTS:,} flights from CSV into demo.flights, partitioned by month(time_hour) and origin, and {3 * EVENTS_A_FILE:,} device events
        from JSON lines into demo.events, partitioned by month(time) and type. Both were counted again through Spark: every row written was found.
        This happened to demo.events:""",
    )
    teller.lines("\n".join(f"  {number}. {line}" for number, line in enumerate(done, start=1)) + "\n")
    teller.say(
        """The delete covers whole partitions, so it moved no row: it only says which files are no longer part of the table. The last append came after it,
        and brought location updates again."""
    )
    teller.show(look.table(flights), most=20)
    teller.chapter(
        "The catalog",
        """A catalog is one row per table: its name and where its newest metadata file lies. This one is an SQLite file with two tables, the same that Java's
        JDBC catalog and PyIceberg use. A commit is a single UPDATE of that row, made only if the row still holds what the writer started from.""",
    )
    teller.show(look.catalog(catalog))


def _tell_history(teller: _Teller, events: Table) -> None:
    teller.chapter(
        "The metadata file",
        """The row leads to a JSON file: columns with ids, partitioning, and every snapshot. It is never changed; each commit writes a new one. Long lists are
        cut here to their ends.""",
    )
    teller.show(look.metadata(events))
    teller.chapter(
        "The history",
        """Each write made a snapshot: the whole table as it was then. The snapshot log says which one was current when; the metadata log keeps the earlier
        metadata files. Reading an old snapshot is `table.scan(snapshot_id=...)`.""",
    )
    teller.show(look.snapshots(events))


def _tell_manifests(teller: _Teller, events: Table) -> None:
    listed = look.manifest_list(events)
    teller.chapter(
        "The manifest list",
        """A snapshot leads to one manifest list (Avro): its manifests, with counts and with the least and greatest partition value of the files in each. By
        these bounds whole manifests are skipped.""",
    )
    teller.show(listed)
    teller.chapter(
        "A manifest",
        """A manifest (Avro) names data files. Each entry says whether the file was added, taken over, or deleted, and holds for every column how many values
        and nulls there are, and the least and greatest value. By these single files are skipped. The files deleted here are those of the location updates.""",
    )
    with_deleted = next((number for number, found in enumerate(listed.manifests, start=1) if found.deleted_files_count), 1)
    teller.show(look.manifest(events, with_deleted), most=12)
    teller.chapter(
        "A data file",
        """A data file is plain Parquet, which any tool can read. Its footer holds bounds of its own, for each row group; field ids tie its columns to the
        table's, so that renaming a column never touches a file.""",
    )
    teller.show(look.data_file(events))


def _tell_cost(teller: _Teller, flights: Table, events: Table) -> None:
    teller.chapter("The whole tree", "Everything above at once: who leads to whom, with counts and sizes.")
    teller.show(look.tree(events), most=2 * FEW)
    teller.chapter(
        "What metadata costs",
        """Metadata grows with the number of files and columns, data with the number of rows. These tables are small, so the share is large; on files of
        hundreds of megabytes it is far below one percent.""",
    )
    teller.show(look.overhead(events))
    teller.show(look.overhead(flights))


def _tell_traces(teller: _Teller, flights: Table, events: Table) -> None:
    teller.chapter(
        "Why a query reads what it reads",
        f"""The query asks for {TRACED}. Followed from the catalog down: what was skipped at each level, and the bound that decided.""",
    )
    teller.show(look.trace(events, TRACED))
    teller.lines("")
    teller.say(
        """In demo.events the partition decided everything. Among the flights a column decides too: the partition says nothing about delays, but the bounds of
        `dep_delay` in the manifest rule out every month in which no flight left more than 15 hours late."""
    )
    teller.show(look.trace(flights, FLIGHTS_TRACED), most=5)


def _tell_goodbye(teller: _Teller, place: DemoFolder, events: Table) -> None:
    teller.chapter("Go on yourself", f"The warehouse stays in {place.path}. Look inside it:")
    teller.lines(
        f"""\
  export ICEFLOE_HOME={place.path}
  icefloe list
  icefloe tree demo.flights
  icefloe show manifest demo.events 2
  icefloe show data-file demo.flights 1 --json
  icefloe trace demo.flights --where "origin = 'JFK' AND dep_delay > 600"
  icefloe load YOUR_FILES --into demo.mine
"""
    )
    teller.say("The same in Python (`import icefloe.inspect`), or with another engine. DuckDB:")
    teller.lines(
        f"""\
  import duckdb
  duckdb.sql("INSTALL iceberg; LOAD iceberg")
  duckdb.sql("SELECT type, count(*) FROM iceberg_scan('{events.metadata_location}') GROUP BY type").show()
"""  # noqa: S608  text for people, run by nobody here
    )
    teller.say("PyIceberg:")
    teller.lines(
        f"""\
  from pyiceberg.catalog.sql import SqlCatalog
  catalog = SqlCatalog("{CATALOG_NAME}", uri="{place.uri}", warehouse="{place.path}")
  print(catalog.load_table("demo.events").scan(row_filter="type = 'c8y_Event'").to_arrow())
"""
    )
