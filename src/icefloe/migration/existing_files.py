"""The files of a folder, or of a table in another format, as data files of a new table: their columns, partition columns and metrics.

`snapshot_table.py` and `migrate_table.py` create a table from these files. Spec: Column Projection; Partitioning.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from icefloe.catalog.catalog import Catalog
from icefloe.catalog.catalog_base import Name
from icefloe.catalog.catalog_transaction import CreateTableTransaction
from icefloe.datafile.footer_columns import int96_places, with_int96_as_instants
from icefloe.datafile.orc.orc_timestamps import new_table_schema
from icefloe.display.report import Column, Facts, Report, grid
from icefloe.display.reportable import MOST_LINES, OperationResult, json_ready
from icefloe.errors import DataFileFormatError, InvalidInputError, NoSuchFileError, SchemaMismatchError, TableAlreadyExistsError
from icefloe.formatting import count_text, size_text
from icefloe.io.file_io_by_scheme import load_file_io
from icefloe.io.listing import files_of
from icefloe.io.locations import qualify
from icefloe.operations.available_engines import engine_choice
from icefloe.operations.parallel_requests import side_by_side
from icefloe.operations.rows.add_files import read_footers
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.metadata.moved_metadata import PATH_PROPERTIES
from icefloe.spec.metadata.table_properties import NAME_MAPPING
from icefloe.spec.partitioning.partition_folders import folders_in_path, hive_value
from icefloe.spec.ports import FileIO
from icefloe.spec.schema.arrow_schema import schema_from_arrow
from icefloe.spec.schema.name_mapping import mapping_for, mapping_to_json
from icefloe.spec.schema.schema import Schema, assign_fresh_ids
from icefloe.spec.types import DateType, IcebergType, IntegerType, LongType, NestedField, StringType

# Properties of the source table that the new table does not get: locations and statistics of the source, and properties that Hive sets for its own use.
_OF_SOURCE = frozenset(
    {
        "location",
        "path",
        "transient_lastDdlTime",
        "serialization.format",
        "EXTERNAL",
        "external.table.purge",
        "TRANSLATED_TO_EXTERNAL",
        "bucketing_version",
        "last_modified_by",
        "last_modified_time",
        "numFiles",
        "numPartitions",
        "numRows",
        "rawDataSize",
        "totalSize",
        "COLUMN_STATS_ACCURATE",
        *PATH_PROPERTIES,
    }
)


class SourceTable(ABC):
    """A table of Spark's session catalog, which a migration replaces by an Iceberg table of the same name.

    Attributes:
        name: The namespace and the name of the table.
        location: Its folder.
    """

    name: tuple[str, ...]
    location: str

    @abstractmethod
    def make_backup(self, backup_name: str) -> None:
        """Make the table external, so that its catalog neither moves nor deletes its folder, and rename it within its namespace.

        Raises:
            TableAlreadyExistsError: The name is taken. Nothing was changed.
            EngineError: The catalog refuses a step. `restore` undoes the steps before it.
        """

    @abstractmethod
    def restore(self, *, is_external: bool = False) -> None:
        """Undo `make_backup`: give the table its name and its type back. Do nothing if `make_backup` has not begun.

        Args:
            is_external: Leave the table external, so that dropping it does not delete its files.

        Raises:
            EngineError: The catalog refuses.
        """

    @abstractmethod
    def drop_backup(self) -> None:
        """Drop the renamed table. Raises `EngineError` if the catalog refuses, or if it would delete the files."""


class SourceFolders(list[str]):
    """The folders of a table of Spark's session catalog, each with a slash at its end, and the table's description in that catalog.

    Attributes:
        schema: All columns; the partition columns are last.
        partition_columns: The names of the partition columns, outermost first.
        properties: The table's own properties.
        table: The table; None if the folders do not belong to a table.
    """

    def __init__(
        self,
        folders: Iterable[str],
        schema: Schema,
        partition_columns: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        table: SourceTable | None = None,
    ) -> None:
        super().__init__(folders)
        self.schema = schema
        self.partition_columns = tuple(partition_columns)
        self.properties = dict(properties or {})
        self.table = table


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingFiles:
    """The files that a new table is made of, and the columns of that table. Only the schemas in the files' footers have been read.

    Attributes:
        io: The storage.
        folders: The folders of the source.
        files: The locations of the files, sorted in each folder.
        described: The source's columns, partition columns and properties.
        schema: The columns of the new table, all of them optional.
        ignore_missing: Whether folders that do not exist count as empty.
        is_left_out: Returns True for a file that is not part of the source.
    """

    io: FileIO
    folders: tuple[str, ...]
    files: tuple[str, ...]
    described: SourceFolders
    schema: Schema
    ignore_missing: bool
    is_left_out: Callable[[str], bool]

    def again(self) -> tuple[str, ...]:
        """List the source again, and return the locations of the files that it has now. Raises the errors of `existing_files`."""
        return _files(self.io, self.folders, self.is_left_out, ignore_missing=self.ignore_missing)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TableOfFilesResult(OperationResult):
    """The result of creating a table from existing files; with `dry_run`, the result that the call would have.

    Attributes:
        action: The procedure: `snapshot` or `migrate`.
        dry_run: Whether the call only checked the files and created no table.
        table: The name of the table.
        location: The table's folder, which gets the files of later writes.
        imported_files: The number of files in the source.
        imported_bytes: The size of these files in bytes.
        imported_records: The number of rows in these files.
        schema: The table's columns.
        partition_columns: The columns by which it is partitioned.
    """

    action: ClassVar[str]

    dry_run: bool
    table: str
    location: str
    imported_files: int
    imported_bytes: int
    imported_records: int
    schema: Schema
    partition_columns: tuple[str, ...] = ()

    def report(self, most: int | None = MOST_LINES) -> Report:
        facts = (
            ("would have" if self.dry_run else "files", f"{count_text(self.imported_files, 'file')}, {size_text(self.imported_bytes)}"),
            ("rows", f"{self.imported_records:,}"),
            ("partitioned by", ", ".join(self.partition_columns) or "nothing"),
            ("new files at", self.location),
            *self._more_facts(),
        )
        columns = grid("columns", (Column("name"), Column("type")), self._columns(), most)
        return Report(f"{self.action} {self.table}", (Facts(facts), columns))

    def to_dict(self) -> dict[str, Any]:
        """Return every attribute by its name. The columns are pairs of a name and a type."""
        fields: dict[str, Any] = json_ready(self)
        del fields["schema"]
        return {"action": self.action, **fields, "columns": json_ready(self._columns())}

    def _columns(self) -> list[tuple[str, str]]:
        return [(column.name, str(column.field_type)) for column in self.schema.fields]

    def _more_facts(self) -> Sequence[tuple[str, str]]:
        return ()


def existing_files(
    catalog: Catalog, source: str | Sequence[str], *, ignore_missing: bool = False, is_left_out: Callable[[str], bool] = lambda _: False
) -> ExistingFiles:
    """List the files of a source, and determine the columns of a table that is made from them.

    Args:
        catalog: The catalog of the new table, whose properties configure the storage.
        source: A folder, whose partition columns are in its folders `name=value`; or the folders of a Spark table.
        ignore_missing: Whether folders that do not exist count as empty.
        is_left_out: Returns True for a file that is not part of the source.

    Raises:
        NoSuchFileError: The folder does not exist.
        DataFileFormatError: A file has no valid footer, or is neither Parquet nor ORC.
        SchemaMismatchError: Files have different columns or partition columns.
        InvalidInputError: Two of the folders contain the same file.
    """
    folders = (qualify(source),) if isinstance(source, str) else tuple(qualify(folder) for folder in source)
    io = load_file_io(catalog.properties)
    files = _files(io, folders, is_left_out, ignore_missing=ignore_missing)
    layouts = _layouts(io, files)
    described = source if isinstance(source, SourceFolders) else _source_folders(layouts, folders, files)
    _refuse_unread_columns(layouts, described)
    schema = assign_fresh_ids(Schema(*(replace(column, required=False) for column in described.schema.fields)))
    return ExistingFiles(
        io=io, folders=folders, files=files, described=described, schema=schema, ignore_missing=ignore_missing, is_left_out=is_left_out
    )


def new_table_of(
    catalog: Catalog, name: Name, existing: ExistingFiles, location: str | None, properties: Mapping[str, str], fixed: Mapping[str, str]
) -> CreateTableTransaction:
    """Start a transaction that creates a table for existing files. Nothing is written yet.

    Args:
        catalog: The catalog.
        name: The name of the table.
        existing: The files, with the columns and properties of their source.
        location: The table's folder; by default the catalog chooses it.
        properties: Properties from the caller, which override the properties of the source.
        fixed: Properties that override the properties of the caller and of the source.

    Raises:
        TableAlreadyExistsError: The name is taken.
        IcefloeError: The catalog refuses the table.
    """
    if catalog.table_exists(name):
        raise TableAlreadyExistsError(f"{'.'.join(catalog.resolve_name(name))} exists", next_step="choose another name")
    described = existing.described
    own = {key: value for key, value in described.properties.items() if key not in _OF_SOURCE}
    # The files have no field ids, so that readers find their columns by name.
    mapping = {NAME_MAPPING.name: mapping_to_json(mapping_for(existing.schema))}
    return catalog.create_table_transaction(
        name,
        existing.schema,
        location=location,
        partition_spec=list(described.partition_columns),
        properties={**own, **properties, **fixed, **mapping},
    )


def commit_files(transaction: CreateTableTransaction, files: Sequence[DataFile]) -> None:
    """Create the table with these files, in one commit. Raises the errors of `CreateTableTransaction.commit_transaction`; no file is deleted after an error."""
    with transaction as changes:
        if files:
            with changes.update_snapshot().fast_append() as update:
                for file in files:
                    update.append_file(file)


def files_to_add(transaction: CreateTableTransaction, files: Sequence[str]) -> list[DataFile]:
    """Return the files as data files, with the metrics from their footers.

    Raises:
        DataFileFormatError: A file is damaged.
        SchemaMismatchError: The type of a column differs from the type in the table, or columns have field ids.
    """
    metadata = transaction.base
    added = read_footers(
        engine_choice().for_many(len(files), engine_choice().footers), transaction.handle, metadata, files, metadata.spec()
    )
    with_ids = [measured.file.file_path for measured in added if measured.has_ids]
    if with_ids:
        raise SchemaMismatchError(
            f"the columns of {with_ids[0]} have field ids, which are those of another Iceberg table",
            path=with_ids[0],
            next_step="register that table by its metadata file, or copy its rows",
        )
    return [measured.file for measured in added]


def _files(io: FileIO, folders: Sequence[str], is_left_out: Callable[[str], bool], *, ignore_missing: bool) -> tuple[str, ...]:
    files: list[str] = []
    for folder in folders:
        try:
            files += (file for file in files_of(io, folder) if not is_left_out(file))
        except NoSuchFileError:
            if not ignore_missing:
                raise
    twice = [location for location, times in Counter(files).items() if times > 1]
    if twice:
        raise InvalidInputError(f"{twice[0]} is in two folders of the source", path=twice[0], next_step="name each folder once")
    return tuple(files)


def _layouts(io: FileIO, files: Sequence[str]) -> list[tuple[pa.Schema, str]]:
    """Read the Arrow schemas of files. Return each different schema once, with the first file that has it."""
    schemas: dict[bytes, tuple[pa.Schema, str]] = {}
    for file, columns in side_by_side(lambda file: (file, _columns_of(io, file)), files):
        schemas.setdefault(columns.serialize().to_pybytes(), (columns, file))
    return list(schemas.values())


def _refuse_unread_columns(layouts: Sequence[tuple[pa.Schema, str]], described: SourceFolders) -> None:
    """Refuse files with columns that would be read as null: columns whose names differ from the table's only in case, or files without any table column.

    Older ORC files of Hive name their columns `_col0`, `_col1`, and Hive finds the columns by their position.

    Raises:
        SchemaMismatchError: There is such a file.
    """
    names = set(described.schema.names)
    stored = names - set(described.partition_columns)
    spellings: dict[str, set[str]] = {}
    for name in names:
        spellings.setdefault(name.lower(), set()).add(name)
    for columns, file in layouts:
        other_case = [name for name in columns.names if spellings.get(name.lower(), {name}) != {name}]
        if other_case:
            raise SchemaMismatchError(
                f"{file} has the column {other_case[0]!r}, and the table has that name in other letters",
                path=file,
                next_step="rename the column in the files, leave the file out, or load the rows",
            )
        if stored and not stored & set(columns.names):
            raise SchemaMismatchError(
                f"{file} does not have any of the table's columns, which are found by their names: every value would be null",
                path=file,
                next_step="INSERT the rows of the source into a new table",
            )


def _source_folders(layouts: Sequence[tuple[pa.Schema, str]], folders: Sequence[str], files: Sequence[str]) -> SourceFolders:
    """Return the description of a folder that is no table: the columns of all footers, and the partition columns in the paths of all files.

    Raises:
        NoSuchFileError: There are no files.
        SchemaMismatchError: Files have different types for a column, or different partition columns.
    """
    if not files:
        raise NoSuchFileError(f"no file is at {folders[0]}", path=folders[0], next_step="check the folder")
    try:
        columns = pa.unify_schemas([layout for layout, _ in layouts])
    except pa.ArrowException as error:
        raise SchemaMismatchError(
            f"the files of {folders[0]} have different types for one column: {error}",
            path=folders[0],
            next_step="make tables of the files of each kind, or load the rows",
        ) from error
    values = _partition_values(files, folders[0])
    stored = schema_from_arrow(columns, keep_ids=False).fields
    kept = [column for column in stored if column.name not in values]
    types = {column.name: column.field_type for column in stored}
    last = max((column.field_id for column in stored), default=0)
    # All fields get fresh ids later; until then the ids of nested fields must differ.
    partitions = [
        NestedField(last + 100_000 + place, name, types.get(name) or _type_of(texts), required=False)
        for place, (name, texts) in enumerate(values.items())
    ]
    return SourceFolders(folders, Schema(*kept, *partitions), tuple(values))


def _partition_values(files: Sequence[str], folder: str) -> dict[str, set[str | None]]:
    """Return the values of each partition column in the paths of files, by name, outermost first. Raises `SchemaMismatchError` if the columns differ."""
    values: dict[str, set[str | None]] | None = None
    for file in files:
        pairs = _partition_folders(file, folder)
        if values is None:
            values = {name: set() for name, _ in pairs}
        if [name for name, _ in pairs] != list(values):
            columns = [", ".join(names) for names in (values, (name for name, _ in pairs))]
            raise SchemaMismatchError(
                f"the folders of {files[0]} have the partition columns [{columns[0]}], and those of {file} [{columns[1]}]",
                path=file,
                next_step="make tables of the folders one by one",
            )
        for name, text in pairs:
            values[name].add(text)
    return values or {}


def _columns_of(io: FileIO, location: str) -> pa.Schema:
    with io.open_input(location) as opened:
        magic = bytes(opened.read(4))
        opened.seek(0)
        try:
            if magic == b"PAR1":
                stored = pq.ParquetFile(opened)
                return with_int96_as_instants(stored.schema_arrow.remove_metadata(), int96_places(stored.schema))
            if magic.startswith(b"ORC"):
                return new_table_schema(orc.ORCFile(opened).schema).remove_metadata()
        except (pa.ArrowException, OSError, ValueError) as error:
            raise DataFileFormatError(f"{location} has no valid footer: {error}", path=location, next_step="write it again") from error
    raise DataFileFormatError(
        f"{location} is neither Parquet nor ORC", path=location, next_step="name a folder of such files alone, or load the rows"
    )


def _partition_folders(file: str, folder: str) -> list[tuple[str, str | None]]:
    """Return the names and values of the folders `name=value` between the source folder and a file. Raises `SchemaMismatchError` for a folder without `=`."""
    try:
        return [(name, hive_value(text)) for name, text in folders_in_path(file.removeprefix(folder.rstrip("/")))]
    except InvalidInputError as error:
        raise SchemaMismatchError(
            f"the partition of {file} cannot be determined: {error.message}", path=file, next_step="rename the folder"
        ) from None


def _type_of(texts: Iterable[str | None]) -> IcebergType:
    """Return the type of a partition column from the texts of its values: a whole number, a date, or otherwise a string."""
    present = [text for text in texts if text is not None]
    if present and all(_is_number(text) for text in present):
        return IntegerType() if all(-(2**31) <= int(text) < 2**31 for text in present) else LongType()
    return DateType() if present and all(_is_date(text) for text in present) else StringType()


def _is_number(text: str) -> bool:
    """Return whether a text is exactly the decimal text of a whole number. `01` is not, because the number 1 would be written back as `1`."""
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) < 19 and str(int(text)) == text


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
