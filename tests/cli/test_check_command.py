"""`icefloe check`, and `show data-file` of a file that is not the one that was committed."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.cli.conftest import Command
from tests.datafile.delete_files import vectors

from icefloe import SqlCatalog
from icefloe.inspect import check
from icefloe.kernel.manifest.data_file import DataFile
from icefloe.table import Table

SCHEMA = pa.schema([("day", pa.string()), ("n", pa.int64())])


def lake(folder: Path, *formats: str) -> tuple[Table, list[DataFile]]:
    """Create `db.t` with one file of 10, 20, 30 ... rows in each format, in this order."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", SCHEMA, partition_spec=["day"], properties={"format-version": "3"})
    for number, file_format in enumerate(formats, start=1):
        table.set_properties({"write.format.default": file_format})
        table.append(pa.table({"day": [f"2024-01-0{number}"] * number * 10, "n": range(number * 10)}, schema=SCHEMA))
    return table, sorted((task.file for task in table.scan().plan_files()), key=lambda file: file.record_count)


def test_a_sound_table_has_no_faults(icefloe: Command, as_json: Callable[..., Any], tmp_path: Path) -> None:
    table, _ = lake(tmp_path, "parquet", "orc", "avro")
    table.delete("n = 3")
    run = icefloe("check", "db.t", "--warehouse", tmp_path)
    assert run.exit_code == 0, run.output
    assert "0 faults" in run.stdout
    found = as_json("check", "db.t", "--warehouse", tmp_path)
    assert found["findings"] == []
    assert found["files"] == len(table.inspect.files())
    assert check(table).to_dict() == found


def test_every_fault_is_found_at_once(icefloe: Command, tmp_path: Path) -> None:
    table, files = lake(tmp_path, "parquet", "parquet", "orc", "orc", "avro", "avro", "parquet")
    sound, replaced, orc, other_orc, avro, other_avro, cut = (Path(file.file_path) for file in files)
    shutil.copy(sound, replaced)
    shutil.copy(orc, other_orc)
    avro.unlink()
    other_avro.write_bytes(other_avro.read_bytes()[:-5])
    cut.write_bytes(cut.read_bytes()[:-5])
    found = {(Path(finding.path), finding.fault.value): finding for finding in check(table).findings}
    assert set(found) == {
        (replaced, "other row count"),
        (replaced, "other size"),
        (other_orc, "other row count"),
        (other_orc, "other size"),
        (avro, "missing"),
        (other_avro, "damaged"),
        (other_avro, "other size"),
        (cut, "damaged"),
        (cut, "other size"),
    }
    rows = found[replaced, "other row count"]
    assert (rows.expected, rows.actual, rows.content) == (20, 10, "data")
    size = found[cut, "other size"]
    assert size.expected is not None
    assert size.actual == size.expected - 5
    run = icefloe("check", "db.t", "--warehouse", tmp_path)
    assert run.exit_code == 1
    assert "7 files in 7 manifests checked, 9 faults" in run.stdout
    assert "delete_files() as removal" in run.stdout
    assert icefloe("check", "db.t", "--warehouse", tmp_path, "--json").exit_code == 1


@pytest.mark.parametrize("width", [60, 80, 100])
def test_no_path_and_no_number_of_a_fault_is_cut(icefloe: Command, tmp_path: Path, terminal: Callable[[int], None], width: int) -> None:
    _, files = lake(tmp_path, "parquet", "parquet")
    shutil.copy(files[0].file_path, files[1].file_path)
    terminal(width)
    printed = icefloe("check", "db.t", "--warehouse", tmp_path).stdout
    assert max(map(len, printed.splitlines())) <= width
    assert Path(files[1].file_path).name in printed.replace("\n", "").replace(" ", "")
    assert f"{files[0].file_size_in_bytes:,}" in printed
    assert f"{files[1].file_size_in_bytes:,}" in printed


def test_another_snapshot_is_checked_and_a_name_that_does_not_exist_is_refused(
    icefloe: Command, as_json: Callable[..., Any], tmp_path: Path
) -> None:
    table, files = lake(tmp_path, "parquet", "parquet")
    Path(files[1].file_path).unlink()
    first = table.snapshots()[0].snapshot_id
    table.manage_snapshots().create_tag(snapshot_id=first, tag_name="before").commit()
    found = as_json("check", "db.t", "--snapshot", "before", "--warehouse", tmp_path)
    assert (found["snapshot_id"], found["files"], found["findings"]) == (first, 1, [])
    assert icefloe("check", "db.t", "--warehouse", tmp_path).exit_code == 1
    assert "no snapshot, branch or tag 'x'" in icefloe("check", "db.t", "--snapshot", "x", "--warehouse", tmp_path).stderr


def test_a_missing_manifest_is_a_fault(icefloe: Command, tmp_path: Path) -> None:
    table, _ = lake(tmp_path, "parquet", "parquet")
    snapshot = table.current_snapshot()
    assert snapshot is not None
    Path(snapshot.manifests(table.io)[0].manifest_path).unlink()
    (finding,) = check(table).findings
    assert (finding.content, finding.fault.value) == ("manifest", "missing")
    assert icefloe("check", "db.t", "--warehouse", tmp_path).exit_code == 1


def test_deletion_vectors_are_compared_with_their_entries(tmp_path: Path) -> None:
    table, files = lake(tmp_path, "parquet", "parquet")
    path = Path(table.location()) / "data" / "deletes.puffin"
    (vector,) = vectors(path, {files[0].file_path: [1, 2, 3]}, partition=files[0].partition)
    with table.update_snapshot().row_delta() as delta:
        delta.add_deletes(vector)
    assert check(table).findings == ()
    vectors(path, {files[0].file_path: [4]})
    faults = [(finding.fault.value, finding.content) for finding in check(table).findings]
    assert ("damaged", "position_deletes") in faults
    path.unlink()
    assert [finding.fault.value for finding in check(table).findings] == ["missing"]


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_show_data_file_states_what_differs_from_the_manifest(icefloe: Command, tmp_path: Path, file_format: str) -> None:
    _, (first, second) = lake(tmp_path, file_format, file_format)
    words = ("show", "data-file", "db.t", second.file_path, "--warehouse", tmp_path)
    sound = icefloe(*words)
    assert sound.exit_code == 0
    assert "the manifest states" not in sound.stdout
    shutil.copy(first.file_path, second.file_path)
    run = icefloe(*words)
    assert run.exit_code == 1
    assert f"{first.file_size_in_bytes:,} bytes; the manifest states {second.file_size_in_bytes:,}" in run.stdout
    assert "10; the manifest states 20" in run.stdout
