"""`table.maintenance.rewrite_table_path()`: the copy reads equal without the original, with every kind of delete; failures change nothing."""

import csv
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.maintenance.test_rewrite_data_files import made, small_files
from tests.repetitions import examples

from icefloe import SqlCatalog
from icefloe.datafile.deletes.delete_file_reader import read_position_deletes
from icefloe.datafile.deletes.moved_deletes import write_moved_deletes
from icefloe.errors import (
    DataFileFormatError,
    FileAlreadyExistsError,
    FormatError,
    IcefloeError,
    InvalidInputError,
    NoSuchFileError,
    StorageUnavailableError,
)
from icefloe.io import whole_output
from icefloe.io.local_file_io import LocalFileIO
from icefloe.maintenance import copied_files
from icefloe.operations.metadata_cache import load_metadata
from icefloe.procedures import call
from icefloe.spec.manifest import moved_manifest
from icefloe.spec.manifest.data_file import DataFile, FileContent, FileFormat
from icefloe.spec.path_prefix import PathPrefix, path_prefix
from icefloe.table import Table
from icefloe.testing.fault_injection import Fault, Faults, FaultyFileIO

LINEAGE = ("_row_id", "_last_updated_sequence_number")
MERGE_ON_READ = {"write.delete.mode": "merge-on-read", "write.delete.granularity": "partition"}


def with_history(folder: Path, version: int, seed: int = 1, steps: int = 3, **properties: str) -> Table:
    """Return a table of several snapshots, with a branch, a tag, statistics, and the deletes that its version allows."""
    numbers = random.Random(seed)
    table = made(folder, version, ("kind",), **(MERGE_ON_READ if version > 1 else {}), **properties)
    small_files(table, 3)
    table.manage_snapshots().create_tag(table.metadata.current_snapshot_id, "first").commit()
    for _ in range(steps):
        ids = [numbers.randrange(60) for _ in range(numbers.randrange(1, 20))]
        table.append(pa.table({"id": ids, "kind": [numbers.choice(["a", "b", None]) for _ in ids]}))
        table.delete(f"id = {numbers.randrange(60)}")
        if version > 1 and numbers.random() < 0.5:
            table.delete_keys(pa.table({"id": [numbers.randrange(60)]}), ["id"])
        if numbers.random() < 0.2:
            table.rewrite_manifests()
        if numbers.random() < 0.2:
            table.maintenance.rewrite_data_files(options={"min-input-files": 2})
    table.manage_snapshots().create_branch(table.metadata.current_snapshot_id, "audit").commit()
    table.append(pa.table({"id": [1000], "kind": ["a"]}), branch="audit")
    table.compute_statistics(["id"])
    table.compute_partition_statistics()
    return table


def rows_of(table: Any, snapshot_id: int) -> list[str]:
    names = ("id", "kind", *(LINEAGE if table.metadata.format_version > 2 else ()))
    return sorted(map(str, table.scan(selected_fields=names, snapshot_id=snapshot_id).to_arrow().to_pylist()))


def history(table: Any) -> dict[int, list[str]]:
    return {snapshot.snapshot_id: rows_of(table, snapshot.snapshot_id) for snapshot in table.snapshots()}


def registered(folder: Path, metadata_file: str) -> Table:
    catalog = SqlCatalog("copy", uri=f"sqlite:///{folder}/copy.db", warehouse=str(folder))
    catalog.create_namespace_if_not_exists("db")
    name = f"db.t{len(catalog.list_tables('db'))}"
    return catalog.register_table(name, metadata_file)


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith("catalog.db")}


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    for name in ("from", "to"):
        (tmp_path / name).mkdir()
    return tmp_path / "from", tmp_path / "to"


@pytest.mark.slow
@settings(max_examples=9, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(version=st.sampled_from([1, 2, 3]), seed=st.integers(0, 10_000), file_format=st.sampled_from(["parquet", "orc", "avro"]))
def test_a_copy_reads_equal_without_the_original(
    tmp_path_factory: pytest.TempPathFactory, version: int, seed: int, file_format: str
) -> None:
    folder = tmp_path_factory.mktemp("lake")
    for name in ("from", "to"):
        (folder / name).mkdir()
    table = with_history(folder / "from", version, seed, 5, **{"write.format.default": file_format})
    before, stored = history(table), files_below(folder / "from")
    statistics, partitions = table.statistics(), table.partition_statistics().to_pylist()
    result = table.maintenance.rewrite_table_path(table.location(), str(folder / "to/t"), copy=True, verify=True)
    assert files_below(folder / "from") == stored
    assert result.verified is not None
    assert result.verified.snapshots == len(before)
    assert result.copied_files == result.files > result.verified.files
    shutil.rmtree(folder / "from/db")
    copy = registered(folder / "to", result.metadata_location)
    assert history(copy) == before
    assert copy.refs() == table.refs()
    assert copy.statistics().distinct_values == statistics.distinct_values  # type: ignore[union-attr]
    assert copy.partition_statistics().to_pylist() == partitions
    copy.append(pa.table({"id": [5], "kind": ["b"]}))
    copy.delete("id = 5")
    assert str(folder / "from") not in "".join(map(str, copy.inspect.all_files().to_pylist()))
    assert str(folder / "from") not in Path(result.metadata_location).read_text()


@pytest.mark.parametrize("version", [1, pytest.param(2, marks=pytest.mark.slow), 3])
def test_later_commits_are_copied_on_top_of_an_earlier_copy(places: tuple[Path, Path], version: int) -> None:
    source, target = places
    table = with_history(source, version, 3)
    first = table.maintenance.rewrite_table_path(table.location(), str(target / "t"), copy=True, verify=True)
    start = table.metadata_location
    table.append(pa.table({"id": [7, 8], "kind": ["a", "b"]}))
    table.delete("id = 7")
    table.rewrite_manifests()
    table.maintenance.rewrite_data_files(options={"min-input-files": 2, "rewrite-all": True})
    later = table.maintenance.rewrite_table_path(
        table.location(), str(target / "t"), start_version=start.rpartition("/")[2], copy=True, verify=True
    )
    assert later.copied_files < first.copied_files
    assert later.metadata_location != first.metadata_location
    copy = registered(target, later.metadata_location)
    shutil.move(source / "db", source / "gone")
    after = history(copy)
    shutil.move(source / "gone", source / "db")
    assert after == history(table)
    nothing = table.maintenance.rewrite_table_path(
        table.location(), str(target / "t"), start_version=table.metadata_location, copy=True, verify=True
    )
    assert (nothing.copied_files, nothing.present_files) == (0, 1)


def test_metadata_files_that_an_earlier_copy_left_out_stay_out(places: tuple[Path, Path]) -> None:
    source, target = places
    table = with_history(source, 2, 3, 2)
    gone = table.metadata.metadata_log[1].metadata_file
    Path(gone).unlink()
    table.maintenance.rewrite_table_path(table.location(), str(target / "t"), copy=True)
    start = table.metadata_location
    table.append(pa.table({"id": [7], "kind": ["a"]}))
    later = table.maintenance.rewrite_table_path(table.location(), str(target / "t"), start_version=start, copy=True, verify=True)
    assert later.missing_versions == (gone,)
    copy = registered(target, later.metadata_location)
    assert all(Path(entry.metadata_file).exists() for entry in copy.metadata.metadata_log)


def test_an_incremental_copy_needs_the_earlier_one(places: tuple[Path, Path]) -> None:
    source, target = places
    table = with_history(source, 2)
    start = table.metadata_location
    table.append(pa.table({"id": [7], "kind": ["a"]}))
    with pytest.raises(InvalidInputError, match="copy of the start version is not at"):
        table.maintenance.rewrite_table_path(table.location(), str(target / "t"), start_version=start)
    with pytest.raises(InvalidInputError, match="is not before the version"):
        table.maintenance.rewrite_table_path(
            table.location(), str(target / "t"), start_version=table.metadata_location, end_version=start.rpartition("/")[2]
        )
    with pytest.raises(InvalidInputError, match="no version"):
        table.maintenance.rewrite_table_path(table.location(), str(target / "t"), start_version="v7.metadata.json")


def test_an_older_version_is_copied_as_it_was(places: tuple[Path, Path]) -> None:
    source, target = places
    table = with_history(source, 2)
    version, rows = table.metadata_location, history(table)
    table.append(pa.table({"id": [7], "kind": ["a"]}))
    result = table.maintenance.rewrite_table_path(
        table.location(), str(target / "t"), end_version=version.rpartition("/")[2], copy=True, verify=True
    )
    assert result.latest_version == version.rpartition("/")[2]
    assert history(registered(target, result.metadata_location)) == rows


def test_files_are_staged_and_listed_for_another_tool_and_a_dry_run_writes_nothing(places: tuple[Path, Path]) -> None:
    source, target = places
    table = with_history(source, 3)
    prefix, stored = str(target / "a, b"), files_below(source)
    planned = table.maintenance.rewrite_table_path(table.location(), prefix, dry_run=True)
    assert (planned.dry_run, planned.file_list_location, files_below(source)) == (True, None, stored)
    result = table.maintenance.rewrite_table_path(table.location(), prefix, staging_location=str(target / "staged"))
    assert (result.files, result.rewritten_manifests, result.rewritten_delete_files) == (
        planned.files,
        planned.rewritten_manifests,
        planned.rewritten_delete_files,
    )
    assert files_below(source) == stored
    assert result.file_list_location == str(target / "staged/file-list")
    with open(result.file_list_location, newline="") as lines:
        pairs = list(csv.reader(lines))
    assert len(pairs) == result.files
    assert all(to.startswith(f"{prefix}/") for _, to in pairs)
    for start, to in pairs:
        Path(to).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(start, to)
    assert table.maintenance.rewrite_table_path(table.location(), prefix, verify=True).staging_location is None
    assert files_below(source) == stored
    again = table.maintenance.rewrite_table_path(table.location(), prefix, copy=True, verify=True, create_file_list=False)
    assert (again.copied_files, again.present_files) == (0, result.files)
    assert history(registered(target, result.metadata_location)) == history(table)
    unlisted = table.maintenance.rewrite_table_path(table.location(), prefix, create_file_list=False)
    assert unlisted.file_list_location is None


def test_metadata_files_that_do_not_exist_are_left_out_of_the_log(places: tuple[Path, Path]) -> None:
    source, target = places
    table = with_history(source, 2)
    gone = table.metadata.metadata_log[1].metadata_file
    Path(gone).unlink()
    result = table.maintenance.rewrite_table_path(table.location(), str(target / "t"), copy=True, verify=True)
    assert result.missing_versions == (gone,)
    copy = registered(target, result.metadata_location)
    assert len(copy.metadata.metadata_log) == len(table.metadata.metadata_log) - 1
    assert all(Path(entry.metadata_file).exists() for entry in copy.metadata.metadata_log)


def test_a_file_elsewhere_is_refused_before_anything_is_written(places: tuple[Path, Path]) -> None:
    source, target = places
    table = with_history(source, 2)
    elsewhere = source / "db/t2/kind=a/elsewhere.parquet"
    elsewhere.parent.mkdir(parents=True)
    pq.write_table(pa.table({"id": pa.array([1], pa.int64()), "kind": ["a"]}), elsewhere)
    table.add_files([str(elsewhere)])
    stored = files_below(source)
    with pytest.raises(InvalidInputError, match=r"elsewhere\.parquet is not below the source prefix") as caught:
        table.maintenance.rewrite_table_path(table.location(), str(target / "t"), copy=True)
    assert "the table is unchanged" in str(caught.value.next_step)
    assert files_below(source) == stored
    assert files_below(target) == {}


def test_a_file_that_is_at_the_target_is_never_replaced(places: tuple[Path, Path]) -> None:
    source, target = places
    table = with_history(source, 2)
    planned = table.maintenance.rewrite_table_path(table.location(), str(target / "t"), staging_location=str(source / "staged"))
    lines = Path(str(planned.file_list_location)).read_text().splitlines()
    data = next(row for row in csv.reader(lines) if row[0].endswith(".parquet"))
    Path(data[1]).parent.mkdir(parents=True)
    Path(data[1]).write_bytes(b"x" * Path(data[0]).stat().st_size)
    with pytest.raises(FileAlreadyExistsError, match="another file is at"):
        table.maintenance.rewrite_table_path(table.location(), str(target / "t"), copy=True)
    assert set(Path(data[1]).read_bytes()) == {ord("x")}
    # Nor does a staging folder with files of the same names lose one, even where it is the table itself.
    stored = files_below(source / "db")
    for staging in (source / "staged", Path(table.location())):
        before = files_below(staging)
        with pytest.raises(FileAlreadyExistsError):
            table.maintenance.rewrite_table_path(table.location(), str(target / "u"), staging_location=str(staging))
        assert files_below(staging) == before
    assert files_below(source / "db") == stored


def test_a_place_of_the_table_itself_is_no_target(places: tuple[Path, Path]) -> None:
    """By another spelling or a link the copy would be among the table's files, or the originals would be compared with themselves."""
    source, target = places
    table = made(source, 2, ("kind",))
    small_files(table, 2)
    (target / "link").symlink_to(table.location())
    for inside in (f"file://{table.location()}/copy", str(target / "link"), str(target / "link" / "copy")):
        with pytest.raises(InvalidInputError, match="one place, or one is within the other"):
            table.maintenance.rewrite_table_path(table.location(), inside, copy=True)
    (target / "t").mkdir()
    (target / "t" / "data").symlink_to(f"{table.location()}/data")
    with pytest.raises(FormatError, match="differs") as caught:
        table.maintenance.rewrite_table_path(table.location(), str(target / "t"), copy=True, verify=True)
    assert all("the original itself" in problem.what for problem in caught.value.problems)


@pytest.mark.filterwarnings("ignore::icefloe.errors.FormatWarning")
def test_a_delete_file_that_cannot_be_copied_is_not_deleted(places: tuple[Path, Path]) -> None:
    """The staging folder is the table itself: what is at the staged location is the original, whatever fails first."""
    source, target = places
    table = made(source, 2, ("kind",), **MERGE_ON_READ)
    small_files(table, 3)
    table.delete("id = 1")
    path = Path(next(row["file_path"] for row in table.inspect.delete_files().to_pylist()))
    rows = pq.read_table(path)
    path.unlink()
    write_rows(LocalFileIO(), str(path), [f"file:{name}" for name in rows["file_path"].to_pylist()], rows["pos"].to_pylist(), "parquet")
    content = path.read_bytes()
    with pytest.raises(FileAlreadyExistsError):
        table.maintenance.rewrite_table_path(table.location(), str(target / "t"), staging_location=table.location())
    assert path.read_bytes() == content
    staged = source / "staged" / path.relative_to(table.location())
    with pytest.raises(InvalidInputError, match="not below"):
        table.maintenance.rewrite_table_path(table.location(), str(target / "t"), staging_location=str(source / "staged"))
    assert not staged.exists()


@pytest.mark.parametrize("content", [FileContent.POSITION_DELETES, FileContent.EQUALITY_DELETES])
def test_deletes_with_wrong_bounds_do_not_pass(places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, content: FileContent) -> None:
    """Readers match deletes with data files by these bounds: wrong ones bring deleted rows back."""
    source, target = places
    table = made(source, 2, ("kind",), **MERGE_ON_READ)
    small_files(table, 3)
    table.delete("id = 1")
    table.delete_keys(pa.table({"id": [5, 7]}), ["id"])
    right = moved_manifest.moved_bounds

    def wrong(lower: Any, upper: Any, of_positions: Any, prefix: PathPrefix) -> Any:
        lower, upper = right(lower, upper, of_positions, prefix)
        for row in np.flatnonzero(of_positions == (content is FileContent.POSITION_DELETES)).tolist():
            for bounds in (lower, upper):
                bounds[row] = [(column, b"~" * len(value)) for column, value in bounds[row] or ()]
        return lower, upper

    with monkeypatch.context() as patched:
        patched.setattr(moved_manifest, "moved_bounds", wrong)
        table.maintenance.rewrite_table_path(table.location(), str(target / "t"), copy=True)
    with pytest.raises(FormatError, match="differs") as caught:
        table.maintenance.rewrite_table_path(table.location(), str(target / "t"), verify=True)
    assert {problem.what.partition(" of ")[0] for problem in caught.value.problems} == {
        "the column lower_bounds",
        "the column upper_bounds",
    }


@pytest.mark.parametrize("length", [0, 40])
def test_a_file_at_the_target_that_is_the_beginning_of_the_source_is_never_replaced(places: tuple[Path, Path], length: int) -> None:
    source, target = places
    table = with_history(source, 2, 5, 2)
    path = table.scan().plan_files()[0].file.file_path
    there = Path(PathPrefix(table.location(), str(target / "t")).move(path))
    there.parent.mkdir(parents=True)
    there.write_bytes(Path(path).read_bytes()[:length])
    with pytest.raises(FileAlreadyExistsError, match="another file is at"):
        table.maintenance.rewrite_table_path(table.location(), str(target / "t"), copy=True)
    assert there.read_bytes() == Path(path).read_bytes()[:length]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
def test_a_killed_copy_leaves_no_part_of_a_file_under_its_name_and_is_continued(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "to" / "copy"
    source.write_bytes(b"x" * 5000)
    killed = subprocess.run([sys.executable, "-c", _KILLED_COPY, str(source), str(target)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert not target.exists()
    (left,) = target.parent.iterdir()
    assert re.fullmatch(r"\.[0-9a-f]{32}\.tmp", left.name)
    copies = pa.table({"source": [str(source)], "target": [str(target)], "size": pa.array([5000], pa.int64())})
    assert [copied.was_there for copied in copied_files.copy_files(LocalFileIO(), copies)] == [False]
    assert target.read_bytes() == source.read_bytes()


_KILLED_COPY = """
import os, signal, sys
import pyarrow as pa
from icefloe.io.local_file_io import LocalFileIO
from icefloe.maintenance import copied_files
copied_files.WHOLE_BYTES = 1000
os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
list(copied_files.copy_files(LocalFileIO(), pa.table({"source": [sys.argv[1]], "target": [sys.argv[2]], "size": pa.array([5000], pa.int64())})))
"""


@pytest.mark.parametrize("same", [True, False])
def test_a_file_that_another_run_copies_meanwhile_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, same: bool) -> None:
    monkeypatch.setattr(copied_files, "WHOLE_BYTES", 1000)
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"x" * 5000)
    publish = whole_output.publish_local

    def second_run(temporary: str, location: str) -> None:
        target.write_bytes(b"x" * 5000 if same else b"another")
        publish(temporary, location)

    monkeypatch.setattr(whole_output, "publish_local", second_run)
    copies = pa.table({"source": [str(source)], "target": [str(target)], "size": pa.array([5000], pa.int64())})
    if same:
        assert [copied.was_there for copied in copied_files.copy_files(LocalFileIO(), copies)] == [True]
    else:
        with pytest.raises(FileAlreadyExistsError):
            list(copied_files.copy_files(LocalFileIO(), copies))
        assert target.read_bytes() == b"another"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source", "target"]


def test_a_copy_that_differs_does_not_pass(places: tuple[Path, Path]) -> None:
    source, target = places
    table = with_history(source, 2, 5, steps=1)
    table.append(pa.table({"id": [70, 71], "kind": ["a", "a"]}))
    table.delete("id = 70")
    table.maintenance.rewrite_table_path(table.location(), str(target / "t"), copy=True)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    prefix = PathPrefix(table.location(), str(target / "t"))
    paths = {
        "data": table.scan().plan_files()[0].file.file_path,
        "manifest": snapshot.manifests(table.io)[0].manifest_path,
        "list": str(snapshot.manifest_list),
        "deletes": next(row["file_path"] for row in table.inspect.delete_files().to_pylist() if row["content"] == 1),
        "metadata": table.metadata_location,
        "older": list(table.metadata.metadata_log)[1].metadata_file,
        "statistics": table.metadata.statistics[0].statistics_path,
    }
    for what, original in paths.items():
        path = Path(prefix.move(original))
        content = path.read_bytes()
        is_metadata = what in ("metadata", "older")
        path.write_bytes(content.replace(b'"table-uuid":"', b'"table-uuid":"0') if is_metadata else content[:-5] + b"12345")
        assert differences(table, target / "t"), what
        path.unlink()
        assert differences(table, target / "t"), what
        path.write_bytes(content)
    assert differences(table, target / "t") == ()


def differences(table: Table, copy: Path) -> tuple[Any, ...]:
    """Return the problems that a comparison with a copy names."""
    try:
        table.maintenance.rewrite_table_path(table.location(), str(copy), verify=True)
    except FormatError as error:
        text, problems = str(error), tuple(error.problems)
    else:
        return ()
    assert "differs" in text
    return problems


def outcome(table: Table, source: str, target: str) -> BaseException | None:
    """Return the error of a copy, Ctrl-C and a simulated crash among them."""
    try:
        table.maintenance.rewrite_table_path(source, target, copy=True, verify=True)
    except BaseException as error:  # noqa: BLE001
        return error
    return None


@pytest.mark.slow
@pytest.mark.parametrize("operation", ["read", "write", "open_input", "open_output", "size", "exists"])
@pytest.mark.parametrize("fault", [Fault.UNAVAILABLE, Fault.INTERRUPT, Fault.CRASH])
def test_a_failure_at_any_place_leaves_the_table_and_a_second_run_completes_the_copy(
    places: tuple[Path, Path], operation: str, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = places
    monkeypatch.setattr(copied_files, "WHOLE_BYTES", 1000)  # some files are copied as streams
    table = with_history(source, 3 if fault is Fault.CRASH else 2, 5, 2)
    rows, stored = history(table), files_below(source)
    for after in (0, 3, 15):
        faults = Faults()
        faulty = Table(replace(table.handle, io=FaultyFileIO(table.io, faults)), load_metadata(table.handle))
        faults.order(operation, fault, after=after)
        problem = outcome(faulty, table.location(), str(target / f"t{after}"))
        assert not isinstance(problem, IcefloeError) or isinstance(problem, StorageUnavailableError | FormatError)
        assert not isinstance(problem, IcefloeError) or "the table is unchanged" in str(problem.next_step)
        left = {path: content for path, content in files_below(source).items() if path not in stored}
        assert {path: content for path, content in files_below(source).items() if path in stored} == stored
        if fault is not Fault.CRASH:
            assert len(left) <= 1  # the write that was interrupted
        for path in left:
            Path(path).unlink()
        result = table.maintenance.rewrite_table_path(table.location(), str(target / f"t{after}"), copy=True, verify=True)
        assert history(registered(target, result.metadata_location)) == rows


def test_a_data_file_that_is_missing_or_another_one_is_named(places: tuple[Path, Path]) -> None:
    source, target = places
    table = with_history(source, 2)
    path = Path(table.scan().plan_files()[0].file.file_path)
    content = path.read_bytes()
    path.write_bytes(content + b"x")
    with pytest.raises(DataFileFormatError, match=path.name):
        table.maintenance.rewrite_table_path(table.location(), str(target / "t"), copy=True)
    path.unlink()
    with pytest.raises(NoSuchFileError, match=path.name):
        table.maintenance.rewrite_table_path(table.location(), str(target / "u"), copy=True)


@pytest.mark.parametrize("file_format", [FileFormat.PARQUET, FileFormat.ORC, FileFormat.AVRO])
def test_position_deletes_of_every_format_name_the_files_of_the_copy(tmp_path: Path, file_format: FileFormat) -> None:
    io, prefix = LocalFileIO(), PathPrefix("/lake/t", "s3://bucket/other")
    paths = [f"/lake/t/data/{name}.parquet" for name in "ab" for _ in range(3)]
    name = file_format.value.lower()
    source = str(tmp_path / f"deletes.{name}")
    rows = write_rows(io, source, paths, [0, 5, 7, 1, 2, 2**40], name)
    file = DataFile(
        file_path=source,
        file_format=file_format,
        content=FileContent.POSITION_DELETES,
        record_count=6,
        file_size_in_bytes=rows,
    )
    copy = str(tmp_path / f"copy.{name}")
    size = write_moved_deletes(io, file, copy, prefix, {})
    found = read_position_deletes(io, replace(file, file_path=copy, file_size_in_bytes=size))
    assert {path: vector.positions().tolist() for path, vector in found.items()} == {
        "s3://bucket/other/data/a.parquet": [0, 5, 7],
        "s3://bucket/other/data/b.parquet": [1, 2, 2**40],
    }
    with pytest.raises(InvalidInputError, match="not below"):
        write_moved_deletes(io, file, str(tmp_path / f"other.{name}"), PathPrefix("/lake/u", "/x"), {})
    assert not (tmp_path / f"other.{name}").exists()
    with pytest.raises(FileAlreadyExistsError):
        write_moved_deletes(io, file, copy, prefix, {})
    assert Path(copy).stat().st_size == size


def write_rows(io: LocalFileIO, location: str, paths: list[str], positions: list[int], file_format: str) -> int:
    from icefloe.datafile.data_file_writer import appender_factory
    from icefloe.datafile.deletes.delete_file_reader import POSITION_DELETE_SCHEMA

    factory = appender_factory(POSITION_DELETE_SCHEMA, {"write.format.default": file_format})
    rows = pa.table({"file_path": paths, "pos": pa.array(positions, pa.int64())}).cast(factory.arrow_schema)
    output = factory.new_appender(io, location, rows)
    output.write_row_group(rows)
    return int(output.close((), sort_order_id=None, spec_id=0).file_size_in_bytes)


@settings(max_examples=examples(200))
@given(names=st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8), min_size=1, max_size=5))
def test_a_column_of_paths_is_moved_as_single_paths_are(names: list[str]) -> None:
    prefix = PathPrefix("s3://b/ä.*[t]", "/tö/$1")

    def moved(move: Any) -> Any:
        try:
            return move()
        except InvalidInputError as error:
            return error.message

    paths = [f"{prefix.source}/{name}" for name in names]
    column = moved(lambda: prefix.moved_column(pa.array([*paths, None])).to_pylist())
    single = moved(lambda: [*map(prefix.move, paths), None])
    assert column == single


def test_prefixes_end_between_names_and_are_no_patterns() -> None:
    prefix = path_prefix("s3://b/a.b/", "s3://c/$1/")
    assert prefix.move("s3://b/a.b/x") == "s3://c/$1/x"
    assert prefix.move("s3://b/a.b") == "s3://c/$1"
    for path in ("s3://b/a.bc/x", "s3://b/aXb/x", "s3://b", "s3://b/a.b/../x", "s3://b/a.b/./x", "s3://b/a.b/x\n", "S3://b/a.b/x"):
        with pytest.raises(InvalidInputError):
            prefix.move(path)
        with pytest.raises(InvalidInputError):
            prefix.moved_column(pa.array([path]))
    for source, target in (("", "/x"), ("/x", ""), ("s3://", "/x"), ("/x", "/x/"), ("/x", "/x/y"), ("/x/y", "/x"), ("/x/..", "/y")):
        with pytest.raises(InvalidInputError):
            path_prefix(source, target)


def test_the_procedure_has_java_s_columns_and_more_for_a_copy(places: tuple[Path, Path]) -> None:
    source, target = places
    table = with_history(source, 3)
    catalog = SqlCatalog("lake", uri=f"sqlite:///{source}/catalog.db", warehouse=str(source))
    arguments = {"table": "db.t", "source_prefix": table.location(), "target_prefix": str(target / "t")}
    (row,) = call(catalog, "rewrite_table_path", **arguments)
    assert list(row) == [
        "latest_version",
        "file_list_location",
        "rewritten_manifest_file_paths_count",
        "rewritten_delete_file_paths_count",
    ]
    assert Path(row["file_list_location"]).exists()
    (copied,) = call(catalog, "rewrite_table_path", **arguments, copy=True, verify=True)
    assert copied["file_list_location"] == "N/A"
    assert copied["verified_files_count"] > 0
    assert history(registered(target, copied["metadata_file"])) == history(table)
