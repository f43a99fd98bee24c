"""One JVM of the run: a Spark session with Icefloe in it, and the classes of tests given to it. Results are written line by line to a file.

`python -m tests.java_suite.session FOLDER RESULTS '{"classes": [...], "methods": [...], "without": [...], "every_set": false}'`
"""

import json
import logging
import os
import shutil
import sys
import traceback
from pathlib import Path
from typing import Any

from tests.java_suite import fetched

from icefloe import SqlCatalog
from icefloe.catalog.file_system_catalog import FileSystemCatalog
from icefloe.maintenance import orphan_options
from icefloe.spark import attach
from icefloe.spark.runtime.start_session import session

CONF = {
    "spark.driver.memory": "3g",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    "spark.sql.legacy.respectNullabilityInTextDatasetConversion": "true",
    "spark.driver.host": "127.0.0.1",
    # The tests copy Hive tables; Hive's catalog is in the memory of the JVM.
    "spark.sql.catalogImplementation": "hive",
    "spark.hadoop.javax.jdo.option.ConnectionURL": "jdbc:derby:memory:suite;create=true",
    "spark.hadoop.datanucleus.schema.autoCreateAll": "true",
    "spark.hadoop.hive.metastore.schema.verification": "false",
    "spark.hadoop.hive.exec.dynamic.partition.mode": "nonstrict",
}
POLL_MILLISECONDS = 500


class Run:
    """The Python side of the run: it handles the messages of the Java side until its last class ended."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.warehouse = folder / "warehouse"
        self.warehouse.mkdir(parents=True)
        (folder / "temporary").mkdir()
        self.database = {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file:{self.warehouse}", "jdbc.schema-version": "V1"}
        conf = {
            **CONF,
            "spark.driver.extraClassPath": fetched.class_path(),
            "spark.sql.warehouse.dir": str(folder / "spark-warehouse"),
            "spark.local.dir": str(folder / "local"),
            "spark.driver.extraJavaOptions": f"-Dderby.stream.error.file={folder}/derby.log -Djava.io.tmpdir={folder}/temporary",
        }
        self.spark = session(conf, master="local[2]", app_name="java suite")
        self.suite = self.spark._jvm.icefloe.suite.Suite
        self.suite_catalog = SqlCatalog("suite", **self.database)
        self.suite_catalog.create_namespace("default")
        attach(self.spark, "spark_catalog", self.suite_catalog)  # as Java's session catalog: Hive's tables are behind it
        self.suite.open(self.spark._jsparkSession, str(folder))

    def run(self, wanted: dict[str, Any], results: Path) -> None:
        gateway = self.spark._sc._gateway
        lists = []
        for key in ("classes", "methods", "without"):
            names = gateway.new_array(gateway.jvm.java.lang.String, len(wanted[key]))
            for place, name in enumerate(wanted[key]):
                names[place] = name
            lists.append(names)
        messages = self.spark._jvm.icefloe.suite.Messages
        self.spark._jvm.icefloe.suite.Results.run(*lists, wanted["every_set"])
        with results.open("a") as file:
            while True:
                text = messages.next(POLL_MILLISECONDS)
                if text is None:
                    continue
                message = json.loads(text)
                if message["kind"] in ("attach", "clear"):
                    messages.answer(self._answer(message))
                    continue
                file.write(text + "\n")
                file.flush()
                if message["kind"] == "end":
                    return

    def _answer(self, message: dict[str, Any]) -> str:
        try:
            if message["kind"] == "attach":
                self._attach(message["name"], message["properties"])
            else:
                self._clear([Path(one.removeprefix("file:")) for one in message["warehouses"]])
        except Exception:  # noqa: BLE001 the test has to fail with it, not the run
            return traceback.format_exc()
        return ""

    def _attach(self, name: str, properties: dict[str, str]) -> None:
        """Attach a catalog of Icefloe instead of Java's catalog that a test configured."""
        kept = {key: value for key, value in properties.items() if key not in ("", "type", "catalog-impl", "uri", "warehouse")}
        if properties.get("type") == "hadoop":
            catalog = FileSystemCatalog(name, **kept, warehouse=properties["warehouse"])
            catalog.create_namespace_if_not_exists("default")  # Java's needs none
            attach(self.spark, name, catalog)
        else:
            attach(self.spark, name, SqlCatalog("suite", **kept, **self.database))

    def _clear(self, warehouses: list[Path]) -> None:
        catalog = self.suite_catalog
        for namespace in catalog.list_namespaces():
            for identifier in catalog.list_tables(namespace):
                catalog.drop_table(identifier)
            for identifier in catalog.list_views(namespace):
                catalog.drop_view(identifier)
            if namespace != ("default",):
                catalog.drop_namespace(namespace)
        for warehouse in (self.warehouse, *warehouses):
            shutil.rmtree(warehouse, ignore_errors=True)
            (warehouse / "default").mkdir(parents=True)
        spark = self.spark
        spark.catalog.clearCache()
        spark.sql("USE spark_catalog.default")
        for row in spark.sql("SHOW TABLES").collect():
            spark.sql(f"DROP {'VIEW' if row.isTemporary else 'TABLE'} IF EXISTS `{row.tableName}`")


def main() -> None:
    logging.basicConfig(stream=sys.stderr)
    logging.getLogger("icefloe.spark.bridge.callback").setLevel(logging.DEBUG)  # where in Python each error came from
    folder, results, wanted = Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3])
    folder.mkdir(parents=True)
    orphan_options.LEAST_AGE_MS = 0  # Java's procedure does not check the age of orphans in its tests
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
