"""Manifests whose size is not the one that their manifest list states: read with a warning where they are whole, refused where they were cut."""

import warnings
from dataclasses import replace
from typing import Any

import pytest
from tests.spec.manifest.made_up_entries import NO_PARTITION, added, data_file, written

from icefloe.errors import AvroFormatError, FormatWarning, ManifestFormatError
from icefloe.spec.avro.avro_container import open_container, raw_blocks
from icefloe.spec.manifest.file_paths import read_file_paths
from icefloe.spec.manifest.manifest_reader import read_columns, read_entries, read_many_columns
from icefloe.spec.manifest_list.manifest_file import ManifestContent, ManifestFile

NO_COUNTS = {"added_files_count": None, "existing_files_count": None, "deleted_files_count": None}


def readers(content: bytes, manifest: ManifestFile) -> list[Any]:
    counts = (manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count)
    return [
        lambda: len(read_columns(content, manifest, NO_PARTITION).entries),
        lambda: len(read_many_columns([manifest], lambda _: content, NO_PARTITION)[0].entries),
        lambda: len(read_entries(content, manifest, NO_PARTITION)),
        lambda: len(read_file_paths(content, manifest.manifest_path, length=manifest.manifest_length, counts=counts)),
    ]


@pytest.mark.parametrize("difference", [-1, -500, 1, 200, 2**40])
def test_a_whole_manifest_of_another_size_than_stated_is_read_with_a_warning(difference: int) -> None:
    content, manifest = written([added(data_file()), added(data_file("g.parquet"))])
    stated = replace(manifest, manifest_length=len(content) + difference)
    for read in readers(content, stated):
        with pytest.warns(FormatWarning, match=rf"has {len(content)} bytes, and its manifest list states {len(content) + difference}"):
            assert read() == 2


def test_a_whole_manifest_of_the_stated_size_is_read_without_a_warning() -> None:
    content, manifest = written([added(data_file())])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [read() for read in readers(content, manifest)] == [1, 1, 1, 1]


def test_a_manifest_cut_within_or_after_a_block_is_refused_where_the_list_counts_its_entries() -> None:
    content, manifest = written([added(data_file(f"{n}.parquet")) for n in range(5_000)])
    first = next(raw_blocks(open_container(content, "f")))
    for end in (3, 100, first.end - 1, first.end, first.end + 16, len(content) - 1):
        for read in readers(content[:end], manifest):
            with pytest.raises(AvroFormatError, match=rf"cut short: it has {end} bytes"):
                read()


def test_a_shorter_manifest_is_refused_where_the_list_has_no_counts_and_a_longer_one_is_read() -> None:
    content, manifest = written([added(data_file())])
    unknown = replace(manifest, **NO_COUNTS)
    for read in readers(content, replace(unknown, manifest_length=len(content) + 1)):
        with pytest.raises(AvroFormatError, match="cut short"):
            read()
    for partly in (unknown, replace(manifest, deleted_files_count=None)):
        for read in readers(content, replace(partly, manifest_length=len(content) - 1)):
            with pytest.warns(FormatWarning, match="since its blocks are whole"):
                assert read() == 1


@pytest.mark.filterwarnings("ignore::icefloe.errors.FormatWarning")
def test_entries_of_another_status_than_counted_are_refused_although_their_number_is_right() -> None:
    content, manifest = written([added(data_file())])
    other = replace(manifest, manifest_length=len(content) + 9, added_files_count=0, existing_files_count=1)
    for read in readers(content, other):
        with pytest.raises(ManifestFormatError, match="the manifest list counts"):
            read()


def test_the_length_of_delete_manifests_is_checked_too() -> None:
    content, manifest = written([added(data_file())])
    deletes = replace(manifest, content=ManifestContent.DELETES, manifest_length=len(content) + 40)
    with pytest.warns(FormatWarning, match="has"):
        assert len(read_columns(content, deletes, NO_PARTITION).entries) == 1
