"""Many statements in a session of its own; the live objects after some of them and after all are printed as JSON.

`python -m tests.security.statements_without_end FOLDER FIRST MORE`: objects are counted after the first FIRST statements, which fill all caches, and after MORE
further ones.
"""

import gc
import json
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from icefloe import SqlCatalog
from icefloe.spark.attach_catalog import attach
from icefloe.spark.bridge.gateway import gateway_of
from icefloe.spark.runtime.start_session import session

# Classes of the JVM whose objects a statement may leave behind, by the beginning of their names.
WATCHED = (
    "org.apache.spark.broadcast.",
    "org.apache.spark.rdd.",
    "org.apache.spark.sql.execution.columnar.",
    "icefloe.",
    "jdk.proxy",
    "com.sun.proxy",
)
WATCHED_MORE = (
    "org.apache.spark.sql.classic.Dataset",
    "org.apache.spark.sql.execution.QueryExecution",
    "py4j.reflection.PythonProxyHandler",
)
STATEMENTS = (
    "INSERT INTO lake.db.mor SELECT id, id % 7, 'n' FROM range({n}, {n} + 20)",
    "SELECT k, count(*) FROM lake.db.mor WHERE id > 3 GROUP BY k",
    "DELETE FROM lake.db.mor WHERE id % 20 = {n} % 20 AND id >= {n} - 200",
    "UPDATE lake.db.mor SET s = 'u' WHERE id = {n} + 5",
    "MERGE INTO lake.db.mor t USING (SELECT id, 3 AS k, 'm' AS s FROM range({n}, {n} + 30)) s ON t.id = s.id "
    "WHEN MATCHED AND t.k = 2 THEN DELETE WHEN MATCHED THEN UPDATE SET s = s.s WHEN NOT MATCHED THEN INSERT *",
    "SELECT count(*) FROM lake.db.mor",
    "UPDATE lake.db.cow SET s = 'u{n}' WHERE id % 10 = {n} % 10",
    "MERGE INTO lake.db.cow t USING (SELECT {n} % 50 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET k = k + 1",
    "DELETE FROM lake.db.cow WHERE id = {n} % 50 AND k > 100",
    "SELECT * FROM lake.db.a_view WHERE k = 3",
    "CREATE OR REPLACE VIEW lake.db.a_view AS SELECT * FROM lake.db.mor WHERE id <> {n}",
    "SELECT m.id FROM lake.db.mor m JOIN lake.db.cow c ON m.id = c.id WHERE c.k > 1",
    "CALL lake.system.rewrite_manifests(table => 'db.mor')",
    "CALL lake.system.expire_snapshots(table => 'db.mor', older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 2)",
    "SELECT count(*) FROM lake.db.mor.files",
    "CREATE OR REPLACE TABLE lake.db.made AS SELECT id FROM lake.db.cow",
    "INSERT OVERWRITE lake.db.made SELECT id FROM range(5)",
    "SELECT * FROM lake.db.mor VERSION AS OF 'main' WHERE id IN (SELECT id FROM lake.db.cow)",
)


def living(spark: SparkSession) -> dict[str, Any]:
    """Count the live objects in Python and in the JVM, after each has collected its garbage."""
    gateway = gateway_of(spark)
    jvm = gateway.jvm
    for _ in range(3):  # the garbage of each side refers to objects of the other
        gc.collect()
        jvm.System.gc()
        time.sleep(2)
    context, java = spark.sparkContext, spark._jsparkSession
    server = jvm.java.lang.management.ManagementFactory.getPlatformMBeanServer()
    # The server's class is not public, and Py4J calls public ones; the interface's method is.
    invoke = next(
        method for method in jvm.java.lang.Class.forName("javax.management.MBeanServer").getMethods() if method.getName() == "invoke"
    )
    signature = gateway.new_array(jvm.String, 1)
    signature[0] = "[Ljava.lang.String;"
    options = gateway.new_array(jvm.Object, 1)
    options[0] = gateway.new_array(jvm.String, 0)
    arguments = gateway.new_array(jvm.Object, 4)
    arguments[0] = jvm.javax.management.ObjectName("com.sun.management:type=DiagnosticCommand")
    arguments[1], arguments[2], arguments[3] = "gcClassHistogram", options, signature
    histogram = invoke.invoke(server, arguments)
    objects: Counter[str] = Counter()
    for line in histogram.splitlines():
        words = line.split()
        if len(words) >= 4 and words[3].startswith((*WATCHED, *WATCHED_MORE)):
            objects[words[3].split("$")[0].split("/")[0]] += int(words[1])
    files = [
        str(path)
        for folder in (tempfile.gettempdir(), os.environ["SPARK_LOCAL_DIRS"])
        for path in Path(folder).rglob("*")
        if "icefloe" in path.name
    ]
    return {
        "persistent RDDs": context._jsc.getPersistentRDDs().size(),
        "cached relations": 0 if java.sharedState().cacheManager().isEmpty() else 1,
        "Python proxies": len(gateway.gateway_property.pool),
        "heap": jvm.java.lang.management.ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed(),
        "broadcast blocks": len(list(Path(os.environ["SPARK_LOCAL_DIRS"]).rglob("broadcast_*"))),
        "temporary files": len(files),
        "temporary views": spark.sql("SHOW VIEWS").where("isTemporary").count(),
        "Python threads": len([thread for thread in threading.enumerate() if "icefloe" in thread.name]),
        "Python objects": dict(
            Counter(
                f"{type(item).__module__}.{type(item).__qualname__}"
                for item in gc.get_objects()
                if str(type(item).__module__).startswith("icefloe.")
            )
        ),
        "JVM objects": dict(objects),
    }


def main(folder: Path, first: int, more: int) -> None:
    """Run the statements, and print the live objects before and after the later ones."""
    local = folder / "local"
    local.mkdir()
    os.environ["SPARK_LOCAL_DIRS"] = str(local)
    tempfile.tempdir = str(folder / "tmp")
    Path(tempfile.tempdir).mkdir()
    conf = {
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.retainedJobs": "10",
        "spark.ui.retainedStages": "10",
        "spark.sql.ui.retainedExecutions": "5",
    }
    conf |= {"spark.ui.enabled": "false", "spark.driver.memory": "2g", "spark.ui.retainedTasks": "10"}
    spark = session(conf, master="local[2]")
    lake = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder / "warehouse"))
    lake.create_namespace("db")
    attach(spark, "lake", lake)
    for name, mode in (("mor", "merge-on-read"), ("cow", "copy-on-write")):
        modes = ", ".join(f"'write.{what}.mode'='{mode}'" for what in ("delete", "update", "merge"))
        spark.sql(f"CREATE TABLE lake.db.{name} (id bigint, k bigint, s string) TBLPROPERTIES ({modes})")
        spark.sql(f"INSERT INTO lake.db.{name} SELECT id, id % 7, 'x' FROM range(50)")
    spark.sql("CREATE VIEW lake.db.a_view AS SELECT * FROM lake.db.mor")
    texts = enumerate(cycle(STATEMENTS))
    found = []
    for many in (first, more):
        for number, text in islice(texts, many):
            spark.sql(text.format(n=number)).collect()
        found.append(living(spark))
    print("found " + json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
