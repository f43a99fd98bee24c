"""Which manifests may hold a file of a partition: by the summaries in their list, which must never leave out one that does."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernel.commit.made_up_table import BY_NAME, FLAT, MadeUpTable

from icefloe.kernel.commit.live_entries import equal_partitions, may_contain_partitions
from icefloe.kernel.manifest.partition_summary import summarise
from icefloe.kernel.manifest_list.manifest_file import ManifestFile, PartitionFieldSummary
from icefloe.kernel.metadata.manifests import spec_partition_type

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
def test_values_outside_the_bounds_are_not_there(value: str | None, summary: PartitionFieldSummary, expected: bool) -> None:
    assert may_contain_partitions(TABLE.metadata, manifest(summary), [(BY_NAME, (value,))]) is expected


def test_a_manifest_of_another_spec_holds_none_and_one_without_summaries_may_hold_any() -> None:
    assert not may_contain_partitions(TABLE.metadata, manifest(spec_id=FLAT), [(BY_NAME, ("a",))])
    assert may_contain_partitions(TABLE.metadata, manifest(), [(BY_NAME, ("a",))])
    assert may_contain_partitions(TABLE.metadata, manifest(B_TO_D), None)
    assert not may_contain_partitions(TABLE.metadata, manifest(B_TO_D), [])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.none() | st.text(max_size=3), min_size=1, max_size=4), st.none() | st.text(max_size=3))
def test_no_manifest_that_holds_a_partition_is_passed_over(held: list[str | None], wanted: str | None) -> None:
    kind = spec_partition_type(TABLE.metadata, BY_NAME)
    found = manifest(*summarise(kind, {(value,) for value in held}))
    if wanted in held:
        assert may_contain_partitions(TABLE.metadata, found, [(BY_NAME, (wanted,))])


def test_nan_is_one_partition() -> None:
    assert equal_partitions((1, math.nan), (1, float("nan")))
    assert not equal_partitions((1, None), (1, math.nan))
    assert not equal_partitions((1,), (1, 2))
