"""Which Spark session a data source is asked by: Spark hands a source the settings `spark.datasource.<format>.*` of the session, and one names it here."""

import uuid
from weakref import WeakValueDictionary

from pyspark.sql import SparkSession

OPTION = "session"  # as which a source sees the setting
_SETTINGS = (f"spark.datasource.icefloe.{OPTION}", f"spark.datasource.iceberg.{OPTION}")
_NAMED: "WeakValueDictionary[str, SparkSession]" = WeakValueDictionary()


def give_name(spark: SparkSession) -> None:
    """Names a session, once."""
    name = spark.conf.get(_SETTINGS[0], None) or uuid.uuid4().hex
    if name not in _NAMED:
        _NAMED[name] = spark
        for setting in _SETTINGS:
            spark.conf.set(setting, name)


def session_named(name: str | None) -> SparkSession | None:
    """The session of a name, as long as this process holds it."""
    return _NAMED.get(name or "")
