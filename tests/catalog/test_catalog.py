"""The public catalog interface: names, defaults, and the files that remain of a failed creation."""

import sqlite3
from pathlib import Path

import pyarrow as pa
import pytest
from sqlalchemy import event

from icefloe import (
    BucketTransform,
    IdentityTransform,
    LongType,
    NestedField,
    PartitionField,
    PartitionSpec,
    Schema,
    SortField,
    SortOrder,
    SqlCatalog,
    StringType,
    load_catalog,
)
from icefloe.catalog.catalog_config import catalog_properties
from icefloe.errors import (
    IcefloeError,
    InvalidPartitionSpecError,
    InvalidPropertyError,
    InvalidSchemaError,
    NamespaceNotEmptyError,
    NoSuchCatalogError,
    NoSuchFileError,
    NoSuchNamespaceError,
    NoSuchTableError,
    StorageError,
    TableAlreadyExistsError,
    UnsupportedFeatureError,
    UnsupportedFormatVersionError,
)

ARROW = pa.schema([("id", pa.int64()), ("name", pa.string())])


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))
    catalog.create_namespace("db")
    return catalog


def test_a_table_is_in_the_warehouse_under_its_namespace(catalog: SqlCatalog, tmp_path: Path) -> None:
    table = catalog.create_table("db.t", ARROW)
    assert table.location() == f"{tmp_path}/warehouse/db/t"
    assert table.metadata_location.startswith(f"{tmp_path}/warehouse/db/t/metadata/00000-")
    assert table.metadata_location.endswith(".metadata.json")


def test_a_namespace_may_have_a_location(catalog: SqlCatalog, tmp_path: Path) -> None:
    catalog.create_namespace("own", {"location": f"{tmp_path}/elsewhere"})
    assert catalog.create_table("own.t", ARROW).location() == f"{tmp_path}/elsewhere/t"
    assert catalog.create_table("own.u", ARROW, location=f"{tmp_path}/third").location() == f"{tmp_path}/third"


def test_an_icefloe_schema_gets_fresh_ids_and_its_spec_and_sort_order_use_them(catalog: SqlCatalog) -> None:
    schema = Schema(NestedField(10, "id", LongType(), required=True), NestedField(20, "name", StringType()), identifier_field_ids=[10])
    spec = PartitionSpec(
        PartitionField(source_id=20, field_id=1000, transform=IdentityTransform(), name="name"),
        PartitionField(source_id=10, field_id=1001, transform=BucketTransform(num_buckets=4), name="id_bucket"),
    )
    order = SortOrder(SortField(source_id=10, transform=IdentityTransform()))
    table = catalog.create_table("db.t", schema, partition_spec=spec, sort_order=order)
    assert [field.field_id for field in table.schema().fields] == [1, 2]
    assert table.schema().identifier_field_ids == (1,)
    assert [field.source_id for field in table.spec().fields] == [2, 1]
    assert [field.source_id for field in table.sort_order().fields] == [1]
    assert table.metadata.last_column_id == 2


def test_gzip_metadata_is_written_where_the_property_requests_it_and_is_read(catalog: SqlCatalog) -> None:
    table = catalog.create_table("db.t", ARROW, properties={"write.metadata.compression-codec": "gzip"})
    assert table.metadata_location.endswith(".gz.metadata.json")
    table.append(pa.table({"id": [1], "name": ["a"]}))
    assert table.metadata_location.endswith(".gz.metadata.json")
    assert Path(table.metadata_location).read_bytes()[:2] == b"\x1f\x8b"
    assert catalog.load_table("db.t").scan().count() == 1


def test_a_table_that_cannot_be_created_leaves_nothing(catalog: SqlCatalog, tmp_path: Path) -> None:
    with pytest.raises(InvalidPartitionSpecError, match="nosuch"):
        catalog.create_table("db.t", ARROW, partition_spec=["month(nosuch)"])
    with pytest.raises(InvalidPartitionSpecError):
        catalog.create_table("db.t", ARROW, partition_spec=["month(name)"])
    with pytest.raises(InvalidSchemaError, match="two columns have this name"):
        catalog.create_table("db.t", pa.schema([("a", pa.int64()), ("a", pa.string())]))
    with pytest.raises(InvalidSchemaError):
        catalog.create_table("db.t", {"id": "long"})  # type: ignore[arg-type]
    with pytest.raises(UnsupportedFormatVersionError, match="format version 9"):
        catalog.create_table("db.t", ARROW, properties={"format-version": "9"})
    with pytest.raises(NoSuchNamespaceError, match="nowhere"):
        catalog.create_table("nowhere.t", ARROW)
    assert not (tmp_path / "warehouse").exists()
    assert not catalog.table_exists("db.t")


def test_a_taken_name_is_refused_and_its_table_is_unchanged(catalog: SqlCatalog) -> None:
    first = catalog.create_table("db.t", ARROW)
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table("db.t", ARROW)
    assert catalog.create_table_if_not_exists("db.t", ARROW) == first


def test_a_dropped_table_can_be_registered_again(catalog: SqlCatalog) -> None:
    table = catalog.create_table("db.t", ARROW)
    table.append(pa.table({"id": [1], "name": ["a"]}))
    catalog.drop_table("db.t")
    with pytest.raises(NoSuchTableError):
        catalog.load_table("db.t")
    assert catalog.register_table("db.back", table.metadata_location).scan().count() == 1
    with pytest.raises(NoSuchFileError):
        catalog.register_table("db.other", "/nowhere/00000-x.metadata.json")


def test_a_renamed_table_has_its_rows_under_the_new_name_only(catalog: SqlCatalog) -> None:
    catalog.create_namespace("db2")
    catalog.create_table("db.t", ARROW).append(pa.table({"id": [1], "name": ["a"]}))
    assert catalog.rename_table("db.t", "db2.u").scan().count() == 1
    assert catalog.list_tables("db") == []
    assert catalog.list_tables("db2") == [("db2", "u")]
    with pytest.raises(NamespaceNotEmptyError):
        catalog.drop_namespace("db2")


def test_an_update_of_namespace_properties_returns_what_changed(catalog: SqlCatalog) -> None:
    change = catalog.update_namespace_properties("db", updates={"a": "1"})
    assert (change.updated, change.removed, change.missing) == (["a"], [], [])
    change = catalog.update_namespace_properties("db", removals={"a", "b"})
    assert (change.removed, change.missing) == (["a"], ["b"])
    assert catalog.load_namespace_properties("db") == {}


def test_a_catalog_without_a_warehouse_requires_a_location(tmp_path: Path) -> None:
    bare = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db")
    bare.create_namespace("db")
    with pytest.raises(InvalidPropertyError, match="warehouse"):
        bare.create_table("db.t", ARROW)


class TestLoadCatalog:
    @pytest.fixture(autouse=True)
    def nothing_configured(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        home = tmp_path / "home"
        home.mkdir()
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.chdir(tmp_path)
        for name in ("ICEFLOE_CATALOG", "ICEFLOE_HOME", "PYICEBERG_HOME", "PYICEBERG_DEFAULT_CATALOG"):
            monkeypatch.delenv(name, raising=False)

    def test_properties_come_from_the_arguments(self, tmp_path: Path) -> None:
        assert load_catalog("x", uri=f"sqlite:///{tmp_path}/c.db", warehouse="/w").properties["warehouse"] == "/w"

    def test_variables_of_icefloe_and_pyiceberg_are_read(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PYICEBERG_CATALOG__PROD__URI", f"sqlite:///{tmp_path}/c.db")
        monkeypatch.setenv("PYICEBERG_CATALOG__PROD__S3__ACCESS_KEY_ID", "k")
        monkeypatch.setenv("ICEFLOE_CATALOG__PROD__WAREHOUSE", "/ours")
        monkeypatch.setenv("PYICEBERG_CATALOG__PROD__WAREHOUSE", "/theirs")
        assert load_catalog("prod").properties == {"uri": f"sqlite:///{tmp_path}/c.db", "s3.access-key-id": "k", "warehouse": "/ours"}

    @pytest.mark.parametrize("prefix", ["ICEFLOE", "PYICEBERG"])
    def test_a_hyphen_in_a_name_is_an_underscore_in_a_variable(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefix: str) -> None:
        monkeypatch.setenv(f"{prefix}_CATALOG__MY_LAKE__URI", f"sqlite:///{tmp_path}/c.db")
        for name in ("my-lake", "my_lake", "My-Lake"):
            assert load_catalog(name).properties == {"uri": f"sqlite:///{tmp_path}/c.db"}
        with pytest.raises(NoSuchCatalogError, match="configured: my_lake") as missing:
            load_catalog("my-sea")
        assert "ICEFLOE_CATALOG__MY_SEA__URI" in str(missing.value)

    @pytest.mark.parametrize("name", ["icefloe.yaml", ".pyiceberg.yaml"])
    def test_values_of_a_configuration_file_keep_their_text(self, tmp_path: Path, name: str) -> None:
        written = {
            "uri": f"sqlite:///{tmp_path}/c.db",
            "s3.secret-access-key": "0123456",
            "a": "yes",
            "b": "1e3",
            "c": "2024-01-01",
            "d": "~",
        }
        lines = "".join(f"    {key}: {value}\n" for key, value in written.items())
        (tmp_path / name).write_text(f"catalog:\n  Prod:\n{lines}    warehouse:\n")
        assert load_catalog("prod").properties == load_catalog("Prod").properties == {**written, "warehouse": ""}

    @pytest.mark.parametrize("name", ["icefloe.yaml", ".pyiceberg.yaml"])
    def test_a_configuration_file_is_read_and_may_name_the_default_catalog(self, tmp_path: Path, name: str) -> None:
        (tmp_path / name).write_text(f"default-catalog: prod\ncatalog:\n  prod:\n    type: sql\n    uri: sqlite:///{tmp_path}/c.db\n")
        assert load_catalog().name == "prod"

    def test_an_error_names_a_configuration_file_that_is_not_yaml(self, tmp_path: Path) -> None:
        (tmp_path / "icefloe.yaml").write_text("catalog: [unclosed")
        with pytest.raises(InvalidPropertyError, match=r"icefloe\.yaml"):
            load_catalog("prod")

    def test_an_error_about_an_unknown_catalog_shows_what_to_configure(self) -> None:
        with pytest.raises(NoSuchCatalogError, match="prod") as missing:
            load_catalog("prod")
        assert "ICEFLOE_CATALOG__PROD__URI" in str(missing.value)

    def test_an_unsupported_type_of_catalog_is_refused(self) -> None:
        with pytest.raises(UnsupportedFeatureError, match="bigquery"):
            load_catalog("prod", type="bigquery", uri="sqlite://")

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("- a list", "not a mapping"),
            ("catalog:\n  prod: sqlite:///c.db\n", r"catalog\.prod is not a mapping"),
            ('catalog: "\xff', "cannot be read"),
        ],
    )
    def test_an_error_names_a_configuration_file_of_another_structure(self, tmp_path: Path, content: str, message: str) -> None:
        (tmp_path / "icefloe.yaml").write_text(content, encoding="latin-1")
        with pytest.raises(InvalidPropertyError, match=message) as refused:
            load_catalog("prod")
        assert str(tmp_path / "icefloe.yaml") in str(refused.value)
        assert refused.value.next_step

    def test_an_error_about_an_unconfigured_catalog_lists_the_configured_ones(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "icefloe.yaml").write_text("catalog:\n  prod:\n    uri: sqlite:///c.db\n")
        monkeypatch.setenv("ICEFLOE_CATALOG__STAGE__URI", "sqlite:///d.db")
        with pytest.raises(NoSuchCatalogError, match="configured: prod, stage"):
            load_catalog("test")
        with pytest.raises(NoSuchCatalogError, match="'default'"):
            load_catalog()

    @pytest.mark.parametrize(
        ("properties", "kind", "message"),
        [
            ({"uri": "nonsense"}, InvalidPropertyError, "names no database"),
            ({"uri": "nodialect://host/db"}, InvalidPropertyError, "nodialect"),
            ({"uri": "sqlite://", "jdbc.schema-version": "V7"}, InvalidPropertyError, "set it to V0 or V1"),
            ({"type": "file-system"}, InvalidPropertyError, "no warehouse"),
            ({"uri": "sqlite://", "type": "dynamodb"}, UnsupportedFeatureError, "'dynamodb'"),
            ({"type": "dynamodb"}, UnsupportedFeatureError, "'dynamodb'"),
            ({"warehouse": "s3://bucket/tables"}, NoSuchCatalogError, "its warehouse s3://bucket/tables is no local folder"),
        ],
    )
    def test_properties_that_describe_no_catalog_are_refused(
        self, properties: dict[str, str], kind: type[IcefloeError], message: str
    ) -> None:
        with pytest.raises(kind, match=message) as refused:
            load_catalog("prod", **properties)
        assert "'prod'" in str(refused.value) or "jdbc.schema-version" in str(refused.value)
        assert refused.value.next_step

    def test_an_in_memory_catalog_needs_no_properties(self, tmp_path: Path) -> None:
        memory = load_catalog("m", type="in-memory", warehouse=str(tmp_path))
        memory.create_namespace("db")
        assert memory.create_table("db.t", ARROW).scan().count() == 0


def test_an_error_names_a_warehouse_that_cannot_be_written_and_no_table_is_created(tmp_path: Path) -> None:
    in_the_way = tmp_path / "warehouse"
    in_the_way.write_text("a file where the folder should be")
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(in_the_way))
    catalog.create_namespace("db")
    with pytest.raises(StorageError, match=f"{in_the_way} is a file, not a folder") as refused:
        catalog.create_table("db.t", ARROW)
    assert refused.value.next_step
    assert catalog.list_tables("db") == []
    assert in_the_way.read_text() == "a file where the folder should be"


def test_metadata_contains_the_absolute_path_of_a_relative_warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse="lake")
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", pa.schema([("id", pa.int64())]))
    placed = catalog.create_table("db.placed", pa.schema([("id", pa.int64())]), location="else/where/")
    assert (table.metadata.location, placed.metadata.location) == (f"{tmp_path}/lake/db/t", f"{tmp_path}/else/where")
    table.append(pa.table({"id": [1]}))
    again = catalog.register_table("db.again", str(Path(table.metadata_location).relative_to(tmp_path)))
    assert again.metadata_location == table.metadata_location
    monkeypatch.chdir("/")
    assert catalog.load_table("db.t").scan().to_arrow().to_pylist() == [{"id": 1}]


def test_a_relative_location_becomes_absolute_where_it_is_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse="lake")
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", ARROW)
    table.set_location("elsewhere")
    view = catalog.create_view("db.v", "SELECT 1 AS id", ARROW)
    view.set_location("elsewhere/view")
    monkeypatch.chdir("/")
    assert catalog.load_table("db.t").location() == f"{tmp_path}/elsewhere"
    assert catalog.load_view("db.v").location() == f"{tmp_path}/elsewhere/view"


def test_relative_paths_in_properties_are_below_the_table_location(tmp_path: Path) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    paths = {"write.data.path": "rows/here", "write.metadata.path": f"{tmp_path}/elsewhere"}
    table = catalog.create_table("db.t", pa.schema([("id", pa.int64())]), properties=paths)
    table.append(pa.table({"id": [1]}))
    (task,) = table.scan().plan_files()
    assert task.file.file_path.startswith(f"{tmp_path}/db/t/rows/here/")
    assert table.metadata_location.startswith(f"{tmp_path}/elsewhere/")
    assert table.current_snapshot().manifest_list.startswith(f"{tmp_path}/elsewhere/")


def test_a_database_made_before_views_is_changed_only_by_jdbc_schema_version(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/old.db"
    connection = sqlite3.connect(tmp_path / "old.db")
    connection.execute(
        "create table iceberg_tables (catalog_name varchar(255), table_namespace varchar(255), table_name varchar(255), "
        "metadata_location varchar(1000), previous_metadata_location varchar(1000), primary key (catalog_name, table_namespace, table_name))"
    )
    connection.close()
    assert not load_catalog("old", uri=uri).store.has_types  # type: ignore[attr-defined]
    with pytest.raises(InvalidPropertyError, match=r"jdbc\.schema-version is 'V2'"):
        load_catalog("old", uri=uri, **{"jdbc.schema-version": "V2"})
    assert load_catalog("old", uri=uri, **{"jdbc.schema-version": "v1"}).store.has_types  # type: ignore[attr-defined]
    assert load_catalog("old", uri=uri).store.has_types  # type: ignore[attr-defined]


def test_loading_a_table_reads_the_database_once(tmp_path: Path) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))
    catalog.create_namespace("db")
    catalog.create_table("db.t", schema=pa.schema([("n", pa.int64())]))
    statements: list[str] = []
    event.listen(catalog.store.engine, "before_cursor_execute", lambda *arguments: statements.append(arguments[2]))
    assert catalog.load_table("db.t").metadata_location
    assert len(statements) == 1, statements


def test_the_check_of_a_name_reads_the_database_once_and_lists_nothing(tmp_path: Path) -> None:
    catalog = SqlCatalog(
        "lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"), **{"jdbc.schema-version": "V1"}
    )
    catalog.create_namespace("db")
    catalog.create_table("db.t", schema=pa.schema([("n", pa.int64())]))
    catalog.create_view("db.v", "SELECT 1 AS n", pa.schema([("n", pa.int64())]))
    statements: list[str] = []
    event.listen(catalog.store.engine, "before_cursor_execute", lambda *arguments: statements.append(arguments[2]))
    names = ("db.t", "db.v", "db.T", "db.none", "none.t")
    assert [catalog.table_exists(name) for name in names] == [True, False, False, False, False]
    assert [catalog.view_exists(name) for name in names] == [False, True, False, False, False]
    assert len(statements) == 2 * len(names), statements


def test_a_mapping_in_a_section_is_properties_with_its_name_before_theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "icefloe.yaml").write_text(
        "catalog:\n  prod:\n    uri: x\n    auth:\n      type: basic\n      basic: {username: me, password: 007}\n"
    )
    assert catalog_properties("prod", {}) == {"uri": "x", "auth.type": "basic", "auth.basic.username": "me", "auth.basic.password": "007"}
