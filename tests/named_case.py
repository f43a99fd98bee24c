"""The name of a case in the error of a check that fails in a loop over cases."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def named(case: object) -> Iterator[None]:
    """Add the case to an error: `pytest.raises` does not show what has raised nothing."""
    try:
        yield
    except (Exception, pytest.fail.Exception) as error:
        error.add_note(f"in the case: {case}")
        raise
