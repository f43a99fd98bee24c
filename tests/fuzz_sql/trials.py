"""One table of Iceberg beside the judge's rows, which are Parquet files that plain statements of Spark write after every step.

The judge shares no code with Icefloe: Spark alone parses, plans, reads and writes what it has.
"""

import shutil
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.types import NullType
from tests.fuzz_sql.duckdb_opinion import DuckDB, UnreadableError
from tests.fuzz_sql.histories import Beginning
from tests.fuzz_sql.known_differences import reason_for
from tests.fuzz_sql.outcomes import Outcome, error_text, outcome_of, rows_of, unlike_parts
from tests.fuzz_sql.queries import Query, everything
from tests.fuzz_sql.schemas import Leaf, Struct, has_leaf, has_struct_keys, quoted, sql_type
from tests.fuzz_sql.steps import DeleteKeys, NotApplicableError, Step

from icefloe import FixedType, SqlCatalog, UUIDType
from icefloe.errors import NoSuchTableError

A_ROW = "` row`"  # the column of the judge's files where a table has columns without a type


@dataclass(frozen=True)
class Case:
    """A table's history and the query that shows a difference; without a query the last step itself does."""

    beginning: Beginning
    steps: tuple[Step, ...]
    query: Query | None
    reader: str = ""  # what read the rows where it was not Spark: "scan" for `table.scan()`, "DuckDB"


@dataclass(frozen=True)
class Difference:
    case: Case
    text: str
    script: tuple[str, ...]

    @property
    def kind(self) -> str:
        """What has to stay the same while a case is made smaller: the sort of difference, and the beginning of an error."""
        first = self.text.splitlines()[0]
        return first[:60] if first.startswith("fails:") else first[:20]


class DifferenceError(Exception):
    def __init__(self, difference: Difference) -> None:
        super().__init__(difference.text)
        self.difference = difference


class RefusedError(Exception):
    """The table refused a step that it may refuse."""


class Lake:
    """The session and catalog that all tables share."""

    def __init__(self, spark: SparkSession, catalog: SqlCatalog, folder: Path) -> None:
        self.spark = spark
        self.catalog = catalog
        self.folder = folder
        self.tables = 0
        self.known: Counter[str] = Counter()  # reasons of differences that are known
        self.duckdb: DuckDB | None = None

    def next_name(self) -> str:
        self.tables += 1
        return f"t{self.tables}"

    def refused_types(self, names: Iterable[str]) -> dict[str, str]:
        """Return which types columns cannot have here, each with who refuses it and why."""
        refused = {}
        for name in names:
            try:
                self.spark.sql(f"SELECT CAST(NULL AS {name}) AS v").write.mode("overwrite").parquet(str(self.folder / "type"))
                self.spark.sql(f"CREATE TABLE lake.db.type (v {name}) USING iceberg TBLPROPERTIES ('format-version' = '3')")
            except Exception as error:  # noqa: BLE001  # any error is an answer
                refused[name] = error_text(error)
            with suppress(NoSuchTableError):
                self.catalog.purge_table("db.type")
        return refused


class Trial:
    """A table that exists twice."""

    def __init__(self, lake: Lake, beginning: Beginning) -> None:
        self.lake = lake
        self.spark = lake.spark
        self.beginning = beginning
        self.schema: Struct = beginning.schema
        self.plain_name = f"db.{lake.next_name()}"
        self.name = f"lake.{self.plain_name}"
        self.folder = lake.folder / "judge" / self.plain_name
        self.steps: list[Step] = []
        self.script: list[str] = []
        self.writes = 0
        self.views: list[str] = []  # of the judge's rows, the newest last
        self.snapshots: dict[int, tuple[int, str, Struct]] = {}  # by the place in the history: id, view of the judge, schema

    def begin(self) -> None:
        for name, value in self.beginning.settings.items():
            self.spark.conf.set(name, value)
            self.script.append(f"spark.conf.set({name!r}, {value!r})")
        statement = self.beginning.statement()
        try:
            self._run(statement)
        except Exception as error:  # any error is a difference
            raise DifferenceError(self._difference(None, f"fails: {error_text(error)}")) from error
        columns = ", ".join(f"CAST(NULL AS {sql_type(column.kind)}) AS {quoted(column.name)}" for column in self.schema.fields)
        self._write_judge(f"SELECT {columns} LIMIT 0")

    def end(self) -> None:
        """Drop the table and the judge's rows."""
        for view in self.views:
            self.spark.catalog.dropTempView(view)
        with suppress(NoSuchTableError):  # it could not be created
            self.lake.catalog.purge_table(self.plain_name)
        shutil.rmtree(self.folder, ignore_errors=True)

    # ---- steps

    def apply(self, step: Step) -> None:
        """Make a step on both sides.

        Raises:
            DifferenceError: one side fails.
            RefusedError: the table refuses a step that it may refuse; nothing has changed.
            NotApplicableError: the schema does not have what the step needs.
        """
        after = step.changed(self.schema)
        judged = step.judge(self.schema)
        statements = step.statements(self.schema)
        error, views = "", len(self.views)
        for place, statement in enumerate(statements):
            try:
                self._run(statement)
            except Exception as failure:  # any error is an outcome
                error = error_text(failure)
                if step.may_be_refused and place == 0:
                    self.script.pop()
                    raise RefusedError(f"{step.label}: {error}") from failure
                break
        self.steps.append(step)
        judge_error = ""
        if judged is not None:
            try:
                self._write_judge(judged.replace("{t}", self.views[-1]))
            except Exception as failure:  # noqa: BLE001  # any error is an outcome
                judge_error = error_text(failure)
        if error and judge_error:
            self.steps.pop()
            raise RefusedError(f"{step.label}, by both: {judge_error}")
        if error or judge_error:
            text = f"fails: {error}" if error else f"{step.label} succeeds where the judge fails: {judge_error}"
            if reason_for(step.label, text):  # the step is left out on both sides
                self.steps.pop()
                del self.views[views:]
            self._report(None, text, step.label)
        self.schema = after
        snapshot = self.lake.catalog.load_table(self.plain_name).current_snapshot()
        if snapshot is not None and snapshot.snapshot_id not in [one for one, _, _ in self.snapshots.values()]:
            self.snapshots[len(self.steps)] = (snapshot.snapshot_id, self.views[-1], after)

    def _run(self, statement: str) -> None:
        text = statement.replace("{name}", self.name).replace("{plain}", self.plain_name)
        if text.startswith(">>> "):
            self.script.append(text.removeprefix(">>> "))
            names = {
                "sql": self.spark.sql,
                "update_schema": self._add_column,
                "delete_keys": self._delete_keys,
                "dynamic_overwrite": self._dynamic_overwrite,
                "UUIDType": UUIDType,
                "FixedType": FixedType,
            }
            eval(text.removeprefix(">>> "), names)  # noqa: S307  # a text of the fuzzer
        else:
            self.script.append(f"sql({text!r})")
            self.spark.sql(text)

    def _add_column(self, path: tuple[str, ...], kind: Any) -> None:
        with self.lake.catalog.load_table(self.plain_name).update_schema() as update:
            update.add_column(path, kind)

    def _delete_keys(self, query: str, names: list[str]) -> None:
        self.lake.catalog.load_table(self.plain_name).delete_keys(self.spark.sql(query).toArrow(), names)

    def _dynamic_overwrite(self, statement: str) -> None:
        self.spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
        try:
            self.spark.sql(statement)
        finally:
            self.spark.conf.unset("spark.sql.sources.partitionOverwriteMode")

    def _write_judge(self, sql: str) -> None:
        self.writes += 1
        view = f"judge_{self.plain_name.removeprefix('db.')}_{self.writes}"
        path = str(self.folder / view)
        frame = self.spark.sql(sql)
        unknown = {column.name for column in frame.schema if isinstance(column.dataType, NullType)}
        names = [quoted(column.name) for column in frame.schema]
        if unknown:  # Parquet files have no columns without a type, and one column at least
            frame = frame.selectExpr(
                *(name for name, column in zip(names, frame.schema, strict=True) if column.name not in unknown), f"true AS {A_ROW}"
            )
        frame.coalesce(1).write.parquet(path)
        rows = self.spark.read.schema(frame.schema).parquet(path)
        if unknown:
            rows = rows.selectExpr(*(f"NULL AS {name}" if name in map(quoted, unknown) else name for name in names))
        rows.createOrReplaceTempView(view)
        self.views.append(view)

    # ---- queries

    def versions(self) -> dict[int, Struct]:
        """Return the schemas of the versions that can be read, by their places in the history."""
        present = {one.snapshot_id for one in self.lake.catalog.load_table(self.plain_name).snapshots()}
        return {place: schema for place, (identity, _, schema) in self.snapshots.items() if identity in present}

    def check(self, query: Query) -> Outcome:
        """Run a query on both sides, and return the judge's outcome.

        Raises:
            DifferenceError: the outcomes differ.
            NotApplicableError: there is no such version of the table.
        """
        on_table, on_judge = self._both(query)
        right = outcome_of(self.spark, on_judge, exact_zeros=query.exact_zeros)
        run = {"": self._selected, "table": self._created, "view": self._viewed, "temporary view": self._viewed}[query.through]
        difference = run(on_table, query).differs_from(right)
        if difference:
            self._report(query, difference, query.label)
        return right

    def check_together(self, queries: list[Query]) -> list[tuple[Query, str]]:
        """Run queries on both sides as the parts of few statements, which is quicker; return those that may differ, each with the reason.

        Rows are texts here, which may differ where the rows do not, and queries may fail on both sides: these are to be run one by one.
        """
        schemas = (self.schema, *(schema for _, _, schema in self.snapshots.values()))
        exact = [query.exact_zeros for query in queries]
        unlike = unlike_parts(self.spark, [self._both(query) for query in queries], exact, as_json=not any(map(_has_no_json, schemas)))
        return [(queries[place], reason) for place, reason in unlike.items()]

    def _both(self, query: Query) -> tuple[str, str]:
        """Return the texts of a query over the table and over the judge's rows."""
        if query.version is None:
            return query.sql.replace("{t}", self.name), query.sql.replace("{t}", self.views[-1])
        if query.version not in self.snapshots:
            raise NotApplicableError("no such version")
        _, view, _ = self.snapshots[query.version]
        return query.sql.replace("{t}", f"{self.name} {self._as_of(query)}"), query.sql.replace("{t}", view)

    def _as_of(self, query: Query) -> str:
        identity = self.snapshots[query.version or 0][0]
        if not query.by_time:
            return f"VERSION AS OF {identity}"
        snapshot = self.lake.catalog.load_table(self.plain_name).snapshot_by_id(identity)
        if snapshot is None:
            raise NotApplicableError("no such version")
        return f"TIMESTAMP AS OF timestamp_millis({snapshot.timestamp_ms})"

    def _selected(self, sql: str, query: Query) -> Outcome:
        return outcome_of(self.spark, sql, exact_zeros=query.exact_zeros)

    def _created(self, sql: str, query: Query) -> Outcome:
        """Return the rows of a new table that the query makes."""
        copy = f"{self.plain_name}_copy"
        version = 3 if has_leaf(self.schema, "VOID") else self.beginning.properties["format-version"]
        try:
            self.spark.sql(f"CREATE TABLE lake.{copy} USING iceberg TBLPROPERTIES ('format-version' = '{version}') AS {sql}")
        except Exception as error:  # noqa: BLE001  # any error is an outcome
            return Outcome(Counter(), error=error_text(error))
        found = outcome_of(self.spark, f"SELECT * FROM lake.{copy}", exact_zeros=query.exact_zeros)
        self.lake.catalog.purge_table(copy)
        return found

    def _viewed(self, sql: str, query: Query) -> Outcome:
        """Return the rows of a new view that has the query."""
        temporary = query.through == "temporary view"
        view = "a_view" if temporary else f"lake.{self.plain_name}_view"
        try:
            self.spark.sql(f"CREATE {'TEMPORARY ' if temporary else ''}VIEW {view} AS {sql}")
        except Exception as error:  # noqa: BLE001  # any error is an outcome
            return Outcome(Counter(), error=error_text(error))
        found = outcome_of(self.spark, f"SELECT * FROM {view}", exact_zeros=query.exact_zeros)
        self.spark.sql(f"DROP VIEW {view}")
        return found

    def check_in_process(self) -> None:
        """Compare the rows that `table.scan()` reads in this process with the judge's, which PyArrow reads.

        Raises:
            DifferenceError: they differ.
        """
        if has_leaf(self.schema, "VARIANT"):
            return
        try:
            seen = Outcome(rows_of(self.lake.catalog.load_table(self.plain_name).scan().to_arrow()))
        except Exception as error:  # noqa: BLE001  # any error is an outcome
            seen = Outcome(Counter(), error=error_text(error))
        difference = seen.differs_from(self._stored())
        if difference:
            self._report(everything(self.schema), f"{difference}\n(read in process)", "scan", reader="scan")

    def check_in_duckdb(self, duckdb: DuckDB) -> str:
        """Compare the rows that DuckDB reads with the judge's; return why it cannot read the table, empty if it can.

        Raises:
            DifferenceError: they differ.
        """
        reason = duckdb.cannot_read(self.schema)
        if any(isinstance(step, DeleteKeys) for step in self.steps):
            reason = "equality deletes, which it also applies to rows with a null key"
        if reason:
            return reason
        try:
            seen = Outcome(rows_of(duckdb.read(self.lake.catalog.load_table(self.plain_name).metadata_location)))
        except UnreadableError as refused:
            return str(refused)
        difference = seen.differs_from(self._stored())
        if difference:
            self._report(everything(self.schema), f"{difference}\n(read by DuckDB)", "DuckDB", reader="DuckDB")
        return ""

    def _stored(self) -> Outcome:
        """Return the judge's rows, as PyArrow reads them."""
        stored = pq.ParquetDataset(self.folder / self.views[-1]).read()
        unknown = [column.name for column in self.schema.fields if column.kind == Leaf("VOID")]
        columns = [pa.nulls(len(stored)) if column.name in unknown else stored[column.name] for column in self.schema.fields]
        return Outcome(rows_of(pa.table(columns, [column.name for column in self.schema.fields])))

    def _report(self, query: Query | None, text: str, label: str, *, reader: str = "") -> None:
        reason = reason_for(label, text)
        if reason:
            self.lake.known[reason] += 1
            raise RefusedError(f"{label}: known difference: {reason}")
        raise DifferenceError(self._difference(query, text, reader=reader))

    def _difference(self, query: Query | None, text: str, *, reader: str = "") -> Difference:
        script = list(self.script)
        if reader == "DuckDB":
            script.append(f"print(catalog.load_table({self.plain_name!r}).metadata_location)  # for iceberg_scan")
        elif reader:
            script.append(f"print(catalog.load_table({self.plain_name!r}).scan().to_arrow().to_pylist())")
        elif query is not None:
            version = f" {self._as_of(query)}" if query.version is not None else ""
            text_of_query = query.sql.replace("{t}", self.name + version)
            if query.through:
                script.append(f"# through a {query.through}:")
            script.append(f"sql({text_of_query!r}).show(100, False)")
        return Difference(Case(self.beginning, tuple(self.steps), query, reader), text, tuple(script))


def _has_no_json(schema: Struct) -> bool:
    return has_struct_keys(schema) or has_leaf(schema, "TIME(6)")


def run_case(lake: Lake, case: Case) -> Difference | None:
    """Run the history of a case on a new table; return the difference that it ends with, if there is one."""
    trial = Trial(lake, case.beginning)
    try:
        trial.begin()
        for step in case.steps:
            trial.apply(step)
        if case.reader == "DuckDB" and lake.duckdb is not None:
            trial.check_in_duckdb(lake.duckdb)
        elif case.reader:
            trial.check_in_process()
        elif case.query is not None:
            trial.check(case.query)
    except DifferenceError as found:
        return found.difference
    except (NotApplicableError, RefusedError):
        return None
    finally:
        trial.end()
    return None
