"""The list of expected differences, and the comparison of a run with it. The list is `expected.toml`; its head explains how to read it."""

import fnmatch
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LIST = Path(__file__).parent / "expected.toml"


@dataclass(frozen=True)
class Difference:
    """Tests, by pattern, or tests that fail with a text, with the reason."""

    pattern: str
    text: str
    reason: str


def files_to_run(folder: Path) -> list[str]:
    """Return every file of tests, relative to the suite's folder, without those that `expected.toml` leaves out."""
    left_out = [pattern for group in tomllib.loads(LIST.read_text())["left_out"] for pattern in group["files"]]
    files = sorted(path.relative_to(folder).as_posix() for path in (folder / "tests").rglob("test_*.py"))
    return [file for file in files if not any(fnmatch.fnmatchcase(file, f"tests/{pattern}") for pattern in left_out)]


def differences(path: Path = LIST) -> list[Difference]:
    """Return the entries of a list: of tests by name first, then of error texts."""
    groups = tomllib.loads(path.read_text())["difference"]
    named = [Difference(pattern, "", group["reason"]) for group in groups for pattern in group.get("tests", ())]
    return named + [Difference("*", text, group["reason"]) for group in groups for text in group.get("texts", ())]


def expected_as(result: Mapping[str, Any], listed: Iterable[Difference]) -> Difference | None:
    """Return the entry of the list for a failed test."""
    name = result["test"].removeprefix("tests/")
    return next(
        (one for one in listed if (one.text in result["reason"] if one.text else fnmatch.fnmatchcase(name, one.pattern))),
        None,
    )
