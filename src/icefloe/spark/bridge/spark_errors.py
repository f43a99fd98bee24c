"""Conversion of Icefloe's errors to exceptions of Spark: missing tables, refused statements, failed jobs, with SQL in the next step.

`docs/design/spark-bridge.md` has the table of all errors.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from py4j.java_gateway import JavaObject, set_field
from py4j.protocol import Py4JError, Py4JJavaError
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
from icefloe.spec.sql_tokens import StatementSyntaxError

_ANALYSIS = "org.apache.spark.sql.catalyst.analysis"
_MISSING = (NoSuchTableError, NoSuchViewError)
# Spark's exceptions with a table's name as argument, and those with a namespace's name.
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
# Spark's exceptions for a statement about a view.
_OF_VIEWS: Mapping[type[IcefloeError], str] = {
    NoSuchViewError: "NoSuchViewException",
    TableAlreadyExistsError: "ViewAlreadyExistsException",
    ViewAlreadyExistsError: "ViewAlreadyExistsException",
}
_ANTLR = "org.antlr.v4.runtime"
# Python calls that a next step may contain, and the SQL statement for each. Longer calls come first.
_STATEMENTS = (
    (r"(?:table\.)?update_schema\(\)\.rename_column(?:\(\(.*?\), ?\.\.\.\)|\(.*?\))", "ALTER TABLE ... RENAME COLUMN"),
    (r"(?:table\.)?update_schema\(\)\.make_column_optional(?:\(.*?\))?", "ALTER TABLE ... ALTER COLUMN ... DROP NOT NULL"),
    (r"(?:table\.)?update_schema\(\)\.set_identifier_fields\(.*?\)", "ALTER TABLE ... SET IDENTIFIER FIELDS ..."),
    (r"(?:table\.)?update_spec\(\)\.remove_field\('(?P<field>.*?)'\)", r"ALTER TABLE ... DROP PARTITION FIELD \g<field>"),
    (r"(?:table\.)?update_sort_order\(\)", "ALTER TABLE ... WRITE ORDERED BY ..."),
    (
        r"(?:table\.)?set_properties\(\{['\"](?P<key>[^'\"]*)['\"]: ['\"](?P<value>[^'\"]*)['\"]\}\)",
        r"ALTER TABLE ... SET TBLPROPERTIES ('\g<key>' = '\g<value>')",
    ),
    (r"(?:table\.)?upgrade_table_version\((?P<version>\d+)\)", r"ALTER TABLE ... SET TBLPROPERTIES ('format-version' = '\g<version>')"),
    (r"(?:table\.)?manage_snapshots\(\)\.create_branch\(.*?\)", "ALTER TABLE ... CREATE BRANCH ..."),
    (r"(?:table\.)?snapshots\(\)", "the table .snapshots"),
    (r"(?:table\.)?ancestors\(\)", "CALL ... system.ancestors_of"),
    (r"cherry_pick\(.*?\)", "CALL ... system.cherrypick_snapshot"),
    (r"(?:catalog\.)?register_table\(.*?\)", "CALL ... system.register_table"),
    (r"(?:table\.)?delete\(.*?\)", "DELETE FROM ... WHERE ..."),
    (r"(?:table\.)?overwrite\(.*?\)", "INSERT OVERWRITE ..."),
    (r"create_namespace\('(?P<name>.*?)'\)", r"CREATE NAMESPACE \g<name>"),
    (r"drop_table\('(?P<name>.*?)'\)", r"DROP TABLE \g<name>"),
    (r"with load_(?P<kind>table|view)\b", r"by its name: it is a \g<kind>"),
    (r"load_table\('(?P<name>.*?)'\) opens it", r"DESCRIBE TABLE \g<name> shows it"),
    (r"then register_table with this metadata file", "then CALL ... system.register_table with this metadata file"),
    (r"rename_field\b", "ALTER TABLE ... REPLACE PARTITION FIELD"),
    (r"replace_(?P<ref>branch|tag)\b", r"ALTER TABLE ... REPLACE \g<ref>"),
    (r", or pass allow_incompatible_changes=True(?P<why>[^;]*)", r""),
    (r"expire with delete_files=False, which changes only the metadata; or set", "set"),
    (r", such as datetime\.timezone\.utc", ": TIMESTAMP '2026-01-31 12:00:00Z'"),
    (r", such as datetime\.now\(UTC\) - timedelta\(days=7\)", ": TIMESTAMP '2026-01-31 12:00:00Z'"),
    (r"; StaticTable\.from_metadata\('.*?'\) reads it", ""),
    (r"start_snapshot_id=(?P<id>\d+)", r"start-snapshot-id \g<id>"),
    (r"refresh the table if", "REFRESH TABLE ... if"),
)
_CALLS = tuple((re.compile(call), statement) for call, statement in _STATEMENTS)


def in_sql(next_step: str) -> str:
    """Return the next step of an error with each Python call in it replaced by the SQL statement that does the same."""
    for call, statement in _CALLS:
        next_step = call.sub(statement, next_step)
    return next_step


class AnalysisError(InvalidInputError):
    """Raised for a statement that Spark's analyzer would refuse; it becomes Spark's `AnalysisException`.

    Attributes:
        condition: Spark's error condition, such as `TABLE_OR_VIEW_NOT_FOUND`, or None. If it is set and there is no next step, Spark's exception has the
            message that Spark defines for the condition; otherwise it has this error's message.
        parameters: The parameters of the condition's message, by name.
    """

    def __init__(
        self, message: str, *, condition: str | None = None, parameters: Mapping[str, str] | None = None, next_step: str | None = None
    ) -> None:
        super().__init__(message, next_step=next_step)
        self.condition, self.parameters = condition, parameters


class FilesReplacedError(CommitInvalidatedError):
    """Raised if another writer replaced files, without changing rows, while a statement changed rows in them. `RowStatement.java` runs the statement again."""


# Errors whose exceptions have the names of Java's Iceberg, in `java/`; all others become `InvalidStatement`.
_OF_JAVA: tuple[tuple[type[IcefloeError], str], ...] = (
    (FilesReplacedError, "FilesReplaced"),
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
    """Return a text for an error for which Spark has no exception. `bridge/java/PythonBridge.java` throws one of Icefloe's Java exceptions for the text.

    Returns:
        `!` and the name of the exception's class in the first line; the message in the next lines.
    """
    name = next((name for kind, name in _OF_JAVA if isinstance(error, kind)), "InvalidStatement")
    return f"!{name}\n{_text_of(error)}"


def _text_of(error: BaseException) -> str:
    if not isinstance(error, IcefloeError):
        return f"{type(error).__name__}: {error}"
    text = str(error)
    return text.replace(f"Next: {error.next_step}", f"Next: {in_sql(error.next_step)}") if error.next_step else text


def as_spark_error(error: BaseException, message: Any) -> JavaObject | None:
    """Convert an error to an exception of Spark; return None if Spark has no exception for it, or this version creates it differently.

    Args:
        error: The error.
        message: The first argument of the failed call. If it is a dict, it has the name of the table or namespace.
    """
    thrown = _thrown_by_spark(error)
    gateway = SparkContext._gateway
    if thrown is not None or gateway is None:
        return thrown
    with suppress(Py4JError):  # a version of Spark with different constructors: the caller uses the text instead
        return _spark_exception(lambda path: class_behind(gateway, path), gateway, error, message if isinstance(message, dict) else {})
    return None


def _spark_exception(classes: Callable[[str], Any], gateway: Any, error: BaseException, message: Mapping[str, Any]) -> JavaObject | None:
    # In a rename, a missing table is the old name; all other errors concern the new name.
    table = message.get("table") if isinstance(error, _MISSING) else message.get("to", message.get("table"))
    namespace = table[:-1] if table else message.get("namespace")
    if isinstance(error, StatementSyntaxError):
        return _syntax_error(classes, error)
    if isinstance(error, AnalysisError):
        parameters = _scala_map(classes, error.parameters or {})
        if error.condition is not None and error.next_step is None:
            return classes("org.apache.spark.sql.AnalysisException")(error.condition, parameters)
        none, text = getattr(classes("scala.None$"), "MODULE$"), _text_of(error)
        condition = none if error.condition is None else classes("scala.Some")(error.condition)
        if error.condition is not None:
            text = f"[{error.condition}] {text}"
        contexts = array_behind(gateway, "org.apache.spark.QueryContext", ())
        return classes("org.apache.spark.sql.AnalysisException")(text, none, none, none, condition, parameters, contexts)
    if isinstance(error, UnsupportedError):
        return classes("java.lang.UnsupportedOperationException")(_text_of(error))
    for kind, name in {**_OF_TABLES, **(_OF_VIEWS if message.get("is_of_view") else {})}.items():
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
    """Return Spark's `ParseException` for a syntax error at a position of a statement."""
    source = classes(f"{_ANTLR}.misc.Pair")(None, classes(f"{_ANTLR}.CharStreams").fromString(error.text))
    token = classes(f"{_ANTLR}.CommonToken")(source, 1, 0, error.start, error.start)
    token.setLine(error.line)
    token.setCharPositionInLine(error.position)
    position = classes(f"{_ANTLR}.ParserRuleContext")()
    for end in ("start", "stop"):
        set_field(position, end, token)
    parameters = _scala_map(classes, {"error": error.near, "hint": f": {error.expected}"})
    return classes("org.apache.spark.sql.catalyst.parser.ParseException")("PARSE_SYNTAX_ERROR", parameters, position)


def _scala_map(classes: Callable[[str], Any], values: Mapping[str, str]) -> JavaObject:
    entries = classes("java.util.HashMap")()
    for key, value in values.items():
        entries.put(key, value)
    return classes("org.apache.spark.api.python.PythonUtils").toScalaMap(entries)


def _thrown_by_spark(error: BaseException) -> JavaObject | None:
    """Return the exception with an error condition that Spark itself threw, for example if several source rows of a MERGE match one target row; or None."""
    captured = error.__cause__ if isinstance(error, EngineError) else error
    if isinstance(captured, Py4JJavaError):  # as the cause of an `InvocationTargetException`, which PySpark does not convert
        thrown = captured.java_exception
    else:
        thrown = getattr(captured, "_origin", None) if isinstance(captured, CapturedException) else None
    while thrown is not None:
        with suppress(Py4JError):  # not every exception has a condition
            if thrown.getCondition() is not None:
                return thrown
        thrown = thrown.getCause()
    return None
