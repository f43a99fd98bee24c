"""A REST catalog against `icefloe serve`: the suites that every catalog must pass, over the wire."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from tests.stores.rest.own_server import own_server

from icefloe.catalog.catalog import Catalog
from icefloe.catalog.rest_catalog import RestCatalog
from icefloe.commit.stream_epoch import StreamEpoch
from icefloe.table.epoch_changes import EpochChanges, OutputMode
from icefloe.testing.catalog_suite import CatalogSuite
from icefloe.testing.view_suite import ViewSuite


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """The address of a server for an empty SQL catalog."""
    with own_server(tmp_path) as address:
        yield address


@pytest.fixture
def opened(address: str, tmp_path: Path) -> Callable[..., RestCatalog]:
    return lambda **properties: RestCatalog("own", uri=address, warehouse=str(tmp_path / "lake"), **properties)


@pytest.fixture
def catalog(opened: Callable[..., RestCatalog]) -> Iterator[RestCatalog]:
    catalog = opened()
    yield catalog
    catalog.close()


class TestTablesOfTheOwnServer(CatalogSuite):
    names_of_server = True

    @pytest.fixture
    def reopen(self, opened: Callable[..., RestCatalog]) -> Callable[[], Catalog]:
        return opened


class TestViewsOfTheOwnServer(ViewSuite):
    @pytest.fixture
    def reopen(self, opened: Callable[..., RestCatalog]) -> Callable[[], Catalog]:
        return opened


def test_two_drivers_of_a_stream_that_stage_one_epoch_commit_it_once(opened: Callable[..., RestCatalog]) -> None:
    """No requirement of the protocol is about properties: the second driver is refused because its sequence number is given."""
    drivers = [opened(), opened()]
    drivers[0].create_namespace("db")
    table = drivers[0].create_table("db.t", pa.schema([("n", pa.int64())]), properties={"write.wap.enabled": "true"})
    table.append(pa.table({"n": [0]}))
    loaded = [driver.load_table("db.t") for driver in drivers]
    committed = []
    for number, driver in enumerate(loaded):
        epoch = StreamEpoch(query_id="q", epoch=3, branch="main")
        changes = EpochChanges(driver, epoch, OutputMode.APPEND)
        changes.append(pa.table({"n": [1]}), {**epoch.summary, "wap.id": f"driver {number}"})
        committed.append(changes.is_committed)
    assert committed == [True, False]
    assert len(table.refresh().snapshots()) == 2
    for driver in drivers:
        driver.close()
