"""Names of Spark sessions, by which a data source finds the session that calls it.

Spark passes the settings `spark.datasource.<format>.*` of the session to a source, and one of them has the name.
"""

import uuid
from weakref import WeakValueDictionary

from pyspark.sql import SparkSession

OPTION = "session"  # the name of the option that a source receives
_SETTINGS = (f"spark.datasource.icefloe.{OPTION}", f"spark.datasource.iceberg.{OPTION}")
_NAMED: "WeakValueDictionary[str, SparkSession]" = WeakValueDictionary()


def name_session(spark: SparkSession) -> None:
    """Give a session a name; further calls change nothing."""
    name = spark.conf.get(_SETTINGS[0], None) or uuid.uuid4().hex
    if name not in _NAMED:
        _NAMED[name] = spark
        for setting in _SETTINGS:
            spark.conf.set(setting, name)


def session_named(name: str | None) -> SparkSession | None:
    """Return the session of a name; None where this process has no such session any more."""
    return _NAMED.get(name or "")
