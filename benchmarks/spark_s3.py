"""Spark over a table in S3 without a JAR, compared with Spark's own scan through hadoop-aws: the same table in the same store, each side in a new process.

Without a JAR Spark has no file system for `s3`, and its tasks read rows through Python; with hadoop-aws it reads them natively. The store is Versity's S3
gateway of a local folder, compiled once by Go; without Go it is moto, a Python program and slow itself.
Needs Maven, and the packages of `make test-object-stores`. `ICEFLOE_BENCH_ROWS` sets the number of rows.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.emulators import EMULATORS, KEY, SECRET, moto, running

from benchmarks import measure
from benchmarks.measure import Comparison, child, interleaved, median, say, seconds

ROUNDS = 3
GOAL = 1.6
POM = Path(__file__).parent / "hadoop_aws" / "pom.xml"
GATEWAY = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"


def run() -> list[Comparison]:
    """Measure an aggregate over all rows and a selective filter on both sides in turns."""
    folder = measure.BUILD / "spark-s3"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    jars = hadoop_aws()
    with store(folder) as (name, address):
        arguments = (address, str(folder / "catalog.db"))
        say(f"spark-s3: a table in {name}")
        child("object-stores", "spark_s3_child.py", "write", *arguments, "")
        sides = {
            "python": partial(child, "object-stores", "spark_s3_child.py", "read", *arguments, ""),
            "native": partial(child, "object-stores", "spark_s3_child.py", "read", *arguments, jars),
        }
        say(f"spark-s3: queries, {ROUNDS} times on each side")
        taken = interleaved(ROUNDS, sides)
    lines = []
    for title in taken["python"][0]["seconds"]:
        results = {side: {repr(one["results"][title]) for one in runs} for side, runs in taken.items()}
        if results["python"] != results["native"] or len(results["python"]) != 1:
            raise SystemExit(f"the sides have different results for {title}: {results}")
        ours, theirs = (median([one["seconds"][title] for one in taken[side]]) for side in ("python", "native"))
        what = f"Spark over S3 ({name}) without a JAR, {title} (with hadoop-aws)"
        lines.append(Comparison(what, seconds(ours), seconds(theirs), ours / theirs, f"<= {GOAL}"))
    return lines


def hadoop_aws() -> str:
    """Return the jars of hadoop-aws, with commas between them; Maven fetches them once."""
    folder = measure.BUILD / "hadoop-aws"
    if not folder.exists():
        say("spark-s3: hadoop-aws (fetched once by Maven, half a gigabyte)")
        partial_folder = folder.with_suffix(".partial")
        subprocess.run(["mvn", "-q", "-B", "-f", str(POM), COPY, f"-DoutputDirectory={partial_folder}"], check=True)
        partial_folder.rename(folder)
    return ",".join(map(str, sorted(folder.glob("*.jar"))))


def gateway() -> Path | None:
    """Return the program of Versity's S3 gateway, compiled once by Go; None without Go."""
    program = EMULATORS / "bin" / "versitygw"
    if not program.exists() and shutil.which("go") is not None:
        say("spark-s3: Versity's S3 gateway (compiled once by Go)")
        environment = {**os.environ, "CGO_ENABLED": "0", "GOBIN": str(program.parent)}
        subprocess.run(["go", "install", GATEWAY], check=True, env=environment)
    return program if program.exists() else None


@contextmanager
def store(folder: Path) -> Iterator[tuple[str, str]]:
    """Start an object store, and yield its name and address."""
    program = gateway()
    if program is None:
        with moto() as address:
            yield "moto", address
        return
    for name in ("store", "metadata"):
        (folder / name).mkdir()
    os.environ.update(ROOT_ACCESS_KEY=KEY, ROOT_SECRET_KEY=SECRET)
    options = ["--port", "127.0.0.1:{port}", "--keep-alive", "--quiet"]
    with running([str(program), *options, "posix", "--sidecar", str(folder / "metadata"), str(folder / "store")]) as port:
        yield "Versity's gateway", f"http://127.0.0.1:{port}"
