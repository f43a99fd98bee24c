"""`icefloe load`: loads files into a table in one commit, or changes nothing.

`input_files.py` finds the files; Spark reads and writes their rows.
"""

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Annotated, Any

import typer

import icefloe.inspect as look
from icefloe.catalog.catalog import Catalog
from icefloe.catalog_store.identifier import Identifier, dotted, to_table_identifier
from icefloe.catalog_store.sql_errors import without_password
from icefloe.cli.catalog_choice import CatalogChoice, open_catalog
from icefloe.cli.input_files import FileFormat, InputFiles, check_headers, find_files, first_wrong_line
from icefloe.cli.screen import print_message, step, write_json
from icefloe.cli.shared_options import AsJson, CatalogName, CatalogUri, Warehouse
from icefloe.cli.spark_access import spark_module, start_spark, stop_spark
from icefloe.errors import (
    CommitUnknownError,
    IcefloeError,
    InvalidInputError,
    InvalidPartitionSpecError,
    InvalidSchemaError,
    NoSuchTableError,
    SchemaMismatchError,
    StorageError,
    visible,
)
from icefloe.inspect.as_json import json_ready
from icefloe.io.locations import local_path, scheme_of
from icefloe.kernel.partitioning.partition_spec import partition_spec_from_text
from icefloe.kernel.schema.schema import Schema
from icefloe.table.table import Table
from icefloe.table.write_result import WriteResult

INTERRUPTED = 130
# A name that needs no backticks in Spark SQL.
_SQL_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)

Files = Annotated[list[str], typer.Argument(metavar="FILES...", help="Files or folders: JSON lines, CSV with a header line, or Parquet.")]
Into = Annotated[str, typer.Option("--into", metavar="NS.TABLE", help="The table; it is created if it does not exist.")]
Partitions = Annotated[
    list[str] | None,
    typer.Option("--partition", metavar="FIELD", help='Partition a new table by this, such as "month(time)" or "type". Repeat for more.'),
]
Declared = Annotated[
    str | None,
    typer.Option("--schema", metavar="COLUMNS", help='The columns, such as "id bigint, time timestamp"; by default Spark infers them.'),
]
Format = Annotated[FileFormat | None, typer.Option("--format", help="The files' format, if their names do not have a known ending.")]
Options = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="KEY=VALUE", help="An option of Spark's reader, such as sep=; or nullValue=NA. Repeat for more."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite/--append", help="Replace all rows of the table, or add to them.")]


def load(
    files: Files,
    into: Into,
    partition: Partitions = None,
    schema: Declared = None,
    file_format: Format = None,
    option: Options = None,
    overwrite: Overwrite = False,
    catalog: CatalogName = None,
    uri: CatalogUri = None,
    warehouse: Warehouse = None,
    as_json: AsJson = False,
) -> None:
    """Load files into a table: read by Spark, written in one commit. If it fails or is interrupted, no snapshot is made."""
    name = to_table_identifier(into)
    options = _options(option or [])
    input_files = find_files(files, file_format)
    separator = options.get("sep", options.get("delimiter", ","))
    if input_files.format is FileFormat.CSV:
        check_headers(input_files, separator)
    opened = open_catalog(CatalogChoice(name=catalog, uri=uri, warehouse=warehouse), create=True)
    target = _Target(opened, name, partition or [])
    with _all_or_nothing(target):
        with step("Starting Spark"):
            spark = start_spark()
        progress_source = spark_module("runtime.running_jobs").running_tasks(spark)
        with step(f"Reading the columns of {input_files.described}", progress_source):
            rows = read_rows(spark, input_files, declared=schema, table=target.table, options=options)
        table = target.opened(rows.schema)
        with step(f"Loading into {into}", progress_source):
            result = write_rows(table, rows.frame, input_files, overwrite=overwrite, separator=separator)
    if as_json:
        write_json({"table": into, "metadata_location": table.metadata_location, **json_ready(result)})
    else:
        typer.echo(visible(f"{into}: {result}"))
        # Not wrapped, so that the lines can be copied.
        typer.echo(visible(_ways_to_open(opened, name, has_name_in_configuration=uri is None and warehouse is None)), err=True)


def _ways_to_open(catalog: Catalog, table: Identifier, *, has_name_in_configuration: bool) -> str:
    """Return the lines of Python and SQL that open the loaded table; a password in the address of the database is not shown."""
    arguments = [repr(catalog.name)]
    if not has_name_in_configuration:
        shown = {key: catalog.properties[key] for key in ("uri", "warehouse") if key in catalog.properties}
        arguments += [f"{key}={(without_password(value) if '://' in value else value)!r}" for key, value in shown.items()]
    names = ".".join(part if _SQL_NAME.fullmatch(part) else "`" + part.replace("`", "``") + "`" for part in (catalog.name, *table))
    opening = f"catalog = icefloe.load_catalog({', '.join(arguments)})"
    query = f"SELECT * FROM {names}"  # noqa: S608  text for a reader
    return (
        f"In Python: {opening}; catalog.load_table({dotted(table)!r})\n"
        f"In SQL:    icefloe.spark.session(catalogs={{{catalog.name!r}: catalog}}).sql({query!r})"
    )


def read_rows(spark: Any, files: InputFiles, *, declared: str | None, table: Table | None, options: dict[str, str]) -> Any:
    """Read the files with Spark; return `icefloe.spark.scan.input_file_rows.FileRows`. Raises `InvalidInputError` for no rows or a wrong line."""
    reader = spark_module("scan.input_file_rows")
    try:
        rows = reader.read_files(
            spark,
            files.paths,
            files.format.value,
            declared=declared,
            table_schema=table.schema() if table is not None else None,
            options=options,
        )
        if not reader.has_rows(rows.frame):
            raise InvalidInputError(f"{files.described}: there are no rows", next_step="name files that contain rows")
    except InvalidSchemaError:
        raise
    except InvalidInputError as error:
        raise _with_line(error, files) from error
    return rows


def write_rows(table: Table, frame: Any, files: InputFiles, *, overwrite: bool = False, separator: str = ",") -> WriteResult:
    """Write the rows in one commit. Raises `InvalidInputError` for a row that cannot be read, and as `Table.append`."""
    try:
        with spark_module("scan.input_file_rows").reading():
            return table.overwrite(frame) if overwrite else table.append(frame)
    except SchemaMismatchError:
        raise
    except InvalidInputError as error:
        raise _with_line(error, files, separator) from error


def _options(texts: Sequence[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    for key, equals, _ in pairs:
        if not key or not equals:
            raise InvalidInputError(f"--option {key!r} has no value", next_step="write it as --option KEY=VALUE")
    return {key: value for key, _, value in pairs}


def _existing(catalog: Catalog, name: Identifier) -> Table | None:
    try:
        return catalog.load_table(name)
    except NoSuchTableError:
        return None


def _check_same_partitioning(table: Table, texts: Sequence[str]) -> None:
    if not partition_spec_from_text(table.schema(), texts).is_equivalent(table.spec()):
        raise InvalidPartitionSpecError(
            f"{table.full_name} exists and is partitioned by {look.table(table).partitioning}, not by {', '.join(texts)}",
            table=table.full_name,
            next_step="omit --partition to load into the table as it is, or choose another table",
        )


def _with_line(error: InvalidInputError, files: InputFiles, separator: str = ",") -> IcefloeError:
    """Return the error with the first wrong line added, if one is found."""
    problem = first_wrong_line(files, separator)
    if problem is None:
        return error
    return InvalidInputError(error.message, path=error.path, problems=[problem], next_step="correct the line; nothing was loaded")


class _Target:
    """The table of a load: an existing one, or one created for it and dropped again if the load makes no snapshot."""

    def __init__(self, catalog: Catalog, name: Identifier, partition: Sequence[str]) -> None:
        self._catalog = catalog
        self.name = name
        self._partition = list(partition)
        self.table = _existing(catalog, name)
        self._is_new = self.table is None
        self._creates_namespace = self._is_new and not catalog.namespace_exists(name[:-1])
        self._location_before = self.table.metadata_location if self.table is not None else None
        self._created_folder: str | None = None
        if self.table is not None and partition:
            _check_same_partitioning(self.table, partition)

    def opened(self, schema: Schema) -> Table:
        """Return the table; create it with this schema, and its namespace, if it does not exist."""
        if self.table is None:
            self._catalog.create_namespace_if_not_exists(self.name[:-1])
            self.table = self._catalog.create_table(self.name, schema, partition_spec=self._partition)
            self._location_before = self.table.metadata_location
            self._created_folder = _folder_with_one_file(self.table)
        return self.table

    def has_changed(self) -> bool:
        """Return True if the table has changed since the load began, by the load or by another writer."""
        return self.table is not None and self._catalog.store.load(self.name).metadata_location != self._location_before

    def undo(self) -> None:
        """Drop the table and namespace that were created for the load, unless rows were written to the table."""
        if not self._is_new or self.has_changed():
            return
        if self.table is not None:
            self._catalog.drop_table(self.name)
            with suppress(StorageError):
                self.table.io.delete(self.table.metadata_location)
            if self._created_folder is not None:
                # Interrupted tasks may have written files that no table names.
                shutil.rmtree(self._created_folder, ignore_errors=True)
                with suppress(OSError):
                    os.rmdir(os.path.dirname(self._created_folder))
        if self._creates_namespace and self._catalog.namespace_exists(self.name[:-1]):
            self._catalog.drop_namespace(self.name[:-1])


@contextmanager
def _all_or_nothing(target: _Target) -> Iterator[None]:
    """Undo a load that fails, and report the state of the table after an interrupt."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        stop_spark()
        if target.has_changed():
            state = f"the commit may have happened already: see `icefloe show snapshots {dotted(target.name)}`"
        else:
            target.undo()
            state = f"no snapshot was made, {dotted(target.name)} is unchanged"
        print_message(f"icefloe: interrupted: {state}")
        raise typer.Exit(INTERRUPTED) from interrupt
    except CommitUnknownError:
        raise  # the commit may have happened, so nothing that it needs is deleted
    except BaseException:
        target.undo()
        raise


def _folder_with_one_file(table: Table) -> str | None:
    """Return the folder of a local table just created, if its first metadata file is its only content; None for a folder that existed before."""
    if scheme_of(table.location()) != "file":
        return None
    folder = local_path(table.location())
    files = [os.path.join(place, name) for place, _, names in os.walk(folder) for name in names]
    return folder if files == [local_path(table.metadata_location)] else None
