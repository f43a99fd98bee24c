"""`CatalogSuite`: what every catalog must do, as tests to inherit.

    class TestMyCatalog(CatalogSuite):
        renames_tables = False  # what it cannot do, of the flags below

        @pytest.fixture
        def catalog(self, tmp_path): ...  # an empty `Catalog` with a warehouse

        @pytest.fixture
        def reopen(self, ...): ...  # gives another `Catalog` on the same content, as another process would open it

What a flag takes back must be refused with `UnsupportedFeatureError` or `InvalidInputError`. Views are `view_suite.py`; commits that are disturbed are
`fault_injection.py`. Spec: Metastore Tables; Optimistic Concurrency; Commit Conflict Resolution and Retry.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from icefloe.catalog.catalog import Catalog
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
from icefloe.kernel.commit.outcome import Conflicted
from icefloe.kernel.types import LongType
from icefloe.table.table import Table
from icefloe.table.table_handle import TableHandle, load_metadata
from icefloe.testing.fault_injection import Fault, Faults, FaultyStore

SCHEMA = pa.schema([("n", pa.int64())])
# Threads that write to one table at once, and how often each.
WRITERS, ROUNDS = 4, 5
QUICK = {
    "commit.retry.min-wait-ms": "1",
    "commit.retry.max-wait-ms": "20",
    "commit.retry.num-retries": "100",
    "commit.status-check.min-wait-ms": "1",
}
# Names that catalogs trip over: blanks, quotes, wildcards and letters of SQL, other alphabets, what only looks like a path or a file of metadata.
ODD_NAMES = (
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
NOT_NAMES = ("", "a..b", "db.a/b", "db. a", "db.a\nb", ("db", ""), ("db", "a.b"), ("db", "x" * 300))
Reopen = Callable[[], Catalog]


def rows(*numbers: int) -> pa.Table:
    """One column `n`."""
    return pa.table({"n": pa.array(numbers, pa.int64())})


def numbers(table: Table) -> list[int]:
    """What the table holds, sorted."""
    found: list[int] = sorted(table.scan().to_arrow()["n"].to_pylist())
    return found


def _append(table: Table, number: int) -> None:
    table.append(rows(number))


class CatalogSuite:
    """Inherit, and give the fixtures `catalog` and, where the content outlives the object, `reopen`."""

    renames_tables: ClassVar[bool] = True
    takes_locations: ClassVar[bool] = True  # a table may lie in a folder that its user chooses
    keeps_namespace_properties: ClassVar[bool] = True
    commits_several_tables: ClassVar[bool] = True
    keeps_files_of_dropped_tables: ClassVar[bool] = True

    @pytest.fixture
    def reopen(self, catalog: Catalog) -> Reopen:
        """Another `Catalog` on the same content."""
        return lambda: Catalog(catalog.name, catalog.store, catalog.properties)

    @pytest.fixture
    def table(self, catalog: Catalog) -> Table:
        """An empty table."""
        catalog.create_namespace("db")
        return catalog.create_table("db.t", SCHEMA, properties=QUICK)

    def test_an_empty_catalog_holds_nothing(self, catalog: Catalog) -> None:
        assert catalog.list_namespaces() == []
        assert not catalog.namespace_exists("db")
        assert not catalog.table_exists("db.t")
        for ask in (catalog.list_tables, catalog.load_namespace_properties, catalog.drop_namespace, catalog.list_namespaces):
            with pytest.raises(NoSuchNamespaceError, match="db"):
                ask("db")
        for ask_table in (catalog.load_table, catalog.drop_table):
            with pytest.raises(NoSuchTableError, match=r"db\.t"):
                ask_table("db.t")

    def test_namespaces_are_made_listed_and_dropped(self, catalog: Catalog, reopen: Reopen) -> None:
        catalog.create_namespace("b")
        catalog.create_namespace("a")
        with pytest.raises(NamespaceAlreadyExistsError, match="'a'"):
            catalog.create_namespace("a")
        catalog.create_namespace_if_not_exists("a")
        assert reopen().list_namespaces() == [("a",), ("b",)]
        catalog.drop_namespace("a")
        assert reopen().list_namespaces() == [("b",)]
        assert catalog.list_tables("b") == []

    def test_namespaces_nest(self, catalog: Catalog) -> None:
        catalog.create_namespace("a")
        catalog.create_namespace("a.b")
        catalog.create_namespace(("a", "b", "c"))
        assert catalog.list_namespaces() == [("a",)]
        assert catalog.list_namespaces("a") == [("a", "b")]
        assert catalog.list_namespaces("a.b") == [("a", "b", "c")]
        catalog.create_table("a.b.c.t", SCHEMA)
        assert catalog.list_tables("a.b.c") == [("a", "b", "c", "t")]
        assert catalog.list_tables("a.b") == []
        assert catalog.list_namespaces("a.b.c") == [], "a table is no namespace"
        for name in ("a", "a.b", "a.b.c"):
            with pytest.raises(NamespaceNotEmptyError):
                catalog.drop_namespace(name)

    def test_properties_of_namespaces(self, catalog: Catalog, reopen: Reopen) -> None:
        if not self.keeps_namespace_properties:
            with pytest.raises((UnsupportedFeatureError, InvalidInputError)):
                catalog.create_namespace("db", {"owner": "me"})
            return
        catalog.create_namespace("db", {"owner": "me", "odd 'key'": 'odd "value"; --'})
        assert reopen().load_namespace_properties("db") == {"owner": "me", "odd 'key'": 'odd "value"; --'}
        change = catalog.update_namespace_properties("db", removals={"owner", "none"}, updates={"x": "1"})
        assert (change.removed, change.updated, change.missing) == (("owner",), ("x",), ("none",))
        assert reopen().load_namespace_properties("db") == {"x": "1", "odd 'key'": 'odd "value"; --'}
        with pytest.raises(InvalidInputError, match="both"):
            catalog.update_namespace_properties("db", removals={"x"}, updates={"x": "2"})

    def test_tables_are_made_loaded_and_listed(self, catalog: Catalog, reopen: Reopen) -> None:
        catalog.create_namespace("db")
        made = catalog.create_table("db.t", SCHEMA, properties={"comment": "x"})
        found = reopen().load_table("db.t")
        assert (found.metadata_location, found.metadata) == (made.metadata_location, made.metadata)
        assert (found.properties["comment"], found.schema().names) == ("x", ["n"])
        catalog.create_table(("db", "s"), SCHEMA)
        assert reopen().list_tables("db") == [("db", "s"), ("db", "t")]
        assert catalog.table_exists("db.t")
        with pytest.raises(TableAlreadyExistsError, match=r"db\.t"):
            catalog.create_table("db.t", SCHEMA)
        assert catalog.create_table_if_not_exists("db.t", SCHEMA).metadata == made.metadata
        with pytest.raises(NoSuchNamespaceError, match="nowhere"):
            catalog.create_table("nowhere.t", SCHEMA)
        with pytest.raises(NoSuchTableError, match=r"db\.u") as missing:
            catalog.load_table("db.u")
        assert "db.t" in str(missing.value), "it says what is there"

    def test_a_table_that_others_make_meanwhile_is_theirs(self, catalog: Catalog, reopen: Reopen, monkeypatch: pytest.MonkeyPatch) -> None:
        catalog.create_namespace("db")
        theirs = reopen().create_table("db.t", SCHEMA)
        monkeypatch.setattr(Catalog, "table_exists", lambda *_: False)
        with pytest.raises(TableAlreadyExistsError):
            catalog.create_table("db.t", pa.schema([("other", pa.string())]))
        monkeypatch.undo()
        assert catalog.load_table("db.t").metadata == theirs.metadata

    def test_a_commit_is_there_for_everyone(self, catalog: Catalog, reopen: Reopen, table: Table) -> None:
        table.append(rows(1, 2))
        other = reopen().load_table("db.t")
        assert numbers(other) == [1, 2]
        other.delete("n = 1")
        with other.update_schema() as update:
            update.add_column("extra", LongType())
        assert numbers(table.refresh()) == [2]
        assert table.schema().names == ["n", "extra"]
        assert table.metadata_location == reopen().load_table("db.t").metadata_location

    def test_a_location_may_be_chosen(self, catalog: Catalog) -> None:
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

    def test_a_dropped_table_is_gone_and_its_name_is_free(self, catalog: Catalog, reopen: Reopen, table: Table) -> None:
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
        assert numbers(reopen().load_table("db.t")) == [], "what was written through the old table is not in the new one"
        catalog.drop_table("db.t")
        catalog.drop_namespace("db")
        assert catalog.list_namespaces() == []

    def test_a_table_is_registered_by_a_metadata_file(self, catalog: Catalog, table: Table) -> None:
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
            assert numbers(catalog.load_table("db.t")) == [1], "each name has its own pointer"

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

    @pytest.mark.parametrize("name", ODD_NAMES)
    def test_odd_names_are_names(self, catalog: Catalog, reopen: Reopen, name: str) -> None:
        catalog.create_namespace((name,))
        catalog.create_table((name, name), SCHEMA).append(rows(1))
        catalog.create_table((name, "t"), SCHEMA)
        assert reopen().list_namespaces() == [(name,)]
        assert set(reopen().list_tables((name,))) == {(name, name), (name, "t")}
        assert numbers(reopen().load_table((name, name))) == [1]

    @pytest.mark.parametrize("name", NOT_NAMES, ids=repr)
    def test_what_is_no_name_is_refused(self, catalog: Catalog, name: Any) -> None:
        for ask in (catalog.load_table, catalog.drop_table, lambda given: catalog.create_table(given, SCHEMA)):
            with pytest.raises(InvalidIdentifierError):
                ask(name)

    def test_a_stale_swap_changes_nothing(self, catalog: Catalog, reopen: Reopen, table: Table) -> None:
        first = table.metadata_location
        table.append(rows(1))
        second = table.metadata_location
        stale = TableHandle(identifier=("db", "t"), store=reopen().store, io=table.io)
        assert isinstance(stale.store.swap(("db", "t"), expected=first, new=f"{second}.stale"), Conflicted)
        assert reopen().load_table("db.t").metadata_location == second
        assert numbers(reopen().load_table("db.t")) == [1]

    def test_two_handles_lose_nothing(self, catalog: Catalog, reopen: Reopen, table: Table) -> None:
        other = reopen().load_table("db.t")
        for number in range(3):
            table.append(rows(number))
            other.append(rows(10 + number))
        assert numbers(catalog.load_table("db.t")) == [0, 1, 2, 10, 11, 12]

    def test_many_threads_lose_nothing(self, catalog: Catalog, reopen: Reopen, table: Table) -> None:
        def append(writer: int) -> None:
            own = reopen().load_table("db.t")
            for number in range(ROUNDS):
                own.append(rows(writer * 100 + number))

        with ThreadPoolExecutor(WRITERS) as threads:
            list(threads.map(append, range(WRITERS)))
        found = catalog.load_table("db.t")
        assert numbers(found) == sorted(writer * 100 + number for writer in range(WRITERS) for number in range(ROUNDS))
        assert [snapshot.sequence_number for snapshot in found.snapshots()] == list(range(1, WRITERS * ROUNDS + 1))

    def test_of_threads_that_make_one_table_one_wins(self, catalog: Catalog, reopen: Reopen) -> None:
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

    def test_a_conflict_that_cannot_be_mended_leaves_the_winner(self, catalog: Catalog, reopen: Reopen, table: Table) -> None:
        with reopen().load_table("db.t").update_schema() as theirs:
            theirs.add_column("a", LongType())
        with pytest.raises(CommitConflictError), table.update_schema() as ours:
            ours.add_column("b", LongType())
        assert catalog.load_table("db.t").schema().names == ["n", "a"]

    @pytest.mark.parametrize("fault", [Fault.LOST_REPLY, Fault.UNKNOWN, Fault.LATE, Fault.OVERTAKEN])
    def test_a_lost_reply_commits_once(self, catalog: Catalog, table: Table, fault: Fault) -> None:
        faults = Faults()
        store = FaultyStore(catalog.store, faults)
        handle = TableHandle(identifier=("db", "t"), store=store, io=table.io)
        ours = Table(handle, load_metadata(handle))
        faults.order("swap", fault, meanwhile=lambda: None if fault is not Fault.OVERTAKEN else _append(table, 7))
        ours.append(rows(1))
        assert numbers(catalog.load_table("db.t")) == ([1, 7] if fault is Fault.OVERTAKEN else [1])

    def test_several_tables_are_one_commit(self, catalog: Catalog, reopen: Reopen, table: Table) -> None:
        catalog.create_table("db.u", SCHEMA, properties=QUICK)
        if not self.commits_several_tables:
            with pytest.raises(UnsupportedFeatureError, match="several tables"), catalog.transaction() as tx:
                tx.load_table("db.t").append(rows(1))
                tx.load_table("db.u").append(rows(1))
            assert [numbers(one) for one in reopen().load_tables("db.t", "db.u")] == [[], []]
            return
        before = [one.metadata_location for one in reopen().load_tables("db.t", "db.u")]
        with pytest.raises(ZeroDivisionError), catalog.transaction() as tx:
            tx.load_table("db.t").append(rows(1))
            tx.load_table("db.u").append(rows(1 // 0))
        assert [one.metadata_location for one in reopen().load_tables("db.t", "db.u")] == before
        with catalog.transaction() as tx:
            first, second = tx.load_tables("db.t", "db.u")
            first.append(rows(1, 2))
            second.append(rows(-1))
            first.delete("n = 2")
            made = tx.create_table("db.w", SCHEMA)
            made.append(rows(9))
            assert not reopen().table_exists("db.w")
        assert [numbers(one) for one in reopen().load_tables("db.t", "db.u", "db.w")] == [[1], [-1], [9]]
        table.refresh()
        with catalog.transaction() as tx:
            tx.load_table("db.t").append(rows(3))
            tx.load_table("db.u").append(rows(-3))
            table.append(rows(4))  # another writer wins a race on one of them
        assert [numbers(one) for one in reopen().load_tables("db.t", "db.u")] == [[1, 3, 4], [-3, -1]]

    def test_several_tables_are_moved_all_or_none(self, catalog: Catalog, reopen: Reopen, table: Table) -> None:
        if not self.commits_several_tables:
            pytest.skip("this catalog commits one table at a time")
        other = catalog.create_table("db.u", SCHEMA, properties=QUICK)
        with pytest.raises(CommitConflictError), catalog.transaction() as tx:
            tx.load_table("db.t").append(rows(1))
            with tx.load_table("db.u").update_schema() as ours:
                ours.add_column("b", LongType())
            with other.update_schema() as theirs:
                theirs.add_column("a", LongType())
        assert numbers(reopen().load_table("db.t")) == []
        with pytest.raises(TableAlreadyExistsError), catalog.transaction() as tx:
            tx.load_table("db.t").append(rows(1))
            tx.create_table("db.w", SCHEMA)
            reopen().create_table("db.w", SCHEMA)
        assert numbers(reopen().load_table("db.t")) == []

    def test_amounts_moved_between_tables_by_many_threads_add_up_whenever_both_are_loaded(
        self, catalog: Catalog, reopen: Reopen, table: Table
    ) -> None:
        if not self.commits_several_tables:
            pytest.skip("this catalog commits one table at a time")
        catalog.create_table("db.u", SCHEMA, properties=QUICK)

        def total(given: Catalog) -> int:
            return sum(number for one in given.load_tables("db.t", "db.u") for number in numbers(one))

        def move(writer: int) -> list[int]:
            own, seen = reopen(), []
            for number in range(ROUNDS):
                with own.transaction() as tx:
                    source, target = tx.load_tables(*(("db.t", "db.u") if writer % 2 else ("db.u", "db.t")))
                    source.append(rows(-1 - number - writer))
                    target.append(rows(1 + number + writer))
                seen.append(total(own))
            return seen

        with ThreadPoolExecutor(WRITERS) as threads:
            seen = [amount for amounts in threads.map(move, range(WRITERS)) for amount in amounts]
        assert set(seen) == {0}
        assert [len(numbers(one)) for one in reopen().load_tables("db.t", "db.u")] == [WRITERS * ROUNDS] * 2
