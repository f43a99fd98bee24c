"""Manifests of added files, written field by field: the same bytes and the same record for the manifest list as entry by entry; and divided by size."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import examples
from tests.spec.manifest.made_up_entries import EVERY_PARTITION, NO_PARTITION, added, data_file, data_files, delete_files, written
from tests.spec.manifest.test_manifest_column_writer import DATA, DELETES, target

from icefloe.errors import InvalidInputError
from icefloe.spec.avro import compiled_codec
from icefloe.spec.manifest.added_manifest_writer import write_added_manifests
from icefloe.spec.manifest.data_file import DataFile, FileFormat
from icefloe.spec.manifest.manifest_column_writer import ManifestTarget
from icefloe.spec.manifest.manifest_reader import read_entries
from icefloe.spec.manifest_list.manifest_file import ManifestContent, ManifestFile
from icefloe.spec.types import BinaryType, DateType, IntegerType, LongType, StringType, StructType, TimestampType

_PLAIN = IntegerType | LongType | DateType | TimestampType | StringType | BinaryType
# Types that the compiled encoder writes from the tuples themselves.
PLAIN_PARTITION = StructType(*(part for part in EVERY_PARTITION.fields if isinstance(part.field_type, _PLAIN)))

BOTH = (False, True) if compiled_codec.AVAILABLE else (False,)


def names(kind: StructType, version: int, content: ManifestContent = DATA, **changes: Any) -> Iterator[ManifestTarget]:
    for number in itertools.count():
        yield target(kind, version, content, path=f"m{number}", **changes)


def write(
    files: list[DataFile], kind: StructType, version: int, content: ManifestContent = DATA, **others: Any
) -> list[tuple[bytes, ManifestFile]]:
    form = {"codec": others.pop("codec")} if "codec" in others else {}
    given = {"target_bytes": 8_388_608, **others}
    return write_added_manifests(files, names(kind, version, content, **form).__next__, **given)


@pytest.mark.parametrize(("version", "content"), [(1, DATA), (2, DATA), (3, DATA), (2, DELETES), (3, DELETES)])
def test_the_bytes_equal_those_of_entries_written_one_by_one(version: int, content: ManifestContent) -> None:
    @settings(max_examples=examples(40))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        kind = data.draw(st.sampled_from([EVERY_PARTITION, PLAIN_PARTITION, NO_PARTITION]))
        some = data_files(kind) if content is DATA else delete_files(kind, version, is_new=True)
        files = data.draw(st.lists(some, min_size=1, max_size=6))
        number = data.draw(st.none() | st.integers(1, 9)) if version > 1 and content is DATA else None
        expected = written([added(file, number) for file in files], kind, format_version=version, content=content)
        for by_compiled in BOTH:
            ((found, line),) = write(files, kind, version, content, sequence_number=number, by_compiled=by_compiled)
            assert (found, replace(line, manifest_path=expected[1].manifest_path)) == expected

    check()


@pytest.mark.parametrize("by_compiled", BOTH)
def test_many_files_are_divided_by_size_and_none_is_lost(by_compiled: bool) -> None:
    files = [data_file(f"s3://b/{number * 7919:x}/{number}.parquet", record_count=number) for number in range(3_000)]
    manifests = write(files, NO_PARTITION, 3, target_bytes=8_000, by_compiled=by_compiled)
    assert len(manifests) > 3
    assert [line.manifest_path for _, line in manifests] == [f"m{number}" for number in range(len(manifests))]
    assert all(8_000 <= line.manifest_length < 40_000 for _, line in manifests[:-1])
    assert [line.manifest_length for _, line in manifests] == [len(content) for content, _ in manifests]
    entries = [entry for content, line in manifests for entry in read_entries(content, line, NO_PARTITION)]
    assert [entry.data_file.file_path for entry in entries] == [file.file_path for file in files]
    assert sum(line.added_rows_count or 0 for _, line in manifests) == sum(file.record_count for file in files)


@pytest.mark.parametrize("codec", ["deflate", "zstd", "snappy", "null"])
def test_files_encoded_in_batches_are_in_the_same_blocks_as_one_by_one(codec: str) -> None:
    kind = StructType(PLAIN_PARTITION.fields[0])
    files = [data_file(f"s3://b/{number * 7919:x}.parquet", record_count=number, partition=(number % 7,)) for number in range(5_000)]
    expected, _ = written([added(file, None) for file in files], kind, format_version=3, codec=codec)
    for by_compiled in BOTH:
        ((found, _),) = write(files, kind, 3, codec=codec, by_compiled=by_compiled)
        assert found == expected


@pytest.mark.parametrize("by_compiled", BOTH)
@pytest.mark.parametrize("partition", [(), (1, 2), (1.5,), ("1",), 1, None])
def test_a_partition_that_does_not_fit_its_spec_is_refused(partition: Any, by_compiled: bool) -> None:
    files = [data_file(partition=(1,)), data_file("wrong", partition=partition)]
    with pytest.raises(InvalidInputError, match=r"wrong cannot be written"):
        write(files, StructType(PLAIN_PARTITION.fields[0]), 2, by_compiled=by_compiled)


@pytest.mark.parametrize("by_compiled", BOTH)
def test_maps_and_lists_of_other_classes_are_written_too(by_compiled: bool) -> None:
    plain = data_file(column_sizes={1: 2}, split_offsets=(4, 5))
    other = replace(plain, column_sizes=MappingProxyType({1: 2}), split_offsets=[4, 5])  # type: ignore[arg-type]
    assert write([other], NO_PARTITION, 2, by_compiled=by_compiled) == write([plain], NO_PARTITION, 2, by_compiled=by_compiled)


@pytest.mark.parametrize("by_compiled", BOTH)
@pytest.mark.parametrize(
    "changes",
    [
        {"record_count": None},
        {"record_count": 2**63},
        {"file_path": "\ud800"},
        {"column_sizes": {1: "x"}},
        {"lower_bounds": {1: "text"}},
        {"column_sizes": {None: 1}},
        {"split_offsets": 4},
        {"file_format": FileFormat.PUFFIN},
    ],
)
def test_a_file_that_cannot_be_written_is_named(changes: dict[str, Any], by_compiled: bool) -> None:
    files = [data_file(), replace(data_file("wrong"), **changes)]
    with pytest.raises(InvalidInputError, match=r"cannot be (written|added)"):
        write(files, NO_PARTITION, 2, by_compiled=by_compiled)
