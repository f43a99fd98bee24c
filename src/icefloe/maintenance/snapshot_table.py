"""`snapshot_table`: a new table over the files of a directory, or of a table of another format; the files stay where they are, and belong to their owner.

Spec: Column Projection; Partitioning.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from icefloe.catalog.catalog import Catalog
from icefloe.catalog.catalog_base import Name
from icefloe.catalog.catalog_transaction import CreateTableTransaction
from icefloe.display.formatting import count_text, size_text
from icefloe.display.html import ShownAsText
from icefloe.errors import DataFileFormatError, InvalidInputError, NoSuchFileError, SchemaMismatchError, TableAlreadyExistsError
from icefloe.io.file_io_by_scheme import load_file_io
from icefloe.io.listing import files_of
from icefloe.io.locations import folders_of, qualified
from icefloe.kernel.manifest.data_file import DataFile
from icefloe.kernel.metadata.moved_metadata import PATH_PROPERTIES
from icefloe.kernel.metadata.table_properties import NAME_MAPPING
from icefloe.kernel.partitioning.partition_folders import folders_in_path, hive_value
from icefloe.kernel.ports import FileIO
from icefloe.kernel.schema.arrow_schema import schema_from_arrow
from icefloe.kernel.schema.name_mapping import mapping_for, mapping_to_json
from icefloe.kernel.schema.schema import Schema, assign_fresh_ids
from icefloe.kernel.types import DateType, IcebergType, IntegerType, LongType, NestedField, StringType
from icefloe.table.parallel_requests import side_by_side
from icefloe.table.rows.add_files import engine_for_footers, footer_request

# Properties of a table whose files belong to another one: nothing of it deletes files.
OF_SNAPSHOTS = {"gc.enabled": "false", "snapshot": "true"}
# Properties of the source that name places of its own files, and those that Hive keeps for itself.
_OF_SOURCE = frozenset({"location", "path", "transient_lastDdlTime", "serialization.format", *PATH_PROPERTIES})


class SourceFolders(list[str]):
    """The folders of a table of Spark's session catalog, each with a slash at its end; and the table's description in that catalog.

    Attributes:
        schema: All columns, those of the partitions last.
        partition_columns: The names of the partition columns, outermost first.
        properties: The table's own properties.
    """

    def __init__(
        self, folders: Iterable[str], schema: Schema, partition_columns: Sequence[str] = (), properties: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(folders)
        self.schema = schema
        self.partition_columns = tuple(partition_columns)
        self.properties = dict(properties or {})


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SnapshotTableResult(ShownAsText):
    """The result of a snapshot of files, or with `dry_run` what it would do.

    Attributes:
        dry_run: Whether no table was created.
        table: The name of the table.
        location: Its folder, where files of later writes are.
        imported_files: The files of the source.
        imported_bytes: Their bytes.
        imported_records: Their rows.
        schema: The table's columns.
        partition_columns: The columns by which it is partitioned.
    """

    dry_run: bool
    table: str
    location: str
    imported_files: int
    imported_bytes: int
    imported_records: int
    schema: Schema
    partition_columns: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        would = "would be" if self.dry_run else "are"
        files = f"{count_text(self.imported_files, 'file')}, {count_text(self.imported_records, 'row')}, {size_text(self.imported_bytes)}"
        return f"snapshot: {files} {would} in {self.table} at {self.location}"


def snapshot_table(
    catalog: Catalog,
    source: str | Sequence[str],
    name: Name,
    *,
    location: str | None = None,
    properties: Mapping[str, str] | None = None,
    ignore_missing_files: bool = False,
    dry_run: bool = False,
) -> SnapshotTableResult:
    """Create a table over existing Parquet or ORC files, in one commit. No file is copied or changed.

    The table never deletes files of the source: it has the properties `gc.enabled=false` and `snapshot=true`. Its own files are at another place.

    Args:
        catalog: The catalog of the new table.
        source: A folder, whose partition columns are folders `name=value`; or the folders of a table of Spark.
        name: The name of the new table.
        location: Its folder; by default that of the catalog.
        properties: Its properties.
        ignore_missing_files: Whether folders that do not exist count as empty.
        dry_run: Check the files, and create nothing.

    Returns:
        The numbers of files, rows and bytes.

    Raises:
        NoSuchFileError: The folder does not exist.
        DataFileFormatError: A file is damaged, or is neither Parquet nor ORC.
        SchemaMismatchError: Files have different columns or partition columns, or columns with field ids.
        InvalidInputError: The new table would be within the source, or the source within it.
        TableAlreadyExistsError, NoSuchNamespaceError: The name is taken, or its namespace does not exist.
    """
    folders = [qualified(source)] if isinstance(source, str) else [qualified(folder) for folder in source]
    io = load_file_io(catalog.properties)
    files = _files(io, folders, ignore_missing=ignore_missing_files)
    layouts = _layouts(io, files)
    described = source if isinstance(source, SourceFolders) else _described(layouts, folders, files)
    _refuse_unread_columns(layouts, described.schema)
    schema = assign_fresh_ids(Schema(*(replace(column, required=False) for column in described.schema.fields)))
    if catalog.table_exists(name):
        raise TableAlreadyExistsError(f"{'.'.join(catalog.resolve_name(name))} exists", next_step="choose another name")
    transaction = catalog.create_table_transaction(
        name,
        schema,
        location=location,
        partition_spec=list(described.partition_columns),
        properties=_properties(described, properties or {}, schema),
    )
    metadata = transaction.base
    _refuse_overlap(folders, metadata.location)
    full_name = ".".join(catalog.resolve_name(name))
    added = _files_to_add(transaction, files, full_name)
    if not dry_run:
        with transaction as changes:
            if added:
                with changes.update_snapshot().fast_append() as update:
                    for file in added:
                        update.append_file(file)
    return SnapshotTableResult(
        dry_run=dry_run,
        table=full_name,
        location=metadata.location,
        imported_files=len(added),
        imported_bytes=sum(file.file_size_in_bytes for file in added),
        imported_records=sum(file.record_count for file in added),
        schema=schema,
        partition_columns=described.partition_columns,
    )


def _properties(described: SourceFolders, properties: Mapping[str, str], schema: Schema) -> dict[str, str]:
    """Return the properties of the new table, with a name mapping of its columns, as its files have no field ids."""
    own = {key: value for key, value in described.properties.items() if key not in _OF_SOURCE}
    return {**own, **properties, **OF_SNAPSHOTS, NAME_MAPPING.name: mapping_to_json(mapping_for(schema))}


def _files_to_add(transaction: CreateTableTransaction, files: Sequence[str], name: str) -> list[DataFile]:
    """Return the files with the metrics of their footers. Raises as `FilesToAdd`, and `SchemaMismatchError` for columns with field ids."""
    metadata = transaction.base
    added = engine_for_footers(files).files_to_add(files, footer_request(transaction.handle, metadata), metadata.spec(), name)
    with_ids = [one.file.file_path for one in added if one.has_ids]
    if with_ids:
        raise SchemaMismatchError(
            f"the columns of {with_ids[0]} have field ids, which are those of another Iceberg table",
            path=with_ids[0],
            next_step="register that table by its metadata file, or copy its rows",
        )
    return [one.file for one in added]


def _files(io: FileIO, folders: Sequence[str], *, ignore_missing: bool) -> list[str]:
    files: list[str] = []
    for folder in folders:
        try:
            files += files_of(io, folder)
        except NoSuchFileError:
            if not ignore_missing:
                raise
    twice = [location for location, times in Counter(files).items() if times > 1]
    if twice:
        raise InvalidInputError(f"{twice[0]} is in two folders of the source", path=twice[0], next_step="name each folder once")
    return files


def _layouts(io: FileIO, files: Sequence[str]) -> list[tuple[pa.Schema, str]]:
    """Return the different Arrow schemas of files, each with the first file that has it."""
    found: dict[bytes, tuple[pa.Schema, str]] = {}
    for file, columns in side_by_side(lambda file: (file, _columns_of(io, file)), files):
        found.setdefault(columns.serialize().to_pybytes(), (columns, file))
    return list(found.values())


def _refuse_unread_columns(layouts: Sequence[tuple[pa.Schema, str]], schema: Schema) -> None:
    """Refuse files whose columns would be read as null, because they have the names of the table's columns in other cases.

    Raises:
        SchemaMismatchError: There is such a file.
    """
    names = set(schema.names)
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


def _described(layouts: Sequence[tuple[pa.Schema, str]], folders: Sequence[str], files: Sequence[str]) -> SourceFolders:
    """Return the columns of files: those of all footers, and the partition columns of all paths."""
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
    # Fresh ids are assigned to all of them later; until then nested ones must differ.
    partitions = [
        NestedField(last + 100_000 + place, name, types.get(name) or _type_of(texts), required=False)
        for place, (name, texts) in enumerate(values.items())
    ]
    return SourceFolders(folders, Schema(*kept, *partitions), tuple(values))


def _partition_values(files: Sequence[str], folder: str) -> dict[str, set[str | None]]:
    """Return the values of the partition columns in the paths of files, by name, outermost first. Raises `SchemaMismatchError` for different columns."""
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
                return pq.read_schema(opened).remove_metadata()
            if magic.startswith(b"ORC"):
                return orc.ORCFile(opened).schema
        except (pa.ArrowException, OSError, ValueError) as error:
            raise DataFileFormatError(f"{location} has no valid footer: {error}", path=location, next_step="write it again") from error
    raise DataFileFormatError(
        f"{location} is neither Parquet nor ORC", path=location, next_step="name a folder of such files alone, or load the rows"
    )


def _partition_folders(file: str, folder: str) -> list[tuple[str, str | None]]:
    """Return the names and values of the folders `name=value` between the source folder and a file. Raises `SchemaMismatchError`."""
    try:
        return [(name, hive_value(text)) for name, text in folders_in_path(file.removeprefix(folder.rstrip("/")))]
    except InvalidInputError as error:
        raise SchemaMismatchError(
            f"the partition of {file} cannot be determined: {error.message}", path=file, next_step="rename the folder"
        ) from None


def _type_of(texts: Iterable[str | None]) -> IcebergType:
    """Return the type of a partition column whose values are known as text: a whole number, a date, or text."""
    present = [text for text in texts if text is not None]
    if present and all(_is_number(text) for text in present):
        return IntegerType() if all(-(2**31) <= int(text) < 2**31 for text in present) else LongType()
    return DateType() if present and all(_is_date(text) for text in present) else StringType()


def _is_number(text: str) -> bool:
    """Return whether a text is a number that is written back as the same text, so that `01` stays a text."""
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) < 19 and str(int(text)) == text


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _refuse_overlap(folders: Sequence[str], location: str) -> None:
    """Refuse a table among the files of its source: later writes would be files of both. Raises `InvalidInputError`."""
    own = folders_of([location])
    if not own or any(place.overlaps(own[0]) for place in folders_of(folders)):
        raise InvalidInputError(
            f"the new table would be at {location}, and the files of its source are at {folders[0]}: one is within the other",
            path=location,
            next_step="pass another location",
        )
