"""Any metadata survives its JSON in every version, and any cut or changed byte is refused or read, never a crash."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import msgspec
from hypothesis import given, settings
from tests.repetitions import examples

from icefloe.errors import IcefloeError
from icefloe.spec.metadata.encrypted_key import EncryptedKey
from icefloe.spec.metadata.invariants import problems_of
from icefloe.spec.metadata.layout_updates import AddPartitionSpec, AddSchema, AddSortOrder
from icefloe.spec.metadata.metadata_reader import check_table_metadata, read_table_metadata
from icefloe.spec.metadata.metadata_updates import apply_updates
from icefloe.spec.metadata.metadata_writer import write_table_metadata
from icefloe.spec.metadata.new_table import new_table_metadata
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.snapshot_ref import SnapshotRef
from icefloe.spec.metadata.statistics_file import PartitionStatisticsFile, StatisticsBlob, StatisticsFile
from icefloe.spec.metadata.table_history import MetadataLogEntry, SnapshotLogEntry
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.partitioning.partition_spec import PartitionField, PartitionSpec
from icefloe.spec.partitioning.sort_order import SortField, SortOrder
from icefloe.spec.partitioning.transforms import BucketTransform, IdentityTransform, TruncateTransform
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import DateType, DecimalType, ListType, LongType, NestedField, StringType

LONGS = st.integers(1, 2**63 - 1)
ROW_COUNTS = st.integers(0, 2**61)
TEXTS = st.text(max_size=8)
TRANSFORMS = st.sampled_from([IdentityTransform(), BucketTransform(7), TruncateTransform(3)])
EXTRA = st.sampled_from([LongType(), DateType(), DecimalType(9, 2), StringType(), ListType(element_id=9, element=LongType())])


@st.composite
def snapshots(draw: st.DrawFn, snapshot_id: int, version: int, key_id: str | None) -> Snapshot:
    inline = version == 1 and draw(st.booleans())
    numbered = version > 2 and draw(st.booleans())
    return Snapshot(
        snapshot_id=snapshot_id,
        parent_snapshot_id=draw(st.none() | LONGS),
        sequence_number=0 if version == 1 else draw(LONGS),
        timestamp_ms=draw(LONGS),
        manifest_list=None if inline else draw(TEXTS),
        manifest_paths=tuple(draw(st.lists(TEXTS, max_size=2))) if inline else None,
        summary={"operation": "append", **draw(st.dictionaries(TEXTS, TEXTS, max_size=3))},
        schema_id=draw(st.none() | st.integers(0, 5)),
        first_row_id=draw(ROW_COUNTS) if numbered else None,
        added_rows=draw(ROW_COUNTS) if numbered else None,
        key_id=None if key_id is None else draw(st.none() | st.just(key_id)),
    )


@st.composite
def statistics_files(draw: st.DrawFn, snapshot_id: int) -> StatisticsFile:
    blob = st.builds(
        StatisticsBlob,
        type=TEXTS,
        snapshot_id=LONGS,
        sequence_number=LONGS,
        fields=st.lists(st.integers(1, 9), max_size=2).map(tuple),
        properties=st.dictionaries(TEXTS, TEXTS, max_size=2),
    )
    return StatisticsFile(
        snapshot_id=snapshot_id,
        statistics_path=draw(TEXTS),
        file_size_in_bytes=draw(LONGS),
        file_footer_size_in_bytes=draw(LONGS),
        key_metadata=draw(st.none() | TEXTS),
        blob_metadata=tuple(draw(st.lists(blob, max_size=2))),
    )


def encryption_keys() -> st.SearchStrategy[EncryptedKey]:
    return st.builds(
        EncryptedKey,
        key_id=TEXTS,
        encrypted_key_metadata=TEXTS,
        encrypted_by_id=st.none() | TEXTS,
        properties=st.dictionaries(TEXTS, TEXTS, max_size=2),
    )


@st.composite
def tables(draw: st.DrawFn) -> TableMetadata:
    version = draw(st.sampled_from([1, 2, 3]))
    base = new_table_metadata(
        location="memory://t",
        schema=Schema(NestedField(1, "a", LongType(), required=draw(st.booleans()), doc=draw(st.none() | TEXTS))),
        spec=PartitionSpec(*(PartitionField(1, 0, transform, f"p{transform}") for transform in draw(st.sets(TRANSFORMS, max_size=2)))),
        properties={f"x.{key}": text for key, text in draw(st.dictionaries(TEXTS, TEXTS, max_size=3)).items()},
        format_version=version,
        table_uuid=draw(TEXTS),
        now_ms=draw(LONGS),
    )
    wider = Schema(*base.schema().fields, NestedField(8, "b", draw(EXTRA), doc=draw(st.none() | TEXTS)), identifier_field_ids=())
    updates: list[Any] = [AddSchema(wider), AddSortOrder(SortOrder(SortField(1, draw(TRANSFORMS))))]
    if version > 1:
        updates.append(AddPartitionSpec(PartitionSpec(PartitionField(1, 0, BucketTransform(draw(st.integers(1, 9))), "again"))))
    base = apply_updates(base, updates, base.last_updated_ms)
    ids = draw(st.lists(LONGS, max_size=8, unique=True))
    keys = draw(st.lists(encryption_keys(), max_size=2)) if version > 2 else []
    made = [draw(snapshots(number, version, keys[0].key_id if keys else None)) for number in ids]
    refs = (
        {name: SnapshotRef(snapshot_id=draw(st.sampled_from(ids)), type="tag", max_ref_age_ms=5) for name in ("gold", "ü")} if ids else {}
    )
    current = draw(st.none() | st.sampled_from(ids)) if ids else None
    if current is not None:
        refs["main"] = SnapshotRef(snapshot_id=current, min_snapshots_to_keep=draw(st.none() | st.integers(1, 9)))
    times = sorted(draw(st.lists(LONGS, min_size=len(ids) + 3, max_size=len(ids) + 3)))
    return replace(
        base,
        last_sequence_number=max((snapshot.sequence_number for snapshot in made), default=0),
        last_updated_ms=max(base.last_updated_ms, times[-1]),
        snapshots=tuple(made),
        current_snapshot_id=current,
        refs=refs,
        snapshot_log=tuple(SnapshotLogEntry(time_ms, number) for time_ms, number in zip(times, ids, strict=False)),
        metadata_log=tuple(MetadataLogEntry(time_ms, draw(TEXTS)) for time_ms in times[: draw(st.integers(0, 3))]),
        next_row_id=2**62 if version > 2 else 0,
        encryption_keys=keys,
        statistics=[draw(statistics_files(number)) for number in ids[:2]],
        partition_statistics=[
            PartitionStatisticsFile(snapshot_id=number, statistics_path=draw(TEXTS), file_size_in_bytes=draw(LONGS)) for number in ids[:1]
        ],
        unknown={"unheard-of": msgspec.Raw(b'{"x": [1, null]}')} if draw(st.booleans()) else {},
    )


def without_raw(metadata: TableMetadata) -> tuple[TableMetadata, dict[str, bytes]]:
    return replace(metadata, unknown={}), {key: bytes(raw) for key, raw in metadata.unknown.items()}


@settings(max_examples=examples(60))
@given(tables(), st.booleans())
def test_metadata_comes_back_from_its_json_as_it_was(metadata: TableMetadata, gzip: bool) -> None:
    assert problems_of(metadata) == []
    content = write_table_metadata(metadata, gzip=gzip)
    again = read_table_metadata(content, "t")
    assert without_raw(again) == without_raw(metadata)
    assert check_table_metadata(content, "t") == []
    assert write_table_metadata(again, gzip=gzip) == content


@settings(max_examples=examples(60))
@given(tables(), st.data())
def test_changed_bytes_are_read_or_refused_with_an_icefloe_error(metadata: TableMetadata, data: st.DataObject) -> None:
    content = bytearray(write_table_metadata(metadata))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.sampled_from(b'0-"{}[]:,ntA\xff\x00'))
    with suppress(IcefloeError):
        found = read_table_metadata(bytes(content), "t")
        for entries in (found.snapshots, found.schemas, found.partition_specs, found.sort_orders, found.snapshot_log, found.metadata_log):
            list(entries)
    with suppress(IcefloeError):
        check_table_metadata(bytes(content), "t")


@settings(max_examples=examples(50))
@given(tables(), st.data())
def test_any_key_of_a_wrong_kind_is_named_by_the_full_check(metadata: TableMetadata, data: st.DataObject) -> None:
    document = msgspec.json.decode(write_table_metadata(metadata))
    # The reader ignores v1's `schema` and `partition-spec` where the file has `schemas` and `partition-specs`.
    key = data.draw(st.sampled_from(sorted(set(document) - {"unheard-of", "format-version", "schema", "partition-spec"})))
    document[key] = data.draw(st.sampled_from([5.5, True, [7], {"y": 3}]))
    problems = check_table_metadata(msgspec.json.encode(document), "t")
    assert any(problem.where.startswith(f"$.{key}") for problem in problems)
