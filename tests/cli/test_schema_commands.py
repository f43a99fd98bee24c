"""The commands that show and change columns, partition fields and the sort order."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.cli.conftest import Command

from icefloe import SqlCatalog
from icefloe.table import Table

JsonCommand = Callable[..., Any]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A warehouse with the table `db.t` in format version 3, with one row."""
    folder = tmp_path / "lake"
    folder.mkdir()
    catalog = catalog_at(folder)
    catalog.create_namespace("db")
    schema = pa.schema([("id", pa.int32()), ("share", pa.float32()), ("name", pa.string()), ("place", pa.struct([("lat", pa.float64())]))])
    table = catalog.create_table("db.t", schema, properties={"format-version": "3"})
    table.append(pa.table({"id": [1], "share": [0.5], "name": ["a"], "place": [{"lat": 1.0}]}, schema=schema))
    return folder


def catalog_at(folder: Path) -> SqlCatalog:
    return SqlCatalog("default", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))


def table_at(folder: Path) -> Table:
    return catalog_at(folder).load_table("db.t")


def names(folder: Path) -> list[str]:
    return [field.name for field in table_at(folder).schema().fields]


def test_schema_show_has_ids_types_and_the_form_of_the_format(icefloe: Command, as_json: JsonCommand, lake: Path) -> None:
    text = icefloe("schema", "show", "db.t", "--warehouse", lake).stdout
    assert "place.lat" in text
    printed = as_json("schema", "show", "db.t", "--warehouse", lake)
    assert (printed["type"], printed["schema-id"], printed["fields"][0]) == (
        "struct", 0, {"id": 1, "name": "id", "required": False, "type": "int"},
    )  # fmt: skip


def test_columns_are_added_at_the_end_in_a_struct_or_at_a_place(icefloe: Command, lake: Path) -> None:
    place = ("--warehouse", lake)
    assert icefloe("schema", "add", "db.t", "age int, place.height double comment 'in metres'", *place).exit_code == 0
    assert icefloe("schema", "add", "db.t", "b long, c long", "--after", "id", *place).exit_code == 0
    assert icefloe("schema", "add", "db.t", "z long", "--first", *place).exit_code == 0
    assert names(lake) == ["z", "id", "b", "c", "share", "name", "place", "age"]
    assert table_at(lake).schema().find_field("place.height").doc == "in metres"
    assert table_at(lake).scan(selected_fields=("id", "age")).to_arrow().to_pylist() == [{"id": 1, "age": None}]


@pytest.mark.parametrize(
    ("column", "text", "value"),
    [
        ("x long not null", "7", 7),
        ("x string", "7", "7"),
        ("x boolean", "true", True),
        ("x decimal(9,2)", "1.50", "1.50"),
        ("x date", "2024-01-31", "2024-01-31"),
    ],
)
def test_a_default_fills_existing_rows(icefloe: Command, lake: Path, column: str, text: str, value: object) -> None:
    result = icefloe("schema", "add", "db.t", column, "--default", text, "--warehouse", lake)
    assert result.exit_code == 0, result.stderr
    found = table_at(lake).scan(selected_fields=("x",)).to_arrow().to_pylist()[0]["x"]
    assert (found if isinstance(value, int | bool) else str(found)) == value


def test_columns_are_renamed_widened_moved_commented_and_dropped(icefloe: Command, lake: Path) -> None:
    place = ("--warehouse", lake)
    for words in (
        ("rename", "db.t", "name", "label"),
        ("rename", "db.t", "place.lat", "latitude"),
        ("widen", "db.t", "id", "bigint"),
        ("widen", "db.t", "share", "double"),
        ("move", "db.t", "label", "--before", "id"),
        ("comment", "db.t", "id", "the key"),
        ("drop", "db.t", "share", "place"),
    ):
        result = icefloe("schema", *words, *place)
        assert result.exit_code == 0, (words, result.stderr)
    assert names(lake) == ["label", "id"]
    assert (str(table_at(lake).schema().find_field("id").field_type), table_at(lake).schema().find_field("id").doc) == ("long", "the key")
    assert table_at(lake).scan().to_arrow().to_pylist() == [{"label": "a", "id": 1}]


def test_defaults_keys_and_nullability_are_set(icefloe: Command, as_json: JsonCommand, lake: Path) -> None:
    place = ("--warehouse", lake)
    assert icefloe("schema", "add", "db.t", "k long not null", "--default", "0", *place).exit_code == 0
    assert as_json("schema", "key", "db.t", "k", *place)["identifier-field-ids"] == [6]
    assert as_json("schema", "default", "db.t", "name", "unnamed", *place)["fields"][2]["write-default"] == "unnamed"
    assert "write-default" not in as_json("schema", "default", "db.t", "name", *place)["fields"][2]
    assert icefloe("schema", "add", "db.t", "r long not null", "--default", "0", *place).exit_code == 0
    assert not as_json("schema", "allow-nulls", "db.t", "r", *place)["fields"][-1]["required"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("add", "db.t", "id long"), "id"),
        (("add", "db.t", "x long not null"), "required"),
        (("add", "db.t", "x lang"), "there is no type 'lang'"),
        (("add", "db.t", "x long", "--default", "seven"), "'seven' is not a value of type long"),
        (("add", "db.t", "x long", "--default", "9999999999999999999"), "9999999999999999999"),
        (("add", "db.t", "x long", "--first", "--after", "id"), "one new place of x is needed"),
        (("rename", "db.t", "nothing", "x"), "nothing"),
        (("rename", "db.t", "id", "name"), "name"),
        (("widen", "db.t", "id", "string"), "id"),
        (("widen", "db.t", "name", "long"), "name"),
        (("drop", "db.t", "nothing"), "nothing"),
        (("move", "db.t", "id"), "one new place of id is needed"),
        (("move", "db.t", "id", "--after", "place.lat"), "place"),
        (("show", "db.t", "--schema-id", "9"), "has no schema 9"),
        (("key", "db.t", "share"), "share"),
    ],
)
def test_a_wrong_change_is_refused_and_changes_nothing(icefloe: Command, lake: Path, words: tuple[str, ...], message: str) -> None:
    before = table_at(lake).metadata_location
    result = icefloe("schema", *words, "--warehouse", lake)
    assert result.exit_code == 1
    assert message in " ".join(result.stderr.split())
    assert table_at(lake).metadata_location == before


def test_a_table_named_by_its_metadata_file_is_shown_and_not_changed(icefloe: Command, lake: Path) -> None:
    metadata = table_at(lake).metadata_location
    assert icefloe("schema", "show", metadata).exit_code == 0
    assert "cannot be changed" in icefloe("schema", "drop", metadata, "id").stderr


def test_partition_fields_are_added_renamed_and_removed(icefloe: Command, as_json: JsonCommand, lake: Path) -> None:
    place = ("--warehouse", lake)
    assert icefloe("spec", "add", "db.t", "bucket(4, id)", "name", "truncate(2, name) as start", *place).exit_code == 0
    assert [field.name for field in table_at(lake).spec().fields] == ["id_bucket_4", "name", "start"]
    assert icefloe("spec", "rename", "db.t", "start", "beginning", *place).exit_code == 0
    assert icefloe("spec", "remove", "db.t", "name", *place).exit_code == 0
    printed = as_json("spec", "show", "db.t", *place)
    current = next(spec for spec in printed["partition-specs"] if spec["spec-id"] == printed["default-spec-id"])
    assert [field["name"] for field in current["fields"]] == ["id_bucket_4", "beginning"]
    assert "not partitioned" in icefloe("spec", "show", "db.t", *place).stdout
    assert icefloe("spec", "add", "db.t", "day(name)", *place).exit_code == 1


def test_the_sort_order_is_shown_replaced_and_removed(icefloe: Command, as_json: JsonCommand, lake: Path) -> None:
    place = ("--warehouse", lake)
    assert "not sorted" in icefloe("sort", "db.t", *place).stdout
    fields = as_json("sort", "db.t", "name desc", "bucket(4, id) nulls last", *place)["fields"]
    assert [(key["transform"], key["direction"], key["null-order"]) for key in fields] == [
        ("identity", "desc", "nulls-last"),
        ("bucket[4]", "asc", "nulls-last"),
    ]
    assert as_json("sort", "db.t", "--unsorted", *place)["fields"] == []
    assert icefloe("sort", "db.t", "nothing", *place).exit_code == 1
    assert icefloe("sort", "db.t", "name", "--unsorted", *place).exit_code == 1
