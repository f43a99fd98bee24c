"""Scan traces show the decisions of the planner, and the decisions are correct."""

import sqlite3

import pyarrow.parquet as pq
import pytest
from tests.inspect.example import WHERE

import icefloe.inspect as look
from icefloe import SqlCatalog
from icefloe.errors import InvalidFilterError, NoSuchSnapshotError
from icefloe.table import Table


def matching(path: str) -> int:
    """Count the rows of a file that match `WHERE`, without Icefloe."""
    rows = pq.read_table(path, partitioning=None).to_pylist()
    return sum(row["type"] == "c8y_Event" and row["time"].isoformat() > "2024-01-01T00:00:00+00:00" for row in rows)


def test_skipped_files_have_no_matching_row_and_kept_files_have_some(events: Table) -> None:
    trace = look.trace(events, WHERE)
    assert len(trace.files.kept) > 0
    assert len(trace.files.skipped) > 0
    assert [matching(decision.path) for decision in trace.files.skipped] == [0] * len(trace.files.skipped)
    assert all(matching(decision.path) > 0 for decision in trace.files.kept)
    assert sum(matching(decision.path) for decision in trace.files.kept) == events.scan(WHERE).to_arrow().num_rows


def test_every_skipped_file_has_the_bound_that_decided(events: Table) -> None:
    trace = look.trace(events, WHERE)
    assert [decision.explanation for decision in trace.manifests.skipped] == ["partition time_month: upper 2023-11 < 2024-01"]
    assert {decision.explanation for decision in trace.files.skipped} >= {"partition type is 'c8y_Alarm', required: = 'c8y_Event'"}
    assert all(decision.explanation for decision in trace.files.skipped)


def test_a_column_bound_decides_where_the_partition_does_not(events: Table) -> None:
    trace = look.trace(events, "id >= 590")
    assert any(decision.explanation.startswith("id: upper bound ") for decision in trace.files.skipped)


def test_totals_add_up(events: Table) -> None:
    totals = look.trace(events, WHERE).totals
    tree = look.tree(events)
    assert (totals.data_files, totals.records, totals.data_size) == (tree.totals.data_files, tree.totals.records, tree.totals.data_size)
    assert totals.records_read + totals.records_skipped == totals.records
    assert totals.data_size_skipped == totals.data_size - totals.data_size_read
    assert totals.manifests_read == 1
    assert totals.data_files_in_skipped_manifests == 6


def test_without_a_filter_everything_is_kept(events: Table) -> None:
    trace = look.trace(events)
    assert trace.where == "TRUE"
    assert (len(trace.files.kept), len(trace.files.skipped), trace.totals.data_size_skipped) == (12, 0, 0)


def test_the_sql_of_the_look_up_finds_the_metadata_file(events: Table, catalog: SqlCatalog) -> None:
    lookup = look.trace(events).catalog
    assert lookup is not None
    with sqlite3.connect(catalog.store.uri.removeprefix("sqlite:///")) as database:
        row = database.execute(lookup.sql).fetchone()
    database.close()
    assert row[0] == events.metadata_location == lookup.metadata_location


def test_an_earlier_snapshot_can_be_traced(events: Table) -> None:
    first = events.history()[0].snapshot_id
    trace = look.trace(events, "type = 'c8y_Measurement'", first)
    assert trace.snapshot is not None
    assert (trace.snapshot.snapshot_id, trace.snapshot.is_current) == (first, False)
    assert len(trace.files.kept) == 3
    with pytest.raises(NoSuchSnapshotError):
        look.trace(events, "id = 1", 99)


def test_a_filter_that_does_not_fit_is_refused(events: Table) -> None:
    with pytest.raises(InvalidFilterError, match="nowhere"):
        look.trace(events, "nowhere = 1")


def test_the_steps_are_numbered_in_the_text(events: Table) -> None:
    text = str(look.trace(events, WHERE))
    places = [text.index(step) for step in ("1. Catalog", "2. Metadata file", "3. Snapshot", "4. Manifests", "5. Data files", "6. In all")]
    assert places == sorted(places)
    assert "bytes that need not be read" in text
