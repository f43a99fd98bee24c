"""The way from a Spark session to its JVM: PySpark's Py4J gateway, in one place. Floor: spark."""

from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from icefloe.errors import EngineError


def gateway_of(spark: SparkSession) -> Any:
    """The Py4J gateway of a classic session.

    Raises:
        EngineError: there is no JVM at hand, as with Spark Connect.
    """
    context = getattr(spark, "_sc", None)
    gateway = getattr(context, "_gateway", None)
    if gateway is None:
        raise EngineError(
            "this Spark session has no JVM at hand", next_step="use a classic session, such as icefloe.spark.session.session()"
        )
    return gateway


def jvm_of(spark: SparkSession) -> Any:
    """The view of the JVM's packages and classes. Raises `EngineError` as `gateway_of` does."""
    return gateway_of(spark).jvm


def scala_object(jvm: Any, path: str) -> Any:
    """A Scala `object`, by its class path: `scala.None` is `scala.None$.MODULE$`."""
    found = jvm
    *packages, name = path.split(".")
    for part in packages:
        found = getattr(found, part)
    return getattr(getattr(found, f"{name}$"), "MODULE$")


def java_words(error: Py4JError) -> str:
    """The Java exception's own words, without the stack."""
    java_exception = getattr(error, "java_exception", None)
    text = str(java_exception.toString() if java_exception is not None else error)
    return text.splitlines()[0] if text else type(error).__name__
