"""What a run needs and the repository does not have: PyIceberg's tests and documentation, and the packages that its tests import.

Everything is fetched by pip into a folder of the user's cache, never into the repository. The source package of PyIceberg has its tests; its documentation is
only in its Git repository, so `ICEFLOE_PYICEBERG_DOCS` may name a folder with it, `mkdocs/docs`.
"""

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

VERSION = "0.12.0"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "icefloe" / "pyiceberg-suite"
SUITE = CACHE / VERSION
SITE = CACHE / "site"
DOCS = Path(os.environ.get("ICEFLOE_PYICEBERG_DOCS") or CACHE / "docs")
# The documentation of the same version; GitHub serves a tag as an archive.
DOCS_ARCHIVE = f"https://github.com/apache/iceberg-python/archive/refs/tags/pyiceberg-{VERSION}.tar.gz"
# With their dependencies, which pip resolves. DuckDB, polars and DataFusion are extras of Icefloe that the tests use.
PACKAGES = (
    "pytest-lazy-fixtures",
    "pytest-mock",
    "requests-mock",
    "pydantic",
    "pytz",
    "pyparsing",
    "fastavro",
    "polars",
    "duckdb",
    "datafusion>=53,<54",
    "pyiceberg-core>=0.10.1,<0.11",
)


class MissingToolError(Exception):
    """Something could not be fetched. The text has the next step."""


def fetch() -> None:
    """Fetch the tests and the packages, unless they are there.

    Raises:
        MissingToolError: pip failed, for example without a network.
    """
    if not (SUITE / "tests" / "conftest.py").is_file():
        print(f"fetching the tests of PyIceberg {VERSION}", flush=True)
        downloads = CACHE / "downloads"
        _pip("download", "--no-deps", "--no-binary", ":all:", "--dest", str(downloads), f"pyiceberg=={VERSION}")
        with tarfile.open(downloads / f"pyiceberg-{VERSION}.tar.gz") as archive:
            members = [member for member in archive.getmembers() if f"pyiceberg-{VERSION}/tests/" in member.name]
            archive.extractall(CACHE / "unpacked", members=members, filter="data")
        SUITE.mkdir(parents=True, exist_ok=True)
        shutil.move(CACHE / "unpacked" / f"pyiceberg-{VERSION}" / "tests", SUITE / "tests")
    if not all((SITE / name).is_dir() for name in ("pytest_lazy_fixtures", "fastavro")):
        print("fetching the packages that the tests import", flush=True)
        _pip("install", "--target", str(SITE), *PACKAGES)


def _pip(*arguments: str) -> None:
    ended = subprocess.run([sys.executable, "-m", "pip", "--quiet", *arguments], capture_output=True, text=True, check=False)
    if ended.returncode:
        raise MissingToolError(
            f"pip {arguments[0]} failed:\n{ended.stderr[-2000:]}\nNext: check the network and pip's configuration, and run it again"
        )
