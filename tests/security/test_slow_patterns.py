"""Matching texts of tables and files takes time in proportion to their length."""

import time

import pytest

from icefloe.errors import EngineError, MetadataFormatError
from icefloe.spark.scan.input_file_rows import _clearer
from icefloe.spec.schema.schema_json import type_from_json

LENGTH = 200_000


@pytest.mark.parametrize("start", ["geometry(", "geography(", "geography(a,", "geography", "fixed[", "decimal("])
@pytest.mark.parametrize("filling", [" ", "'", " '", '"', ","])
def test_a_long_name_of_a_type_is_refused_quickly(start: str, filling: str) -> None:
    before = time.process_time()
    with pytest.raises(MetadataFormatError):
        type_from_json(start + filling * (LENGTH // len(filling)) + "!")
    assert time.process_time() - before < 1


def test_a_malformed_row_of_many_blanks_is_reported_quickly() -> None:
    before = time.process_time()
    message = _clearer(
        EngineError("failed"), "[MALFORMED_RECORD_IN_PARSING.X] Malformed records: [a" + " " * LENGTH + "!].\nParse Mode: FAILFAST."
    )
    assert time.process_time() - before < 1
    assert "[a" in str(message)


def test_a_malformed_row_is_quoted_without_the_words_of_spark() -> None:
    text = "[MALFORMED_RECORD_IN_PARSING.X] Malformed records are detected in record parsing: [1,null]. Parse Mode: FAILFAST. To process"
    assert str(_clearer(EngineError("failed"), text)).splitlines()[0].endswith("a row does not match its columns; Spark read [1,null]")
