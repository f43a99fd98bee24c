"""Properties of a catalog that Java's Iceberg has and that have no effect in Icefloe, each with the reason."""

from collections.abc import Mapping

from icefloe.operations.warnings_once import warn_once

_CLASSES = "Java classes are not loaded"
_NO_CACHE = "every load reads the catalog, so that no load is older than the last commit"
_POOL = "connections are kept by SQLAlchemy; with a Hive metastore each operation has its own"
_LOCKS = "a file-system catalog creates its files exclusively and takes no locks"
_RECORDS = "nothing is recorded under it"
_KEYS = "tables are not encrypted, and those that have a key are not written"

UNUSED_CATALOG_PROPERTIES: Mapping[str, str] = {
    "io-impl": _CLASSES + "; files are reached by the scheme of their location",
    "metrics-reporter-impl": _CLASSES,
    **dict.fromkeys(("cache-enabled", "cache.case-sensitive", "cache.expiration-interval-ms"), _NO_CACHE),
    **dict.fromkeys(("clients", "client.pool.cache.eviction-interval-ms", "client-pool-cache-keys"), _POOL),
    **dict.fromkeys(
        (
            "lock-impl",
            "lock.heartbeat-interval-ms",
            "lock.heartbeat-timeout-ms",
            "lock.heartbeat-threads",
            "lock.acquire-interval-ms",
            "lock.acquire-timeout-ms",
            "lock.table",
        ),
        _LOCKS,
    ),
    **dict.fromkeys(("app-id", "app-name", "user"), _RECORDS),
    "auth.session-timeout-ms": "a catalog has one session",
    **dict.fromkeys(("encryption.kms-type", "encryption.kms-impl"), _KEYS),
}


def warn_of_options(properties: Mapping[str, str], catalog_name: str) -> None:
    """Log a warning for each property of a catalog that has no effect, once in this process."""
    for name in properties:
        if name in UNUSED_CATALOG_PROPERTIES:
            warn_once("", "catalog property", name, f"{UNUSED_CATALOG_PROPERTIES[name]} (first met in catalog {catalog_name})")
