"""What the options of the data source `icefloe` ask for: which table, of which catalog, which of its rows and columns, and how to write.

Options that are none of these are properties of the catalog and its storage. Reading and writing are `python_data_source.py`.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

from icefloe.catalog.catalog import Catalog
from icefloe.catalog.catalog_loader import load_catalog
from icefloe.catalog.in_memory_catalog import InMemoryCatalog
from icefloe.errors import InvalidInputError, UnsupportedFeatureError
from icefloe.kernel.option import Option
from icefloe.kernel.ports import FileIO
from icefloe.spark.jobs.task_errors import key_of_this_process
from icefloe.spark.scan.table_selector import timestamp_ms
from icefloe.table.data_scan import DataScan
from icefloe.table.static_table import StaticTable
from icefloe.table.table import Table
from icefloe.table.table_handle import read_metadata_at
from icefloe.table.table_reader import TableReader

CATALOG, TABLE, PATH, STORAGE = "catalog", "table", "path", "storage"
# Id of the read, given by `icefloe.spark.table`, which turns errors of that read alone into exceptions of their kind.
READ_ID = "icefloe-read-id"
SNAPSHOT_ID, BRANCH, TAG, AS_OF = "snapshot-id", "branch", "tag", "as-of-timestamp"
START, END = "start-snapshot-id", "end-snapshot-id"
COLUMNS, WHERE, OVERWRITE_MODE = "columns", "where", "overwrite-mode"
SNAPSHOT_PROPERTY = "snapshot-property."
_OWN = (CATALOG, TABLE, PATH, STORAGE, READ_ID, SNAPSHOT_ID, BRANCH, TAG, AS_OF, START, END, COLUMNS, WHERE, OVERWRITE_MODE)
# The same for the configuration reference, without those that Icefloe sets itself.
DATA_SOURCE_OPTIONS = (
    Option(TABLE, "The table, as `namespace.table`.", java=False),
    Option(CATALOG, "Its catalog; without it, the first part of the table's name.", java=False),
    Option(PATH, "What `load` and `save` are given: `catalog.namespace.table`, a metadata file or the folder of a table."),
    Option(SNAPSHOT_ID, "The snapshot that is read, by its id."),
    Option(BRANCH, "The branch that is read or written."),
    Option(TAG, "The tag that is read."),
    Option(AS_OF, "The snapshot that was current then: milliseconds from 1970-01-01 UTC, or a time with its zone."),
    Option(START, "Only rows that were appended after this snapshot."),
    Option(END, "Last snapshot of that range.", "the current one"),
    Option(COLUMNS, "Columns that are read, with commas between them, or as a list in JSON.", "all", java=False),
    Option(WHERE, "Filter of the rows, in Icefloe's own grammar.", "none", java=False),
    Option(OVERWRITE_MODE, "`static`, or `dynamic`: an overwrite replaces the partitions that the rows are in.", "`static`"),
    Option(SNAPSHOT_PROPERTY, "An entry of the snapshot's summary; the rest of the name is its key."),
)
_POINTS = (SNAPSHOT_ID, BRANCH, TAG, AS_OF)
# What Spark has for its own formats: a table of an attached catalog takes them.
SPARK_POINTS = ("versionasof", "timestampasof")
# From this likeness on (difflib's measure) an option is taken for a misspelt one of ours: read in silence it would give other rows than were asked for.
_LIKE = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogRecipe:
    """What makes a catalog again in another process. Its properties may hold passwords, so they are not shown."""

    kind: type[Catalog]
    name: str
    properties: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, catalog: Catalog) -> "CatalogRecipe":
        """Of a catalog at hand. Raises `UnsupportedFeatureError` for one that lives in this process alone."""
        properties = {key: str(value) for key, value in catalog.properties.items()}
        uri = properties.get("uri", "")
        if isinstance(catalog, InMemoryCatalog) or ":memory:" in uri or uri == "sqlite://":
            raise UnsupportedFeatureError(
                f"catalog {catalog.name!r} lives in this process, and Spark's server is another one",
                next_step="use a catalog in a database or a folder that the server reaches too",
            )
        return cls(kind=type(catalog), name=catalog.name, properties=properties)

    def catalog(self) -> Catalog:
        """The catalog."""
        return self.kind(self.name, **self.properties)  # type: ignore[arg-type]  # each kind takes its properties so


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What a session was told: catalogs by name, and storages by the key that stands for one in an option. None of it is shown anywhere."""

    catalogs: Mapping[str, CatalogRecipe] = field(default_factory=dict, repr=False)
    error_key: bytes = field(default_factory=key_of_this_process, repr=False)
    storages: Mapping[str, FileIO] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The options of one read or write."""

    table: str = ""
    catalog: str | None = None
    path: str | None = None
    storage: str | None = None
    snapshot_id: int | None = None
    branch: str | None = None
    tag: str | None = None
    as_of_ms: int | None = None
    start_snapshot_id: int | None = None  # of rows that were appended after it, up to `snapshot_id`
    columns: tuple[str, ...] = ("*",)
    where: str | None = None
    overwrite_mode: str = "static"
    snapshot_properties: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    def fixed(self, table: TableReader) -> "Asked":
        """The same of exactly the metadata file at hand, so that a read that Spark plans later is of the table as it was when the frame was made."""
        return replace(self, path=table.metadata_location, table=table.full_name)


def asked_for(options: Mapping[str, str]) -> Asked:
    """The options understood.

    Raises:
        InvalidInputError: one is misspelt or of a wrong form, no table is named, or two name what to read.
    """
    given = {key.lower(): value for key, value in options.items()}
    _check_names(given)
    points = [name for name in _POINTS if name in given]
    if len(points) > 1 and set(points) != {BRANCH, AS_OF}:
        raise InvalidInputError(f"a read is of one snapshot, and {' and '.join(points)} are given", next_step="give one of them")
    _check_range(given, points)
    if not given.get(TABLE) and not given.get(PATH):
        raise InvalidInputError(
            "no table is named",
            next_step='give option("table", "namespace.table") and option("catalog", NAME), or load("catalog.namespace.table")',
        )
    mode = given.get(OVERWRITE_MODE, "static")
    if mode not in ("static", "dynamic"):
        raise InvalidInputError(f"the option {OVERWRITE_MODE} is {mode!r}", next_step="give static or dynamic")
    return Asked(
        table=given.get(TABLE, ""),
        catalog=given.get(CATALOG),
        path=given.get(PATH),
        storage=given.get(STORAGE),
        snapshot_id=_whole(given, END if START in given else SNAPSHOT_ID),
        branch=given.get(BRANCH),
        tag=given.get(TAG),
        as_of_ms=timestamp_ms(given[AS_OF]) if AS_OF in given else None,
        start_snapshot_id=_whole(given, START),
        columns=tuple(_columns(given[COLUMNS])) if COLUMNS in given else ("*",),
        where=given.get(WHERE),
        overwrite_mode=mode,
        snapshot_properties={
            key[len(SNAPSHOT_PROPERTY) :]: value for key, value in options.items() if key.lower().startswith(SNAPSHOT_PROPERTY)
        },
        properties={key: value for key, value in given.items() if key not in _OWN and not key.startswith(SNAPSHOT_PROPERTY)},
    )


def opened(asked: Asked, known: Known) -> Table | StaticTable:
    """The table: of a catalog, or of a metadata file or table folder, which is read-only.

    Raises:
        NoSuchCatalogError, NoSuchTableError, NoSuchFileError, MetadataFormatError
    """
    name = asked.table or asked.path or ""
    if asked.path is not None and is_location(asked.path):
        if asked.storage is not None:
            return reopened(asked, _storage(asked, known))
        return StaticTable.from_metadata(asked.path, asked.properties)
    catalog_name, table_name = (asked.catalog, name) if asked.catalog else _divided(name)
    return catalog_of(catalog_name, known, asked.properties).load_table(table_name)


def catalog_of(name: str, known: Known, properties: Mapping[str, str]) -> Catalog:
    """A catalog that the session was told of, else one that its properties or this machine's configuration tell. Raises `NoSuchCatalogError`."""
    recipe = known.catalogs.get(name)
    return recipe.catalog() if recipe is not None else load_catalog(name, **properties)


def reopened(asked: Asked, io: FileIO) -> StaticTable:
    """The table by the metadata file that `path` names, in a storage at hand. Raises `NoSuchFileError`, `MetadataFormatError`."""
    return StaticTable(read_metadata_at(io, asked.path or ""), io, asked.table)


def scan_of(table: TableReader, asked: Asked) -> DataScan:
    """The read that is asked for. Raises `NoSuchSnapshotError`, `InvalidFilterError`."""
    scan = table.scan(asked.where, selected_fields=asked.columns, snapshot_id=asked.snapshot_id, branch=asked.branch)
    if asked.tag is not None:
        scan = scan.use_ref(asked.tag)
    scan = scan if asked.as_of_ms is None else scan.as_of(asked.as_of_ms)
    return scan if asked.start_snapshot_id is None else scan.appended_after(asked.start_snapshot_id)


def is_location(text: str) -> bool:
    """Whether a text is the location of a metadata file or of a folder, and no name of a table."""
    return "/" in text or "\\" in text or text.endswith(".json")


def _storage(asked: Asked, known: Known) -> FileIO:
    io = known.storages.get(asked.storage or "")
    if io is None:
        raise InvalidInputError(
            "this session was not told the storage of the table",
            table=asked.table,
            next_step="read it with icefloe.spark.table(spark, ...)",
        )
    return io


def _divided(name: str) -> tuple[str, str]:
    catalog, dot, table = name.partition(".")
    if not dot or "." not in table:
        raise InvalidInputError(
            f"{name!r} does not say of which catalog", next_step=f'write catalog.namespace.table, or add option("{CATALOG}", NAME)'
        )
    return catalog, table


def _check_names(given: Mapping[str, str]) -> None:
    for name in given:
        if name in SPARK_POINTS:
            raise InvalidInputError(f"there is no option {name!r} here", next_step=f"give one of {', '.join(_POINTS)}")
        if name in _OWN or name.startswith(SNAPSHOT_PROPERTY) or "." in name:
            continue
        near = get_close_matches(name.replace("_", "-"), _OWN, 1, _LIKE)
        if near:
            raise InvalidInputError(f"there is no option {name!r}", next_step=f"write {near[0]!r}")


def _check_range(given: Mapping[str, str], points: list[str]) -> None:
    """Raise `InvalidInputError` for a range of appended rows that has no start, ends twice, or is of times."""
    times = sorted(given.keys() & {"start-timestamp", "end-timestamp"})
    if times:
        raise InvalidInputError(f"{' and '.join(times)} are no options of appended rows", next_step=f"give {START} and {END}")
    if END in given and START not in given:
        raise InvalidInputError(f"{END} is given alone", next_step=f"give {START} too, or {SNAPSHOT_ID} for one snapshot")
    others = [name for name in points if START in given and (name != BRANCH or END in given)]
    if others:
        raise InvalidInputError(
            f"{' and '.join(others)} beside {START}{' and ' + END if END in given else ''} name what to read twice",
            next_step="give one of them; a branch may be the end of a range",
        )


def _whole(given: Mapping[str, str], name: str) -> int | None:
    if name not in given:
        return None
    try:
        return int(given[name])
    except ValueError:
        raise InvalidInputError(f"the option {name} is {given[name]!r}", next_step="give a whole number") from None


def _columns(text: str) -> Iterator[str]:
    """Names with commas between them, or a list in JSON, where names may hold commas."""
    if text.lstrip().startswith("["):
        try:
            yield from (str(name) for name in json.loads(text))
        except ValueError as error:
            raise InvalidInputError(f"the option {COLUMNS} is no list in JSON: {error}", next_step='write ["one", "two"]') from None
    else:
        yield from (name.strip() for name in text.split(",") if name.strip())
