"""Java's JdbcCatalog on a SQLite file: the head of a script that opens it, and Debian's driver, unpacked into a cache where it is not installed."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.oracle.conftest import ORACLES, run

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "icefloe-tests" / "sqlite-jdbc"
JAR, LIBRARY = "usr/share/java/sqlite-jdbc.jar", "libsqlitejdbc.so"

# `spark`, whose catalog `lake` is Java's JdbcCatalog at schema V1 on FOLDER/catalog.db, and `jdbc`, that catalog itself; the script adds to `results`.
HEAD = """
import json, sys
folder, oracles, jar, libraries = sys.argv[1:5]
sys.path.insert(0, oracles)
from java_session import session
catalog = "spark.sql.catalog.lake"
spark = session(folder, **{
    "spark.driver.extraClassPath": jar, "spark.driver.extraJavaOptions": "-Djava.library.path=" + libraries,
    catalog: "org.apache.iceberg.spark.SparkCatalog", catalog + ".type": "jdbc", catalog + ".uri": f"jdbc:sqlite:{folder}/catalog.db",
    catalog + ".warehouse": folder + "/warehouse", catalog + ".cache-enabled": "false", catalog + ".clients": "1",
    catalog + ".jdbc.schema-version": "V1", catalog + ".jdbc.busy_timeout": "30000",
})
iceberg = spark._jvm.org.apache.iceberg
# Spark's own catalog object: its driver keeps a read lock on the file, and another pool of the same process would wait for the lock forever.
jdbc = spark._jsparkSession.sessionState().catalogManager().catalog("lake").icebergCatalog()
parse = iceberg.catalog.TableIdentifier.parse
results = {}
def rows(sql):
    return [list(row) for row in spark.sql(sql).collect()]
"""
TAIL = "\nprint(json.dumps(results))\n"


def java_jdbc(script: str, folder: Path) -> Any:
    """Run a script and return its `results`; skip the test if there is no driver."""
    jar, libraries = sqlite_driver()
    return json.loads(run("java", "-c", HEAD + script + TAIL, str(folder), str(ORACLES), str(jar), libraries).splitlines()[-1])


def sqlite_driver() -> tuple[Path, str]:
    """Return the driver's jar, and the folders of its native library."""
    for root in (Path("/"), CACHE):
        if (root / JAR).exists() and (libraries := _libraries(root)):
            return root / JAR, libraries
    _unpack()
    if not (CACHE / JAR).exists() or not _libraries(CACHE):
        pytest.skip(f"Debian's SQLite driver for Java holds no {JAR} or no {LIBRARY}")
    return CACHE / JAR, _libraries(CACHE)


def _libraries(root: Path) -> str:
    return ":".join(sorted(str(path.parent) for path in (root / "usr" / "lib").glob(f"*/jni/{LIBRARY}")))


def _unpack() -> None:
    if shutil.which("apt-get") is None:
        pytest.skip("Java has no SQLite driver on this machine, and there is no apt-get to fetch Debian's with")
    CACHE.mkdir(parents=True, exist_ok=True)
    packages = ["libxerial-sqlite-jdbc-java", "libxerial-sqlite-jdbc-jni"]
    done = subprocess.run(["apt-get", "download", *packages], cwd=CACHE, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"Java has no SQLite driver on this machine, and Debian's could not be fetched: {done.stderr.strip()[-200:]}")
    for package in CACHE.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", str(package), str(CACHE)], check=True)
