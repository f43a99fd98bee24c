"""`session` with catalogs: a Spark session whose SQL knows Icefloe catalogs from the start. Starting Spark is `icefloe.spark.session`."""

from collections.abc import Mapping

from pyspark.sql import SparkSession

from icefloe.catalog.catalog import Catalog
from icefloe.spark.attach_catalog import attach
from icefloe.spark.runtime.start_session import session as plain_session


def session(
    conf: Mapping[str, object] | None = None,
    /,
    *,
    catalogs: Mapping[str, Catalog | Mapping[str, str] | str | None] | None = None,
    app_name: str = "icefloe",
    master: str | None = None,
    **settings: object,
) -> SparkSession:
    """The active Spark session with these settings, or a new one: `session(master="local[2]", catalogs={"lake": catalog})`.

    Settings come as a mapping, as keywords, or both; keywords win. A new session finds Java by itself, is quiet (errors only, no console progress, no web
    UI) and computes in UTC, each unless a setting says otherwise. Settings that Spark fixes at its start are only warned about where a session runs already.

    `catalogs` are attached under their names, each as `attach` takes it; with them those that the settings name (`spark.sql.catalog.lake=icefloe`).

    Raises:
        EngineError: no Java is found, the JVM does not start, or what runs is Spark Connect.
        InvalidInputError, NoSuchCatalogError: as `attach`.
    """
    spark = plain_session(conf, app_name=app_name, master=master, **settings)
    if catalogs is not None:
        attach(spark)
        for name, catalog in catalogs.items():
            attach(spark, name, catalog)
    return spark
