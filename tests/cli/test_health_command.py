"""`icefloe health`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.cli.conftest import Command
from tests.maintenance.test_rewrite_data_files import made, small_files


def test_the_command_prints_text_and_json(icefloe: Command, as_json: Callable[..., Any], tmp_path: Path) -> None:
    small_files(made(tmp_path), 6)
    run = icefloe("health", "db.t", "--warehouse", tmp_path)
    assert run.exit_code == 0, run.output
    assert "small files" in run.stdout
    assert "needs care" in run.stdout
    measured = as_json("health", "db.t", "--warehouse", tmp_path, "--column", "kind")
    assert [one["column"] for one in measured["clustering"]] == ["kind"]
    refused = icefloe("health", "db.t", "--warehouse", tmp_path, "--branch", "nope")
    assert refused.exit_code == 1
    assert "nope" in refused.stderr
