"""Numbers of distinct values that guide Spark's optimizer: of which snapshot's statistics they are, and when they no longer count."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from icefloe import SqlCatalog, StaticTable
from icefloe.spark.scan.optimizer_statistics import distinct_values, exact_distinct_values
from icefloe.table import Table

SCHEMA = pa.schema([("id", pa.int64()), ("kind", pa.string())])


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": ids, "kind": [f"k{number % 3}" for number in ids]}, schema=SCHEMA)


@pytest.fixture
def counted(tmp_path: Path) -> Table:
    """Return a table of ten rows with statistics."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", SCHEMA)
    table.append(rows(*range(10)))
    table.compute_statistics()
    return table.refresh()


def test_the_counts_of_an_ancestor_guide_until_the_table_has_doubled(counted: Table) -> None:
    assert distinct_values(counted.scan()) == exact_distinct_values(counted.scan()) == {1: 10, 2: 3}
    counted.append(rows(*range(10, 20)))
    assert distinct_values(counted.refresh().scan()) == {1: 10, 2: 3}
    assert exact_distinct_values(counted.scan()) == {}, "the rows are others: no column is known to be unique"
    counted.append(rows(20))
    assert distinct_values(counted.refresh().scan()) == {}


def test_a_scan_of_an_older_snapshot_has_its_counts(counted: Table) -> None:
    first = counted.current_snapshot()
    assert first is not None
    counted.append(rows(5))
    counted.compute_statistics(["kind"])
    assert distinct_values(counted.refresh().scan(snapshot_id=first.snapshot_id)) == {1: 10, 2: 3}
    assert distinct_values(counted.scan()) == {2: 3}


@pytest.mark.parametrize("count", ["\u00b2", "9" * 5000, "-1", ""])
def test_a_count_that_is_no_number_is_left_out(counted: Table, count: str) -> None:
    metadata = Path(counted.metadata_location)
    document = json.loads(metadata.read_text())
    document["statistics"][0]["blob-metadata"][0]["properties"]["ndv"] = count
    metadata.write_text(json.dumps(document))
    assert distinct_values(StaticTable.from_metadata(str(metadata)).scan()) == {2: 3}
