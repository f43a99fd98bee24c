"""`Merge`: UPDATE and MERGE of a table from Python, written as expressions of Spark SQL and run by Spark under its own rules.

This module builds the statement's text and quotes its names; an engine runs it (`Engine.run_statement`). Spec: Row-level Deletes; Row Lineage.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from icefloe.errors import InvalidInputError
from icefloe.lazy_imports import lazy_module
from icefloe.operations.engine import Statement
from icefloe.operations.write_result import WriteResult

if TYPE_CHECKING:
    from icefloe.operations import available_engines
else:  # reading and writing rows needs 90 modules, and opening a table none of them
    available_engines = lazy_module("icefloe.operations.available_engines")

Run = Callable[[Statement], WriteResult]
_UPDATE_EXAMPLE = """pass expressions as text: update({"fare": "fare * 2"}, where="id = 20")"""


def run_statement(table: Any, statement: Statement) -> WriteResult:
    """Run a statement on a table in the Spark session of this process, and commit it. Raises the errors of `EngineChoice.for_statements`."""
    return available_engines.engine_choice().for_statements(statement.operation).run_statement(table, statement)


def update_statement(
    assignments: Mapping[str, str], where: str | None, branch: str, snapshot_properties: Mapping[str, str] | None
) -> Statement:
    """Return an UPDATE statement. Raises `InvalidInputError` if no column is assigned, or an argument has a wrong type."""
    if where is not None and not isinstance(where, str):
        raise InvalidInputError(f"where is a {type(where).__name__}, not a condition of Spark SQL", next_step=_UPDATE_EXAMPLE)
    text = f"UPDATE {{target}} AS t SET {_assignments(assignments)}" + (f" WHERE {where}" if where is not None else "")  # noqa: S608 expressions are SQL by intent
    return Statement(operation="update", text=text, branch=branch, snapshot_properties=dict(snapshot_properties or {}))


def merge_statement(run: Run, source: Any, on: str, branch: str, snapshot_properties: Mapping[str, str] | None) -> "Merge":
    """Return a MERGE statement without clauses. Its method `merge` calls `run` to run it."""
    statement = Statement(
        operation="merge",
        text=f"MERGE INTO {{target}} AS t USING {{source}} AS s ON {on}",
        branch=branch,
        snapshot_properties=dict(snapshot_properties or {}),
        source=source,
    )
    return Merge(run=run, statement=statement)


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """A MERGE statement under construction. It is immutable: each added clause returns a new statement."""

    run: Run
    statement: Statement
    clauses: tuple[str, ...] = ()

    def when_matched(self, condition: str | None = None) -> "MergeClause":
        """Start a clause for rows of the table that match a source row. Its action is `update_all`, `update` or `delete`.

        Args:
            condition: a further condition of Spark SQL over `t` and `s`.

        Returns:
            The clause. One of its methods adds the action and returns the statement.
        """
        return MergeClause(merge=self, when="MATCHED", condition=condition, allowed=("update_all", "update", "delete"))

    def when_not_matched(self, condition: str | None = None) -> "MergeClause":
        """Start a clause for rows of the source that match no row of the table. Its action is `insert_all` or `insert`.

        Args:
            condition: a further condition of Spark SQL over `s`.

        Returns:
            The clause. One of its methods adds the action and returns the statement.
        """
        return MergeClause(merge=self, when="NOT MATCHED", condition=condition, allowed=("insert_all", "insert"))

    def when_not_matched_by_source(self, condition: str | None = None) -> "MergeClause":
        """Start a clause for rows of the table that match no source row. Its action is `update` or `delete`.

        Args:
            condition: a further condition of Spark SQL over `t`.

        Returns:
            The clause. One of its methods adds the action and returns the statement.
        """
        return MergeClause(merge=self, when="NOT MATCHED BY SOURCE", condition=condition, allowed=("update", "delete"))

    def merge(self) -> WriteResult:
        """Run the statement and commit it.

        Returns:
            The number of rows and files changed.

        Raises:
            InvalidInputError: there is no clause.
            pyspark.errors.SparkRuntimeException: several rows of the source would change the same row of the table.
            UnsupportedFeatureError, CommitInvalidatedError, CommitConflictError, CommitUnknownError: as for `Table.update`.
        """
        if not self.clauses:
            raise InvalidInputError("a merge without clauses does nothing", next_step="add one, such as .when_matched().update_all()")
        return self.run(replace(self.statement, text=" ".join((self.statement.text, *self.clauses))))


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeClause:
    """A WHEN clause of a MERGE that has no action yet. Each method completes the clause with an action and returns the statement."""

    merge: Merge
    when: str
    condition: str | None
    allowed: Sequence[str]

    def update_all(self) -> Merge:
        """Set every column to the value of the source's column of the same name.

        Returns:
            The statement with this clause.

        Raises:
            InvalidInputError: the clause is not from `when_matched`.
        """
        return self._then("update_all", "UPDATE SET *")

    def update(self, assignments: Mapping[str, str]) -> Merge:
        """Set some columns of the table's row; its other columns stay.

        Args:
            assignments: the new values as Spark SQL expressions, by column.

        Returns:
            The statement with this clause.

        Raises:
            InvalidInputError: the clause is from `when_not_matched`; or no column is assigned, or an expression is neither text nor a number.
        """
        return self._then("update", f"UPDATE SET {_assignments(assignments)}")

    def delete(self) -> Merge:
        """Delete the table's row.

        Returns:
            The statement with this clause.

        Raises:
            InvalidInputError: the clause is from `when_not_matched`.
        """
        return self._then("delete", "DELETE")

    def insert_all(self) -> Merge:
        """Insert the source's row, matching columns by name.

        Returns:
            The statement with this clause.

        Raises:
            InvalidInputError: the clause is not from `when_not_matched`.
        """
        return self._then("insert_all", "INSERT *")

    def insert(self, values: Mapping[str, str]) -> Merge:
        """Insert a row with these values. A column without a value gets its default, or null.

        Args:
            values: the values as Spark SQL expressions, by column.

        Returns:
            The statement with this clause.

        Raises:
            InvalidInputError: the clause is not from `when_not_matched`; or there are no values, or an expression is neither text nor a number.
        """
        _check_expressions(values)
        names = ", ".join(map(_quote, values))
        return self._then("insert", f"INSERT ({names}) VALUES ({', '.join(map(str, values.values()))})")  # noqa: S608 expressions are SQL by intent

    def _then(self, action: str, text: str) -> Merge:
        if action not in self.allowed:
            raise InvalidInputError(f"WHEN {self.when} has no action {action}", next_step=f"use {' or '.join(self.allowed)}")
        condition = "" if self.condition is None else f" AND ({self.condition})"
        return replace(self.merge, clauses=(*self.merge.clauses, f"WHEN {self.when}{condition} THEN {text}"))


def _check_expressions(expressions: Any) -> None:
    """Raise `InvalidInputError` unless the expressions are a mapping from column names to texts or numbers with at least one entry."""
    if not isinstance(expressions, Mapping):
        raise InvalidInputError(f"expressions by column are a {type(expressions).__name__}, not a dict", next_step=_UPDATE_EXAMPLE)
    if not expressions:
        raise InvalidInputError("no column is assigned", next_step='pass {"column": "expression"}')
    for column, expression in expressions.items():
        if not isinstance(column, str) or not isinstance(expression, str | int | float):
            raise InvalidInputError(f"{column!r}: {expression!r} is not a column and an expression of Spark SQL", next_step=_UPDATE_EXAMPLE)


def _assignments(assignments: Mapping[str, str]) -> str:
    _check_expressions(assignments)
    return ", ".join(f"{_quote(name)} = {value}" for name, value in assignments.items())


def _quote(name: str) -> str:
    """Quote a dotted name for SQL."""
    return ".".join(f"`{part.replace('`', '``')}`" for part in name.split("."))
