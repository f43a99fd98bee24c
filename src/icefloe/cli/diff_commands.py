"""`icefloe diff`: the differences of two versions. `icefloe explain commit`: the attempts of a commit, and the commits against which it was checked."""

from typing import Annotated

import typer

import icefloe.inspect as look
from icefloe.cli.catalog_choice import CatalogChoice, is_path, open_table
from icefloe.cli.command_group import PlainGroup
from icefloe.cli.shared_options import complete_name, complete_ref
from icefloe.cli.table_command import finds_catalog, looks_at_table
from icefloe.display.reportable import Reportable
from icefloe.errors import InvalidInputError
from icefloe.inspect.table_diff import MOST_ROWS
from icefloe.operations.loaded_table import TableReader

app = typer.Typer(help="Explain a commit: why it was retried, and what it was checked against.", no_args_is_help=True, cls=PlainGroup)

Before = Annotated[
    str, typer.Argument(metavar="A", help="TABLE or TABLE@VERSION: a snapshot id, a branch or a tag.", autocompletion=complete_name)
]
After = Annotated[
    str,
    typer.Argument(
        metavar="[B]",
        help="TABLE, TABLE@VERSION, or @VERSION of the same table; its current snapshot by default.",
        show_default=False,
        autocompletion=complete_name,
    ),
]
Rows = Annotated[bool, typer.Option("--rows", help="Compare rows too: the files that differ are read.")]
Columns = Annotated[list[str] | None, typer.Option("--column", metavar="NAME", help="Compare rows in this column only; may be repeated.")]
MostRows = Annotated[int, typer.Option("--max-rows", metavar="N", min=0, help="List at most so many changed rows; all are counted.")]
Statistics = Annotated[bool, typer.Option("--statistics/--no-statistics", help="Compare column statistics, which takes most of the time.")]
Version = Annotated[
    str,
    typer.Argument(
        metavar="[SNAPSHOT]",
        help="A snapshot id, a branch or a tag; the current snapshot by default.",
        show_default=False,
        autocompletion=complete_ref,
    ),
]


@finds_catalog
def diff(
    choice: CatalogChoice,
    a: Before,
    b: After = "",
    rows: Rows = False,
    columns: Columns = None,
    max_rows: MostRows = MOST_ROWS,
    statistics: Statistics = True,
) -> Reportable:
    """Compare two snapshots, branches or tags of a table, or two tables: what changed in layout, files, partitions, statistics and rows."""
    table, from_version = split_version(a)
    other, to_version = split_version(b)
    return look.diff(
        open_table(table, choice),
        open_table(other, choice) if other else None,
        from_version=from_version,
        to_version=to_version,
        rows=rows or columns is not None,
        columns=columns,
        most_rows=max_rows,
        statistics=statistics,
    )


def split_version(text: str) -> tuple[str, str | None]:
    """Split `TABLE@VERSION` into the table and the version; the version is None if there is none.

    A version has no slash, so that an `@` in the host of a path is not taken for its separator.

    Raises:
        InvalidInputError: The version is empty.
    """
    table, at, version = text.partition("@")
    is_of_path = is_path(table)
    if is_of_path:
        table, at, version = text.rpartition("@")
    if not at or (is_of_path and "/" in version):
        return text, None
    if not version:
        raise InvalidInputError(f"{text} has no version after @", next_step="write TABLE@VERSION, with a snapshot id, a branch or a tag")
    return table, version


@app.command("commit")
@looks_at_table
def explain(opened: TableReader, snapshot: Version = "") -> Reportable:
    """Explain a commit: its attempts, the snapshots that other writers committed first, and the snapshots against which it was checked."""
    return look.explain_commit(opened, snapshot or None)


@app.callback()
def _explain() -> None:
    """Explain a commit: why it was retried, and what it was checked against."""
