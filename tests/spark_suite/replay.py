"""One JVM that runs files of SQL, on Iceberg tables of Icefloe or, for comparison, on Spark's own Parquet tables, and writes what each statement returned.

`python -m tests.spark_suite.replay FOLDER RESULTS '{"tables": "iceberg", "classes": [...]}'`, where the classes are files of SQL.

Temporary views read tables that are made of their rows, if their types are those of Iceberg, so that the queries on them read files too. A file has a session
and a catalog of its own.
"""

import json
import logging
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)
from tests.spark_suite.compared import A_TABLE
from tests.spark_suite.fetched import DATA, INPUTS
from tests.spark_suite.sql_file import VIEW, read_sql_file

from icefloe import SqlCatalog
from icefloe.spark import attach
from icefloe.spark.runtime.start_session import session

CATALOG, NAMESPACE = "lake", "default"
CONF = {
    "spark.driver.memory": "2g",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "1",
    # A statement is too short for the second compiler of the JVM.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=512m -XX:+UseSerialGC",
    "spark.sql.session.timeZone": "America/Los_Angeles",
    "spark.sql.timeType.enabled": "true",  # as where Spark tests itself
    "spark.sql.legacy.setCommandRejectsSparkCoreConfs": "false",
}
IDENTICAL_TYPES = (
    BinaryType, BooleanType, DateType, DecimalType, DoubleType, FloatType, IntegerType, LongType, TimestampNTZType, TimestampType,
)  # fmt: skip
SECONDS_OF_A_STATEMENT = 120.0
WITHOUT_TABLE = re.compile(r"(?is)\s*(select|values|explain)\b(?!.*\b(from|table)\b).*")  # the same whatever the tables are
OTHER_FORMATS = re.compile(r"\busing\s+(parquet|orc|json|csv|hive)\b", re.IGNORECASE)
TEMPORARY = re.compile(r"\s*create\s+(or\s+replace\s+)?(global\s+)?temp(orary)?\b", re.IGNORECASE)  # such a view reads files, not a table
# Tables that Spark's suite makes before its files run.
ONEK = (
    "unique1 int, unique2 int, two int, four int, ten int, twenty int, hundred int, thousand int, twothousand int, fivethous int, tenthous int, "
    "odd int, even int, stringu1 string, stringu2 string, string4 string"
)
LOADED = {"aggtest": ("agg.data", "a int, b float"), "onek": ("onek.data", ONEK), "tenk1": ("tenk.data", ONEK)}
COMPUTED = {
    "testdata": "SELECT CAST(id AS int) AS key, CAST(id AS string) AS value FROM range(1, 101)",
    "arraydata": "SELECT * FROM VALUES (array(1, 2, 3), array(array(1, 2, 3))), (array(2, 3, 4), array(array(2, 3, 4))) AS t(arraycol, nestedarraycol)",
    "mapdata": "SELECT map(1, 'a' || n, 2, 'b' || n, 3, 'c' || n, 4, 'd' || n, 5, 'e' || n) AS mapcol FROM VALUES ('1'), ('2'), ('3'), ('4'), ('5') AS t(n)",
}


def main() -> None:
    logging.basicConfig(stream=sys.stderr)
    folder, results, wanted = Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3])
    folder.mkdir(parents=True)
    os.chdir(folder)
    conf = {**CONF, "spark.sql.warehouse.dir": str(folder / "spark-warehouse"), "spark.local.dir": str(folder / "local")}
    started = session(conf, master="local[1]", app_name="spark suite")
    try:
        with results.open("a") as file:
            for name in wanted["classes"]:
                _write(file, {"kind": "class", "class": name})
                replay = Replay(started.newSession(), folder, is_iceberg=wanted["tables"] == "iceberg")
                replay.run(name, file)
                replay.close()
            _write(file, {"kind": "end", "class": ""})
    finally:
        sys.stdout.flush()
        started.stop()
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)


def _write(file: TextIO, message: Mapping[str, Any]) -> None:
    file.write(json.dumps(message) + "\n")
    file.flush()


class Replay:
    """The statements of one file, in a session of their own."""

    def __init__(self, spark: SparkSession, folder: Path, *, is_iceberg: bool) -> None:
        self.spark, self.folder, self.is_iceberg = spark, folder, is_iceberg
        if is_iceberg:
            shutil.rmtree(folder / "warehouse", ignore_errors=True)
            (folder / "catalog.db").unlink(missing_ok=True)
            self.catalog = SqlCatalog(CATALOG, uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file:{folder}/warehouse")
            self.catalog.create_namespace(NAMESPACE)
            attach(spark, CATALOG, self.catalog)
            spark.sql(f"USE {CATALOG}.{NAMESPACE}")

    def run(self, name: str, results: TextIO) -> None:
        """Run the statements that read or write tables, and write the result of each."""
        file = read_sql_file(INPUTS, name)
        self._make_tables(" ".join(file.statements))
        for key, value in _settings_of(name, file.settings).items():
            self.spark.conf.set(key, value)
        for number, statement in enumerate(file.statements, 1):
            if WITHOUT_TABLE.fullmatch(statement):
                continue
            began = time.monotonic()
            _write(results, {"kind": "start", "class": name, "method": str(number)})
            result = self._result(statement)
            status = "failed" if "error" in result else "passed"
            message = {"kind": "result", "class": name, "method": str(number), "status": status, "seconds": time.monotonic() - began}
            _write(results, {**message, **result})

    def close(self) -> None:
        spark = self.spark
        spark.catalog.clearCache()
        if self.is_iceberg:
            self.catalog.close()
            return
        for database in spark.sql("SHOW DATABASES IN spark_catalog").collect():
            spark.sql(f"USE spark_catalog.`{database[0]}`")
            for row in spark.sql("SHOW VIEWS").collect():
                spark.sql(f"DROP VIEW IF EXISTS `{row.viewName}`")
            for row in spark.sql("SHOW TABLES").collect():
                spark.sql(f"DROP TABLE IF EXISTS `{row.tableName}`")
            if database[0] != "default":
                spark.sql("USE spark_catalog.default")
                spark.sql(f"DROP DATABASE `{database[0]}` CASCADE")
        shutil.rmtree(self.folder / "spark-warehouse", ignore_errors=True)

    def _make_tables(self, text: str) -> None:
        for name in (*LOADED, *COMPUTED):
            if re.search(rf"\b{name}\b", text, re.IGNORECASE):
                if name in LOADED:
                    file, schema = LOADED[name]
                    self.spark.read.schema(schema).option("sep", "\t").csv(str(DATA / file)).createOrReplaceTempView("loaded")
                query = "SELECT * FROM loaded" if name in LOADED else COMPUTED[name]
                self.spark.sql(f"CREATE TABLE {name} USING {self._source} AS {query}")
                self.spark.table(name).createOrReplaceTempView(name)  # whose name may be written in capitals, unlike that of a table

    @property
    def _source(self) -> str:
        return "iceberg" if self.is_iceberg else "parquet"

    def _result(self, statement: str) -> dict[str, Any]:
        timer = threading.Timer(SECONDS_OF_A_STATEMENT, self.spark.sparkContext.cancelAllJobs)
        timer.start()
        try:
            return {"sql": statement, **self._run(statement)}
        except Py4JJavaError as error:
            return {"sql": statement, "error": error.java_exception.getClass().getName(), "message": str(error.java_exception)[:1500]}
        except PySparkException as error:
            return {"sql": statement, "error": error.getCondition() or type(error).__name__, "message": str(error)[:1500]}
        finally:
            timer.cancel()

    def _run(self, statement: str) -> dict[str, Any]:
        view = VIEW.fullmatch(statement)
        if view is not None and self._is_made_of_a_table(view["name"], view["columns"], view["query"]):
            return {"schema": A_TABLE, "rows": []}
        if self.is_iceberg and not TEMPORARY.match(statement):
            statement = OTHER_FORMATS.sub("USING iceberg", statement)
        frame = self.spark.sql(statement)
        plan = frame._jdf.queryExecution()
        rows = self.spark._jvm.org.apache.spark.sql.execution.HiveResult.hiveResultString(plan.executedPlan())
        return {
            "schema": frame._jdf.schema().catalogString(),
            "rows": rows.mkString("\n").split("\n"),
            "sorted": _is_sorted(plan.analyzed()),
        }

    def _is_made_of_a_table(self, name: str, columns: str | None, query: str) -> bool:
        """Make a table of the rows of a temporary view, and the view of that table; return False where the rows cannot be those of an Iceberg table."""
        source, table = f"({query}) AS {name}{columns or ''}", f"table_of_{name.lower()}"
        try:
            frame = self.spark.sql(f"SELECT * FROM {source}")
        except PySparkException:
            return False
        if not _is_storable(frame):
            return False
        self.spark.sql(f"DROP TABLE IF EXISTS {table}")
        self.spark.sql(f"CREATE TABLE {table} USING {self._source} AS SELECT /*+ COALESCE(1) */ * FROM {source}")
        self.spark.table(table).createOrReplaceTempView(name)
        return True


def _settings_of(name: str, settings: dict[str, str]) -> dict[str, str]:
    by_folder = {}
    if name.startswith("nonansi/"):
        by_folder["spark.sql.ansi.enabled"] = "false"
    if name.startswith("timestampNTZ/"):
        by_folder["spark.sql.timestampType"] = "TIMESTAMP_NTZ"
    return {**by_folder, **settings}


def _is_storable(frame: DataFrame) -> bool:
    names = [name.lower() for name in frame.columns]
    return bool(names) and len(set(names)) == len(names) and _is_identical(frame.schema)


def _is_identical(one: DataType) -> bool:
    """Return True if both kinds of tables keep the type, also inside of it."""
    if isinstance(one, StructType):
        return (
            all(_is_identical(field.dataType) for field in one.fields) and len({name.lower() for name in one.names}) == len(one.names) > 0
        )
    if isinstance(one, ArrayType):
        return _is_identical(one.elementType)
    if isinstance(one, MapType):
        return _is_identical(one.keyType) and _is_identical(one.valueType)
    return isinstance(one, IDENTICAL_TYPES) or (type(one) is StringType and one == StringType())


def _is_sorted(plan: Any) -> bool:
    """Return True if the order of the rows is that of a sort: one above which only operators are that keep it."""
    name = plan.nodeName()
    if name == "Sort":
        return True
    if name in ("Project", "SubqueryAlias", "GlobalLimit", "LocalLimit", "Filter", "View", "WithCTE") and plan.children().size():
        return _is_sorted(plan.children().last())
    return False


if __name__ == "__main__":
    main()
