"""`scripts/setup` before anything is installed: how pins are put together and which files decide that an environment is out of date."""

import os
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def setup() -> ModuleType:
    loader = SourceFileLoader("icefloe_setup", str(ROOT / "scripts" / "setup"))
    module = module_from_spec(spec_from_loader("icefloe_setup", loader))  # type: ignore[arg-type]
    loader.exec_module(module)
    return module


def test_a_later_file_s_pin_replaces_an_earlier_one_with_its_hashes(setup: ModuleType) -> None:
    first = "a==1 \\\n    --hash=sha256:11\n    # via b\nb==2 \\\n    --hash=sha256:22\n"
    assert setup.merge_pins([first, "a==3 \\\n    --hash=sha256:33\n"]) == "a==3 \\\n    --hash=sha256:33\nb==2 \\\n    --hash=sha256:22\n"


def test_a_package_may_have_one_pin_for_each_range_of_python(setup: ModuleType) -> None:
    pins = "a==1 ; python_full_version < '3.12' \\\n    --hash=sha256:11\na==2 ; python_full_version >= '3.12' \\\n    --hash=sha256:22\n"
    assert setup.merge_pins([pins]) == pins


@pytest.mark.parametrize("version", ["4.0", "4.1", "4.2"])
def test_another_spark_changes_pyspark_and_py4j_alone(setup: ModuleType, version: str) -> None:
    own_pins = (ROOT / "requirements" / "dev.txt").read_text()
    other = (ROOT / "requirements" / setup.spark_pins(version)).read_text()
    merged = setup.merge_pins([own_pins, other])
    assert f"\npyspark=={version}." in merged
    ours_alone = {line for line in own_pins.splitlines() if "==" in line} - set(merged.splitlines())
    assert {line.split("==")[0] for line in ours_alone} <= {"pyspark", "py4j"}


def test_a_spark_without_pins_is_refused_with_the_versions_that_have_them(setup: ModuleType) -> None:
    with pytest.raises(setup.Refused, match=r"There are pins for 4\.0, "):
        setup.spark_pins("2.4")


def test_an_environment_is_out_of_date_once_its_pins_change(setup: ModuleType, tmp_path: Path) -> None:
    pins = tmp_path / "dev.txt"
    pins.write_text("a==1\n")
    before = setup.fingerprint([str(pins)])
    assert setup.fingerprint([str(pins)]) == before
    pins.write_text("a==2\n")
    assert setup.fingerprint([str(pins)]) != before


def test_a_build_s_bytes_are_counted_for_the_progress_bar(setup: ModuleType, tmp_path: Path) -> None:
    before = setup.bytes_written(os.getpid())
    if before is None:
        pytest.skip("this system does not count the bytes that a process writes")
    (tmp_path / "file").write_bytes(bytes(100_000))
    assert setup.bytes_written(os.getpid()) >= before + 100_000
