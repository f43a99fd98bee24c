"""Compile the C sources of `icefloe.spec.avro.native` to one module for the stable ABI of Python 3.11 and later.

Installing the package does it (hatchling runs `BuildNative`), or `python scripts/build_native.py`. The module only saves time: without a compiler or Python.h
the script prints a notice and the package is installed without the module. It compiles again only if the sources, the compiler or the platform have changed.
`scripts/build_release.py` sets variables: CC is another compiler, ICEFLOE_PLATFORM the platform that it compiles for; `any` leaves the module out.
The script uses the standard library only, and hatchling where hatchling runs it.
"""

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # run by hand
    BuildHookInterface = object

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "src" / "icefloe" / "spec" / "avro" / "native"
MODULE = FOLDER / "_manifest.abi3.so"
STAMP = FOLDER / "_manifest.stamp"
PLATFORM = "ICEFLOE_PLATFORM"
# Hide names, so that only the init function of the module is exported.
FLAGS = ("-O3", "-std=c11", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-DNDEBUG")


def build():
    """Compile if that is possible and needed; return True if the module exists afterwards."""
    if os.environ.get(PLATFORM) == "any":
        return left_out("it is built for any platform")
    if sys.platform == "win32":
        return left_out("on Windows it is not compiled")
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    if not shutil.which(compiler[0]):
        compiler = ["cc"]
    if not shutil.which(compiler[0]):
        return left_out("there is no C compiler")
    headers = sysconfig.get_path("include")
    if not (Path(headers) / "Python.h").exists():
        return left_out(f"{headers} has no Python.h (on Debian: apt-get install python3-dev)")
    linking = ("-bundle", "-undefined", "dynamic_lookup") if sys.platform == "darwin" else ("-shared",)
    libraries = ("-ldl",)  # for dlopen, which glibc has in a library of its own until version 2.34
    sources = sorted(str(path) for path in FOLDER.glob("*.c"))
    command = [*compiler, *FLAGS, *linking, f"-I{headers}", *sources, *libraries]
    stamp = fingerprint(command)
    if MODULE.exists() and STAMP.exists() and STAMP.read_text() == stamp:
        return True
    building = MODULE.with_name("_manifest.building")
    result = subprocess.run([*command, "-o", str(building)], capture_output=True, text=True, check=False)  # noqa: S603
    if result.returncode:
        building.unlink(missing_ok=True)
        return left_out(f"the C compiler failed:\n{result.stderr}")
    building.replace(MODULE)  # a running process keeps the old file
    STAMP.write_text(stamp)
    return True


def fingerprint(command):
    """Return a fingerprint that changes whenever the module would."""
    digest = hashlib.sha256(repr((command, sysconfig.get_platform())).encode())
    for path in sorted(FOLDER.glob("*.[ch]")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def left_out(why):
    """Print a notice, and remove a module of older sources."""
    print(f"icefloe: the compiled manifest codec is left out; everything works without it, but slower: {why}", file=sys.stderr)
    MODULE.unlink(missing_ok=True)
    STAMP.unlink(missing_ok=True)
    return False


def wheel_tag():
    """Return the tag of the wheel: one wheel for each platform, for every Python from 3.11 on."""
    platform = os.environ.get(PLATFORM) or sysconfig.get_platform().replace("-", "_").replace(".", "_")
    return f"cp311-abi3-{platform}"


class BuildNative(BuildHookInterface):
    """The hook that hatchling runs before it packs a wheel or installs the checkout as editable."""

    PLUGIN_NAME = "custom"

    def initialize(self, version, build_data):  # noqa: ARG002  the hook's signature
        """See `BuildHookInterface.initialize`."""
        if build():
            build_data["pure_python"] = False
            build_data["tag"] = wheel_tag()
            build_data["artifacts"].append(str(MODULE.relative_to(ROOT)))


if __name__ == "__main__":
    print(MODULE if build() else "not built")
