"""A REST catalog against `icefloe serve`: the suites that every catalog must pass, over the wire."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from tests.stores.rest.own_server import own_server

from icefloe.catalog.catalog import Catalog
from icefloe.catalog.rest_catalog import RestCatalog
from icefloe.commit.stream_epoch import StreamEpoch
from icefloe.errors import InvalidInputError, NoSuchSnapshotError
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


@pytest.mark.parametrize(
    ("version", "is_first", "is_taken_twice"), [("1", False, True), ("2", True, True), ("2", False, False), ("3", True, False)]
)
def test_the_rows_of_an_epoch_that_two_drivers_stage_are_published_once(
    opened: Callable[..., RestCatalog], version: str, is_first: bool, is_taken_twice: bool
) -> None:
    """No requirement of the protocol is about properties: a second driver is refused only where its sequence number or row ids are given."""
    drivers = [opened(), opened()]
    drivers[0].create_namespace("db")
    schema = pa.schema([("n", pa.int64())])
    table = drivers[0].create_table("db.t", schema, properties={"write.wap.enabled": "true", "format-version": version})
    if not is_first:
        table.append(pa.table({"n": [0]}))
    committed = []
    for number, driver in enumerate([driver.load_table("db.t") for driver in drivers]):
        epoch = StreamEpoch(query_id="q", epoch=3, branch="main")
        changes = EpochChanges(driver, epoch, OutputMode.APPEND)
        changes.append(pa.table({"n": [1]}), {**epoch.summary, "wap.id": f"driver {number}"})
        committed.append(changes.is_committed)
    assert committed == [True, is_taken_twice]
    table.refresh().manage_snapshots().publish_changes("driver 0").commit()
    with pytest.raises(
        (InvalidInputError, NoSuchSnapshotError),
        match="has the rows of epoch 3 of the stream q" if is_taken_twice else "no snapshot was staged",
    ):
        table.refresh().manage_snapshots().publish_changes("driver 1").commit()
    assert table.scan(row_filter="n = 1").count() == 1
    for driver in drivers:
        driver.close()
