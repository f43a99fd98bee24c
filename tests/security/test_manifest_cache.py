"""The cache of decoded manifests against hostile manifest lists, and readers with fewer rights than the one that filled it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.io.test_manifest_cache import decoded, empty_caches, files_of, manifests_of, replace_io, table_of

from icefloe.errors import IcefloeError, LocationNotAllowedError
from icefloe.io.file_io_by_scheme import load_file_io
from icefloe.io.manifest_cache import cached_manifests, clear_manifest_caches
from icefloe.spec.manifest.manifest_reader import read_live_entries
from icefloe.spec.manifest_list.manifest_file import ManifestFile
from icefloe.spec.metadata.snapshot_manifests import spec_partition_type

__all__ = ["decoded", "empty_caches"]


@pytest.mark.parametrize(
    "change",
    [
        {"sequence_number": 77},
        {"first_row_id": 1000},
        {"added_files_count": 9},
        {"existing_files_count": 1},
    ],
)
def test_a_hostile_manifest_list_gets_and_leaves_no_columns_of_another_list(tmp_path: Path, change: dict[str, int]) -> None:
    """Entries inherit numbers from the list and are counted by it: a list with other numbers must not share their columns."""
    table = table_of(tmp_path, 1)
    (manifest,) = manifests_of(table)
    kind = spec_partition_type(table.metadata, 0)

    def entries(listed: ManifestFile) -> Any:
        try:
            return read_live_entries([listed], table.io.read, kind, cache=cached_manifests(table.io)).entries
        except IcefloeError as error:
            return str(error)

    def fresh(listed: ManifestFile) -> Any:
        clear_manifest_caches()
        return entries(listed)

    hostile = replace(manifest, **change)
    expected, of_hostile = fresh(manifest), fresh(hostile)
    assert expected != of_hostile
    assert entries(manifest) == expected  # after the hostile one
    assert entries(hostile) == of_hostile  # after the sound one


@pytest.mark.parametrize(
    "other",
    [
        {"s3.access-key-id": "another"},
        {"s3.session-token": "t"},
        {"user": "someone"},
        {"io.location-policy": "strict"},
    ],
)
def test_storage_with_other_properties_shares_no_columns(other: dict[str, str], tmp_path: Path, decoded: list[str]) -> None:
    table = table_of(tmp_path, 1)
    files_of(table)
    decoded.clear()
    known = dict(table.io.properties)  # type: ignore[attr-defined]
    other_io = load_file_io({**known, **other}, table.metadata_location)
    assert files_of(replace_io(table, other_io)) == files_of(table)
    assert len(decoded) == 1


def test_a_reader_who_may_not_read_the_folder_gets_its_error_and_no_columns(tmp_path: Path) -> None:
    table = table_of(tmp_path / "a", 1) if (tmp_path / "a").mkdir() is None else None
    assert table is not None
    files_of(table)
    elsewhere = tmp_path / "b"
    elsewhere.mkdir()
    strict = load_file_io({"io.location-policy": "strict", "warehouse": str(elsewhere)}, str(elsewhere / "t" / "metadata" / "x.json"))
    (manifest,) = manifests_of(table)
    kind = spec_partition_type(table.metadata, 0)
    with pytest.raises(LocationNotAllowedError):
        read_live_entries([manifest], strict.read, kind, cache=cached_manifests(strict))
