"""Snapshots in the options of reads: what is no id and no time."""

import pytest

from icefloe.errors import InvalidInputError
from icefloe.spark.scan.table_selector import snapshot_id_of, timestamp_ms


@pytest.mark.parametrize(
    "text", ["one", "9" * 5_000, str(2**63), "²", "1_000"], ids=["word", "many digits", "64 bits", "superscript", "underscore"]
)
def test_an_id_or_a_time_that_no_snapshot_can_have_is_an_error_of_few_words(text: str) -> None:
    with pytest.raises(InvalidInputError, match="not a whole number of 64 bits") as raised:
        snapshot_id_of("start-snapshot-id", text)
    assert len(str(raised.value)) < 400
    with pytest.raises(InvalidInputError, match="is not a time with its zone") as raised:
        timestamp_ms(text)
    assert len(str(raised.value)) < 400
