"""Manifests merged by copying bytes equal, byte for byte, the result of decoding every entry, changing it and encoding it again."""

import io
import json
from dataclasses import replace

import fastavro
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import examples
from tests.spec.manifest.made_up_entries import EVERY_PARTITION, NO_PARTITION, SNAPSHOT_ID, added, committed, data_file, entries, written
from tests.spec.manifest.test_manifest_column_writer import BOTH, DATA, DELETES, target

from icefloe.errors import AvroFormatError, InvalidInputError, ManifestFormatError
from icefloe.spec.avro import avro_container
from icefloe.spec.avro.avro_container import open_container, raw_blocks, read_block
from icefloe.spec.manifest import manifest_merge
from icefloe.spec.manifest.entry import ManifestEntry, ManifestEntryStatus
from icefloe.spec.manifest.manifest_merge import filter_manifest, merge_manifests
from icefloe.spec.manifest.manifest_reader import read_entries
from icefloe.spec.manifest_list.manifest_file import UNASSIGNED_SEQ, ManifestContent, ManifestFile
from icefloe.spec.types import StructType

NEW_SNAPSHOT = SNAPSHOT_ID + 1

Given = list[tuple[ManifestFile, bytes]]


def decoded_and_encoded(
    manifests: Given, partition_type: StructType, version: int, content: ManifestContent, own: int
) -> tuple[bytes, ManifestFile]:
    """Merge by decoding and encoding every entry."""
    found = []
    for manifest, data in manifests:
        for entry in read_entries(data, manifest, partition_type):
            if entry.snapshot_id == own and entry.status == ManifestEntryStatus.ADDED:
                number = None if entry.sequence_number == manifest.sequence_number else entry.sequence_number
                file = replace(entry.data_file, first_row_id=None)
                found.append(replace(entry, sequence_number=number, file_sequence_number=None, data_file=file))
            elif entry.is_live:
                found.append(replace(entry, status=ManifestEntryStatus.EXISTING))
            elif entry.snapshot_id == own:
                found.append(entry)
    made, line = written(found, partition_type, format_version=version, content=content)
    return made, replace(line, added_snapshot_id=own)


@pytest.mark.parametrize(
    ("old_version", "version", "content"), [(1, 1, DATA), (1, 2, DATA), (2, 2, DATA), (2, 3, DATA), (3, 3, DATA), (2, 2, DELETES)]
)
@settings(max_examples=examples(8, least=5))
@given(st.data())
def test_filtering_a_manifest_equals_decoding_and_encoding_it(
    old_version: int, version: int, content: ManifestContent, data: st.DataObject
) -> None:
    rows = data.draw(entries(EVERY_PARTITION, old_version, content))
    made, line = written(rows, EVERY_PARTITION, format_version=old_version, content=content)
    line = committed(line, 0 if old_version == 1 else 2**34, first_row_id=10**12 if version > 2 else None)
    old = read_entries(made, line, EVERY_PARTITION)
    removed = np.array([entry.is_live and data.draw(st.booleans()) for entry in old], dtype=bool)
    live = [(entry, gone) for entry, gone in zip(old, removed.tolist(), strict=True) if entry.is_live]
    restated = [
        replace(entry, status=ManifestEntryStatus.DELETED, snapshot_id=NEW_SNAPSHOT)
        if gone
        else replace(entry, status=ManifestEntryStatus.EXISTING)
        for entry, gone in live
    ]
    expected, told = written(restated, EVERY_PARTITION, format_version=version, content=content)
    chosen = target(EVERY_PARTITION, version, content, snapshot_id=NEW_SNAPSHOT)
    for by_compiled in BOTH:
        assert filter_manifest(line, made, removed, chosen, by_compiled=by_compiled) == (
            expected,
            replace(told, added_snapshot_id=NEW_SNAPSHOT),
        )


@pytest.mark.parametrize("own", [SNAPSHOT_ID, NEW_SNAPSHOT])
@pytest.mark.parametrize(("version", "content"), [(1, DATA), (2, DATA), (3, DATA), (2, DELETES), (3, DELETES)])
@settings(max_examples=examples(8, least=3))
@given(st.data())
def test_merging_manifests_equals_decoding_and_encoding_them(own: int, version: int, content: ManifestContent, data: st.DataObject) -> None:
    manifests: Given = []
    for number in range(data.draw(st.integers(1, 3))):
        rows = data.draw(entries(EVERY_PARTITION, version, content))
        made, line = written(
            rows, EVERY_PARTITION, format_version=version, content=content, codec=data.draw(st.sampled_from(["null", "deflate"]))
        )
        row_id = 10**12 * (number + 1) if version > 2 and content == DATA else None
        manifests.append((committed(line, 0 if version == 1 else 2**34 + number, first_row_id=row_id), made))
    chosen = target(EVERY_PARTITION, version, content, snapshot_id=own)
    expected = decoded_and_encoded(manifests, EVERY_PARTITION, version, content, own)
    for by_compiled in BOTH:
        assert merge_manifests(manifests, chosen, by_compiled=by_compiled) == expected


@pytest.mark.parametrize("by_compiled", BOTH)
def test_entries_added_by_the_same_commit_still_inherit_after_a_merge(by_compiled: bool) -> None:
    own, line = written([added(data_file("new")), added(data_file("older"), sequence_number=3)])
    before, old_line = written([added(data_file("old"))])
    old_line = replace(committed(old_line, 6), added_snapshot_id=5)
    old = [ManifestEntry(ManifestEntryStatus.ADDED, 5, None, None, data_file("old"))]
    before, old_line = written(old)
    made, merged = merge_manifests([(line, own), (committed(old_line, 6), before)], target(NO_PARTITION, 2), by_compiled=by_compiled)
    assert line.sequence_number == UNASSIGNED_SEQ
    found = read_entries(made, committed(merged, 9), NO_PARTITION)
    assert [(e.status, e.snapshot_id, e.sequence_number, e.file_sequence_number, e.data_file.file_path) for e in found] == [
        (ManifestEntryStatus.ADDED, SNAPSHOT_ID, 9, 9, "new"),
        (ManifestEntryStatus.ADDED, SNAPSHOT_ID, 3, 9, "older"),
        (ManifestEntryStatus.EXISTING, 5, 6, 6, "old"),
    ]
    assert (merged.added_files_count, merged.existing_files_count, merged.min_sequence_number) == (2, 1, 3)


@pytest.mark.parametrize("by_compiled", BOTH)
def test_manifests_of_an_older_version_are_encoded_again(by_compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    made, line = written([added(data_file(f"f{n}", lower_bounds={1: b"a"}, value_counts={1: n})) for n in range(5)], format_version=1)
    copied = []
    monkeypatch.setattr(manifest_merge, "_copy_entries", lambda *args: copied.append(args))
    line = replace(line, sequence_number=0, min_sequence_number=0)
    merged, told = merge_manifests([(line, made)], target(NO_PARTITION, 2, snapshot_id=NEW_SNAPSHOT), by_compiled=by_compiled)
    assert copied == []
    found = read_entries(merged, committed(told, 9), NO_PARTITION)
    assert [(e.status, e.sequence_number, e.snapshot_id) for e in found] == [(ManifestEntryStatus.EXISTING, 0, SNAPSHOT_ID)] * 5
    assert [e.data_file for e in found] == [e.data_file for e in read_entries(made, line, NO_PARTITION)]


@pytest.mark.parametrize("by_compiled", BOTH)
def test_blocks_of_a_merged_manifest_span_several_manifests(by_compiled: bool) -> None:
    manifests = []
    for number in range(40):
        made, line = written([added(data_file(f"{number}-{n}", lower_bounds={1: bytes(900)})) for n in range(10)])
        manifests.append((committed(line, 3), made))
    merged, told = merge_manifests(manifests, target(NO_PARTITION, 2, snapshot_id=NEW_SNAPSHOT), by_compiled=by_compiled)
    assert told.existing_files_count == 400
    assert len(list(raw_blocks(open_container(merged, "m")))) == 6
    assert (merged, told) == decoded_and_encoded(manifests, NO_PARTITION, 2, DATA, NEW_SNAPSHOT)


@pytest.mark.parametrize("by_compiled", BOTH)
def test_manifests_in_blocks_of_one_entry_are_merged_into_blocks_of_usual_size(by_compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    manifests = []
    for number in range(10):
        rows = [added(data_file(f"{number}-{n}", lower_bounds={1: bytes(900)})) for n in range(40)]
        monkeypatch.setattr(avro_container, "BLOCK_BYTES", 1)
        made, line = written(rows)
        monkeypatch.undo()
        assert len(list(raw_blocks(open_container(made, "m")))) == 40
        manifests.append((committed(line, 3), made))
    merged, told = merge_manifests(manifests, target(NO_PARTITION, 2, snapshot_id=NEW_SNAPSHOT), by_compiled=by_compiled)
    container = open_container(merged, "m")
    sizes = [len(read_block(container, block)) for block in raw_blocks(container)]
    assert len(sizes) == 6
    assert min(sizes[:-1]) >= 64_000
    assert (merged, told) == decoded_and_encoded(manifests, NO_PARTITION, 2, DATA, NEW_SNAPSHOT)


@pytest.mark.parametrize("by_compiled", BOTH)
def test_damaged_manifests_and_wrong_counts_are_refused_before_writing(by_compiled: bool) -> None:
    made, line = written([added(data_file("a")), added(data_file("b"))], codec="null")
    broken = made.replace(b"PARQUET", b"PARQUE\xff", 1)
    chosen = target(NO_PARTITION, 2, snapshot_id=NEW_SNAPSHOT)
    for content, manifest in ((made[:-1], line), (made, replace(line, added_files_count=3)), (broken, line)):
        with pytest.raises((AvroFormatError, ManifestFormatError), match="made-up-m0"):
            merge_manifests([(committed(manifest, 3), content)], chosen, by_compiled=by_compiled)
    with pytest.raises(InvalidInputError, match="partition spec 8"):
        merge_manifests([(replace(committed(line, 3), partition_spec_id=8), made)], chosen, by_compiled=by_compiled)
    with pytest.raises(InvalidInputError, match="there is no manifest to merge"):
        merge_manifests([], chosen, by_compiled=by_compiled)


@pytest.mark.parametrize("by_compiled", BOTH)
def test_copied_manifests_of_another_writer_keep_its_schema(by_compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writers before 2024 had no referenced_data_file; their manifests are copied too where all have that form. Without the codec all are decoded."""
    made, line = written([added(data_file("a", lower_bounds={1: b"x"})), added(data_file("b"))])
    container = open_container(made, "m")
    schema = json.loads(container.schema_text)
    schema["fields"][-1]["type"]["fields"].pop()
    records = [
        {**row, "data_file": {k: v for k, v in row["data_file"].items() if k != "referenced_data_file"}}
        for row in fastavro.reader(io.BytesIO(made))
    ]
    file = io.BytesIO()
    metadata = {key: value.decode() for key, value in container.metadata.items() if not key.startswith("avro.")}
    fastavro.writer(file, schema, records, metadata=metadata)
    older = (committed(replace(line, manifest_length=len(file.getvalue())), 4), file.getvalue())
    manifest_of_this_commit = (committed(line, 5), made)
    monkeypatch.setattr(manifest_merge, "read_columns" if by_compiled else "read_records", None)
    merged, told = merge_manifests([older, older], target(NO_PARTITION, 2, snapshot_id=NEW_SNAPSHOT), by_compiled=by_compiled)
    kept = older[1] if by_compiled else made
    assert json.loads(open_container(merged, "m").schema_text) == json.loads(open_container(kept, "m").schema_text)
    monkeypatch.undo()
    found = read_entries(merged, committed(told, 9), NO_PARTITION)
    assert [(e.status, e.sequence_number, e.data_file.file_path) for e in found] == [
        (ManifestEntryStatus.EXISTING, 4, path) for path in "abab"
    ]
    mixed, told = merge_manifests(
        [older, manifest_of_this_commit], target(NO_PARTITION, 2, snapshot_id=NEW_SNAPSHOT), by_compiled=by_compiled
    )
    assert open_container(mixed, "m").schema_text == container.schema_text
    found = read_entries(mixed, committed(told, 9), NO_PARTITION)
    assert [(e.sequence_number, e.data_file.file_path) for e in found] == [(4, "a"), (4, "b"), (5, "a"), (5, "b")]
    assert found[0].data_file.lower_bounds == {1: b"x"}


@pytest.mark.parametrize("by_compiled", BOTH)
@pytest.mark.parametrize("at_once", [1, 2**20])
def test_manifests_read_together_equal_manifests_read_alone(by_compiled: bool, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has its own sequence number and first row id, and a damaged one is named."""
    monkeypatch.setattr(manifest_merge, "_BYTES_AT_ONCE", at_once)
    manifests: Given = []
    for number in range(6):
        rows = [added(data_file(f"{number}-{n}", lower_bounds={1: b"x" * number}, record_count=n + 1)) for n in range(number)]
        made, line = written(rows, NO_PARTITION, format_version=3)
        manifests.append((committed(line, 10 + number, first_row_id=1000 * number), made))
    chosen = target(NO_PARTITION, 3, snapshot_id=NEW_SNAPSHOT)
    assert merge_manifests(manifests, chosen, by_compiled=by_compiled) == decoded_and_encoded(
        manifests, NO_PARTITION, 3, DATA, NEW_SNAPSHOT
    )
    line, made = manifests[4]
    for wrong in (
        (replace(line, manifest_path="the-wrong-one", added_files_count=9), made),
        (replace(line, manifest_path="the-wrong-one"), made[:-9]),
    ):
        with pytest.raises((AvroFormatError, ManifestFormatError), match="the-wrong-one"):
            merge_manifests([*manifests[:4], wrong, manifests[5]], chosen, by_compiled=by_compiled)
