"""Updates and requirements as JSON: each form of the REST catalog's document, both ways, and what is refused."""

from typing import Any

import pytest
from tests.spec.metadata.made_up_tables import ID, NAME, snapshot

from icefloe.errors import InvalidInputError, MetadataFormatError, UnsupportedFeatureError
from icefloe.spec.metadata import requirement as r
from icefloe.spec.metadata.encrypted_key import EncryptedKey
from icefloe.spec.metadata.layout_updates import (
    AddPartitionSpec,
    AddSchema,
    AddSortOrder,
    RemovePartitionSpecs,
    RemoveSchemas,
    SetCurrentSchema,
    SetDefaultSortOrder,
    SetDefaultSpec,
)
from icefloe.spec.metadata.requirement import REQUIREMENT_FORMS, requirement_from_json, requirement_to_json
from icefloe.spec.metadata.snapshot_ref import SnapshotRef
from icefloe.spec.metadata.snapshot_updates import AddSnapshot, RemoveSnapshotRef, RemoveSnapshots, SetSnapshotRef
from icefloe.spec.metadata.statistics_file import PartitionStatisticsFile, StatisticsBlob, StatisticsFile
from icefloe.spec.metadata.statistics_updates import RemovePartitionStatistics, RemoveStatistics, SetPartitionStatistics, SetStatistics
from icefloe.spec.metadata.table_updates import (
    AddEncryptionKey,
    AssignUUID,
    RemoveEncryptionKey,
    RemoveProperties,
    SetLocation,
    SetProperties,
    UpgradeFormatVersion,
)
from icefloe.spec.metadata.update_json import UPDATE_FORMS, update_from_json, update_to_json
from icefloe.spec.partitioning.partition_spec import PartitionField, PartitionSpec
from icefloe.spec.partitioning.sort_order import SortField, SortOrder
from icefloe.spec.partitioning.transforms import BucketTransform
from icefloe.spec.schema.schema import Schema

SCHEMA_JSON = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "id", "required": False, "type": "long"},
        {"id": 2, "name": "name", "required": False, "type": "string"},
    ],
}
STATISTICS_JSON = {
    "snapshot-id": 5,
    "statistics-path": "s",
    "file-size-in-bytes": 9,
    "file-footer-size-in-bytes": 4,
    "blob-metadata": [{"type": "t", "snapshot-id": 5, "sequence-number": 1, "fields": [1], "properties": {"ndv": "2"}}],
}
SNAPSHOT_JSON = {
    "sequence-number": 3,
    "snapshot-id": 7,
    "timestamp-ms": 1_000_030,
    "summary": {"operation": "append"},
    "manifest-list": "memory://t/7.avro",
    "schema-id": 0,
    "first-row-id": 0,
    "added-rows": 4,
}
UPDATES: list[tuple[Any, dict[str, Any]]] = [
    (AssignUUID("u"), {"action": "assign-uuid", "uuid": "u"}),
    (UpgradeFormatVersion(3), {"action": "upgrade-format-version", "format-version": 3}),
    (AddSchema(Schema(ID, NAME)), {"action": "add-schema", "schema": SCHEMA_JSON}),
    (AddSchema(Schema(ID, NAME), 4), {"action": "add-schema", "schema": SCHEMA_JSON, "last-column-id": 4}),
    (SetCurrentSchema(-1), {"action": "set-current-schema", "schema-id": -1}),
    (
        AddPartitionSpec(PartitionSpec(PartitionField(1, 1000, BucketTransform(4), "b"))),
        {
            "action": "add-spec",
            "spec": {"spec-id": 0, "fields": [{"source-id": 1, "field-id": 1000, "transform": "bucket[4]", "name": "b"}]},
        },
    ),
    (SetDefaultSpec(2), {"action": "set-default-spec", "spec-id": 2}),
    (
        AddSortOrder(SortOrder(SortField(2))),
        {
            "action": "add-sort-order",
            "sort-order": {
                "order-id": 1,
                "fields": [{"transform": "identity", "source-id": 2, "direction": "asc", "null-order": "nulls-first"}],
            },
        },
    ),
    (SetDefaultSortOrder(0), {"action": "set-default-sort-order", "sort-order-id": 0}),
    (AddSnapshot(snapshot(7, 3, first_row_id=0, added_rows=4)), {"action": "add-snapshot", "snapshot": SNAPSHOT_JSON}),
    (
        SetSnapshotRef("b", SnapshotRef(snapshot_id=7, min_snapshots_to_keep=1, max_snapshot_age_ms=2, max_ref_age_ms=3)),
        {
            "action": "set-snapshot-ref",
            "ref-name": "b",
            "snapshot-id": 7,
            "type": "branch",
            "min-snapshots-to-keep": 1,
            "max-snapshot-age-ms": 2,
            "max-ref-age-ms": 3,
        },
    ),
    (RemoveSnapshots((7, 8)), {"action": "remove-snapshots", "snapshot-ids": [7, 8]}),
    (RemoveSnapshotRef("b"), {"action": "remove-snapshot-ref", "ref-name": "b"}),
    (SetLocation("l"), {"action": "set-location", "location": "l"}),
    (SetProperties({"a": "1"}), {"action": "set-properties", "updates": {"a": "1"}}),
    (RemoveProperties(("a",)), {"action": "remove-properties", "removals": ["a"]}),
    (
        SetStatistics(
            StatisticsFile(
                snapshot_id=5,
                statistics_path="s",
                file_size_in_bytes=9,
                file_footer_size_in_bytes=4,
                blob_metadata=(StatisticsBlob(type="t", snapshot_id=5, sequence_number=1, fields=(1,), properties={"ndv": "2"}),),
            )
        ),
        {"action": "set-statistics", "snapshot-id": 5, "statistics": STATISTICS_JSON},
    ),
    (RemoveStatistics(5), {"action": "remove-statistics", "snapshot-id": 5}),
    (
        SetPartitionStatistics(PartitionStatisticsFile(snapshot_id=5, statistics_path="p", file_size_in_bytes=9)),
        {
            "action": "set-partition-statistics",
            "partition-statistics": {"snapshot-id": 5, "statistics-path": "p", "file-size-in-bytes": 9},
        },
    ),
    (RemovePartitionStatistics(5), {"action": "remove-partition-statistics", "snapshot-id": 5}),
    (RemovePartitionSpecs((1, 2)), {"action": "remove-partition-specs", "spec-ids": [1, 2]}),
    (RemoveSchemas((1,)), {"action": "remove-schemas", "schema-ids": [1]}),
    (
        AddEncryptionKey(EncryptedKey(key_id="k", encrypted_key_metadata="QQ==", encrypted_by_id="m", properties={"a": "b"})),
        {
            "action": "add-encryption-key",
            "encryption-key": {"key-id": "k", "encrypted-key-metadata": "QQ==", "encrypted-by-id": "m", "properties": {"a": "b"}},
        },
    ),
    (RemoveEncryptionKey("k"), {"action": "remove-encryption-key", "key-id": "k"}),
]
REQUIREMENTS: list[tuple[Any, dict[str, Any]]] = [
    (r.AssertCreate(), {"type": "assert-create"}),
    (r.AssertTableUUID("u"), {"type": "assert-table-uuid", "uuid": "u"}),
    (r.AssertRefSnapshotId("main", 5), {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 5}),
    (r.AssertRefSnapshotId("main", None), {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None}),
    (r.AssertLastAssignedFieldId(3), {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 3}),
    (r.AssertCurrentSchemaId(1), {"type": "assert-current-schema-id", "current-schema-id": 1}),
    (r.AssertLastAssignedPartitionId(999), {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 999}),
    (r.AssertDefaultSpecId(0), {"type": "assert-default-spec-id", "default-spec-id": 0}),
    (r.AssertDefaultSortOrderId(0), {"type": "assert-default-sort-order-id", "default-sort-order-id": 0}),
]


def test_every_json_form_has_a_case() -> None:
    assert {shown["action"] for _, shown in UPDATES} == set(UPDATE_FORMS)
    assert {shown["type"] for _, shown in REQUIREMENTS} == set(REQUIREMENT_FORMS)


@pytest.mark.parametrize(("update", "shown"), UPDATES, ids=[shown["action"] for _, shown in UPDATES])
def test_an_update_is_written_and_read(update: Any, shown: dict[str, Any]) -> None:
    assert update_to_json(update) == shown
    assert update_from_json(shown) == update
    assert update_from_json({**shown, "unheard-of": 1, "action": shown["action"].upper()}) == update


@pytest.mark.parametrize(("requirement", "shown"), REQUIREMENTS, ids=[shown["type"] for _, shown in REQUIREMENTS])
def test_a_requirement_is_written_and_read(requirement: Any, shown: dict[str, Any]) -> None:
    assert requirement_to_json(requirement) == shown
    assert requirement_from_json(shown) == requirement


def test_optional_keys_and_older_key_names_are_read() -> None:
    spec = {"action": "add-spec", "spec": {"fields": [{"source-id": 1, "transform": "bucket[4]", "name": "b"}]}}
    assert update_from_json(spec) == UPDATES[5][0]
    order = {"action": "add-sort-order", "sort-order": {"fields": UPDATES[7][1]["sort-order"]["fields"]}}
    assert update_from_json(order) == UPDATES[7][0]
    assert update_from_json({"action": "add-sort-order", "sort-order": {"fields": []}}) == AddSortOrder(SortOrder())
    assert update_from_json({"action": "set-properties", "updated": {"a": "1"}}) == SetProperties({"a": "1"})
    assert update_from_json({"action": "set-properties", "updated": {"a": "1"}, "updates": {"b": "2"}}) == SetProperties({"b": "2"})
    assert update_from_json({"action": "remove-properties", "removed": ["a"]}) == RemoveProperties(("a",))
    assert update_from_json({"action": "set-statistics", "statistics": STATISTICS_JSON}) == UPDATES[16][0]


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ([], "$.updates[2]"),
        ({}, "$.updates[2].action"),
        ({"action": None}, "$.updates[2].action"),
        ({"action": 5}, "$.updates[2].action"),
        ({"action": "assign-uuid"}, "$.updates[2].uuid"),
        ({"action": "add-schema", "schema": {"type": "struct"}}, "$.updates[2].schema.fields"),
        ({"action": "add-schema", "schema": SCHEMA_JSON, "last-column-id": "4"}, "$.updates[2].last-column-id"),
        ({"action": "add-snapshot", "snapshot": {**SNAPSHOT_JSON, "snapshot-id": "7"}}, "$.updates[2].snapshot.snapshot-id"),
        ({"action": "set-snapshot-ref", "ref-name": "b", "snapshot-id": 7, "type": "bough"}, "$.updates[2].type"),
        ({"action": "remove-snapshots", "snapshot-ids": [1, "2"]}, "$.updates[2].snapshot-ids"),
        ({"action": "set-properties"}, "$.updates[2].updates"),
        ({"action": "set-properties", "updates": {"a": 1}}, "$.updates[2].updates"),
        ({"action": "set-statistics", "snapshot-id": 6, "statistics": STATISTICS_JSON}, "$.updates[2].snapshot-id"),
        (
            {"action": "set-statistics", "statistics": {**STATISTICS_JSON, "blob-metadata": [{}]}},
            "$.updates[2].statistics.blob-metadata[0].type",
        ),
        ({"action": "add-encryption-key", "encryption-key": {"key-id": "k"}}, "$.updates[2].encryption-key.encrypted-key-metadata"),
    ],
)
def test_an_invalid_update_is_refused_with_its_path(given: Any, where: str) -> None:
    with pytest.raises(MetadataFormatError) as refused:
        update_from_json(given, "$.updates[2]")
    assert where in [problem.where for problem in refused.value.problems]


def test_an_unknown_update_or_requirement_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"'paint' is not known; known are assign-uuid, .*, remove-encryption-key") as refused:
        update_from_json({"action": "paint"}, "$.updates[0]")
    assert [problem.where for problem in refused.value.problems] == ["$.updates[0].action"]
    with pytest.raises(
        UnsupportedFeatureError, match=r"'assert-paint' is not known; known are assert-create, .*, assert-default-sort-order-id"
    ):
        requirement_from_json({"type": "assert-paint"})


def test_a_requirement_without_a_uuid_has_no_json() -> None:
    with pytest.raises(InvalidInputError, match="without a uuid"):
        requirement_to_json(r.AssertTableUUID(None))
    with pytest.raises(MetadataFormatError):
        requirement_from_json({"type": "assert-table-uuid", "uuid": None})
