"""`load_catalog`: opens a catalog by its name, from arguments, the environment and configuration files."""

from icefloe.catalog.catalog import TABLE_DEFAULT_PREFIX, TABLE_OVERRIDE_PREFIX, Catalog
from icefloe.catalog.catalog_config import catalog_properties, default_catalog_name, known_catalogs
from icefloe.catalog.catalog_views import DEFAULT_PREFIX, OVERRIDE_PREFIX
from icefloe.catalog.file_system_catalog import FileSystemCatalog
from icefloe.catalog.sql_catalog import SqlCatalog
from icefloe.errors import NoSuchCatalogError, UnsupportedFeatureError

# Names after these are those of table and view properties, which may have underscores.
_PREFIXES = (TABLE_DEFAULT_PREFIX, TABLE_OVERRIDE_PREFIX, DEFAULT_PREFIX, OVERRIDE_PREFIX)


def load_catalog(name: str | None = None, **properties: str | None) -> Catalog:
    """Open a catalog by its name. Arguments override the environment, which overrides the configuration files.

    Args:
        name: the catalog; the configured default if None.
        **properties: `type` is `sql`; `file-system` (or `hadoop`) for folders under `warehouse`; or `in-memory` for one in this process. Without it, the `uri`
            decides.

    Returns:
        The catalog.

    Raises:
        NoSuchCatalogError: no catalog of this name is configured.
        UnsupportedFeatureError: a type of catalog that Icefloe does not have.
    """
    given = {_spelled(key): value for key, value in properties.items() if value is not None}
    chosen = name or default_catalog_name()
    known = catalog_properties(chosen, given)
    kind = known.get("type", "").lower()
    if kind == "in-memory":
        # SQLite in memory, as it is PyIceberg's; unlike `InMemoryCatalog` it keeps views too.
        known.setdefault("uri", "sqlite:///:memory:")
        kind = "sql"
    if kind in ("file-system", "hadoop"):
        return FileSystemCatalog(chosen, **known)
    if not known.get("uri"):
        others = ", ".join(known_catalogs()) or "none"
        variable = f"ICEFLOE_CATALOG__{chosen.upper().replace('-', '_')}__URI"
        raise NoSuchCatalogError(
            f"catalog {chosen!r} is not configured",
            next_step=f"pass uri= and warehouse=, write it in icefloe.yaml, or set {variable}; configured: {others}",
        )
    if kind not in ("", "sql") or known["uri"].startswith(("http://", "https://", "thrift://")):
        raise UnsupportedFeatureError(
            f"catalog {chosen!r} is of type {kind or known['uri'].split(':')[0]!r}",
            next_step="use a SQL catalog (uri sqlite:////folder/catalog.db or postgresql://...), or type file-system or in-memory",
        )
    return SqlCatalog(chosen, **known)


def _spelled(key: str) -> str:
    """Return a property's name with hyphens, which a keyword of Python cannot have."""
    return key if key.startswith(_PREFIXES) else key.replace("_", "-")
