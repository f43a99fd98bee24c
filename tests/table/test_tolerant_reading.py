"""Tolerant reading: harmless deviations of manifest lists are warnings with the id of the rule, what could change rows stays an error."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pytest
from tests.table.deviating import list_path, local, made, one_more_added, rewrite, warned

from icefloe.errors import FormatError, IcefloeError, ManifestFormatError
from icefloe.inspect import trace
from icefloe.spec.tolerance import Deviation
from icefloe.table import Table

DOCS = Path(__file__).parents[2] / "docs"


def numbers(table: Table, **options: Any) -> list[int | None]:
    values: list[int | None] = table.scan(**options).to_arrow()["n"].to_pylist()
    return sorted(values, key=lambda value: -1 if value is None else value)


LEFT = [None, *range(10, 99)]


def no_deleted(record: dict[str, Any]) -> None:
    record["deleted_files_count"] = 0


def nothing_live(record: dict[str, Any]) -> None:
    record["existing_files_count"] = record["added_files_count"] = 0


def without_length(record: dict[str, Any]) -> None:
    record["manifest_length"] = None


def without_contains_null(record: dict[str, Any]) -> None:
    for summary in record["partitions"]:
        summary["contains_null"] = None


@pytest.mark.parametrize("version", ["2", "3"])
@pytest.mark.parametrize(
    ("change", "nullable", "deviation"),
    [
        (one_more_added, None, Deviation.MANIFEST_FILE_COUNT),
        (without_length, "manifest_length", Deviation.MANIFEST_LIST_FIELD),
        (without_contains_null, "contains_null", Deviation.MANIFEST_LIST_FIELD),
    ],
)
def test_a_harmless_deviation_is_an_error_and_in_a_tolerant_scan_a_warning_with_the_id_of_its_rule(
    tmp_path: Path, version: str, change: Callable[[dict[str, Any]], None], nullable: str | None, deviation: Deviation
) -> None:
    table = made(tmp_path, version=version)
    rewrite(list_path(table), change, nullable)
    with pytest.raises(ManifestFormatError):
        numbers(table)
    with warned(deviation):
        assert numbers(table, tolerant=True) == LEFT
    with warned(deviation):
        assert numbers(table, tolerant=True, row_filter="part is null") == [None]
    with warned(deviation):
        assert table.scan(tolerant=True).count() == 90
    with warned(deviation):
        trace(table, "n > 50", tolerant=True)
    # What was read tolerantly is not kept for reads that check it.
    with pytest.raises(ManifestFormatError):
        numbers(table)
    with pytest.raises(ManifestFormatError):
        trace(table)


def test_a_wrong_length_alone_is_a_warning_by_default(tmp_path: Path) -> None:
    table = made(tmp_path)
    rewrite(list_path(table), lambda record: record.update(manifest_length=record["manifest_length"] + 9))
    with warned(Deviation.MANIFEST_LENGTH):
        assert numbers(table) == LEFT


def test_a_tolerant_scan_of_a_sound_table_warns_of_nothing(tmp_path: Path) -> None:
    table = made(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert numbers(table, tolerant=True) == LEFT
        assert table.scan(tolerant=True).count() == 90


def test_rows_of_removed_files_do_not_return_where_the_list_counts_no_removed_file(tmp_path: Path) -> None:
    table = made(tmp_path, mode="copy-on-write")
    rewrite(list_path(table), no_deleted)
    with pytest.raises(ManifestFormatError):
        numbers(table)
    with warned(Deviation.MANIFEST_FILE_COUNT):
        assert numbers(table, tolerant=True) == LEFT


def test_deleted_rows_do_not_return_where_the_list_counts_no_delete_file(tmp_path: Path) -> None:
    table = made(tmp_path)

    def no_deletes(record: dict[str, Any]) -> None:
        if record["content"] == 1:
            nothing_live(record)

    rewrite(list_path(table), no_deletes)
    with warned(Deviation.MANIFEST_FILE_COUNT):
        assert numbers(table, tolerant=True) == LEFT


def test_the_count_of_a_tolerant_scan_does_not_rely_on_the_counts_of_the_list(tmp_path: Path) -> None:
    table = made(tmp_path, mode="copy-on-write")
    snapshot = table.current_snapshot()
    assert snapshot is not None
    total = int(snapshot.summary["total-records"])
    assert total == 90

    def other_rows(record: dict[str, Any]) -> None:
        if record["added_files_count"]:  # both records of the writer agree on the number of rows, and the files do not
            record["deleted_files_count"] += 1

    rewrite(list_path(table), other_rows)
    with warned(Deviation.MANIFEST_FILE_COUNT):
        assert table.scan(tolerant=True).count() == 90


def both_wrong(record: dict[str, Any]) -> None:
    one_more_added(record)
    record["manifest_length"] += 1


def unknown_length_and_counts(record: dict[str, Any]) -> None:
    record["manifest_length"], record["added_files_count"] = None, record["added_files_count"] + 1


def other_content(record: dict[str, Any]) -> None:
    record["content"] = 1 - record["content"]


def unknown_spec(record: dict[str, Any]) -> None:
    record["partition_spec_id"] = 77


def unknown_content(record: dict[str, Any]) -> None:
    record["content"] = 5


@pytest.mark.filterwarnings("ignore::icefloe.errors.FormatWarning")
@pytest.mark.parametrize(
    ("change", "nullable"),
    [
        (both_wrong, None),
        (unknown_length_and_counts, "manifest_length"),
        (other_content, None),
        (unknown_spec, None),
        (unknown_content, None),
    ],
)
def test_a_list_that_could_change_rows_is_refused_by_a_tolerant_scan_too(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], nullable: str | None
) -> None:
    table = made(tmp_path)
    rewrite(list_path(table), change, nullable)
    with pytest.raises(FormatError):
        numbers(table, tolerant=True)


def manifests_of(table: Table) -> list[Path]:
    with list_path(table).open("rb") as file:
        return [local(record["manifest_path"]) for record in fastavro.reader(file)]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


def removed(path: Path) -> None:
    path.unlink()


def other_status(path: Path) -> None:
    rewrite(path, lambda record: record.update(status=7))


def more_rows(path: Path) -> None:
    rewrite(path, lambda record: record["data_file"].update(record_count=record["data_file"]["record_count"] + 1))


@pytest.mark.filterwarnings("ignore::icefloe.errors.FormatWarning")
@pytest.mark.parametrize("damage", [cut, removed, other_status, more_rows])
def test_a_manifest_or_data_file_that_could_change_rows_is_refused_by_a_tolerant_scan_too(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    table = made(tmp_path)
    for path in manifests_of(table):
        damage(path)
    with pytest.raises(IcefloeError):
        numbers(table, tolerant=True)


def test_every_deviation_is_in_the_documentation() -> None:
    text = (DOCS / "tolerant-reading.md").read_text()
    assert [deviation for deviation in Deviation if f"`{deviation}`" not in text] == []
