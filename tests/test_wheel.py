"""The wheel that `make wheel` builds contains the compiled manifest codec, which works."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.kernel.avro.both_readers import needs_module

from icefloe.kernel.avro import compiled_codec

ROOT = Path(__file__).parents[1]
USE = """
from icefloe.kernel.avro import compiled_codec
assert compiled_codec.AVAILABLE
print(compiled_codec.native().__file__, compiled_codec.native().INTERFACE)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a wheel with the command of `make wheel` from a copy of the sources without built files."""
    copy = tmp_path_factory.mktemp("sources") / "icefloe"
    for folder in ("src", "scripts"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("*.so", "*.stamp", "__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, copy / name)
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel"], cwd=copy, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    (path,) = (copy / "dist").glob("*.whl")
    return path


@needs_module
def test_the_wheel_has_the_compiled_codec_for_all_python_versions_from_3_11_on(wheel: Path) -> None:
    assert "-cp311-abi3-" in wheel.name
    names = zipfile.ZipFile(wheel).namelist()
    assert [name for name in names if name.endswith(".so")] == ["icefloe/kernel/avro/native/_manifest.abi3.so"]
    assert not [name for name in names if name.endswith(".stamp")]


@needs_module
def test_the_codec_of_the_wheel_is_the_one_that_this_version_uses(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}){USE}"]
    used = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert used.stdout.split() == [
        str(tmp_path / "icefloe/kernel/avro/native/_manifest.abi3.so"),
        str(compiled_codec.native().INTERFACE),
    ], used.stderr
