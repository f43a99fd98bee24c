"""`table.maintenance.convert_equality_deletes()`: positions in place of equality deletes, and no other rows, beside other writers and after failures."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.combinations import combinations
from tests.maintenance.restored_tables import written_once
from tests.maintenance.test_rewrite_data_files import content, data_files, made, other_writer, small_files
from tests.repetitions import examples
from tests.reports import facts

from icefloe import SqlCatalog
from icefloe.datafile.deletes import merge_deletes as merge_module
from icefloe.errors import CommitConflictError, CommitUnknownError, IcefloeError, InvalidInputError, NoSuchSnapshotError, StorageError
from icefloe.maintenance import convert_equality_deletes as module
from icefloe.maintenance.convert_equality_deletes import EqualityDeleteConversion
from icefloe.operations.files.file_operations import RewriteDataFiles, RowChanges
from icefloe.operations.staging import write_audit_publish
from icefloe.spec.manifest.data_file import FileContent
from icefloe.table.table import Table

# Vectors of version 3 are always those of one data file.
VERSIONS = [(2, "file"), (2, "partition"), (3, "file"), pytest.param(3, "partition", marks=pytest.mark.slow)]


@pytest.fixture
def tmp_path(one_folder: Path) -> Path:
    return one_folder


@written_once
def with_deletes(folder: Path, version: int = 3, spec: tuple[str, ...] = (), **properties: str) -> Table:
    """Six files of ten rows, and two equality delete files that delete three rows in two of them."""
    table = made(folder, version, spec, **properties)
    small_files(table, 6)
    table.delete_keys(pa.table({"id": [2, 33]}), ["id"])
    table.delete_keys(pa.table({"id": [34, 1000]}), ["id"])
    return table


def equality_deletes(table: Table) -> int:
    return sum(content == FileContent.EQUALITY_DELETES for content in table.inspect.delete_files()["content"].to_pylist())


def paths_of_data(table: Table) -> set[str]:
    return set(table.inspect.data_files()["file_path"].to_pylist())


@pytest.mark.parametrize(("version", "engine"), combinations([2, 3], [None, "in-process"]))
def test_equality_deletes_become_positions(tmp_path: Path, version: int, engine: str | None) -> None:
    table = with_deletes(tmp_path, version)
    before, data = content(table), paths_of_data(table)
    planned = table.maintenance.convert_equality_deletes(dry_run=True, engine=engine)
    assert (planned.converted_delete_files, planned.snapshot_ids, planned.equality_delete_files) == (2, (), 2)
    assert facts(planned)["would be converted"] == "2 equality delete files"
    result = table.maintenance.convert_equality_deletes(engine=engine, snapshot_properties={"why": "test"})
    assert (result.converted_delete_files, result.added_delete_files, result.left_delete_files, result.failed) == (2, 2, 0, ())
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert (snapshot.operation, result.snapshot_ids, snapshot.summary["why"]) == ("delete", (snapshot.snapshot_id,), "test")
    assert (content(table), paths_of_data(table), equality_deletes(table)) == (before, data, 0)
    kinds = set(table.inspect.delete_files()["file_format"].to_pylist())
    assert kinds == ({"PUFFIN"} if version > 2 else {"PARQUET"})


def test_a_second_run_has_nothing_to_do_and_new_files_are_converted_alone(tmp_path: Path) -> None:
    table = with_deletes(tmp_path)
    table.maintenance.convert_equality_deletes()
    again = table.maintenance.convert_equality_deletes()
    assert (again.snapshot_ids, again.searched_data_files) == ((), 0)
    assert (facts(again)["snapshot"], facts(again)["considered"]) == ("none: there was nothing to do", "0 equality delete files")
    table.append(pa.table({"id": [33, 2], "kind": ["a", "b"]}))
    table.delete_keys(pa.table({"id": [35]}), ["id"])
    before = content(table)
    result = table.maintenance.convert_equality_deletes()
    assert (result.searched_data_files, result.converted_delete_files, result.replaced_delete_files) == (1, 1, 1)
    assert content(table) == before
    assert len(table.inspect.delete_files()) == 2


def draw_rows(numbers: random.Random, count: int) -> pa.Table:
    values = [numbers.choice([None, float("nan"), 0.0, -0.0, 1.5, 2.5]) for _ in range(count)]
    kinds = [numbers.choice(["a", "b", None]) for _ in range(count)]
    return pa.table(
        {
            "id": pa.array([numbers.choice([None, *range(12)]) for _ in range(count)], pa.int32()),
            "kind": kinds,
            "number": pa.array(values, pa.float64()),
        }
    )


@settings(max_examples=examples(8, least=4), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 1_000_000),
    version=st.sampled_from([2, 3]),
    spec=st.sampled_from([(), ("kind",), ("bucket(3, id)",)]),
    data=st.data(),
)
def test_any_conversion_of_any_table_keeps_its_rows(
    tmp_path_factory: pytest.TempPathFactory, seed: int, version: int, spec: tuple[str, ...], data: st.DataObject
) -> None:
    from_v2 = version == 3 and data.draw(st.booleans())
    file_format = data.draw(st.sampled_from(["parquet", "orc", "avro"]))
    granularity = data.draw(st.sampled_from(["file", "partition"]))
    table = any_table(tmp_path_factory.mktemp("lake"), 2 if from_v2 else version, spec, file_format, granularity)
    numbers = random.Random(seed)
    for step in range(data.draw(st.integers(2, 7))):
        any_change(table, numbers, step)
    if from_v2:
        table.upgrade_table_version(3)
        any_change(table, numbers, 100)
    before, files = every_row(table), paths_of_data(table)
    partial = data.draw(st.booleans())
    where = data.draw(st.sampled_from([None, "id < 6", "kind = 'a'"]))
    if where is not None and where.split()[0] in table.schema().names:
        table.maintenance.convert_equality_deletes(where)
        assert every_row(table) == before
    result = table.maintenance.convert_equality_deletes(options={"partial-progress.enabled": partial, "partial-progress.max-commits": 3})
    assert result.failed == ()
    assert every_row(table) == before
    assert (paths_of_data(table), equality_deletes(table)) == (files, 0)
    assert table.maintenance.convert_equality_deletes().snapshot_ids == ()
    table.maintenance.remove_dangling_deletes()
    assert every_row(table) == before
    table.maintenance.rewrite_data_files(options={"rewrite-all": True})
    assert every_row(table) == before


def any_table(folder: Path, version: int, spec: tuple[str, ...], file_format: str, granularity: str) -> Table:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    catalog.create_namespace("db")
    properties = {
        "format-version": str(version),
        "write.delete.mode": "merge-on-read",
        "write.format.default": file_format,
        "write.delete.granularity": granularity,
    }
    schema = pa.schema([("id", pa.int32()), ("kind", pa.string()), ("number", pa.float64())])
    return catalog.create_table("db.t", schema, partition_spec=spec, properties=properties)


def any_change(table: Table, numbers: random.Random, step: int) -> None:
    names = {field.name for field in table.schema().fields}
    rows = draw_rows(numbers, numbers.randrange(1, 25))
    table.append(
        rows.select([name for name in rows.schema.names if name in names]).rename_columns(
            [name for name in rows.schema.names if name in names]
        )
    )
    for _ in range(numbers.randrange(3)):
        keys = draw_rows(numbers, numbers.randrange(1, 4)).select(numbers.choice([["id"], ["kind"], ["id", "kind"]]))
        if set(keys.schema.names) <= names:
            table.delete_keys(keys, keys.schema.names)
    if numbers.random() < 0.4 and "id" in names:
        table.delete(f"id = {numbers.randrange(12)}")
    change = numbers.randrange(8)
    if change == 0:
        with table.update_spec() as update:
            update.add_field("id", f"bucket[{numbers.randrange(2, 1000)}]") if "id" in names else None
    if change == 1:
        with table.update_schema() as update:
            update.update_column("id", "long") if "id" in names else None
    if change == 2 and "id" in names:
        with table.update_schema() as update:
            update.rename_column("id", f"id{step}")
    if change == 3 and "kind" in names and not any(field.source_id == 2 for spec in table.specs().values() for field in spec.fields):
        with table.update_schema() as update:
            update.delete_column("kind")


def every_row(table: Table) -> list[str]:
    names = [field.name for field in table.schema().fields]
    if table.format_version > 2:
        names += ["_row_id", "_last_updated_sequence_number"]
    return sorted(map(str, table.scan(selected_fields=tuple(names)).to_arrow().to_pylist()))


@pytest.mark.parametrize(("version", "granularity"), VERSIONS)
def test_a_compaction_between_plan_and_commit_makes_the_conversion_plan_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, granularity: str
) -> None:
    table = with_deletes(tmp_path, version, **{"write.delete.granularity": granularity})
    before = ids(table)
    beside(monkeypatch, lambda: other_writer(tmp_path).maintenance.rewrite_data_files("id < 20", options={"rewrite-all": True}))
    result = table.maintenance.convert_equality_deletes()
    assert (result.failed, equality_deletes(table), ids(table)) == ((), 0, before)


@pytest.mark.parametrize(("version", "granularity"), VERSIONS)
def test_a_compaction_planned_before_the_deletes_restores_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, granularity: str
) -> None:
    table = made(tmp_path, version, **{"write.delete.granularity": granularity})
    small_files(table, 6)
    compacting = other_writer(tmp_path)

    def others() -> None:
        table.delete_keys(pa.table({"id": [2, 33]}), ["id"])
        assert table.maintenance.convert_equality_deletes().converted_delete_files == 1

    original = RewriteDataFiles.commit
    calls: list[int] = []

    def commit(update: RewriteDataFiles) -> None:
        calls.append(1)
        if len(calls) == 1:
            others()
        original(update)

    monkeypatch.setattr(RewriteDataFiles, "commit", commit)
    result = compacting.maintenance.rewrite_data_files()
    assert result.failed == ()
    table.refresh()
    assert ids(table) == sorted(set(range(60)) - {2, 33})


@pytest.mark.parametrize("version", [2, 3])
def test_deletes_that_others_add_meanwhile_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    table = with_deletes(tmp_path, version, **{"write.delete.mode": "merge-on-read"})

    def others() -> None:
        writer = other_writer(tmp_path)
        with writer.transaction() as both:
            both.delete_keys(pa.table({"id": [5, 2]}), ["id"])
            both.append(pa.table({"id": [2, 100], "kind": ["a", "b"]}))
        writer.delete("id = 36")

    beside(monkeypatch, others)
    result = table.maintenance.convert_equality_deletes()
    assert result.failed == ()
    table.refresh()
    expected = sorted([2, 100, *(set(range(60)) - {2, 33, 34, 5, 36})])
    assert ids(table) == expected
    table.maintenance.convert_equality_deletes()
    assert (ids(table), equality_deletes(table)) == (expected, 0)


def test_a_vector_of_another_writer_for_the_same_file_is_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = with_deletes(tmp_path, 3, **{"write.delete.mode": "merge-on-read"})
    beside(monkeypatch, lambda: other_writer(tmp_path).delete("id in (3, 31)"))
    result = table.maintenance.convert_equality_deletes()
    assert (result.failed, equality_deletes(table), len(table.inspect.delete_files())) == ((), 0, 2)
    assert ids(table) == sorted(set(range(60)) - {2, 33, 34, 3, 31})


def test_files_that_are_lost_every_time_are_reported_and_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = with_deletes(tmp_path, 3, **{"write.delete.mode": "merge-on-read"})
    before = data_files(tmp_path)
    numbers = iter((3, 31, 4, 32, 5, 6))
    beside(monkeypatch, lambda: other_writer(tmp_path).delete(f"id = {next(numbers)} OR id = {next(numbers)}"), times=3)
    result = table.maintenance.convert_equality_deletes()
    assert (result.converted_delete_files, result.failed_files, result.snapshot_ids) == (0, 6, ())
    assert "given up" in str(result)
    assert sum(path.name.endswith(".puffin") for path in data_files(tmp_path) - before) == 3  # those of the other writer
    table.refresh()
    assert ids(table) == sorted(set(range(60)) - {2, 33, 34, 3, 31, 4, 32, 5, 6})


@pytest.mark.parametrize(("version", "error"), combinations([2, 3], [StorageError("no"), KeyboardInterrupt()]))
def test_after_a_failed_write_no_file_remains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, error: BaseException) -> None:
    table = with_deletes(tmp_path, version)
    monkeypatch.setattr(module, "_LEAST_ROWS", 1)
    before, files = content(table), data_files(tmp_path)
    kinds = "write_vectors" if version > 2 else "write_position_deletes"
    original, calls = getattr(merge_module, kinds), []

    def write(*arguments: Any, **more: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise error
        return original(*arguments, **more)

    monkeypatch.setattr(merge_module, kinds, write)
    with pytest.raises(type(error)):
        table.maintenance.convert_equality_deletes(options={"max-concurrent-file-group-rewrites": 1})
    assert (content(table), data_files(tmp_path)) == (before, files)


@pytest.mark.parametrize("error", [CommitConflictError("others won"), InvalidInputError("no")])
def test_after_a_refused_commit_no_file_remains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: IcefloeError) -> None:
    table = with_deletes(tmp_path)
    before, files = content(table), data_files(tmp_path)

    def refuse(_: RowChanges) -> None:
        raise error

    monkeypatch.setattr(RowChanges, "commit", refuse)
    with pytest.raises(type(error)):
        table.maintenance.convert_equality_deletes()
    assert (content(table), data_files(tmp_path)) == (before, files)


@pytest.mark.parametrize("error", [CommitUnknownError("no reply"), KeyboardInterrupt()])
def test_after_a_commit_of_unknown_state_the_files_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    table = with_deletes(tmp_path)
    before = content(table)
    original = RowChanges.commit

    def commit(update: RowChanges) -> None:
        original(update)
        raise error

    monkeypatch.setattr(RowChanges, "commit", commit)
    with pytest.raises(type(error)):
        table.maintenance.convert_equality_deletes()
    table.refresh()
    assert (content(table), equality_deletes(table)) == (before, 0)


def test_a_damaged_delete_file_keeps_only_its_own_data_files_from_being_converted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = with_deletes(tmp_path)
    monkeypatch.setattr(module, "_LEAST_ROWS", 1)
    deletes = table.inspect.delete_files()
    broken = next(path for path in deletes["file_path"].to_pylist() if any(path in name for name in applied_to(table, 34)))
    Path(broken.removeprefix("file://")).write_bytes(b"PAR1")
    with pytest.raises(IcefloeError):
        table.maintenance.convert_equality_deletes()
    result = table.maintenance.convert_equality_deletes(
        options={"partial-progress.enabled": True, "partial-progress.max-failed-commits": 5}
    )
    assert (result.converted_delete_files, result.failed_files, equality_deletes(table)) == (0, 3, 2)
    assert len(result.snapshot_ids) == 1


def test_a_filter_converts_the_deletes_of_its_files_alone(tmp_path: Path) -> None:
    table = made(tmp_path, 3, ("kind",))
    small_files(table, 6)
    table.delete_keys(pa.table({"id": [2, 33]}), ["id"])
    before = content(table)
    first = table.maintenance.convert_equality_deletes("kind = 'a'")
    assert (first.converted_delete_files, first.added_delete_files, first.left_delete_files) == (0, 1, 1)
    assert facts(first)["left"] == "1 equality delete file: other data files need them"
    second = table.maintenance.convert_equality_deletes()
    assert (second.converted_delete_files, second.added_delete_files, content(table)) == (1, 1, before)


def test_deletes_that_delete_no_row_are_removed_without_a_new_file(tmp_path: Path) -> None:
    table = made(tmp_path, 3)
    small_files(table, 2)
    table.append(pa.table({"id": [100, 300], "kind": ["a", "b"]}))
    table.delete_keys(pa.table({"id": [200]}), ["id"])
    result = table.maintenance.convert_equality_deletes()
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert (result.converted_delete_files, result.added_delete_files, snapshot.operation) == (1, 0, "replace")
    table.delete_keys(pa.table({"id": [10_000]}), ["id"])  # beyond the bounds of every file
    assert table.maintenance.convert_equality_deletes().converted_delete_files == 1
    assert (table.scan().count(), len(table.inspect.delete_files())) == (22, 0)


def test_a_branch_is_converted_alone(tmp_path: Path) -> None:
    table = with_deletes(tmp_path)
    table.manage_snapshots().create_branch(table.current_snapshot().snapshot_id, "audit").commit()  # type: ignore[union-attr]
    assert table.maintenance.convert_equality_deletes(branch="audit").converted_delete_files == 2
    assert equality_deletes(table) == 2
    assert table.scan().use_ref("audit").count() == table.scan().count() == 57


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    table = with_deletes(tmp_path, 3, **{"write.wap.enabled": "true"})
    with pytest.raises(InvalidInputError, match="convert_equality_deletes has no option rewrite-all") as error:
        table.maintenance.convert_equality_deletes(options={"rewrite-all": True})
    assert "partial-progress.enabled" in str(error.value)
    with pytest.raises(InvalidInputError, match="is 'maybe'"):
        table.maintenance.convert_equality_deletes(options={"partial-progress.enabled": "maybe"})
    with pytest.raises(IcefloeError, match="there is no engine named"):
        table.maintenance.convert_equality_deletes(engine="abacus")
    with pytest.raises(NoSuchSnapshotError):
        table.maintenance.convert_equality_deletes(branch="other")
    with write_audit_publish(wap_id="x"), pytest.raises(InvalidInputError, match="staged"):
        table.maintenance.convert_equality_deletes()


@pytest.mark.parametrize("version", [1, 2])
def test_tables_without_equality_deletes_have_nothing_to_convert(tmp_path: Path, version: int) -> None:
    table = made(tmp_path, version)
    assert table.maintenance.convert_equality_deletes().equality_delete_files == 0
    small_files(table, 1)
    assert table.maintenance.convert_equality_deletes().snapshot_ids == ()


def ids(table: Table) -> list[int]:
    return sorted(table.scan(selected_fields=("id",)).to_arrow()["id"].to_pylist())


def applied_to(table: Table, number: int) -> list[str]:
    """The delete files that are applied to a file with this id, and to no older one."""
    return [table.scan(f"id = {number}").plan_files()[0].delete_files[-1].file_path]


def beside(monkeypatch: pytest.MonkeyPatch, others: Callable[[], Any], times: int = 1) -> None:
    """Run `others` after the new delete files are written, before each of the first commits of a conversion."""
    original, calls = EqualityDeleteConversion._commit, []

    def commit(conversion: EqualityDeleteConversion, *arguments: Any) -> Any:
        if len(calls) < times:
            calls.append(1)
            others()
        return original(conversion, *arguments)

    monkeypatch.setattr(EqualityDeleteConversion, "_commit", commit)
