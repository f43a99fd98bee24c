"""Views: the example of the spec, every problem of a file with its path, the rules of versions and dialects, and the JSON of updates."""

import gzip
import json
import pickle
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from tests.repetitions import examples

from icefloe.errors import (
    CommitConflictError,
    IcefloeError,
    InvalidInputError,
    InvalidPropertyError,
    MetadataFormatError,
    UnsupportedFeatureError,
    UnsupportedFormatVersionError,
)
from icefloe.spec.metadata.layout_updates import AddSchema
from icefloe.spec.metadata.table_updates import AssignUUID, RemoveProperties, SetLocation, SetProperties, UpgradeFormatVersion
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import DateType, IntegerType, LongType, NestedField
from icefloe.spec.view.view_metadata import ViewMetadata, view_problems
from icefloe.spec.view.view_metadata_json import read_view_metadata, write_view_metadata
from icefloe.spec.view.view_updates import (
    VIEW_UPDATE_FORMS,
    AddViewVersion,
    AssertViewUUID,
    SetCurrentViewVersion,
    apply_view_updates,
    new_view_metadata,
    view_requirement_from_json,
    view_requirement_to_json,
    view_update_from_json,
    view_update_to_json,
)
from icefloe.spec.view.view_version import SQLViewRepresentation, UnknownViewRepresentation, VersionLogEntry, ViewVersion

PATH = "memory://v/metadata/00001-x.metadata.json"
SCHEMA = Schema(NestedField(1, "event_count", IntegerType(), doc="Count of events"), NestedField(2, "event_date", DateType()))


def document(**changes: Any) -> dict[str, Any]:
    """Return the first file of the spec's example. A change to None removes the key."""
    content = {
        "view-uuid": "fa6506c3-7681-40c8-86dc-e36561f83385",
        "format-version": 1,
        "location": "s3://bucket/warehouse/default.db/event_agg",
        "current-version-id": 1,
        "properties": {"comment": "Daily event counts"},
        "versions": [
            {
                "version-id": 1,
                "timestamp-ms": 1573518431292,
                "schema-id": 1,
                "default-catalog": "prod",
                "default-namespace": ["default"],
                "summary": {"engine-name": "Spark", "engine-version": "3.3.2"},
                "representations": [{"type": "sql", "sql": "SELECT 1", "dialect": "spark"}],
            }
        ],
        "schemas": [
            {
                "schema-id": 1,
                "type": "struct",
                "fields": [
                    {"id": 1, "name": "event_count", "required": False, "type": "int", "doc": "Count of events"},
                    {"id": 2, "name": "event_date", "required": False, "type": "date"},
                ],
            }
        ],
        "version-log": [{"timestamp-ms": 1573518431292, "version-id": 1}],
        **changes,
    }
    return {key: value for key, value in content.items() if value is not None}


def read(found: Any) -> ViewMetadata:
    return read_view_metadata(json.dumps(found).encode(), PATH)


def version(version_id: int, sql: str = "SELECT 1", dialects: tuple[str, ...] = ("spark",), **changes: Any) -> ViewVersion:
    shown = tuple(SQLViewRepresentation(sql=sql, dialect=dialect) for dialect in dialects)
    view_version = ViewVersion(
        version_id=version_id, schema_id=0, timestamp_ms=1000 + version_id, representations=shown, default_namespace=("db",)
    )
    return replace(view_version, **changes)


def view(**properties: str) -> ViewMetadata:
    return new_view_metadata(view_uuid="u-1", location="memory://v/", schema=SCHEMA, version=version(1), properties=properties)


def replaced(before: ViewMetadata, view_version: ViewVersion, now_ms: int = 9000) -> ViewMetadata:
    return apply_view_updates(before, [AddViewVersion(view_version), SetCurrentViewVersion(-1)], now_ms)


def test_the_example_of_the_spec_is_read() -> None:
    metadata = read(document())
    assert metadata.view_uuid == "fa6506c3-7681-40c8-86dc-e36561f83385"
    assert metadata.properties == {"comment": "Daily event counts"}
    assert metadata.schema().fields == SCHEMA.fields
    assert metadata.version() == ViewVersion(
        version_id=1,
        schema_id=1,
        timestamp_ms=1573518431292,
        summary={"engine-name": "Spark", "engine-version": "3.3.2"},
        representations=(SQLViewRepresentation(sql="SELECT 1", dialect="spark"),),
        default_catalog="prod",
        default_namespace=("default",),
    )
    assert list(metadata.version_log) == [VersionLogEntry(1573518431292, 1)]
    assert json.loads(write_view_metadata(metadata)) == document()
    assert pickle.loads(pickle.dumps(metadata)) == metadata


def test_sql_is_found_by_dialect_in_any_letter_case() -> None:
    view_version = read(document()).version()
    assert (view_version.sql_for("SPARK"), view_version.sql_for("trino")) == ("SELECT 1", None)


def test_unknown_keys_survive_a_change() -> None:
    shown = {"type": "substrait", "plan": [1, {"a": None}]}
    content = document(future_key={"of": 1})
    content["versions"][0]["colour"] = "red"
    content["versions"][0]["representations"].append(shown)
    content["schemas"][0]["colour"] = "green"
    metadata = read(content)
    assert metadata.version().representations[1] == UnknownViewRepresentation(type="substrait", content=shown)
    after = json.loads(write_view_metadata(apply_view_updates(metadata, [SetProperties({"a": "b"})], 1)))
    assert after == {**content, "properties": {**content["properties"], "a": "b"}}


def test_gzip_is_read_and_written() -> None:
    metadata = read_view_metadata(gzip.compress(json.dumps(document()).encode()), PATH)
    packed = write_view_metadata(metadata, gzip=True)
    assert packed[:2] == b"\x1f\x8b"
    assert read_view_metadata(packed, PATH) == metadata


def test_a_truncated_file_is_refused_at_every_length() -> None:
    text = json.dumps(document()).encode()
    for length in range(len(text)):
        with pytest.raises(MetadataFormatError, match=f"byte {length}") as refused:
            read_view_metadata(text[:length], PATH)
        assert PATH in str(refused.value)


def test_every_problem_is_listed_with_its_path() -> None:
    content = document(**{"view-uuid": None, "location": 5, "properties": {"a": 1}, "version-log": [{"version-id": "1"}]})
    content["versions"][0] |= {"timestamp-ms": "soon", "default-namespace": "db", "representations": [{"type": "sql", "dialect": 7}, {}, 5]}
    content["versions"].append({})
    content["schemas"][0]["fields"][0]["type"] = "lonk"
    with pytest.raises(MetadataFormatError) as refused:
        read(content)
    places = {problem.where for problem in refused.value.problems}
    assert places == {
        "$.view-uuid",
        "$.location",
        "$.properties",
        "$.schemas[0].fields[0].type",
        "$.versions[0].timestamp-ms",
        "$.versions[0].default-namespace",
        "$.versions[0].representations[0].sql",
        "$.versions[0].representations[0].dialect",
        "$.versions[0].representations[1].type",
        "$.versions[0].representations[2]",
        *(f"$.versions[1].{key}" for key in ("version-id", "schema-id", "timestamp-ms", "summary", "representations", "default-namespace")),
        "$.version-log[0].timestamp-ms",
        "$.version-log[0].version-id",
    }


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (lambda content: content.update({"current-version-id": 7}), "$.current-version-id"),
        (lambda content: content["versions"][0].update({"schema-id": 7}), "$.versions[0].schema-id"),
        (lambda content: content["versions"].append(content["versions"][0]), "$.versions[1].version-id"),
        (
            lambda content: content["versions"][0]["representations"].append({"type": "sql", "sql": "SELECT 2", "dialect": "Spark"}),
            "$.versions[0].representations",
        ),
    ],
)
def test_metadata_that_contradicts_itself_is_refused(change: Any, where: str) -> None:
    content = document()
    change(content)
    with pytest.raises(MetadataFormatError) as refused:
        read(content)
    assert where in [problem.where for problem in refused.value.problems]


def test_another_format_version_is_refused() -> None:
    with pytest.raises(UnsupportedFormatVersionError, match="format version 2; Icefloe reads and writes version 1"):
        read(document(**{"format-version": 2}))
    for wrong in (None, "1"):
        with pytest.raises(MetadataFormatError, match="format-version"):
            read(document(**{"format-version": wrong}))


def test_a_new_view_has_one_version_since_its_timestamp() -> None:
    metadata = view(comment="c")
    assert (metadata.location, metadata.current_version_id, metadata.format_version) == ("memory://v", 1, 1)
    assert list(metadata.version_log) == [VersionLogEntry(1001, 1)]
    assert metadata.schema().fields == SCHEMA.fields


def test_a_view_is_replaced_and_rolled_back() -> None:
    second = replaced(view(), version(1, "SELECT 2"))
    assert (second.current_version_id, second.version().sql_for("spark")) == (2, "SELECT 2")
    assert list(second.version_log) == [VersionLogEntry(1001, 1), VersionLogEntry(1001, 2)]
    back = apply_view_updates(second, [SetCurrentViewVersion(1)], 5000)
    assert back.version_log[-1] == VersionLogEntry(5000, 1)
    assert len(back.versions) == 2


def test_ids_of_versions_count_up_whatever_id_is_passed() -> None:
    metadata = replaced(replaced(view(), version(7, "SELECT 2")), version(3, "SELECT 3"))
    assert [one.version_id for one in metadata.versions] == [1, 7, 8]
    assert metadata.current_version_id == 8


def test_a_version_with_the_same_definition_is_not_added_again() -> None:
    again = replaced(replaced(view(), version(2, "SELECT 2")), version(7, timestamp_ms=77))
    assert (again.current_version_id, len(again.versions)) == (1, 2)
    assert again.version_log[-1] == VersionLogEntry(9000, 1)
    same = replaced(view(), version(9))
    assert (same.current_version_id, len(same.version_log)) == (1, 1)


def test_a_version_gets_the_schema_added_before_it() -> None:
    wider = Schema(*SCHEMA.fields, NestedField(3, "more", LongType()))
    updates = [AddSchema(wider), AddViewVersion(version(2, schema_id=-1)), SetCurrentViewVersion(-1)]
    metadata = apply_view_updates(view(), updates, 9000)
    assert (metadata.version().schema_id, metadata.schema().names) == (1, ["event_count", "event_date", "more"])
    later = apply_view_updates(
        metadata, [AddSchema(SCHEMA), AddViewVersion(version(3, "SELECT 3", schema_id=-1)), SetCurrentViewVersion(-1)], 1
    )
    assert (later.version().schema_id, len(later.schemas)) == (0, 2)


@pytest.mark.parametrize(
    ("updates", "reason"),
    [
        ([AddViewVersion(version(2, schema_id=5))], "no schema 5"),
        ([AddViewVersion(version(2, schema_id=-1))], "the schema last added"),
        ([SetCurrentViewVersion(-1)], "the version last added"),
        ([SetCurrentViewVersion(9)], "no version 9"),
        ([AddViewVersion(version(2, dialects=("spark", "Spark")))], "one SQL representation of a dialect"),
        ([AddViewVersion(version(2, dialects=()))], "needs a representation"),
        ([AddViewVersion(version(2, dialects=("trino",))), SetCurrentViewVersion(2)], "no SQL in dialect spark"),
        ([AssignUUID("u-2")], "cannot become u-2"),
        ([SetProperties({"version.history.num-entries": "0"})], "version.history.num-entries"),
    ],
)
def test_an_update_that_violates_a_rule_is_refused(updates: list[Any], reason: str) -> None:
    with pytest.raises(InvalidInputError, match=reason):
        apply_view_updates(view(), updates, 9000)


def test_other_updates_change_what_they_name() -> None:
    updates = [
        AssignUUID("u-1"),
        UpgradeFormatVersion(1),
        SetLocation("memory://w/"),
        SetProperties({"a": "1", "b": "2"}),
        RemoveProperties(("b",)),
    ]
    metadata = apply_view_updates(view(), updates, 1)
    assert (metadata.location, metadata.properties) == ("memory://w", {"a": "1"})
    with pytest.raises(UnsupportedFormatVersionError):
        apply_view_updates(view(), [UpgradeFormatVersion(2)], 1)
    with pytest.raises(InvalidPropertyError, match=r"replace\.drop-dialect\.allowed"):
        view(**{"replace.drop-dialect.allowed": "maybe"})


def test_a_dialect_may_be_dropped_where_the_view_allows_it() -> None:
    metadata = replaced(view(**{"replace.drop-dialect.allowed": "true"}), version(2, dialects=("trino",)))
    assert metadata.version().dialects == ("trino",)
    both = replaced(view(), version(2, dialects=("trino", "SPARK")))
    assert both.version().dialects == ("trino", "spark")


def test_old_versions_are_dropped_and_the_log_up_to_them() -> None:
    metadata = view(**{"version.history.num-entries": "3"})
    for number in range(2, 7):
        metadata = replaced(metadata, version(number, f"SELECT {number}"))
    assert [one.version_id for one in metadata.versions] == [4, 5, 6]
    assert [entry.version_id for entry in metadata.version_log] == [4, 5, 6]
    back = apply_view_updates(metadata, [SetCurrentViewVersion(4)], 9000)
    after = apply_view_updates(back, [AddViewVersion(version(7, "SELECT 7"))], 9100)
    # The current version stays, however old it is; its log entry follows that of a dropped version.
    assert [one.version_id for one in after.versions] == [4, 6, 7]
    assert [entry.version_id for entry in after.version_log] == [6, 4]


def test_ten_versions_are_kept_and_never_fewer_than_one_commit_added() -> None:
    metadata = view()
    for number in range(2, 15):
        metadata = replaced(metadata, version(number, f"SELECT {number}"))
    assert len(metadata.versions) == 10
    many = [AddViewVersion(version(number, f"SELECT {number}")) for number in range(20, 32)]
    assert len(apply_view_updates(metadata, many, 9000).versions) == 13


UPDATES = [
    (AddViewVersion(version(2)), "add-view-version"),
    (SetCurrentViewVersion(-1), "set-current-view-version"),
    (AssignUUID("u"), "assign-uuid"),
    (UpgradeFormatVersion(1), "upgrade-format-version"),
    (AddSchema(SCHEMA), "add-schema"),
    (SetLocation("l"), "set-location"),
    (SetProperties({"a": "b"}), "set-properties"),
    (RemoveProperties(("a",)), "remove-properties"),
]


def test_updates_survive_json() -> None:
    assert {action for _, action in UPDATES} == set(VIEW_UPDATE_FORMS)
    for update, action in UPDATES:
        shown = view_update_to_json(update)
        assert shown["action"] == action
        assert view_update_from_json(json.loads(json.dumps(shown))) == update
    assert view_update_to_json(SetCurrentViewVersion(3)) == {"action": "set-current-view-version", "view-version-id": 3}
    assert view_update_to_json(AddViewVersion(version(2))) == {
        "action": "add-view-version",
        "view-version": {
            "version-id": 2,
            "timestamp-ms": 1002,
            "schema-id": 0,
            "summary": {},
            "default-namespace": ["db"],
            "representations": [{"type": "sql", "sql": "SELECT 1", "dialect": "spark"}],
        },
    }
    with pytest.raises(UnsupportedFeatureError, match=r"'add-snapshot' is not known; known are assign-uuid, .*, set-current-view-version"):
        view_update_from_json({"action": "add-snapshot", "snapshot": {}})
    with pytest.raises(MetadataFormatError) as refused:
        view_update_from_json({"action": "add-view-version", "view-version": {}}, "$.updates[1]")
    assert "$.updates[1].view-version.version-id" in [problem.where for problem in refused.value.problems]


def test_a_requirement_holds_or_is_a_conflict() -> None:
    requirement = AssertViewUUID("U-1")
    assert view_requirement_to_json(requirement) == {"type": "assert-view-uuid", "uuid": "U-1"}
    assert view_requirement_from_json({"type": "assert-view-uuid", "uuid": "U-1"}) == requirement
    requirement.check(view())
    for other in (None, replace(view(), view_uuid="u-2")):
        with pytest.raises(CommitConflictError):
            requirement.check(other)


VERSION_UPDATES = st.one_of(
    st.builds(
        lambda number, sql, dialects, schema_id: AddViewVersion(version(number, sql, tuple(sorted(dialects)), schema_id=schema_id)),
        st.integers(1, 6),
        st.sampled_from(["SELECT 1", "SELECT 2", "SELECT 3"]),
        st.sets(st.sampled_from(["spark", "trino"])),
        st.integers(-1, 2),
    ),
    st.builds(SetCurrentViewVersion, st.integers(-1, 6)),
    st.integers(1, 3).map(lambda count: AddSchema(Schema(*(NestedField(n, f"c{n}", LongType()) for n in range(1, count + 1))))),
    st.builds(SetProperties, st.dictionaries(st.just("version.history.num-entries"), st.sampled_from(["1", "2", "3"]), max_size=1)),
    st.just(SetProperties({"replace.drop-dialect.allowed": "true"})),
)


@settings(max_examples=examples(80))
@given(st.lists(st.lists(VERSION_UPDATES, min_size=1, max_size=3), max_size=8))
def test_a_view_keeps_its_rules_after_any_updates(commits: list[list[Any]]) -> None:
    metadata = view()
    for number, updates in enumerate(commits):
        before = write_view_metadata(metadata)
        try:
            after = apply_view_updates(metadata, updates, 2000 + number)
        except IcefloeError:
            continue
        assert write_view_metadata(metadata) == before
        assert list(view_problems(after)) == []
        assert read_view_metadata(write_view_metadata(after), PATH) == after
        assert after.version_log[-1].version_id == after.current_version_id
        kept_ids = {one.version_id for one in after.versions}
        assert {entry.version_id for entry in after.version_log} <= kept_ids
        assert len(kept_ids) <= max(int(after.properties.get("version.history.num-entries", "10")), 1 + len(updates))
        for one in metadata.versions:
            assert after.versions.get(one.version_id) in (None, one)
        metadata = after
