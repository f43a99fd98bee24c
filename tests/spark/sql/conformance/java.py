"""The results of Java's Iceberg 1.10.2 for every statement, on its own Spark, in one session, in an environment of its own."""

import json
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.oracle.conftest import ORACLES, interpreter
from tests.spark.sql.conformance.conformance import FOLDER, Outcome

# A catalog in memory, because Java's catalog of folders neither renames tables nor has views.
SCRIPT = """
import json, os, sys
sys.path[:0] = sys.argv[2:4]
from java_session import session
from tests.spark.sql.conformance.conformance import files, outcomes
folder = sys.argv[1]
lake = "spark.sql.catalog.lake"
spark = session(folder + "/j", **{
    lake: "org.apache.iceberg.spark.SparkCatalog",
    lake + ".catalog-impl": "org.apache.iceberg.inmemory.InMemoryCatalog",
    lake + ".io-impl": "org.apache.iceberg.hadoop.HadoopFileIO",
    lake + ".warehouse": folder + "/lake",
    lake + ".cache-enabled": "false",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.warehouse.dir": folder + "/spark",
})
def run(text):
    return spark.sql(text).collect()
for path in files():
    if len(sys.argv) > 4 and path.stem not in sys.argv[4:]:
        continue
    for one, found in outcomes(run, path, "java", folder):
        print("OUTCOME " + json.dumps([path.stem, one.line, found.rows, found.error, found.words]), flush=True)
    for view in spark.catalog.listTables():  # temporary views of one file would be listed in the next one
        if view.isTemporary:
            spark.catalog.dropTempView(view.name)
"""


def java_outcomes(*subjects: str) -> dict[tuple[str, int], Outcome]:
    """Return the result of Java for each statement that is not for Icefloe alone, by file and line."""
    with TemporaryDirectory() as folder:
        command = [interpreter("java"), "-c", SCRIPT, folder, str(ORACLES), str(FOLDER.parents[3]), *subjects]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(folder))
    assert done.returncode == 0, done.stderr[-3000:]
    found = {}
    for line in done.stdout.splitlines():
        if line.startswith("OUTCOME "):
            subject, number, rows, error, words = json.loads(line.removeprefix("OUTCOME "))
            found[subject, number] = Outcome(rows=tuple(rows), error=error, words=words)
    return found
