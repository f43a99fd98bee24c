"""Versions of Spark that Icefloe is not proven on: older ones are refused by name, newer ones are tried on a small table, and never trusted before."""

import json
import logging
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import icefloe.spark
from icefloe import SqlCatalog
from icefloe.errors import EngineError
from icefloe.spark import sql_probe as sql_trial
from icefloe.spark.bridge import java_compiler as java_compile
from icefloe.spark.bridge.gateway import gateway_of
from icefloe.spark.runtime.spark_versions import PROVEN_VERSIONS, check_version, is_proven
from icefloe.spark.scan import native_scan, pushed_scan, version_probe

ROWS = pa.table({"id": pa.array(range(5), pa.int64())})

# A process whose PySpark says that it is 3.5: of the real one nothing is imported.
OLD = """
import json
import pyarrow as pa
import pyspark
from icefloe import SqlCatalog
from icefloe.errors import EngineError
lake = SqlCatalog("lake", uri="sqlite:///:memory:", warehouse={folder!r})
lake.create_namespace("db")
table = lake.create_table("db.t", pa.schema([("id", pa.int64())]))
table.append(pa.table({{"id": [1, 2, 3]}}))
table.delete("id = 2")
said = [table.scan().to_arrow()["id"].to_pylist()]
def importing():
    import icefloe.spark
for action in (importing, lambda: table.scan().to_spark()):
    try:
        action()
    except EngineError as error:
        said.append(str(error))
print(json.dumps(said))
"""


def test_an_older_pyspark_is_refused_by_name_and_arrow_goes_on(tmp_path: Path) -> None:
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").write_text("__version__ = '3.5.9'\n")
    program = f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\n" + OLD.format(folder=str(tmp_path / "warehouse"))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    rows, *refusals = json.loads(done.stdout)
    assert rows == [1, 3]
    assert len(refusals) == 2
    for refusal in refusals:
        assert refusal.startswith("Spark 3.5.9 is older than 4.0")
        assert "install pyspark 4.0 or later" in refusal


@pytest.mark.parametrize(
    ("version", "proven"),
    [
        ("4.0.0", True),
        ("4.1.4-amzn-1", True),
        ("4.3.7", True),
        ("4.4.0", False),
        ("4.10.0", False),
        ("5.0.0.dev1", False),
        ("unknown", False),
    ],
)
def test_patch_releases_of_proven_versions_are_proven_and_all_others_are_not(version: str, proven: bool) -> None:
    check_version(version)
    assert is_proven(version) == proven
    with pytest.raises(EngineError, match=r"older than 4\.0"):
        check_version("3.5.9")


# A process of its own, as no class of the glue is there: in the session of the tests they are.
WITHOUT_GLUE = """
from pathlib import Path
import icefloe.spark
from icefloe import SqlCatalog
from icefloe.errors import EngineError
from icefloe.spark.bridge import java_compiler as java_compile
from pyspark.sql import SparkSession
SparkSession.version = property(lambda _: "4.4.0")
java_compile.files = lambda _: Path({sources!r})
spark = icefloe.spark.session(master="local[1]")
lake = SqlCatalog("lake", uri="sqlite:///{folder}/catalog.db", warehouse="{folder}/warehouse")
try:
    icefloe.spark.attach(spark, "glue", lake)
except EngineError:
    print("refused")
icefloe.spark.register(spark, glue=lake)
print(spark.read.format("icefloe").load("glue.db.t").count())
"""


@pytest.fixture
def newer(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SparkSession:
    """The session, which says that it is of a version that nobody has seen, in a process that has tried nothing and has no classes kept."""
    monkeypatch.setattr(SparkSession, "version", property(lambda _: "4.4.0"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setitem(gateway_of(spark).__dict__, version_probe._TRIED, set())
    return spark


@pytest.mark.spark
def test_a_newer_spark_is_tried_once_and_then_used(newer: SparkSession, lake: SqlCatalog, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        icefloe.spark.attach(newer, "newer", lake)
    said = [record.getMessage() for record in caplog.records if "4.4.0" in record.getMessage()]
    assert [text.rpartition("; ")[2] for text in said] == ["a trial of scans went well", "a trial of statements went well"]
    assert all(version in said[0] for version in PROVEN_VERSIONS)
    newer.sql("CREATE TABLE newer.db.t AS SELECT 7 AS x")
    assert [tuple(row) for row in newer.table("newer.db.t").collect()] == [(7,)]
    # Another process finds that the trial passed, and does not repeat it.
    gateway_of(newer).__dict__[version_probe._TRIED].clear()

    def never(*_: object) -> Any:
        raise AssertionError("tried again")

    version_probe.try_once(newer, "scans", never)
    version_probe.try_once(newer, "statements", never)


@pytest.mark.spark
def test_a_newer_spark_that_answers_wrong_is_not_attached(newer: SparkSession, lake: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    right = pushed_scan.read

    def wrong(spark: SparkSession, request: Any) -> DataFrame:
        return right(spark, request).limit(1)

    monkeypatch.setattr(pushed_scan, "read", wrong)
    with pytest.raises(EngineError) as caught:
        icefloe.spark.attach(newer, "wrong", lake)
    assert "Spark 4.4.0 is not a version that Icefloe is proven on" in str(caught.value)
    wheres = [problem.where for problem in caught.value.problems]
    assert sql_trial.STATEMENTS[2][0] in wheres
    assert "is right" in str(caught.value)
    assert "use a proven version" in str(caught.value)
    assert newer.conf.get("spark.sql.catalog.wrong", None) is None


@pytest.mark.spark
def test_a_newer_spark_whose_own_scan_reads_wrong_is_not_read_with(
    newer: SparkSession, lake: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake.create_table("db.t", ROWS.schema)
    table.append(ROWS)
    right = native_scan.native_rows
    with monkeypatch.context() as patch:
        patch.setattr(native_scan, "native_rows", lambda *given, **named: right(*given, **named).limit(1))
        for _ in range(2):
            with pytest.raises(EngineError, match="scans were tried on a small table, and went wrong") as caught:
                table.scan().to_spark()
            assert "rows where true" in [problem.where for problem in caught.value.problems]
            assert "is right" in str(caught.value)
    assert sorted(row.id for row in table.scan().to_spark().collect()) == [0, 1, 2, 3, 4]


@pytest.mark.spark
@pytest.mark.slow
def test_glue_that_a_newer_spark_does_not_compile_is_refused_with_what_works(
    newer: SparkSession, lake: SqlCatalog, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sources = tmp_path / "sources"
    sources.mkdir()
    for name in (*java_compile.SOURCES, *java_compile.FORMATS):
        text = (files("icefloe.spark.bridge") / f"{name}.java").read_text("utf-8")
        (sources / f"{name}.java").write_text(text.replace("DataSourceV2ScanRelation", "DataSourceV3ScanRelation"))
    monkeypatch.setattr(java_compile, "files", lambda _: sources)
    monkeypatch.delitem(gateway_of(newer).__dict__, java_compile._LOADER_ATTRIBUTE, raising=False)
    with pytest.raises(EngineError, match=r"does not compile on Spark 4\.4\.0, which is not a version that Icefloe is proven on") as caught:
        icefloe.spark.attach(newer, "glue", lake)
    said = str(caught.value)
    assert all(version in said for version in PROVEN_VERSIONS)
    assert "DataSourceV3ScanRelation" in said
    assert re.search(r"\.java', Line \d+", said)
    assert "DataSourceV3ScanRelation" in said
    assert "spark.read.format('icefloe')" in said
    assert newer.conf.get("spark.sql.catalog.glue", None) is None
    # What the message says works there does.
    table = lake.create_table("db.t", ROWS.schema)
    table.append(ROWS)
    with pytest.raises(EngineError, match="does not compile"):
        table.scan().to_spark()
    program = WITHOUT_GLUE.format(sources=str(sources), folder=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.splitlines() == ["refused", "5"]
