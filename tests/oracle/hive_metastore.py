"""Hive metastores, fetched by Maven into a folder that git ignores, and started for a test session: of Hive 3 on Derby, of Hive 4 on PostgreSQL.

Hive 4 compares the expected metadata location in a statement that Derby refuses: its columns of parameters are CLOBs there.
"""

import os
import socket
import subprocess
import tarfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.maven_jars import maven_jars
from tests.postgres import OWNER, PASSWORD, running_postgres

from icefloe.stores.hive_metastore import MetastoreSession, hive_types

ROOT = Path(__file__).parents[2]
FIXTURES = {3: "hive3_fixture", 4: "hive_fixture"}
MAIN = "org.apache.hadoop.hive.metastore.HiveMetaStore"
SCHEMA_TOOL = "org.apache.hadoop.hive.metastore.tools.schematool.MetastoreSchemaTool"
# What Hive 3 opens of Java's own packages.
OPENED = ("java.lang", "java.net", "java.util")
START_S = 180
SITE = """<configuration>
{properties}
</configuration>
"""
LOGGING = """status = warn
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %p %c{1} %m%n%ex{20}
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
"""


@contextmanager
def hive_metastore(folder: Path, version: int) -> Iterator[str]:
    """Run a metastore of Hive 3 or 4, and yield its address."""
    jars = maven_jars(
        Path(__file__).parent / FIXTURES[version] / "pom.xml", ROOT / ".hive-metastore" / str(version), f"Hive {version}'s metastore"
    )
    if version == 3:
        derby = {
            "javax.jdo.option.ConnectionURL": f"jdbc:derby:{folder}/database;create=true",
            "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
        }
        # Only a metastore in a test of Hive itself creates the tables of locks, and it refuses locks as other clients request them.
        with _running(folder, jars, {**derby, "hive.in.test": "true"}) as address, MetastoreSession({"uri": address}) as session:
            session.call("show_locks", hive_types().ShowLocksRequest())
        with _running(folder, jars, derby) as address:
            yield address
        return
    with running_postgres() as server:
        postgres = {
            "javax.jdo.option.ConnectionURL": f"jdbc:postgresql://127.0.0.1:{server.port}/{server.new_database()}",
            "javax.jdo.option.ConnectionDriverName": "org.postgresql.Driver",
            "javax.jdo.option.ConnectionUserName": OWNER,
            "javax.jdo.option.ConnectionPassword": PASSWORD,
        }
        _create_tables(folder, jars, postgres)
        with _running(folder, jars, postgres) as address:
            yield address


@contextmanager
def _running(folder: Path, jars: Path, more: Mapping[str, str]) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    command = [
        *_java(folder, jars, {"metastore.thrift.bind.host": "127.0.0.1", "metastore.thrift.port": str(port), **more}),
        MAIN,
        "-p",
        str(port),
    ]
    log = folder / f"metastore-{port}.log"
    with log.open("wb") as output, subprocess.Popen(command, cwd=folder, stdout=output, stderr=output) as process:
        try:
            _wait_for(port, process, log)
            yield f"thrift://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(60)


def _create_tables(folder: Path, jars: Path, settings: Mapping[str, str]) -> None:
    """Let Hive's own tool create the tables of the metastore, by the scripts of its distribution."""
    with tarfile.open(next(jars.glob("*-bin.tar.gz"))) as distribution:
        scripts = [member for member in distribution.getmembers() if "/scripts/metastore/upgrade/postgres/" in member.name]
        distribution.extractall(folder, scripts, filter="data")
    home = next(folder.glob("*-bin"))
    done = subprocess.run(
        [*_java(folder, jars, settings), SCHEMA_TOOL, "-dbType", "postgres", "-initSchema"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "METASTORE_HOME": str(home)},
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def _java(folder: Path, jars: Path, more: Mapping[str, str]) -> list[str]:
    """Return the command that runs a class of Hive, up to the class; its settings are in a file."""
    settings = {
        "metastore.warehouse.dir": f"{folder}/warehouse",
        "datanucleus.schema.autoCreateAll": "true",
        "metastore.schema.verification": "false",
        # Classes that are in other jars of Hive.
        "metastore.expression.proxy": "org.apache.hadoop.hive.metastore.DefaultPartitionExpressionProxy",
        "metastore.task.threads.always": "org.apache.hadoop.hive.metastore.events.EventCleanerTask",
        "metastore.client.capability.check": "false",
        "hive.metastore.disallow.incompatible.col.type.changes": "false",
        "metastore.disallow.incompatible.col.type.changes": "false",
        **more,
    }
    conf = folder / "conf"
    conf.mkdir(exist_ok=True)
    properties = "\n".join(f"<property><name>{name}</name><value>{text}</value></property>" for name, text in settings.items())
    (conf / "metastore-site.xml").write_text(SITE.format(properties=properties))
    (conf / "log4j2.properties").write_text(LOGGING)
    command = ["java", "-Xmx512m", *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in OPENED)]
    command += [f"-Dlog4j.configurationFile={conf}/log4j2.properties", f"-Dderby.stream.error.file={folder}/derby.log"]
    return [*command, "-cp", f"{conf}:{jars}/*"]


def _wait_for(port: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
    ends = time.monotonic() + START_S
    while time.monotonic() < ends:
        # A metastore that fails to start stays, without its main thread.
        is_alive = process.poll() is None and 'Exception in thread "main"' not in log.read_text()
        assert is_alive, f"the metastore ended:\n{log.read_text()[-3000:]}"
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
            return
        except OSError:
            time.sleep(0.3)
    raise AssertionError(f"the metastore did not start within {START_S} s:\n{log.read_text()[-3000:]}")
