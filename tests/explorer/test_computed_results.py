"""Results that pages share: computed once, and an error only for some seconds."""

import pytest

from icefloe.errors import StorageUnavailableError
from icefloe.explorer.computed_results import Results


def test_an_error_of_a_moment_is_not_shown_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [100.0]
    monkeypatch.setattr("icefloe.explorer.computed_results.time.monotonic", lambda: now_s[0])
    outcomes: list[object] = [StorageUnavailableError("the storage does not respond"), "second", "third"]

    def compute() -> str:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return str(outcome)

    results = Results(patience_s=None)
    try:
        for _ in range(2):  # a page that waits for other results loads again and again
            with pytest.raises(StorageUnavailableError):
                results.get("key", compute, "Computing")
        now_s[0] += 11
        assert [results.get("key", compute, "Computing") for _ in range(2)] == ["second", "second"]
    finally:
        results.close()


def test_of_large_results_the_last_few_are_kept_and_of_others_more() -> None:
    computed: list[str] = []

    def get(results: Results, key: str, kind: str) -> None:
        results.get(key, lambda: computed.append(key), "Computing", kind=kind)

    results = Results(patience_s=None)
    try:
        get(results, "small", "")
        for number in range(7):
            get(results, f"trace {number}", "trace")
        assert len(computed) == 8
        for key, kind in (("small", ""), ("trace 6", "trace"), ("trace 3", "trace")):
            get(results, key, kind)
        assert len(computed) == 8, "they are there"
        get(results, "trace 0", "trace")
        assert computed[8:] == ["trace 0"]
    finally:
        results.close()
