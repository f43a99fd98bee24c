"""The way from a Spark session to its JVM: PySpark's Py4J gateway, in one place."""

from collections.abc import Sequence
from functools import reduce
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from icefloe.errors import EngineError

_CLASSES_ATTRIBUTE = "_icefloe_java_classes"


def gateway_of(spark: SparkSession) -> Any:
    """The Py4J gateway of a classic session.

    Raises:
        EngineError: there is no JVM at hand, as with Spark Connect.
    """
    context = getattr(spark, "_sc", None)
    gateway = getattr(context, "_gateway", None)
    if gateway is None:
        raise EngineError(
            "this Spark session has no JVM at hand",
            next_step="use a classic session, such as icefloe.spark.session()",
        )
    return gateway


def has_jvm(spark: SparkSession) -> bool:
    """Return whether the session is a classic one, whose JVM this process reaches; a session of Spark Connect is not."""
    try:
        gateway_of(spark)
    except EngineError:
        return False
    return True


def jvm_of(spark: SparkSession) -> Any:
    """The view of the JVM's packages and classes. Raises `EngineError` as `gateway_of` does."""
    return gateway_of(spark).jvm


def java_class(spark: SparkSession, path: str) -> Any:
    """A class of Java's by its full name. Raises `EngineError` as `gateway_of`."""
    return class_behind(gateway_of(spark), path)


def class_behind(gateway: Any, path: str) -> Any:
    """A class of Java's by its full name, looked up once per JVM: for every package on the way Spark looks through its jars."""
    # A gateway answers any attribute with a package of Java, so only its own dictionary tells.
    known = gateway.__dict__.setdefault(_CLASSES_ATTRIBUTE, {})
    if path not in known:
        known[path] = reduce(getattr, path.split("."), gateway.jvm)
    return known[path]


def java_array(spark: SparkSession, path: str, members: Sequence[Any]) -> Any:
    """An array of Java's, of the class of that name. Raises `EngineError` as `gateway_of`."""
    return array_behind(gateway_of(spark), path, members)


def array_behind(gateway: Any, path: str, members: Sequence[Any]) -> Any:
    """An array of Java's, of the class of that name."""
    found = gateway.new_array(class_behind(gateway, path), len(members))
    for place, member in enumerate(members):
        found[place] = member
    return found


def scala_object(spark: SparkSession, path: str) -> Any:
    """A Scala `object`, by its class path: `scala.None` is `scala.None$.MODULE$`. Raises `EngineError` as `gateway_of`."""
    return getattr(java_class(spark, f"{path}$"), "MODULE$")


def java_words(error: Py4JError) -> str:
    """The Java exception's own words, without the stack."""
    java_exception = getattr(error, "java_exception", None)
    text = str(java_exception.toString() if java_exception is not None else error)
    return text.splitlines()[0] if text else type(error).__name__
