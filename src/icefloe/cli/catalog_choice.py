"""Resolution of a command's catalog options and table argument to a catalog and a table."""

import os
import re
import shlex
from dataclasses import dataclass

from icefloe.catalog.catalog import Catalog
from icefloe.catalog.catalog_config import catalog_properties, default_catalog_name
from icefloe.catalog.catalog_loader import database_uri, load_catalog, only_catalog_name
from icefloe.errors import IcefloeError, InvalidInputError, NoSuchCatalogError, NoSuchFileError, ReadOnlyTableError
from icefloe.io.locations import qualify
from icefloe.operations.loaded_table import TableReader
from icefloe.spec.identifier import dotted
from icefloe.table.static_table import StaticTable
from icefloe.table.table import Table

SQLITE = "sqlite:///"
# The beginnings of addresses of catalogs that are services, not databases.
SERVICES = ("http://", "https://", "thrift://")
METADATA_ENDINGS = (".json", ".json.gz")
# A level of a table's name in backquotes, which may have dots and slashes.
_QUOTED_LEVEL = re.compile(r"(?:^|(?<=\.))`[^`]+`(?=\.|@|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogChoice:
    """The values of a command's catalog options; None for an option that was not given."""

    name: str | None = None
    uri: str | None = None
    warehouse: str | None = None

    @property
    def arguments(self) -> str:
        """The options as a user would type them again, each with a space in front."""
        given = (("--catalog", self.name), ("--uri", self.uri), ("--warehouse", self.warehouse))
        # A URI may have a password or a token, which must not be shown.
        return "".join(
            f" {option} {'URI' if option == '--uri' and ('@' in value or '?' in value) else shlex.quote(value)}"
            for option, value in given
            if value
        )


def open_catalog(choice: CatalogChoice, *, create: bool = False) -> Catalog:
    """Open the catalog that the options select.

    Args:
        choice: The catalog options.
        create: Whether an SQLite database that does not exist is created. A command that only reads must not create one.

    Raises:
        NoSuchCatalogError: Neither options nor configuration select a catalog, or its database does not exist.
        InvalidInputError: The database contains several catalogs, and no option selects one of them.
    """
    if choice.uri is not None and choice.uri.lower().startswith(SERVICES):
        return load_catalog(choice.name or default_catalog_name(), uri=choice.uri, warehouse=choice.warehouse)
    uri = _uri(choice)
    warehouse = qualify(choice.warehouse) if choice.warehouse else choice.warehouse
    if uri is None:
        name = choice.name or default_catalog_name()
        uri = catalog_properties(name, {}).get("uri")
        if uri is not None:
            _check_sqlite_file(uri, create=create)
        return load_catalog(name, warehouse=warehouse)
    _check_sqlite_file(uri, create=create)
    return load_catalog(choice.name or only_catalog_name(uri, prefers_default=create), uri=uri, warehouse=warehouse)


def may_be_service(choice: CatalogChoice) -> bool:
    """Return whether the catalog may be a service, so that names of tables may have slashes. It may if the options name a service, or no database."""
    uri = choice.uri or _uri(choice)
    return uri is None or uri.lower().startswith(SERVICES)


def open_table(text: str, choice: CatalogChoice) -> TableReader:
    """Open a table for reading.

    Args:
        text: The name of the table in the catalog, or the path of its metadata file or of its folder.
        choice: The catalog options.

    Raises:
        NoSuchTableError: The catalog has no such table.
        NoSuchFileError: The path does not exist.
        MetadataFormatError: The metadata file is damaged.
        NoSuchCatalogError, InvalidInputError: The errors of `open_catalog`.
    """
    if is_path(text):
        return StaticTable.from_metadata(text)
    return open_catalog(choice).load_table(text)


def open_changeable(text: str, choice: CatalogChoice) -> Table:
    """Open a table of a catalog to change it.

    Args:
        text: The name of the table in the catalog.
        choice: The catalog options.

    Raises:
        ReadOnlyTableError: The text is the path of a metadata file or folder.
        IcefloeError: The errors of `open_catalog`, and of loading the table.
    """
    if is_path(text):
        raise ReadOnlyTableError(
            "a table named by its metadata file cannot be changed",
            path=text,
            next_step="name it as namespace.table, with the catalog it is in",
        )
    return open_catalog(choice).load_table(text)


def names_in_catalog(choice: CatalogChoice, begin: str) -> list[str]:
    """Return the completions of a name's beginning: namespaces, tables and views at the level of its last part. If no catalog can be opened, there are none."""
    if is_path(begin):
        return []
    *levels, _ = begin.split(".")
    try:
        catalog = open_catalog(choice)
        namespaces = [dotted(name) for name in catalog.list_namespaces(tuple(levels))]
        members = [*catalog.list_tables(levels), *(catalog.list_views(levels) if catalog.keeps_views else ())] if levels else []
    except IcefloeError:
        return []
    names = [*(name + suffix for name in namespaces for suffix in ("", ".")), *map(dotted, members)]
    return sorted(name for name in names if name.startswith(begin))


def is_path(text: str) -> bool:
    """Return whether a text is a location, not a name of a table. Slashes in a name, which servers allow, must be in backquotes."""
    plain = _QUOTED_LEVEL.sub("", text)
    return "/" in plain or os.sep in plain or plain.endswith(METADATA_ENDINGS)


def _uri(choice: CatalogChoice) -> str | None:
    if choice.uri is None and choice.name is not None and "uri" in catalog_properties(choice.name, {}):
        return None
    uri = database_uri(choice.uri, choice.warehouse)
    if uri is None and choice.warehouse is not None:
        raise InvalidInputError(
            f"the warehouse {choice.warehouse} is not a local folder, so the catalog database cannot be a file in it",
            next_step="name the catalog's database with --uri",
        )
    return uri


def _check_sqlite_file(uri: str, *, create: bool) -> None:
    """Refuse an SQLite file that does not exist, unless it may be created: SQLite would create a database for a mistyped name."""
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
            f"cannot create the folder {folder} of the catalog: {error.strerror}", next_step="choose a folder that you may write to"
        ) from error
