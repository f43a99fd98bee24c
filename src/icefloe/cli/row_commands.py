"""The commands `head` and `sql`, which print rows.

A SELECT that can be computed by a scan of one table is read in this process (`select_statement.py`); any other statement is run by Spark.
"""

import logging
import re
from enum import StrEnum
from typing import Annotated, Any

import typer

import icefloe.inspect as look
from icefloe.catalog.catalog import Catalog
from icefloe.catalog.catalog_config import known_catalogs
from icefloe.cli.catalog_choice import CatalogChoice, is_path, open_catalog, open_table
from icefloe.cli.row_view import RowBatches, check_formats, print_rows, rows_of_arrow
from icefloe.cli.screen import most_lines, print_message, step
from icefloe.cli.select_statement import NeedsSparkError, SelectStatement, parse_select, run_on_metadata_table, run_on_table
from icefloe.cli.shared_options import AsJson, Everything, SnapshotName, TableName, Tolerant, complete_ref
from icefloe.cli.spark_access import spark_module, start_spark
from icefloe.cli.table_command import with_catalog_options
from icefloe.errors import (
    InvalidInputError,
    NoSuchCatalogError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NotInstalledError,
    UnsupportedFeatureError,
    in_one_line,
)
from icefloe.inspect import METADATA_TABLES, MetadataTable
from icefloe.operations.loaded_table import TableReader
from icefloe.optional_packages import install_command
from icefloe.spec.expressions.row_filter import to_expression
from icefloe.spec.identifier import to_identifier

_WITHOUT_SPARK = "without Spark a statement is SELECT columns FROM table [WHERE condition] [ORDER BY columns] [LIMIT n]"


class EngineName(StrEnum):
    """The engine that runs a statement."""

    ARROW = "arrow"
    SPARK = "spark"


Number = Annotated[int, typer.Option("--rows", "-n", metavar="N", min=0, help="How many rows.")]
Columns = Annotated[
    list[str] | None, typer.Option("--columns", metavar="NAMES", help="Only these columns, separated by commas; may be repeated.")
]
Where = Annotated[str | None, typer.Option("--where", metavar="FILTER", help="Only rows that match, such as \"type = 'a' AND id < 10\".")]
Branch = Annotated[str | None, typer.Option("--branch", metavar="NAME", help="Read the head of this branch.", autocompletion=complete_ref)]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print CSV with a header line.")]
Statement = Annotated[
    str, typer.Argument(metavar="STATEMENT", help="The statement, or - to read it from standard input.", show_default=False)
]
EngineOption = Annotated[
    EngineName | None, typer.Option("--engine", help="Run it here by Arrow, or by Spark; by default Arrow where it can, else Spark.")
]


@with_catalog_options
def head(
    *,
    table: TableName,
    rows: Number = 10,
    columns: Columns = None,
    where: Where = None,
    snapshot: SnapshotName = None,
    branch: Branch = None,
    tolerant: Tolerant = False,
    as_csv: AsCsv = False,
    choice: CatalogChoice,
    as_json: AsJson = False,
) -> None:
    """Print the first rows of a table; of many files only a few are read."""
    check_formats(as_json=as_json, as_csv=as_csv)
    if snapshot is not None and branch is not None:
        raise InvalidInputError("both --snapshot and --branch are given", next_step="choose one")
    try:
        opened = open_table(table, choice) if is_path(table) else _source(to_identifier(table, of_server=True), choice)
    except NeedsSparkError as reason:
        query = f"SELECT * FROM {table} LIMIT {rows}"  # noqa: S608  the text is only printed
        raise UnsupportedFeatureError(
            f"head reads tables and metadata tables, and {reason}", next_step=f'run icefloe sql "{query}"'
        ) from reason
    version = branch or snapshot
    if isinstance(opened, TableReader):
        if branch is not None:
            opened.scan().use_ref(branch)  # raises an error that lists the branches
    elif version is not None:
        raise InvalidInputError(
            f"{table} is a metadata table, which is read at the current snapshot", next_step="omit --snapshot and --branch"
        )
    names = [name.strip() for text in columns or () for name in text.split(",") if name.strip()]
    statement = SelectStatement(
        table=(),
        version=version,
        columns=tuple((tuple(name.split(".")), "") for name in names) or None,
        counts=None,
        row_filter=to_expression(where),
        keys=(),
        limit=rows,
        offset=0,
    )
    try:
        if isinstance(opened, TableReader):
            source = run_on_table(statement, opened, tolerant=tolerant)
        else:
            source = run_on_metadata_table(statement, opened)
    except NeedsSparkError as reason:
        raise UnsupportedFeatureError(
            f"head selects columns and fields of structs, and {reason}",
            next_step="select the whole column, or run icefloe sql with the field in Spark's SQL, such as l[0].a or map_values(m)",
        ) from reason
    print_rows(source, as_json=as_json, as_csv=as_csv, most=None)


@with_catalog_options
def sql(
    *,
    statement: Statement,
    engine: EngineOption = None,
    tolerant: Tolerant = False,
    as_csv: AsCsv = False,
    choice: CatalogChoice,
    as_json: AsJson = False,
    everything: Everything = False,
) -> None:
    """Run a SQL statement and print its rows. A SELECT of columns from one table needs no Spark."""
    check_formats(as_json=as_json, as_csv=as_csv)
    text = typer.get_text_stream("stdin").read() if statement == "-" else statement
    most = most_lines(everything=everything)
    source = None
    if engine is not EngineName.SPARK:
        try:
            source = _by_arrow(text, choice, tolerant=tolerant)
        except NeedsSparkError as reason:
            if tolerant:
                raise UnsupportedFeatureError(
                    f"--tolerant is for statements that Arrow alone runs, and this one needs Spark: {reason}",
                    next_step="select from one table, or read it in Spark with the read option tolerant",
                ) from reason
            if engine is EngineName.ARROW:
                raise UnsupportedFeatureError(
                    f"Arrow alone does not run the statement: {reason}", next_step="omit --engine arrow, so that Spark runs it"
                ) from reason
            source = _by_spark(text, choice, because=str(reason), most=None if as_json or as_csv else most)
    else:
        if tolerant:
            raise InvalidInputError(
                "both --engine spark and --tolerant are given", next_step="omit --engine, or use the read option tolerant in Spark"
            )
        source = _by_spark(text, choice, because=None, most=None if as_json or as_csv else most)
    print_rows(source, as_json=as_json, as_csv=as_csv, most=most)


def _by_arrow(text: str, choice: CatalogChoice, *, tolerant: bool) -> RowBatches:
    """Return the rows of a statement, read in this process.

    Raises:
        NeedsSparkError: Only Spark can run the statement.
    """
    level = logging.getLogger("sqlglot").level
    logging.getLogger("sqlglot").setLevel(logging.ERROR)  # sqlglot warns about statements that it cannot parse, which Spark can run
    try:
        statement = parse_select(text)
    finally:
        logging.getLogger("sqlglot").setLevel(level)
    source = _source(statement.table, choice)
    if isinstance(source, MetadataTable):
        return run_on_metadata_table(statement, source)
    return run_on_table(statement, source, tolerant=tolerant)


def _source(parts: tuple[str, ...], choice: CatalogChoice) -> TableReader | MetadataTable:
    """Return the table or metadata table that a name in a statement refers to. The first part of the name may be the name of the catalog.

    Raises:
        NeedsSparkError: The name is that of a view, or ends with a selector of a branch, tag or time.
        NoSuchTableError: There is no such table.
    """
    opened, name = _catalog_of(parts, choice)
    try:
        return opened.load_table(name)
    except (NoSuchTableError, NoSuchNamespaceError):
        if len(name) > 2 and name[-1].lower() in METADATA_TABLES and opened.table_exists(name[:-1]):
            return look.metadata_table(opened.load_table(name[:-1]), name[-1].lower())
        if opened.keeps_views and opened.view_exists(name):
            raise NeedsSparkError(f"{'.'.join(parts)} is a view") from None
        if len(name) > 2 and opened.table_exists(name[:-1]):
            raise NeedsSparkError(f"{name[-1]} selects a branch, tag or time of {'.'.join(name[:-1])}") from None
        raise


def _catalog_of(parts: tuple[str, ...], choice: CatalogChoice) -> tuple[Catalog, tuple[str, ...]]:
    has_choice = any((choice.name, choice.uri, choice.warehouse))
    configured = {name.lower() for name in known_catalogs()}
    is_other = len(parts) > 2 and parts[0].lower() in configured
    if not has_choice and is_other:
        return open_catalog(CatalogChoice(name=parts[0])), parts[1:]
    try:
        opened = open_catalog(choice)
    except NoSuchCatalogError:
        if is_other:
            return open_catalog(CatalogChoice(name=parts[0])), parts[1:]
        raise
    if len(parts) > 2 and parts[0].lower() == opened.name.lower():
        return opened, parts[1:]
    return (open_catalog(CatalogChoice(name=parts[0])), parts[1:]) if is_other else (opened, parts)


def _by_spark(text: str, choice: CatalogChoice, *, because: str | None, most: int | None) -> RowBatches:
    """Run a statement with Spark, and return its rows.

    Args:
        text: The statement.
        choice: The catalog whose tables can be named without the catalog.
        because: The reason why the statement cannot be run without Spark; None if the user chose Spark.
        most: The greatest number of rows that are printed; None for all.

    Raises:
        NotInstalledError: Spark is not installed.
        EngineError: Spark refuses or fails to run the statement.
    """
    reason = "" if because is None else f": {because}"
    try:
        statements = spark_module("run_statement")
    except NotInstalledError as error:
        raise NotInstalledError(
            f"the statement needs Spark{reason}, and Spark is not installed",
            next_step=f"run {install_command('spark')}; {_WITHOUT_SPARK}",
        ) from error
    opened = open_catalog(choice)
    if because is not None:
        print_message(in_one_line(f"by Spark, because {because}"))
    with step("Starting Spark"):
        spark = start_spark()
    others = [name for name in known_catalogs() if name.lower() != opened.name.lower() and re.search(rf"\b{re.escape(name)}\b", text, re.I)]
    catalogs: dict[str, Any] = {opened.name: opened, **{name: open_catalog(CatalogChoice(name=name)) for name in others}}
    with step("Running the statement", spark_module("runtime.running_jobs").running_tasks(spark)):
        table = statements.run_statement(spark, text, catalogs, current=opened.name, most=None if most is None else most + 1)
    return rows_of_arrow(table, None, EngineName.SPARK.value)
