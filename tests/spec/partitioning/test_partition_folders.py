"""Texts of partition folders, as Hive and Spark write them and as Iceberg does."""

import pytest

from icefloe.errors import InvalidInputError
from icefloe.spec.partitioning.partition_folders import HIVE_NULL, folders_in_path, hive_value, iceberg_value


def test_only_folders_above_the_file_count_and_names_are_decoded() -> None:
    assert folders_in_path("s3://b/my%20day=a%20b/x=/y/p=q=r/k=v.parquet") == [("my day", "a%20b"), ("x", ""), ("p", "q=r")]


@pytest.mark.parametrize(
    ("text", "of_hive", "of_iceberg"),
    [
        ("a+b", "a+b", "a b"),
        ("null", "null", None),
        ("a%2Bb%20", "a+b ", "a+b "),
        (HIVE_NULL, None, None),
        ("%", "%", "%"),
        ("%C3%A9", "é", "é"),
    ],
)
def test_values_depend_on_the_layout(text: str, of_hive: str | None, of_iceberg: str | None) -> None:
    assert (hive_value(text), iceberg_value(text)) == (of_hive, of_iceberg)


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="UTF-8"):
        hive_value("%FF")
