"""`table.rewrite_manifests()` and its builder form: on a table, in a transaction, on a branch; rows are unchanged."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.reports import facts

from icefloe.catalog.sql_catalog import SqlCatalog
from icefloe.errors import InvalidInputError, ReadOnlyTableError
from icefloe.spec.manifest_list.manifest_file import ManifestContent
from icefloe.table.static_table import StaticTable

KINDS = "cabacb"


@pytest.fixture
def table(tmp_path: Path) -> Any:
    """Return a table with six snapshots of one row each, three values of the partition field, and a delete file."""
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    catalog.create_namespace("n")
    table = catalog.create_table(
        "n.t",
        schema=pa.schema([("id", pa.int64()), ("kind", pa.string())]),
        properties={"format-version": "3", "commit.manifest-merge.enabled": "false", "write.delete.mode": "merge-on-read"},
    )
    with table.update_spec() as update:
        update.add_identity("kind")
    for number, kind in enumerate(KINDS):
        table.append(pa.table({"id": [number, number + 100], "kind": [kind, kind]}))
    table.delete("id = 103")
    table.delete("id = 104")
    return table


def content(table: Any) -> list[Any]:
    return sorted(table.scan(selected_fields=("id", "kind", "_row_id", "_last_updated_sequence_number")).to_arrow().to_pylist(), key=str)


def test_manifests_are_merged_into_one_for_data_and_one_for_deletes(table: Any) -> None:
    before, head = content(table), table.current_snapshot()
    planned = table.rewrite_manifests(dry_run=True)
    assert facts(planned) == {
        "snapshot": "none: nothing was changed",
        "would be rewritten": "8",
        "would be added": "2, 8 entries",
        "would be kept": "0",
    }
    assert (planned.snapshot_id, table.refresh().current_snapshot()) == (None, head)
    result = table.rewrite_manifests()
    assert (result.rewritten_manifests, result.added_manifests, result.kept_manifests, result.entries) == (8, 2, 0, 8)
    assert facts(result)["snapshot"] == str(table.current_snapshot().snapshot_id)
    assert [manifest.content for manifest in table.current_snapshot().manifests(table.io)] == [
        ManifestContent.DATA,
        ManifestContent.DELETES,
    ]
    assert content(table) == before
    again = table.rewrite_manifests()
    assert (facts(again)["snapshot"], facts(again)["kept"]) == ("none: there was nothing to do", "2")
    assert again.snapshot_id is None


def test_a_rewrite_in_a_transaction_includes_earlier_changes(table: Any) -> None:
    with table.transaction() as tx:
        tx.append(pa.table({"id": [7], "kind": ["d"]}))
        tx.rewrite_manifests(sort_by=["kind"])
    assert len(table.current_snapshot().manifests(table.io)) == 2
    assert len(content(table)) == 11


def test_a_rewrite_on_a_branch_changes_only_that_branch(table: Any) -> None:
    with table.manage_snapshots() as manage:
        manage.create_branch(branch_name="side")
    main = table.current_snapshot().snapshot_id
    table.rewrite_manifests(branch="side")
    assert table.current_snapshot().snapshot_id == main
    assert content(table) == sorted(
        table.scan(selected_fields=("id", "kind", "_row_id", "_last_updated_sequence_number")).use_ref("side").to_arrow().to_pylist(),
        key=str,
    )


def test_the_builder_form_clusters_by_a_function_and_selects_manifests(table: Any) -> None:
    before = content(table)
    with table.update_snapshot().rewrite_manifests() as update:
        update.cluster_by(lambda file: file.partition).contents(ManifestContent.DATA)
    manifests = table.current_snapshot().manifests(table.io)
    assert [manifest.content for manifest in manifests].count(ManifestContent.DATA) == 3
    assert content(table) == before
    with table.update_snapshot().rewrite_manifests() as update:
        update.sort_by("kind").rewrite_if(lambda manifest: manifest.content == ManifestContent.DELETES)
    assert len(table.current_snapshot().manifests(table.io)) == 4
    assert table.current_snapshot().summary["entries-processed"] == "2"


def test_unknown_names_are_refused_before_anything_is_written(table: Any) -> None:
    with pytest.raises(InvalidInputError, match="no partition field 'sort'"):
        table.rewrite_manifests(sort_by=["sort"])
    with pytest.raises(InvalidInputError, match="no partition spec 9"):
        table.rewrite_manifests(spec_id=9)
    with pytest.raises(ReadOnlyTableError):
        StaticTable.from_metadata(table.metadata_location).rewrite_manifests()


@pytest.fixture
def evolved(table: Any) -> Any:
    """Return the table with manifests of a second spec, which has two fields."""
    with table.update_spec() as update:
        update.add_field("id", "bucket[4]", "slot")
    for number, kind in enumerate(KINDS):
        table.append(pa.table({"id": [number + 200], "kind": [kind]}))
    return table


def manifests_of(table: Any, spec_id: int) -> int:
    return sum(manifest.partition_spec_id == spec_id for manifest in table.refresh().current_snapshot().manifests(table.io))


def test_without_a_spec_id_only_manifests_of_the_current_spec_are_rewritten(evolved: Any) -> None:
    before, (older, current) = content(evolved), sorted({spec.spec_id for spec in evolved.specs().values()})[-2:]
    counts = manifests_of(evolved, older)
    result = evolved.rewrite_manifests()
    assert (result.rewritten_manifests, result.added_manifests) == (len(KINDS), 1)
    assert (manifests_of(evolved, older), manifests_of(evolved, current)) == (counts, 1)
    evolved.rewrite_manifests(spec_id=older)
    assert manifests_of(evolved, older) == 2
    assert content(evolved) == before


def test_entries_are_sorted_by_the_named_fields_in_their_order(evolved: Any) -> None:
    evolved.rewrite_manifests(sort_by=["slot", "kind"])
    manifest = next(
        manifest for manifest in evolved.current_snapshot().manifests(evolved.io) if manifest.partition_spec_id == evolved.spec().spec_id
    )
    names = [field.name for field in evolved.spec().fields]
    found = [
        tuple(entry.data_file.partition[names.index(name)] for name in ("slot", "kind"))
        for entry in manifest.fetch_manifest_entry(evolved.io)
    ]
    assert found == sorted(found)
    assert len(set(found)) > 2


def test_fields_of_another_spec_and_no_fields_are_refused(evolved: Any) -> None:
    older = sorted(spec.spec_id for spec in evolved.specs().values())[-2]
    with pytest.raises(InvalidInputError, match=f"no partition field 'slot' in partition spec {older}"):
        evolved.rewrite_manifests(spec_id=older, sort_by=["slot"])
    with pytest.raises(InvalidInputError, match="names no partition field"):
        evolved.rewrite_manifests(sort_by=[])


def test_a_filter_by_any_partition_field_opens_few_of_the_rewritten_manifests(tmp_path: Path) -> None:
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    catalog.create_namespace("n")
    properties = {"commit.manifest-merge.enabled": "false", "commit.manifest.target-size-bytes": "400"}
    schema = pa.schema([("day", pa.int64()), ("shop", pa.int64())])
    table = catalog.create_table("n.t", schema=schema, partition_spec=("day", "shop"), properties=properties)
    for shop in range(16):
        table.append(pa.table({"day": list(range(16)), "shop": [shop] * 16}))

    def opened(row_filter: str) -> tuple[int, int]:
        plan = table.scan(row_filter).plan()
        return plan.manifests_total - plan.manifests_skipped, plan.manifests_total

    assert (opened("day = 5"), opened("shop = 5")) == ((16, 16), (1, 16))
    table.rewrite_manifests(sort_by=["day", "shop"])
    by_day, total = opened("day = 5")
    by_shop = opened("shop = 5")[0]
    assert (by_day <= 3, by_shop > total - 3, total > 8) == (True, True, True)
    table.rewrite_manifests()
    # The number of manifests depends on how well their bytes are compressed, so shares are compared.
    shares = [some / all_of_them for some, all_of_them in (opened("day = 5"), opened("shop = 5"))]
    assert max(shares) < 0.4
    assert sum(shares) < 0.7 * (by_day + by_shop) / total
    assert opened("day = 5 and shop = 5")[0] <= 4
    assert table.scan("day = 5").count() == 16
