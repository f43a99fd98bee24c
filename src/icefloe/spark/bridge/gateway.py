"""Access to the JVM of a Spark session through PySpark's Py4J gateway."""

from collections.abc import Sequence
from functools import reduce
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from icefloe.errors import EngineError

_CLASSES_ATTRIBUTE = "_icefloe_java_classes"


def gateway_of(spark: SparkSession) -> Any:
    """Return the Py4J gateway of a classic session.

    Raises:
        EngineError: This process has no JVM, as with Spark Connect.
    """
    context = getattr(spark, "_sc", None)
    gateway = getattr(context, "_gateway", None)
    if gateway is None:
        raise EngineError(
            "this Spark session has no JVM in this process",
            next_step="use a classic session, such as icefloe.spark.session()",
        )
    return gateway


def has_jvm(spark: SparkSession) -> bool:
    """Return True for a classic session, whose JVM this process can call; False for a session of Spark Connect."""
    try:
        gateway_of(spark)
    except EngineError:
        return False
    return True


def jvm_of(spark: SparkSession) -> Any:
    """Return Py4J's view of the JVM's packages and classes. Raises `EngineError` as `gateway_of`."""
    return gateway_of(spark).jvm


def java_class(spark: SparkSession, path: str) -> Any:
    """Return a Java class by its full name. Raises `EngineError` as `gateway_of`."""
    return class_behind(gateway_of(spark), path)


def class_behind(gateway: Any, path: str) -> Any:
    """Return a Java class by its full name, looked up once per JVM: for each package in the name Spark searches its jars."""
    # A gateway returns a package of Java for any attribute, so only its own dictionary is read.
    classes = gateway.__dict__.setdefault(_CLASSES_ATTRIBUTE, {})
    if path not in classes:
        classes[path] = reduce(getattr, path.split("."), gateway.jvm)
    return classes[path]


def java_array(spark: SparkSession, path: str, members: Sequence[Any]) -> Any:
    """Return a Java array of a class, with these members. Raises `EngineError` as `gateway_of`."""
    return array_behind(gateway_of(spark), path, members)


def array_behind(gateway: Any, path: str, members: Sequence[Any]) -> Any:
    """Return a Java array of a class, with these members."""
    array = gateway.new_array(class_behind(gateway, path), len(members))
    for index, member in enumerate(members):
        array[index] = member
    return array


def scala_object(spark: SparkSession, path: str) -> Any:
    """Return a Scala `object` by its class path: `scala.None` is `scala.None$.MODULE$`. Raises `EngineError` as `gateway_of`."""
    return getattr(java_class(spark, f"{path}$"), "MODULE$")


def java_message(error: Py4JError) -> str:
    """Return the first line of a Java exception's text, without the stack."""
    java_exception = getattr(error, "java_exception", None)
    text = str(java_exception.toString() if java_exception is not None else error)
    return text.splitlines()[0] if text else type(error).__name__
