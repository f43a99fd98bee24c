"""Filters on the metadata tables of files and entries: the rows are those that match, and columns are made of these rows only."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.metadata_tables.tables import evolved, with_deletes
from tests.repetitions import examples

from icefloe.metadata_tables import file_rows
from icefloe.metadata_tables.metadata_table_registry import metadata_table
from icefloe.spec.expressions.row_filter import to_expression
from icefloe.spec.manifest.data_file import FileContent
from icefloe.table import Table

Row = dict[str, Any]


def _part(row: Row) -> Any:
    return row["partition"].get("part")


def _low(row: Row) -> Any:
    return row["readable_metrics"]["id"]["lower_bound"]


# Each filter, and what it means for one row of `files`.
LEAVES: dict[str, Callable[[Row], bool]] = {
    "record_count > 4": lambda row: row["record_count"] > 4,
    "record_count != 10": lambda row: row["record_count"] != 10,
    "content = 0": lambda row: row["content"] == int(FileContent.DATA),
    "content in (1, 2)": lambda row: row["content"] in (1, 2),
    "spec_id = 1": lambda row: row["spec_id"] == 1,
    "partition.part = 'a'": lambda row: _part(row) == "a",
    "partition.part is null": lambda row: _part(row) is None,
    "file_size_in_bytes < 1500": lambda row: row["file_size_in_bytes"] < 1500,
    "file_format = 'PARQUET'": lambda row: row["file_format"] == "PARQUET",
    "readable_metrics.id.lower_bound >= 9": lambda row: _low(row) is not None and _low(row) >= 9,
    "readable_metrics.id.lower_bound is null": lambda row: _low(row) is None,
    "sort_order_id is null": lambda row: row["sort_order_id"] is None,
}
COLUMNS = ("file_path", "record_count", "partition", "lower_bounds", "readable_metrics", "spec_id")


@pytest.fixture(scope="module", params=[with_deletes, evolved])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Table:
    make: Callable[[Path], Table] = request.param
    return make(tmp_path_factory.mktemp("filtered"))


@given(
    name=st.sampled_from(["files", "all_files", "data_files", "all_delete_files"]),
    leaves=st.lists(st.sampled_from(sorted(LEAVES)), min_size=1, max_size=3),
    is_and=st.booleans(),
    columns=st.sets(st.sampled_from(COLUMNS), min_size=1),
)
@settings(max_examples=examples(80, least=16))
def test_the_rows_of_a_filter_are_those_that_match(table: Table, name: str, leaves: list[str], is_and: bool, columns: set[str]) -> None:
    inspected = metadata_table(table, name)
    if any("part" in leaf for leaf in leaves) and "part" not in str(inspected.schema.find_field("partition").field_type):
        return
    combine = all if is_and else any
    text = (" and " if is_and else " or ").join(leaves)
    whole = inspected.to_arrow().to_pylist()
    expected = [{column: row[column] for column in columns} for row in whole if combine(LEAVES[leaf](row) for leaf in leaves)]
    kept = inspected.to_arrow(columns=sorted(columns), row_filter=to_expression(text))
    assert sorted(map(_text, kept.to_pylist())) == sorted(map(_text, expected))


def _text(row: Row) -> str:
    return repr(sorted(row.items()))


def test_entries_are_filtered_by_their_status_and_their_files(table: Table) -> None:
    inspected = metadata_table(table, "all_entries")
    kept = inspected.to_arrow(columns=["snapshot_id"], row_filter=to_expression("status = 2 and data_file.record_count > 1"))
    rows = inspected.to_arrow().to_pylist()
    assert kept["snapshot_id"].to_pylist() == [
        row["snapshot_id"] for row in rows if row["status"] == 2 and row["data_file"]["record_count"] > 1
    ]


def test_bounds_are_decoded_for_matching_files_only(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []
    original = file_rows.readable_metrics

    def noted(entries: Any, *arguments: Any) -> Any:
        decoded.append(len(entries))
        return original(entries, *arguments)

    monkeypatch.setattr(file_rows, "readable_metrics", noted)
    path = metadata_table(table, "files").to_arrow(columns=["file_path"])["file_path"][0].as_py()
    rows = metadata_table(table, "files").to_arrow(row_filter=to_expression(f"file_path = '{path}'"))
    assert sum(decoded) == rows.num_rows == 1


def test_a_filter_on_a_metadata_column_of_data_is_no_filter_on_files(table: Table) -> None:
    inspected = metadata_table(table, "files")
    assert inspected.to_arrow(row_filter=to_expression("_file = 'x'")).num_rows == inspected.to_arrow().num_rows
