"""`register`: makes the data source `icefloe` known to a Spark session, with catalogs that its tasks open by name.

What is told here travels inside the registered class, as bytes: no plan, no option and no log shows it.
"""

import threading
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

from icefloe.catalog.catalog import Catalog
from icefloe.kernel.ports import FileIO
from icefloe.spark.bridge.gateway import has_jvm
from icefloe.spark.bridge.java_compiler import knows_class
from icefloe.spark.connect.connect_options import CatalogRecipe, Known
from icefloe.spark.connect.python_data_source import FORMAT, IcebergSource, IcefloeSource
from icefloe.spark.runtime.named_sessions import give_name

JAVAS_SOURCE = "org.apache.iceberg.spark.source.IcebergSource"
FILTERS_CONF = "spark.sql.python.filterPushdown.enabled"  # Spark 4.1 and later
_TOLD: "WeakKeyDictionary[SparkSession, Known]" = WeakKeyDictionary()
_LOCK = threading.RLock()


def register(spark: SparkSession, catalogs: Mapping[str, Catalog] | None = None, /, **more: Catalog) -> None:
    """Makes `spark.read.format("icefloe")` and `df.write.format("icefloe")` work in a session, classic or Connect: `register(spark, lake=catalog)`.

    In a classic session without Java's Iceberg, `format("iceberg")` is the same. Once a catalog is attached to one, both formats are there without this call,
    and Spark's own scan reads for them; this call then only tells of more catalogs.

    The catalogs are opened again by their properties, on Spark's driver. Those of earlier calls stay. Turns on `spark.sql.python.filterPushdown.enabled`, with
    which Spark 4.1 and later hand filters down.

    Raises:
        UnsupportedFeatureError: a catalog lives in this process alone.
    """
    recipes = {name: CatalogRecipe.of(catalog) for name, catalog in {**(catalogs or {}), **more}.items()}
    with _LOCK:
        known = told(spark)
        _tell(spark, replace(known, catalogs={**known.catalogs, **recipes}))


def told(spark: SparkSession) -> Known:
    """What the session was told so far."""
    return _TOLD.get(spark, Known())


def told_to(java_session: Any) -> Known:
    """The same of a classic session by its object in Java, which several of Python's may stand for."""
    return next(
        (known for spark, known in list(_TOLD.items()) if _java_of(spark) is not None and _java_of(spark).equals(java_session)), Known()
    )


def _java_of(spark: SparkSession) -> Any:
    return getattr(spark, "_jsparkSession", None)


def storage_key(spark: SparkSession, io: FileIO) -> str:
    """What stands for a storage in an option; the session is told of it where it was not."""
    with _LOCK:
        known = told(spark)
        for key, other in known.storages.items():
            if other == io:
                return key
        key = uuid.uuid4().hex
        _tell(spark, replace(known, storages={**known.storages, key: io}))
        return key


def _tell(spark: SparkSession, known: Known) -> None:
    if _TOLD.get(spark) == known:
        return
    is_classic = has_jvm(spark)
    if is_classic:
        give_name(spark)
    if is_classic and knows_class(spark, f"{FORMAT}.DefaultSource"):
        _TOLD[spark] = known  # Spark takes no second source of a name; the one that is there asks for what it was told
        return
    spark.conf.set(FILTERS_CONF, "true")
    # A class that no module holds is sent whole, with what it knows; one that can be imported would be sent as its name.
    held = {"__module__": __name__, "known": known, "pushes_filters": True}
    spark.dataSource.register(type("ToldSource", (IcefloeSource,), held))
    if is_classic and not knows_class(spark, JAVAS_SOURCE):
        spark.dataSource.register(type("ToldIcebergSource", (IcebergSource,), held))
    _TOLD[spark] = known
