"""Which manifests a commit merges, and that merging keeps entries, sequence numbers and statistics. tests/oracle compares the same appends with Java."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.commit.made_up_table import MadeUpTable, equality_deletes, name_of, rows
from tests.repetitions import examples

from icefloe.commit.append import Append
from icefloe.commit.new_manifest import MergeRules
from icefloe.commit.overwrite import Overwrite
from icefloe.commit.row_delta import RowDelta
from icefloe.spec.manifest.entry import ManifestEntry
from icefloe.spec.manifest_list.manifest_list_reader import ManifestSummary

SUMMARIES = st.builds(ManifestSummary, st.sampled_from([0, 1]), st.integers(0, 2), st.integers(1, 12), st.just(True), st.just(True))


def merging(count: int = 2, size: int = 8_388_608, version: int = 2, **others: str) -> MadeUpTable:
    properties = {"commit.manifest.min-count-to-merge": str(count), "commit.manifest.target-size-bytes": str(size)}
    return MadeUpTable(version, {**properties, **others})


def counts(table: MadeUpTable) -> tuple[str, str, str]:
    snapshot = table.metadata.current_snapshot()
    assert snapshot
    return tuple(snapshot.summary[f"manifests-{what}"] for what in ("created", "kept", "replaced"))  # type: ignore[return-value]


def entry_fields(table: MadeUpTable) -> dict[str, Any]:
    """Return the fields of each live entry that do not depend on the number of manifests, as row ids do."""
    live: dict[str, ManifestEntry] = table.live()
    return {name: (entry.snapshot_id, entry.sequence_number, entry.file_sequence_number, entry.data_file) for name, entry in live.items()}


@settings(max_examples=examples(300))
@given(st.lists(SUMMARIES, max_size=14), st.integers(3, 30), st.integers(1, 5))
def test_bins_are_the_longest_runs_of_adjacent_manifests_that_fit_packed_from_the_end(
    summaries: list[ManifestSummary], target: int, min_count: int
) -> None:
    bins = MergeRules(is_enabled=True, target_bytes=target, min_count=min_count).bins(summaries)
    assert sorted(index for indices, _ in bins for index in indices) == list(range(len(summaries)))
    for content in (0, 1):
        newest = next((index for index, summary in enumerate(summaries) if summary.content == content), None)
        for spec in (0, 1, 2):
            group = [index for index, summary in enumerate(summaries) if (summary.content, summary.spec_id) == (content, spec)]
            group_bins = [(indices, is_merged) for indices, is_merged in bins if indices[0] in group]
            assert [index for indices, _ in group_bins for index in indices] == group
            end = len(group)
            for indices, is_merged in reversed(group_bins):
                # The longest run that ends here and fits; a manifest larger than the target has its own bin.
                starts = [
                    start
                    for start in range(end)
                    if start == end - 1 or sum(summaries[index].length for index in group[start:end]) <= target
                ]
                assert indices == group[min(starts) : end]
                end = min(starts)
                assert is_merged == (len(indices) > 1 and (newest not in indices or len(indices) >= min_count))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_newest_manifests_are_merged_only_when_there_are_enough(version: int) -> None:
    table, unmerged = merging(3, version=version), MadeUpTable(version)
    merged_counts = []
    for number in range(6):
        for target in (table, unmerged):
            target.commit(
                Append(
                    [rows(f"d{number}", 3 + number, column_sizes={1: number}, lower_bounds={1: b"x"})],
                    target.context(),
                    merge=target is table,
                )
            )
        merged_counts.append((len(table.manifests()), counts(table)))
        if version < 3:
            assert entry_fields(table) == entry_fields(unmerged)
    assert merged_counts == [
        (1, ("1", "0", "0")),
        (2, ("1", "1", "0")),
        (1, ("1", "0", "2")),
        (2, ("1", "1", "0")),
        (1, ("1", "0", "2")),
        (2, ("1", "1", "0")),
    ]
    assert counts(unmerged) == ("1", "5", "0")


def test_a_manifest_that_is_merged_at_once_is_never_written() -> None:
    table = merging(2)
    table.commit(Append([rows("a")], table.context()))
    attempt = table.attempt(Append([rows("b")], table.context()))
    assert [file.location for file in attempt.manifest_files] == [manifest.manifest_path for manifest in attempt.manifests]
    assert len(attempt.manifests) == 1


def test_a_retry_reuses_a_merged_manifest_if_its_sources_are_still_in_the_table() -> None:
    table = merging(2)
    table.commit(RowDelta(added_deletes=[equality_deletes("e")], **table.numbered()))
    table.commit(Append([rows("a")], table.context()))
    action = Append([rows("b")], table.context())
    lost = table.attempt(action)
    # Another writer changes only files of other manifests: the merged manifest is still valid.
    table.commit(RowDelta(added_deletes=[equality_deletes("f")], **table.numbered()))
    again = table.attempt(action, 1)
    assert again.manifest_files == lost.manifest_files
    assert again.manifests == lost.manifests
    # Another writer merges its sources: they are merged again, and the attempt does not list the first merged manifest.
    table.commit(Append([rows("c")], table.context()))
    third = table.attempt(action, 2)
    assert [file.location for file in third.manifest_files] == [manifest.manifest_path for manifest in third.manifests]
    assert third.manifests != lost.manifests
    table.commit(action, 3)
    assert set(table.live()) == {"a", "b", "c", "e", "f"}
    assert {name_of(entry.data_file): entry.sequence_number for entry in table.live().values()}["b"] == 5


def test_nothing_is_merged_by_a_fast_append_or_if_merging_is_disabled() -> None:
    for merge, is_enabled in ((True, "false"), (False, "true")):
        table = merging(2, **{"commit.manifest-merge.enabled": is_enabled})
        for number in range(4):
            table.commit(Append([rows(f"d{number}")], table.context(), merge=merge))
        assert len(table.manifests()) == 4
        assert counts(table) == ("1", "3", "0")


def test_a_merge_append_drops_manifests_without_live_files_and_a_fast_one_keeps_them() -> None:
    for merge, expected in ((True, {"b"}), (False, {"b", "a"})):
        table = MadeUpTable(2)
        table.commit(Append([rows("a")], table.context()))
        table.commit(Overwrite(removed=["a"], added=[], **table.numbered()))
        table.commit(Append([rows("b")], table.context(), merge=merge))
        assert {entry.data_file.file_path for _, entries in table.entries() for entry in entries} == expected


def test_a_rewritten_manifest_is_merged_in_its_place() -> None:
    """Entries that the commit removes are DELETED in the merged manifest; other files keep their sequence numbers."""
    table = merging(2, version=3)
    table.commit(Append([rows("a"), rows("b")], table.context(), merge=False))
    table.commit(Append([rows("c")], table.context(), merge=False))
    before = {name: entry.data_file.first_row_id for name, entry in table.live().items()}
    table.commit(Overwrite(removed=["a"], added=[rows("d")], **table.numbered()))
    assert counts(table) == ("1", "0", "2")
    assert {entry.data_file.file_path: entry.status.name for _, entries in table.entries() for entry in entries} == {
        "a": "DELETED",
        "b": "EXISTING",
        "c": "EXISTING",
        "d": "ADDED",
    }
    after = {name: entry.data_file.first_row_id for name, entry in table.live().items()}
    assert {name: after[name] for name in ("b", "c")} == {name: before[name] for name in ("b", "c")}
    assert [entry.sequence_number for entry in sorted(table.live().values(), key=lambda entry: entry.data_file.file_path)] == [1, 2, 3]
