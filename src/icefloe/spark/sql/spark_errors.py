"""Errors as exceptions of Spark's own, which Java throws: those that Spark itself has for a table that is not there and the like, and what a job failed with.

Floor: spark.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from py4j.java_gateway import JavaObject, set_field
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors.exceptions.captured import CapturedException

from icefloe.errors import (
    EngineError,
    IcefloeError,
    InvalidInputError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    TableAlreadyExistsError,
    UnsupportedError,
    ViewAlreadyExistsError,
)
from icefloe.spark.jvm.gateway import array_behind, class_behind
from icefloe.spark.sql.tokens import StatementSyntaxError

_ANALYSIS = "org.apache.spark.sql.catalyst.analysis"
_MISSING = (NoSuchTableError, NoSuchViewError)
# What takes the name of a table, and what that of a namespace.
_OF_TABLES: Mapping[type[IcefloeError], str] = {
    NoSuchTableError: "NoSuchTableException",
    NoSuchViewError: "NoSuchTableException",
    TableAlreadyExistsError: "TableAlreadyExistsException",
    ViewAlreadyExistsError: "TableAlreadyExistsException",
}
_OF_NAMESPACES: Mapping[type[IcefloeError], str] = {
    NoSuchNamespaceError: "NoSuchNamespaceException",
    NamespaceAlreadyExistsError: "NamespaceAlreadyExistsException",
    NamespaceNotEmptyError: "NonEmptyNamespaceException",
}
# The same where the statement is about a view.
_OF_VIEWS: Mapping[type[IcefloeError], str] = {
    NoSuchViewError: "NoSuchViewException",
    TableAlreadyExistsError: "ViewAlreadyExistsException",
    ViewAlreadyExistsError: "ViewAlreadyExistsException",
}
_ANTLR = "org.antlr.v4.runtime"


class AnalysisError(InvalidInputError):
    """A statement that is wrong as Spark's analyzer finds it; Spark's error has the message of `condition` with its `parameters` where there is one."""

    def __init__(
        self, message: str, *, condition: str | None = None, parameters: Mapping[str, str] | None = None, next_step: str | None = None
    ) -> None:
        super().__init__(message, next_step=next_step)
        self.condition, self.parameters = condition, parameters


def as_spark_error(error: BaseException, asked: Any) -> JavaObject | None:
    """Spark's own exception for an error; None where there is none. `asked` is the argument of the question that failed, and names the table or namespace."""
    thrown = _thrown_by_spark(error)
    gateway = SparkContext._gateway
    if thrown is not None or gateway is None:
        return thrown
    with suppress(Py4JError):  # a version of Spark that makes them otherwise: the words are left
        return _made(lambda path: class_behind(gateway, path), gateway, error, asked if isinstance(asked, dict) else {})
    return None


def _made(classes: Callable[[str], Any], gateway: Any, error: BaseException, asked: Mapping[str, Any]) -> JavaObject | None:
    # Of two names, what is renamed is missing, and all else is about the new one.
    table = asked.get("table") if isinstance(error, _MISSING) else asked.get("to", asked.get("table"))
    namespace = table[:-1] if table else asked.get("namespace")
    if isinstance(error, StatementSyntaxError):
        return _syntax_error(classes, error)
    if isinstance(error, AnalysisError):
        parameters = _scala_map(classes, error.parameters or {})
        if error.condition is not None:
            return classes("org.apache.spark.sql.AnalysisException")(error.condition, parameters)
        none = getattr(classes("scala.None$"), "MODULE$")
        contexts = array_behind(gateway, "org.apache.spark.QueryContext", ())
        return classes("org.apache.spark.sql.AnalysisException")(str(error), none, none, none, none, parameters, contexts)
    if isinstance(error, UnsupportedError):
        return classes("java.lang.UnsupportedOperationException")(str(error))
    for kind, name in {**_OF_TABLES, **(_OF_VIEWS if asked.get("is_of_view") else {})}.items():
        if isinstance(error, kind) and table:
            identifier = classes("org.apache.spark.sql.connector.catalog.Identifier").of(
                array_behind(gateway, "java.lang.String", table[:-1]), table[-1]
            )
            return classes(f"{_ANALYSIS}.{name}")(identifier)
    for kind, name in _OF_NAMESPACES.items():
        if isinstance(error, kind) and namespace is not None:
            return classes(f"{_ANALYSIS}.{name}")(array_behind(gateway, "java.lang.String", namespace))
    return None


def _syntax_error(classes: Callable[[str], Any], error: StatementSyntaxError) -> JavaObject:
    """Spark's own error for a statement that is wrong at some place."""
    source = classes(f"{_ANTLR}.misc.Pair")(None, classes(f"{_ANTLR}.CharStreams").fromString(error.text))
    token = classes(f"{_ANTLR}.CommonToken")(source, 1, 0, error.start, error.start)
    token.setLine(error.line)
    token.setCharPositionInLine(error.position)
    place = classes(f"{_ANTLR}.ParserRuleContext")()
    for end in ("start", "stop"):
        set_field(place, end, token)
    named = _scala_map(classes, {"error": error.near, "hint": f": {error.expected}"})
    return classes("org.apache.spark.sql.catalyst.parser.ParseException")("PARSE_SYNTAX_ERROR", named, place)


def _scala_map(classes: Callable[[str], Any], values: Mapping[str, str]) -> JavaObject:
    found = classes("java.util.HashMap")()
    for key, value in values.items():
        found.put(key, value)
    return classes("org.apache.spark.api.python.PythonUtils").toScalaMap(found)


def _thrown_by_spark(error: BaseException) -> JavaObject | None:
    """The exception that a job failed with, such as for a row of a MERGE that matches several."""
    captured = error.__cause__ if isinstance(error, EngineError) else error
    thrown = getattr(captured, "_origin", None) if isinstance(captured, CapturedException) else None
    while thrown is not None:
        with suppress(Py4JError):  # not every exception has a condition
            if thrown.getCondition() is not None:
                return thrown
        thrown = thrown.getCause()
    return None
