"""Starts Spark's JVM on a Java runtime that lacks the vector module, and hands the connection to PySpark.

PySpark 4.1 and later start Java with `--add-modules=jdk.incubator.vector`; a runtime without that module refuses to start. Spark's own launcher is asked for
the command, the flag is left out (only some of Spark's machine learning uses it, and has a slower way without), and PySpark connects through the environment
variables it has for that. A complete Java is started by PySpark itself.
"""

import atexit
import os
import shlex
import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway

from icefloe.errors import EngineError
from icefloe.spark.runtime.java_runtime import VECTOR_MODULE, JavaRuntime

# How long Spark's JVM may take to name its port. A loaded machine takes some 10 s.
START_SECONDS = 120.0
# How long an ending Python waits for the JVM to clear its temporary folders.
END_SECONDS = 10.0
_POLL_SECONDS = 0.05


def start_without_vector_module(java: JavaRuntime, conf: Mapping[str, str]) -> None:
    """Starts the JVM with `conf` and makes it the one PySpark uses in this process.

    Raises:
        EngineError: the launcher or the JVM ended before it was ready.
    """
    folder = Path(tempfile.mkdtemp(prefix="icefloe-spark-"))
    try:
        process, environment = _start(java, conf, folder / "connection")
        port, secret = _connection(process, folder / "connection")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    atexit.register(_end, process)
    # The variables are read once, here; left in place they would send every child process to this JVM.
    with environment_of(PYSPARK_GATEWAY_PORT=str(port), PYSPARK_GATEWAY_SECRET=secret, SPARK_HOME=environment["SPARK_HOME"]):
        SparkContext._ensure_initialized(gateway=launch_gateway())  # type: ignore[no-untyped-call]


@contextmanager
def environment_of(**variables: str) -> Iterator[None]:
    """Environment variables for the length of a block; what was there before comes back."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _start(java: JavaRuntime, conf: Mapping[str, str], connection: Path) -> tuple["subprocess.Popen[bytes]", dict[str, str]]:
    home = _find_spark_home()
    environment = {**os.environ, "SPARK_HOME": home, "JAVA_HOME": str(java.home), "SPARK_SCALA_VERSION": "2.13", "SPARK_CONNECT_MODE": "0"}
    environment["_PYSPARK_DRIVER_CONN_INFO_PATH"] = str(connection)
    submit = [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
    submit += shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    launcher: list[str | Path] = [java.executable, "-Xmx128m", "-cp", os.path.join(home, "jars", "*"), "org.apache.spark.launcher.Main"]
    answer = subprocess.run([*launcher, "org.apache.spark.deploy.SparkSubmit", *submit], env=environment, capture_output=True, check=False)  # noqa: S603
    if answer.returncode != 0:
        raise EngineError(f"Spark's launcher ended with {answer.returncode}: {answer.stderr.decode(errors='replace').strip()}")
    command = [part.decode().lstrip("\n") for part in answer.stdout.split(b"\0") if part.strip()]
    command = [part for part in command if part != f"--add-modules={VECTOR_MODULE}"]
    # A session of its own keeps Ctrl-C at the terminal from reaching the JVM; it ends when its standard input closes, so also when Python dies.
    process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True, env=environment)  # noqa: S603 the command is Spark's
    return process, environment


def _connection(process: "subprocess.Popen[bytes]", file: Path) -> tuple[int, str]:
    """The port and secret the JVM writes once it is ready."""
    give_up = time.monotonic() + START_SECONDS
    try:
        while not file.is_file():
            if process.poll() is not None:
                raise EngineError(f"Spark's JVM ended with {process.returncode} before it was ready", next_step="see its message above")
            if time.monotonic() > give_up:
                raise EngineError(f"Spark's JVM was not ready after {START_SECONDS:.0f} s")
            time.sleep(_POLL_SECONDS)
        with file.open("rb") as answer:
            port, length = struct.unpack("!ii", answer.read(8))
            return port, answer.read(length).decode()
    except BaseException:
        process.kill()
        raise


def _end(process: Any) -> None:
    gateway = SparkContext._gateway
    if gateway is not None:
        # Objects that are let go of from now on are not told to a JVM that is ending, which Py4J would log as errors.
        gateway.gateway_client.is_connected = False
    process.stdin.close()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
