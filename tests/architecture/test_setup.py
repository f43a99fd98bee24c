"""`scripts/setup` before anything is installed: how pins are put together and which files decide that an environment is out of date."""

import os
import shutil
import subprocess
import sys
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


def test_an_environment_that_is_up_to_date_gets_the_codec_of_its_sources(setup: ModuleType, tmp_path: Path) -> None:
    checkout, native = tmp_path / "checkout", Path("src/icefloe/spec/avro/native")
    for name in ("scripts/setup", "scripts/build_native.py", "requirements/dev.txt", "requirements/build.txt", "pyproject.toml"):
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, checkout / name)
    (checkout / native).mkdir(parents=True)
    source = checkout / native / "module.c"
    source.write_text("int first(void) { return 1; }\n")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", checkout / ".venv"], check=True)
    loader = SourceFileLoader("icefloe_setup_of_checkout", str(checkout / "scripts" / "setup"))
    copied = module_from_spec(spec_from_loader("icefloe_setup_of_checkout", loader))  # type: ignore[arg-type]
    loader.exec_module(copied)
    (checkout / ".venv" / ".setup-stamp").write_text(copied.fingerprint([str(checkout / "requirements" / "dev.txt")]))
    environment = {**os.environ, "CC": os.environ.get("CC", "cc")}

    def run_setup() -> str:
        run = subprocess.run([sys.executable, checkout / "scripts" / "setup"], env=environment, capture_output=True, text=True, check=True)
        assert run.stdout == ""  # nothing was installed
        return run.stderr

    if "is left out" in run_setup():
        pytest.skip("this machine cannot compile the codec")
    module = checkout / native / "_manifest.abi3.so"
    first = module.read_bytes()
    source.write_text("int second(void) { return 2; }\nint third(void) { return second(); }\n")
    assert run_setup() == ""
    second = module.read_bytes()
    assert second != first
    module.unlink()
    assert run_setup() == ""
    assert module.read_bytes() == second
    environment["CC"] = "false"
    assert "the compiled manifest codec is left out" in run_setup()
    assert not module.exists()


def test_a_build_s_bytes_are_counted_for_the_progress_bar(setup: ModuleType, tmp_path: Path) -> None:
    before = setup.bytes_written(os.getpid())
    if before is None:
        pytest.skip("this system does not count the bytes that a process writes")
    (tmp_path / "file").write_bytes(bytes(100_000))
    assert setup.bytes_written(os.getpid()) >= before + 100_000
