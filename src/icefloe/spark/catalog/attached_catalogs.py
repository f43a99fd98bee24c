"""The catalogs that are attached to sessions, by name, and the resolution of SQL names to them. `attach_catalog.py` registers them."""

from collections.abc import Sequence

from pyspark.sql import SparkSession

from icefloe.spark.catalog.spark_catalog import SparkCatalog

PREFIX = "spark.sql.catalog."
SESSION_CATALOG = "spark_catalog"
# Catalogs by key; a session has the key in its setting `spark.sql.catalog.<name>.icefloe`.
ATTACHED: dict[str, SparkCatalog] = {}


def drop_stopped() -> list[str]:
    """Drop the catalogs of stopped sessions, with the scan plans that they cache. Return their keys in `ATTACHED`, by which Java must drop them too."""
    stopped = [key for key, catalog in list(ATTACHED.items()) if catalog.is_stopped]
    for key in stopped:
        ATTACHED.pop(key, None)
    return stopped


def catalogs_of(spark: SparkSession) -> dict[str, SparkCatalog]:
    """Return the attached catalogs of a session by their names in SQL."""
    return {
        catalog.name: catalog for key, catalog in list(ATTACHED.items()) if spark.conf.get(f"{PREFIX}{catalog.name}.icefloe", None) == key
    }


def attached_catalog(spark: SparkSession, name: str) -> SparkCatalog | None:
    """Return the session's Icefloe catalog with this name; None if there is no such catalog."""
    return ATTACHED.get(spark.conf.get(f"{PREFIX}{name}.icefloe", None) or "")


def is_catalog(spark: SparkSession, name: str) -> bool:
    """Return whether the session has a catalog with this name, of Icefloe or of another library."""
    return bool(spark._jsparkSession.sessionState().catalogManager().isCatalogRegistered(name))


def current_namespace(spark: SparkSession) -> tuple[str, tuple[str, ...]]:
    """Return the name of the session's current catalog, and the parts of its current namespace."""
    manager = spark._jsparkSession.sessionState().catalogManager()
    return manager.currentCatalog().name(), tuple(manager.currentNamespace())


def resolve_name(spark: SparkSession, name: Sequence[str]) -> tuple[SparkCatalog, tuple[str, ...]] | None:
    """Resolve the parts of a table's name in SQL.

    Returns:
        The attached Icefloe catalog, and the name within the catalog; None if the name belongs to a different catalog. A name without a catalog belongs to the
        current catalog, and a name with a single part to the current namespace.
    """
    parts = tuple(name)
    named_catalog = attached_catalog(spark, parts[0]) if len(parts) > 1 else None
    if named_catalog is not None:
        return named_catalog, parts[1:]
    if len(parts) > 1 and is_catalog(spark, parts[0]):
        return None
    current, namespace = current_namespace(spark)
    current_catalog = attached_catalog(spark, current)
    if current_catalog is None:
        return None
    return current_catalog, parts if len(parts) > 1 else (*namespace, *parts)
