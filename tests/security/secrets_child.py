"""A process of its own: a Spark session whose settings hold a planted secret, which prints everything of it that a user can see.

python secrets_child.py FOLDER SECRET
"""

import json
import subprocess
import sys
import urllib.request
import warnings
from collections.abc import Callable
from pathlib import Path

from icefloe import load_catalog
from icefloe.spark import attach
from icefloe.spark.runtime.start_session import session

STATEMENTS = [
    "CREATE TABLE lake.db.t (a INT) TBLPROPERTIES ('k' = 'v')",
    "INSERT INTO lake.db.t VALUES (1), (2)",
    "EXPLAIN FORMATTED SELECT * FROM lake.db.t WHERE a > 1",
    "EXPLAIN EXTENDED SELECT * FROM lake.db.t WHERE a > 1",
    "SELECT * FROM lake.db.t",
    "DELETE FROM lake.db.t WHERE a = 1",
    "DESCRIBE TABLE EXTENDED lake.db.t",
    "DESCRIBE CATALOG EXTENDED lake",
    "SHOW TBLPROPERTIES lake.db.t",
    "SHOW CREATE TABLE lake.db.t",
    "SELECT summary FROM lake.db.t.snapshots",
    "SET",
    "SET -v",
    "SELECT nothing FROM lake.db.t",
    "SELECT * FROM lake.db.missing",
    "CALL lake.system.missing()",
]


def shown(label: str, ask: Callable[[], object]) -> None:
    """Print the result of a call, or its error."""
    try:
        print(label, ask(), flush=True)
    except Exception as error:  # noqa: BLE001  the text of any error is searched for the secret
        print(label, type(error), error, repr(error), error.__cause__, flush=True)


def main() -> None:
    folder, secret = sys.argv[1], sys.argv[2]
    warnings.simplefilter("ignore")
    uri = f"sqlite:///{folder}/catalog.db?password={secret}"
    load_catalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"{folder}/warehouse").create_namespace("db")
    keys = {
        "s3.secret-access-key": f"a{secret}",
        "s3.access-key-id": f"b{secret}",
        "s3.session-token": f"c{secret}",
        "adls.account-key": f"d{secret}",
        "adls.sas-token": f"sig={secret}",
        "adls.connection-string": f"AccountName=x;AccountKey={secret}",
        "adls.client-secret": f"e{secret}",
        "gcs.oauth2.token": f"f{secret}",
    }
    settings = {
        "spark.sql.catalog.lake": "icefloe",
        "spark.sql.catalog.lake.uri": uri,
        "spark.sql.catalog.lake.warehouse": f"{folder}/warehouse",
        "spark.sql.catalog.other.jdbc": f"postgresql://u:{secret}@host/db",
        "spark.sql.catalog.other.credential": f"etl:{secret}",
        "spark.sql.catalog.other.header.Authorization": f"Bearer {secret}",
        "spark.hadoop.fs.s3a.secret.key": f"g{secret}",
        "spark.hadoop.fs.azure.account.key.x.dfs.core.windows.net": f"h{secret}",
        **{f"spark.sql.catalog.lake.{name}": value for name, value in keys.items()},
    }
    logs = Path(folder, "events")
    logs.mkdir()
    conf = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file:{logs}",
        "spark.eventLog.compress": "false",
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.driver.memory": "1g",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    spark = session({**conf, **settings}, master="local[1]")
    attach(spark)
    for statement in STATEMENTS:
        shown(statement, lambda statement=statement: [row.asDict() for row in spark.sql(statement).collect()])
    frame = spark.read.format("icefloe").options(**{**keys, "uri": uri, "warehouse": f"{folder}/warehouse"}).load("lake.db.t")
    shown("plan", lambda: frame._jdf.queryExecution().toString())
    shown("rows", frame.collect)
    shown("again", lambda: session({"spark.hadoop.fs.s3a.secret.key": f"x{secret}"}))
    base = f"{spark.sparkContext.uiWebUrl}/api/v1/applications/{spark.sparkContext.applicationId}"
    for page in ("environment", "jobs", "stages", "sql?details=true&planDescription=true&length=100"):
        with urllib.request.urlopen(f"{base}/{page}") as answer:  # noqa: S310  this machine
            text = answer.read().decode()
        print(page, json.dumps(json.loads(text)), flush=True)
    print(subprocess.run(["ps", "axww", "-o", "args"], capture_output=True, text=True, check=True).stdout.replace(" ".join(sys.argv), ""))
    spark.stop()
    print("done")


if __name__ == "__main__":
    main()
