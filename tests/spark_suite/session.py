"""One JVM of the run: a Spark context that Icefloe can attach to, and Spark's suites given to it. Results are written line by line to a file.

`python -m tests.spark_suite.session FOLDER RESULTS '{"classes": [...], "methods": [...], "left_out": [...]}'`
"""

import json
import logging
import os
import shutil
import sys
import traceback
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from tests.spark_suite import fetched

from icefloe import SqlCatalog
from icefloe.spark import attach
from icefloe.spark.runtime.start_session import session

CONF = {
    "spark.driver.memory": "3g",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.testkey": "true",
    "spark.unsafe.exceptionOnMemoryLeak": "true",
    "spark.sql.planChangeValidation": "true",  # as in Spark's build
    "spark.sql.session.timeZone": "America/Los_Angeles",  # which its suites give the JVM
}
# What Spark's build gives the JVM of its tests; a statement is too short for the second compiler.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=512m -XX:+UseSerialGC -Dspark.testing=true"
# With the namespaces that suites need: of files, of row-level operations, of SQL (`SuiteCatalog.java`).
CATALOGS = {"lake": ("default",), "cat": ("ns1",), "testcat": ("root",), "testcat2": ("root",), "testcat_atomic": ("root",)}
POLL_MILLISECONDS = 500


class Run:
    """The Python side of the run: it handles the messages of the Java side until its last suite ended."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        conf = {
            **CONF,
            "spark.driver.extraClassPath": fetched.class_path(),
            "spark.sql.warehouse.dir": str(folder / "spark-warehouse"),
            "spark.local.dir": str(folder / "local"),
            "spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} -Djava.io.tmpdir={folder}/temporary -Dspark.test.home={folder}",
        }
        (folder / "temporary").mkdir()
        os.environ["SPARK_TESTING"] = "1"
        self.spark = session(conf, master="local[2]", app_name="spark suite")
        self.catalogs = {
            name: SqlCatalog(
                name,
                uri=f"sqlite:///{folder}/{name}.db",
                warehouse=f"file:{folder}/warehouse/{name}",
                **{"table-default.format-version": "3"},
            )
            for name in CATALOGS
        }
        self.java = self.spark._jvm.icefloe
        self.java.sparksuite.Suites.open(self.spark._jsc.sc())
        self._clear()

    def run(self, wanted: dict[str, Any], results: Path) -> None:
        gateway = self.spark._sc._gateway
        lists = []
        for key in ("classes", "methods", "left_out"):
            names = gateway.new_array(gateway.jvm.java.lang.String, len(wanted[key]))
            for place, name in enumerate(wanted[key]):
                names[place] = name
            lists.append(names)
        self.java.sparksuite.Results.run(*lists)
        messages = self.java.suite.Messages
        with results.open("a") as file:
            while True:
                text = messages.next(POLL_MILLISECONDS)
                if text is None:
                    continue
                message = json.loads(text)
                if message["kind"] in ("attach", "clear"):
                    messages.answer(self._answer(message["kind"]))
                    continue
                file.write(text + "\n")
                file.flush()
                if message["kind"] == "end":
                    return

    def _answer(self, kind: str) -> str:
        try:
            if kind == "attach":
                self._attach()
            else:
                self._clear()
        except Exception:  # noqa: BLE001 the test has to fail with it, not the run
            return traceback.format_exc()
        return ""

    def _attach(self) -> None:
        of_suite = SparkSession(self.spark.sparkContext, self.java.sparksuite.Suites.session())
        of_suite.conf.set("spark.sql.parquet.fieldId.read.enabled", "true")
        # The end of a suite clears all accumulators, also PySpark's own, which every job in Python sends.
        self.spark._jvm.org.apache.spark.util.AccumulatorContext.register(self.spark.sparkContext._javaAccumulator)
        for name, catalog in self.catalogs.items():
            attach(of_suite, name, catalog)

    def _clear(self) -> None:
        for name, catalog in self.catalogs.items():
            _drop_all(catalog, (), CATALOGS[name])
            for kept in CATALOGS[name]:
                catalog.create_namespace_if_not_exists(kept)


def _drop_all(catalog: SqlCatalog, parent: tuple[str, ...], kept: tuple[str, ...]) -> None:
    for namespace in catalog.list_namespaces(parent):
        _drop_all(catalog, namespace, ())
        if not catalog.namespace_exists(namespace):
            continue  # it was there as the parent of others alone
        for identifier in catalog.list_tables(namespace):
            catalog.drop_table(identifier)
        if ".".join(namespace) not in kept:
            catalog.drop_namespace(namespace)


def main() -> None:
    logging.basicConfig(stream=sys.stderr)
    logging.getLogger("icefloe.spark.bridge.callback").setLevel(logging.DEBUG)  # where in Python each error came from
    folder, results, wanted = Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3])
    folder.mkdir(parents=True)
    run = Run(folder)
    try:
        run.run(wanted, results)
    finally:
        sys.stdout.flush()
        run.spark.stop()
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)


if __name__ == "__main__":
    main()
