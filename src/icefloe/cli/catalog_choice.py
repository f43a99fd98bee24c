"""Which catalog and which table the words of a command line mean."""

import os
from dataclasses import dataclass

from icefloe.catalog.catalog import Catalog
from icefloe.catalog.catalog_config import DEFAULT_CATALOG, catalog_properties, default_catalog_name
from icefloe.catalog.catalog_loader import load_catalog
from icefloe.catalog_store.sql_store import SqlCatalogStore
from icefloe.errors import InvalidInputError, NoSuchCatalogError, NoSuchFileError, ReadOnlyTableError
from icefloe.inspect.lookup import snapshot_id_of
from icefloe.io.locations import local_path, scheme_of
from icefloe.table.static_table import StaticTable
from icefloe.table.table import Table
from icefloe.table.table_reader import TableReader

# The database of a warehouse that is named without one.
CATALOG_FILE = "catalog.db"
SQLITE = "sqlite:///"
METADATA_ENDINGS = (".json", ".json.gz")


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogChoice:
    """The catalog options of a command."""

    name: str | None = None
    uri: str | None = None
    warehouse: str | None = None


def open_catalog(choice: CatalogChoice, *, create: bool = False) -> Catalog:
    """The catalog meant. `create` lets an SQLite database come into being that is not there yet; looking at one must not make it.

    Raises:
        NoSuchCatalogError: nothing says where it is, or its database is not there. InvalidInputError: the database holds several and none is named.
    """
    uri = _uri(choice)
    warehouse = _absolute(choice.warehouse)
    if uri is None:
        name = choice.name or default_catalog_name()
        uri = catalog_properties(name, {}).get("uri")
        if uri is not None:
            _check_sqlite_file(uri, create=create)
        return load_catalog(name, warehouse=warehouse)
    _check_sqlite_file(uri, create=create)
    return load_catalog(choice.name or _only_name(uri, create=create), uri=uri, warehouse=warehouse)


def open_table(text: str, choice: CatalogChoice) -> TableReader:
    """The table meant: a metadata file or the folder of a file-system table where the text is a path, else a name in the catalog.

    Raises:
        NoSuchTableError, NoSuchFileError, MetadataFormatError, and what `open_catalog` raises
    """
    if is_path(text):
        return StaticTable.from_metadata(text)
    return open_catalog(choice).load_table(text)


def open_changeable(text: str, choice: CatalogChoice) -> Table:
    """The table of a catalog that a command is to change. Raises `ReadOnlyTableError` for a metadata file, and what `open_catalog` raises."""
    if is_path(text):
        raise ReadOnlyTableError(
            "a table named by its metadata file cannot be changed",
            path=text,
            next_step="name it as namespace.table, with the catalog it is in",
        )
    return open_catalog(choice).load_table(text)


def chosen_snapshot(table: TableReader, text: str | None) -> int | None:
    """The snapshot id that `--snapshot` means; None for the current one. Raises `NoSuchSnapshotError`."""
    return snapshot_id_of(table, text)


def is_path(text: str) -> bool:
    """Whether the text is a file's location: no part of a table's name can hold a slash."""
    return "/" in text or os.sep in text or text.endswith(METADATA_ENDINGS)


def _uri(choice: CatalogChoice) -> str | None:
    if choice.uri is not None:
        return choice.uri if ":" in choice.uri else f"{SQLITE}{os.path.abspath(choice.uri)}"
    if choice.warehouse is None or (choice.name is not None and "uri" in catalog_properties(choice.name, {})):
        return None
    if scheme_of(choice.warehouse) != "file":
        raise InvalidInputError(
            f"the warehouse {choice.warehouse} is no folder of this machine, so the catalog cannot be a file in it",
            next_step="say where the catalog's database is with --uri",
        )
    return f"{SQLITE}{local_path(choice.warehouse)}/{CATALOG_FILE}"


def _absolute(warehouse: str | None) -> str | None:
    """A local folder as an absolute path, since tables keep it; any other location as it is."""
    return os.path.abspath(warehouse) if warehouse and scheme_of(warehouse) == "file" and not warehouse.startswith("file:") else warehouse


def _check_sqlite_file(uri: str, *, create: bool) -> None:
    """SQLite makes a database of any name it is given; a mistyped one should not be made."""
    path = uri.removeprefix(SQLITE) if uri.startswith(SQLITE) else ""
    if not path or path == ":memory:" or "?" in path or os.path.exists(path):
        return
    if not create:
        raise NoSuchCatalogError(f"there is no catalog database {path}", next_step="check --uri, --warehouse or the catalog's `uri`")
    folder = os.path.dirname(os.path.abspath(path))
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise NoSuchFileError(
            f"the folder {folder} of the catalog cannot be made: {error.strerror}", next_step="choose a folder you may write to"
        ) from error


def _only_name(uri: str, *, create: bool) -> str:
    """The name of the one catalog a database holds; `default` for a new one."""
    rows = SqlCatalogStore(DEFAULT_CATALOG, uri).rows()
    names = sorted({row["catalog_name"] for found in rows.values() for row in found})
    if len(names) > 1 and (not create or DEFAULT_CATALOG not in names):
        raise InvalidInputError(f"the database holds {len(names)} catalogs: {', '.join(names)}", next_step="choose one with --catalog")
    return names[0] if len(names) == 1 else DEFAULT_CATALOG
