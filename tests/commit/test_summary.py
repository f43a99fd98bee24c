"""Snapshot summaries: counts of added and removed files and rows, and totals computed from those of the parent."""

from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings
from tests.repetitions import examples

from icefloe.commit.snapshot_attempt import build_summary
from icefloe.spec.manifest.data_file import DataFile, FileContent, FileFormat

TOTALS = ("data-files", "delete-files", "records", "files-size", "position-deletes", "equality-deletes")


def file(records: int = 10, size: int = 100, **changes: Any) -> DataFile:
    return DataFile(**{"file_path": "f", "file_format": FileFormat.PARQUET, "record_count": records, "file_size_in_bytes": size, **changes})


def test_the_first_append_counts_from_zero() -> None:
    added = [file(partition=("a",)), file(5, 50, partition=("b",)), file(1, 1, partition=("a",))]
    assert build_summary("append", added=added, previous=None) == {
        "operation": "append",
        "added-data-files": "3",
        "added-records": "16",
        "added-files-size": "151",
        "changed-partition-count": "2",
        "total-data-files": "3",
        "total-delete-files": "0",
        "total-records": "16",
        "total-files-size": "151",
        "total-position-deletes": "0",
        "total-equality-deletes": "0",
    }


def test_an_overwrite_updates_the_totals_of_the_parent() -> None:
    parent = build_summary("append", added=[file(), file(20, 200)], previous=None)
    summary_fields = build_summary("overwrite", added=[file(15, 150)], deleted=[file(20, 200)], previous=parent)
    assert (summary_fields["added-data-files"], summary_fields["deleted-data-files"]) == ("1", "1")
    assert (summary_fields["added-records"], summary_fields["deleted-records"]) == ("15", "20")
    assert (summary_fields["added-files-size"], summary_fields["removed-files-size"]) == ("150", "200")
    assert (summary_fields["total-data-files"], summary_fields["total-records"], summary_fields["total-files-size"]) == ("2", "25", "250")


def test_delete_files_are_counted_by_their_content() -> None:
    added = [
        file(3, 30, content=FileContent.POSITION_DELETES),
        file(4, 40, content=FileContent.POSITION_DELETES, file_format=FileFormat.PUFFIN),
        file(5, 50, content=FileContent.EQUALITY_DELETES),
    ]
    summary_fields = build_summary("overwrite", added=added, previous=None)
    assert "added-data-files" not in summary_fields
    assert "added-records" not in summary_fields
    assert summary_fields["added-delete-files"] == "3"
    assert (summary_fields["added-position-delete-files"], summary_fields["added-dvs"], summary_fields["added-equality-delete-files"]) == (
        "1",
        "1",
        "1",
    )
    assert (summary_fields["added-position-deletes"], summary_fields["added-equality-deletes"]) == ("7", "5")
    assert (summary_fields["total-delete-files"], summary_fields["total-position-deletes"], summary_fields["total-equality-deletes"]) == (
        "3",
        "7",
        "5",
    )
    removed = build_summary("overwrite", deleted=added, previous=summary_fields)
    assert (removed["removed-delete-files"], removed["removed-dvs"], removed["total-delete-files"]) == ("3", "1", "0")


def test_a_total_that_the_parent_lacks_is_omitted() -> None:
    summary_fields = build_summary("append", added=[file()], previous={"operation": "append", "total-records": "7"})
    assert {key: text for key, text in summary_fields.items() if key.startswith("total-")} == {"total-records": "17"}


def test_an_invalid_total_of_the_parent_is_omitted() -> None:
    for wrong in ("", "many", "-3", "1_0", "٣", "9" * 30):
        assert "total-records" not in build_summary("append", added=[file()], previous={"total-records": wrong})
    assert "total-records" not in build_summary("delete", deleted=[file()], previous={"total-records": "3"})


def test_equal_partitions_of_two_specs_are_two_partitions() -> None:
    summary_fields = build_summary("append", added=[file(partition=(1,), spec_id=0), file(partition=(1,), spec_id=1)], previous=None)
    assert summary_fields["changed-partition-count"] == "2"


def test_extra_keys_are_kept_and_do_not_replace_counts() -> None:
    extra = {"engine-name": "spark", "total-records": "0", "added-records": "9", "operation": "delete", "deleted-records": "4"}
    summary_fields = build_summary("append", added=[file()], previous=None, extra=extra)
    assert (
        summary_fields["engine-name"],
        summary_fields["total-records"],
        summary_fields["added-records"],
        summary_fields["operation"],
    ) == ("spark", "10", "10", "append")
    assert "deleted-records" not in summary_fields


FILES = st.builds(
    file,
    st.integers(0, 9),
    st.integers(0, 99),
    content=st.sampled_from(FileContent),
    file_format=st.sampled_from([FileFormat.PARQUET, FileFormat.PUFFIN]),
    partition=st.tuples(st.integers(0, 2)),
)


@settings(max_examples=examples(60))
@given(st.lists(st.tuples(st.lists(FILES, max_size=4), st.integers(0, 4)), max_size=6))
def test_totals_after_any_commits_are_those_of_the_live_files(commits: list[tuple[list[DataFile], int]]) -> None:
    live: list[DataFile] = []
    summary = None
    for added, count in commits:
        removed_files, live = live[:count], live[count:] + added
        summary = build_summary("overwrite", added=added, deleted=removed_files, previous=summary)
    if summary is not None:
        live_summary = build_summary("append", added=live, previous=None)
        assert [summary[f"total-{key}"] for key in TOTALS] == [live_summary[f"total-{key}"] for key in TOTALS]
