"""`attach`: add an Icefloe catalog to the SQL of a Spark session. The Java side is `bridge/java/SparkCatalog.java`."""

import logging
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import overload

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from icefloe.catalog.catalog import Catalog
from icefloe.catalog.catalog_loader import load_catalog
from icefloe.errors import EngineError, InvalidInputError
from icefloe.spark.bridge.callback_server import start_callbacks
from icefloe.spark.bridge.gateway import class_loader, gateway_of, java_message, jvm_of, static_method
from icefloe.spark.bridge.java_compiler import context_loader
from icefloe.spark.bridge.optimizer_rule import install_rule
from icefloe.spark.catalog.attached_catalogs import ATTACHED, PREFIX, SESSION_CATALOG, drop_stopped
from icefloe.spark.catalog.spark_catalog import SparkCatalog
from icefloe.spark.catalog.spark_data_source import HIDDEN, offer
from icefloe.spark.runtime.interrupts import cancel_jobs_on_interrupt
from icefloe.spark.runtime.redaction import warn_of_shown_secrets
from icefloe.spark.runtime.start_session import share_limits
from icefloe.spark.scan.version_probe import probe_scans
from icefloe.spark.sql_probe import try_statements
from icefloe.spark.statements.statement_parser import StatementParser
from icefloe.spark.write.start_workers import start_workers

LOG = logging.getLogger(__name__)
CATALOG_CLASS = "icefloe.SparkCatalog"
SESSION_CATALOG_CLASS = "icefloe.SparkSessionCatalog"
CATALOG_NAMES = ("icefloe", CATALOG_CLASS, SESSION_CATALOG_CLASS)  # allowed values of a setting
# Classes of Java's Iceberg in users' settings. If its JAR is not in the session, Icefloe is used instead.
JAVA_SESSION_CATALOG = "org.apache.iceberg.spark.SparkSessionCatalog"
JAVA_CLASSES = ("org.apache.iceberg.spark.SparkCatalog", JAVA_SESSION_CATALOG)
_BUILTIN = "builtin"  # Spark's name for its own implementation of the session catalog


@overload
def attach(spark: SparkSession) -> dict[str, Catalog]: ...
@overload
def attach(spark: SparkSession, name: str, catalog: Catalog | Mapping[str, str] | str | None = None) -> Catalog: ...
def attach(
    spark: SparkSession, name: str | None = None, catalog: Catalog | Mapping[str, str] | str | None = None
) -> Catalog | dict[str, Catalog]:
    """Add a catalog to a session's SQL: after `attach(spark, "lake", catalog)` a table is `spark.table("lake.db.t")`.

    Attaching the same name again replaces the catalog. Other sessions of the same application, for example from `spark.newSession()`, need calls of their own.

    Args:
        spark: A classic session.
        name: The name of the catalog in SQL. With the name `spark_catalog` it becomes Spark's session catalog: a table name is looked up among the Iceberg
            tables first, then in Spark's own catalog. None to attach every catalog in the session's settings, such as `spark.sql.catalog.lake=icefloe` with
            properties in `spark.sql.catalog.lake.uri` and so on. If the JAR of Java's Iceberg is not in the session, its catalogs in the settings are attached
            too (`spark.sql.catalog.lake=org.apache.iceberg.spark.SparkCatalog`).
        catalog: A catalog, its properties, or its name for `load_catalog`; None for `load_catalog(name)`.

    Returns:
        The catalog; if `name` is None, a dict of the attached catalogs by name.

    Raises:
        EngineError: The session is not a classic session, or Spark is too old. For a version of Spark newer than the proven ones: the Java classes did not
            compile, or the version probe returned wrong rows.
        InvalidInputError: The name is not an identifier in SQL, or Spark already has a different catalog with this name.
        NoSuchCatalogError: `load_catalog` finds no catalog of this name.
    """
    gateway_of(spark)  # this call refuses sessions of Spark Connect
    attached: dict[str, Catalog] | Catalog
    if name is None:
        configured = _configured_catalogs(spark).items()
        attached = {
            catalog_name: _attach(spark, catalog_name, load_catalog(catalog_name, **properties)) for catalog_name, properties in configured
        }
    else:
        attached = _attach(spark, name, _catalog_of(name, catalog))
    if attached or name is not None:
        offer(spark, CATALOG_CLASS)
    return attached


def _configured_catalogs(spark: SparkSession) -> dict[str, dict[str, str]]:
    """Return the Icefloe catalogs in the session's settings that are not attached yet: the properties of each, by the catalog's name."""
    settings: dict[str, str] = {}
    entries = spark._jsparkSession.sessionState().conf().getAllConfs().iterator()
    while entries.hasNext():
        entry = entries.next()
        settings[entry._1()] = entry._2()
    warn_of_shown_secrets(settings, PREFIX)
    values = names_of_icefloe(spark)
    names = [key[len(PREFIX) :] for key, value in settings.items() if key.startswith(PREFIX) and value in values and key != PREFIX + HIDDEN]
    return {
        name: {
            key[len(PREFIX) + len(name) + 1 :]: value
            for key, value in settings.items()
            if key.startswith(f"{PREFIX}{name}.") and not key.endswith(".icefloe")
        }
        for name in names
        if settings.get(f"{PREFIX}{name}.icefloe") not in ATTACHED
    }


def names_of_icefloe(spark: SparkSession) -> tuple[str, ...]:
    """Return the values of `spark.sql.catalog.<name>` that select Icefloe: its own names, and the classes of Java's Iceberg if the session lacks its JAR."""
    loader = context_loader(jvm_of(spark))
    try:
        loader.loadClass(JAVA_CLASSES[0])
    except Py4JError:
        return (*CATALOG_NAMES, *JAVA_CLASSES)
    return CATALOG_NAMES


def _attach(spark: SparkSession, name: str, catalog: Catalog) -> Catalog:
    share_limits(spark)
    register(spark, name, SparkCatalog(spark, name, catalog))
    return catalog


def register(spark: SparkSession, name: str, catalog: SparkCatalog) -> None:
    """Make a catalog available under a name in a session's SQL, and prepare the session for it. Raises the errors of `attach`."""
    if not name.isidentifier():
        raise InvalidInputError(f"{name!r} cannot be the name of a catalog in SQL", next_step="use letters, digits and underscores")
    present = spark.conf.get(PREFIX + name, None)
    is_session = name == SESSION_CATALOG
    if present not in (None, *CATALOG_NAMES, *([_BUILTIN] if is_session else [])) and present not in names_of_icefloe(spark):
        raise InvalidInputError(
            f"Spark has another catalog under the name {name!r}: {present or 'its own'}", next_step="choose another name"
        )
    start_callbacks(gateway_of(spark))
    class_loader(spark)
    with _loadable_session_catalog(spark):
        probe_scans(spark)
        try_statements(spark, _attach)
    key = spark.conf.get(f"{PREFIX}{name}.icefloe", None) or str(uuid.uuid4())
    try:
        for stopped in drop_stopped():
            static_method(spark, "PythonBridge", "unregister", stopped)
        ATTACHED[key] = catalog
        static_method(spark, "PythonBridge", "register", key, ATTACHED[key])
        install_rule(spark)
        session = spark._jsparkSession
        static_method(spark, "SparkParser", "install", session, session.sessionState(), StatementParser(spark))
        if not static_method(spark, "MetricsRule", "install", session.sessionState()):
            LOG.info("Spark's SQL tab does not show which files scans of %r skip: this version of Spark keeps its metrics elsewhere", name)
    except Py4JError as error:
        raise EngineError(f"Spark {spark.version} could not register the catalog {name!r}: {java_message(error)}") from error
    cancel_jobs_on_interrupt(spark)
    spark.conf.set(f"{PREFIX}{name}.icefloe", key)
    spark.conf.set(PREFIX + name, SESSION_CATALOG_CLASS if is_session else CATALOG_CLASS)
    if is_session:
        _reload_session_catalog(spark)
    start_workers(spark)


@contextmanager
def _loadable_session_catalog(spark: SparkSession) -> Iterator[None]:
    """Return a context in which Spark's own session catalog is used, although a setting selects Icefloe's.

    Icefloe's class is not loaded yet, so that no statement could run with it. Without such a setting, nothing changes.
    """
    setting = PREFIX + SESSION_CATALOG
    configured = spark.conf.get(setting, None)
    if configured not in (CATALOG_NAMES[0], JAVA_SESSION_CATALOG):
        yield
        return
    spark.conf.set(setting, _BUILTIN)
    try:
        yield
    finally:
        spark.conf.set(setting, configured)


def _reload_session_catalog(spark: SparkSession) -> None:
    """Make Spark load its session catalog again, because it loads it only once by itself. Raises `EngineError` if this version of Spark does not allow it."""
    try:
        static_method(spark, "SparkSessionCatalog", "install", spark._jsparkSession.sessionState().catalogManager())
    except Py4JError as error:
        spark.conf.unset(PREFIX + SESSION_CATALOG)
        raise EngineError(
            f"Spark {spark.version} cannot change the session catalog of a running session: {java_message(error)}",
            next_step=f"start the session with {PREFIX}{SESSION_CATALOG}={CATALOG_NAMES[0]} and attach before its first statement; "
            "or attach the catalog under another name",
        ) from error


def _catalog_of(name: str, catalog: Catalog | Mapping[str, str] | str | None) -> Catalog:
    if catalog is None or isinstance(catalog, str):
        return load_catalog(catalog or name)
    if isinstance(catalog, Mapping):
        return load_catalog(name, **catalog)
    if not isinstance(catalog, Catalog):
        raise InvalidInputError(
            f"a value of type {type(catalog).__qualname__} is not a catalog", next_step="pass a catalog, its properties or its name"
        )
    return catalog
