"""The public function `session`: a Spark session with attached catalogs. `runtime/start_session.py` starts Spark."""

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

# Values of the setting `spark.sql.catalog.<name>` by which a session is given a catalog.
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
    """Return the active Spark session with these settings, or start one: `session(master="local[2]", catalogs={"lake": catalog})`.

    A new session finds Java by itself, is quiet (errors only, no console progress, no web UI) and computes in UTC, unless the settings differ. Java's module
    `jdk.incubator.vector`, whose start prints a warning, is only loaded if `spark.driver.extraJavaOptions` has `--add-modules=jdk.incubator.vector`. Where a
    session runs already, a setting that Spark fixes at its start is not changed, and a warning is logged.

    Args:
        conf: Settings by name.
        catalogs: Catalogs to attach by their names in SQL, each in a form that `attach` accepts. Those in the settings (`spark.sql.catalog.lake=icefloe`) are
            attached in any case.
        app_name: The name of the application in Spark's UI.
        master: The master URL, such as `local[2]`.
        **settings: Settings by name, which take precedence over `conf`.

    Returns:
        A classic session.

    Raises:
        EngineError: No Java is found, the JVM does not start, or the running session is one of Spark Connect.
        InvalidInputError: A catalog cannot be attached, as in `attach`; or the name of a setting of Iceberg seems misspelt.
        NoSuchCatalogError: There is no catalog of a configured name.
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
    """Return True if settings name a catalog that `attach` may attach."""
    return any(name.startswith(PREFIX) and "." not in name.removeprefix(PREFIX) and value in NAMED for name, value in settings.items())
