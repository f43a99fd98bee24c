"""Tables whose manifest lists contain wrong manifest lengths, as some writers produce them: they are read, changed, inspected and expired with a warning."""

import warnings
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from icefloe import FormatWarning, SqlCatalog
from icefloe.errors import AvroFormatError
from icefloe.inspect import manifest, metadata_table
from icefloe.table import Table

ROWS = pa.table({"n": pa.array(range(100), pa.int64())})


def made(folder: Path, version: str) -> Table:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    catalog.create_namespace("db")
    properties = {"format-version": version, "write.delete.mode": "copy-on-write" if version == "1" else "merge-on-read"}
    table = catalog.create_table("db.t", ROWS.schema, properties=properties)
    table.append(ROWS)
    if version != "1":
        table.delete("n < 10")
    return table


def change_list(table: Table, **changes: Any) -> None:
    """Rewrite the current manifest list with other values; an integer is added to the existing value, None replaces it."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.manifest_list is not None
    path = Path(snapshot.manifest_list.removeprefix("file://"))
    with path.open("rb") as file:
        reader = fastavro.reader(file)
        schema, records = reader.writer_schema, list(reader)
    for record in records:
        record.update({key: None if value is None else record[key] + value for key, value in changes.items()})
    with path.open("wb") as file:
        fastavro.writer(file, schema, records)


@pytest.mark.parametrize("version", ["1", "2", "3"])
@pytest.mark.parametrize("difference", [-7, 1000])
def test_a_table_is_read_changed_and_inspected_with_a_warning(tmp_path: Path, version: str, difference: int) -> None:
    table = made(tmp_path, version)
    change_list(table, manifest_length=difference)
    rows = 100 if version == "1" else 90
    with pytest.warns(FormatWarning, match="its manifest list states"):
        assert table.scan().to_arrow().num_rows == rows
    with pytest.warns(FormatWarning, match="its manifest list states"):
        assert metadata_table(table, "files").to_arrow().num_rows == (1 if version == "1" else 2)
    with pytest.warns(FormatWarning, match="its manifest list states"):
        shown = manifest(table)
    assert shown.overview.manifest_length == shown.file_size + difference
    assert f"(the manifest list states {shown.overview.manifest_length} bytes)" in str(shown)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FormatWarning)
        table.delete("n < 20")
        table.append(ROWS)
        assert table.scan().to_arrow().num_rows == 180


def test_files_of_expired_snapshots_are_deleted_with_wrong_manifest_lengths(tmp_path: Path) -> None:
    table = made(tmp_path, "2")
    change_list(table, manifest_length=11)
    with pytest.warns(FormatWarning, match="its manifest list states"):
        table.overwrite(ROWS)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    with pytest.warns(FormatWarning, match="its manifest list states"):
        table.expire_snapshots(retain_last=1, older_than=snapshot.timestamp_ms)
    assert len(list(tmp_path.rglob("*.parquet"))) == 1
    assert table.scan().to_arrow().num_rows == 100


def test_a_truncated_manifest_is_refused(tmp_path: Path) -> None:
    table = made(tmp_path, "2")
    change_list(table, manifest_length=-7)
    for path in tmp_path.rglob("*-m0.avro"):
        path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(AvroFormatError, match="cut short"):
        table.scan().to_arrow()
