"""A pytest plugin that writes the result of each test to the file that `ICEFLOE_SUITE_RESULTS` names.

An error of the right class with other words than PyIceberg's passes as "other words", since the text of an error is no part of an API.
"""

import json
import os
import re
from typing import Any

import pytest

WORDS = re.compile(r"^assert .*(\bstr\(\w+(\.value)?\)|\w+\.value\.args|\w+\.message\b|caplog\.|\.output\b)")


class State:
    """What the plugin keeps during a test."""

    other_words = False


_raises = pytest.raises


def raises_with_any_words(expected: Any, *args: Any, match: Any = None, **named: Any) -> Any:
    """Return `pytest.raises` that accepts other words, and notes that it did."""
    if args or match is None:
        return _raises(expected, *args, **named)
    return _AnyWords(expected, match, named)


class _AnyWords:
    def __init__(self, expected: Any, match: Any, named: dict[str, Any]) -> None:
        self.context, self.pattern = _raises(expected, **named), match

    def __enter__(self) -> Any:
        self.info = self.context.__enter__()
        return self.info

    def __exit__(self, *error: Any) -> Any:
        result = self.context.__exit__(*error)
        if result and not re.search(self.pattern, str(self.info.value)):
            State.other_words = True
        return result


pytest.raises = raises_with_any_words


def pytest_runtest_setup(item: Any) -> None:
    State.other_words = False


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Any:
    outcome = yield
    report = outcome.get_result()
    if report.when == "teardown":
        return
    if report.when == "setup" and report.outcome == "passed":
        return
    status, text = report.outcome, ""
    if report.outcome == "failed":
        text = _last_line(call)
        if report.when == "call" and call.excinfo.errisinstance(AssertionError) and WORDS.search(_statement(call)):
            status = "other words"
    elif report.outcome == "skipped":
        text = str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else ""
    elif State.other_words:
        status = "other words"
    _write({"test": item.nodeid, "status": status, "reason": text, "seconds": round(call.duration, 2)})


def pytest_collectreport(report: Any) -> None:
    if report.failed:
        _write(
            {
                "test": report.nodeid,
                "status": "failed",
                "reason": "collection: " + str(report.longrepr).strip().rpartition("\n")[2],
                "seconds": 0.0,
            }
        )


def _last_line(call: Any) -> str:
    first = next((line for line in call.excinfo.exconly().splitlines() if line.strip()), "")
    return f"{_statement(call)[:120]} | {first[:300]}"


def _statement(call: Any) -> str:
    entries = [entry for entry in call.excinfo.traceback if "/tests/" in str(entry.path)]
    return " ".join(str(entries[-1].statement).split()) if entries else ""


def _write(result: dict[str, Any]) -> None:
    with open(os.environ["ICEFLOE_SUITE_RESULTS"], "a") as file:
        file.write(json.dumps(result) + "\n")
