"""Files that are not what their manifest entries describe: another file at the path of a data file or delete file, a truncated one, or none."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from tests.datafile.delete_files import position_deletes

from icefloe import SqlCatalog
from icefloe.errors import DataFileFormatError, FormatWarning, NoSuchFileError
from icefloe.spec.manifest.data_file import DataFile
from icefloe.table import Table

DAYS = ("2024-01-03", "2024-02-04")


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SqlCatalog]:
    with SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path)) as opened:
        opened.create_namespace("db")
        yield opened


def days(catalog: SqlCatalog, file_format: str) -> tuple[Table, list[DataFile]]:
    """Create `db.t` with a file for each day: 200 rows of the first, 300 of the second."""
    schema = pa.schema([("day", pa.string()), ("n", pa.int64())])
    table = catalog.create_table("db.t", schema, partition_spec=["day"], properties={"write.format.default": file_format})
    for day, rows in zip(DAYS, (200, 300), strict=True):
        table.append(pa.table({"day": [day] * rows, "n": range(rows)}, schema=schema))
    files = sorted((task.file for task in table.scan().plan_files()), key=lambda file: file.record_count)
    return table, files


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_another_file_at_the_path_of_a_data_file_is_refused_with_both_numbers_of_rows_and_bytes(
    catalog: SqlCatalog, file_format: str
) -> None:
    table, (first, second) = days(catalog, file_format)
    shutil.copy(first.file_path, second.file_path)
    for read in (
        lambda: table.scan(f"day = '{DAYS[1]}'").to_arrow(),
        lambda: table.scan("n > 5").count(),
        lambda: table.scan(limit=1000).to_arrow(),
        lambda: table.delete("n = 7"),
    ):
        with pytest.raises(DataFileFormatError) as caught:
            read()
        assert caught.value.path == second.file_path
        assert "it has 200 rows, and its manifest entry states 300" in caught.value.message
        assert f"{first.file_size_in_bytes} bytes, and its manifest entry states {second.file_size_in_bytes}" in caught.value.message
    with pytest.raises(DataFileFormatError) as caught:
        table.scan().to_arrow()
    assert caught.value.table == "lake.db.t"
    assert table.scan(f"day = '{DAYS[0]}'").to_arrow().num_rows == 200


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_a_file_with_the_same_rows_and_another_size_is_read_with_a_warning(catalog: SqlCatalog, file_format: str) -> None:
    table, (_, second) = days(catalog, file_format)
    if file_format == "parquet":
        pq.write_table(pq.read_table(second.file_path), second.file_path, compression="none")
    else:
        orc.write_table(orc.read_table(second.file_path), second.file_path, compression="snappy", stripe_size=4096)
    size = Path(second.file_path).stat().st_size
    with pytest.warns(FormatWarning, match=f"{size} bytes, and its manifest entry states {second.file_size_in_bytes}"):
        assert table.scan(f"day = '{DAYS[1]}'", selected_fields=("day",)).to_arrow().num_rows == 300


def test_a_truncated_file_is_refused_with_its_size_and_that_of_its_manifest_entry(catalog: SqlCatalog) -> None:
    table, (_, second) = days(catalog, "parquet")
    whole = Path(second.file_path).read_bytes()
    Path(second.file_path).write_bytes(whole[:-10])
    with pytest.raises(DataFileFormatError, match=f"it has {len(whole) - 10} bytes, and its manifest entry states {len(whole)}"):
        table.scan().to_arrow()


def test_another_file_at_the_path_of_a_position_delete_file_is_refused(catalog: SqlCatalog) -> None:
    table, (first, second) = days(catalog, "parquet")
    path = Path(table.location()) / "data" / "deletes.parquet"
    deletes = position_deletes(path, [(second.file_path, position) for position in range(9)], partition=second.partition)
    with table.update_snapshot().row_delta() as delta:
        delta.add_deletes(deletes)
    assert table.scan().to_arrow().num_rows == 491
    position_deletes(path, [(second.file_path, 3)])
    with pytest.raises(DataFileFormatError, match="it has 1 rows, and its manifest entry states 9") as caught:
        table.scan().to_arrow()
    assert "roll the table back" in str(caught.value.next_step)
    assert table.scan(f"day = '{DAYS[0]}'").to_arrow().num_rows == first.record_count


def test_the_next_step_of_a_missing_file_removes_it_from_the_table(catalog: SqlCatalog) -> None:
    table, (_, second) = days(catalog, "parquet")
    Path(second.file_path).unlink()
    with pytest.raises(NoSuchFileError) as caught:
        table.scan().to_arrow()
    assert "with table.update_snapshot().delete_files() as removal: removal.delete_file(path)" in str(caught.value.next_step)
    with table.update_snapshot().delete_files() as removal:
        removal.delete_file(str(caught.value.path))
    assert table.scan().to_arrow().num_rows == 200


def test_a_delete_of_whole_partitions_removes_a_missing_file_too(catalog: SqlCatalog) -> None:
    table, (_, second) = days(catalog, "parquet")
    Path(second.file_path).unlink()
    table.delete(f"day = '{DAYS[1]}'")
    assert table.scan().to_arrow().num_rows == 200
