"""Options of the data source `icefloe`: the catalog and table, the selected rows and columns, and how a write replaces rows.

All other options are properties of the catalog and its storage. `python_data_source.py` reads, and `table_writer.py` writes.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from icefloe.catalog.catalog import Catalog
from icefloe.catalog.catalog_config import known_catalogs
from icefloe.catalog.catalog_loader import load_catalog
from icefloe.catalog.in_memory_catalog import InMemoryCatalog
from icefloe.catalog.sql_catalog import SqlCatalog
from icefloe.errors import InvalidInputError, NoSuchCatalogError, UnsupportedFeatureError
from icefloe.operations.data_scan import DataScan
from icefloe.operations.loaded_table import TableReader
from icefloe.operations.metadata_cache import read_metadata_at
from icefloe.option import Option
from icefloe.similar_names import similar_name
from icefloe.spark.jobs.task_errors import key_of_this_process
from icefloe.spark.scan.table_selector import timestamp_ms
from icefloe.spec.ports import FileIO
from icefloe.stores.sql_engine import uri_elsewhere
from icefloe.table.static_table import StaticTable
from icefloe.table.table import Table

CATALOG, TABLE, PATH, STORAGE = "catalog", "table", "path", "storage"
# Id of a read by `icefloe.spark.table`, which converts the errors of the read to Icefloe's exceptions.
READ_ID = "icefloe-read-id"
SNAPSHOT_ID, BRANCH, TAG, AS_OF = "snapshot-id", "branch", "tag", "as-of-timestamp"
START, END = "start-snapshot-id", "end-snapshot-id"
COLUMNS, WHERE, TOLERANT, OVERWRITE_MODE = "columns", "where", "tolerant", "overwrite-mode"
SNAPSHOT_PROPERTY = "snapshot-property."
OPTION_NAMES = (
    CATALOG,
    TABLE,
    PATH,
    STORAGE,
    READ_ID,
    SNAPSHOT_ID,
    BRANCH,
    TAG,
    AS_OF,
    START,
    END,
    COLUMNS,
    WHERE,
    TOLERANT,
    OVERWRITE_MODE,
)
# The options and their meanings for the configuration reference, without options that only Icefloe sets.
DATA_SOURCE_OPTIONS = (
    Option(TABLE, "The table, as `namespace.table`.", java=False),
    Option(CATALOG, "Its catalog; without it, the first part of the table's name.", java=False),
    Option(PATH, "The argument of `load` and `save`: `catalog.namespace.table`, a metadata file or the folder of a table."),
    Option(SNAPSHOT_ID, "The snapshot that is read, by its id."),
    Option(BRANCH, "The branch that is read or written."),
    Option(TAG, "The tag that is read."),
    Option(AS_OF, "The snapshot that was current then: milliseconds from 1970-01-01 UTC, or a time with its zone."),
    Option(START, "Only rows that were appended after this snapshot."),
    Option(END, "Last snapshot of that range.", "the current one"),
    Option(COLUMNS, "Columns that are read, with commas between them, or as a list in JSON.", "all", java=False),
    Option(WHERE, "Filter of the rows, in Icefloe's own grammar.", "none", java=False),
    Option(TOLERANT, "`true`: harmless deviations of manifests from the format are warnings instead of errors.", "`false`", java=False),
    Option(OVERWRITE_MODE, "`static`, or `dynamic`: an overwrite replaces the partitions that the rows are in.", "`static`"),
    Option(SNAPSHOT_PROPERTY, "An entry of the snapshot's summary; the rest of the name is its key."),
)
_POINTS = (SNAPSHOT_ID, BRANCH, TAG, AS_OF)
# Spark's time travel options; only tables of an attached catalog accept them.
SPARK_POINTS = ("versionasof", "timestampasof")


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogRecipe:
    """The class, name and properties with which another process opens a catalog again. Properties may contain passwords, so that the repr lacks them."""

    kind: type[Catalog]
    name: str
    properties: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, catalog: Catalog) -> "CatalogRecipe":
        """Return the recipe to open a catalog again.

        Raises:
            UnsupportedFeatureError: The catalog exists only in this process.
        """
        properties = {key: str(value) for key, value in catalog.properties.items()}
        uri = properties.get("uri", "")
        if isinstance(catalog, InMemoryCatalog) or ":memory:" in uri or uri == "sqlite://":
            raise UnsupportedFeatureError(
                f"catalog {catalog.name!r} exists in this process only, and Spark's server is another process",
                next_step="use a catalog in a database or a folder that the server can open too",
            )
        if isinstance(catalog, SqlCatalog):  # the server has another working directory
            properties["uri"] = uri_elsewhere(catalog.name, uri, catalog.engine.url)
        return cls(kind=type(catalog), name=catalog.name, properties=properties)

    def catalog(self) -> Catalog:
        """Return the catalog, which is opened once in a process. Its database must exist already.

        Raises:
            StorageUnavailableError: The database does not exist on this machine.
        """
        # The database exists, because the catalog was open when it was registered; creating a new one on another machine would give an empty catalog.
        properties = {**self.properties, "init_catalog_tables": "false"} if issubclass(self.kind, SqlCatalog) else self.properties
        return _open_catalog(self.kind, self.name, tuple(sorted(properties.items())))


# Spark's Python processes on the driver serve one epoch of a stream after the other; a catalog for each would keep connections until garbage is collected.
@lru_cache(maxsize=16)
def _open_catalog(kind: type[Catalog], name: str, properties: tuple[tuple[str, str], ...]) -> Catalog:
    return kind(name, **dict(properties))  # type: ignore[arg-type]  # each kind takes its properties so


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredCatalogs:
    """The catalogs and storages that are registered in a session. They are not part of any plan, option or log.

    Attributes:
        catalogs: How to open each catalog, by its name.
        error_key: The key with which tasks sign errors; see `TaskErrors`.
        storages: Storages by their keys; an option contains only the key.
    """

    catalogs: Mapping[str, CatalogRecipe] = field(default_factory=dict, repr=False)
    error_key: bytes = field(default_factory=key_of_this_process, repr=False)
    storages: Mapping[str, FileIO] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The parsed options of a read or write with the data source `icefloe`."""

    table: str = ""
    catalog: str | None = None
    path: str | None = None
    storage: str | None = None
    snapshot_id: int | None = None
    branch: str | None = None
    tag: str | None = None
    as_of_ms: int | None = None
    start_snapshot_id: int | None = None  # rows that were appended after this snapshot, up to `snapshot_id`, are read
    columns: tuple[str, ...] = ("*",)
    where: str | None = None
    tolerant: bool = False
    overwrite_mode: str = "static"
    snapshot_properties: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    def pin(self, table: TableReader) -> "SourceOptions":
        """Return options for the same read of the table's current metadata file, because Spark may plan the read after a later commit."""
        return replace(self, path=table.metadata_location, table=table.full_name)


def parse_options(options: Mapping[str, str]) -> SourceOptions:
    """Parse and check the options of a read or write.

    Raises:
        InvalidInputError: An option seems misspelt or has an invalid value, no option names a table, or two options select different snapshots.
    """
    values = {key.lower(): value for key, value in options.items()}
    _check_names(values)
    points = [name for name in _POINTS if name in values]
    if len(points) > 1 and set(points) != {BRANCH, AS_OF}:
        raise InvalidInputError(
            f"a read is of one snapshot, and the options {' and '.join(points)} name several", next_step="give one of them"
        )
    _check_range(values, points)
    if not values.get(TABLE) and not values.get(PATH):
        raise InvalidInputError(
            "no table is named",
            next_step='give option("table", "namespace.table") and option("catalog", NAME), or load("catalog.namespace.table")',
        )
    mode = values.get(OVERWRITE_MODE, "static")
    if mode not in ("static", "dynamic"):
        raise InvalidInputError(f"the option {OVERWRITE_MODE} is {mode!r}", next_step="give static or dynamic")
    tolerant = values.get(TOLERANT, "false").lower()
    if tolerant not in ("true", "false"):
        raise InvalidInputError(f"the option {TOLERANT} is {tolerant!r}", next_step="give true or false")
    return SourceOptions(
        table=values.get(TABLE, ""),
        catalog=values.get(CATALOG),
        path=values.get(PATH),
        storage=values.get(STORAGE),
        snapshot_id=_whole_number(values, END if START in values else SNAPSHOT_ID),
        branch=values.get(BRANCH),
        tag=values.get(TAG),
        as_of_ms=timestamp_ms(values[AS_OF]) if AS_OF in values else None,
        start_snapshot_id=_whole_number(values, START),
        columns=tuple(_columns(values[COLUMNS])) if COLUMNS in values else ("*",),
        where=values.get(WHERE),
        tolerant=tolerant == "true",
        overwrite_mode=mode,
        snapshot_properties={
            key[len(SNAPSHOT_PROPERTY) :]: value for key, value in options.items() if key.lower().startswith(SNAPSHOT_PROPERTY)
        },
        properties={key: value for key, value in values.items() if key not in OPTION_NAMES and not key.startswith(SNAPSHOT_PROPERTY)},
    )


def load_table(options: SourceOptions, registered: RegisteredCatalogs) -> Table | StaticTable:
    """Load the table that the options name from its catalog, or a read-only table from the location of its metadata file or folder.

    Args:
        options: The parsed options of the Spark read or write, with the name or location of the table.
        registered: Catalogs and storages of the session.

    Raises:
        NoSuchCatalogError, NoSuchTableError, NoSuchFileError: The catalog, table or file does not exist.
        MetadataFormatError: The metadata file is not valid.
    """
    name = options.table or options.path or ""
    if options.path is not None and is_location(options.path):
        if options.storage is not None:
            return load_table_at(options, _storage(options, registered))
        return StaticTable.from_metadata(options.path, options.properties)
    catalog_name, table_name = (options.catalog, name) if options.catalog else _split_catalog_name(name, registered)
    return load_catalog_named(catalog_name, registered, options.properties).load_table(table_name)


def load_catalog_named(name: str, registered: RegisteredCatalogs, properties: Mapping[str, str]) -> Catalog:
    """Open a catalog that is registered under a name, or that the properties or the configuration of this machine define.

    Args:
        name: The name of the catalog.
        registered: Catalogs of the session.
        properties: Properties of the catalog if it is not registered.

    Raises:
        NoSuchCatalogError: The catalog is neither registered nor configured.
    """
    recipe = registered.catalogs.get(name)
    if recipe is not None:
        return recipe.catalog()
    try:
        return load_catalog(name, **properties)
    except NoSuchCatalogError:
        argument = f"{name}=catalog" if name.isidentifier() else f"{{{name!r}: catalog}}"
        raise NoSuchCatalogError(
            f"catalog {name!r} is neither registered in this session nor configured",
            next_step=f"correct the name, or register the catalog with icefloe.spark.register(spark, {argument}); "
            f"registered: {_names_text(registered)}; configured: {', '.join(known_catalogs()) or 'none'}",
        ) from None


def load_table_at(options: SourceOptions, io: FileIO) -> StaticTable:
    """Load a read-only table from the metadata file in the option `path`, with a storage that is already open.

    Args:
        options: The parsed options of the Spark read; `path` is the location of the metadata file.
        io: The storage.

    Raises:
        NoSuchFileError: The file does not exist.
        MetadataFormatError: The file is not valid.
    """
    return StaticTable(read_metadata_at(io, options.path or ""), io, options.table)


def to_scan(table: TableReader, options: SourceOptions) -> DataScan:
    """Return a scan of a table with the snapshot, columns and filter that the options of a read select.

    Args:
        table: The table.
        options: The parsed options of the Spark read.

    Raises:
        NoSuchSnapshotError: There is no such snapshot, branch or tag.
        InvalidFilterError: The filter is not valid for the table.
    """
    scan = table.scan(
        options.where,
        selected_fields=options.columns,
        snapshot_id=options.snapshot_id,
        branch=options.branch,
        tolerant=options.tolerant,
    )
    if options.tag is not None:
        scan = scan.use_ref(options.tag)
    scan = scan if options.as_of_ms is None else scan.as_of(options.as_of_ms)
    return scan if options.start_snapshot_id is None else scan.appended_after(options.start_snapshot_id)


def is_location(text: str) -> bool:
    """Return whether a text is the location of a metadata file or table folder, and not the name of a table."""
    return "/" in text or "\\" in text or text.endswith(".json")


def _storage(options: SourceOptions, registered: RegisteredCatalogs) -> FileIO:
    io = registered.storages.get(options.storage or "")
    if io is None:
        raise InvalidInputError(
            "the storage of the table is not registered in this session",
            table=options.table,
            next_step="read it with icefloe.spark.table(spark, ...)",
        )
    return io


def _split_catalog_name(name: str, registered: RegisteredCatalogs) -> tuple[str, str]:
    catalog, dot, table = name.partition(".")
    if not dot or "." not in table:
        raise InvalidInputError(
            f"the name {name!r} has no catalog", next_step=f"write catalog.namespace.table; registered catalogs: {_names_text(registered)}"
        )
    return catalog, table


def _names_text(registered: RegisteredCatalogs) -> str:
    return ", ".join(sorted(registered.catalogs)) or "none"


def _check_names(values: Mapping[str, str]) -> None:
    for name in values:
        if name in SPARK_POINTS:
            raise InvalidInputError(f"there is no option {name!r} here", next_step=f"give one of {', '.join(_POINTS)}")
        _, dot, rest = name.partition(".")
        if name in OPTION_NAMES:
            continue
        # Other names with a dot are properties of the catalog.
        similar = similar_name(name, (SNAPSHOT_PROPERTY,) if dot else OPTION_NAMES)
        if similar is not None:
            raise InvalidInputError(f"there is no option {name!r}", next_step=f"write {similar + rest!r}")


def _check_range(values: Mapping[str, str], points: list[str]) -> None:
    """Raise `InvalidInputError` for a range of appended rows that has no start, has two ends, or is given by times."""
    times = sorted(values.keys() & {"start-timestamp", "end-timestamp"})
    if times:
        raise InvalidInputError(f"a range of appended rows has no {' and '.join(times)}", next_step=f"give {START} and {END}")
    if END in values and START not in values:
        raise InvalidInputError(f"{END} is given without {START}", next_step=f"give {START} too, or {SNAPSHOT_ID} for one snapshot")
    others = [name for name in points if START in values and (name != BRANCH or END in values)]
    if others:
        raise InvalidInputError(
            f"{' and '.join(others)} beside {START}{' and ' + END if END in values else ''} name what to read twice",
            next_step="give one of them; a branch may be the end of a range",
        )


def _whole_number(values: Mapping[str, str], name: str) -> int | None:
    if name not in values:
        return None
    try:
        return int(values[name])
    except ValueError:
        raise InvalidInputError(f"the option {name} is {values[name]!r}", next_step="give a whole number") from None


def _columns(text: str) -> Iterator[str]:
    """Yield the column names in the text of an option: names separated by commas, or a JSON list, in which names may contain commas."""
    if text.lstrip().startswith("["):
        try:
            yield from (str(name) for name in json.loads(text))
        except ValueError as error:
            raise InvalidInputError(f"the option {COLUMNS} is not a list in JSON: {error}", next_step='write ["one", "two"]') from None
    else:
        yield from (name.strip() for name in text.split(",") if name.strip())
