"""Each rule of data files, delete files and statistics files is found where it is broken, and only there."""

import shutil
import struct
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.checks.file_breaks import FILE_BREAKS, VALUES, edit_entry, file_of, rewritten, with_field, written_files
from tests.checks.stored_table import StoredTable

from icefloe.checks import file_check
from icefloe.checks.rules import rule_named
from icefloe.datafile.parquet.parquet_rows import ParquetRows
from icefloe.datafile.stored_batch import reading


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], StoredTable]:
    """Return a function that restores a sound table of a format version: paths in it are absolute, so a copy is put where it was written."""
    folder = tmp_path_factory.mktemp("tables")
    tables: dict[int, StoredTable] = {}

    def restored(version: int) -> StoredTable:
        place, copy = folder / f"v{version}", folder / f"copy{version}"
        if version not in tables:
            place.mkdir()
            tables[version] = written_files(place, version)
            shutil.copytree(place, copy)
        shutil.rmtree(place)
        shutil.copytree(copy, place)
        return tables[version]

    return restored


@pytest.mark.parametrize("version", [2, 3])
def test_a_sound_table_breaks_no_rule_of_files_and_rows(sound: Callable[[int], StoredTable], version: int) -> None:
    result = sound(version).validated(VALUES)
    assert result.findings == ()


@pytest.mark.parametrize("rule_id", FILE_BREAKS)
def test_a_broken_rule_of_files_is_found_and_no_other(sound: Callable[[int], StoredTable], rule_id: str) -> None:
    broken = FILE_BREAKS[rule_id]
    stored = sound(broken.version)
    broken.change(stored)
    result = stored.validated(broken.arguments)
    assert {finding.rule for finding in result.findings} == {rule_id, *broken.also}, [finding.message for finding in result.findings]
    for finding in result.findings:
        assert finding.severity is rule_named(finding.rule).severity
        assert finding.table == "t"
        assert finding.message
        assert finding.next_step
        assert finding.file
    assert sum(result.counts.values()) == len(result.findings)


@pytest.mark.parametrize("version", [2, 3])
def test_files_that_are_checked_one_by_one_have_the_findings_of_all_together(
    sound: Callable[[int], StoredTable], monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    stored = sound(version)
    for path in stored.metadata.parents[1].rglob("data/**/*.parquet"):
        path.write_bytes(path.read_bytes()[:-4] + b"????")
    together = stored.validated(VALUES)
    assert together.counts["file-damaged"] == 2
    monkeypatch.setattr(file_check, "FILES_OF_A_TASK", 1)
    monkeypatch.setattr(file_check, "_FILES_AT_ONCE", 1)
    assert stored.validated(VALUES).counts == together.counts


def test_a_row_id_twice_in_a_file_is_found_across_its_row_groups(sound: Callable[[int], StoredTable]) -> None:
    stored = sound(3)
    rewritten(lambda table: with_field(table, "_row_id", 2147483540, pa.chunked_array([[1, 2, 1]])), VALUES, version=3).change(stored)
    path = file_of(stored)
    pq.write_table(pq.ParquetFile(path).read(), path, row_group_size=1)
    edit_entry(stored, lambda file: file.update(file_size_in_bytes=path.stat().st_size))
    (finding,) = stored.validated(VALUES).findings
    assert (finding.rule, finding.field_id) == ("row-lineage", 2147483540)
    assert "has a value of _row_id twice" in finding.message


@pytest.mark.parametrize(
    ("numbers", "bounds", "found"),
    [
        ([0.0, 1.0, None], (0.0, 1.0), []),
        ([0.0, float("nan"), 0.0], (0.0, 0.0), []),
        ([-1.0, -0.0, None], (-1.0, -0.0), []),
        ([-0.0, 0.0, None], (-0.0, 0.0), []),
        ([-0.0, 1.0, None], (0.0, 1.0), ["the lower bound"]),
        ([-1.0, 0.0, None], (-1.0, -0.0), ["the upper bound"]),
        ([-0.0, 0.0, None], (0.0, -0.0), ["the lower bound", "the upper bound"]),
    ],
)
def test_a_zero_bound_is_compared_with_the_zeros_of_the_rows(
    sound: Callable[[int], StoredTable], numbers: list[float | None], bounds: tuple[float, float], found: list[str]
) -> None:
    stored = sound(2)
    rewritten(lambda table: with_field(table, "x", 3, pa.chunked_array([numbers])), VALUES).change(stored)
    names = ("lower_bounds", "upper_bounds")
    stated = {name: [{"key": 3, "value": struct.pack("<d", bound)}] for name, bound in zip(names, bounds, strict=True)}
    edit_entry(stored, lambda file: file.update(stated))
    messages = [finding.message for finding in stored.findings(VALUES) if finding.rule == "column-bounds-zero"]
    assert len(messages) == len(found)
    assert all(text in message for text, message in zip(found, messages, strict=True))


def test_a_file_that_takes_more_memory_than_there_is_ends_no_validation_and_is_not_called_damaged(
    sound: Callable[[int], StoredTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = sound(2)

    def batches(*_: object) -> None:
        with reading("the file"):
            raise pa.ArrowMemoryError("malloc of size 2147483648 failed")

    monkeypatch.setattr(ParquetRows, "batches", batches)
    findings = stored.findings(VALUES)
    assert {finding.rule for finding in findings} == {"not-checked"}
    assert all("which does not mean that it is damaged" in finding.message for finding in findings)
