"""The tables of a seed, one after the other, with the statements that are compared on each."""

from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from random import Random

import pyspark
from tests.fuzz_sql.duckdb_opinion import DuckDB
from tests.fuzz_sql.histories import HistoryMaker
from tests.fuzz_sql.partitioned_histories import STAND_INS, PartitionedHistoryMaker
from tests.fuzz_sql.queries import Query, QueryMaker, everything
from tests.fuzz_sql.schemas import has_leaf
from tests.fuzz_sql.shrinking import shrunk
from tests.fuzz_sql.steps import NotApplicableError, Step
from tests.fuzz_sql.trials import Difference, DifferenceError, Lake, RefusedError, Trial
from tests.fuzz_sql.wider_queries import WiderQueryMaker

import icefloe.spark
from icefloe import SqlCatalog

QUERIES_AFTER_A_STEP = 40
TOGETHER = 20  # how many statements are run as the parts of one: more need more passes of Spark's optimizer over all of them
ALONE = 0.04  # the share of statements that are run one by one, as users run them
# Small tables: one task a query, plans that stay as they are, and small pages of memory for sorts and groups. No code runs for long, so that Java's quick
# compiler alone compiles it; its own default for the memory of compiled code is too little for Spark.
SESSION = {
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=512m -XX:+UseSerialGC -Xms1500m -Xmn900m -XX:MetaspaceSize=400m",
    "spark.buffer.pageSize": "1m",
    "spark.ui.retainedExecutions": "1",
    "spark.sql.ui.retainedExecutions": "1",
    "spark.ui.retainedJobs": "1",
    "spark.ui.retainedStages": "1",
    "spark.ui.retainedTasks": "1",
    "spark.ui.liveUpdate.period": "-1",
    "spark.shuffle.compress": "false",
    "spark.broadcast.compress": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.files.maxPartitionNum": "1",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.sql.timeType.enabled": "true",
    "spark.sql.timestampNanosTypes.enabled": "true",
    "spark.sql.session.timeZone": "UTC",  # the judge has the partitions of times by it
}
# Kinds of tables. Each has choices of its own for a seed, so that what is added to one leaves the tables of the other as they are.
MIXED, PARTITIONED = "mixed", "partitioned"
FAMILIES = (MIXED, PARTITIONED)


def started_lake(folder: Path, settings: Mapping[str, str]) -> Lake:
    """Start a session, with more settings, that has a catalog in a folder."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder / "warehouse"))
    spark = icefloe.spark.session({**SESSION, **settings}, master="local[1]", catalogs={"lake": catalog}, app_name="icefloe fuzz-sql")
    # Each scan of files sends a copy of the settings of Hadoop to its task; they are a thousand defaults, which are in its code too.
    spark.sparkContext._jsc.hadoopConfiguration().clear()
    catalog.create_namespace("db")
    return Lake(spark, catalog, folder)


class Run:
    """Tables of a seed, and what came of them."""

    def __init__(self, lake: Lake, seed: int, *, shrink_seconds: float, queries_after_a_step: int = QUERIES_AFTER_A_STEP) -> None:
        self.lake = lake
        self.queries_after_a_step = queries_after_a_step
        self.seed = seed
        self.shrink_seconds = shrink_seconds
        self.statements = 0
        self.labels: Counter[str] = Counter()
        self.both_refused: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.one_by_one: Counter[str] = Counter()  # why statements were run one by one
        self.differences: list[Difference] = []
        self.read_by_duckdb = 0
        self.not_read_by_duckdb: Counter[str] = Counter()  # why

    @cached_property
    def refused_types(self) -> dict[str, str]:
        """The types that columns cannot have here, each with who refuses it and why."""
        return self.lake.refused_types(STAND_INS)

    def histories(self, number: int, family: str) -> tuple[HistoryMaker, Random, type[QueryMaker]]:
        """Return the maker of a table's history, the source of choices for its queries, and their maker."""
        stream = f"{self.seed}:{number}" if family == MIXED else f"{self.seed}:{number}:{family}"
        chosen, of_queries = Random(stream), Random(f"{stream}:queries")
        if family == MIXED:
            return HistoryMaker(chosen), of_queries, QueryMaker
        return PartitionedHistoryMaker(chosen, missing=self.refused_types.keys()), of_queries, WiderQueryMaker

    def table(self, number: int, family: str = MIXED, *, most: int | None = None) -> list[str]:
        """Run a table's history; return the report of the difference that ended it.

        Args:
            number: The table of the seed.
            family: Its kind.
            most: The largest number of statements in all.
        """
        maker, of_queries, query_maker = self.histories(number, family)
        chosen = maker.chosen
        trial = Trial(self.lake, maker.beginning())
        try:
            trial.begin()
            for place in range(chosen.randint(4, 10)):
                make = (maker.insert, maker.second_step)[place] if place < 2 else maker.step
                if self._applied(trial, make(trial.schema)):
                    self._checked(trial, query_maker(of_queries, maker.values.of_source(of_queries), trial.schema))
                if most is not None and self.statements >= most:
                    break
        except DifferenceError as found:
            difference = found.difference
            if self.shrink_seconds:
                difference = shrunk(self.lake, difference, seconds=self.shrink_seconds)
            self.differences.append(difference)
            return [self._report(number, family, difference)]
        finally:
            trial.end()
        return []

    def _applied(self, trial: Trial, step: Step) -> bool:
        try:
            self._count(step.label)
            trial.apply(step)
        except RefusedError as refused:
            self.refused[str(refused)] += 1
            return False
        except NotApplicableError:
            return False
        return True

    def _checked(self, trial: Trial, queries: QueryMaker) -> None:
        """Compare all rows, then some statements on this version of the table, and one or two on earlier ones.

        Statements are chosen by another source than the history, which stays the same with more of them or fewer.
        """
        chosen = queries.chosen
        statements = [everything(trial.schema), *(queries.query() for _ in range(self.queries_after_a_step))]
        versions = trial.versions()
        if len(versions) > 1 and chosen.random() < 0.5:
            place = chosen.choice(list(versions))
            statements.append(type(queries)(chosen, queries.make.values, versions[place]).of_version(place))
        for statement in statements:
            self._count(statement.label)
        alone = [(statement, "by choice") for statement in statements if chosen.random() < ALONE]
        together = [statement for statement in statements if statement not in [chosen for chosen, _ in alone]]
        for first in range(0, len(together), TOGETHER):
            alone += trial.check_together(together[first : first + TOGETHER])
        for statement, reason in alone:
            self.one_by_one[reason] += 1
            self._check(trial, statement)
        if chosen.random() < 0.15:
            statement = queries.created()
            self._count(statement.label)
            self._check(trial, statement)
        if chosen.random() < 0.3 and not has_leaf(trial.schema, "VARIANT"):
            self._count("scan in process")
            trial.check_in_process()
        if self.lake.duckdb is not None:
            self._asked(trial, self.lake.duckdb)

    def _asked(self, trial: Trial, duckdb: DuckDB) -> None:
        """Compare all rows with those that DuckDB reads."""
        try:
            reason = trial.check_in_duckdb(duckdb)
        except RefusedError:
            return
        self.not_read_by_duckdb.update([reason] if reason else [])
        self.read_by_duckdb += not reason

    def _check(self, trial: Trial, statement: Query) -> None:
        try:
            right = trial.check(statement)
        except RefusedError:
            return
        if right.error:
            self.both_refused[f"{statement.label}: {right.error}"] += 1

    def _count(self, label: str) -> None:
        self.statements += 1
        self.labels[label] += 1

    def _report(self, number: int, family: str, difference: Difference) -> str:
        lines = [
            f"DIFFERENCE  --seed {self.seed} --table {number} --family {family}, Spark {pyspark.__version__}",
            difference.text,
            "Repeat it by:",
            "",
        ]
        lines += [
            "import icefloe.spark",
            "from icefloe import FixedType, SqlCatalog, UUIDType",
            'catalog = SqlCatalog("lake", uri="sqlite:///:memory:", warehouse="/tmp/warehouse")',
            f"spark = icefloe.spark.session({SESSION!r}, master='local[1]', catalogs={{'lake': catalog}})",
            "sql = spark.sql",
            'catalog.create_namespace("db")',
        ]
        table = (
            "catalog.load_table('db."
            + next((line.split("lake.db.")[1].split(" ")[0] for line in difference.script if "lake.db." in line), "t")
            + "')"
        )
        text = "\n".join(difference.script)
        if "update_schema(" in text:
            lines += [
                "def update_schema(path, kind):",
                f"    with {table}.update_schema() as update:",
                "        update.add_column(path, kind)",
            ]
        if "delete_keys(" in text:
            lines += ["def delete_keys(query, names):", f"    {table}.delete_keys(sql(query).toArrow(), names)"]
        if "dynamic_overwrite(" in text:
            lines += [
                "def dynamic_overwrite(statement):",
                "    spark.conf.set('spark.sql.sources.partitionOverwriteMode', 'dynamic')",
                "    sql(statement)",
                "    spark.conf.unset('spark.sql.sources.partitionOverwriteMode')",
            ]
        return "\n".join([*lines, *difference.script, ""])
