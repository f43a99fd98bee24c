"""The data source `icefloe` without a running Spark: its options, the filters it takes, how files are cut and packed, and its rows."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle
from pyspark.sql.types import StructType
from tests.table.deviating import list_path, made, one_more_added, rewrite, warned

from icefloe import LongType, NestedField, Schema, SqlCatalog, StringType, TimestamptzType, UUIDType
from icefloe.errors import (
    InvalidInputError,
    InvalidPropertyError,
    ManifestFormatError,
    NoSuchCatalogError,
    NoSuchFileError,
    StorageUnavailableError,
)
from icefloe.operations import warnings_once
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spark.connect.connect_filters import as_row_filter
from icefloe.spark.connect.connect_options import CatalogRecipe, RegisteredCatalogs, SourceOptions, load_table, parse_options
from icefloe.spark.connect.connect_table import table as spark_table
from icefloe.spark.connect.parquet_reader import keeps_its_name, spark_path
from icefloe.spark.connect.python_data_source import UNUSED_BY_SOURCE, IcefloeSource
from icefloe.spark.connect.register import register
from icefloe.spark.connect.table_writer import FilesMessage
from icefloe.spark.connect.task_partitions import pack_tasks
from icefloe.spark.scan.table_selector import timestamp_ms
from icefloe.spark.types.spark_types import schema_to_struct
from icefloe.spec.expressions.predicate import AlwaysTrue
from icefloe.spec.manifest.data_file import DataFile, FileFormat
from icefloe.spec.tolerance import Deviation
from icefloe.table import Table


@pytest.fixture
def lake(tmp_path: Path) -> SqlCatalog:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))
    catalog.create_namespace("db")
    return catalog


def source(lake: SqlCatalog, **options: str) -> IcefloeSource:
    known = RegisteredCatalogs(catalogs={"lake": CatalogRecipe.of(lake)})
    kind = type("RegisteredSource", (IcefloeSource,), {"__module__": __name__, "registered": known, "pushes_filters": True})
    return cloudpickle.loads(cloudpickle.dumps(kind))({key.replace("_", "-"): value for key, value in options.items()})


def table_of(lake: SqlCatalog, count: int = 5) -> Table:
    table = lake.create_table("db.t", pa.schema([("id", pa.int64()), ("kind", pa.string())]))
    table.append(pa.table({"id": range(count), "kind": ["a"] * count}))
    return table


def rows_of(found: IcefloeSource, schema: StructType | None = None, pushed: tuple[Any, ...] = ()) -> list[int]:
    reader = found.reader(schema or found.schema())
    assert list(reader.pushFilters(list(pushed))) == []
    sent = cloudpickle.loads(cloudpickle.dumps(reader))
    return [row["id"] for part in reader.partitions() for batch in sent.read(part) for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"snapshot_id": "1"}, "no option 'snapshot_id'"),
        ({"as-of-timestmp": "1"}, "no option 'as-of-timestmp'"),
        ({"snapshot-id": "one"}, "snapshot-id is 'one'"),
        ({"snapshot-id": "1", "tag": "x"}, "one snapshot, and the options snapshot-id and tag"),
        ({"as-of-timestamp": "yesterday"}, "not a time with its zone"),
        ({"as-of-timestamp": "2026-01-01T00:00:00"}, "not a time with its zone"),
        ({"columns": "[1"}, "not a list in JSON"),
        ({"overwrite-mode": "all"}, "overwrite-mode is 'all'"),
        ({"table": ""}, "no table is named"),
        ({"end-snapshot-id": "1"}, "end-snapshot-id is given without start-snapshot-id"),
        ({"start-timestamp": "1"}, "a range of appended rows has no start-timestamp"),
        ({"start-snapshot-id": "x"}, "start-snapshot-id is 'x'"),
        ({"start-snapshot-id": "1", "tag": "x"}, "tag beside start-snapshot-id name what to read twice"),
        ({"start-snapshot-id": "1", "end-snapshot-id": "2", "branch": "x"}, "branch beside start-snapshot-id and end-snapshot-id"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        parse_options({"table": "lake.db.t", **options})


def test_options_are_parsed() -> None:
    asked = parse_options(
        {"Table": "db.t", "CATALOG": "lake", "columns": "a, b", "s3.region": "x", "snapshot-property.Who": "me", "uri": "u"}
    )
    assert (asked.table, asked.catalog, asked.columns, dict(asked.snapshot_properties)) == ("db.t", "lake", ("a", "b"), {"Who": "me"})
    assert asked.properties == {"s3.region": "x", "uri": "u"}
    assert parse_options({"table": "t", "columns": '["a,b", "c"]'}).columns == ("a,b", "c")
    assert "uri" not in repr(asked)
    assert (
        timestamp_ms("1970-01-01T00:00:01+00:00") == timestamp_ms(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)) == timestamp_ms("1000") == 1000
    )


@pytest.mark.parametrize("options", [{"path": "lake.db.t"}, {"table": "lake.db.t"}, {"catalog": "lake", "table": "db.t"}])
def test_a_table_is_found_by_its_name(lake: SqlCatalog, options: dict[str, str]) -> None:
    table_of(lake)
    assert rows_of(source(lake, **options)) == [0, 1, 2, 3, 4]


def test_a_source_reads_the_metadata_file_whose_columns_it_returned(lake: SqlCatalog) -> None:
    table = table_of(lake)
    found = source(lake, path="lake.db.t")
    schema = found.schema()
    found = cloudpickle.loads(cloudpickle.dumps(found))
    table.append(pa.table({"id": [100]}))
    with table.update_schema() as update:
        update.rename_column("id", "number")
    assert rows_of(found, schema) == [0, 1, 2, 3, 4]


def test_appended_rows_are_read_between_snapshots(lake: SqlCatalog) -> None:
    table = table_of(lake)
    for number in (10, 11, 12):
        table.append(pa.table({"id": [number]}))
    table.delete("id = 11")
    ids = [str(snapshot.snapshot_id) for snapshot in table.snapshots()]
    assert rows_of(source(lake, path="lake.db.t", start_snapshot_id=ids[0])) == [10, 11, 12]
    assert rows_of(source(lake, path="lake.db.t", start_snapshot_id=ids[0], end_snapshot_id=ids[2])) == [10, 11]
    found = source(lake, path="lake.db.t", start_snapshot_id=ids[3])
    schema = found.schema()
    table.append(pa.table({"id": [13]}))
    assert rows_of(found, schema) == []


def test_java_options_split_files_or_log_a_warning(
    lake: SqlCatalog, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warnings_once, "_WARNED", set())
    table = lake.create_table("db.t", pa.schema([("id", pa.int64())]), properties={"write.parquet.row-group-size-bytes": "8000"})
    table.append(pa.table({"id": range(20_000)}))

    def parts(**options: str) -> int:
        found = source(lake, path="lake.db.t", **options)
        return len(found.reader(found.schema()).partitions())

    assert parts() == 1
    assert parts(split_size="20000") > 2
    assert caplog.messages == []
    table.set_properties({"read.split.target-size": "20000"})
    assert parts() > 2
    for _ in range(2):
        parts(**dict.fromkeys(UNUSED_BY_SOURCE, "1"))
    warned = [line.removeprefix("the read option ").split(" ")[0] for line in caplog.messages]
    assert sorted(warned) == sorted(UNUSED_BY_SOURCE)
    with pytest.raises(InvalidPropertyError, match=r"read\.split\.target-size is 'many'"):
        parts(split_size="many")


def test_columns_of_another_type_are_refused(lake: SqlCatalog) -> None:
    table_of(lake)
    with pytest.raises(Exception, match="id is bigint, not string"):
        source(lake, path="lake.db.t").reader(
            StructType.fromJson({"type": "struct", "fields": [{"name": "id", "type": "string", "nullable": True, "metadata": {}}]})
        )


@dataclass(frozen=True)
class Filter:
    """The shape of Spark's filters, whose classes came in 4.1."""

    attribute: tuple[str, ...]
    value: Any = None


EqualTo, EqualNullSafe, GreaterThan, In, IsNull, StringStartsWith, StringContains = (
    type(name, (Filter,), {}) for name in ("EqualTo", "EqualNullSafe", "GreaterThan", "In", "IsNull", "StringStartsWith", "StringContains")
)


@dataclass(frozen=True)
class Not:
    child: Any


SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "u", UUIDType()),
    NestedField(3, "a.b", StringType()),
    NestedField(4, "at", TimestamptzType()),
)


@pytest.mark.parametrize(
    ("given_filter", "taken"),
    [
        (EqualTo(("id",), 5), "id = 5"),
        (Not(EqualTo(("id",), 5)), "NOT (id = 5)"),
        (EqualNullSafe(("id",), 5), "id = 5"),
        (Not(EqualNullSafe(("id",), 5)), None),  # true for null, which NOT = is not
        (EqualNullSafe(("id",), None), None),
        (In(("id",), (1, 2)), "id IN (1, 2)"),
        (In(("id",), (1, None)), None),
        (IsNull(("u",)), "u IS NULL"),
        (EqualTo(("u",), "00000000-0000-0000-0000-00000000000A"), None),  # text in Spark, where upper case differs
        (StringStartsWith(("a.b",), "x"), "a.b LIKE 'x%'"),
        (StringStartsWith(("a", "b"), "x"), None),  # a field of a struct that is not there
        (StringContains(("a.b",), "x"), None),
        (EqualTo(("absent",), 1), None),
        (EqualTo(("id",), "text"), None),
        (EqualTo(("_spec_id",), 0), None),
        (GreaterThan(("at",), datetime(2026, 1, 1, tzinfo=UTC)), "at > TIMESTAMP '2026-01-01 00:00:00+00:00'"),
    ],
)
def test_filters_with_the_same_meaning_are_accepted(given_filter: Any, taken: str | None) -> None:
    found = as_row_filter(given_filter, SCHEMA)
    assert (None if found is None else str(found)) == taken


def test_accepted_filters_are_applied(lake: SqlCatalog) -> None:
    table_of(lake)
    assert rows_of(source(lake, path="lake.db.t"), pushed=(GreaterThan(("id",), 1), Not(In(("id",), (3,))))) == [2, 4]


def task(size: int, *offsets: int, form: FileFormat = FileFormat.PARQUET) -> FileScanTask:
    file = DataFile(file_path="f", file_format=form, record_count=1, file_size_in_bytes=size, split_offsets=offsets)
    return FileScanTask(file=file, residual=AlwaysTrue(), length=size)


def test_large_files_are_split_at_row_groups_and_small_ones_combined() -> None:
    groups = list(pack_tasks([task(100, 4, 30, 60, 90)], bytes_per_task=40))
    assert [[part.start for part in group] for group in groups] == [[0], [30], [60]]
    assert [len(group) for group in pack_tasks([task(10) for _ in range(7)], bytes_per_task=40)] == [
        1
    ] * 7  # opening one costs as much as reading 4 MB
    assert [len(group) for group in pack_tasks([task(1) for _ in range(40)])] == [32, 8]
    assert len(list(pack_tasks([task(100, 4, 30, 60, 90, form=FileFormat.ORC)], bytes_per_task=40))) == 1


@given(st.lists(st.tuples(st.integers(1, 500), st.lists(st.integers(0, 600), max_size=9)), max_size=6), st.integers(1, 300))
def test_every_row_group_is_read_once(files: list[tuple[int, list[int]]], bytes_per_task: int) -> None:
    whole = [task(size, *offsets) for size, offsets in files]
    tasks = [replace(whole_task, file=replace(whole_task.file, spec_id=number)) for number, whole_task in enumerate(whole)]
    parts = [part for group in pack_tasks(tasks, bytes_per_task=bytes_per_task) for part in group]
    for number, (_, offsets) in enumerate(files):
        for offset in offsets:
            assert sum(part.start <= offset < part.start + part.length for part in parts if part.spec_id == number) == (
                offset < files[number][0] or len([part for part in parts if part.spec_id == number]) > 1
            )


@pytest.mark.parametrize(
    ("location", "told"),
    [
        ("/data/a b%/c=d/f.parquet", "file:/data/a%20b%25/c=d/f.parquet"),
        ("file:///data/[x]{y}/é?.parquet", "file:/data/%5Bx%5D%7By%7D/é%3F.parquet"),
        ("s3a://bucket/a b/f.parquet", "s3a://bucket/a%20b/f.parquet"),
        ("hdfs://name:8020/a/f.parquet", "hdfs://name:8020/a/f.parquet"),
        ("hdfs:///a/f.parquet", None),
        ("s3a://bucket/a//f.parquet", None),
        ("/data/./f.parquet", None),
        ("/data/x/../f.parquet", None),
    ],
)
def test_a_file_has_the_name_that_spark_gives_it(location: str, told: str | None) -> None:
    assert keeps_its_name(location) == (told is not None)
    assert told is None or spark_path(location) == told


def test_abort_deletes_no_file_after_the_commit_began(lake: SqlCatalog) -> None:
    table = table_of(lake)
    writer = source(lake, path="lake.db.t").writer(schema_to_struct(table.schema(), field_ids=False), False)
    message = writer.write(iter(pa.table({"id": [9], "kind": ["z"]}).to_batches()))
    assert isinstance(message, FilesMessage)
    writer.commit([message])
    # Spark aborts after a commit that failed; here only the response of the catalog was lost.
    writer.abort([message])
    assert table.refresh().scan("id = 9").to_arrow().num_rows == 1
    other = source(lake, path="lake.db.t").writer(schema_to_struct(table.schema(), field_ids=False), False)
    left = other.write(iter(pa.table({"id": [10], "kind": ["z"]}).to_batches()))
    assert isinstance(left, FilesMessage)
    other.abort([left, None])
    assert not Path(left.written[0].files[0].file_path).exists()


def test_the_files_of_a_table_that_was_dropped_meanwhile_are_deleted(lake: SqlCatalog) -> None:
    table = table_of(lake)
    writer = source(lake, path="lake.db.t").writer(schema_to_struct(table.schema(), field_ids=False), False)
    message = writer.write(iter(pa.table({"id": [9]}).to_batches()))
    lake.drop_table("db.t")
    with pytest.raises(Exception, match="lake"):
        writer.commit([message])
    assert isinstance(message, FilesMessage)
    assert not Path(message.written[0].files[0].file_path).exists()


@pytest.mark.parametrize(("name", "argument"), [("laek", r"laek=catalog"), ("my-lake", r"\{'my-lake': catalog\}")])
def test_an_unregistered_catalog_is_refused_with_the_call_that_registers_it(lake: SqlCatalog, name: str, argument: str) -> None:
    known = RegisteredCatalogs(catalogs={"lake": CatalogRecipe.of(lake)})
    with pytest.raises(NoSuchCatalogError, match=rf"(?s)register\(spark, {argument}\); registered: lake; configured") as caught:
        load_table(SourceOptions(table=f"{name}.db.t"), known)
    assert "uri=" not in str(caught.value)
    with pytest.raises(InvalidInputError, match=r"(?s)has no catalog.*Next: write catalog\.namespace\.table; registered catalogs: lake$"):
        load_table(SourceOptions(table="db.t"), known)


class Session:
    """What the checks of arguments need of a session."""

    createDataFrame = None  # noqa: N815 Spark's name


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda lake: register(Session(), lake), r"(?s)of type SqlCatalog.*register\(spark, lake=catalog\)"),
        (lambda _: register(Session(), lake="lake"), "'lake' is registered as a value of type str"),
        (lambda lake: register(lake, lake=lake), "not a Spark session"),
        (lambda _: spark_table("lake.db.t", Session()), "the first argument is of type str, not a Spark session"),
        (lambda lake: spark_table(Session(), lake), "the second argument is of type SqlCatalog, not a table"),
        (lambda _: spark_table(Session(), "lake.db.t", columns="id"), r"(?s)columns is the text 'id'.*columns=\['id'\]"),
    ],
)
def test_arguments_of_wrong_types_are_refused(lake: SqlCatalog, call: Callable[[Any], object], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        call(lake)


def test_a_missing_file_is_reported_as_one_that_the_workers_do_not_see(lake: SqlCatalog) -> None:
    table = table_of(lake)
    found = source(lake, table="lake.db.t")
    reader = found.reader(found.schema())
    parts = list(reader.partitions())
    for task in table.scan().plan_files():
        Path(task.file.file_path).unlink()
    with pytest.raises(NoSuchFileError, match=r"(?s)there is no file.*Next: Spark's workers do not see the file"):
        list(reader.read(parts[0]))


def test_a_database_is_found_from_another_working_directory_and_opened_once(
    lake: SqlCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table_of(lake)
    monkeypatch.chdir(tmp_path)
    recipe = CatalogRecipe.of(SqlCatalog("lake", uri="sqlite:///catalog.db", warehouse="warehouse"))
    monkeypatch.chdir("/")
    assert recipe.catalog().load_table("db.t").scan().count() == 5
    assert recipe.catalog() is recipe.catalog()


def test_a_catalog_is_not_created_where_its_database_does_not_exist(lake: SqlCatalog, tmp_path: Path) -> None:
    recipe = CatalogRecipe.of(lake)
    lake.close()
    (tmp_path / "catalog.db").unlink()
    with pytest.raises(StorageUnavailableError, match="there is no database file"):
        recipe.catalog()
    assert list(tmp_path.glob("catalog.db*")) == []


def test_wrong_counts_of_a_manifest_list_are_refused_and_read_with_the_option_tolerant(tmp_path: Path) -> None:
    table = made(tmp_path)
    rewrite(list_path(table), one_more_added)
    lake = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))

    def read(**options: str) -> int:
        found = source(lake, catalog="lake", table="db.t", **options)
        reader = found.reader(found.schema())
        list(reader.pushFilters([]))
        return sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part))

    with pytest.raises(ManifestFormatError):
        read()
    with warned(Deviation.MANIFEST_FILE_COUNT):
        assert read(tolerant="true") == 90
    with pytest.raises(InvalidInputError, match="the option tolerant is 'perhaps'"):
        read(tolerant="perhaps")
