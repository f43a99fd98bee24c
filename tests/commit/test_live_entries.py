"""Which manifests may contain a file of a partition, by their partition summaries. A manifest that contains one must never be skipped."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.commit.made_up_table import BY_NAME, FLAT, MadeUpTable
from tests.repetitions import examples

from icefloe.commit.live_entries import equal_partitions, may_contain_partitions
from icefloe.spec.manifest.partition_summary import summarise
from icefloe.spec.manifest_list.manifest_file import ManifestFile, PartitionFieldSummary
from icefloe.spec.metadata.snapshot_manifests import spec_partition_type

TABLE = MadeUpTable(2)


def manifest(*summaries: PartitionFieldSummary, spec_id: int = BY_NAME) -> ManifestFile:
    return ManifestFile(
        manifest_path="m", manifest_length=1, partition_spec_id=spec_id, added_snapshot_id=1, partitions=summaries if summaries else None
    )


B_TO_D = PartitionFieldSummary(False, None, b"b", b"d")


@pytest.mark.parametrize(
    ("value", "summary", "expected"),
    [
        ("c", B_TO_D, True), ("b", B_TO_D, True), ("d", B_TO_D, True), ("a", B_TO_D, False), ("e", B_TO_D, False), (None, B_TO_D, False),
        (None, PartitionFieldSummary(True), True), ("a", PartitionFieldSummary(False), True), ("a", PartitionFieldSummary(False, None, b"\xff"), True),
    ],
)  # fmt: skip
def test_a_manifest_cannot_contain_values_outside_of_its_bounds(value: str | None, summary: PartitionFieldSummary, expected: bool) -> None:
    assert may_contain_partitions(TABLE.metadata, manifest(summary), [(BY_NAME, (value,))]) is expected


def test_a_manifest_of_another_spec_is_excluded_and_one_without_summaries_is_not() -> None:
    assert not may_contain_partitions(TABLE.metadata, manifest(spec_id=FLAT), [(BY_NAME, ("a",))])
    assert may_contain_partitions(TABLE.metadata, manifest(), [(BY_NAME, ("a",))])
    assert may_contain_partitions(TABLE.metadata, manifest(B_TO_D), None)
    assert not may_contain_partitions(TABLE.metadata, manifest(B_TO_D), [])


@settings(max_examples=examples(100))
@given(st.lists(st.none() | st.text(max_size=3), min_size=1, max_size=4), st.none() | st.text(max_size=3))
def test_a_manifest_that_contains_a_partition_is_never_skipped(values: list[str | None], value: str | None) -> None:
    partition_type = spec_partition_type(TABLE.metadata, BY_NAME)
    summarised = manifest(*summarise(partition_type, {(each,) for each in values}))
    if value in values:
        assert may_contain_partitions(TABLE.metadata, summarised, [(BY_NAME, (value,))])


def test_partitions_with_nan_are_equal() -> None:
    assert equal_partitions((1, math.nan), (1, float("nan")))
    assert not equal_partitions((1, None), (1, math.nan))
    assert not equal_partitions((1,), (1, 2))
