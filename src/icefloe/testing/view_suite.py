"""`ViewSuite`: the tests that every catalog with views must pass. The test class of a catalog inherits them.

    class TestMyCatalog(ViewSuite):
        @pytest.fixture
        def catalog(self, tmp_path): ...  # an empty `Catalog` with a warehouse

The fixture `reopen` returns a function that opens a second catalog on the same content, as another process would, if the content outlives the object.
`fault_injection.py` makes commits fail. Spec: View spec, View Metadata; View spec, Versions; View spec, Version log.
"""

from collections.abc import Callable
from threading import Barrier, Thread
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from icefloe.catalog.catalog import Catalog
from icefloe.errors import (
    IcefloeError,
    InvalidInputError,
    InvalidPropertyError,
    InvalidSchemaError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    TableAlreadyExistsError,
    ViewAlreadyExistsError,
)
from icefloe.spec.view.view_metadata import view_problems
from icefloe.view.view import View

COLUMNS = pa.schema([("type", pa.string()), ("count", pa.int64())])
WIDER = pa.schema([("type", pa.string()), ("count", pa.int64()), ("last", pa.date32())])
SQL = "SELECT type, count(*) AS count FROM events GROUP BY type"
NAME = "db.event_counts"
# The number of threads that replace one view at the same time, and the number of commits of each thread.
WRITERS, ROUNDS = 3, 4
QUICK = {
    "commit.retry.min-wait-ms": "1",
    "commit.retry.max-wait-ms": "20",
    "commit.retry.num-retries": "100",
    "version.history.num-entries": "1000",
}


class ViewSuite:
    """Tests of views in a catalog. A subclass defines the fixture `catalog` and, if the content outlives the object, `reopen`.

    Attributes:
        keeps_summaries: Whether the catalog keeps the summary of a view's first version.
        keeps_files_of_dropped_views: Whether the files of a dropped view are kept.
    """

    keeps_summaries: ClassVar[bool] = True
    keeps_files_of_dropped_views: ClassVar[bool] = True

    @pytest.fixture
    def reopen(self, catalog: Catalog) -> Callable[[], Catalog]:
        """Return a function that opens a second `Catalog` on the same content. By default it returns the same catalog."""
        return lambda: catalog

    @pytest.fixture
    def view(self, catalog: Catalog) -> View:
        """Create a view with one version."""
        catalog.create_namespace_if_not_exists("db")
        return catalog.create_view(NAME, SQL, COLUMNS, properties=QUICK)

    def test_a_view_is_created_and_loaded(self, catalog: Catalog, reopen: Callable[[], Catalog]) -> None:
        catalog.create_namespace("db")
        created = catalog.create_view(NAME, SQL, COLUMNS, properties={"comment": "daily", "version.history.num-entries": 5})
        loaded = reopen().load_view(NAME)
        assert loaded == created
        assert loaded.name() == ("db", "event_counts")
        assert loaded.properties == {"comment": "daily", "version.history.num-entries": "5"}
        assert (loaded.schema().names, [field.field_id for field in loaded.schema().fields]) == (["type", "count"], [1, 2])
        version = loaded.current_version()
        assert (version.version_id, version.default_namespace, version.default_catalog) == (1, ("db",), None)
        if self.keeps_summaries:
            assert version.summary["engine-name"] == "icefloe"
            assert version.summary["engine-version"]
        assert loaded.sql_for("spark").sql == SQL  # type: ignore[union-attr]
        assert [entry.version_id for entry in loaded.history()] == [1]
        assert loaded.location().endswith("db/event_counts")
        assert loaded.metadata_location.startswith(f"{loaded.location()}/metadata/00000-")
        assert loaded.metadata_location.endswith(".gz.metadata.json")

    def test_a_dialect_without_a_representation_gets_the_first_one(self, catalog: Catalog) -> None:
        catalog.create_namespace("db")
        created = catalog.create_view(
            NAME, {"spark": "SELECT 1", "trino": "SELECT 2"}, COLUMNS, default_namespace="db", default_catalog="other"
        )
        assert [created.sql_for(dialect).sql for dialect in ("spark", "TRINO", "duckdb")] == ["SELECT 1", "SELECT 2", "SELECT 1"]  # type: ignore[union-attr]
        assert created.sql_for("duckdb").dialect == "spark"  # type: ignore[union-attr]
        assert created.current_version().default_catalog == "other"
        replaced = catalog.replace_view(NAME, {"spark": "SELECT 3", "trino": "SELECT 2"}, COLUMNS, default_namespace=())
        assert (replaced.current_version().default_namespace, replaced.current_version().default_catalog) == ((), None)
        other = catalog.create_view(("db", "of_the_catalog"), "SELECT 4", COLUMNS, default_namespace=())
        assert other.current_version().default_namespace == ()
        with pytest.raises(InvalidInputError, match="dialect is empty"):
            created.sql_for(" ")

    def test_a_view_is_replaced_and_rolled_back(self, catalog: Catalog, view: View, reopen: Callable[[], Catalog]) -> None:
        replaced = catalog.replace_view(NAME, "SELECT 2", WIDER, properties={"comment": "c"})
        assert (replaced.current_version().version_id, replaced.schema().names) == (2, ["type", "count", "last"])
        assert replaced.properties == {**QUICK, "comment": "c"}
        assert replaced.uuid() == view.uuid()
        assert "/00001-" in replaced.metadata_location
        replaced.rollback_to_version(1)
        loaded = reopen().load_view(NAME)
        assert (loaded.sql_for("spark").sql, loaded.schema().names) == (SQL, ["type", "count"])  # type: ignore[union-attr]
        assert [entry.version_id for entry in loaded.history()] == [1, 2, 1]
        assert [version.version_id for version in loaded.versions] == [1, 2]
        # A definition that equals a version of the view makes that version the current one.
        again = catalog.create_or_replace_view(NAME, "SELECT 2", WIDER)
        assert (again.current_version().version_id, len(again.versions)) == (2, 2)
        with pytest.raises(InvalidInputError, match="no version 9"):
            loaded.rollback_to_version(9)

    def test_a_new_version_keeps_what_is_not_replaced(self, view: View) -> None:
        with view.replace_version() as update:
            update.with_query("trino", "SELECT 3").with_default_catalog("prod")
        with view.replace_version() as update:
            update.with_query("SPARK", "SELECT 4").with_schema(WIDER).with_default_namespace("a.b")
        version = view.current_version()
        assert version.dialects == ("spark", "trino")
        assert (view.sql_for("spark").sql, view.sql_for("trino").sql) == ("SELECT 4", "SELECT 3")  # type: ignore[union-attr]
        assert (version.default_catalog, version.default_namespace, view.schema().names) == ("prod", ("a", "b"), ["type", "count", "last"])
        location = view.metadata_location
        with view.replace_version() as update:
            update.with_query("SPARK", "SELECT 4")
        assert view.metadata_location == location, "an unchanged view is not committed"

    def test_a_dialect_is_dropped_only_if_the_view_allows_it(self, catalog: Catalog, view: View) -> None:
        with pytest.raises(InvalidInputError, match="no SQL in dialect spark") as refused:
            catalog.replace_view(NAME, "SELECT 2", COLUMNS, dialect="trino")
        assert "replace.drop-dialect.allowed" in str(refused.value)
        with pytest.raises(InvalidInputError, match="no SQL in dialect presto") as unknown, view.replace_version() as update:
            update.without_dialect("presto")
        assert "it has spark" in str(unknown.value)
        with view.replace_version() as update:
            update.with_query("trino", "SELECT 2")
        with view.update_properties() as properties:
            properties.set("replace.drop-dialect.allowed", True)
        with view.replace_version() as update:
            update.without_dialect("Spark")
        assert view.current_version().dialects == ("trino",)
        with pytest.raises(InvalidInputError, match="needs a representation"), view.replace_version() as update:
            update.without_dialect("trino")
        assert catalog.load_view(NAME) == view

    def test_properties_and_location_are_changed(self, catalog: Catalog, view: View) -> None:
        with view.update_properties() as update:
            update.set("comment", "c").set("number", 3).remove("never there")
        with view.update_properties() as update:
            update.remove("number").set("write.metadata.compression-codec", "none")
        assert view.properties == {**QUICK, "comment": "c", "write.metadata.compression-codec": "none"}
        assert view.metadata_location.endswith(".metadata.json")
        assert ".gz." not in view.metadata_location
        elsewhere = f"{view.location()}_moved"
        view.set_location(f"{elsewhere}/")
        assert view.metadata_location.startswith(f"{elsewhere}/metadata/00003-")
        assert len(view.history()) == 1
        assert catalog.load_view(NAME) == view
        for wrong in ({"version.history.num-entries": "0"}, {"comment": object()}):
            with pytest.raises(InvalidPropertyError), view.update_properties() as update:
                update.set(*next(iter(wrong.items())))
        with pytest.raises(InvalidInputError, match="both set and removed"), view.update_properties() as update:
            update.set("a", "1").remove("a")
        with pytest.raises(InvalidInputError, match="not a location"):
            view.set_location("/")

    def test_a_block_that_fails_changes_nothing(self, catalog: Catalog, view: View) -> None:
        with pytest.raises(ZeroDivisionError), view.replace_version() as update:
            update.with_query("trino", "SELECT 1")
            raise ZeroDivisionError
        assert catalog.load_view(NAME).current_version().dialects == ("spark",)

    def test_old_versions_are_dropped(self, catalog: Catalog, view: View) -> None:
        with view.update_properties() as update:
            update.set("version.history.num-entries", "3")
        for number in range(2, 7):
            catalog.replace_view(NAME, f"SELECT {number}", COLUMNS)
        loaded = catalog.load_view(NAME)
        assert sorted(version.version_id for version in loaded.versions) == [4, 5, 6]
        assert [entry.version_id for entry in loaded.history()] == [4, 5, 6]
        assert loaded.version(1) is None

    def test_views_are_listed_renamed_and_dropped(self, catalog: Catalog, view: View) -> None:
        catalog.create_namespace("other")
        catalog.create_view("db.a", SQL, COLUMNS)
        catalog.create_table("db.t", COLUMNS)
        assert catalog.list_views("db") == [("db", "a"), ("db", "event_counts")]
        assert catalog.list_tables("db") == [("db", "t")]
        renamed = catalog.rename_view(NAME, "other.counts")
        assert (renamed.uuid(), renamed.name()) == (view.uuid(), ("other", "counts"))
        assert (catalog.view_exists(NAME), catalog.view_exists("other.counts"), catalog.view_exists("db.t")) == (False, True, False)
        with pytest.raises(NamespaceNotEmptyError, match="counts"):
            catalog.drop_namespace("other")
        with pytest.raises(NoSuchViewError):
            view.set_location("memory://elsewhere")
        catalog.drop_view("other.counts")
        assert catalog.list_views("other") == []
        catalog.drop_namespace("other")

    def test_a_dropped_view_can_be_registered_again(self, catalog: Catalog, view: View) -> None:
        if not self.keeps_files_of_dropped_views:
            pytest.skip("this catalog deletes the files of dropped views")
        catalog.drop_view(NAME)
        registered = catalog.register_view("db.again", view.metadata_location)
        assert (registered.uuid(), registered.metadata) == (view.uuid(), view.metadata)
        with pytest.raises(ViewAlreadyExistsError):
            catalog.register_view("db.again", view.metadata_location)
        catalog.create_table("db.t", COLUMNS)
        with pytest.raises(TableAlreadyExistsError):
            catalog.register_view("db.t", view.metadata_location)

    def test_a_name_is_a_table_or_a_view(self, catalog: Catalog, view: View) -> None:
        catalog.create_table("db.t", COLUMNS)
        for call, error, words in (
            (lambda: catalog.create_view("db.t", SQL, COLUMNS), TableAlreadyExistsError, "table 'db.t' already exists"),
            (lambda: catalog.create_view(NAME, SQL, COLUMNS), ViewAlreadyExistsError, "view 'db.event_counts' already exists"),
            (lambda: catalog.create_table(NAME, COLUMNS), ViewAlreadyExistsError, "view 'db.event_counts' already exists"),
            (lambda: catalog.create_table_if_not_exists(NAME, COLUMNS), ViewAlreadyExistsError, "already exists"),
            (lambda: catalog.create_or_replace_view("db.t", SQL, COLUMNS), TableAlreadyExistsError, "table 'db.t' already exists"),
            (lambda: catalog.replace_view("db.t", SQL, COLUMNS), NoSuchViewError, "that name is a table"),
            (lambda: catalog.load_view("db.t"), NoSuchViewError, "that name is a table"),
            (lambda: catalog.load_table(NAME), NoSuchTableError, "that name is a view"),
            (lambda: catalog.drop_view("db.t"), NoSuchViewError, "that name is a table"),
            (lambda: catalog.drop_table(NAME), NoSuchTableError, "that name is a view"),
            (lambda: catalog.rename_view(NAME, "db.t"), TableAlreadyExistsError, "db.t"),
            (lambda: catalog.rename_table("db.t", NAME), ViewAlreadyExistsError, "db.event_counts"),
            (lambda: catalog.load_view("db.nothing"), NoSuchViewError, "does not exist"),
            (lambda: catalog.rename_view("db.nothing", "db.x"), NoSuchViewError, "does not exist"),
            (lambda: catalog.rename_view(NAME, "nowhere.x"), NoSuchNamespaceError, "nowhere"),
            (lambda: catalog.create_view("nowhere.x", SQL, COLUMNS), NoSuchNamespaceError, "nowhere"),
            (lambda: catalog.list_views("nowhere"), NoSuchNamespaceError, "nowhere"),
        ):
            with pytest.raises(error) as refused:
                call()
            assert words in str(refused.value)
        assert (catalog.list_tables("db"), catalog.list_views("db")) == ([("db", "t")], [("db", "event_counts")])
        assert catalog.load_view(NAME) == view

    def test_an_invalid_definition_is_refused(self, catalog: Catalog, view: View) -> None:
        definitions: list[tuple[Any, Any, str]] = [
            ("", COLUMNS, "its SQL is empty"),
            ({}, COLUMNS, "there is no query"),
            ({"spark": SQL, "Spark": SQL}, COLUMNS, "is repeated"),
            ({" ": SQL}, COLUMNS, "not the name of a dialect"),
            ("create view v as select 1", COLUMNS, "CREATE statement"),
            (5, COLUMNS, "is not understood"),
            (SQL, None, "was given no schema"),
            (SQL, "type string", "is not supported"),
        ]
        for sql, schema, words in definitions:
            for call in (catalog.replace_view, catalog.create_or_replace_view):
                with pytest.raises(InvalidInputError, match=words):
                    call(NAME, sql, schema)
            with pytest.raises((InvalidInputError, InvalidSchemaError), match=words):
                catalog.create_view("db.new", sql, schema)
        assert catalog.list_views("db") == [("db", "event_counts")]
        assert catalog.load_view(NAME) == view

    def test_every_acknowledged_version_is_in_the_view(self, view: View, reopen: Callable[[], Catalog]) -> None:
        acknowledged: list[str] = []
        failed: list[BaseException] = []
        ready = Barrier(WRITERS)

        def replace(writer: int) -> None:
            handle = reopen().load_view(NAME)
            ready.wait()
            for number in range(ROUNDS):
                sql = f"SELECT {writer}, {number}"
                try:
                    with handle.replace_version() as update:
                        update.with_query("spark", sql)
                except IcefloeError as error:
                    failed.append(error)
                else:
                    acknowledged.append(sql)

        threads = [Thread(target=replace, args=(writer,)) for writer in range(WRITERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
        refreshed = view.refresh()
        texts = [version.sql_for("spark") for version in refreshed.versions]
        assert sorted(texts) == sorted([SQL, *acknowledged])  # type: ignore[type-var]
        assert len(acknowledged) == WRITERS * ROUNDS
        assert [entry.version_id for entry in refreshed.history()] == list(range(1, 2 + WRITERS * ROUNDS))
        assert list(view_problems(refreshed.metadata)) == []

    def test_a_schema_object_keeps_its_field_ids(self, catalog: Catalog) -> None:
        catalog.create_namespace("db")
        table = catalog.create_table("db.t", COLUMNS)
        created = catalog.create_view("db.over_t", "SELECT * FROM t", table.schema())
        assert created.schema().fields == table.schema().fields
        assert catalog.load_view("db.over_t") == created
