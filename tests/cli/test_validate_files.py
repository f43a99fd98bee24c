"""`icefloe validate` with data files, and `show data-file` of a file that is not the one that was committed."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.cli.conftest import Command
from tests.datafile.delete_files import vectors

from icefloe import SqlCatalog
from icefloe.checks.validation import Validation
from icefloe.inspect import validate
from icefloe.spec.manifest.data_file import DataFile
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


def rules_of(found: Validation) -> set[tuple[str, str]]:
    return {(finding.rule, finding.path or "") for finding in found.findings}


def test_a_sound_table_of_every_format_has_no_findings(icefloe: Command, as_json: Callable[..., Any], tmp_path: Path) -> None:
    table, _ = lake(tmp_path, "parquet", "orc", "avro")
    table.delete("n = 3")
    for option in ("--files", "--data", "--values"):
        run = icefloe("validate", "db.t", option, "--warehouse", tmp_path)
        assert run.exit_code == 0, run.output
        assert as_json("validate", "db.t", option, "--warehouse", tmp_path)["tables"][0]["findings"] == []
    assert validate(table, files=True, data=True, values=True).findings == ()


def test_every_faulty_file_is_found_at_once(icefloe: Command, tmp_path: Path) -> None:
    table, files = lake(tmp_path, "parquet", "parquet", "orc", "orc", "avro", "avro", "parquet")
    sound, replaced, orc, other_orc, avro, other_avro, cut = (file.file_path for file in files)
    shutil.copy(sound, replaced)
    shutil.copy(orc, other_orc)
    Path(avro).unlink()
    for path in (other_avro, cut):
        Path(path).write_bytes(Path(path).read_bytes()[:-5])
    found = validate(table, data=True)
    assert rules_of(found) >= {
        ("file-row-count", replaced),
        ("file-size", replaced),
        ("file-row-count", other_orc),
        ("file-size", other_orc),
        ("file-missing", avro),
        ("file-damaged", other_avro),
        ("file-size", other_avro),
        ("file-damaged", cut),
        ("file-size", cut),
    }
    assert {path for _, path in rules_of(found)} == {replaced, other_orc, avro, other_avro, cut}
    rows = next(finding for finding in found.findings if (finding.rule, finding.path) == ("file-row-count", replaced))
    assert (rows.expected, rows.actual) == (10, 20)
    run = icefloe("validate", "db.t", "--data", "--warehouse", tmp_path)
    assert run.exit_code == 1
    assert "file-missing" in run.stdout
    assert icefloe("validate", "db.t", "--data", "--warehouse", tmp_path, "--json").exit_code == 1
    assert icefloe("validate", "db.t", "--warehouse", tmp_path).exit_code == 0


def test_another_snapshot_is_validated_and_a_name_that_does_not_exist_is_refused(icefloe: Command, tmp_path: Path) -> None:
    table, files = lake(tmp_path, "parquet", "parquet")
    Path(files[1].file_path).unlink()
    first = table.snapshots()[0].snapshot_id
    table.manage_snapshots().create_tag(snapshot_id=first, tag_name="before").commit()
    place = ("--files", "--warehouse", tmp_path)
    for name in ("before", first):
        assert icefloe("validate", "db.t", "--snapshot", name, *place).exit_code == 0
    assert icefloe("validate", "db.t", *place).exit_code == 1
    assert icefloe("validate", "db.t", "--current", *place).exit_code == 1
    assert "no snapshot, branch or tag 'x'" in icefloe("validate", "db.t", "--snapshot", "x", *place).stderr
    assert "excludes --current" in icefloe("validate", "db.t", "--snapshot", "before", "--current", *place).stderr


def test_deletion_vectors_are_compared_with_their_entries(tmp_path: Path) -> None:
    table, files = lake(tmp_path, "parquet", "parquet")
    path = Path(table.location()) / "data" / "deletes.puffin"
    (vector,) = vectors(path, {files[0].file_path: [1, 2, 3]}, partition=files[0].partition)
    with table.update_snapshot().row_delta() as delta:
        delta.add_deletes(vector)
    assert validate(table, data=True).findings == ()
    vectors(path, {files[0].file_path: [4]})
    assert "vector-damaged" in {rule for rule, _ in rules_of(validate(table, data=True))}
    path.unlink()
    assert rules_of(validate(table, data=True)) == {("file-missing", str(path))}


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
