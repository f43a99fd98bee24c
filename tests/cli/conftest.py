"""A warehouse with one table, and `icefloe` as a function: in this process, or as a command in another one."""

import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.inspect.example import make_lake
from typer.testing import CliRunner, Result

from icefloe.cli import spark_access
from icefloe.cli.application import app

Command = Callable[..., Result]
Process = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("warehouse")
    make_lake(folder)
    return folder


@pytest.fixture(autouse=True)
def _no_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide the catalogs that this machine configures."""
    for variable in ("ICEFLOE_HOME", "PYICEBERG_HOME", "ICEFLOE_CATALOG", "PYICEBERG_DEFAULT_CATALOG", "COLUMNS"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def _no_log_handler_stays() -> Iterator[None]:
    """Remove the log handler of commands that used Spark in this process: later warnings would be written to the closed standard error of the first of them."""
    yield
    logging.getLogger().removeHandler(spark_access._WARNINGS)


@pytest.fixture
def icefloe() -> Command:
    """Run a command in this process."""

    def run(*words: object, answer: str | None = None) -> Result:
        return CliRunner().invoke(app, [str(word) for word in words], answer, catch_exceptions=False)

    return run


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Make the standard output and error of `icefloe` a terminal without colours, of a width."""

    def of_width(width: int) -> None:
        for name, value in {"COLUMNS": width, "LINES": 50, "TERM": "dumb"}.items():
            monkeypatch.setenv(name, str(value))
        monkeypatch.setattr("typer.testing._NamedTextIOWrapper.isatty", lambda stream: stream.name != "<stdin>", raising=False)

    return of_width


@pytest.fixture
def process() -> Process:
    """Run the command in another process, as a user does."""

    def run(*words: object, **options: Any) -> "subprocess.CompletedProcess[str]":
        command = [str(Path(sys.executable).with_name("icefloe")), *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, **options)

    return run


@pytest.fixture
def as_json(icefloe: Command) -> Callable[..., Any]:
    """Run a command with `--json` and return the value that it printed; nothing else may be printed."""

    def run(*words: object) -> Any:
        result = icefloe(*words, "--json")
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    return run
