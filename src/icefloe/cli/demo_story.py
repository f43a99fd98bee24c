"""The text of the demonstration: the levels of a table from the catalog's entry to the footer of a data file, and explanations of what queries read."""

from collections.abc import Sequence

from rich.console import Console
from rich.rule import Rule
from rich.text import Text

import icefloe.inspect as look
from icefloe.catalog.catalog import Catalog
from icefloe.cli.demo_data import EVENTS_A_FILE, FLIGHTS
from icefloe.cli.demo_folder import CATALOG_NAME, DemoFolder
from icefloe.cli.screen import console, draw
from icefloe.display.reportable import Reportable
from icefloe.table.table import Table

TRACED = "type = 'c8y_Event' AND time > '2024-01-01'"
FLIGHTS_TRACED = "origin = 'JFK' AND dep_delay > 900"
# The most lines of a list; the rest is only counted.
FEW = 8


class _Story:
    """A console that prints numbered chapters."""

    def __init__(self, target: Console) -> None:
        self._console = target
        self._chapter = 0

    def chapter(self, title: str, text: str) -> None:
        """Print a heading and a paragraph."""
        self._chapter += 1
        self._console.print()
        self._console.print(Rule(Text(f"{self._chapter}. {title}", style="bold"), align="left"))
        self.paragraph(text)

    def paragraph(self, text: str) -> None:
        """Print a paragraph and a blank line."""
        self._console.print(Text(" ".join(text.split())))
        self._console.print()

    def show(self, view: Reportable, most: int = FEW) -> None:
        """Print a value of `icefloe.inspect`, with at most `most` lines of each list."""
        draw(view.report(most))

    def lines(self, text: str) -> None:
        """Print lines for the reader to copy, which are never wrapped."""
        self._console.print(Text(text), soft_wrap=True)


def print_story(place: DemoFolder, catalog: Catalog, flights: Table, events: Table, done: Sequence[str]) -> None:
    """Print all chapters of the demonstration.

    Args:
        place: The folder of the demonstration.
        catalog: The catalog.
        flights: The table of flights.
        events: The table of events.
        done: What was done so far, as lines of text.
    """
    story = _Story(console())
    _print_catalog(story, catalog, flights, done)
    _print_history(story, events)
    _print_manifests(story, events)
    _print_cost(story, flights, events)
    _print_traces(story, flights, events)
    _print_next_steps(story, place, events)


def _print_catalog(story: _Story, catalog: Catalog, flights: Table, done: Sequence[str]) -> None:
    story.chapter(
        "What was done",
        f"""Spark read {FLIGHTS:,} flights from CSV into demo.flights, partitioned by month(time_hour) and origin, and {3 * EVENTS_A_FILE:,} device events
        from JSON lines into demo.events, partitioned by month(time) and type. Both were counted again with Spark: every row written was found.
        These are the writes to demo.events:""",
    )
    story.lines("\n".join(f"  {number}. {line}" for number, line in enumerate(done, start=1)) + "\n")
    story.paragraph(
        """The delete covers whole partitions, so no row was moved: it only removes files from the table. The last append came after it and added
        location updates again."""
    )
    story.show(look.table(flights), most=20)
    story.chapter(
        "The catalog",
        """A catalog is one row per table: its name and the location of its newest metadata file. This one is an SQLite file with two tables, the same that
        Java's JDBC catalog and PyIceberg use. A commit is one UPDATE of that row, made only if the row still has the location
        that the writer started from.""",
    )
    story.show(look.catalog(catalog))


def _print_history(story: _Story, events: Table) -> None:
    story.chapter(
        "The metadata file",
        """The row names a JSON file: columns with ids, partitioning, and every snapshot. It is never changed; each commit writes a new one. Long lists are
        cut here to their ends.""",
    )
    story.show(look.metadata(events))
    story.chapter(
        "The history",
        """Each write made a snapshot: the whole table as it was then. The snapshot log lists which one was current when; the metadata log lists earlier
        metadata files. Reading an old snapshot is `table.scan(snapshot_id=...)`.""",
    )
    story.show(look.snapshots(events))


def _print_manifests(story: _Story, events: Table) -> None:
    listed = look.manifest_list(events)
    story.chapter(
        "The manifest list",
        """A snapshot names one manifest list (Avro): its manifests, with counts and with the least and greatest partition value of the files in each. By
        these bounds whole manifests are skipped.""",
    )
    story.show(listed)
    story.chapter(
        "A manifest",
        """A manifest (Avro) lists data files. Each entry states whether the file was added, is existing, or was deleted, and has for every column the number of
        values and nulls, and the least and greatest value. By these single files are skipped. The files deleted here are those of the location updates.""",
    )
    with_deleted = next((number for number, manifest in enumerate(listed.manifests, start=1) if manifest.deleted_files_count), 1)
    story.show(look.manifest(events, with_deleted), most=12)
    story.chapter(
        "A data file",
        """A data file is plain Parquet, which any tool can read. Its footer has bounds of its own, for each row group; field ids connect its columns with the
        table's, so that renaming a column never touches a file.""",
    )
    story.show(look.data_file(events))


def _print_cost(story: _Story, flights: Table, events: Table) -> None:
    story.chapter("The whole tree", "Everything above at once, with counts and sizes.")
    story.show(look.tree(events), most=2 * FEW)
    story.chapter(
        "What metadata costs",
        """Metadata grows with the number of files and columns, data with the number of rows. These tables are small, so the share is large; on files of
        hundreds of megabytes it is far below one percent.""",
    )
    story.show(look.overhead(events))
    story.show(look.overhead(flights))


def _print_traces(story: _Story, flights: Table, events: Table) -> None:
    story.chapter(
        "Why a query reads what it reads",
        f"""The filter of the query is {TRACED}. Followed from the catalog down: what was skipped at each level, and the bound that decided.""",
    )
    story.show(look.trace(events, TRACED))
    story.lines("")
    story.paragraph(
        """In demo.events the partition decided everything. Among the flights a column decides too: the partition does not contain delays, but the bounds of
        `dep_delay` in the manifest rule out every month in which no flight left more than 15 hours late."""
    )
    story.show(look.trace(flights, FLIGHTS_TRACED), most=5)


def _print_next_steps(story: _Story, place: DemoFolder, events: Table) -> None:
    story.chapter("Continue yourself", f"The warehouse is in {place.path}. Look inside it:")
    story.lines(
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
    story.paragraph("The same in Python (`import icefloe.inspect`), or with another engine. DuckDB:")
    story.lines(
        f"""\
  import duckdb
  duckdb.sql("INSTALL iceberg; LOAD iceberg")
  duckdb.sql("SELECT type, count(*) FROM iceberg_scan('{events.metadata_location}') GROUP BY type").show()
"""  # noqa: S608  printed text, not run here
    )
    story.paragraph("PyIceberg:")
    story.lines(
        f"""\
  from pyiceberg.catalog.sql import SqlCatalog
  catalog = SqlCatalog("{CATALOG_NAME}", uri="{place.uri}", warehouse="{place.path}")
  print(catalog.load_table("demo.events").scan(row_filter="type = 'c8y_Event'").to_arrow())
"""
    )
