"""The one door from the command line to `icefloe.spark`, opened only when a command needs Spark: importing PySpark takes longer than most commands run.

Floor: cli.
"""

from importlib import import_module
from typing import Any


def spark_module(name: str) -> Any:
    """The module `icefloe.spark.<name>`, imported now and not with the command line."""
    return import_module(f"icefloe.spark.{name}")


def start_spark(settings: dict[str, str] | None = None) -> Any:
    """The running Spark session, or a new one with these settings. Raises `EngineError`."""
    return spark_module("session").session(settings or {})
