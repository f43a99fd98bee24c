"""Tables that Java wrote, of every version, at every snapshot, branch, tag and time: the rows are those that Java reads."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.oracle.java_history import SIX, TABLES, Reading, plain_avro, readings
from tests.oracle.rows import comparable

from icefloe import StaticTable

pytestmark = pytest.mark.oracle


def check(told: list[Reading]) -> None:
    wrong = []
    for one in told:
        scan = StaticTable.from_metadata(one.metadata).scan()
        if "snapshot" in one.how:
            scan = StaticTable.from_metadata(one.metadata).scan(snapshot_id=one.how["snapshot"])
        elif "ref" in one.how:
            scan = scan.use_ref(one.how["ref"])
        elif "as of" in one.how:
            scan = scan.as_of(one.how["as of"])
        rows = comparable(scan.to_arrow().to_pylist(maps_as_pydicts="strict"))
        if rows != comparable(one.rows) or scan.count() != len(one.rows):
            wrong.append((one.table, one.how, rows, comparable(one.rows)))
    assert wrong == []


def test_the_six_tables_are_read_as_java_reads_them_at_every_point(java_tables: Path, java_script: Callable[..., str]) -> None:
    told = readings(java_script, SIX, java_tables)
    assert len({one.table for one in told}) == 6
    assert {key for one in told for key in one.how} == {"snapshot", "ref", "as of"}
    check(told)


def test_tables_that_java_wrote_in_all_its_ways_are_read_as_java_reads_them_at_every_point(
    java_script: Callable[..., str], tmp_path: Path
) -> None:
    plain_avro(tmp_path)
    told = readings(java_script, TABLES, tmp_path)
    assert len({one.table for one in told}) == 17
    assert len(told) > 180
    check(told)
