"""Methods of tables, scans, views and metadata tables under the names of PyIceberg."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from icefloe import optional_packages
from icefloe.catalog import Catalog
from icefloe.catalog.sql import SqlCatalog
from icefloe.errors import InvalidInputError, NotInstalledError
from icefloe.expressions import EqualTo
from icefloe.expressions.parser import parse
from icefloe.table import Table
from icefloe.view import SQLViewRepresentation, ViewVersion

ROWS = pa.table({"id": [1, 2, 3], "city": ["Paris", "Oslo", "Rome"]})
OF_ONE_SNAPSHOT = ("entries", "files", "data_files", "delete_files", "manifests", "partitions", "position_deletes")
OF_THE_TABLE = ("snapshots", "history", "refs", "metadata_log_entries")
OF_EVERY_SNAPSHOT = ("all_files", "all_data_files", "all_delete_files", "all_manifests", "all_entries")


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}") as opened:
        opened.create_namespace("db")
        yield opened


@pytest.fixture
def table(catalog: Catalog) -> Table:
    created = catalog.create_table("db.t", ROWS.schema, partition_spec=["city"], properties={"write.delete.mode": "merge-on-read"})
    created.append(ROWS)
    return created


@pytest.mark.parametrize("name", [*OF_ONE_SNAPSHOT, *OF_THE_TABLE, *OF_EVERY_SNAPSHOT])
def test_each_metadata_table_is_a_method_of_inspect(table: Table, name: str) -> None:
    rows = getattr(table.inspect, name)()
    assert isinstance(rows, pa.Table)
    assert (rows.num_rows > 0) == ("delete" not in name)


@pytest.mark.parametrize("name", OF_ONE_SNAPSHOT)
def test_a_metadata_table_of_one_snapshot_takes_its_id(table: Table, name: str) -> None:
    first = table.current_snapshot()
    before = getattr(table.inspect, name)()
    table.append(ROWS)
    assert getattr(table.inspect, name)(snapshot_id=first.snapshot_id) == before


def test_partitions_are_filtered(table: Table) -> None:
    assert table.inspect.partitions().num_rows == 3
    assert table.inspect.partitions(row_filter="city = 'Oslo'")["partition"].to_pylist() == [{"city": "Oslo"}]
    assert table.inspect.partitions(row_filter=EqualTo("CITY", "Oslo"), case_sensitive=False).num_rows == 1


def test_the_filter_of_a_scan_has_no_constant(table: Table) -> None:
    assert table.scan().filter("id = 1").row_filter == EqualTo("id", 1) == parse("id = 1")
    assert table.scan().with_case_sensitive(False).select("ID").to_arrow().num_rows == 3


def test_snapshots_before_a_time_without_a_zone_are_expired(table: Table) -> None:
    for _ in range(2):
        table.append(ROWS)
    now = datetime.now()  # noqa: DTZ005  a time without a zone
    table.maintenance.expire_snapshots().older_than(now - timedelta(hours=1)).commit()
    assert len(table.snapshots()) == 3
    table.maintenance.expire_snapshots().older_than(now + timedelta(minutes=1)).commit()
    assert len(table.snapshots()) == 1
    assert table.scan().count() == 9


def test_a_view_is_created_by_a_version(catalog: Catalog) -> None:
    version = ViewVersion(
        schema_id=1,
        summary={},
        representations=[SQLViewRepresentation(type="sql", sql="SELECT 1 AS n", dialect="spark")],
        default_namespace=["db"],
    )
    columns = pa.schema([("n", pa.int32())])
    view = catalog.create_view(identifier="db.v", schema=columns, view_version=version)
    assert view.sql_for("spark").sql == "SELECT 1 AS n"
    assert view.current_version().default_namespace == ("db",)
    with pytest.raises(InvalidInputError, match="one definition"):
        catalog.create_view("db.w", "SELECT 2", columns, view_version=version)


@pytest.mark.parametrize(
    ("call", "extra"),
    [
        (lambda table: table.to_polars(), "polars"),
        (lambda table: table.scan().to_polars(), "polars"),
        (lambda table: table.scan().to_duckdb("t"), "duckdb"),
        (lambda table: table.scan().to_ray(), "ray"),
        (lambda table: table.to_daft(), "daft"),
        (lambda table: table.to_bodo(), "bodo"),
        (lambda table: table.__datafusion_table_provider__(), "datafusion"),
    ],
)
def test_a_missing_library_is_named_with_the_command_that_installs_it(
    table: Table, call: object, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> object:
        raise ImportError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(optional_packages, "import_module", missing)
    with pytest.raises(NotInstalledError, match=rf"icefloe\[{extra}\]"):
        call(table)  # type: ignore[operator]
