"""The number of rows by a manifest list: a number only where every count is known, there are no deletes, and the snapshot's summary agrees."""

from dataclasses import replace

import pytest

from icefloe.scan.snapshot_row_count import rows_of_snapshot
from icefloe.spec.manifest_list.manifest_file import ManifestContent, ManifestFile
from icefloe.spec.metadata.snapshot import Snapshot, Summary

MANIFEST = ManifestFile(
    manifest_path="a.avro",
    manifest_length=1,
    partition_spec_id=0,
    added_snapshot_id=1,
    added_files_count=1,
    existing_files_count=1,
    deleted_files_count=3,
    added_rows_count=10,
    existing_rows_count=5,
    deleted_rows_count=100,
)
WITHOUT_LIVE_FILES = replace(MANIFEST, added_files_count=0, existing_files_count=0, added_rows_count=0, existing_rows_count=0)
DELETES = replace(MANIFEST, content=ManifestContent.DELETES)


def _snapshot(**summary: str) -> Snapshot:
    return Snapshot(snapshot_id=1, timestamp_ms=0, sequence_number=1, manifest_list="l.avro", summary=Summary("append", **summary))


def test_rows_are_those_of_added_and_existing_files() -> None:
    assert rows_of_snapshot(_snapshot(**{"total-records": "30"}), [MANIFEST, WITHOUT_LIVE_FILES, MANIFEST]) == 30
    assert rows_of_snapshot(_snapshot(**{"total-records": "0"}), []) == 0


def test_delete_manifests_without_live_delete_files_do_not_matter() -> None:
    cleared = replace(WITHOUT_LIVE_FILES, content=ManifestContent.DELETES)
    assert rows_of_snapshot(_snapshot(**{"total-records": "15"}), [MANIFEST, cleared]) == 15


@pytest.mark.parametrize(
    "manifests",
    [
        [MANIFEST, DELETES],
        [replace(MANIFEST, added_rows_count=None)],
        [replace(MANIFEST, existing_rows_count=None)],
        [replace(MANIFEST, added_rows_count=20, existing_rows_count=-5)],
        [replace(MANIFEST, existing_rows_count=6)],
        [],
    ],
    ids=["with deletes", "added rows unknown", "existing rows unknown", "negative", "another number than the summary", "no manifest"],
)
def test_an_uncertain_number_of_rows_is_not_returned(manifests: list[ManifestFile]) -> None:
    assert rows_of_snapshot(_snapshot(**{"total-records": "15"}), manifests) is None


@pytest.mark.parametrize("total", ["", "15.0", "+15", "fifteen", "-15"])
def test_a_summary_without_the_number_leaves_it_uncertain(total: str) -> None:
    assert rows_of_snapshot(_snapshot(), [MANIFEST]) is None
    assert rows_of_snapshot(_snapshot(**{"total-records": total}), [MANIFEST]) is None
