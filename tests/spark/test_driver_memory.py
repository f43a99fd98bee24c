"""The memory of the JVM of a session that Icefloe starts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from icefloe.spark.runtime import driver_memory as memory
from icefloe.spark.runtime.driver_memory import driver_memory

GB = 2**30


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """A machine of 16 GB without a container's limit; a test may change its bytes."""
    bytes_of = {"total": 16 * GB}
    monkeypatch.setattr(os, "sysconf", lambda name: 1 if name == "SC_PAGE_SIZE" else bytes_of["total"])
    monkeypatch.setattr(memory, "_LIMIT_FILES", ())
    return bytes_of


def given(conf: dict[str, str] | None = None, defaults: Path = Path("/nowhere/spark-defaults.conf"), **environment: str) -> str | None:
    return driver_memory(conf or {}, environment, defaults)


@pytest.mark.parametrize(("total", "expected"), [(2, "1024m"), (4, "1024m"), (8, "2048m"), (16, "4096m"), (32, "8192m"), (512, "8192m")])
def test_a_local_session_takes_a_quarter_of_the_machine_within_bounds(machine: dict[str, int], total: int, expected: str) -> None:
    machine["total"] = total * GB
    assert given() == expected
    assert given({"spark.master": "local[4]"}) == expected


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(
    "conf",
    [{"spark.driver.memory": "700m"}, {"spark.master": "spark://host:7077"}, {"spark.master": "yarn"}, {"spark.master": "k8s://host"}],
)
def test_a_setting_of_the_caller_and_a_cluster_are_left_alone(conf: dict[str, str]) -> None:
    assert given(conf) is None


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(
    "arguments",
    [
        "--driver-memory 2g pyspark-shell",
        "--driver-memory=2g pyspark-shell",
        "--conf spark.driver.memory=2g pyspark-shell",
        "--conf=spark.driver.memory=2g pyspark-shell",
        "-c spark.driver.memory=2g pyspark-shell",
        "--master yarn pyspark-shell",
        "--properties-file /etc/mine.conf pyspark-shell",
    ],
)
def test_arguments_for_spark_submit_are_preferred(arguments: str) -> None:
    assert given(PYSPARK_SUBMIT_ARGS=arguments) is None
    assert given(PYSPARK_SUBMIT_ARGS="--conf spark.ui.enabled=true pyspark-shell") == "4096m"


@pytest.mark.usefixtures("machine")
def test_the_variable_of_spark_is_preferred() -> None:
    assert given(SPARK_DRIVER_MEMORY="3g") is None


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(
    ("line", "is_set"),
    [
        ("spark.driver.memory 2g", True),
        ("  spark.driver.memory=2g", True),
        ("spark.driver.memory: 2g", True),
        ("spark.master\tyarn", True),
        ("# spark.driver.memory 2g", False),
        ("spark.executor.memory 2g", False),
        ("spark.driver.memoryOverhead 1g", False),
    ],
)
def test_the_defaults_of_spark_are_preferred(tmp_path: Path, line: str, is_set: bool) -> None:
    defaults = tmp_path / "spark-defaults.conf"
    defaults.write_text(f"spark.eventLog.enabled true\n{line}\n")
    assert given(defaults=defaults) == (None if is_set else "4096m")


def test_the_limit_of_a_container_counts_as_its_memory(machine: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(memory, "_LIMIT_FILES", (str(tmp_path / "absent"), str(limit)))
    for text, expected in ((str(8 * GB), "2048m"), ("max", "4096m"), (str(2**63), "4096m"), ("no number", "4096m")):
        limit.write_text(text)
        assert given() == expected, (machine, text)


@pytest.mark.usefixtures("machine")
def test_a_system_without_the_number_keeps_the_default_of_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sysconf")
    assert given() is None


@pytest.mark.spark
@pytest.mark.slow
def test_the_jvm_of_a_new_session_has_that_memory() -> None:
    program = (
        "from icefloe.spark.runtime.start_session import session\n"
        "spark = session(master='local[1]')\n"
        "print(spark.conf.get('spark.driver.memory'), spark.sparkContext._jvm.java.lang.Runtime.getRuntime().maxMemory() >> 20)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300)
    setting, maximum = done.stdout.split()
    assert setting == driver_memory({}, {}, Path("/nowhere/spark-defaults.conf"))
    assert int(maximum) == pytest.approx(int(setting[:-1]), rel=0.05)
