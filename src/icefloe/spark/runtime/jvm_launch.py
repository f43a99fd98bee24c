"""Starting Spark's JVM without Java's vector module, and passing its connection to PySpark.

PySpark 4.1 and later start Java with `--add-modules=jdk.incubator.vector`. With this flag Java prints a warning, and a runtime without that module does not
start. Only parts of Spark's machine learning use the module, and are slower without it. So this module gets the command from Spark's own launcher and removes
the flag. PySpark connects to the JVM through the environment variables that it has for this purpose.
"""

import atexit
import logging
import os
import shlex
import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway

from icefloe.errors import EngineError
from icefloe.spark.runtime.java_runtime import VECTOR_MODULE, JavaRuntime

# Seconds within which Spark's JVM must write its port. On a loaded machine this takes about 10 s.
START_SECONDS = 120.0
# Seconds that an ending Python process waits for the JVM to clear its temporary folders.
END_SECONDS = 10.0
_POLL_SECONDS = 0.05
# Spark opens this Java package to itself, but this version of Java has removed the package.
_OPEN_SECURITY_ACTIONS, _WITHOUT_SECURITY_ACTIONS = "--add-opens=java.base/sun.security.action=ALL-UNNAMED", 24
ADD_VECTOR_MODULE = f"--add-modules={VECTOR_MODULE}"


def start_jvm(java: JavaRuntime, conf: Mapping[str, str], *, keeps_vector_module: bool) -> None:
    """Start the JVM with these settings, and make PySpark use it in this process.

    Args:
        java: The Java runtime.
        conf: Settings of Spark by name, which are visible in the command line of the JVM.
        keeps_vector_module: Whether Java loads its vector module, which must exist.

    Raises:
        EngineError: The launcher or the JVM ended before it was ready.
    """
    folder = Path(tempfile.mkdtemp(prefix="icefloe-spark-"))
    try:
        process, environment = _start(java, conf, folder / "connection", keeps_vector_module)
        port, secret = _connection(process, folder / "connection")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    atexit.register(_end, process)
    # The variables are read once, here; if they remained, every child process would connect to this JVM.
    with environment_of(PYSPARK_GATEWAY_PORT=str(port), PYSPARK_GATEWAY_SECRET=secret, SPARK_HOME=environment["SPARK_HOME"]):
        SparkContext._ensure_initialized(gateway=launch_gateway())  # type: ignore[no-untyped-call]


@contextmanager
def environment_of(**variables: str) -> Iterator[None]:
    """Return a context in which environment variables have these values; afterwards they have their former values again."""
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


def quiet_command(command: Sequence[str], java_version: int, *, keeps_vector_module: bool) -> list[str]:
    """Return the command that starts Spark's JVM, without options that only make Java print warnings.

    Args:
        command: The command from Spark's launcher.
        java_version: The major version of Java.
        keeps_vector_module: Whether Java loads its vector module.
    """
    unwanted = [] if keeps_vector_module else [ADD_VECTOR_MODULE]
    if java_version >= _WITHOUT_SECURITY_ACTIONS:
        unwanted.append(_OPEN_SECURITY_ACTIONS)
    return [part for part in command if part not in unwanted]


def _start(
    java: JavaRuntime, conf: Mapping[str, str], connection: Path, keeps_vector_module: bool
) -> tuple["subprocess.Popen[bytes]", dict[str, str]]:
    home = _find_spark_home()
    environment = {**os.environ, "SPARK_HOME": home, "JAVA_HOME": str(java.home), "SPARK_SCALA_VERSION": "2.13", "SPARK_CONNECT_MODE": "0"}
    environment["_PYSPARK_DRIVER_CONN_INFO_PATH"] = str(connection)
    submit = [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
    submit += shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    launcher: list[str | Path] = [java.executable, "-Xmx128m", "-cp", os.path.join(home, "jars", "*"), "org.apache.spark.launcher.Main"]
    printed = subprocess.run([*launcher, "org.apache.spark.deploy.SparkSubmit", *submit], env=environment, capture_output=True, check=False)  # noqa: S603
    if printed.returncode != 0:
        raise EngineError(f"Spark's launcher ended with {printed.returncode}: {printed.stderr.decode(errors='replace').strip()}")
    command = [part.decode().lstrip("\n") for part in printed.stdout.split(b"\0") if part.strip()]
    command = quiet_command(command, java.version, keeps_vector_module=keeps_vector_module)
    # In a new process session, Ctrl-C at the terminal does not reach the JVM. The JVM ends when its standard input is closed, also if Python dies.
    process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True, env=environment)  # noqa: S603 the command is Spark's
    return process, environment


def _connection(process: "subprocess.Popen[bytes]", file: Path) -> tuple[int, str]:
    """Wait until the JVM is ready, and return the port and the secret that it writes to the file. Raises `EngineError` if it ends or is not ready in time."""
    deadline = time.monotonic() + START_SECONDS
    try:
        while not file.is_file():
            if process.poll() is not None:
                raise EngineError(f"Spark's JVM ended with {process.returncode} before it was ready", next_step="see its message above")
            if time.monotonic() > deadline:
                raise EngineError(f"Spark's JVM was not ready after {START_SECONDS:.0f} s")
            time.sleep(_POLL_SECONDS)
        with file.open("rb") as written:
            port, length = struct.unpack("!ii", written.read(8))
            return port, written.read(length).decode()
    except BaseException:
        process.kill()
        raise


def _end(process: Any) -> None:
    gateway, context = SparkContext._gateway, SparkContext._active_spark_context
    if context is not None:
        # The JVM closes its connection for accumulators, for which PySpark's server would print a traceback.
        context._accumulatorServer.handle_error = lambda *_: None  # type: ignore[method-assign]
    if gateway is not None:
        # The JVM is ending. Py4J must no longer notify it of objects that Python releases, because it would log errors.
        gateway.gateway_client.is_connected = False
        # It logs a request that is under way as an error of the root logger.
        logging.getLogger().addFilter(lambda record: record.module != "java_gateway")
    process.stdin.close()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
