"""`icefloe serve` in front of catalogs that keep their tables elsewhere than in SQL: the suite over the wire, with what such a catalog cannot do."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from tests.stores.glue_double import LOCATION, Glue
from tests.stores.rest.own_server import serving

from icefloe.catalog.catalog import Catalog
from icefloe.catalog.file_system_catalog import FileSystemCatalog
from icefloe.catalog.glue_catalog import GlueCatalog
from icefloe.catalog.rest_catalog import RestCatalog
from icefloe.errors import NoSuchTableError, UnsupportedFeatureError
from icefloe.testing.catalog_suite import CatalogSuite


class TestTablesInFoldersBehindTheOwnServer(CatalogSuite):
    names_of_server = True
    renames_tables = takes_locations = keeps_namespace_properties = commits_several_tables = keeps_files_of_dropped_tables = False

    @pytest.fixture
    def address(self, tmp_path: Path) -> Iterator[str]:
        with serving(FileSystemCatalog("lake", warehouse=str(tmp_path / "lake"))) as address:
            yield address

    @pytest.fixture
    def reopen(self, address: str, tmp_path: Path) -> Callable[[], Catalog]:
        return lambda: RestCatalog("own", uri=address, warehouse=str(tmp_path / "lake"))

    @pytest.fixture
    def catalog(self, reopen: Callable[[], Catalog]) -> Catalog:
        return reopen()


def test_a_table_in_the_metastore_of_aws_is_created_written_read_renamed_and_dropped_behind_the_server(tmp_path: Path) -> None:
    served = GlueCatalog("lake", warehouse=str(tmp_path / "lake"))
    served.store._glue = Glue()
    with serving(served) as address:
        catalog = RestCatalog("own", uri=address, warehouse=str(tmp_path / "lake"))
        table = catalog.create_table("db.orders", pa.schema({"n": pa.int64()}))
        assert table.metadata.location == str(tmp_path / "lake/db.db/orders")
        table.append(pa.table({"n": [1, 2]}))
        table.delete("n = 1")
        catalog.rename_table("db.orders", "db.bills")
        assert catalog.load_table("db.bills").scan().to_arrow()["n"].to_pylist() == [2]
        with pytest.raises(NoSuchTableError):
            catalog.load_table("db.orders")
        transaction = catalog.transaction()
        transaction.load_table("db.bills").append(pa.table({"n": [3]}))
        transaction.create_table("db.other", pa.schema({"n": pa.int64()}))
        with pytest.raises(UnsupportedFeatureError, match="cannot commit several tables"):
            transaction.commit_transaction()
        catalog.drop_table("db.bills")
        assert served.store._glue.locations() == {"t": LOCATION}
        catalog.close()
