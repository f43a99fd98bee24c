"""Build what a release consists of into dist/: the sdist, wheels with the compiled manifest codec, one without it, and the SBOM.

    .venvs/release/bin/python scripts/build_release.py         everything
    .venvs/release/bin/python scripts/build_release.py sbom    the SBOM alone
    ... --dist DIR                                             into another folder

The wheels are built from the unpacked sdist, so that the sdist is known to be complete. Zig compiles the codec for each Linux platform, against the symbols of
its oldest glibc; auditwheel then checks the symbols that the library uses and gives the wheel its manylinux tag. A wheel for another architecture is checked in
the same way, but nothing runs it here. Two builds of the same sources make the same files: SOURCE_DATE_EPOCH, which may be set, is the time of
everything in them. `make wheel` makes the environment first; `make release-check` installs the results.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from hatchling.builders.utils import get_reproducible_timestamp

ROOT = Path(__file__).resolve().parents[1]
# The platforms that get the compiled codec, and the glibc that their wheels need: 2.17 is of 2012.
ARCHITECTURES = ("x86_64", "aarch64")
GLIBC = (2, 17)
PROGRAMS = Path(sys.executable).parent


def main():
    """Build into an empty folder, and print the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["all", "sbom"], default="all")
    parser.add_argument("--dist", type=Path, default=ROOT / "dist")
    arguments = parser.parse_args()
    dist = arguments.dist.resolve()
    dist.mkdir(parents=True, exist_ok=True)
    # auditwheel packs the wheels again, with the modes of the unpacked files, and with the current time where no other one is set.
    os.environ["SOURCE_DATE_EPOCH"] = str(get_reproducible_timestamp())
    os.umask(0o022)
    if arguments.what == "all":
        for path in dist.glob("icefloe-*"):
            path.unlink()
        build(dist)
    sbom(dist)
    for path in sorted(dist.glob("icefloe-*")):
        print(f"{path.stat().st_size / 1e6:6.2f} MB  {path}")


def build(dist):
    """Build the sdist, and the wheels from it."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        sources = unpacked(sdist(dist), work)
        wheel(sources, dist, "any")
        for architecture in ARCHITECTURES:
            manylinux_wheel(sources, work, architecture, dist)


def sdist(dist):
    """Build the sdist and return its path."""
    run([sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(dist)], ROOT)
    (path,) = dist.glob("*.tar.gz")
    return path


def unpacked(archive, folder):
    """Unpack the sdist into `folder` and return the folder of the project in it."""
    with tarfile.open(archive) as file:
        file.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


def wheel(sources, target, platform, compiler=None):
    """Build a wheel for a platform into `target`, and return its path."""
    environment = {**os.environ, "ICEFLOE_PLATFORM": platform, **({"CC": compiler} if compiler else {})}
    before = set(target.glob("*.whl"))
    run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)], sources, environment)
    (path,) = set(target.glob("*.whl")) - before
    return path


def manylinux_wheel(sources, work, architecture, dist):
    """Build the wheel for Linux on an architecture; auditwheel refuses a library that needs a newer glibc than the tag allows."""
    glibc = ".".join(map(str, GLIBC))
    compiler = f"{sys.executable} -m ziglang cc -target {architecture}-linux-gnu.{glibc} -s"
    plain = wheel(sources, work, f"linux_{architecture}", compiler)
    if "-abi3-" not in plain.name:
        sys.exit(f"the codec was not compiled for {architecture}")
    # auditwheel finds patchelf on the PATH.
    environment = {**os.environ, "PATH": os.pathsep.join((str(PROGRAMS), os.environ["PATH"]))}
    run([str(PROGRAMS / "auditwheel"), "repair", "--plat", "auto", "-w", str(dist), str(plain)], work, environment)
    tags = {tuple(map(int, tag)) for tag in re.findall(rf"manylinux_(\d+)_(\d+)_{architecture}", " ".join(map(str, dist.glob("*.whl"))))}
    if not tags or min(tags) > GLIBC:
        sys.exit(f"auditwheel gives the wheel for {architecture} {sorted(tags)} instead of glibc {glibc} or older")


def sbom(dist):
    """Write the SBOM of Icefloe with the packages of its core, as they are pinned for this Python, in CycloneDX's JSON; it is the same in every run."""
    version = re.search(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE).group(1)
    path = dist / f"icefloe-{version}.cdx.json"
    run(
        [
            str(PROGRAMS / "cyclonedx-py"), "environment", "--pyproject", str(ROOT / "pyproject.toml"), "--mc-type", "library",
            "--output-reproducible", "--output-format", "JSON", "--output-file", str(path),
            str(ROOT / ".venvs" / "runtime" / "bin" / "python"),
        ],
        ROOT,
    )  # fmt: skip
    bill = json.loads(path.read_text())
    bill["metadata"]["component"]["purl"] = f"pkg:pypi/icefloe@{version}"
    hashes = pinned_hashes((ROOT / "requirements" / "runtime.txt").read_text())
    for component in bill["components"]:
        pinned = [{"alg": "SHA-256", "content": digest} for digest in hashes[component["purl"]]]
        reference = {
            "type": "distribution",
            "url": component["purl"],
            "comment": "the files of this version that are pinned",
            "hashes": pinned,
        }
        component["externalReferences"] = [*component.get("externalReferences", []), reference]
    path.write_text(json.dumps(bill, indent=2) + "\n")


def pinned_hashes(text):
    """Return the SHA-256 of every file of each pinned version, by its package URL."""
    found = {}
    for block in re.split(r"\n(?=[A-Za-z0-9])", text):
        name, version = re.match(r"([A-Za-z0-9._-]+)==([^\s;\\]+)", block).groups()
        found[f"pkg:pypi/{name}@{version}"] = re.findall(r"--hash=sha256:([0-9a-f]{64})", block)
    return found


def run(command, folder, environment=None):
    """Run a command; end with its output where it fails."""
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    if result.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{result.stdout}{result.stderr}")


if __name__ == "__main__":
    main()
