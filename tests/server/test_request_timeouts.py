"""The answer of the server to a request that takes longer than it waits."""

import pytest

from icefloe.server.operations import OPERATIONS, Operation
from icefloe.server.request_handler import _timed_out


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_only_requests_that_change_nothing_are_to_be_repeated(operation: Operation) -> None:
    answer = _timed_out(operation)
    is_change = operation.takes_key
    assert (answer.code, "Retry-After" in dict(answer.headers)) == ((504, False) if is_change else (503, True))
    assert ("unknown whether it happens" in answer.message) == is_change
