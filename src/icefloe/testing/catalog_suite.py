"""`CatalogSuite`: the tests that every catalog must pass. The test class of a catalog inherits them.

    class TestMyCatalog(CatalogSuite):
        renames_tables = False  # a feature that this catalog does not support; see the flags of the class

        @pytest.fixture
        def catalog(self, tmp_path): ...  # an empty `Catalog` with a warehouse

        @pytest.fixture
        def reopen(self, ...): ...  # returns a function that opens another `Catalog` on the same content, as another process would

A catalog must refuse what it does not support with `UnsupportedFeatureError` or `InvalidInputError`. `view_suite.py` has the tests of views;
`fault_injection.py` makes commits fail. Spec: Metastore Tables; Optimistic Concurrency; Commit Conflict Resolution and Retry.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from icefloe.catalog.catalog import Catalog
from icefloe.commit.outcome import Conflicted
from icefloe.errors import (
    CommitConflictError,
    InvalidIdentifierError,
    InvalidInputError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchFileError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NotFoundError,
    TableAlreadyExistsError,
    UnsupportedFeatureError,
)
from icefloe.operations.metadata_cache import load_metadata
from icefloe.operations.table_handle import TableHandle
from icefloe.spec.metadata.requirement import AssertRefSnapshotId
from icefloe.spec.metadata.table_updates import SetProperties
from icefloe.spec.types import LongType
from icefloe.stores.catalog_store import CommitRequest
from icefloe.table.table import Table
from icefloe.testing.fault_injection import Fault, Faults, FaultyStore

SCHEMA = pa.schema([("n", pa.int64())])
# The number of threads that write to one table at the same time, and the number of commits of each thread.
WRITERS, ROUNDS = 3, 4
QUICK = {
    "commit.retry.min-wait-ms": "1",
    "commit.retry.max-wait-ms": "20",
    "commit.retry.num-retries": "100",
    "commit.status-check.min-wait-ms": "1",
}
# Names that catalogs easily mishandle: spaces, quotes, wildcards and keywords of SQL, other alphabets, names of metadata folders and files.
UNUSUAL_NAMES = (
    "with blank",
    "it's",
    'dou"ble',
    "per%cent",
    "under_score",
    "Größe",
    "表",
    "select",
    "UPPER",
    "a-b",
    "a$b",
    "x" * 100,
    "metadata",
    "v1",
)
INVALID_NAMES = ("", "a..b", "db.a/b", "db. a", "db.a\nb", ("db", ""), ("db", "a.b"), ("db", "x" * 300))
# Unusual names that only a server may accept, because it does not use them as levels of a path.
NAMES_OF_SERVERS = ("db.a/b", ("db", "a.b"))
Reopen = Callable[[], Catalog]


def rows(*numbers: int) -> pa.Table:
    """Return an Arrow table whose single column `n` has these numbers."""
    return pa.table({"n": pa.array(numbers, pa.int64())})


def numbers(table: Table) -> list[int]:
    """Return the values of column `n` of the table, sorted."""
    values: list[int] = sorted(table.scan().to_arrow()["n"].to_pylist())
    return values


def _is_refused(call: Callable[[Any], object], name: Any, refusals: type[Exception] | tuple[type[Exception], ...]) -> bool:
    """Return whether `call(name)` raises one of the errors `refusals`."""
    try:
        call(name)
    except refusals:
        return True
    return False


def _append(table: Table, number: int) -> None:
    table.append(rows(number))


class CatalogSuite:
    """Tests of a catalog. A subclass defines the fixture `catalog` and, if the content outlives the object, `reopen`.

    Attributes:
        renames_tables: Whether the catalog can rename tables.
        takes_locations: Whether the user can choose the folder of a table.
        keeps_namespace_properties: Whether namespaces have properties.
        commits_several_tables: Whether a transaction can commit several tables at once.
        creates_in_transactions: Whether a transaction of several tables can create some of them.
        isolates_transactions: Whether other readers see a commit of several tables either completely or not at all.
        keeps_files_of_dropped_tables: Whether the files of a table that is dropped without purge are kept.
        nests_namespaces: Whether a namespace can have several levels.
        built_in_namespaces: The namespaces that the catalog always has.
        refused_names: The names of `UNUSUAL_NAMES` that the catalog, or a server in front of it, refuses as invalid input.
        names_of_server: Whether a server stores the names, so that it alone decides about names with dots and slashes.
    """

    renames_tables: ClassVar[bool] = True
    takes_locations: ClassVar[bool] = True
    keeps_namespace_properties: ClassVar[bool] = True
    commits_several_tables: ClassVar[bool] = True
    creates_in_transactions: ClassVar[bool] = True
    isolates_transactions: ClassVar[bool] = True
    keeps_files_of_dropped_tables: ClassVar[bool] = True
    nests_namespaces: ClassVar[bool] = True
    built_in_namespaces: ClassVar[frozenset[str]] = frozenset()
    refused_names: ClassVar[frozenset[str]] = frozenset()
    names_of_server: ClassVar[bool] = False

    @pytest.fixture
    def reopen(self, catalog: Catalog) -> Reopen:
        """Return a function that opens another `Catalog` on the same content. By default the other catalog uses the same store."""
        return lambda: Catalog(catalog.name, catalog.store, catalog.properties)

    @pytest.fixture
    def table(self, catalog: Catalog) -> Table:
        """Create an empty table."""
        catalog.create_namespace("db")
        return catalog.create_table("db.t", SCHEMA, properties=QUICK)

    def namespaces(self, catalog: Catalog) -> list[tuple[str, ...]]:
        """Return the namespaces that a test has created, without built-in ones."""
        return [name for name in catalog.list_namespaces() if name[0] not in self.built_in_namespaces]

    def test_an_empty_catalog_has_no_namespaces_and_no_tables(self, catalog: Catalog) -> None:
        assert self.namespaces(catalog) == []
        assert not catalog.namespace_exists("db")
        assert not catalog.table_exists("db.t")
        for call in (catalog.list_tables, catalog.load_namespace_properties, catalog.drop_namespace, catalog.list_namespaces):
            with pytest.raises(NoSuchNamespaceError, match="db"):
                call("db")
        for call_with_table in (catalog.load_table, catalog.drop_table):
            with pytest.raises(NoSuchTableError, match=r"db\.t"):
                call_with_table("db.t")

    def test_namespaces_are_created_listed_and_dropped(self, catalog: Catalog, reopen: Reopen) -> None:
        catalog.create_namespace("b")
        catalog.create_namespace("a")
        with pytest.raises(NamespaceAlreadyExistsError, match="'a'"):
            catalog.create_namespace("a")
        catalog.create_namespace_if_not_exists("a")
        assert self.namespaces(reopen()) == [("a",), ("b",)]
        catalog.drop_namespace("a")
        assert self.namespaces(reopen()) == [("b",)]
        assert catalog.list_tables("b") == []

    def test_namespaces_nest(self, catalog: Catalog) -> None:
        catalog.create_namespace("a")
        if not self.nests_namespaces:
            with pytest.raises((UnsupportedFeatureError, InvalidInputError)):
                catalog.create_namespace("a.b")
            return
        catalog.create_namespace("a.b")
        catalog.create_namespace(("a", "b", "c"))
        assert self.namespaces(catalog) == [("a",)]
        assert catalog.list_namespaces("a") == [("a", "b")]
        assert catalog.list_namespaces("a.b") == [("a", "b", "c")]
        catalog.create_table("a.b.c.t", SCHEMA)
        assert catalog.list_tables("a.b.c") == [("a", "b", "c", "t")]
        assert catalog.list_tables("a.b") == []
        assert catalog.list_namespaces("a.b.c") == [], "a table is not a namespace"
        for name in ("a", "a.b", "a.b.c"):
            with pytest.raises(NamespaceNotEmptyError):
                catalog.drop_namespace(name)

    def test_properties_of_namespaces(self, catalog: Catalog, reopen: Reopen) -> None:
        if not self.keeps_namespace_properties:
            with pytest.raises((UnsupportedFeatureError, InvalidInputError)):
                catalog.create_namespace("db", {"owner": "me"})
            return
        catalog.create_namespace("db", {"owner": "me", "odd 'key'": 'odd "value"; --'})
        given = {"owner": "me", "odd 'key'": 'odd "value"; --'}
        loaded = reopen().load_namespace_properties("db")  # a server may add properties, such as a location
        assert {name: loaded.get(name) for name in given} == given
        change = catalog.update_namespace_properties("db", removals={"owner", "none"}, updates={"x": "1"})
        assert (change.removed, change.updated, change.missing) == (["owner"], ["x"], ["none"])
        loaded = reopen().load_namespace_properties("db")
        assert (loaded["x"], loaded["odd 'key'"], "owner" in loaded) == ("1", 'odd "value"; --', False)
        with pytest.raises(InvalidInputError, match="both"):
            catalog.update_namespace_properties("db", removals={"x"}, updates={"x": "2"})

    def test_tables_are_created_loaded_and_listed(self, catalog: Catalog, reopen: Reopen) -> None:
        catalog.create_namespace("db")
        created = catalog.create_table("db.t", SCHEMA, properties={"comment": "x"})
        loaded = reopen().load_table("db.t")
        assert (loaded.metadata_location, loaded.metadata) == (created.metadata_location, created.metadata)
        assert (loaded.properties["comment"], loaded.schema().names) == ("x", ["n"])
        catalog.create_table(("db", "s"), SCHEMA)
        assert reopen().list_tables("db") == [("db", "s"), ("db", "t")]
        assert catalog.table_exists("db.t")
        with pytest.raises(TableAlreadyExistsError, match=r"db\.t"):
            catalog.create_table("db.t", SCHEMA)
        assert catalog.create_table_if_not_exists("db.t", SCHEMA).metadata == created.metadata
        with pytest.raises(NoSuchNamespaceError, match="nowhere"):
            catalog.create_table("nowhere.t", SCHEMA)
        with pytest.raises(NoSuchTableError, match=r"db\.u") as missing:
            catalog.load_table("db.u")
        assert "db.t" in str(missing.value), "the message lists the existing tables"

    def test_creating_a_table_fails_if_another_writer_creates_it_first(
        self, catalog: Catalog, reopen: Reopen, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        catalog.create_namespace("db")
        other_table = reopen().create_table("db.t", SCHEMA)
        monkeypatch.setattr(Catalog, "table_exists", lambda *_: False)
        with pytest.raises(TableAlreadyExistsError):
            catalog.create_table("db.t", pa.schema([("other", pa.string())]))
        monkeypatch.undo()
        assert catalog.load_table("db.t").metadata == other_table.metadata

    def test_a_commit_is_visible_in_every_handle(self, catalog: Catalog, reopen: Reopen, table: Table) -> None:
        table.append(rows(1, 2))
        other = reopen().load_table("db.t")
        assert numbers(other) == [1, 2]
        other.delete("n = 1")
        with other.update_schema() as update:
            update.add_column("extra", LongType())
        assert numbers(table.refresh()) == [2]
        assert table.schema().names == ["n", "extra"]
        assert table.metadata_location == reopen().load_table("db.t").metadata_location

    def test_a_layout_that_a_table_has_had_becomes_the_current_one_again(self, catalog: Catalog, reopen: Reopen, table: Table) -> None:
        for old, new in (("n", "m"), ("m", "n"), ("n", "m")):
            with table.update_schema() as schema:
                schema.rename_column(old, new)
        for is_partitioned in (True, False, True):
            with table.update_spec() as spec:
                if is_partitioned:
                    spec.add_field("m", "bucket[4]", "of_m")
                else:
                    spec.remove_field("of_m")
            with table.update_sort_order() as order:
                if is_partitioned:
                    order.asc("m")
        loaded = reopen().load_table("db.t")
        assert (loaded.schema().names, loaded.metadata.last_column_id) == (["m"], 1)
        assert [field.name for field in loaded.spec().fields] == ["of_m"]
        assert len(loaded.sort_order().fields) == 1
        assert (len(loaded.schemas()), len(loaded.specs()), len(loaded.sort_orders())) == (2, 2, 2)

    def test_a_table_may_be_created_at_a_location(self, catalog: Catalog) -> None:
        catalog.create_namespace("db")
        chosen = f"{catalog.properties['warehouse']}/elsewhere/t"
        if not self.takes_locations:
            with pytest.raises((UnsupportedFeatureError, InvalidInputError), match="location"):
                catalog.create_table("db.t", SCHEMA, location=chosen)
            assert not catalog.table_exists("db.t")
            return
        table = catalog.create_table("db.t", SCHEMA, location=chosen)
        table.append(rows(1))
        assert (table.location(), numbers(catalog.load_table("db.t"))) == (chosen, [1])

    def test_a_dropped_table_does_not_exist_and_its_name_can_be_used_again(self, catalog: Catalog, reopen: Reopen, table: Table) -> None:
        gone = NoSuchTableError if self.keeps_files_of_dropped_tables else NotFoundError
        table.append(rows(1))
        catalog.drop_table("db.t")
        assert reopen().list_tables("db") == []
        with pytest.raises(gone):
            table.append(rows(2))
        again = catalog.create_table("db.t", SCHEMA)
        assert numbers(again) == []
        with pytest.raises(gone):
            table.append(rows(3))
        assert numbers(reopen().load_table("db.t")) == [], "rows written through the dropped table are not in the new one"
        catalog.drop_table("db.t")
        catalog.drop_namespace("db")
        assert self.namespaces(catalog) == []

    def test_a_table_is_registered_from_a_metadata_file(self, catalog: Catalog, table: Table) -> None:
        table.append(rows(1))
        with pytest.raises(NoSuchFileError):
            catalog.register_table("db.u", f"{table.location()}/metadata/00009-none.metadata.json")
        with pytest.raises(TableAlreadyExistsError):
            catalog.register_table("db.t", table.metadata_location)
        if self.takes_locations:
            again = catalog.register_table("db.u", table.metadata_location)
            assert numbers(again) == [1]
            again.append(rows(2))
            assert numbers(catalog.load_table("db.u")) == [1, 2]
            assert numbers(catalog.load_table("db.t")) == [1], "each name has its own metadata location"

    def test_a_table_is_renamed(self, catalog: Catalog, reopen: Reopen, table: Table) -> None:
        catalog.create_namespace("other")
        table.append(rows(1))
        if not self.renames_tables:
            with pytest.raises(UnsupportedFeatureError, match="rename"):
                catalog.rename_table("db.t", "other.u")
            assert numbers(catalog.load_table("db.t")) == [1]
            return
        catalog.create_table("db.s", SCHEMA)
        with pytest.raises(TableAlreadyExistsError):
            catalog.rename_table("db.t", "db.s")
        with pytest.raises(NoSuchNamespaceError):
            catalog.rename_table("db.t", "nowhere.t")
        with pytest.raises(NoSuchTableError):
            catalog.rename_table("db.none", "db.u")
        assert numbers(catalog.rename_table("db.t", "other.u")) == [1]
        assert (reopen().list_tables("db"), reopen().list_tables("other")) == ([("db", "s")], [("other", "u")])
        with pytest.raises(NoSuchTableError):
            table.append(rows(2))

    def test_unusual_names_are_accepted(self, catalog: Catalog, reopen: Reopen) -> None:
        for name in self.refused_names:
            assert _is_refused(catalog.list_tables, (name,), InvalidInputError), name
        accepted = {name: place for place, name in enumerate(UNUSUAL_NAMES) if name not in self.refused_names}
        for name, place in accepted.items():
            catalog.create_namespace((name,))
            catalog.create_table((name, name), SCHEMA).append(rows(place))
            catalog.create_table((name, "t"), SCHEMA)
        opened = reopen()
        assert set(self.namespaces(opened)) == {(name,) for name in accepted}
        assert len(self.namespaces(opened)) == len(accepted)
        for name, place in accepted.items():
            assert set(opened.list_tables((name,))) == {(name, name), (name, "t")}, name
            assert numbers(opened.load_table((name, name))) == [place], name

    def test_invalid_names_are_refused(self, catalog: Catalog) -> None:
        for name in INVALID_NAMES:
            if self.names_of_server and name in NAMES_OF_SERVERS:
                assert _is_refused(catalog.load_table, name, (InvalidInputError, NoSuchTableError)), name
                continue
            for call in (catalog.load_table, catalog.drop_table, lambda identifier: catalog.create_table(identifier, SCHEMA)):
                assert _is_refused(call, name, InvalidIdentifierError), name

    def test_a_stale_commit_changes_nothing(self, catalog: Catalog, reopen: Reopen, table: Table) -> None:
        first = table.metadata_location
        table.append(rows(1))
        second = table.metadata_location
        stale = CommitRequest(
            identifier=("db", "t"),
            expected=first,
            new=f"{second}.stale",
            requirements=(AssertRefSnapshotId("main", None),),
            updates=(SetProperties({"stale": "true"}),),
        )
        assert isinstance(reopen().store.commit([stale]), Conflicted)
        assert reopen().load_table("db.t").metadata_location == second
        assert numbers(reopen().load_table("db.t")) == [1]

    def test_two_handles_lose_no_commits(self, catalog: Catalog, reopen: Reopen, table: Table) -> None:
        other = reopen().load_table("db.t")
        for number in range(3):
            table.append(rows(number))
            other.append(rows(10 + number))
        assert numbers(catalog.load_table("db.t")) == [0, 1, 2, 10, 11, 12]

    def test_many_threads_lose_no_commits(self, catalog: Catalog, reopen: Reopen, table: Table) -> None:
        def append(writer: int) -> None:
            handle = reopen().load_table("db.t")
            for number in range(ROUNDS):
                handle.append(rows(writer * 100 + number))

        with ThreadPoolExecutor(WRITERS) as threads:
            list(threads.map(append, range(WRITERS)))
        loaded = catalog.load_table("db.t")
        assert numbers(loaded) == sorted(writer * 100 + number for writer in range(WRITERS) for number in range(ROUNDS))
        assert [snapshot.sequence_number for snapshot in loaded.snapshots()] == list(range(1, WRITERS * ROUNDS + 1))

    def test_only_one_of_many_threads_creates_a_table(self, catalog: Catalog, reopen: Reopen) -> None:
        catalog.create_namespace("db")

        def create(_: int) -> bool:
            try:
                reopen().create_table("db.t", SCHEMA)
            except TableAlreadyExistsError:
                return False
            return True

        with ThreadPoolExecutor(WRITERS) as threads:
            assert sum(threads.map(create, range(WRITERS))) == 1
        assert numbers(catalog.load_table("db.t")) == []

    def test_a_conflict_that_no_retry_resolves_keeps_the_first_commit(self, catalog: Catalog, reopen: Reopen, table: Table) -> None:
        with reopen().load_table("db.t").update_schema() as other_update:
            other_update.add_column("a", LongType())
        with pytest.raises(CommitConflictError), table.update_schema() as own_update:
            own_update.add_column("b", LongType())
        assert catalog.load_table("db.t").schema().names == ["n", "a"]

    @pytest.mark.parametrize("fault", [Fault.LOST_REPLY, Fault.UNKNOWN, Fault.LATE, Fault.OVERTAKEN])
    def test_a_lost_reply_commits_once(self, catalog: Catalog, table: Table, fault: Fault) -> None:
        faults = Faults()
        store = FaultyStore(catalog.store, faults)
        handle = TableHandle(identifier=("db", "t"), store=store, io=table.io)
        own_table = Table(handle, load_metadata(handle))
        faults.order("commit", fault, meanwhile=lambda: None if fault is not Fault.OVERTAKEN else _append(table, 7))
        own_table.append(rows(1))
        assert numbers(catalog.load_table("db.t")) == ([1, 7] if fault is Fault.OVERTAKEN else [1])

    def test_a_transaction_commits_several_tables_at_once(self, catalog: Catalog, reopen: Reopen, table: Table) -> None:
        catalog.create_table("db.u", SCHEMA, properties=QUICK)
        if not self.commits_several_tables:
            with pytest.raises(UnsupportedFeatureError, match="several tables"), catalog.transaction() as tx:
                tx.load_table("db.t").append(rows(1))
                tx.load_table("db.u").append(rows(1))
            assert [numbers(loaded) for loaded in reopen().load_tables("db.t", "db.u")] == [[], []]
            return
        before = [loaded.metadata_location for loaded in reopen().load_tables("db.t", "db.u")]
        with pytest.raises(ZeroDivisionError), catalog.transaction() as tx:
            tx.load_table("db.t").append(rows(1))
            tx.load_table("db.u").append(rows(1 // 0))
        assert [loaded.metadata_location for loaded in reopen().load_tables("db.t", "db.u")] == before
        with catalog.transaction() as tx:
            first, second = tx.load_tables("db.t", "db.u")
            first.append(rows(1, 2))
            second.append(rows(-1))
            first.delete("n = 2")
            if self.creates_in_transactions:
                tx.create_table("db.w", SCHEMA).append(rows(9))
            assert not reopen().table_exists("db.w")
        assert [numbers(loaded) for loaded in reopen().load_tables("db.t", "db.u")] == [[1], [-1]]
        if self.creates_in_transactions:
            assert numbers(reopen().load_table("db.w")) == [9]
        else:
            with pytest.raises(UnsupportedFeatureError, match=r"db\.w"), catalog.transaction() as tx:
                tx.load_table("db.t").append(rows(8))
                tx.create_table("db.w", SCHEMA).append(rows(9))
            assert (numbers(reopen().load_table("db.t")), reopen().table_exists("db.w")) == ([1], False)
        table.refresh()
        with catalog.transaction() as tx:
            tx.load_table("db.t").append(rows(3))
            tx.load_table("db.u").append(rows(-3))
            table.append(rows(4))  # another writer commits to one of the tables first
        assert [numbers(loaded) for loaded in reopen().load_tables("db.t", "db.u")] == [[1, 3, 4], [-3, -1]]

    def test_a_transaction_commits_all_of_its_tables_or_none(self, catalog: Catalog, reopen: Reopen, table: Table) -> None:
        if not self.commits_several_tables:
            pytest.skip("this catalog commits one table at a time")
        other = catalog.create_table("db.u", SCHEMA, properties=QUICK)
        with pytest.raises(CommitConflictError), catalog.transaction() as tx:
            tx.load_table("db.t").append(rows(1))
            with tx.load_table("db.u").update_schema() as own_update:
                own_update.add_column("b", LongType())
            with other.update_schema() as other_update:
                other_update.add_column("a", LongType())
        assert numbers(reopen().load_table("db.t")) == []
        if not self.creates_in_transactions:
            return
        with pytest.raises(TableAlreadyExistsError), catalog.transaction() as tx:
            tx.load_table("db.t").append(rows(1))
            tx.create_table("db.w", SCHEMA)
            reopen().create_table("db.w", SCHEMA)
        assert numbers(reopen().load_table("db.t")) == []

    def test_tables_that_are_loaded_together_are_of_one_transaction(self, catalog: Catalog, reopen: Reopen, table: Table) -> None:
        if not self.commits_several_tables or not self.isolates_transactions:
            pytest.skip("this catalog commits one table after another")
        catalog.create_table("db.u", SCHEMA, properties=QUICK)

        def total(of: Catalog) -> int:
            return sum(number for table in of.load_tables("db.t", "db.u") for number in numbers(table))

        def move(writer: int) -> list[int]:
            opened, totals = reopen(), []
            for number in range(ROUNDS):
                with opened.transaction() as tx:
                    source, target = tx.load_tables(*(("db.t", "db.u") if writer % 2 else ("db.u", "db.t")))
                    source.append(rows(-1 - number - writer))
                    target.append(rows(1 + number + writer))
                totals.append(total(opened))
            return totals

        with ThreadPoolExecutor(WRITERS) as threads:
            totals = [total for totals_of_thread in threads.map(move, range(WRITERS)) for total in totals_of_thread]
        assert set(totals) == {0}
        assert [len(numbers(table)) for table in reopen().load_tables("db.t", "db.u")] == [WRITERS * ROUNDS] * 2
