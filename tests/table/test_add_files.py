"""Files of other writers, added to tables: their columns, metrics and partitions, and refusals, which change nothing."""

import datetime as dt
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import orc
from tests.repetitions import examples
from tests.table.test_upsert import files_under, race, second

from icefloe import LongType, SqlCatalog, StringType
from icefloe.errors import (
    CommitInvalidatedError,
    DataFileFormatError,
    InvalidInputError,
    InvalidSchemaError,
    NoSuchFileError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)
from icefloe.io.local_file_io import LocalFileIO
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.partitioning.transforms import BucketTransform
from icefloe.spec.schema.schema import walk
from icefloe.spec.types import DateType
from icefloe.table import Table

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("value", pa.float64()), ("at", pa.timestamp("us")), ("on", pa.date32())])


def make(folder: Path, spec: tuple[str, ...] = (), version: int = 2, schema: pa.Schema = SCHEMA, **properties: str) -> Table:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    catalog.create_namespace_if_not_exists("db")
    settings = {"format-version": str(version), "commit.retry.min-wait-ms": "1", **properties}
    return catalog.create_table("db.t", schema, partition_spec=spec, properties=settings)


def row(number: int, part: str | None = "a", value: float | None = 1.0) -> dict[str, Any]:
    return {"id": number, "part": part, "value": value, "at": dt.datetime(2024, 2, 29, number % 24), "on": dt.date(2024, 2, 29)}


def put(path: Path, rows: list[dict[str, Any]], schema: pa.Schema = SCHEMA, **options: Any) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path, **options)
    return str(path)


# Arguments of `add_field`: the source, the transform and the name.
FIELDS = {
    "year(at)": ("at", "year", "at_year"),
    "month(at)": ("at", "month", "at_month"),
    "day(at)": ("at", "day", "at_day"),
    "hour(at)": ("at", "hour", "at_hour"),
    "truncate(2, part)": ("part", "truncate[2]", "part_trunc"),
    "bucket(4, s.x)": ("s.x", "bucket[4]", "s.x_bucket"),
    "bucket(4, number)": ("number", "bucket[4]", "number_bucket"),
    "truncate(10, number)": ("number", "truncate[10]", "number_trunc"),
}


def live(table: Table) -> list[DataFile]:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return [entry.data_file for manifest in snapshot.manifests(table.io) for entry in manifest.fetch_manifest_entry(table.io)]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_added_files_are_part_of_the_table_and_are_not_modified(tmp_path: Path, version: int) -> None:
    table = make(tmp_path, version=version)
    table.append(pa.Table.from_pylist([row(0)], schema=SCHEMA))
    paths = [put(tmp_path / f"in/{name}.parquet", [row(name), row(name + 10)]) for name in (1, 2)]
    before = [Path(path).read_bytes() for path in paths]
    result = table.add_files(paths, {"job": "7"})
    assert (result.operation, result.engine, result.added_files, result.added_records) == ("append", "in-process", 2, 4)
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [0, 1, 2, 11, 12]
    assert [Path(path).read_bytes() for path in paths] == before
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert (snapshot.summary["total-records"], snapshot.summary["added-data-files"], snapshot.summary["job"]) == ("5", "2", "7")
    assert table.scan("id = 12").plan().files_kept == 1
    if version == 3:
        assert sorted(table.scan().select("_row_id").to_arrow()["_row_id"].to_pylist()) == [0, 1, 2, 3, 4]


def test_a_table_gets_a_name_mapping_only_if_a_file_needs_one(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.append(pa.Table.from_pylist([row(0)], schema=SCHEMA))
    own = live(table)[0].file_path
    table.delete("id = 0")
    table.add_files([own])
    assert "schema.name-mapping.default" not in table.properties
    table.add_files([put(tmp_path / "in/1.parquet", [row(1)])])
    mapping = table.properties["schema.name-mapping.default"]
    with table.update_schema() as update:
        update.rename_column("value", "amount")
    table.add_files([put(tmp_path / "in/2.parquet", [row(2, value=2.0)])])
    assert table.properties["schema.name-mapping.default"] != mapping  # it follows renames, and still contains the old name
    assert sorted(table.scan().to_arrow()["amount"].to_pylist()) == [1.0, 1.0, 2.0]


@pytest.mark.parametrize(
    "changes",
    [
        [("rename", "value", "amount"), ("add", "value")],
        [("delete", "value"), ("add", "value")],
        [("rename", "value", "amount"), ("rename", "part", "value")],
        [("rename", "s.x", "y"), ("add", "s.x")],
    ],
)
def test_a_column_takes_no_name_under_which_files_without_ids_have_values_of_another(
    tmp_path: Path, changes: list[tuple[str, ...]]
) -> None:
    schema = SCHEMA.append(pa.field("s", pa.struct([("x", pa.int64()), ("z", pa.int64())])))
    table = make(tmp_path, schema=schema)
    table.add_files([put(tmp_path / "in/1.parquet", [{**row(1), "s": {"x": 7, "z": 8}}], schema)])

    def change(what: str, path: str, name: str = "", **options: bool) -> None:
        with table.update_schema(**options) as update:
            match what:
                case "rename":
                    update.rename_column(path, name)
                case "add":
                    update.add_column(path, StringType())
                case _:
                    update.delete_column(path)

    *first, last = changes
    for each in first:
        change(*each)
    before = table.scan().to_arrow()
    with pytest.raises(InvalidSchemaError, match=r"files without field ids have values of .* under it") as refused:
        change(*last)
    assert "schema.name-mapping.default" in refused.value.next_step
    assert table.refresh().scan().to_arrow() == before
    change(*last, allow_incompatible_changes=True)
    assert last[-1] in {".".join(path) for path, _ in walk(table.schema().fields)}


def test_a_column_takes_back_its_own_name_and_a_name_that_no_file_has(tmp_path: Path) -> None:
    table = make(tmp_path)
    with table.update_schema() as update:
        update.rename_column("part", "other")
    table.add_files([put(tmp_path / "in/1.parquet", [row(1)], SCHEMA.remove(1))])
    with table.update_schema() as update:
        update.rename_column("value", "amount")
    with table.update_schema() as update:
        update.rename_column("amount", "value").add_column("part", StringType())
    assert table.scan().select("value", "part").to_arrow().to_pylist() == [{"value": 1.0, "part": None}]


@pytest.mark.parametrize("as_pattern", [False, True])
def test_a_folder_or_a_pattern_adds_its_files(tmp_path: Path, as_pattern: bool) -> None:
    table = make(tmp_path)
    for number, name in enumerate(("a.parquet", "part=x/b.parquet", "_temporary/c.parquet", ".hidden.parquet", "_SUCCESS")):
        put(tmp_path / "in" / name, [row(number)])
    result = table.add_files(f"{tmp_path}/in/**/*.parquet" if as_pattern else f"file://{tmp_path}/in")
    assert result.added_files == (3 if as_pattern else 2)
    with pytest.raises(NoSuchFileError, match="nothing"):
        table.add_files(f"{tmp_path}/nothing/*.parquet")


def test_partitions_are_derived_from_the_path_or_from_the_values(tmp_path: Path) -> None:
    spec = ("part", "day(at)", "truncate(10, id)", "bucket(4, on)")
    table = make(tmp_path, spec)
    day = (dt.date(2024, 2, 29) - dt.date(1970, 1, 1)).days
    bucket = BucketTransform(4).apply(DateType(), day)
    put(tmp_path / f"in/part=caf%C3%A9%20x/on_bucket={bucket}/1.parquet", [row(11), row(13)], SCHEMA.remove(1))
    put(tmp_path / "in/2.parquet", [row(21, "b"), row(22, "b")])
    put(tmp_path / "in/part=__HIVE_DEFAULT_PARTITION__/3.parquet", [row(5, None)])
    table.add_files(str(tmp_path / "in"))
    found = sorted((file.partition for file in live(table)), key=repr)
    assert found == sorted([("café x", day, 10, bucket), ("b", day, 20, bucket), (None, day, 0, bucket)], key=repr)
    assert sorted(table.scan("part = 'café x'").to_arrow()["id"].to_pylist()) == [11, 13]
    assert table.scan("part = 'b'").plan().files_kept == 1


@pytest.mark.parametrize(
    ("folder", "value"),
    [
        ("a+b", "a+b"),
        ("null", "null"),
        ("a%20b", "a b"),
        ("a%2Bb", "a+b"),
        ("%zz%4", "%zz%4"),
        ("a=b", "a=b"),
        ("__HIVE_DEFAULT_PARTITION__", None),
    ],
)
def test_folders_are_read_as_hive_and_spark_write_them(tmp_path: Path, folder: str, value: str | None) -> None:
    table = make(tmp_path, ("part",))
    path = put(tmp_path / f"in/part={folder}/1.parquet", [row(1)], SCHEMA.remove(1))
    table.add_files([path])
    assert (live(table)[0].partition, table.scan().to_arrow()["part"].to_pylist()) == ((value,), [value])


@pytest.mark.parametrize(("folder", "value"), [("a+b", "a b"), ("null", None), ("a+b", "a+b"), ("null", "null"), ("%3D", "=")])
def test_rows_of_a_file_show_which_layout_its_folder_has(tmp_path: Path, folder: str, value: str | None) -> None:
    table = make(tmp_path, ("part",))
    table.add_files([put(tmp_path / f"in/part={folder}/1.parquet", [row(1, value)])])
    assert (live(table)[0].partition, table.scan().to_arrow()["part"].to_pylist()) == ((value,), [value])
    # Without statistics nothing shows the layout.
    unclear = put(tmp_path / f"in/part={folder}/2.parquet", [row(2, value)], write_statistics=False)
    if folder == "%3D":
        table.add_files([unclear])
    else:
        with pytest.raises(SchemaMismatchError, match="cannot be determined") as refused:
            table.add_files([unclear])
        assert "in the layout of Hive" in refused.value.problems[0].what


@pytest.mark.parametrize("folder", ["in/part=%FF", "in/on=null"])
def test_a_folder_without_a_value_of_its_column_is_refused(tmp_path: Path, folder: str) -> None:
    table = make(tmp_path, (folder[3:].partition("=")[0],))
    path = put(tmp_path / folder / "1.parquet", [row(1)], pa.schema([("id", pa.int64())]))
    with pytest.raises(SchemaMismatchError, match="cannot be determined") as refused:
        table.add_files([path])
    assert refused.value.path == path


@pytest.mark.parametrize("with_ids", [False, True])
@pytest.mark.parametrize("spec", [(), ("part",)])
@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_a_file_without_any_column_of_the_table_is_refused(tmp_path: Path, with_ids: bool, spec: tuple[str, ...], kind: str) -> None:
    table = make(tmp_path, spec)
    key = b"iceberg.id" if kind == "orc" else b"PARQUET:field_id"
    columns = pa.schema([pa.field("ID", pa.int64(), metadata={key: b"77"} if with_ids else None), ("other", pa.string())])
    rows = pa.Table.from_pylist([{"ID": 1}], schema=columns)
    path = tmp_path / f"in/part=a/1.{kind}"
    path.parent.mkdir(parents=True)
    if kind == "parquet":
        pq.write_table(rows, path)
    else:
        orc.write_table(rows, path)
    with pytest.raises(
        SchemaMismatchError, match=r"has no column of lake\.db\.t: its columns are 'ID', 'other', .* id, part, value"
    ) as refused:
        table.add_files([str(path)])
    assert (refused.value.path, refused.value.table) == (str(path), "lake.db.t")
    assert "schema.name-mapping.default" in refused.value.next_step
    assert table.refresh().current_snapshot() is None
    mapping = '[{"field-id": 1, "names": ["ID", "id"]}, {"field-id": 2, "names": ["part"]}]'
    table.set_properties({"schema.name-mapping.default": mapping})
    if not with_ids and spec:
        table.add_files([str(path)])
        assert table.scan().to_arrow().select(["id", "part"]).to_pylist() == [{"id": 1, "part": "a"}]


def test_a_file_of_other_nested_columns_alone_is_added(tmp_path: Path) -> None:
    table = make(tmp_path, schema=pa.schema([("s", pa.struct([("x", pa.int64())]))]))
    table.add_files([put(tmp_path / "1.parquet", [{"s": {"y": 1}}], pa.schema([("s", pa.struct([("y", pa.int64())]))]))])
    assert table.scan().to_arrow().to_pylist() == [{"s": {"x": None}}]


@pytest.mark.parametrize(
    ("spec", "folder", "rows", "message"),
    [
        (("part",), "", [row(1, "a"), row(2, "b")], "values from a to b"),
        (("part",), "", [row(1, "a"), row(2, None)], "and 1 nulls"),
        (("part",), "part=c", [row(1, "a")], "the path has 'c'"),
        (("part",), "part=a", [row(1, "a"), row(2, "b")], "several values"),
        (("value",), "", [row(1)], "NaN"),
        (("bucket(4, id)",), "", [row(1), row(2)], r"no single value of bucket\[4\]\(id\): values from 1 to 2"),
        (("bucket(4, id)",), "id_bucket=9", [row(1)], "bucket 9, and there are 4"),
        (("hour(at)",), "", [row(1), row(2)], "2024-02-29-01 to 2024-02-29-02"),
        (("day(on)",), "on_day=Friday", [row(1)], "Friday"),
    ],
)
def test_a_file_with_an_uncertain_partition_is_refused(
    tmp_path: Path, spec: tuple[str, ...], folder: str, rows: list[dict[str, Any]], message: str
) -> None:
    table = make(tmp_path, spec)
    path = put(tmp_path / "in" / folder / "1.parquet", rows)
    files = files_under(tmp_path)
    with pytest.raises(SchemaMismatchError, match=message) as refused:
        table.add_files([path])
    assert refused.value.path == path
    assert files_under(tmp_path) == files
    assert table.refresh().current_snapshot() is None


@pytest.mark.parametrize("spec", [(), ("value",), ("truncate(1, part)",), ("bucket(4, id)",)])
@pytest.mark.parametrize("folder", ["id=1", "ID=1", "x=7/id=1"])
def test_a_partition_folder_that_is_not_a_partition_field_is_refused(tmp_path: Path, spec: tuple[str, ...], folder: str) -> None:
    table = make(tmp_path, spec)
    path = put(tmp_path / "in" / folder / "1.parquet", [row(1)], SCHEMA.remove(0))
    with pytest.raises(SchemaMismatchError, match=r"no partition spec .* matches the partition columns \[(id|ID)\]") as refused:
        table.add_files(str(tmp_path / "in"))
    assert (refused.value.path, [problem.where for problem in refused.value.problems]) == (path, ["id"])
    assert table.refresh().current_snapshot() is None


def test_a_partition_folder_with_the_old_name_of_a_renamed_column_is_refused(tmp_path: Path) -> None:
    table = make(
        tmp_path, **{"schema.name-mapping.default": '[{"field-id": 1, "names": ["id", "number"]}, {"field-id": 2, "names": ["part"]}]'}
    )
    with table.update_schema() as update:
        update.rename_column("id", "number")
    put(tmp_path / "in/id=1/1.parquet", [{"part": "a"}], pa.schema([("part", pa.string())]))
    with pytest.raises(SchemaMismatchError, match=r"partition columns \[id\]") as refused:
        table.add_files(str(tmp_path / "in"))
    assert [problem.where for problem in refused.value.problems] == ["number"]


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
@pytest.mark.parametrize(
    ("spec", "folder", "right"),
    [
        ("year(at)", "at_year=2024", "null"),
        ("month(at)", "at_month=2024-02", "null"),
        ("month(at)", "AT_MONTH=2024-02", "null"),
        ("day(at)", "at_day=2024-02-29", "null"),
        ("hour(at)", "at_hour=2024-02-29-05", "null"),
        ("truncate(2, part)", "part_trunc=ab", "null"),
        ("bucket(4, s.x)", "s.x_bucket=2", "null"),
        ("bucket(4, number)", "number_bucket=0", "2"),
        ("truncate(10, number)", "number_trunc=50", "40"),
    ],
)
def test_a_folder_of_a_transform_gives_no_value_to_a_column_that_the_file_lacks(
    tmp_path: Path, spec: str, folder: str, right: str, file_format: str
) -> None:
    schema = SCHEMA.append(pa.field("s", pa.struct([("x", pa.int32()), ("y", pa.int32())])))
    table = make(tmp_path, schema=schema, version=3)
    table.update_schema().add_column("number", LongType(), default_value=42).commit()
    table = second(tmp_path)
    table.update_spec().add_field(*FIELDS[spec]).commit()

    def put_in(name: str) -> str:
        path = tmp_path / name / f"1.{file_format}"
        path.parent.mkdir(parents=True)
        rows = pa.table({"id": [1], "s": pa.array([{"y": 2}], pa.struct([("y", pa.int32())]))})
        pq.write_table(rows, path) if file_format == "parquet" else orc.write_table(rows, path)
        return str(path)

    with pytest.raises(SchemaMismatchError, match="the file lacks") as refused:
        table.add_files([put_in(folder)])
    assert f"the value of its rows is {right}:" in refused.value.problems[0].what
    # What is certain is derived: the partition of the default or null, which such a folder may state too.
    table.add_files(
        [put_in("elsewhere"), put_in(f"{folder.partition('=')[0]}={'__HIVE_DEFAULT_PARTITION__' if right == 'null' else right}")]
    )
    source = table.schema().find_column_name(table.spec().fields[0].source_id)
    where = f"{source} IS NULL" if right == "null" else f"{source} = 42"
    assert (table.scan(where).count(), table.scan(f"NOT ({where})").count()) == (2, 0)
    assert [file.rule for file in table.inspect.validate(data=True).findings] == []


def test_a_transform_of_an_identity_column_has_the_partition_of_the_folder_of_the_column(tmp_path: Path) -> None:
    table = make(tmp_path, ("part", "truncate(1, part)", "bucket(8, part)"))
    for folder in ("in/part=ab", "in/part=cd/part_trunc=c"):
        put(tmp_path / folder / "1.parquet", [row(1)], SCHEMA.remove(1))
    table.add_files(f"{tmp_path}/in")
    assert sorted(file.partition[:2] for file in live(table)) == [("ab", "a"), ("cd", "c")]
    assert {part: table.scan(f"part = '{part}'").count() for part in ("ab", "cd", "a")} == {"ab": 1, "cd": 1, "a": 0}
    with pytest.raises(SchemaMismatchError, match="the file lacks part"):
        table.add_files([put(tmp_path / "in/part=ef/part_trunc=c/1.parquet", [row(1)], SCHEMA.remove(1))])


def test_files_in_folders_of_an_older_spec_are_added_with_that_spec(tmp_path: Path) -> None:
    table = make(tmp_path, ("id", "part"))
    table.update_spec().remove_field("part").commit()
    table.update_spec().add_field("value", "identity", "value").commit()
    specs = {tuple(field.name for field in spec.fields): spec.spec_id for spec in table.specs().values()}
    for number in (1, 2):
        put(tmp_path / f"in/id={number}/1.parquet", [row(number, "a"), row(number, "b", 2.0)], SCHEMA.remove(0))
    assert table.add_files(str(tmp_path / "in")).added_records == 4
    assert {(file.spec_id, file.partition) for file in live(table)} == {(specs[("id",)], (1,)), (specs[("id",)], (2,))}
    assert sorted(table.scan().to_arrow().select(["id", "part"]).to_pylist(), key=repr) == [
        {"id": number, "part": part} for number in (1, 2) for part in "ab"
    ]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_folders_of_some_identity_fields_match_an_older_spec_but_none_with_void_fields(tmp_path: Path, version: int) -> None:
    table = make(tmp_path, ("id", "part", "value"), version=version)
    table.update_spec().remove_field("part").commit()
    table.update_spec().remove_field("value").commit()
    table.update_spec().add_field("value", "identity", "value").commit()
    expected = [row(number, part, 2.0) for number in (1, 2) for part in "ab"]
    for number in (1, 2):
        rows = [one for one in expected if one["id"] == number]
        put(tmp_path / f"in/id={number}/1.parquet", rows, SCHEMA.remove(0))
    if version == 1:
        with pytest.raises(SchemaMismatchError, match=r"no partition spec of the table matches the partition columns \[id\]") as refused:
            table.add_files(str(tmp_path / "in"))
        assert [problem.where for problem in refused.value.problems] == ["value"]
        assert table.refresh().current_snapshot() is None
        return
    table.add_files(str(tmp_path / "in"))
    assert {tuple(field.name for field in table.specs()[file.spec_id].fields) for file in live(table)} == {("id",)}
    for condition, chosen in {
        "true": expected,
        "id = 1": expected[:2],
        "id = 2 AND part = 'a'": expected[2:3],
        "value = 2.0": expected,
        "value < 2.0": [],
        "id > 2": [],
    }.items():
        assert sorted(table.scan(condition).to_arrow().to_pylist(), key=lambda one: (one["id"], one["part"])) == chosen


def test_an_empty_folder_adds_nothing_and_a_missing_one_is_refused(tmp_path: Path) -> None:
    table = make(tmp_path)
    (tmp_path / "in" / "_temporary").mkdir(parents=True)
    result = table.add_files(f"{tmp_path}/in")
    assert (result.added_files, result.snapshot_id) == (0, None)
    assert table.add_files([f"{tmp_path}/in/", put(tmp_path / "1.parquet", [row(1)])]).added_files == 1
    with pytest.raises(NoSuchFileError, match="nothing"):
        table.add_files(f"{tmp_path}/nothing")


def test_the_error_names_columns_that_do_not_fit_and_unknown_columns_are_ignored(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            ("n", pa.int32()),
            ("s", pa.struct([("x", pa.int32()), ("l", pa.list_(pa.string()))])),
            ("at", pa.timestamp("us", "UTC")),
            ("d", pa.decimal128(9, 2)),
        ]
    )
    table = make(tmp_path, schema=schema)
    narrow = pa.schema([("id", pa.int32()), ("s", pa.struct([("x", pa.int16())])), ("other", pa.int8()), ("d", pa.decimal128(5, 2))])
    table.add_files([put(tmp_path / "1.parquet", [{"id": 1, "s": {"x": 2}, "other": 3, "d": Decimal("1.50")}], narrow)])
    assert table.scan().to_arrow().to_pylist() == [{"id": 1, "n": None, "s": {"x": 2, "l": None}, "at": None, "d": Decimal("1.50")}]
    assert table.scan("id = 1 AND d = 1.5").plan().files_kept == 1
    assert table.scan("d > 1.5").plan().files_kept == 0
    wrong = pa.schema([("n", pa.int64()), ("s", pa.struct([("l", pa.list_(pa.int32()))])), ("at", pa.timestamp("us")), ("d", pa.float64())])
    path = put(tmp_path / "2.parquet", [{"n": 1}], wrong)
    with pytest.raises(SchemaMismatchError) as refused:
        table.add_files([path])
    assert [problem.where for problem in refused.value.problems] == ["id", "n", "s.l.element", "at", "d"]
    with pytest.raises(SchemaMismatchError, match="1 nulls"):
        table.add_files([put(tmp_path / "3.parquet", [{"id": None}], pa.schema([("id", pa.int64())]))])
    nanos = pa.schema([("id", pa.int64()), ("at", pa.timestamp("ns", "UTC"))])
    with pytest.raises(SchemaMismatchError, match="nanoseconds"):
        table.add_files([put(tmp_path / "4.parquet", [{"id": 1, "at": 1}], nanos)])


def test_files_that_are_in_the_table_already_are_refused(tmp_path: Path) -> None:
    table = make(tmp_path, version=3, **{"write.delete.mode": "merge-on-read"})
    path = put(tmp_path / "in/1.parquet", [row(1), row(2)])
    with pytest.raises(InvalidInputError, match="twice"):
        table.add_files([path, path])
    with pytest.raises(InvalidInputError, match="twice"):
        table.add_files([path, str(tmp_path / "in/*")])
    table.add_files([path])
    table.delete("id = 1")
    before = table.metadata_location
    with pytest.raises(InvalidInputError, match=r"1 file is one of lake\.db\.t already"):
        table.add_files([path, put(tmp_path / "in/2.parquet", [row(3)])])
    vectors = [str(found) for found in files_under(tmp_path) if found.suffix == ".puffin"]
    with pytest.raises(DataFileFormatError, match="neither Parquet nor ORC"):
        table.add_files(vectors)
    assert table.refresh().metadata_location == before
    with pytest.raises(InvalidInputError, match="already"):
        add_in_transaction(table, str(tmp_path / "in/2.parquet"), 2)
    assert table.refresh().metadata_location == before
    assert (tmp_path / "in/2.parquet").exists()
    table.add_files([path], check_duplicate_files=False)
    # The deletion vector is older than the second addition of the file, so it does not apply to it.
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2, 2]


def add_in_transaction(table: Table, path: str, times: int) -> None:
    with table.transaction() as tx:
        for _ in range(times):
            tx.add_files([path])


def test_the_error_names_a_file_that_is_not_a_valid_data_file(tmp_path: Path) -> None:
    table = make(tmp_path)
    good = Path(put(tmp_path / "in/1.parquet", [row(1)]))
    cut = tmp_path / "cut.parquet"
    cut.write_bytes(good.read_bytes()[:-20])
    sealed = tmp_path / "sealed.parquet"
    sealed.write_bytes(b"PARE" + good.read_bytes()[4:-4] + b"PARE")
    text = tmp_path / "rows.csv"
    text.write_text("id,part\n1,a\n")
    avro = tmp_path / "rows.avro"
    avro.write_bytes(b"Obj\x01" + bytes(20))
    for path, error, words in [
        (cut, DataFileFormatError, "no valid footer"),
        (sealed, UnsupportedFeatureError, "encrypted"),
        (text, DataFileFormatError, "neither Parquet nor ORC"),
        (avro, DataFileFormatError, "Avro"),
        (tmp_path / "gone.parquet", NoSuchFileError, "gone"),
    ]:
        with pytest.raises(error, match=words) as refused:
            table.add_files([str(good), str(path)])
        assert refused.value.path == str(path)
    assert table.refresh().current_snapshot() is None
    assert good.exists()


def test_orc_files_are_added_without_metrics_with_the_partition_of_their_path(tmp_path: Path) -> None:
    table = make(tmp_path, ("part",))
    path = tmp_path / "in/part=a/1.orc"
    path.parent.mkdir(parents=True)
    orc.write_table(pa.Table.from_pylist([row(1), row(2)], schema=SCHEMA), path)
    table.add_files([str(path)])
    assert (live(table)[0].record_count, live(table)[0].partition) == (2, ("a",))
    assert sorted(table.scan("id > 1").to_arrow()["id"].to_pylist()) == [2]


def test_files_added_twice_concurrently_are_in_the_table_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path)
    path = put(tmp_path / "in/1.parquet", [row(1)])
    race(table, monkeypatch, lambda: second(tmp_path).add_files([path]))
    with pytest.raises((InvalidInputError, CommitInvalidatedError)):
        table.add_files([path])
    assert table.refresh().scan().count() == 1
    assert Path(path).exists()


def test_files_are_not_added_after_a_concurrent_schema_change_and_a_new_call_adds_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(tmp_path)
    path = put(tmp_path / "in/1.parquet", [row(1)])

    def winner() -> None:
        with second(tmp_path).update_schema() as update:
            update.add_column("later", StringType())

    race(table, monkeypatch, winner)
    with pytest.raises(CommitInvalidatedError, match="schema"):
        table.add_files([path])
    assert table.refresh().current_snapshot() is None
    assert Path(path).exists()
    table.add_files([path])
    assert table.scan().count() == 1


KINDS = {
    "i": (pa.int32(), st.integers(-3, 3)),
    "l": (pa.int64(), st.sampled_from([-(2**40), 0, 7])),
    "f": (pa.float32(), st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("inf")])),
    "g": (pa.float64(), st.sampled_from([0.0, -0.0, -2.5, float("nan")])),
    "t": (pa.string(), st.sampled_from(["", "kiwi", "größe" * 20, "\U0010ffff" * 30])),
    "b": (pa.binary(), st.sampled_from([b"", b"\xff" * 40, b"\x00"])),
    "d": (pa.decimal128(20, 3), st.sampled_from([Decimal("-1.250"), Decimal("99999999999999999.999")])),
    "c": (pa.date32(), st.sampled_from([dt.date(1969, 12, 31), dt.date(2024, 2, 29)])),
    "m": (pa.timestamp("us"), st.sampled_from([dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2024, 2, 29)])),
    "z": (pa.timestamp("us", "UTC"), st.sampled_from([dt.datetime(2024, 2, 29, tzinfo=dt.UTC)])),
    "h": (pa.time64("us"), st.sampled_from([dt.time(0), dt.time(23, 59, 59, 999999)])),
    "o": (pa.bool_(), st.booleans()),
}


@settings(max_examples=examples(30, least=8), suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_added_files_have_the_rows_and_pruning_of_the_same_rows_appended(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Add a file that PyArrow wrote with any options: every filter selects the rows that it selects in a table of the same rows, and bounds are true."""
    folder = tmp_path_factory.mktemp("added")
    names = data.draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=4, unique=True))
    schema = pa.schema([pa.field(name, KINDS[name][0]) for name in names])
    rows = data.draw(st.lists(st.fixed_dictionaries({name: st.none() | KINDS[name][1] for name in names}), max_size=6))
    for name in ("added", "appended"):
        (folder / name).mkdir()
    added = make(folder / "added", schema=schema)
    appended = make(folder / "appended", schema=schema)
    form = data.draw(
        st.fixed_dictionaries(
            {
                "row_group_size": st.sampled_from([1, 2, 100]),
                "version": st.sampled_from(["1.0", "2.4", "2.6"]),
                "write_statistics": st.sampled_from([True, True, names[:1], False]),
                "store_decimal_as_integer": st.booleans(),
                "store_schema": st.booleans(),
            }
        )
    )
    try:
        path = put(folder / "in/1.parquet", rows, schema, **form)
    except pa.ArrowInvalid:
        return  # Parquet version 1.0 cannot represent it
    added.add_files([path])
    appended.append(pa.Table.from_pylist(rows, schema=schema))
    assert added.scan().to_arrow().sort_by([(names[0], "ascending")]).num_rows == len(rows)
    for one in rows:
        for name, value in one.items():
            if value is None:
                where = f"{name} IS NULL"
            elif isinstance(value, float) and value != value:  # noqa: PLR0124 NaN
                where = f"{name} IS NAN"
            elif isinstance(value, bytes):
                where = f"{name} = X'{value.hex()}'"
            elif isinstance(value, str | dt.date | dt.time):
                where = f"{name} = '{value.isoformat() if not isinstance(value, str) else value}'"
            elif value == float("inf"):
                continue
            else:
                where = f"{name} = {value}"
            assert repr(added.scan(where).to_arrow().to_pylist()) == repr(appended.scan(where).to_arrow().to_pylist()), where


@pytest.mark.slow
def test_each_of_ten_thousand_added_files_is_opened_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count, opened = 10_000, Counter[str]()
    table = make(tmp_path, ("part",))
    kinds = pa.schema([field for field in SCHEMA if field.name != "part"])
    rows = [{name: value for name, value in row(number).items() if name != "part"} for number in range(2)]
    one = Path(put(tmp_path / "one.parquet", rows, kinds))
    for number in range(count):
        path = tmp_path / f"in/part={number % 50}/{number}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.hardlink_to(one)
    read, open_input = LocalFileIO.read, LocalFileIO.open_input

    def counted(original: Any) -> Any:
        def counting(io: LocalFileIO, location: str) -> Any:
            opened[Path(location.removeprefix("file://")).name] += 1
            return original(io, location)

        return counting

    monkeypatch.setattr(LocalFileIO, "read", counted(read))
    monkeypatch.setattr(LocalFileIO, "open_input", counted(open_input))
    result = table.add_files(str(tmp_path / "in"))
    assert (result.added_files, result.added_records, len(table.snapshots())) == (count, 2 * count, 1)
    assert {name: times for name, times in opened.items() if name.endswith(".parquet")} == {f"{n}.parquet": 1 for n in range(count)}
    assert opened.total() < count + 20  # the others are metadata files
    assert table.scan("part = '7'").plan().files_kept == count // 50
    assert table.scan().count() == 2 * count
    opened.clear()
    with pytest.raises(InvalidInputError, match=r"1 file is one of lake\.db\.t already"):
        table.add_files([str(tmp_path / "in/part=7/7.parquet")])
    assert [name for name in opened if name.endswith(".parquet")] == ["7.parquet"]
