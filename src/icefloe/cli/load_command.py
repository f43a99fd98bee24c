"""`icefloe load`: loads files into a table in one commit, or changes nothing.

`icefloe.loading` loads the files; this module chooses between Arrow in this process and Spark, shows progress, and prints the result.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from importlib.util import find_spec
from pathlib import PurePosixPath
from typing import Annotated, Any

import typer

from icefloe.catalog.catalog import Catalog
from icefloe.cli.catalog_choice import CatalogChoice, may_be_service, open_catalog
from icefloe.cli.screen import print_message, step, write_json
from icefloe.cli.shared_options import AsJson, pairs_of, properties_of
from icefloe.cli.spark_access import spark_module, start_spark, stop_spark
from icefloe.cli.table_command import with_catalog_options
from icefloe.display.progress import BYTES
from icefloe.display.reportable import json_ready
from icefloe.errors import InvalidInputError, SchemaMismatchError, visible
from icefloe.formatting import size_text
from icefloe.io.locations import scheme_of
from icefloe.loading.bad_rows import BadRows
from icefloe.loading.file_load import FileLoad
from icefloe.loading.input_files import CODECS, InputFiles, InputFormat, find_files
from icefloe.loading.load_progress import LoadProgress, ProgressCallback
from icefloe.loading.load_request import LoadRequest, LoadResult
from icefloe.operations.available_engines import engine_choice
from icefloe.optional_packages import not_installed
from icefloe.spec.identifier import Identifier, dotted, to_table_identifier
from icefloe.stores.database_uri import without_password

# A name that needs no backticks in Spark SQL.
_SQL_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
# Endings of compressed files that Spark can decompress without native libraries.
_SPARK_CODECS = (".gz", ".bz2")
# A load of at least this many bytes takes so long that it may be killed. Its id is therefore printed at the start.
_RESUMABLE_BYTES = 32 << 20


class LoadEngine(StrEnum):
    """The engine that reads the files."""

    AUTO = "auto"
    ARROW = "arrow"
    SPARK = "spark"


Files = Annotated[
    list[str],
    typer.Argument(metavar="FILES...", help="Files, folders or patterns: CSV with a header line, JSON, or Parquet.", show_default=False),
]
Into = Annotated[str, typer.Option("--into", metavar="NS.TABLE", help="The table; it is created if it does not exist.")]
Partitions = Annotated[
    list[str] | None,
    typer.Option("--partition", metavar="FIELD", help='Partition a new table by this, such as "month(time)" or "type". Repeat for more.'),
]
Properties = Annotated[
    list[str] | None,
    typer.Option("--property", metavar="KEY=VALUE", help="A property of a new table, such as format-version=3. Repeat for more."),
]
Declared = Annotated[
    str | None,
    typer.Option(
        "--schema",
        metavar="COLUMNS",
        help='The columns, such as "id long, time timestamptz"; by default their types are inferred from all rows.',
    ),
]
Format = Annotated[InputFormat | None, typer.Option("--format", help="The files' format, if their names do not have a known ending.")]
Options = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="KEY=VALUE", help="An option of the reader, such as sep=; or nullValue=NA. Repeat for more."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite/--append", help="Replace all rows of the table, or add to them.")]
Upsert = Annotated[
    str | None,
    typer.Option("--upsert", metavar="KEY[,KEY]", help="Replace the rows that have the same key columns, and add the others."),
]
Where = Annotated[
    str | None, typer.Option("--where", metavar="FILTER", help="Load only the rows for which this is true, such as \"kind = 'a'\".")
]
AddColumns = Annotated[bool, typer.Option("--add-columns", help="Add columns of the files that the table does not have.")]
CastNanos = Annotated[bool, typer.Option("--cast-nanos", help="Cut Parquet timestamps in nanoseconds to microseconds.")]
BadRowsOption = Annotated[
    BadRows, typer.Option("--bad-rows", help="Rows that cannot be read: fail and list them, skip them, or write them to a file.")
]
BadRowsFile = Annotated[
    str | None,
    typer.Option("--bad-rows-file", metavar="PATH", help="The file for --bad-rows quarantine; by default beside the first input file."),
]
LoadId = Annotated[
    str | None,
    typer.Option(
        "--load-id",
        metavar="ID",
        help="An id of this load: refused if the table has it, so that a load that was killed can be run again; printed otherwise.",
    ),
]
EngineOption = Annotated[
    LoadEngine,
    typer.Option("--engine", help="What reads the files; auto is Arrow in this process, and Spark for 1 GiB or more if it is installed."),
]


@with_catalog_options
def load(
    *,
    files: Files,
    into: Into,
    partition: Partitions = None,
    table_property: Properties = None,
    schema: Declared = None,
    file_format: Format = None,
    option: Options = None,
    overwrite: Overwrite = False,
    upsert: Upsert = None,
    where: Where = None,
    add_columns: AddColumns = False,
    cast_nanos: CastNanos = False,
    bad_rows: BadRowsOption = BadRows.FAIL,
    bad_rows_file: BadRowsFile = None,
    load_id: LoadId = None,
    engine: EngineOption = LoadEngine.AUTO,
    choice: CatalogChoice,
    as_json: AsJson = False,
) -> None:
    """Load files into a table, in one commit. If it fails or is interrupted, no table is changed."""
    name = to_table_identifier(into, of_server=may_be_service(choice))
    request = LoadRequest(
        partition=partition or (),
        properties=properties_of(table_property),
        columns=schema,
        options=pairs_of(option, "--option"),
        overwrite=overwrite,
        upsert=_keys(upsert),
        where=where,
        add_columns=add_columns,
        cast_nanos=cast_nanos,
        bad_rows=bad_rows,
        bad_rows_file=bad_rows_file,
        load_id=load_id,
    )
    # Local files are searched before the catalog is created, so that a mistyped name creates nothing.
    inputs = find_files(files, file_format) if all(scheme_of(text) == "file" for text in files) else None
    opened = open_catalog(choice, create=True)
    inputs = inputs or find_files(files, file_format, opened.properties)
    chosen, reason = choose_engine(engine, inputs, request)
    prepared = FileLoad(opened, into, inputs, request)
    print_message(f"{chosen.value.capitalize()} loads {inputs.described}, {size_text(inputs.size)}{reason}")
    if inputs.size >= _RESUMABLE_BYTES and not (overwrite or upsert):
        print_message(
            f"If this load is killed, run it again with --load-id {prepared.load_id}: that is refused where its rows are in the table"
        )
    with _reports_interrupt(prepared), prepared.all_or_nothing():
        result = _load_files(prepared, chosen, engine)
    if as_json:
        write_json(_as_json(into, result))
    else:
        for line in _summary(into, result):
            typer.echo(visible(line))
        # The lines are not wrapped, so that they can be copied.
        typer.echo(
            visible(_ways_to_open(opened, name, has_name_in_configuration=choice.uri is None and choice.warehouse is None)), err=True
        )


def choose_engine(engine: LoadEngine, files: InputFiles, request: LoadRequest) -> tuple[LoadEngine, str]:
    """Choose the engine that reads the files.

    Args:
        engine: The engine that the user chose.
        files: The input files.
        request: The load.

    Returns:
        The engine, and the reason as the end of a sentence.

    Raises:
        InvalidInputError: The user chose Spark, which cannot read the files.
        NotInstalledError: The user chose Spark, which is not installed.
    """
    obstacle = _obstacle_to_spark(files, request)
    if engine is LoadEngine.SPARK and obstacle is not None:
        raise _not_by_spark(obstacle)
    if engine is LoadEngine.SPARK and find_spec("pyspark") is None:
        raise not_installed("--engine spark", "pyspark", extra="spark")
    if engine is not LoadEngine.AUTO:
        return engine, " (--engine)"
    limit = size_text(engine_choice().bytes_to_start)
    if files.size < engine_choice().bytes_to_start:
        return LoadEngine.ARROW, f" (less than {limit}; --engine spark chooses Spark)" if find_spec("pyspark") is not None else ""
    if find_spec("pyspark") is None:
        return LoadEngine.ARROW, " (Spark is not installed)"
    if obstacle is not None:
        return LoadEngine.ARROW, f" (Spark does not load {obstacle})"
    return LoadEngine.SPARK, f" ({limit} or more; --engine arrow chooses Arrow)"


def _obstacle_to_spark(files: InputFiles, request: LoadRequest) -> str | None:
    if request.bad_rows is not BadRows.FAIL:
        return f"with --bad-rows {request.bad_rows}"
    if request.where is not None:
        return "with --where"
    if request.cast_nanos:
        return "with --cast-nanos"
    if any(scheme_of(path) != "file" for path in files.paths):
        return "from an object store here"
    suffixes = {PurePosixPath(path).suffix.lower() for path in files.paths}
    unreadable = sorted(suffixes.intersection(CODECS).difference(_SPARK_CODECS))
    return f"{unreadable[0]} files" if unreadable else None


@contextmanager
def _load_step(text: str) -> Iterator[ProgressCallback]:
    """Show the progress of a pass over the files, and yield the callback that updates it."""
    with step(text, unit=BYTES, in_pipes=False) as work:

        def advance(state: LoadProgress) -> None:
            work.done, work.total, work.rows = state.done_bytes, state.all_bytes, state.rows

        yield advance


def _load_files(load: FileLoad, chosen: LoadEngine, stated: LoadEngine) -> LoadResult:
    with _load_step("Reading the columns") as progress:
        load.open(progress)
        obstacle = load.spark_obstacle() if chosen is LoadEngine.SPARK else None
    if chosen is LoadEngine.SPARK and obstacle is None:
        return _load_by_spark(load)
    if obstacle is not None:
        if stated is LoadEngine.SPARK:
            raise _not_by_spark(obstacle)
        print_message(f"Arrow loads them, because Spark does not load {obstacle}")
    with _load_step("Loading the rows") as progress:
        return load.write(load.rows(progress))


def _load_by_spark(load: FileLoad) -> LoadResult:
    with _load_step("Finding line breaks in values") as progress:
        request = load.spark_request(progress)
    with step("Starting Spark"):
        spark = start_spark()
    reader = spark_module("scan.input_file_rows")
    try:
        with step(f"Loading into {dotted(load.name)}", spark_module("runtime.running_jobs").running_tasks(spark)), reader.reading():
            return load.write(reader.read_files(spark, request))
    except KeyboardInterrupt:
        stop_spark()
        raise
    except SchemaMismatchError:
        raise
    except InvalidInputError:
        # Spark stops at the first bad row; here all bad rows are counted.
        with _load_step("Counting bad rows") as progress:
            load.count_bad_rows(progress)
        raise


def _not_by_spark(obstacle: str) -> InvalidInputError:
    return InvalidInputError(
        f"Spark does not load {obstacle}", next_step="omit --engine spark, so that Arrow loads the files in this process"
    )


def _keys(text: str | None) -> Sequence[str]:
    keys = [] if text is None else [key.strip() for key in text.split(",")]
    if not all(keys):
        raise InvalidInputError(f"--upsert {text!r} names no column", next_step="write it as --upsert id or --upsert id,day")
    return keys


@contextmanager
def _reports_interrupt(load: FileLoad) -> Iterator[None]:
    """Add a description of the table's state to a `KeyboardInterrupt` of a `with` block."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        table = dotted(load.name)
        if load.may_be_committed(interrupt):
            state = f"the commit may have happened already: see `icefloe show snapshots {table}`"
        else:
            state = f"{table} was not created" if load.creates_table else f"no snapshot was made, {table} is unchanged"
        raise KeyboardInterrupt(state) from interrupt


def _summary(into: str, result: LoadResult) -> Iterator[str]:
    yield f"{into}: {result.write}"
    if result.filtered_rows:
        yield f"{into}: {_rows(result.filtered_rows)} left out by --where"
    if result.bad_rows:
        where = f"written to {result.bad_rows_file}" if result.bad_rows_file else "skipped"
        yield f"{into}: {_rows(result.bad_rows, 'bad ')} {where}, the first: {result.first_bad_rows[0].problem()}"
    yield from (f"{into}: {column}" for column in result.mixed_columns)


def _rows(count: int, kind: str = "") -> str:
    return f"{count:,} {kind}row{'' if count == 1 else 's'}"


def _as_json(into: str, result: LoadResult) -> dict[str, Any]:
    return {
        "table": into,
        "metadata_location": result.table.metadata_location,
        **json_ready(result.write),
        "load_id": result.load_id,
        "filtered_rows": result.filtered_rows,
        "bad_rows": result.bad_rows,
        "bad_rows_file": result.bad_rows_file,
        "first_bad_rows": json_ready(list(result.first_bad_rows)),
        "mixed_columns": json_ready(list(result.mixed_columns)),
    }


def _ways_to_open(catalog: Catalog, table: Identifier, *, has_name_in_configuration: bool) -> str:
    """Return lines of Python and SQL that open the loaded table. A password in the address of the database is not shown."""
    arguments = [repr(catalog.name)]
    if not has_name_in_configuration:
        shown = {key: catalog.properties[key] for key in ("uri", "warehouse") if key in catalog.properties}
        arguments += [f"{key}={(without_password(value) if '://' in value else value)!r}" for key, value in shown.items()]
    names = ".".join(part if _SQL_NAME.fullmatch(part) else "`" + part.replace("`", "``") + "`" for part in (catalog.name, *table))
    opening = f"catalog = icefloe.load_catalog({', '.join(arguments)})"
    query = f"SELECT * FROM {names}"  # noqa: S608  the text is only printed
    label = "In SQL:   " if find_spec("pyspark") is not None else "In SQL (needs icefloe[spark]):"
    return (
        f"In Python: {opening}; catalog.load_table({dotted(table)!r})\n"
        f"{label} icefloe.spark.session(catalogs={{{catalog.name!r}: catalog}}).sql({query!r})"
    )
