"""The limits of the process."""

import re

import pytest

from icefloe import InvalidInputError, InvalidPropertyError, Limits, set_limits
from icefloe.spec.limits import limits


@pytest.mark.parametrize("value", [5, None, {"avro_block_bytes": 5}, "avro_block_bytes=5", Limits])
def test_only_limits_become_the_limits_of_the_process(value: object) -> None:
    before = limits()
    with pytest.raises(InvalidInputError, match=re.escape(repr(value))) as refused:
        set_limits(value)  # type: ignore[arg-type]
    assert "pass the limits to change as icefloe.Limits(" in (refused.value.next_step or "")
    assert limits() is before


@pytest.mark.parametrize("value", [0, -1, 1.5, "5", True, 1 << 63])
def test_a_limit_is_a_whole_number_above_zero(value: object) -> None:
    with pytest.raises(InvalidPropertyError, match="avro_block_bytes"):
        Limits(avro_block_bytes=value)  # type: ignore[arg-type]
