"""`StatementMutations`: UPDATE and MERGE of a table from Python, told as SQL expressions and run by Spark, whose own rules they keep.

The statement's text is made here, by quoting names; running it is an engine's (`Engine.run_statement`). Spec: Row-level Deletes; Row Lineage.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from icefloe.errors import InvalidInputError, UnsupportedFeatureError
from icefloe.kernel.metadata.snapshot_ref import MAIN
from icefloe.table.engine import Statement
from icefloe.table.find_engine import engine_named
from icefloe.table.write_result import WriteResult

Run = Callable[[Statement], WriteResult]


class StatementMutations:
    """The statements of a `Table`. They commit at once."""

    def _run_statement(self, statement: Statement) -> WriteResult:
        spark = engine_named("spark")
        if not spark.is_active():
            raise UnsupportedFeatureError(
                f"{statement.operation.upper()} is run by Spark, and no classic session of it runs in this process",
                next_step="start one with icefloe.spark.session(), or use table.upsert, table.delete and table.overwrite",
            )
        return spark.run_statement(self, statement)

    def update(
        self,
        assignments: Mapping[str, str],
        where: str | None = None,
        branch: str = MAIN,
        snapshot_properties: Mapping[str, str] | None = None,
    ) -> WriteResult:
        """Sets columns in the rows for which `where` is true, as `UPDATE t SET ...` does: `table.update({"v": "v + 1", "s.a": "NULL"}, where="kind = 'a'")`.

        Columns are named with dots inside structs; values and `where` are expressions of Spark SQL over the table's columns. `write.update.mode` decides how
        the old rows go; from format version 3 on rows keep their ids.

        Raises:
            UnsupportedFeatureError: no Spark session runs; or rows are to be marked in a table of format version 1.
            InvalidInputError: nothing is assigned.
            CommitInvalidatedError, CommitConflictError, CommitUnknownError: as `append`.
            pyspark.errors.AnalysisException: Spark does not understand an expression.
        """
        text = f"UPDATE {{target}} AS t SET {_assigned(assignments)}" + (f" WHERE {where}" if where is not None else "")  # noqa: S608 expressions are SQL by intent
        return self._run_statement(
            Statement(operation="update", text=text, branch=branch, snapshot_properties=dict(snapshot_properties or {}))
        )

    def merge(self, source: Any, on: str, branch: str = MAIN, snapshot_properties: Mapping[str, str] | None = None) -> "Merge":
        """Starts `MERGE INTO t USING s ON ...`, where `t` is the table and `s` the Spark DataFrame `source`; nothing runs before `merge()`.

            table.merge(df, "t.id = s.id").when_matched("s.gone").delete().when_matched().update_all().when_not_matched().insert_all().merge()

        Clauses are tried in their order. The names are those of PySpark's `df.mergeInto`, expressions are texts of Spark SQL over `t` and `s`.
        """
        statement = Statement(
            operation="merge",
            text=f"MERGE INTO {{target}} AS t USING {{source}} AS s ON {on}",
            branch=branch,
            snapshot_properties=dict(snapshot_properties or {}),
            source=source,
        )
        return Merge(run=self._run_statement, statement=statement)


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """A MERGE in the making; each clause gives a new one."""

    run: Run
    statement: Statement
    clauses: tuple[str, ...] = ()

    def when_matched(self, condition: str | None = None) -> "MergeClause":
        """What becomes of rows of the table that have a match: `update_all`, `update` or `delete`."""
        return MergeClause(merge=self, when="MATCHED", condition=condition, allowed=("update", "delete"))

    def when_not_matched(self, condition: str | None = None) -> "MergeClause":
        """What becomes of rows of the source without a match: `insert_all` or `insert`."""
        return MergeClause(merge=self, when="NOT MATCHED", condition=condition, allowed=("insert",))

    def when_not_matched_by_source(self, condition: str | None = None) -> "MergeClause":
        """What becomes of rows of the table without a match: `update` or `delete`."""
        return MergeClause(merge=self, when="NOT MATCHED BY SOURCE", condition=condition, allowed=("update", "delete"))

    def merge(self) -> WriteResult:
        """Runs it. Raises as `Table.update`, and `pyspark.errors.SparkRuntimeException` where a row of the table matches several that would change it."""
        if not self.clauses:
            raise InvalidInputError("a merge without clauses does nothing", next_step="add one, such as .when_matched().update_all()")
        return self.run(replace(self.statement, text=" ".join((self.statement.text, *self.clauses))))


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeClause:
    """A clause of which the condition is said, and what is done not yet."""

    merge: Merge
    when: str
    condition: str | None
    allowed: Sequence[str]

    def update_all(self) -> Merge:
        """Every column takes the value of the source's column of its name."""
        return self._then("update", "UPDATE SET *")

    def update(self, assignments: Mapping[str, str]) -> Merge:
        """These columns take these values."""
        return self._then("update", f"UPDATE SET {_assigned(assignments)}")

    def delete(self) -> Merge:
        """The row goes."""
        return self._then("delete", "DELETE")

    def insert_all(self) -> Merge:
        """The source's row is added, by names."""
        return self._then("insert", "INSERT *")

    def insert(self, values: Mapping[str, str]) -> Merge:
        """A row with these values is added; the other columns are null, or have their defaults."""
        names = ", ".join(map(_quoted, values))
        return self._then("insert", f"INSERT ({names}) VALUES ({', '.join(values.values())})")  # noqa: S608 expressions are SQL by intent

    def _then(self, action: str, text: str) -> Merge:
        if action not in self.allowed:
            raise InvalidInputError(
                f"a row that is {self.when.lower()} cannot be the object of {action}", next_step=f"it takes {' or '.join(self.allowed)}"
            )
        condition = "" if self.condition is None else f" AND ({self.condition})"
        return replace(self.merge, clauses=(*self.merge.clauses, f"WHEN {self.when}{condition} THEN {text}"))


def _assigned(assignments: Mapping[str, str]) -> str:
    if not assignments:
        raise InvalidInputError("no column is assigned", next_step='pass {"column": "expression"}')
    return ", ".join(f"{_quoted(name)} = {value}" for name, value in assignments.items())


def _quoted(name: str) -> str:
    """A dotted name as SQL says it."""
    return ".".join(f"`{part.replace('`', '``')}`" for part in name.split("."))
