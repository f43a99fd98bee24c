"""Row ids that data files inherit, in columns and entry by entry, compared with the spec's example and a plain count."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import examples
from tests.spec.manifest.made_up_entries import NO_PARTITION, added, committed, data_file, entries, written

from icefloe.errors import ManifestFormatError
from icefloe.spec.manifest.entry import ManifestEntry, ManifestEntryStatus
from icefloe.spec.manifest.inheritance import Origin, inherit_first_row_ids
from icefloe.spec.manifest.manifest_reader import read_columns, read_entries
from icefloe.spec.manifest_list.manifest_file import ManifestContent, ManifestFile

EXISTING, ADDED, DELETED = ManifestEntryStatus


def manifest_of(first_row_id: int | None, content: ManifestContent = ManifestContent.DATA) -> ManifestFile:
    return ManifestFile(
        manifest_path="m.avro", manifest_length=0, partition_spec_id=0, added_snapshot_id=1, content=content, first_row_id=first_row_id
    )


def existing(name: str, records: int, first_row_id: int | None) -> ManifestEntry:
    return ManifestEntry(EXISTING, 1, 1, 1, data_file(name, record_count=records, first_row_id=first_row_id))


def row_ids(rows: list[ManifestEntry], first_row_id: int | None, version: int = 3) -> list[int | None]:
    """As both readers find them."""
    content, manifest = written(rows, format_version=version)
    manifest = committed(manifest, 9, first_row_id=first_row_id)
    columns = read_columns(content, manifest, NO_PARTITION).entries["first_row_id"].to_pylist()
    assert columns == [entry.data_file.first_row_id for entry in read_entries(content, manifest, NO_PARTITION)]
    return columns


def test_the_example_of_the_spec_gets_its_row_ids() -> None:
    rows = [existing("data1", 25, 800), added(data_file("data2", record_count=50)), added(data_file("data3", record_count=50))]
    assert row_ids(rows, 1_000) == [800, 1_000, 1_050]


def test_existing_files_of_an_upgraded_table_get_row_ids_and_deleted_ones_do_not_count() -> None:
    deleted = ManifestEntry(DELETED, 1, 1, 1, data_file("gone", record_count=1_000))
    kept_id = ManifestEntry(DELETED, 1, 1, 1, data_file("gone with its id", record_count=9, first_row_id=7))
    rows = [existing("a", 3, None), deleted, existing("b", 4, None), kept_id, existing("c", 5, None)]
    assert row_ids(rows, 20) == [20, None, 23, 7, 27]


@pytest.mark.parametrize("version", [1, 2])
def test_manifests_from_before_the_upgrade_assign_row_ids_once_their_list_does(version: int) -> None:
    rows = [added(data_file("a", record_count=3)), added(data_file("b", record_count=4))]
    assert row_ids(rows, None, version) == [None, None]
    assert row_ids(rows, 100, version) == [100, 103]


def test_an_added_file_loses_its_earlier_row_ids() -> None:
    assert row_ids([added(data_file("a", first_row_id=5_000))], 100) == [100]


def test_delete_manifests_and_manifests_without_a_first_row_id_have_no_row_ids() -> None:
    statuses, counts, own = pa.array([1, 0], pa.int32()), pa.array([4, 5], pa.int64()), pa.array([None, 3], pa.int64())
    for manifest in (manifest_of(None), manifest_of(6, ManifestContent.DELETES)):
        assert inherit_first_row_ids(statuses, counts, own, Origin([manifest], [2])).to_pylist() == [None, None]


def test_more_records_than_row_ids_can_number_are_refused() -> None:
    content, manifest = written([added(data_file(record_count=2**62)), added(data_file("b", record_count=2**62))], format_version=3)
    with pytest.raises(ManifestFormatError, match="record_count: the sum of all entries exceeds the range of row ids"):
        read_columns(content, committed(manifest, 9, first_row_id=5), NO_PARTITION)


@settings(max_examples=examples(60))
@given(entries(NO_PARTITION, 3), st.none() | st.integers(0, 2**40))
def test_row_ids_equal_a_plain_count_of_the_records_before(rows: list[ManifestEntry], first_row_id: int | None) -> None:
    expected: list[int | None] = []
    following = first_row_id
    for entry in rows:
        own = entry.data_file.first_row_id if entry.status != ADDED else None
        if following is None:
            expected.append(None)
        elif own is not None or entry.status == DELETED:
            expected.append(own)
        else:
            expected.append(following)
            following += entry.data_file.record_count
    assert row_ids(rows, first_row_id) == expected
