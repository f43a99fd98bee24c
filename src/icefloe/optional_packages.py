"""The extras of Icefloe: which feature needs which extra, and the command that installs an extra into the running Python.

Without extras, Icefloe has the packages that reading and writing with Arrow needs. Every other package is in an extra of `pyproject.toml`. Outside of
`icefloe.spark`, such a package is imported through `optional_module` when its feature is used. This module makes all errors about missing packages, which are
`NotInstalledError`.
"""

import os
import shlex
import shutil
import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from icefloe.errors import NotInstalledError

# Each extra and what it is for; `pyproject.toml` has its packages.
EXTRAS = {
    "spark": "Spark: sessions, SQL and DataFrames, with a Java runtime",
    "connect": "sessions of Spark Connect",
    "pandas": "pandas DataFrames",
    "s3": "tables in S3",
    "gcs": "tables in Google Cloud Storage",
    "azure": "tables in Azure storage",
    "glue": "a catalog in AWS Glue",
    "hive": "a catalog in a Hive metastore",
    "postgres": "a catalog in PostgreSQL",
    "rest": "REST catalogs",
    "server": "`icefloe serve`, the REST catalog server",
    "explore": "the server of `icefloe explore`",
    "demo": "the data set of `icefloe demo`",
    "polars": "polars DataFrames",
    "duckdb": "tables of DuckDB",
    "ray": "datasets of Ray",
    "daft": "Daft DataFrames",
    "bodo": "Bodo DataFrames",
    "datafusion": "tables of DataFusion",
}
PROJECT = "icefloe"


def optional_module(name: str, *, extra: str | None, feature: str) -> ModuleType:
    """Import a module of an optional package.

    Args:
        name: The module, such as `pandas`.
        extra: The extra of Icefloe that installs the package; None if there is none.
        feature: The feature that needs the package, as the subject of the error: "to_pandas()".

    Returns:
        The imported module.

    Raises:
        NotInstalledError: The package is not installed, or cannot be imported.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise not_installed(feature, name.partition(".")[0], extra=extra, cause=error) from error


def not_installed(feature: str, package: str, *, extra: str | None, cause: BaseException | None = None) -> NotInstalledError:
    """Return the error for a feature whose package is missing, with the command that installs the package.

    Args:
        feature: The feature that needs the package, as the subject of a sentence.
        package: The top-level module of the package.
        extra: The extra of Icefloe that installs the package; None if there is none.
        cause: The failed import. Its text is in the message if the package is installed but cannot be imported.

    Returns:
        The error, to be raised by the caller.
    """
    is_missing = (isinstance(cause, ModuleNotFoundError) and cause.name == package) or not _is_installed(package)
    reason = "which is not installed" if cause is None or is_missing else f"which cannot be imported: {cause}"
    # Without an extra no command is suggested: the name may come from a URI, and a package index may have a malicious package of this name.
    command = f"run {install_command(extra)}" if extra else f"install the Python package that brings the module {package}"
    return NotInstalledError(f"{feature} needs the package {package}, {reason}", next_step=command)


def install_command(extra: str) -> str:
    """Return the shell command that installs an extra into the environment of the running Python.

    The command uses uv if the environment has no pip. It names the interpreter by its path if `pip` or `uv pip` of the shell would install into another
    environment.

    Args:
        extra: A key of `EXTRAS`.

    Returns:
        One line, such as `pip install "icefloe[spark]"`.
    """
    requirement = f'"{PROJECT}[{extra}]"'
    if find_spec("pip") is not None:
        return f"{_pip()} install {requirement}"
    if shutil.which("uv") is None and find_spec("ensurepip") is not None:
        return f"{_python()} -m ensurepip && {_python()} -m pip install {requirement}"
    # uv installs into the activated environment; any other environment must be named.
    is_active = os.environ.get("VIRTUAL_ENV") == sys.prefix
    return f"uv pip install {'' if is_active else f'--python {_quote(sys.executable)} '}{requirement}"


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):  # the import of pip is blocked, or pip was loaded without a module spec
        return False


def _pip() -> str:
    """Return `pip` if that is the shell's name for the pip of this environment; otherwise the interpreter with `-m pip`."""
    path = shutil.which("pip")
    in_this_environment = path is not None and _same_folder(path, sys.executable)
    return "pip" if in_this_environment else f"{_python()} -m pip"


def _python() -> str:
    """Return `python` or `python3` if that is the shell's name for this interpreter; otherwise the path of the interpreter."""
    for name in ("python", "python3"):
        path = shutil.which(name)
        if path is not None and _same_folder(path, sys.executable) and os.path.realpath(path) == os.path.realpath(sys.executable):
            return name
    return _quote(sys.executable)


def _same_folder(folder: str, other: str) -> bool:
    # Only folders are resolved, not the file: the interpreter of a virtual environment is a link to an interpreter that has other packages.
    return os.path.realpath(os.path.dirname(folder)) == os.path.realpath(os.path.dirname(other))


def _quote(path: str) -> str:
    return f'"{path}"' if os.name == "nt" else shlex.quote(path)
