"""Lost manifests and manifest lists: rebuilt from other snapshots only where that is certain; from data files, or dropped, only when that is named."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from tests.checks.stored_table import SCHEMA, StoredTable, edit_avro, records_of
from tests.repair.broken_table import BrokenTable

from icefloe import SqlCatalog
from icefloe.table import Table

MakeTable = Callable[[str, int], BrokenTable]
VERSIONS = pytest.mark.parametrize("version", [1, 2, 3])


def rewritten(broken: BrokenTable) -> Table:
    """Return the table after a rewrite of its manifests, each of which then has entries of older ones."""
    table = broken.table
    table.rewrite_manifests()
    return table


def data_manifests(table: Table) -> list[Path]:
    return [Path(path) for path in table.inspect.manifests().to_pandas().query("content == 0")["path"]]


@VERSIONS
def test_a_rewritten_manifest_is_rebuilt_from_the_manifests_that_it_replaced(sound: MakeTable, version: int) -> None:
    broken = sound("of", version)
    table = rewritten(broken)
    before, files = broken.rows(), broken.live_files()
    data_manifests(table)[0].unlink()
    planned = broken.plan()
    assert [(repair.repair, repair.is_chosen) for repair in planned.repairs] == [("rebuild-manifests", True)]
    assert not planned.chosen[0].rows_lost
    planned.apply()
    assert (broken.rows(), broken.live_files(), broken.findings()) == (before, files, [])
    broken.undo()
    assert {finding.rule for finding in broken.findings()} == {"manifest-missing"}


def test_sequence_numbers_survive_a_rebuild_so_that_deletes_still_apply(sound: MakeTable) -> None:
    broken = sound("of_files", 2)
    broken.table.append(pa.table({"day": ["a"], "n": [0], "x": [1.0]}))  # newer than the delete of n = 0
    table = rewritten(broken)
    before = broken.rows()
    for path in data_manifests(table):
        path.unlink()
    broken.plan().apply()
    assert broken.rows() == before


@VERSIONS
def test_row_ids_survive_a_rebuild(sound: MakeTable, version: int) -> None:
    if version < 3:
        return
    broken = sound("of", version)
    table = rewritten(broken)
    ids = sorted(map(str, table.scan(selected_fields=("n", "_row_id")).to_arrow().to_pylist()))
    data_manifests(table)[0].unlink()
    broken.plan().apply()
    assert sorted(map(str, broken.table.scan(selected_fields=("n", "_row_id")).to_arrow().to_pylist())) == ids


def test_a_lost_manifest_of_new_files_is_not_rebuilt_unless_that_is_named(sound: MakeTable) -> None:
    broken = sound("of", 2)
    before = broken.rows()
    broken.stored.manifests()[0].unlink()
    planned = broken.plan()
    assert planned.chosen == ()
    assert [repair.repair for repair in planned.repairs] == ["rebuild-manifests-from-files", "drop-lost-manifests"]
    assert "no other snapshot has the entries" in {one.rule: one.why for one in planned.left}["manifest-missing"]
    broken.plan("rebuild-manifests-from-files").apply()
    assert (broken.rows(), broken.findings()) == (before, [])


def test_a_manifest_is_not_rebuilt_from_files_where_another_file_is_in_no_manifest(sound: MakeTable) -> None:
    broken = sound("of", 2)
    source = Path(next(iter(broken.live_files())))
    source.with_name("of-a-failed-commit.parquet").write_bytes(source.read_bytes())
    broken.stored.manifests()[0].unlink()
    planned = broken.plan("rebuild-manifests-from-files")
    assert [repair.repair for repair in planned.repairs] == ["drop-lost-manifests"]
    assert "unreferenced data files" in {one.rule: one.why for one in planned.left}["manifest-missing"]


def test_a_lost_manifest_of_deletes_is_never_rebuilt_from_files_and_only_dropped_when_named(sound: MakeTable) -> None:
    broken = sound("of_files", 2)
    broken.stored.manifests(1)[0].unlink()
    planned = broken.plan()
    assert planned.chosen == ()
    assert [repair.repair for repair in planned.repairs] == ["drop-lost-manifests"]
    assert sum(planned.repairs[0].rows_back.values()) == 2
    broken.plan("drop-lost-manifests").apply()
    assert len(broken.rows()) == 5
    assert broken.findings() == []


def test_deleted_entries_make_a_lost_manifest_uncertain(sound: MakeTable) -> None:
    """Of a manifest that deleted some of its parent's files it is not known which."""
    broken = sound("of", 1)  # copy-on-write: its manifests have deleted entries
    table = rewritten(broken)
    table.delete("n = 1 and day = 'a'")
    lost = next(path for path in data_manifests(broken.table) if {1, 2} & {entry["status"] for entry in records_of(path)} == {2})
    lost.unlink()
    planned = broken.plan()
    assert planned.chosen == ()
    assert "which of the parent's entries" in {one.rule: one.why for one in planned.left}["manifest-missing"]


def test_a_manifest_that_may_have_been_cut_is_not_written_again(sound: MakeTable) -> None:
    broken = sound("of", 2)
    path = next(path for path in broken.stored.manifests() if len(records_of(path)) > 1)
    edit_avro(path, lambda entries: entries.pop())  # whole, and shorter than its list states
    planned = broken.plan()
    assert "rewrite-manifests" not in [repair.repair for repair in planned.chosen]
    assert "may have been cut" in {one.rule: one.why for one in planned.left}["manifest-length"]


@VERSIONS
def test_every_lost_list_is_rebuilt_and_each_snapshot_reads_the_same(sound: MakeTable, version: int) -> None:
    broken = sound("of", version)
    ids = [snapshot.snapshot_id for snapshot in broken.table.snapshots()]
    before = {one: sorted(map(str, broken.table.scan(snapshot_id=one).to_arrow().to_pylist())) for one in ids}
    for path in broken.stored.lists():
        path.unlink()
    planned = broken.plan()
    assert [repair.repair for repair in planned.chosen] == ["rebuild-manifest-lists"]
    # The overwrite of version 3 wrote two manifests, whose row ids depend on their order, which is lost.
    assert planned.chosen[0].count == len(ids) - (version == 3)
    planned.apply()
    table = broken.table
    rebuilt = ids[:-1] if version == 3 else ids
    assert {one: sorted(map(str, table.scan(snapshot_id=one).to_arrow().to_pylist())) for one in rebuilt} == {
        one: before[one] for one in rebuilt
    }
    assert {finding.snapshot_id for finding in table.inspect.validate(data=True).findings} == set(ids) - set(rebuilt)
    assert version < 3 or "row ids of its manifests are not known" in planned.left[0].why


def test_a_cut_list_that_looks_whole_is_rebuilt_and_not_taken_for_wrong_totals(sound: MakeTable) -> None:
    broken = sound("of", 2)
    before = broken.rows()
    broken.stored.edit_list(lambda rows: rows.remove(next(row for row in rows if row["added_files_count"])))
    assert broken.rows() != before
    planned = broken.plan()
    assert [repair.repair for repair in planned.chosen] == ["rebuild-manifest-lists"]
    planned.apply()
    assert (broken.rows(), broken.findings()) == (before, [])


def test_a_list_is_not_rebuilt_where_its_manifests_are_lost_too(sound: MakeTable) -> None:
    broken = sound("of", 2)
    manifests, path = broken.stored.manifests(), broken.stored.manifest_list()
    manifests[0].unlink()
    path.unlink()
    planned = broken.plan()
    assert planned.chosen == ()
    assert {one.rule for one in planned.left} == {"manifest-list-missing"}


def test_a_list_is_not_rebuilt_where_the_summary_has_no_totals(sound: MakeTable) -> None:
    broken = sound("of", 2)
    broken.stored.edit(lambda document: document["snapshots"][-1]["summary"].pop("total-records"))
    broken.stored.manifest_list().unlink()
    planned = broken.plan()
    assert planned.chosen == ()
    assert "no totals" in planned.left[0].why


def test_a_manifest_of_a_failed_attempt_is_not_added_to_a_rebuilt_list(sound: MakeTable) -> None:
    broken = sound("of", 2)
    before = broken.rows()
    path = broken.stored.manifest_list()
    commit = path.name.removesuffix(".avro").split("-", 3)[3]
    created = next(one for one in broken.stored.manifests() if one.name.startswith(commit))
    created.with_name(f"{commit}-m99.avro").write_bytes(created.read_bytes())
    path.unlink()
    planned = broken.plan()
    if planned.chosen:  # nothing, or exactly the rows of before
        planned.apply()
        assert broken.rows() == before
    else:
        assert planned.left[0].rule == "manifest-list-missing"


def test_a_table_without_broken_manifests_keeps_them(sound: MakeTable) -> None:
    broken = sound("of", 2)
    table = broken.table
    table.append(pa.table({"day": ["z"], "n": [1]}, schema=SCHEMA))
    lost = next(task.file.file_path for task in table.scan("day = 'z'").plan_files())
    kept = {str(path) for path in data_manifests(table)}
    Path(lost).unlink()
    broken.plan().apply()
    after = {str(path) for path in data_manifests(broken.table)}
    assert len(kept - after) == 1, "only the manifest of the lost file is written again"


def test_a_whole_list_with_wrong_totals_never_loses_a_manifest_to_a_list_of_fewer(tmp_path: Path) -> None:
    """The totals of the summary are wrong, and the manifests that another branch still has happen to have them."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", SCHEMA)
    for number in (1, 2):
        table.append(pa.table({"day": ["a"], "n": [number]}, schema=SCHEMA))
    head = table.snapshots()[-1].snapshot_id
    table.manage_snapshots().create_branch(head, "audit").commit()
    table.delete("n = 2", branch="audit")
    broken = BrokenTable(tmp_path, StoredTable(Path(table.refresh().metadata_location)))
    before = broken.rows()
    totals = {key: value for key, value in table.snapshots()[0].summary.items() if key.startswith("total-")}
    broken.stored.edit(lambda document: next(one for one in document["snapshots"] if one["snapshot-id"] == head)["summary"].update(totals))
    assert "summary-total" in {finding.rule for finding in broken.findings()}
    planned = broken.plan()
    assert [repair.repair for repair in planned.chosen] == ["correct-totals"]
    planned.apply()
    assert (len(before), broken.rows(), broken.findings()) == (2, before, [])
