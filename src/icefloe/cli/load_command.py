"""`icefloe load`: files become one commit of a table, or nothing at all.

Finding the files is `input_files.py`, reading and writing their rows is Spark's.
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Annotated, Any

import typer

import icefloe.inspect as look
from icefloe.catalog.catalog import Catalog
from icefloe.catalog_store.identifier import Identifier, dotted, to_table_identifier
from icefloe.cli.catalog_choice import CatalogChoice, open_catalog
from icefloe.cli.input_files import FileFormat, InputFiles, check_headers, find_files, first_wrong_line
from icefloe.cli.screen import say, step, write_json
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

Files = Annotated[list[str], typer.Argument(metavar="FILES...", help="Files or folders: JSON lines, CSV with a header line, or Parquet.")]
Into = Annotated[str, typer.Option("--into", metavar="NS.TABLE", help="The table; it is made if it is not there.")]
Partitions = Annotated[
    list[str] | None,
    typer.Option("--partition", metavar="FIELD", help='Partition a new table by this, such as "month(time)" or "type". Repeat for more.'),
]
Declared = Annotated[
    str | None, typer.Option("--schema", metavar="COLUMNS", help='The columns, such as "id bigint, time timestamp"; else Spark finds them.')
]
Format = Annotated[FileFormat | None, typer.Option("--format", help="The files' format, where their names do not tell it.")]
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
    found = find_files(files, file_format)
    separator = options.get("sep", options.get("delimiter", ","))
    if found.format is FileFormat.CSV:
        check_headers(found, separator)
    opened = open_catalog(CatalogChoice(name=catalog, uri=uri, warehouse=warehouse), create=True)
    target = _Target(opened, name, partition or [])
    with _all_or_nothing(target):
        with step("Starting Spark"):
            spark = start_spark()
        how_far = spark_module("session.running_jobs").running_tasks(spark)
        with step(f"Looking at {found.described}", how_far):
            rows = read_rows(spark, found, declared=schema, table=target.table, options=options)
        table = target.opened(rows.schema)
        with step(f"Loading into {into}", how_far):
            result = write_rows(table, rows.frame, found, overwrite=overwrite, separator=separator)
    if as_json:
        write_json({"table": into, "metadata_location": table.metadata_location, **json_ready(result)})
    else:
        typer.echo(visible(f"{into}: {result}"))


def read_rows(spark: Any, files: InputFiles, *, declared: str | None, table: Table | None, options: dict[str, str]) -> Any:
    """The rows of the files as `icefloe.spark.scan.input_file_rows.FileRows`. Raises `InvalidInputError` where there are none, or a line is wrong."""
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
            raise InvalidInputError(f"{files.described}: there are no rows", next_step="name files with rows in them")
    except InvalidSchemaError:
        raise
    except InvalidInputError as error:
        raise _with_line(error, files) from error
    return rows


def write_rows(table: Table, frame: Any, files: InputFiles, *, overwrite: bool = False, separator: str = ",") -> WriteResult:
    """Writes the rows as one commit. Raises `InvalidInputError` for a row that cannot be read, and as `Table.append` does."""
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
            next_step="leave --partition out to load into it as it is, or choose another table",
        )


def _with_line(error: InvalidInputError, files: InputFiles, separator: str = ",") -> IcefloeError:
    """The error with the first wrong line, where there is one to be found."""
    problem = first_wrong_line(files, separator)
    if problem is None:
        return error
    return InvalidInputError(error.message, path=error.path, problems=[problem], next_step="mend the line; nothing was loaded")


class _Target:
    """The table of a load: the one that is there, or one made for it, which goes again if the load makes no snapshot."""

    def __init__(self, catalog: Catalog, name: Identifier, partition: Sequence[str]) -> None:
        self._catalog = catalog
        self.name = name
        self._partition = list(partition)
        self.table = _existing(catalog, name)
        self._is_new = self.table is None
        self._makes_namespace = self._is_new and not catalog.namespace_exists(name[:-1])
        self._before = self.table.metadata_location if self.table is not None else None
        self._own_folder: str | None = None
        if self.table is not None and partition:
            _check_same_partitioning(self.table, partition)

    def opened(self, schema: Schema) -> Table:
        """The table, made with this schema where it is not there, and its namespace too."""
        if self.table is None:
            self._catalog.create_namespace_if_not_exists(self.name[:-1])
            self.table = self._catalog.create_table(self.name, schema, partition_spec=self._partition)
            self._before = self.table.metadata_location
            self._own_folder = _folder_with_one_file(self.table)
        return self.table

    def has_changed(self) -> bool:
        """Whether the table has a newer version than before the load: that of the load, or of another writer."""
        return self.table is not None and self._catalog.store.load(self.name).metadata_location != self._before

    def undo(self) -> None:
        """Drops what was made for the load, unless something has been written to it."""
        if not self._is_new or self.has_changed():
            return
        if self.table is not None:
            self._catalog.drop_table(self.name)
            with suppress(StorageError):
                self.table.io.delete(self.table.metadata_location)
            if self._own_folder is not None:
                # Tasks that were cut short may have left files, which no table names.
                shutil.rmtree(self._own_folder, ignore_errors=True)
                with suppress(OSError):
                    os.rmdir(os.path.dirname(self._own_folder))
        if self._makes_namespace and self._catalog.namespace_exists(self.name[:-1]):
            self._catalog.drop_namespace(self.name[:-1])


@contextmanager
def _all_or_nothing(target: _Target) -> Iterator[None]:
    """Undoes a load that fails, and says how an interrupted one left the table."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        stop_spark()
        if target.has_changed():
            said = f"the commit may have been made already: see `icefloe show snapshots {dotted(target.name)}`"
        else:
            target.undo()
            said = f"no snapshot was made, {dotted(target.name)} is as it was before"
        say(f"icefloe: interrupted: {said}")
        raise typer.Exit(INTERRUPTED) from interrupt
    except CommitUnknownError:
        raise  # the commit may stand, so nothing that it needs may go
    except BaseException:
        target.undo()
        raise


def _folder_with_one_file(table: Table) -> str | None:
    """The folder of a local table just made, if its first metadata file is all that is in it; None where a folder of that name was there before."""
    if scheme_of(table.location()) != "file":
        return None
    folder = local_path(table.location())
    files = [os.path.join(place, name) for place, _, names in os.walk(folder) for name in names]
    return folder if files == [local_path(table.metadata_location)] else None
