"""Metadata tables by name: names, columns, snapshots and filters."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.combinations import combinations
from tests.metadata_tables.tables import SCHEMA, evolved, new_catalog, with_deletes

from icefloe.errors import InvalidFilterError, InvalidInputError, NoSuchSnapshotError
from icefloe.metadata_tables.metadata_table_registry import METADATA_TABLES, metadata_table
from icefloe.spec.expressions.bind import bind
from icefloe.spec.expressions.row_evaluator import arrow_mask
from icefloe.spec.expressions.row_filter import to_expression
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.table import Table

FILES = ("files", "data_files", "delete_files", "all_files", "all_data_files", "all_delete_files")
OF_ALL = (*tuple(name for name in METADATA_TABLES if name.startswith("all_")), "history", "metadata_log_entries", "snapshots", "refs")


@pytest.fixture(scope="module", params=[with_deletes, evolved])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Table:
    make: Callable[[Path], Table] = request.param
    return make(tmp_path_factory.mktemp("made"))


def test_the_metadata_tables_are_those_of_java_in_its_order_and_changes() -> None:
    assert METADATA_TABLES == (
        "entries", "files", "data_files", "delete_files", "history", "metadata_log_entries", "snapshots", "refs", "manifests", "partitions",
        "all_data_files", "all_delete_files", "all_files", "all_manifests", "all_entries", "position_deletes", "changes",
    )  # fmt: skip


@pytest.mark.parametrize("name", METADATA_TABLES)
def test_rows_have_the_schema_or_the_requested_columns(table: Table, name: str) -> None:
    inspected = metadata_table(table, name)
    whole = inspected.to_arrow()
    whole.validate(full=True)
    assert whole.schema.equals(schema_to_arrow(inspected.schema), check_metadata=True)
    assert inspected.to_arrow(columns=[]).num_rows == whole.num_rows
    assert whole.num_rows or name.endswith(("delete_files", "position_deletes"))
    for column in inspected.schema.names:
        # The rows are compared as text, because NaN does not equal itself.
        assert repr(inspected.to_arrow(columns=[column]).to_pylist()) == repr(whole.select([column]).to_pylist())
    backwards = inspected.schema.names[::-1][:3]
    assert inspected.to_arrow(columns=backwards).column_names == [column for column in inspected.schema.names if column in backwards]


@pytest.mark.parametrize("name", METADATA_TABLES)
def test_a_table_without_snapshots_has_the_columns(tmp_path: Path, name: str) -> None:
    empty = new_catalog(tmp_path).create_table("db.empty", SCHEMA, partition_spec=["part"])
    inspected = metadata_table(empty, name)
    assert inspected.to_arrow().schema.equals(schema_to_arrow(inspected.schema), check_metadata=True)
    assert len(inspected.to_arrow()) == (1 if name == "metadata_log_entries" else 0)


def test_unknown_names_are_refused_with_the_existing_ones(table: Table) -> None:
    with pytest.raises(InvalidInputError, match="no metadata table 'file'") as unknown:
        metadata_table(table, "file")
    assert "position_deletes" in str(unknown.value.next_step)
    with pytest.raises(InvalidInputError, match="no column 'path'") as column:
        metadata_table(table, "files").to_arrow(columns=["path"])
    assert "file_path" in str(column.value.next_step)
    with pytest.raises(NoSuchSnapshotError):
        metadata_table(table, "files").to_arrow(snapshot_id=5)
    with pytest.raises(InvalidFilterError):
        metadata_table(table, "files").to_arrow(row_filter=to_expression("nothing = 1"))


@pytest.mark.parametrize("name", OF_ALL)
def test_tables_of_all_snapshots_refuse_a_snapshot_id(table: Table, name: str) -> None:
    with pytest.raises(InvalidInputError, match="about all snapshots"):
        metadata_table(table, name).to_arrow(snapshot_id=table.snapshots()[0].snapshot_id)


class CountedReads:
    """The storage of a table, which counts whole-file reads."""

    def __init__(self, io: Any) -> None:
        self._io = io
        self.paths: list[str] = []

    def read(self, path: str) -> bytes:
        self.paths.append(path)
        content: bytes = self._io.read(path)
        return content

    def __getattr__(self, name: str) -> Any:
        return getattr(self._io, name)


@pytest.mark.parametrize(
    ("text", "name"),
    combinations(["content = 1", "content in (1, 2) and record_count > 1", "spec_id = 0", "spec_id > 0 or content = 2"], [*FILES]),
)
def test_a_filter_loses_no_row_that_it_matches(table: Table, name: str, text: str) -> None:
    inspected = metadata_table(table, name)
    expression = to_expression(text)
    bound = bind(expression, inspected.schema)

    def matching(rows: Any) -> list[Any]:
        plain = rows.drop_columns(["readable_metrics"])
        return [row for batch in plain.to_batches() for row in batch.filter(arrow_mask(bound, batch)).to_pylist()]

    assert matching(inspected.to_arrow(row_filter=expression)) == matching(inspected.to_arrow())


def test_a_filter_reads_only_the_manifests_that_may_match(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = evolved(tmp_path)
    counted = CountedReads(table.io)
    monkeypatch.setattr(table, "io", counted)
    inspected = metadata_table(table, "files")

    def read(text: str | None) -> tuple[int, list[str]]:
        counted.paths.clear()
        rows = inspected.to_arrow(columns=["file_path"], row_filter=None if text is None else to_expression(text))
        return len([path for path in counted.paths if "snap-" not in path]), rows["file_path"].to_pylist()

    manifests, everything = read(None)
    assert manifests >= 2
    none, rows = read("partition.time_day = DATE '1999-01-01'")
    assert (none, rows) == (0, [])
    some, rows = read("spec_id = 1")
    assert 0 < some < manifests
    assert set(rows) < set(everything)
    assert read("content = 2") == (0, [])
    assert read("partition.time_day = DATE '2024-01-02' or record_count > 0") == (manifests, everything)


@pytest.mark.parametrize(
    "text", ["partition.time_day = DATE '2024-01-02'", "partition.part = 'a'", "partition.part is null", "file_count = 0"]
)
def test_a_filter_on_partitions_counts_all_of_their_files(tmp_path: Path, text: str) -> None:
    table = evolved(tmp_path)
    inspected = metadata_table(table, "partitions")
    bound = bind(to_expression(text), inspected.schema)
    every = inspected.to_arrow()
    kept = inspected.to_arrow(row_filter=to_expression(text))
    expected = [repr(row) for batch in every.to_batches() for row in batch.filter(arrow_mask(bound, batch)).to_pylist()]
    assert sorted(expected) == sorted(
        repr(row) for batch in kept.to_batches() for row in batch.filter(arrow_mask(bound, batch)).to_pylist()
    )
    assert expected or text == "file_count = 0"


def test_a_filter_on_the_reference_reads_that_manifest_list_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = with_deletes(tmp_path)
    counted = CountedReads(table.io)
    monkeypatch.setattr(table, "io", counted)
    inspected = metadata_table(table, "all_manifests")
    wanted = table.snapshots()[1]
    rows = inspected.to_arrow(row_filter=to_expression(f"reference_snapshot_id = {wanted.snapshot_id}")).to_pylist()
    assert counted.paths == [wanted.manifest_list]
    assert rows == [row for row in inspected.to_arrow().to_pylist() if row["reference_snapshot_id"] == wanted.snapshot_id]
