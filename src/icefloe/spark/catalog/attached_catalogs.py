"""Which catalogs sessions have under which names, and which of them a name in SQL means. `attach.py` puts them here."""

from collections.abc import Sequence

from pyspark.sql import SparkSession

from icefloe.spark.catalog.spark_catalog import SparkCatalog

PREFIX = "spark.sql.catalog."
SESSION_CATALOG = "spark_catalog"
# By the key that a session's setting `spark.sql.catalog.<name>.icefloe` holds.
ATTACHED: dict[str, SparkCatalog] = {}


def attached_catalog(spark: SparkSession, name: str) -> SparkCatalog | None:
    """The session's catalog of a name, where it is one of ours."""
    return ATTACHED.get(spark.conf.get(f"{PREFIX}{name}.icefloe", None) or "")


def is_catalog(spark: SparkSession, name: str) -> bool:
    """Return True if the session has a catalog of that name, whoever provides it."""
    return bool(spark._jsparkSession.sessionState().catalogManager().isCatalogRegistered(name))


def current_place(spark: SparkSession) -> tuple[str, tuple[str, ...]]:
    """The session's current catalog and namespace."""
    places = spark._jsparkSession.sessionState().catalogManager()
    return places.currentCatalog().name(), tuple(places.currentNamespace())


def found_in(spark: SparkSession, name: Sequence[str]) -> tuple[SparkCatalog, tuple[str, ...]] | None:
    """The catalog that a name of SQL means, and the name within it; None where it is none of ours."""
    parts = tuple(name)
    named = attached_catalog(spark, parts[0]) if len(parts) > 1 else None
    if named is not None:
        return named, parts[1:]
    if len(parts) > 1 and is_catalog(spark, parts[0]):
        return None
    current, namespace = current_place(spark)
    catalog = attached_catalog(spark, current)
    if catalog is None:
        return None
    return catalog, parts if len(parts) > 1 else (*namespace, *parts)
