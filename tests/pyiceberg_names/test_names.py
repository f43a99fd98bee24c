"""Code written for PyIceberg runs after its imports are renamed: names, spellings and errors."""

import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from icefloe.catalog import Catalog, load_catalog
from icefloe.catalog.memory import InMemoryCatalog
from icefloe.catalog.sql import SqlCatalog
from icefloe.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError, ValidationError
from icefloe.expressions import And, EqualTo, GreaterThan, Reference
from icefloe.expressions.literals import literal
from icefloe.io.pyarrow import pyarrow_to_schema, schema_to_pyarrow
from icefloe.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from icefloe.schema import Schema, promote
from icefloe.table import StaticTable, Table, TableProperties
from icefloe.table.metadata import TableMetadataUtil
from icefloe.table.name_mapping import create_mapping_from_schema
from icefloe.table.refs import MAIN_BRANCH, SnapshotRefType
from icefloe.table.snapshots import Operation, Summary
from icefloe.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from icefloe.transforms import BucketTransform, DayTransform, IdentityTransform
from icefloe.types import FloatType, GeometryType, IntegerType, ListType, LongType, MapType, NestedField, StringType, StructType, UUIDType

ROWS = pa.table({"id": [1, 2, 3], "city": ["Paris", "Oslo", "Rome"]})


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}") as opened:
        opened.create_namespace("db")
        yield opened


@pytest.fixture
def table(catalog: Catalog) -> Table:
    created = catalog.create_table("db.t", ROWS.schema)
    created.append(ROWS)
    return created


def test_the_modules_of_pyiceberg_are_not_loaded_by_import_icefloe() -> None:
    loaded = (
        "import sys, icefloe; print([name for name in sys.modules if name in ('icefloe.types', 'icefloe.schema', 'icefloe.expressions')])"
    )
    assert subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True).stdout.strip() == "[]"


@pytest.mark.parametrize(
    "listed",
    [
        ListType(1, StringType(), True),
        ListType(element_id=1, element_type=StringType(), element_required=True),
        ListType(element_id=1, element=StringType(), element_required=True),
        ListType(1, "string"),
    ],
)
def test_a_list_is_made_by_position_or_by_either_name_of_its_element(listed: ListType) -> None:
    assert listed == ListType(1, StringType(), True)
    assert listed.element_type == listed.element == StringType()


@pytest.mark.parametrize("arguments", [{}, {"element": StringType(), "element_type": StringType()}])
def test_a_list_with_no_or_two_types_of_elements_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="one type of elements"):
        ListType(1, **arguments)


def test_a_map_is_made_by_position() -> None:
    assert MapType(1, "string", 2, LongType(), False) == MapType(
        key_id=1, key_type=StringType(), value_id=2, value_type=LongType(), value_required=False
    )


def test_types_are_given_as_texts() -> None:
    assert NestedField(1, "point", "geometry").field_type == GeometryType()
    assert NestedField(1, "n", "decimal(9, 2)", required=True) == NestedField(1, "n", "decimal(9,2)", required=True)
    with pytest.raises(ValueError, match="is not the name of a type"):
        NestedField(1, "n", "strng")
    assert PartitionField(1, 1000, "day", "ts_day").transform == DayTransform()
    assert SortField(1, transform="identity").transform == IdentityTransform()


def test_members_of_a_struct_are_found_by_id_and_name() -> None:
    struct = StructType(NestedField(1, "a", "int"), NestedField(2, "b", "string"))
    assert (struct.field(2), struct.field(3)) == (struct.fields[1], None)
    assert struct.field_by_name("A") is None
    assert struct.field_by_name("A", case_sensitive=False) == struct.fields[0]
    assert len(struct) == 2


def test_schemas_with_other_ids_are_equal() -> None:
    one, other = (Schema(NestedField(1, "a", "int", required=True), schema_id=number, identifier_field_ids=[1]) for number in (0, 7))
    assert one == other
    assert hash(one) == hash(other)
    assert one != Schema(NestedField(1, "a", "int", required=True))
    assert one.columns == one.fields
    assert one.identifier_field_names() == {"a"}


def test_the_arrow_schema_has_field_ids_and_arrows_uuid_type() -> None:
    schema = Schema(NestedField(1, "u", UUIDType()), NestedField(2, "l", ListType(3, UUIDType(), False)))
    arrow = schema.as_arrow()
    assert arrow == schema_to_pyarrow(schema)
    assert arrow.types == [pa.uuid(), pa.list_(pa.field("element", pa.uuid()))]
    assert pyarrow_to_schema(arrow) == schema


def test_promotion_of_types() -> None:
    assert promote(IntegerType(), LongType()) == LongType()
    with pytest.raises(ValueError, match="cannot be read as"):
        promote(LongType(), IntegerType())


def test_expressions_take_references_and_literals() -> None:
    assert EqualTo(Reference("age"), literal(5)) == EqualTo("age", 5)
    assert Reference("age").name == "age"
    both = And(EqualTo("a", 1), GreaterThan("b", 2))
    assert (both.left, both.right) == (EqualTo("a", 1), GreaterThan("b", 2))


def test_partition_specs_and_sort_orders() -> None:
    assert UNPARTITIONED_PARTITION_SPEC.is_unpartitioned()
    assert not PartitionSpec(PartitionField(1, 1000, BucketTransform(4), "b")).is_unpartitioned()
    assert BucketTransform(100).transform(IntegerType())(34) == 79
    assert DayTransform().to_human_string(IntegerType(), 17501) == "2017-12-01"
    assert SortOrder(SortField(1, IdentityTransform(), SortDirection.ASC, NullOrder.NULLS_FIRST)) == SortOrder(SortField(1))


def test_a_summary_has_its_operation_as_an_attribute(table: Table) -> None:
    summary = table.current_snapshot().summary
    assert summary.operation is Operation.APPEND
    assert summary["added-records"] == summary.additional_properties["added-records"] == "3"
    assert "operation" not in summary.additional_properties
    assert Summary(Operation.DELETE, a="b") == {"operation": "delete", "a": "b"}


def test_a_table_has_the_attributes_of_pyicebergs(table: Table) -> None:
    snapshot = table.current_snapshot()
    assert table.sort_orders() == {0: table.sort_order()}
    assert table.last_sequence_number == 1
    assert table.last_partition_id() == 999
    assert table.snapshot_as_of_timestamp(snapshot.timestamp_ms) == snapshot
    assert table.snapshot_as_of_timestamp(snapshot.timestamp_ms, inclusive=False) is None
    assert table.name_mapping() is None
    assert table.refs()[MAIN_BRANCH].snapshot_ref_type is SnapshotRefType.BRANCH
    assert table.location_provider().new_data_location("x.parquet", "day=1") == f"{table.location()}/data/day=1/x.parquet"
    assert table.location_provider().new_metadata_location("m.json") == f"{table.location()}/metadata/m.json"
    mapping = create_mapping_from_schema(table.schema())
    assert [field.names for field in mapping.fields] == [("id",), ("city",)]


def test_uuids_come_as_arrows_uuid_type(catalog: Catalog) -> None:
    values = [uuid.uuid4(), None]
    rows = pa.table({"u": pa.array([value and value.bytes for value in values], pa.binary(16)).cast(pa.uuid())})
    table = catalog.create_table("db.u", rows.schema)
    table.append(rows)
    read = table.scan().to_arrow()
    assert read.schema.types == [pa.uuid()]
    assert read["u"].to_pylist() == values
    assert table.scan().to_arrow_batch_reader().read_all() == read
    table.append(read)
    assert table.scan().count() == 4


@pytest.mark.parametrize("file_format", ["parquet", "avro", "orc"])
def test_a_null_struct_with_required_fields_is_read_beside_uuids(catalog: Catalog, file_format: str) -> None:
    pair = StructType(NestedField(6, "n", "long", required=True), NestedField(7, "b", "boolean", required=True))
    schema = Schema(
        NestedField(1, "u", "uuid"),
        NestedField(2, "s", pair),
        NestedField(
            3,
            "m",
            MapType(
                4,
                "uuid",
                5,
                StructType(*(NestedField(field.field_id + 2, field.name, field.field_type, True) for field in pair.fields)),
                False,
            ),
        ),
    )
    table = catalog.create_table("db.s", schema, properties={"write.format.default": file_format})
    value = uuid.uuid4()
    both = pa.struct([pa.field("n", pa.int64(), False), pa.field("b", pa.bool_(), False)])
    stored = pa.schema([("u", pa.binary(16)), ("s", both), ("m", pa.map_(pa.binary(16), both))])
    row = {"n": 1, "b": True}
    table.append(
        pa.Table.from_pylist([{"u": None, "s": None, "m": [(value.bytes, None)]}, {"u": value.bytes, "s": row, "m": None}], stored)
    )
    expected = [{"u": None, "s": None, "m": [(value, None)]}, {"u": value, "s": row, "m": None}]
    assert table.scan().to_arrow().to_pylist() == expected
    assert table.scan().to_arrow_batch_reader().read_all().to_pylist() == expected


def test_properties_have_constants(catalog: Catalog) -> None:
    table = catalog.create_table(
        "db.p", ROWS.schema, properties={TableProperties.FORMAT_VERSION: "3", TableProperties.DELETE_MODE: "merge-on-read"}
    )
    assert (table.format_version, table.properties["write.delete.mode"]) == (3, "merge-on-read")


def test_files_are_read_and_written_through_the_io(table: Table, tmp_path: Path) -> None:
    with table.io.new_input(table.metadata_location).open() as stream:
        assert TableMetadataUtil.parse_raw(stream.read().decode()) == table.metadata
    output = table.io.new_output(f"{tmp_path}/x")
    with output.create() as stream:
        stream.write(b"one")
    assert (output.exists(), len(output.to_input_file())) == (True, 3)
    with pytest.raises(Exception, match="exists"):
        output.create()
    with output.create(overwrite=True) as stream:
        stream.write(b"again")
    assert len(output) == 5


def test_a_write_without_a_branch_adds_a_snapshot_and_moves_no_branch(table: Table) -> None:
    current = table.current_snapshot()
    for write in (
        lambda: table.append(ROWS, branch=None),
        lambda: table.delete("id = 1", branch=None),
        lambda: table.overwrite(ROWS, branch=None),
        lambda: table.upsert(pa.table({"id": [1], "city": ["Nice"]}), ["id"], branch=None),
    ):
        before = {snapshot.snapshot_id for snapshot in table.snapshots()}
        write()
        (new,) = [snapshot for snapshot in table.snapshots() if snapshot.snapshot_id not in before]
        assert new.parent_snapshot_id == current.snapshot_id
        assert table.current_snapshot() == current
        assert list(table.refs()) == ["main"]
    assert table.scan().count() == 3


def test_changes_are_chained_in_a_transaction(table: Table) -> None:
    changed = table.transaction().set_properties(a="1", b="2").remove_properties("b").commit_transaction()
    assert changed is table
    assert table.properties["a"] == "1"
    assert "b" not in table.properties
    assert table.set_properties(c="3").properties["c"] == "3"


def test_partition_fields_are_added_by_shortcuts(catalog: Catalog) -> None:
    schema = pa.schema([("id", pa.int64()), ("s", pa.string()), ("a", pa.timestamp("us")), ("b", pa.timestamp("us")), ("c", pa.date32())])
    table = catalog.create_table("db.spec", schema)
    with table.update_spec() as update:
        update.identity("s").bucket("id", 4).truncate("s", 2, "short").year("a").month("c").day("b", "on")
    assert [f"{field.name}={field.transform}" for field in table.spec().fields] == [
        "s=identity", "id_bucket_4=bucket[4]", "short=truncate[2]", "a_year=year", "c_month=month", "on=day",
    ]  # fmt: skip


def test_columns_are_added_and_widened_by_the_text_of_a_type(table: Table) -> None:
    with table.update_schema() as update:
        update.add_column("price", "float").add_column(path="note", field_type="string")
    with table.update_schema() as update:
        update.update_column("price", "double")
    assert [str(field.field_type) for field in table.schema().fields] == ["long", "string", "double", "string"]
    assert FloatType() not in [field.field_type for field in table.schema().fields]


def test_columns_are_added_to_an_empty_struct_in_the_same_update(table: Table) -> None:
    with table.update_schema() as update:
        update.add_column("details", StructType())
        update.add_column(("details", "confirmed_by"), StringType(), "Name of the exchange")
    assert str(table.schema().find_type("details")) == "struct<4: confirmed_by: optional string (Name of the exchange)>"


def test_a_table_is_created_with_its_first_rows_by_one_commit(catalog: Catalog) -> None:
    with catalog.create_table_transaction("db.new", ROWS.schema, properties={"k": "v"}) as transaction:
        transaction.append(ROWS)
        assert not catalog.table_exists("db.new")
    table = catalog.load_table("db.new")
    assert table.scan().count() == 3
    assert len(table.metadata.metadata_log) == 0
    with pytest.raises(RuntimeError, match="stop"), catalog.create_table_transaction("db.other", ROWS.schema) as transaction:
        raise RuntimeError("stop")
    assert not catalog.table_exists("db.other")


def test_a_registered_table_replaces_another_one(catalog: Catalog, table: Table) -> None:
    other = catalog.create_table("db.other", ROWS.schema)
    with pytest.raises(TableAlreadyExistsError):
        catalog.register_table("db.t", other.metadata_location)
    replaced = catalog.register_table("db.t", other.metadata_location, overwrite=True)
    assert replaced.metadata_location == other.metadata_location
    assert catalog.load_table("db.t").scan().count() == 0
    assert catalog.register_table("db.fresh", table.metadata_location, overwrite=True).scan().count() == 3


def test_names_are_taken_apart() -> None:
    assert Catalog.identifier_to_tuple("a.b.t") == ("a", "b", "t")
    assert Catalog.table_name_from(("a", "t")) == "t"
    assert Catalog.namespace_from("a.b.t") == ("a", "b")
    assert Catalog.namespace_to_string((" a", "b")) == "a.b"
    for wrong in ((), ("a", " ")):
        with pytest.raises(ValueError, match="level"):
            Catalog.namespace_to_string(wrong)


def test_a_catalog_makes_and_drops_its_tables(tmp_path: Path) -> None:
    with load_catalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=str(tmp_path)) as catalog:
        catalog.create_namespace("db")
        catalog.create_tables()
        assert catalog.list_namespaces() == [("db",)]
        catalog.destroy_tables()
        catalog.create_tables()
        assert catalog.list_namespaces() == []
        assert str(catalog.engine.url).startswith("sqlite")
    with InMemoryCatalog("memory") as memory:
        assert memory.list_namespaces() == []


def test_errors_are_caught_under_the_names_and_kinds_that_notebooks_use(catalog: Catalog, table: Table) -> None:
    with pytest.raises(NoSuchTableError):
        catalog.load_table("db.missing")
    with pytest.raises(ValueError, match="no snapshot"):
        table.scan(snapshot_id=1).to_arrow()
    with pytest.raises(FileNotFoundError) as missing:
        StaticTable.from_metadata("/nowhere/v1.metadata.json")
    assert missing.value.errno == 2
    with pytest.raises(ValidationError):
        table.scan("no_such_column = 1").to_arrow()
    assert issubclass(CommitFailedException, Exception)


def test_a_missing_data_file_is_reported_as_missing_and_not_as_damaged(table: Table) -> None:
    (task,) = table.scan().plan_files()
    Path(task.file.file_path.removeprefix("file://")).unlink()
    with pytest.raises(FileNotFoundError, match="there is no file"):
        table.scan().to_arrow()


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("expressions", {"And", "Or", "EqualTo", "GreaterThanOrEqual", "In", "literal"}),
        ("catalog", {"load_catalog", "Catalog"}),
        ("table", {"Table", "StaticTable", "TableProperties"}),
        ("view", {"View"}),
        ("types", {"LongType", "NestedField"}),
        ("transforms", {"DayTransform"}),
        ("schema", {"Schema"}),
        ("partitioning", {"PartitionSpec", "PartitionField"}),
        ("exceptions", {"NoSuchTableError"}),
        ("manifest", {"DataFile"}),
        ("typedef", {"Identifier"}),
        ("table.sorting", {"SortOrder", "SortField"}),
        ("table.snapshots", {"Operation"}),
        ("table.refs", {"SnapshotRefType"}),
        ("catalog.sql", {"SqlCatalog"}),
        ("io.pyarrow", {"schema_to_pyarrow"}),
    ],
)
def test_a_star_import_brings_the_names_of_a_module(module: str, names: set[str]) -> None:
    found: dict[str, Any] = {}
    exec(f"from icefloe.{module} import *", found)  # noqa: S102 the statement is allowed in a module alone
    assert names - found.keys() == set()


def test_none_is_no_spec_no_order_no_location_and_no_properties(catalog: Catalog) -> None:
    nothing = {"location": None, "partition_spec": None, "sort_order": None, "properties": None}
    table = catalog.create_table("db.none", ROWS.schema, **nothing)
    assert (table.spec().is_unpartitioned(), table.sort_order().is_unsorted) == (True, True)
    with catalog.create_table_transaction("db.later", ROWS.schema, **nothing) as changes:
        changes.append(ROWS)
    assert catalog.replace_table("db.later", ROWS.schema, **nothing).spec().is_unpartitioned()
    assert catalog.create_table_if_not_exists("db.third", ROWS.schema, **nothing).scan().count() == 0
