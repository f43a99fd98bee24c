"""Versions of Spark that Icefloe is not proven on: older ones are refused, newer ones must first pass a version probe on a small table."""

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
from pyspark.sql import SparkSession

import icefloe.spark
from icefloe import SqlCatalog
from icefloe.errors import EngineError
from icefloe.spark import sql_probe
from icefloe.spark.bridge import gateway, java_compiler
from icefloe.spark.bridge.gateway import gateway_of
from icefloe.spark.runtime.spark_versions import PROVEN_VERSIONS, check_version, is_proven
from icefloe.spark.scan import native_scan, spark_scan, version_probe

ROWS = pa.table({"id": pa.array(range(5), pa.int64())})

# A process with a PySpark of version 3.5; the real one is not imported.
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
outputs = [table.scan().to_arrow()["id"].to_pylist()]
def importing():
    import icefloe.spark
for action in (importing, lambda: table.scan().to_spark()):
    try:
        action()
    except EngineError as error:
        outputs.append(str(error))
print(json.dumps(outputs))
"""


def test_an_older_pyspark_is_refused_and_arrow_still_works(tmp_path: Path) -> None:
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


# A process of its own: in the session of the tests the Java classes are loaded already.
WITHOUT_JAVA_CLASSES = """
from pathlib import Path
import icefloe.spark
from icefloe import SqlCatalog
from icefloe.errors import EngineError
from icefloe.spark.bridge import java_compiler
from pyspark.sql import SparkSession
SparkSession.version = property(lambda _: "4.4.0")
java_compiler.files = lambda _: Path({sources!r})
spark = icefloe.spark.session(master="local[1]")
lake = SqlCatalog("lake", uri="sqlite:///{folder}/catalog.db", warehouse="{folder}/warehouse")
try:
    icefloe.spark.attach(spark, "other", lake)
except EngineError:
    print("refused")
icefloe.spark.register(spark, other=lake)
print(spark.read.format("icefloe").load("other.db.t").count())
"""


@pytest.fixture
def newer(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SparkSession:
    """The session with an unknown version, in a process without past probes and without cached classes."""
    monkeypatch.setattr(SparkSession, "version", property(lambda _: "4.4.0"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setitem(gateway_of(spark).__dict__, version_probe._PROBED, set())
    return spark


@pytest.mark.spark
def test_a_newer_spark_is_probed_once_and_then_used(newer: SparkSession, lake: SqlCatalog, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        icefloe.spark.attach(newer, "newer", lake)
    outputs = [record.getMessage() for record in caplog.records if "4.4.0" in record.getMessage()]
    assert [text.rpartition("; ")[2] for text in outputs] == ["the probe of scans passed", "the probe of statements passed"]
    assert all(version in outputs[0] for version in PROVEN_VERSIONS)
    newer.sql("CREATE TABLE newer.db.t AS SELECT 7 AS x")
    assert [tuple(row) for row in newer.table("newer.db.t").collect()] == [(7,)]
    # Another process finds that the probe passed, and does not repeat it.
    gateway_of(newer).__dict__[version_probe._PROBED].clear()

    def never(*_: object) -> Any:
        raise AssertionError("probed again")

    version_probe.run_probe(newer, "scans", never)
    version_probe.run_probe(newer, "statements", never)


@pytest.mark.spark
@pytest.mark.slow
def test_no_catalog_is_attached_to_a_newer_spark_that_returns_wrong_rows(
    newer: SparkSession, lake: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(spark: SparkSession, request: Any, *_: object) -> Any:
        return spark_scan.planned_rows(spark, request).limit(1)._jdf.queryExecution().optimizedPlan(), None

    monkeypatch.setattr(spark_scan, "plan_of_rows", wrong)
    with pytest.raises(EngineError) as caught:
        icefloe.spark.attach(newer, "wrong", lake)
    assert "Spark 4.4.0 is not a version that Icefloe is proven on" in str(caught.value)
    wheres = [problem.where for problem in caught.value.problems]
    assert sql_probe.STATEMENTS[2][0] in wheres
    assert "; expected " in str(caught.value)
    assert "use a proven version" in str(caught.value)
    assert newer.conf.get("spark.sql.catalog.wrong", None) is None


@pytest.mark.spark
@pytest.mark.slow
def test_a_newer_spark_whose_own_scan_returns_wrong_rows_is_refused(
    newer: SparkSession, lake: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake.create_table("db.t", ROWS.schema)
    table.append(ROWS)
    right = native_scan.native_rows
    with monkeypatch.context() as patch:
        patch.setattr(native_scan, "native_rows", lambda *given, **named: right(*given, **named).limit(1))
        for _ in range(2):
            with pytest.raises(EngineError, match="the probe of scans on a small table failed") as caught:
                table.scan().to_spark()
            assert "rows where true" in [problem.where for problem in caught.value.problems]
            assert "; expected " in str(caught.value)
    assert sorted(row.id for row in table.scan().to_spark().collect()) == [0, 1, 2, 3, 4]


@pytest.mark.spark
@pytest.mark.slow
def test_java_classes_that_do_not_compile_on_a_newer_spark_are_refused_with_a_next_step(
    newer: SparkSession, lake: SqlCatalog, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sources = tmp_path / "sources"
    (sources / "java").mkdir(parents=True)
    for name in (*java_compiler.SOURCES, *java_compiler.FORMATS):
        text = (files("icefloe.spark.bridge") / "java" / f"{name}.java").read_text("utf-8")
        (sources / "java" / f"{name}.java").write_text(text.replace("DataSourceV2ScanRelation", "DataSourceV3ScanRelation"))
    monkeypatch.setattr(java_compiler, "files", lambda _: sources)
    monkeypatch.delitem(gateway_of(newer).__dict__, gateway._LOADER_ATTRIBUTE, raising=False)
    with pytest.raises(EngineError, match=r"do not compile on Spark 4\.4\.0, which is not a version that Icefloe is proven on") as caught:
        icefloe.spark.attach(newer, "other", lake)
    outputs = str(caught.value)
    assert all(version in outputs for version in PROVEN_VERSIONS)
    assert "DataSourceV3ScanRelation" in outputs
    assert re.search(r"\.java', Line \d+", outputs)
    assert "DataSourceV3ScanRelation" in outputs
    assert "spark.read.format('icefloe')" in outputs
    assert newer.conf.get("spark.sql.catalog.glue", None) is None
    # The next step of the message works.
    table = lake.create_table("db.t", ROWS.schema)
    table.append(ROWS)
    with pytest.raises(EngineError, match="do not compile"):
        table.scan().to_spark()
    program = WITHOUT_JAVA_CLASSES.format(sources=str(sources), folder=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.splitlines() == ["refused", "5"]
