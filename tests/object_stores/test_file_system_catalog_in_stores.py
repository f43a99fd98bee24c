"""The file-system catalog in emulators of object stores: the suite of all catalogs, and the rules that make its commits safe."""

from collections.abc import Callable

import pyarrow as pa
import pytest
from tests.emulators import ObjectStore

from icefloe import Catalog, load_catalog
from icefloe.catalog.file_system_catalog import FileSystemCatalog
from icefloe.commit.outcome import Committed, Conflicted
from icefloe.errors import CommitConflictError, InvalidInputError, NoSuchTableError, UnsupportedFeatureError
from icefloe.io.object_store_file_io import ObjectStoreFileIO
from icefloe.stores.catalog_store import CommitRequest
from icefloe.testing.catalog_suite import QUICK, SCHEMA, CatalogSuite, numbers, rows

pytestmark = pytest.mark.emulator


class FileSystemInStore(CatalogSuite):
    renames_tables = takes_locations = keeps_namespace_properties = commits_several_tables = keeps_files_of_dropped_tables = False

    @pytest.fixture
    def reopen(self, store: ObjectStore) -> Callable[[], Catalog]:
        return lambda: load_catalog("lake", type="hadoop", warehouse=f"{store.bucket}/warehouse", **store.properties)

    @pytest.fixture
    def catalog(self, reopen: Callable[[], Catalog]) -> Catalog:
        return reopen()


class TestInS3(FileSystemInStore):
    @pytest.fixture
    def store(self, s3: ObjectStore) -> ObjectStore:
        return s3


class TestInAzure(FileSystemInStore):
    @pytest.fixture
    def store(self, azure: ObjectStore) -> ObjectStore:
        return azure


class TestInGoogleCloudStorage(FileSystemInStore):
    @pytest.fixture
    def store(self, gcs: ObjectStore) -> ObjectStore:
        return gcs


@pytest.fixture
def catalog(s3: ObjectStore) -> FileSystemCatalog:
    catalog = FileSystemCatalog("lake", warehouse=f"{s3.bucket}/warehouse", **s3.properties)
    catalog.create_namespace("db")
    return catalog


def test_a_new_table_of_a_dropped_name_counts_on_so_that_a_slow_writer_cannot_revive_the_old_one(catalog: FileSystemCatalog) -> None:
    table = catalog.create_table("db.t", SCHEMA, properties=QUICK)
    table.append(rows(1))
    old = table.metadata_location
    catalog.drop_table("db.t")
    assert old.endswith("/v2.metadata.json")
    left = catalog.store._objects.objects_below(f"{catalog.properties['warehouse']}/db/t")
    assert [name.rpartition("/")[2] for name in left] == ["v3.metadata.json"], "the tombstone alone stays"
    with pytest.raises(NoSuchTableError):
        catalog.load_table("db.t")
    again = catalog.create_table("db.t", SCHEMA, properties=QUICK)
    assert again.metadata_location.endswith("/v4.metadata.json")
    attempt = f"{again.location()}/metadata/00003-late.metadata.json"
    table.io.write(attempt, table.io.read(again.metadata_location))
    assert isinstance(catalog.store.commit([CommitRequest(identifier=("db", "t"), expected=old, new=attempt)]), Conflicted)
    again.append(rows(7))
    assert numbers(catalog.load_table("db.t")) == [7]


@pytest.mark.parametrize("kept", [1, 2, 100])
def test_a_slow_writer_whose_version_others_have_passed_does_not_commit(
    catalog: FileSystemCatalog, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cleaned = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": str(kept)}
    table = catalog.create_table("db.t", SCHEMA, properties={**QUICK, **cleaned})
    first = table.metadata_location
    table.append(rows(1))
    table.append(rows(2))
    attempt = f"{table.location()}/metadata/00001-slow.metadata.json"
    table.io.write(attempt, table.io.read(table.metadata_location).replace(b" ", b"  "))
    table.append(rows(3))
    versions = sorted(catalog.store._versions(("db", "t")))
    assert versions == list(range(5 - min(kept + 1, 4), 5))
    monkeypatch.setattr(catalog.store, "_newest", lambda _: first)  # the writer listed the versions before the others committed
    outcome = catalog.store.commit([CommitRequest(identifier=("db", "t"), expected=first, new=attempt)])
    assert not isinstance(outcome, Committed)
    monkeypatch.undo()
    assert numbers(catalog.load_table("db.t")) == [1, 2, 3]


def test_a_commit_whose_reply_is_lost_is_found_by_its_content(catalog: FileSystemCatalog) -> None:
    table = catalog.create_table("db.t", SCHEMA, properties=QUICK)
    request = CommitRequest(identifier=("db", "t"), expected=table.metadata_location, new=f"{table.location()}/metadata/x.metadata.json")
    table.io.write(request.new, table.io.read(table.metadata_location))
    assert isinstance(catalog.store.commit_status([request]), Committed), "the request is sent again"
    assert isinstance(catalog.store.commit_status([request]), Committed)
    assert isinstance(catalog.store.commit([request]), Conflicted), "a new commit is another one, whatever its content"
    load = catalog.load_table("db.t")
    load.append(rows(1))
    assert isinstance(catalog.store.commit_status([request]), Committed), "another commit was built on it"
    other = CommitRequest(identifier=("db", "t"), expected=request.expected, new=f"{table.location()}/metadata/y.metadata.json")
    table.io.write(other.new, table.io.read(table.metadata_location) + b" ")
    assert isinstance(catalog.store.commit_status([other]), Conflicted)


def test_a_store_that_overwrites_where_it_must_not_is_refused_before_the_first_write(
    catalog: FileSystemCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = ObjectStoreFileIO.write
    monkeypatch.setattr(
        ObjectStoreFileIO, "write", lambda self, location, content, overwrite=False: write(self, location, content, overwrite=True)
    )
    with pytest.raises(UnsupportedFeatureError, match="creates an object although its name is taken"):
        catalog.create_table("db.t", SCHEMA)
    assert catalog.list_tables("db") == []


def test_compressed_metadata_is_refused_in_a_store(catalog: FileSystemCatalog) -> None:
    with pytest.raises(InvalidInputError, match="cannot be compressed"):
        catalog.create_table("db.t", SCHEMA, properties={"write.metadata.compression-codec": "gzip"})


def test_a_drop_and_a_commit_at_once_lose_nothing(catalog: FileSystemCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = catalog.create_table("db.t", SCHEMA, properties=QUICK)
    below = catalog.store._objects.objects_below
    calls = []

    def commit_first(location: str) -> list[str]:
        found = below(location)
        if not calls:
            calls.append(location)
            catalog.load_table("db.t").append(rows(1))
        return found

    monkeypatch.setattr(type(catalog.store._objects), "objects_below", lambda _, location: commit_first(location))
    catalog.drop_table("db.t")
    assert not catalog.table_exists("db.t")
    with pytest.raises((NoSuchTableError, CommitConflictError)):
        table.append(pa.table({"n": [2]}))
    assert not catalog.table_exists("db.t")
