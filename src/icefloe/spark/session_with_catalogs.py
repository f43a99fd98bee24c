"""The public function `session`: start a Spark session with attached catalogs. `runtime/start_session.py` starts Spark."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from icefloe.catalog.catalog import Catalog
from icefloe.errors import InvalidInputError
from icefloe.spark.attach_catalog import CATALOG_NAMES, JAVA_CLASSES, attach
from icefloe.spark.bridge.gateway import extension_settings
from icefloe.spark.catalog.attached_catalogs import PREFIX
from icefloe.spark.runtime.start_session import session as start_or_find_session
from icefloe.spark.scan.read_options import similar_setting
from icefloe.spark.write.start_workers import worker_settings
from icefloe.spark.write.write_options import SETTINGS

# Values of the setting `spark.sql.catalog.<name>` that select a catalog of Icefloe.
NAMED = (*CATALOG_NAMES, *JAVA_CLASSES)


def session(
    conf: Mapping[str, object] | None = None,
    /,
    *,
    catalogs: Mapping[str, Catalog | Mapping[str, str] | str | None] | None = None,
    app_name: str = "icefloe",
    master: str | None = None,
    **settings: object,
) -> SparkSession:
    """Return the active Spark session with these settings applied, or start one: `session(master="local[2]", catalogs={"lake": catalog})`.

    A new session finds Java automatically. By default it is quiet (only errors, no console progress, no web UI), uses UTC, and its driver gets a quarter of the
    machine's memory, between 1 GB and 8 GB, if the master is local; settings override these defaults. Java's module `jdk.incubator.vector`, which prints a
    warning, is loaded only if `spark.driver.extraJavaOptions` has `--add-modules=jdk.incubator.vector`. If a session is running already, settings that Spark
    reads only at its start are not changed, and a warning is logged.

    Args:
        conf: Settings by name.
        catalogs: Catalogs to attach, by SQL name, each in a form that `attach` accepts. Catalogs in the settings (`spark.sql.catalog.lake=icefloe`) are always
            attached too.
        app_name: The name of the application in Spark's UI.
        master: The master URL, such as `local[2]`.
        **settings: Settings by name, which override `conf`.

    Returns:
        A classic session.

    Raises:
        EngineError: No Java is found, the JVM does not start, or the running session is one of Spark Connect.
        InvalidInputError: `attach` refuses a catalog; or the name of an Iceberg setting seems misspelt.
        NoSuchCatalogError: A configured catalog does not exist.
    """
    for setting in (*(conf or {}), *settings):
        similar = similar_setting(setting, SETTINGS)
        if similar is not None:
            raise InvalidInputError(f"there is no setting {setting}", next_step=f"write {similar}")
    own_settings = {**(conf or {}), **settings, **({"spark.master": master} if master else {})}

    def settings_of_jvm(gateway: Any, extensions: str) -> dict[str, str]:
        return {**extension_settings(gateway, extensions), **worker_settings(gateway, own_settings)}

    spark = start_or_find_session(conf, app_name=app_name, master=master, extensions=settings_of_jvm, **settings)
    if catalogs is not None or has_catalogs({**dict(spark.sparkContext.getConf().getAll()), **own_settings}):
        attach(spark)
    for name, catalog in (catalogs or {}).items():
        attach(spark, name, catalog)
    return spark


def has_catalogs(settings: Mapping[str, object]) -> bool:
    """Return whether one of the settings may configure a catalog that `attach` attaches."""
    return any(name.startswith(PREFIX) and "." not in name.removeprefix(PREFIX) and value in NAMED for name, value in settings.items())
