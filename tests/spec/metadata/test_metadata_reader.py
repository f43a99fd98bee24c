"""Reading metadata: every version, gzip, missing keys, damaged bytes, invalid values, and entries that stay undecoded until they are used."""

import gzip
import json
import pickle
from typing import Any

import pytest

from icefloe.errors import MetadataFormatError, UnsupportedFormatVersionError
from icefloe.spec.limits import Limits
from icefloe.spec.metadata import json_file
from icefloe.spec.metadata.encrypted_key import EncryptedKey
from icefloe.spec.metadata.metadata_reader import check_table_metadata, read_table_metadata

PATH = "memory://t/metadata/00001-x.metadata.json"


def v2(**changes: Any) -> dict[str, Any]:
    """Return a version 2 table of one column and two snapshots; a change to None removes the key."""
    document: dict[str, Any] = {
        "format-version": 2,
        "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        "location": "memory://t",
        "last-sequence-number": 2,
        "last-updated-ms": 2000,
        "last-column-id": 1,
        "current-schema-id": 0,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "a", "required": True, "type": "long"}]}],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": [{"source-id": 1, "field-id": 1000, "transform": "identity", "name": "a"}]}],
        "last-partition-id": 1000,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {"owner": "me"},
        "current-snapshot-id": 22,
        "refs": {"main": {"snapshot-id": 22, "type": "branch"}, "first": {"snapshot-id": 11, "type": "tag", "max-ref-age-ms": 5}},
        "snapshots": [snapshot(11, 1), snapshot(22, 2, **{"parent-snapshot-id": 11})],
        "snapshot-log": [{"timestamp-ms": 1000, "snapshot-id": 11}, {"timestamp-ms": 2000, "snapshot-id": 22}],
        "metadata-log": [{"timestamp-ms": 1000, "metadata-file": "memory://t/metadata/00000-x.metadata.json"}],
    }
    document.update(changes)
    return {key: value for key, value in document.items() if value is not None}


def v3(**changes: Any) -> dict[str, Any]:
    """Return the same table as version 3; its snapshots are from before the upgrade."""
    return v2(**{"format-version": 3, "next-row-id": 120, **changes})


def snapshot(snapshot_id: int, number: int, **changes: Any) -> dict[str, Any]:
    return {
        "snapshot-id": snapshot_id,
        "sequence-number": number,
        "timestamp-ms": number * 1000,
        "manifest-list": f"memory://t/metadata/snap-{snapshot_id}.avro",
        "summary": {"operation": "append", "total-records": "5"},
        "schema-id": 0,
        **changes,
    }


def v1(**changes: Any) -> dict[str, Any]:
    return {
        "format-version": 1,
        "location": "memory://t",
        "last-updated-ms": 1000,
        "last-column-id": 1,
        "schema": {"type": "struct", "fields": [{"id": 1, "name": "a", "required": True, "type": "long"}]},
        "partition-spec": [{"source-id": 1, "transform": "identity", "name": "a"}],
        **changes,
    }


def read(document: Any) -> Any:
    return read_table_metadata(json.dumps(document).encode(), PATH)


def problems_of(document: Any) -> dict[str, str]:
    with pytest.raises(MetadataFormatError) as caught:
        read(document)
    assert PATH in str(caught.value)
    return {problem.where: problem.what for problem in caught.value.problems}


def test_a_v2_table_is_read() -> None:
    metadata = read(v2())
    assert metadata.location == "memory://t"
    assert metadata.schema().names == ["a"]
    assert metadata.spec().fields[0].name == "a"
    assert metadata.sort_order().is_unsorted
    assert metadata.properties == {"owner": "me"}
    assert metadata.current_snapshot().summary == {"operation": "append", "total-records": "5"}
    assert metadata.snapshot_by_name("first").snapshot_id == 11
    assert metadata.refs["first"].max_ref_age_ms == 5
    assert metadata.snapshot_by_id(33) is None
    assert metadata.snapshot_by_name("none") is None
    assert metadata.metadata_log[0].metadata_file.endswith("00000-x.metadata.json")
    assert metadata.next_sequence_number == 3


def test_the_oldest_form_of_v1_is_read() -> None:
    inline = snapshot(7, 0, manifests=["memory://t/m0.avro"])
    del inline["manifest-list"], inline["sequence-number"], inline["summary"]
    metadata = read(v1(snapshots=[inline], **{"current-snapshot-id": 7}))
    assert metadata.table_uuid is None
    assert metadata.current_schema_id == 0
    assert [(field.field_id, field.name) for field in metadata.spec().fields] == [(1000, "a")]
    assert metadata.last_partition_id == 1000
    assert metadata.sort_order().is_unsorted
    assert metadata.refs["main"].snapshot_id == 7
    current = metadata.current_snapshot()
    assert current.manifest_list is None
    assert current.manifest_paths == ("memory://t/m0.avro",)
    assert current.sequence_number == 0
    assert current.summary == {}
    assert current.operation is None
    assert metadata.next_sequence_number == 0


@pytest.mark.parametrize("build", [v1, v2, v3])
def test_minus_one_and_null_mean_no_current_snapshot(build: Any) -> None:
    for none in (-1, None):
        document = {**build(), "current-snapshot-id": none, "refs": {}, "snapshots": []}
        metadata = read(document)
        assert metadata.current_snapshot_id is None
        assert metadata.current_snapshot() is None
        assert metadata.refs == {}


def test_null_counts_as_absent() -> None:
    document = {**v2(), "properties": None, "metadata-log": None, "statistics": None, "refs": None}
    document["snapshots"][0]["parent-snapshot-id"] = None
    metadata = read(document)
    assert metadata.properties == {}
    assert len(metadata.metadata_log) == 0
    assert metadata.refs["main"].snapshot_id == 22
    assert metadata.snapshots[0].parent_snapshot_id is None


def test_gzip_is_recognized_by_its_first_bytes_and_not_by_the_name() -> None:
    assert read_table_metadata(gzip.compress(json.dumps(v2()).encode()), PATH) == read(v2())


def test_a_cut_file_is_refused_with_the_offset_at_every_length() -> None:
    text = json.dumps(v2()).encode()
    for length in range(len(text)):
        with pytest.raises(MetadataFormatError) as caught:
            read_table_metadata(text[:length], PATH)
        assert PATH in str(caught.value)
        assert f"byte {length}" in str(caught.value)


def test_a_cut_gzip_file_is_refused_at_every_length() -> None:
    packed = gzip.compress(json.dumps(v2()).encode())
    for length in range(len(packed)):
        with pytest.raises(MetadataFormatError, match=r"cut short|not whole JSON|does not hold"):
            read_table_metadata(packed[:length], PATH)


def test_a_gzip_file_with_more_bytes_after_its_end_is_refused() -> None:
    packed = gzip.compress(json.dumps(v2()).encode())
    for more in (bytes(4), b"\xff\xff\xff\xff", packed):
        with pytest.raises(MetadataFormatError, match=f"byte {len(packed)}: bytes follow"):
            read_table_metadata(packed + more, PATH)


def test_a_gzip_file_that_unpacks_above_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps(v2()).encode()
    monkeypatch.setattr(json_file, "limits", lambda: Limits(metadata_bytes=len(text)))
    assert read_table_metadata(gzip.compress(text), PATH) == read(v2())
    with pytest.raises(MetadataFormatError, match="unpacks to more than"):
        read_table_metadata(gzip.compress(text + b" "), PATH)


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_too_deep_nesting_is_refused(opening: bytes) -> None:
    for content in (opening * 200_000, b'{"format-version":2,"x":' + opening * 200_000):
        with pytest.raises(MetadataFormatError, match=r"nested too deeply|not whole JSON|does not hold"):
            read_table_metadata(content, PATH)


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "the file is empty"),
        (b"[]", "does not hold a JSON object"),
        (b'"x"', "does not hold a JSON object"),
        (b'{"format-version": 2,, }', "byte 21"),
        (b'{"format-version": 2} trailing', "byte 22"),
        (b"PAR1\x00\x00", "byte 0"),
        (b'{"format-version": 2, "location": "\xff\xfe"}', "not UTF-8 .byte 35"),
        (b"\x1f\x8bgarbage that is no gzip", "corrupt gzip"),
        (b"{}", "no valid format version"),
        (b'{"format-version": "2"}', "no valid format version"),
        (b'{"format-version": 0}', "no valid format version"),
    ],
)
def test_bytes_that_are_not_metadata_are_refused_with_the_offset(content: bytes, match: str) -> None:
    with pytest.raises(MetadataFormatError, match=match) as caught:
        read_table_metadata(content, PATH)
    assert PATH in str(caught.value)


def test_a_newer_version_is_refused_with_the_versions_that_are_read() -> None:
    with pytest.raises(UnsupportedFormatVersionError, match=r"format version 5; .* versions 1 to 3") as caught:
        read({"format-version": 5})
    assert PATH in str(caught.value)
    assert "draft" not in str(caught.value)


def test_version_4_is_refused_as_a_draft() -> None:
    with pytest.raises(
        UnsupportedFormatVersionError, match=r"format version 4; .* versions 1 to 3, and version 4 of the format is a draft"
    ):
        read({"format-version": 4})


def test_a_v3_table_is_read() -> None:
    document = v3()
    document["snapshots"][1] |= {"first-row-id": 100, "added-rows": 20, "key-id": "k1"}
    document["encryption-keys"] = [
        {"key-id": "k1", "encrypted-key-metadata": "aWNlYmVyZwo=", "encrypted-by-id": "k0", "properties": {"a": "b"}},
        {"key-id": "k0", "encrypted-key-metadata": ""},
    ]
    metadata = read(document)
    assert metadata.next_row_id == 120
    first, second = metadata.snapshots
    assert (first.first_row_id, first.added_rows, first.key_id) == (None, None, None)
    assert (second.first_row_id, second.added_rows, second.key_id) == (100, 20, "k1")
    assert metadata.encryption_key("k1") == EncryptedKey(
        key_id="k1", encrypted_key_metadata="aWNlYmVyZwo=", encrypted_by_id="k0", properties={"a": "b"}
    )
    assert metadata.encryption_key("k0").encrypted_by_id is None
    assert metadata.encryption_key("k2") is None
    assert check_table_metadata(json.dumps(document).encode(), PATH) == []


def test_v3_requires_next_row_id_and_checks_its_own_keys() -> None:
    assert problems_of(v3(**{"next-row-id": None})) == {"$.next-row-id": "is required, and is missing"}
    document = v3(**{"encryption-keys": [{"key-id": 5, "properties": {"a": 1}}], "next-row-id": "many"})
    document["snapshots"][0] |= {"first-row-id": "a", "added-rows": 1.5, "key-id": 1}
    assert problems_of(document) == {
        "$.next-row-id": "expected a 64-bit integer, found the string 'many'",
        "$.snapshots[0].first-row-id": "expected a 64-bit integer, found the string 'a'",
        "$.snapshots[0].added-rows": "expected a 64-bit integer, found the number 1.5",
        "$.snapshots[0].key-id": "expected a string, found the number 1",
        "$.encryption-keys[0].key-id": "expected a string, found the number 5",
        "$.encryption-keys[0].encrypted-key-metadata": "is required, and is missing",
        "$.encryption-keys[0].properties": "the value of 'a' must be a string, found the number 1",
    }


def test_a_v2_file_with_keys_of_v3_keeps_them() -> None:
    metadata = read(v2(**{"next-row-id": 7}))
    assert metadata.next_row_id == 0
    assert bytes(metadata.unknown["next-row-id"]) == b"7"


def test_a_column_type_of_a_later_version_is_read_where_a_table_has_it() -> None:
    document = v2()
    document["schemas"][0]["fields"][0]["type"] = "timestamp_ns"
    assert str(read(document).schemas.get(document["schemas"][0]["schema-id"]).find_type("a")) == "timestamp_ns"


def test_every_problem_of_a_file_is_reported_with_its_path() -> None:
    document = v2(**{"location": None, "last-updated-ms": "soon", "properties": {"a": 1}, "default-spec-id": 5})
    document["schemas"][0]["fields"][0]["type"] = "lonk"
    document["snapshots"][1]["timestamp-ms"] = None
    document["partition-specs"][0]["fields"][0]["transform"] = 9
    document["refs"]["first"]["type"] = "bough"
    document["metadata-log"] = {}
    assert problems_of(document) == {
        "$.location": "is required, and is missing",
        "$.last-updated-ms": "expected a 64-bit integer, found the string 'soon'",
        "$.properties": "the value of 'a' must be a string, found the number 1",
        "$.metadata-log": "expected an array, found an object",
        "$.schemas[0].fields[0].type": "'lonk' is not the name of a type",
        "$.partition-specs[0].fields[0].transform": "expected a string",
        "$.snapshots[1].timestamp-ms": "may not be null",
        "$.refs.first.type": "expected one of branch, tag, found the string 'bough'",
        "$.default-spec-id": "there is no entry with spec-id 5 in partition-specs",
    }


@pytest.mark.parametrize(
    "key", ["table-uuid", "location", "last-sequence-number", "last-updated-ms", "last-column-id", "schemas", "last-partition-id"]
)
def test_a_key_that_v2_requires_may_not_be_missing(key: str) -> None:
    assert f"$.{key}" in problems_of(v2(**{key: None}))


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"current-schema-id": 7}, "$.current-schema-id"),
        ({"default-sort-order-id": 7}, "$.default-sort-order-id"),
        ({"current-snapshot-id": 99}, "$.current-snapshot-id"),
        ({"current-snapshot-id": 11}, "$.refs.main"),
        ({"current-snapshot-id": -1}, "$.refs.main"),
        ({"refs": {"main": {"snapshot-id": 22, "type": "branch"}, "x": {"snapshot-id": 99, "type": "tag"}}}, "$.refs.x"),
        ({"refs": {"main": {"snapshot-id": 22, "type": "tag"}}}, "$.refs.main"),
        ({"last-column-id": 0}, "$.last-column-id"),
    ],
)
def test_inconsistent_ids_are_refused(changes: dict[str, Any], where: str) -> None:
    assert where in problems_of(v2(**changes))


def test_an_invalid_old_snapshot_is_reported_when_used_and_by_the_full_check() -> None:
    document = v2()
    document["snapshots"][0]["timestamp-ms"] = "long ago"
    metadata = read(document)
    assert metadata.current_snapshot().snapshot_id == 22
    with pytest.raises(MetadataFormatError, match=r"\$\.snapshots\[0\]\.timestamp-ms") as caught:
        metadata.snapshot_by_id(11)
    assert PATH in str(caught.value)
    assert [problem.where for problem in check_table_metadata(json.dumps(document).encode(), PATH)] == ["$.snapshots[0].timestamp-ms"]


def test_repeated_ids_are_reported_by_the_full_check() -> None:
    document = v2()
    document["snapshots"].append(snapshot(11, 3))
    problems = check_table_metadata(json.dumps(document).encode(), PATH)
    assert [str(problem) for problem in problems] == ["$.snapshots[2].snapshot-id: 11 occurs twice"]


def test_a_damaged_string_in_an_old_snapshot_is_reported_when_used() -> None:
    text = json.dumps(v2()).encode().replace(b"snap-11.avro", b"snap-\xff\xff.avro")
    metadata = read_table_metadata(text, PATH)
    with pytest.raises(MetadataFormatError, match=r"\$\.snapshots\[0\]"):
        metadata.snapshot_by_id(11)
    with pytest.raises(MetadataFormatError, match="not UTF-8"):
        check_table_metadata(text, PATH)


def test_metadata_pickles() -> None:
    metadata = read(v2(unheard={"of": 1}))
    again = pickle.loads(pickle.dumps(metadata))
    assert again == metadata
    assert again.current_snapshot() == metadata.current_snapshot()


@pytest.mark.parametrize("version", [2, 3])
def test_an_empty_list_of_sort_orders_means_an_unsorted_table(version: int) -> None:
    made = v2 if version == 2 else v3
    metadata = read(made(**{"sort-orders": []}))
    assert (metadata.default_sort_order_id, metadata.sort_order().is_unsorted) == (0, True)
    with pytest.raises(MetadataFormatError, match="default-sort-order-id"):
        read(made(**{"sort-orders": [], "default-sort-order-id": 1}))
