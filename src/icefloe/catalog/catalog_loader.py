"""`load_catalog` opens a catalog by its name, with arguments, the environment and configuration files; `open_location` opens the catalog at a path."""

import glob
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from icefloe.catalog.catalog import TABLE_DEFAULT_PREFIX, TABLE_OVERRIDE_PREFIX, Catalog
from icefloe.catalog.catalog_config import (
    DEFAULT_CATALOG,
    catalog_properties,
    configured_default_name,
    default_catalog_name,
    is_true,
    known_catalogs,
)
from icefloe.catalog.catalog_views import DEFAULT_PREFIX, OVERRIDE_PREFIX
from icefloe.catalog.file_system_catalog import FileSystemCatalog
from icefloe.catalog.glue_catalog import GlueCatalog
from icefloe.catalog.hive_catalog import HiveCatalog
from icefloe.catalog.options import check_names
from icefloe.errors import InvalidInputError, NoSuchCatalogError, StorageError, UnsupportedFeatureError, in_one_line
from icefloe.io.locations import local_path, qualify, scheme_of
from icefloe.lazy_imports import lazy_module
from icefloe.stores.database_uri import JDBC, uri_of_jdbc

if TYPE_CHECKING:  # imported at first use, because they import SQLAlchemy and httpx
    from icefloe.catalog import rest_catalog, sql_catalog
    from icefloe.stores import sql_store
else:
    rest_catalog = lazy_module("icefloe.catalog.rest_catalog")
    sql_catalog = lazy_module("icefloe.catalog.sql_catalog")
    sql_store = lazy_module("icefloe.stores.sql_store")

# File name of the catalog database of a warehouse.
CATALOG_FILE = "catalog.db"
_SQLITE = "sqlite:///"
_DATABASE_ENDINGS = (".db", ".sqlite", ".sqlite3")
_METADATA_ENDINGS = (".json", ".json.gz")

# Prefixes of catalog properties whose remainder is the name of a table or view property, which may have underscores.
_PREFIXES = (TABLE_DEFAULT_PREFIX, TABLE_OVERRIDE_PREFIX, DEFAULT_PREFIX, OVERRIDE_PREFIX)


# The catalog type for each class of a Java catalog that the property `catalog-impl` can name.
_TYPES_OF_CLASSES = {
    "org.apache.iceberg.jdbc.JdbcCatalog": "sql",
    "org.apache.iceberg.hadoop.HadoopCatalog": "hadoop",
    "org.apache.iceberg.inmemory.InMemoryCatalog": "in-memory",
    "org.apache.iceberg.rest.RESTCatalog": "rest",
    "org.apache.iceberg.aws.glue.GlueCatalog": "glue",
    "org.apache.iceberg.hive.HiveCatalog": "hive",
    "org.apache.iceberg.nessie.NessieCatalog": "nessie",
    "org.apache.iceberg.aws.dynamodb.DynamoDbCatalog": "dynamodb",
    "org.apache.iceberg.gcp.bigquery.BigQueryMetastoreCatalog": "bigquery",
    "org.apache.iceberg.snowflake.SnowflakeCatalog": "snowflake",
}
# Catalog types that Icefloe does not have, and the next step of the error: what to use instead.
_INSTEAD = {
    "dynamodb": "keep the names in AWS Glue (type: glue) or in a database (type: sql); register_table takes each table over by its metadata file",
    "bigquery": "use the REST endpoint of BigLake's metastore (type: rest)",
    "biglake": "use the REST endpoint of BigLake's metastore (type: rest)",
    "nessie": "use Nessie's REST endpoint (type: rest), which ends in /iceberg",
    "snowflake": "use the REST endpoint of Snowflake's Open Catalog (type: rest)",
}


def load_catalog(name: str | None = None, **properties: str | None) -> Catalog:
    """Open a catalog by its name. Arguments override the environment, which overrides the configuration files.

    Args:
        name: the catalog. If None: the configured default, or the only catalog in the database at `uri`.
        **properties: `type` is `sql` (or `jdbc`); `rest` for a REST catalog at `uri`; `glue`; `hive` for a Hive metastore; `file-system` (or `hadoop`) for
            folders under `warehouse`; or `in-memory` for a catalog in this process. Without a `type`, the `uri` decides: `https://...` is the address of a REST
            catalog, `thrift://...` that of a Hive metastore; an SQLAlchemy URL or the path of an SQLite file is the database of a SQL catalog. Without a `uri`,
            the catalog is the file `catalog.db` in a local `warehouse`.

    Returns:
        The catalog.

    Raises:
        NoSuchCatalogError: no catalog of this name is configured.
        InvalidInputError: no name is given, and the database contains several catalogs, none of which is called `default`.
        UnsupportedFeatureError: Icefloe does not have this type of catalog.
    """
    arguments = {_property_name(key): value for key, value in properties.items() if value is not None}
    catalog_name = name or default_catalog_name()
    configured_properties = catalog_properties(catalog_name, {})
    settings = catalog_properties(catalog_name, arguments)
    if name is None and "warehouse" in arguments and "uri" not in arguments:
        # The catalog is the database in the given warehouse; the `uri` and `type` that are configured for the default catalog do not apply.
        settings.pop("uri", None)
        if "type" not in arguments:
            settings.pop("type", None)
    check_names(settings, catalog_name)
    catalog_type = _type_of(catalog_name, settings)
    if catalog_type == "in-memory":
        # SQLite in memory, as in PyIceberg.
        settings.setdefault("uri", "sqlite:///:memory:")
        catalog_type = "sql"
    if catalog_type in ("file-system", "hadoop"):
        return FileSystemCatalog(catalog_name, **settings)
    if catalog_type == "rest" or (not catalog_type and settings.get("uri", "").lower().startswith(("http://", "https://"))):
        return rest_catalog.RestCatalog(catalog_name, **settings)
    if catalog_type == "glue":
        return GlueCatalog(catalog_name, **settings)
    if catalog_type == "hive" or (not catalog_type and settings.get("uri", "").lower().startswith("thrift://")):
        return HiveCatalog(catalog_name, **settings)
    uri = database_uri(_uri_of(settings), settings.get("warehouse"))
    if catalog_type not in ("", "sql") or (uri or "").startswith(("http://", "https://", "thrift://")):
        raise UnsupportedFeatureError(
            f"catalog {catalog_name!r} is of type {catalog_type or str(uri).split(':')[0]!r}, which Icefloe does not have",
            next_step="use a SQL catalog (uri sqlite:////folder/catalog.db or postgresql://...), type rest, hive, file-system or in-memory",
        )
    if uri is None and settings.get("warehouse"):
        raise NoSuchCatalogError(
            f"catalog {catalog_name!r} has no uri, and its warehouse {settings['warehouse']} is no local folder, which could hold a database",
            next_step="pass uri=, such as sqlite:////folder/catalog.db or postgresql://user:password@host/database",
        )
    if uri is None:
        others = ", ".join(known_catalogs()) or "none"
        variable = f"ICEFLOE_CATALOG__{catalog_name.upper().replace('-', '_')}__URI"
        raise NoSuchCatalogError(
            f"catalog {catalog_name!r} is not configured",
            next_step=f"pass uri= or warehouse=, write it in icefloe.yaml, or set {variable}; configured: {others}",
        )
    if name is None and not configured_properties and configured_default_name() is None:
        catalog_name = only_catalog_name(uri, prefers_default=True, creates_tables=is_true(settings, "init_catalog_tables", default=True))
    if settings.get("warehouse"):
        settings["warehouse"] = qualify(settings["warehouse"])
    return _sql_catalog(catalog_name, settings, uri)


def _sql_catalog(name: str, settings: Mapping[str, str], uri: str) -> Catalog:
    """Open a catalog in a database, and warn of others in the folder of its warehouse."""
    catalog = sql_catalog.SqlCatalog(name, **{**settings, "uri": uri})
    if uri == database_uri(None, settings.get("warehouse")):
        # A user who names only a folder expects the one catalog in it, whatever its name is.
        with suppress(StorageError):
            catalog.store.warn_of_other_catalogs()
    return catalog


def _uri_of(settings: Mapping[str, str]) -> str | None:
    """Return the property `uri`; the URI of a JDBC driver is translated to SQLAlchemy's form."""
    uri = settings.get("uri")
    is_java = uri is not None and uri.startswith(JDBC)
    return uri_of_jdbc(uri or "", settings.get("jdbc.user"), settings.get("jdbc.password")) if is_java else uri


def _type_of(name: str, settings: Mapping[str, str]) -> str:
    """Return the type of a catalog in lower case; empty if neither `type` nor `catalog-impl` is set. Java's `jdbc` becomes `sql`.

    Raises:
        UnsupportedFeatureError: Icefloe does not have this type of catalog.
    """
    catalog_type = settings.get("type", "").lower() or _TYPES_OF_CLASSES.get(settings.get("catalog-impl", ""), "")
    if not catalog_type and "catalog-impl" in settings:
        raise UnsupportedFeatureError(
            f"the catalog class {in_one_line(settings['catalog-impl'])} is Java's, and Icefloe has no catalog of its kind",
            next_step="give a type: sql, rest, hive, hadoop, glue or in-memory",
        )
    if catalog_type in _INSTEAD:
        raise UnsupportedFeatureError(
            f"catalog {name!r} is of type {catalog_type!r}, which Icefloe does not have", next_step=_INSTEAD[catalog_type]
        )
    return "sql" if catalog_type == "jdbc" else catalog_type


def open_location(location: str | os.PathLike[str]) -> Catalog:
    """Open the catalog at a location, without any configuration.

    Args:
        location: a folder with a file `catalog.db`, as `icefloe load --warehouse` creates it; the path of an SQLite file; an SQLAlchemy URL; or the warehouse
            folder of a file-system catalog, such as Spark's Hadoop catalog.

    Returns:
        The catalog. Nothing is created.

    Raises:
        NoSuchCatalogError: there is no catalog at the location.
        InvalidInputError: the location is that of a table, or its database contains several catalogs and none is called `default`.
    """
    text = os.path.expanduser(os.fspath(location))
    if "://" in text and not text.lower().startswith("file:"):
        path = text.removeprefix(_SQLITE) if text.startswith(_SQLITE) else ""
        if path and not os.path.isfile(path):
            raise NoSuchCatalogError(f"there is no catalog database {path}", next_step="check the path")
        return _open_database(text, None)
    path = local_path(qualify(text))
    if os.path.isfile(path) and not path.endswith(_METADATA_ENDINGS):
        return _open_database(_sqlite_url(path), None)
    if os.path.isfile(os.path.join(path, CATALOG_FILE)):
        return _open_database(_sqlite_url(f"{path}/{CATALOG_FILE}"), path)
    if path.endswith(_METADATA_ENDINGS) or _is_table_folder(path):
        raise InvalidInputError(
            f"{text} is a table, not a catalog",
            next_step=f"read it with StaticTable.from_metadata({text!r}), or open the folder that holds its catalog",
        )
    if any(map(_is_table_folder, glob.iglob(os.path.join(glob.escape(path), "*", "*")))):
        return FileSystemCatalog(os.path.basename(path.rstrip("/")) or DEFAULT_CATALOG, warehouse=path)
    raise NoSuchCatalogError(
        f"there is no catalog at {text}: neither {CATALOG_FILE} nor folders of tables",
        next_step="check the path; load_catalog(warehouse=...) makes a new catalog",
    )


def _open_database(uri: str, warehouse: str | None) -> "sql_catalog.SqlCatalog":
    """Return the only catalog of a database. A configured default name is ignored, because it is the name of a different catalog."""
    name = only_catalog_name(uri, prefers_default=True, creates_tables=False)
    properties = {"uri": uri, "init_catalog_tables": "false"}
    return sql_catalog.SqlCatalog(name, **properties, **({"warehouse": warehouse} if warehouse else {}))


def _is_table_folder(folder: str) -> bool:
    """Return whether a folder is a table of a file-system catalog."""
    metadata = os.path.join(glob.escape(folder), "metadata")
    return os.path.isfile(os.path.join(folder, "metadata", "version-hint.text")) or bool(
        glob.glob(os.path.join(metadata, "*.metadata.json*"))
    )


def database_uri(uri: str | None, warehouse: str | None) -> str | None:
    """Return the SQLAlchemy URL of a catalog's database; None if there is none.

    Args:
        uri: a URL, which is returned as it is, or the path of an SQLite file. A text is a path if it has a folder or the suffix of a database, or the file
            exists.
        warehouse: the location of the tables; without a `uri`, the database is the file `catalog.db` in it.
    """
    if uri:
        # A mistyped URL, such as postgresql:user:password@host/db, must not become a path, because errors show paths and so the password.
        is_path = os.path.isfile(uri) or (":" not in uri and bool(os.path.dirname(uri) or uri.endswith(_DATABASE_ENDINGS)))
        return _sqlite_url(os.path.abspath(os.path.expanduser(uri))) if is_path else uri
    if not warehouse or scheme_of(warehouse) != "file":
        return None
    return _sqlite_url(f"{local_path(warehouse)}/{CATALOG_FILE}")


def _sqlite_url(path: str) -> str:
    """Return the URL of an SQLite file. Raises `InvalidInputError` if the path has characters with a meaning in URLs, which SQLAlchemy cannot escape."""
    if set("?%#") & set(path):
        raise InvalidInputError(
            f"{path} has one of the characters ? % #, which an address of SQLite cannot have",
            next_step="choose a folder and a file without them",
        )
    return f"{_SQLITE}{path}"


def only_catalog_name(uri: str, *, prefers_default: bool, creates_tables: bool = True) -> str:
    """Return the name of the only catalog in a database; `default` for a new database.

    Args:
        uri: the database's URL.
        prefers_default: whether to return `default` if the database contains several catalogs and one of them has this name.
        creates_tables: whether to create the tables of a SQL catalog in a database that does not have them.

    Raises:
        InvalidInputError: the database contains several catalogs.
        StorageUnavailableError: the database cannot be opened, or has no tables of a catalog.
    """
    store = sql_store.SqlCatalogStore(DEFAULT_CATALOG, uri, creates_tables=creates_tables)
    try:
        names = store.catalog_names()
    finally:
        store.engine.dispose()
    if len(names) > 1 and not (prefers_default and DEFAULT_CATALOG in names):
        raise InvalidInputError(
            f"the database contains {len(names)} catalogs: {in_one_line(', '.join(names))}",
            next_step="choose one: load_catalog(name, ...) in Python, --catalog on the command line",
        )
    return names[0] if len(names) == 1 else DEFAULT_CATALOG


def _property_name(key: str) -> str:
    """Return the name of a property that was passed as a keyword argument: hyphens replace underscores."""
    return key if key.startswith(_PREFIXES) else key.replace("_", "-")
