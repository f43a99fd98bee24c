"""`icefloe.spark.register`: register the data source `icefloe` in a session, with catalogs that its tasks open by name.

The registered catalogs are sent to tasks as bytes inside the registered class, so that no plan, option or log shows them.
"""

import threading
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

from icefloe.catalog.catalog import Catalog
from icefloe.errors import InvalidInputError
from icefloe.spark.bridge.gateway import has_class, has_jvm
from icefloe.spark.connect.connect_options import CatalogRecipe, RegisteredCatalogs
from icefloe.spark.connect.python_data_source import FORMAT, IcebergSource, IcefloeSource
from icefloe.spark.runtime.named_sessions import name_session
from icefloe.spec.ports import FileIO

JAVAS_SOURCE = "org.apache.iceberg.spark.source.IcebergSource"
FILTERS_CONF = "spark.sql.python.filterPushdown.enabled"  # Spark 4.1 and later
_REGISTERED: "WeakKeyDictionary[SparkSession, RegisteredCatalogs]" = WeakKeyDictionary()
_LOCK = threading.RLock()


def register(spark: SparkSession, catalogs: Mapping[str, Catalog] | None = None, /, **more: Catalog) -> None:
    """Make `spark.read.format("icefloe")` and `df.write.format("icefloe")` work in a session, classic or Connect: `register(spark, lake=catalog)`.

    In a classic session without Java's Iceberg, `format("iceberg")` is the same. After a catalog is attached to a classic session, both formats exist anyway
    and read with Spark's own scan; then this call only adds catalogs. It turns on `spark.sql.python.filterPushdown.enabled`, so that Spark 4.1 and later push
    filters down.

    Args:
        spark: The session.
        catalogs: Catalogs by name. Spark's driver opens them again with their properties. Catalogs from earlier calls stay registered.
        more: Additional catalogs, by name.

    Raises:
        UnsupportedFeatureError: A catalog exists only in this process.
        InvalidInputError: An argument is not a session, a mapping or a catalog.
    """
    check_session(spark)
    if catalogs is not None and not isinstance(catalogs, Mapping):
        raise InvalidInputError(
            f"catalogs are registered by name, and the second argument is of type {type(catalogs).__qualname__}",
            next_step="write register(spark, lake=catalog)",
        )
    named = {**(catalogs or {}), **more}
    for name, catalog in named.items():
        if not isinstance(catalog, Catalog):
            raise InvalidInputError(
                f"{name!r} is registered as a value of type {type(catalog).__qualname__}, not as a catalog",
                next_step=f"pass what load_catalog({name!r}) returns",
            )
    recipes = {name: CatalogRecipe.of(catalog) for name, catalog in named.items()}
    with _LOCK:
        registered = registered_catalogs(spark)
        _register(spark, replace(registered, catalogs={**registered.catalogs, **recipes}))


def check_session(spark: object) -> None:
    """Raise `InvalidInputError` if a value is not a Spark session."""
    if not hasattr(spark, "createDataFrame"):
        raise InvalidInputError(
            f"the first argument is of type {type(spark).__qualname__}, not a Spark session", next_step="pass the session first"
        )


def registered_catalogs(spark: SparkSession) -> RegisteredCatalogs:
    """Return the catalogs and storages that are registered in a session."""
    return _REGISTERED.get(spark, RegisteredCatalogs())


def registered_in(java_session: Any) -> RegisteredCatalogs:
    """Return the catalogs and storages that are registered in a classic session, given its Java object. Several Python sessions may share the object."""
    return next(
        (
            registered
            for spark, registered in list(_REGISTERED.items())
            if _java_of(spark) is not None and _java_of(spark).equals(java_session)
        ),
        RegisteredCatalogs(),
    )


def _java_of(spark: SparkSession) -> Any:
    return getattr(spark, "_jsparkSession", None)


def storage_key(spark: SparkSession, io: FileIO) -> str:
    """Return the key by which the option `storage` refers to a storage. A new storage is registered in the session first."""
    with _LOCK:
        registered = registered_catalogs(spark)
        for key, other in registered.storages.items():
            if other == io:
                return key
        key = uuid.uuid4().hex
        _register(spark, replace(registered, storages={**registered.storages, key: io}))
        return key


def _register(spark: SparkSession, registered: RegisteredCatalogs) -> None:
    if _REGISTERED.get(spark) == registered:
        return
    is_classic = has_jvm(spark)
    if is_classic:
        name_session(spark)
    if is_classic and has_class(spark, f"{FORMAT}.DefaultSource"):
        _REGISTERED[spark] = (
            registered  # Spark does not accept a second source with the same name; the existing one uses the same registered catalogs
        )
        return
    spark.conf.set(FILTERS_CONF, "true")
    # A class outside of any module is pickled completely, with its attributes; an importable class would be pickled as its name.
    attributes = {"__module__": __name__, "registered": registered, "pushes_filters": True}
    spark.dataSource.register(type("RegisteredSource", (IcefloeSource,), attributes))
    if is_classic and not has_class(spark, JAVAS_SOURCE):
        spark.dataSource.register(type("RegisteredIcebergSource", (IcebergSource,), attributes))
    _REGISTERED[spark] = registered
