"""`attach`: makes an Icefloe catalog one of a session's catalogs in Spark SQL. The Java side is `bridge/java/SparkCatalog.java`."""

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
from icefloe.spark.bridge.gateway import gateway_of, java_words
from icefloe.spark.bridge.java_compiler import class_loader, static_method
from icefloe.spark.bridge.optimizer_rule import install_rule
from icefloe.spark.catalog.attached_catalogs import ATTACHED, PREFIX, SESSION_CATALOG
from icefloe.spark.catalog.spark_catalog import SparkCatalog
from icefloe.spark.catalog.spark_data_source import HIDDEN, offer
from icefloe.spark.runtime.interrupts import cancel_jobs_on_interrupt
from icefloe.spark.runtime.redaction import warn_of_shown_secrets
from icefloe.spark.runtime.start_session import share_limits
from icefloe.spark.scan.version_probe import probe_scans
from icefloe.spark.sql_probe import try_statements
from icefloe.spark.statements.statement_parser import StatementParser

CATALOG_CLASS = "icefloe.SparkCatalog"
SESSION_CATALOG_CLASS = "icefloe.SparkSessionCatalog"
CATALOG_NAMES = ("icefloe", CATALOG_CLASS, SESSION_CATALOG_CLASS)  # what a setting may say
_BUILTIN = "builtin"  # what Spark says for a session catalog of its own


@overload
def attach(spark: SparkSession) -> dict[str, Catalog]: ...
@overload
def attach(spark: SparkSession, name: str, catalog: Catalog | Mapping[str, str] | str | None = None) -> Catalog: ...
def attach(
    spark: SparkSession, name: str | None = None, catalog: Catalog | Mapping[str, str] | str | None = None
) -> Catalog | dict[str, Catalog]:
    """Makes a catalog known to this session's SQL as `name`: `spark.table("lake.db.t")`. Attaching the same name again puts the new catalog in its place.

    `catalog` is a catalog, its properties, or the name under which `load_catalog` finds it; without it, `load_catalog(name)`. Other sessions of the same
    Spark, such as those of `spark.newSession()`, are attached by calls of their own.

    Without a name, every catalog that the session's settings name is attached: `spark.sql.catalog.lake=icefloe`, with its properties in
    `spark.sql.catalog.lake.uri` and so on. Those are the answer, by name.

    As `spark_catalog` it is Spark's session catalog: a name is an Iceberg table's first, else what Spark has under it.

    Raises:
        EngineError: the session is not a classic one, Spark is too old, or a newer one than Icefloe is proven on went wrong where it was tried: the glue did
            not compile, or statements on a small table had other rows than are right.
        InvalidInputError: the name is not one that SQL can say, or Spark has a catalog of its own under it.
        NoSuchCatalogError: there is no catalog of that name.
    """
    found: dict[str, Catalog] | Catalog
    if name is None:
        found = {one: _attach(spark, one, load_catalog(one, **properties)) for one, properties in _configured(spark).items()}
    else:
        found = _attach(spark, name, _catalog_of(name, catalog))
    if found or name is not None:
        offer(spark, CATALOG_CLASS)
    return found


def _configured(spark: SparkSession) -> dict[str, dict[str, str]]:
    """The properties of each catalog that the settings name and that is not attached yet."""
    settings: dict[str, str] = {}
    entries = spark._jsparkSession.sessionState().conf().getAllConfs().iterator()
    while entries.hasNext():
        entry = entries.next()
        settings[entry._1()] = entry._2()
    warn_of_shown_secrets(settings, PREFIX)
    names = [
        key[len(PREFIX) :]
        for key, value in settings.items()
        if key.startswith(PREFIX) and value in CATALOG_NAMES and key != PREFIX + HIDDEN
    ]
    return {
        name: {
            key[len(PREFIX) + len(name) + 1 :]: value
            for key, value in settings.items()
            if key.startswith(f"{PREFIX}{name}.") and not key.endswith(".icefloe")
        }
        for name in names
        if settings.get(f"{PREFIX}{name}.icefloe") not in ATTACHED
    }


def _attach(spark: SparkSession, name: str, found: Catalog) -> Catalog:
    share_limits(spark)
    register(spark, name, SparkCatalog(spark, name, found))
    return found


def register(spark: SparkSession, name: str, answers: SparkCatalog) -> None:
    """Makes what answers for a catalog known to this session's SQL. Raises as `attach`."""
    if not name.isidentifier():
        raise InvalidInputError(f"{name!r} cannot be a catalog's name in SQL", next_step="use letters, digits and underscores")
    taken = spark.conf.get(PREFIX + name, None)
    is_session = name == SESSION_CATALOG
    if taken not in (None, *CATALOG_NAMES, *([_BUILTIN] if is_session else [])):
        raise InvalidInputError(f"Spark has another catalog under the name {name!r}: {taken or 'its own'}", next_step="choose another name")
    start_callbacks(gateway_of(spark))
    class_loader(spark)
    with _loadable_session_catalog(spark):
        probe_scans(spark)
        try_statements(spark, _attach)
    key = spark.conf.get(f"{PREFIX}{name}.icefloe", None) or str(uuid.uuid4())
    try:
        ATTACHED[key] = answers
        static_method(spark, "PythonBridge", "register", key, ATTACHED[key])
        install_rule(spark)
        session = spark._jsparkSession
        static_method(spark, "SparkParser", "install", session, session.sessionState(), StatementParser(spark))
    except Py4JError as error:
        raise EngineError(f"Spark {spark.version} did not take the catalog {name!r}: {java_words(error)}") from error
    cancel_jobs_on_interrupt(spark)
    spark.conf.set(f"{PREFIX}{name}.icefloe", key)
    spark.conf.set(PREFIX + name, SESSION_CATALOG_CLASS if is_session else CATALOG_CLASS)
    if is_session:
        _load_anew(spark)


@contextmanager
def _loadable_session_catalog(spark: SparkSession) -> Iterator[None]:
    """Leave Spark its own session catalog where a setting names Icefloe's, which is not attached yet: no class has that name, and no statement would run."""
    setting = PREFIX + SESSION_CATALOG
    named = spark.conf.get(setting, None)
    if named != CATALOG_NAMES[0]:
        yield
        return
    spark.conf.set(setting, _BUILTIN)
    try:
        yield
    finally:
        spark.conf.set(setting, named)


def _load_anew(spark: SparkSession) -> None:
    """Let Spark load its session catalog again, which it does once in a session. Raises `EngineError` where this Spark keeps it elsewhere."""
    try:
        static_method(spark, "SparkSessionCatalog", "install", spark._jsparkSession.sessionState().catalogManager())
    except Py4JError as error:
        spark.conf.unset(PREFIX + SESSION_CATALOG)
        raise EngineError(
            f"Spark {spark.version} does not change its session catalog once it runs: {java_words(error)}",
            next_step=f"start the session with {PREFIX}{SESSION_CATALOG}={CATALOG_NAMES[0]} and attach before its first statement; "
            "or attach the catalog under another name",
        ) from error


def _catalog_of(name: str, given: Catalog | Mapping[str, str] | str | None) -> Catalog:
    if given is None or isinstance(given, str):
        return load_catalog(given or name)
    if isinstance(given, Mapping):
        return load_catalog(name, **given)
    if not isinstance(given, Catalog):
        raise InvalidInputError(
            f"a catalog of type {type(given).__qualname__} is not understood", next_step="pass a catalog, its properties or its name"
        )
    return given
