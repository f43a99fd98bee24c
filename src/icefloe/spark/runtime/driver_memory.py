"""`driver_memory`: the driver's memory in a local session that Icefloe starts, if the user has not set it.

In a local session the driver's JVM runs the tasks too, and Spark's default of 1 GB is too small to broadcast a dimension of a few million rows.
"""

import os
import re
import shlex
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path

from icefloe.option import Option

DRIVER_MEMORY = "spark.driver.memory"
MASTER = "spark.master"
SHARE = 4  # the divisor of the machine's memory
LEAST_MEGABYTES, MOST_MEGABYTES = 1024, 8192
STARTED_SETTINGS = (
    Option(
        DRIVER_MEMORY,
        "Memory of the JVM of a local session that `icefloe.spark.session()` starts. A value from its arguments, the environment variables "
        "`SPARK_DRIVER_MEMORY` and `PYSPARK_SUBMIT_ARGS`, or the file `spark-defaults.conf` is kept.",
        "a quarter of the machine's memory, or of the container's: at least 1 GB, at most 8 GB",
        java=False,
    ),
)
# Files with the memory limit of the container in bytes, of cgroups version 2 and 1; the content is `max` if there is no limit.
_LIMIT_FILES = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_VARIABLES = ("SPARK_DRIVER_MEMORY", "SPARK_MEM")


def driver_memory(conf: Mapping[str, str], environment: Mapping[str, str], defaults: Path) -> str | None:
    """Return a value of `spark.driver.memory` for a new local session; None to use Spark's own.

    None is returned if the user has set it, the master is not local, or the memory of the machine is unknown.

    Args:
        conf: The settings of the session.
        environment: The environment variables.
        defaults: The path of Spark's file with default settings, which need not exist.
    """
    # Spark accepts `--name value` and `--name=value`.
    words = shlex.split(environment.get("PYSPARK_SUBMIT_ARGS", ""))
    arguments = [part for word in words for part in (word.split("=", 1) if word.startswith("--") else [word])]
    if "--properties-file" in arguments:
        return None  # Spark reads this file instead of its defaults
    known = {**_settings_in(defaults), **_settings_of(arguments), **conf}
    is_set = DRIVER_MEMORY in known or any(variable in environment for variable in _VARIABLES)
    if is_set or not known.get(MASTER, "local").startswith("local"):
        return None
    total = _memory_of_machine(_LIMIT_FILES)
    return None if total is None else f"{min(max(total // SHARE // 2**20, LEAST_MEGABYTES), MOST_MEGABYTES)}m"


def _settings_in(defaults: Path) -> dict[str, str]:
    """Return Spark's settings in a file of Java properties: each line has a name, then a space, `=` or `:`, then the value. Empty if there is no file."""
    try:
        lines = defaults.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    matches = (re.fullmatch(r"\s*(spark\.[^\s=:]+)\s*[\s=:]\s*(.*?)\s*", line) for line in lines)
    return {match[1]: match[2] for match in matches if match is not None}


def _settings_of(arguments: list[str]) -> dict[str, str]:
    """Return the settings in arguments of `spark-submit`: those of `--conf`, the master, and the driver's memory."""
    settings = {}
    names = {"--master": MASTER, "--driver-memory": DRIVER_MEMORY}
    for option, value in pairwise(arguments):
        if option in names:
            settings[names[option]] = value
        elif option in ("--conf", "-c"):
            name, _, text = value.partition("=")
            settings[name] = text
    return settings


def _memory_of_machine(limit_files: Iterable[str]) -> int | None:
    """Return the memory of the machine, or of the container if it has a lower limit, in bytes; None if the system does not report it."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return None
    for name in limit_files:
        try:
            limit = Path(name).read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            continue
        if limit.isdigit():
            total = min(total, int(limit))
    return total
