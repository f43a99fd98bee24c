"""How long a commit is retried is a property of the table, which others write: it has a limit."""

from types import SimpleNamespace
from typing import Any

import pytest

from icefloe.operations.commit_retries import LONGEST_WAIT_S, MOST_SECONDS, _retrying

MOST = "9" * 19
ENDLESS = {f"commit.retry.{name}": MOST for name in ("num-retries", "min-wait-ms", "max-wait-ms", "total-timeout-ms")}


def after(seconds: float, attempts: int = 5) -> Any:
    return SimpleNamespace(seconds_since_start=seconds, attempt_number=attempts, upcoming_sleep=0.0)


@pytest.mark.parametrize(("settings", "last_s"), [(ENDLESS, MOST_SECONDS), ({**ENDLESS, "commit.retry.total-timeout-ms": "2500"}, 2.5)])
def test_retries_end_whatever_the_properties_are(settings: dict[str, str], last_s: float) -> None:
    retrying = _retrying(settings)
    assert not retrying.stop(after(last_s - 0.1))  # type: ignore[operator]
    assert retrying.stop(after(last_s))  # type: ignore[operator]
    assert all(retrying.wait(after(0, attempts)) <= LONGEST_WAIT_S for attempts in (1, 2, 50, 100_000))  # type: ignore[operator]
