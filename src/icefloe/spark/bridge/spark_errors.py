"""Errors as exceptions of Spark: missing tables, refused statements, failed jobs."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from py4j.java_gateway import JavaObject, set_field
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors.exceptions.captured import CapturedException

from icefloe.errors import (
    CommitConflictError,
    CommitInvalidatedError,
    CommitUnknownError,
    EngineError,
    FormatError,
    IcefloeError,
    InvalidFilterError,
    InvalidInputError,
    InvalidPropertyError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchFileError,
    NoSuchNamespaceError,
    NoSuchSnapshotError,
    NoSuchTableError,
    NoSuchViewError,
    TableAlreadyExistsError,
    UnsupportedError,
    ViewAlreadyExistsError,
)
from icefloe.spark.bridge.gateway import array_behind, class_behind
from icefloe.spark.bridge.next_steps import in_sql

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
    """A statement that is wrong as Spark's analyzer finds it.

    Spark's error has its own message of `condition` with `parameters`; this one's where there is no condition or a next step to say.
    """

    def __init__(
        self, message: str, *, condition: str | None = None, parameters: Mapping[str, str] | None = None, next_step: str | None = None
    ) -> None:
        super().__init__(message, next_step=next_step)
        self.condition, self.parameters = condition, parameters


class StatementSyntaxError(InvalidInputError):
    """A statement that begins as one of Iceberg's own and has a syntax error after that.

    Attributes:
        expected: What the statement needs in that place.
        near: The token there.
        text: The text of the statement.
        start: Where the token begins in `text`, from 0.
    """

    def __init__(self, message: str, *, near: str, text: str, start: int) -> None:
        super().__init__(f"syntax error at or near {near}: {message}")
        self.expected, self.near, self.text, self.start = message, near, text, start

    @property
    def line(self) -> int:
        """The line of the token, from 1."""
        return self.text.count("\n", 0, self.start) + 1

    @property
    def position(self) -> int:
        """Where the token begins in its line, from 0."""
        return self.start - (self.text.rfind("\n", 0, self.start) + 1)


# The names that Java's core has for its exceptions, in `jvm/`; all others are a statement that is refused.
_OF_JAVA: tuple[tuple[type[IcefloeError], str], ...] = (
    (CommitInvalidatedError, "ValidationException"),
    (NoSuchSnapshotError, "ValidationException"),
    (InvalidFilterError, "ValidationException"),
    (InvalidPropertyError, "ValidationException"),
    (FormatError, "ValidationException"),
    (CommitConflictError, "CommitFailedException"),
    (CommitUnknownError, "CommitStateUnknownException"),
    (NoSuchFileError, "NotFoundException"),
)


def refusal(error: BaseException) -> str:
    """Return what `bridge/java/PythonBridge.java` throws for an error that Spark has no exception for: `!`, the exception's name, and the words in
    the next lines."""
    name = next((name for kind, name in _OF_JAVA if isinstance(error, kind)), "InvalidStatement")
    return f"!{name}\n{_words(error)}"


def _words(error: BaseException) -> str:
    if not isinstance(error, IcefloeError):
        return f"{type(error).__name__}: {error}"
    text = str(error)
    return text.replace(f"Next: {error.next_step}", f"Next: {in_sql(error.next_step)}") if error.next_step else text


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
        if error.condition is not None and error.next_step is None:
            return classes("org.apache.spark.sql.AnalysisException")(error.condition, parameters)
        none, words = getattr(classes("scala.None$"), "MODULE$"), _words(error)
        condition = none if error.condition is None else classes("scala.Some")(error.condition)
        if error.condition is not None:
            words = f"[{error.condition}] {words}"
        contexts = array_behind(gateway, "org.apache.spark.QueryContext", ())
        return classes("org.apache.spark.sql.AnalysisException")(words, none, none, none, condition, parameters, contexts)
    if isinstance(error, UnsupportedError):
        return classes("java.lang.UnsupportedOperationException")(_words(error))
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
