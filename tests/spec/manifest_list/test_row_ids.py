"""Row ids of manifests: the numbers of the spec's example, upgraded tables, and lists whose blocks are copied."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import examples
from tests.spec.manifest_list.test_manifest_list import manifest, written

from icefloe.errors import InvalidInputError
from icefloe.spec.manifest_list.manifest_file import ManifestContent, ManifestFile
from icefloe.spec.manifest_list.manifest_list_reader import has_row_ids, read_manifest_list
from icefloe.spec.manifest_list.manifest_list_writer import append_to_manifest_list, assign_first_row_ids

DELETES = ManifestContent.DELETES


def rows(number: int, added: int, existing: int, **changes: Any) -> ManifestFile:
    return manifest(number, added_rows_count=added, existing_rows_count=existing, **changes)


def test_the_manifests_of_the_spec_s_example_get_its_row_ids() -> None:
    manifest_with_ids = rows(1, 75, 0, first_row_id=925)
    found, next_row_id = assign_first_row_ids([manifest_with_ids, rows(2, 100, 25), rows(3, 0, 100), rows(4, 125, 25)], 1_000)
    assert [m.first_row_id for m in found] == [925, 1_000, 1_125, 1_225]
    assert next_row_id == 1_375
    assert read_manifest_list(written(found, 3, first_row_id=1_000), "f") == found


def test_delete_manifests_get_no_row_ids() -> None:
    found, next_row_id = assign_first_row_ids([rows(1, 5, 0, content=DELETES), rows(2, 7, 0)], 40)
    assert ([m.first_row_id for m in found], next_row_id) == ([None, 40], 47)


def test_manifests_with_unknown_counts_cannot_get_row_ids() -> None:
    with pytest.raises(InvalidInputError, match=r"0001-m0\.avro cannot get row ids"):
        assign_first_row_ids([manifest(1, added_rows_count=None)], 0)


def test_a_v3_list_refuses_a_data_manifest_without_row_ids_and_a_delete_manifest_with_them() -> None:
    with pytest.raises(InvalidInputError, match="contains data and has no first row id"):
        written([manifest(1)], 3)
    with pytest.raises(InvalidInputError, match="contains deletes and has a first row id"):
        written([manifest(1, content=DELETES, first_row_id=5)], 3)


def test_has_row_ids_reads_only_the_summaries() -> None:
    with_ids = [manifest(1, first_row_id=0), manifest(2, content=DELETES)]
    assert has_row_ids(written(with_ids, 3), "f")
    assert not has_row_ids(written([manifest(1)], 2), "f")
    assert not has_row_ids(written([manifest(1, sequence_number=0, min_sequence_number=0)], 1), "f")
    assert has_row_ids(written([], 3), "f")


def test_appending_keeps_the_old_manifests_with_their_row_ids() -> None:
    old = [manifest(number, first_row_id=10 * number) for number in range(600)]
    found, next_row_id = assign_first_row_ids([manifest(700)], 6_000)
    header = {"format_version": 3, "snapshot_id": 77, "parent_snapshot_id": 76, "sequence_number": 9, "first_row_id": 6_000}
    content = append_to_manifest_list(written(old, 3), "old.avro", found, **header)  # type: ignore[arg-type]
    assert read_manifest_list(content, "f") == [manifest(700, first_row_id=6_000), *old]
    assert next_row_id == 6_010


COUNTS = st.integers(0, 1_000)
MANIFESTS = st.builds(
    rows, st.integers(0, 9), COUNTS, COUNTS, content=st.sampled_from(ManifestContent), first_row_id=st.none() | st.integers(0, 99)
)


@settings(max_examples=examples(100))
@given(st.lists(MANIFESTS, max_size=8), st.integers(100, 2**40))
def test_assigned_ranges_are_contiguous_above_all_assigned_before(manifests: list[ManifestFile], start: int) -> None:
    found, next_row_id = assign_first_row_ids(manifests, start)
    end = start
    for before, after in zip(manifests, found, strict=True):
        if before.content == DELETES or before.first_row_id is not None:
            assert after is before
        else:
            assert after.first_row_id == end
            end += (after.added_rows_count or 0) + (after.existing_rows_count or 0)
    assert next_row_id == end
