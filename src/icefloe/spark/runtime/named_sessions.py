"""Names of Spark sessions, by which a data source finds the session that called it.

Spark passes the session's settings `spark.datasource.<format>.*` to a data source; one of them is the session's name.
"""

import uuid
from weakref import WeakValueDictionary

from pyspark.sql import SparkSession

OPTION = "session"  # the option with the session's name, which a source receives
_SETTINGS = (f"spark.datasource.icefloe.{OPTION}", f"spark.datasource.iceberg.{OPTION}")
_NAMED: "WeakValueDictionary[str, SparkSession]" = WeakValueDictionary()


def name_session(spark: SparkSession) -> None:
    """Give a session a random name, and store it in the session's settings; further calls change nothing."""
    name = spark.conf.get(_SETTINGS[0], None) or uuid.uuid4().hex
    if name not in _NAMED:
        _NAMED[name] = spark
        for setting in _SETTINGS:
            spark.conf.set(setting, name)


def session_named(name: str | None) -> SparkSession | None:
    """Return the session with a name; None if the name is None, or this process does not have the session any more."""
    return _NAMED.get(name or "")
