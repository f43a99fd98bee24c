"""Rewrites of manifests: entries move between manifests without changes. test_model.py has random sequences of all commits."""

import io
import json
from dataclasses import replace
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from tests.commit.made_up_table import BY_NAME, FLAT, MadeUpTable, equality_deletes, rows

from icefloe.commit import rewrite_manifests as module
from icefloe.commit.append import Append
from icefloe.commit.clustered_entries import Clustering
from icefloe.commit.overwrite import Overwrite
from icefloe.commit.rewrite_manifests import RewriteManifests
from icefloe.commit.row_delta import RowDelta
from icefloe.errors import CommitInvalidatedError, FormatWarning, InvalidInputError
from icefloe.spec.avro.avro_container import open_container, raw_blocks, read_block
from icefloe.spec.manifest_list.manifest_file import UNASSIGNED_SEQ, ManifestContent, ManifestFile

NAMES = "cabacbcab"


def table_of(version: int = 3, **properties: str) -> MadeUpTable:
    """Return a table with nine files of three partitions, each in its own manifest."""
    table = MadeUpTable(version, {"commit.manifest-merge.enabled": "false", **properties})
    for number, name in enumerate(NAMES):
        file = rows(f"d{number}", 3 + number, name, column_sizes={1: number, 2: 5}, lower_bounds={2: b"l"}, split_offsets=(4,))
        table.commit(Append([file], table.context(), merge=False))
    return table


def rewrite(table: MadeUpTable, **others: Any) -> RewriteManifests:
    return RewriteManifests(**table.numbered(), **{"clustering": Clustering(), **others})


def summary(table: MadeUpTable) -> dict[str, str]:
    snapshot = table.metadata.current_snapshot()
    assert snapshot
    return dict(snapshot.summary)


def paths(table: MadeUpTable) -> list[list[str]]:
    return [[entry.data_file.file_path for entry in entries] for _, entries in table.entries()]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_all_manifests_become_one_sorted_by_partition_with_the_same_entries(version: int) -> None:
    table = table_of(version)
    before = table.live()
    totals = {key: text for key, text in summary(table).items() if key.startswith("total-")}
    table.commit(rewrite(table))
    ((manifest, entries),) = table.entries()
    assert {entry.data_file.file_path: replace(entry, status=before[entry.data_file.file_path].status) for entry in entries} == before
    assert [entry.status.name for entry in entries] == ["EXISTING"] * 9
    assert [entry.data_file.partition[0] for entry in entries] == sorted(NAMES)
    assert manifest.min_sequence_number == (1 if version > 1 else 0)
    new_summary = summary(table)
    assert totals.items() <= new_summary.items()
    assert {key: new_summary[key] for key in new_summary if key.startswith(("manifests", "entries", "changed"))} == {
        "manifests-created": "1",
        "manifests-kept": "0",
        "manifests-replaced": "9",
        "entries-processed": "9",
        "changed-partition-count": "0",
    }


def test_each_value_of_a_clustering_key_has_its_own_manifests() -> None:
    table = table_of()
    table.commit(rewrite(table, clustering=Clustering(key=lambda file: file.partition[0])))
    assert sorted(map(sorted, paths(table))) == [["d0", "d4", "d6"], ["d1", "d3", "d7"], ["d2", "d5", "d8"]]
    with pytest.raises(InvalidInputError, match="cannot be clustered"):
        table.attempt(rewrite(table, clustering=Clustering(key=lambda _: [])))


def test_manifests_are_of_about_the_target_size() -> None:
    table = table_of(**{"commit.manifest.target-size-bytes": "250"})
    table.commit(rewrite(table))
    assert 2 < len(table.manifests()) < 9
    assert max(map(len, paths(table))) - min(map(len, paths(table))) <= 2
    assert sorted(path for each in paths(table) for path in each) == [f"d{number}" for number in range(9)]


def test_a_rewrite_needs_the_memory_of_its_entries_twice_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    table = MadeUpTable(3, {"commit.manifest-merge.enabled": "false", "commit.manifest.target-size-bytes": "4000"})
    for number in range(3):
        names = [f"{name:04}" for name in range(number, 6_000, 3)]
        table.commit(Append([rows(f"d{name}", 3, name) for name in names], table.context(), merge=False))
    write, made, pool = module.write_manifest_columns, [], pa.default_memory_pool()

    def written(entries: Any, *target: Any) -> Any:
        made.append(entries.nbytes)
        return write(entries, *target)

    monkeypatch.setattr(module, "write_manifest_columns", written)
    counted = pa.proxy_memory_pool(pool)  # its peak begins at 0
    pa.set_memory_pool(counted)
    try:
        table.commit(rewrite(table))
    finally:
        pa.set_memory_pool(pool)
    assert len(made) > 5
    assert counted.max_memory() < 2.4 * sum(made)


def test_only_chosen_manifests_are_rewritten_and_specs_and_contents_are_kept_apart() -> None:
    table = table_of()
    table.commit(Append([rows("flat")], table.context(), merge=False))
    for name in ("e", "f"):
        table.commit(RowDelta(added_deletes=[equality_deletes(name)], **table.numbered()))
    first = table.manifests()[-1]
    table.commit(rewrite(table, rewrite_if=lambda manifest: manifest != first))
    assert first in table.manifests()
    assert sorted(map(len, paths(table))) == [1, 1, 2, 8]
    assert {(manifest.content, manifest.partition_spec_id) for manifest in table.manifests()} == {
        (ManifestContent.DATA, FLAT),
        (ManifestContent.DATA, BY_NAME),
        (ManifestContent.DELETES, FLAT),
    }
    before = table.manifests()
    table.commit(rewrite(table, contents={ManifestContent.DATA}))
    kept = [manifest for manifest in before if manifest.content == ManifestContent.DELETES]
    assert [manifest for manifest in table.manifests() if manifest.content == ManifestContent.DELETES] == kept


def test_removed_files_are_not_restored() -> None:
    table = table_of()
    table.commit(Overwrite(removed=["d0", "d5"], added=[], **table.numbered()))
    table.commit(rewrite(table))
    assert set(table.live()) == {f"d{number}" for number in range(9)} - {"d0", "d5"}
    assert sum(map(len, paths(table))) == 7


def test_a_retry_reuses_rewritten_manifests_if_their_sources_are_still_there_and_keeps_new_ones() -> None:
    table = table_of()
    action = rewrite(table)
    lost = table.attempt(action)
    table.commit(Append([rows("new", 1, "a")], table.context(), merge=False))
    again = table.attempt(action, 1)
    assert again.manifest_files == lost.manifest_files
    assert again.manifests == lost.manifests
    assert again.summary["manifests-kept"] == "1"
    table.commit(Overwrite(removed=["d3"], added=[], **table.numbered()))  # one of the sources was rewritten
    third = table.attempt(action, 2)
    assert third.manifests != lost.manifests
    table.commit(action, 3)
    assert set(table.live()) == {"new", *(f"d{number}" for number in range(9))} - {"d3"}


def test_a_retry_rewrites_again_only_contents_and_specs_that_another_commit_changed() -> None:
    table = table_of()
    old = equality_deletes("e")
    for deletes in (old, equality_deletes("f")):
        table.commit(RowDelta(added_deletes=[deletes], **table.numbered()))
    action = rewrite(table)
    lost = table.attempt(action)
    assert [(manifest.content, manifest.existing_files_count) for manifest in lost.manifests] == [
        (ManifestContent.DATA, 9),
        (ManifestContent.DELETES, 2),
    ]
    table.commit(RowDelta(added_deletes=[equality_deletes("g")], removed_deletes=[old], **table.numbered()))
    again = table.attempt(action, 1)
    data, deletes = ([one.manifest_path for one in found.manifests] for found in (lost, again))
    assert data[0] in deletes  # the manifest of data files is not written again
    assert data[1] not in deletes
    table.commit(action, 2)
    assert sorted(map(len, paths(table))) == [2, 9]


def test_a_retry_reuses_rewritten_manifests_though_another_commit_dropped_one_without_live_files() -> None:
    table = table_of()
    table.commit(Overwrite(removed=["d3"], added=[], **table.numbered()))
    assert not all(manifest.has_live_files for manifest in table.manifests())
    action = rewrite(table)
    lost = table.attempt(action)
    table.commit(Overwrite(removed=[], added=[rows("new", 1, "a")], **table.numbered()))
    assert all(manifest.has_live_files for manifest in table.manifests())
    again = table.attempt(action, 1)
    assert lost.manifests[0] in again.manifests
    table.commit(action, 2)
    assert set(table.live()) == {"new", *(f"d{number}" for number in range(9))} - {"d3"}


def test_an_attempt_without_manifests_to_rewrite_is_none() -> None:
    table = MadeUpTable(2)
    assert rewrite(table).attempt(table.metadata, number=0, now_ms=0, read=table.read) is None
    table.commit(Append([rows("a")], table.context()))
    assert rewrite(table, rewrite_if=lambda _: False).attempt(table.metadata, number=0, now_ms=0, read=table.read) is None
    assert rewrite(table, skip_optimal=True).attempt(table.metadata, number=0, now_ms=0, read=table.read) is None


def in_blocks_of_one_entry(content: bytes) -> bytes:
    """Return a manifest with the same entries in blocks of one entry, as PyIceberg writes it."""
    file = io.BytesIO()
    reader = fastavro.reader(io.BytesIO(content))
    metadata = {key: text for key, text in reader.metadata.items() if not key.startswith("avro.")}
    fastavro.writer(file, json.loads(reader.metadata["avro.schema"]), list(reader), codec="deflate", sync_interval=1, metadata=metadata)
    return file.getvalue()


def block_sizes(content: bytes) -> list[int]:
    container = open_container(content, "m")
    return [len(read_block(container, block)) for block in raw_blocks(container)]


def test_an_only_manifest_in_blocks_of_one_entry_is_rewritten_in_blocks_of_usual_size() -> None:
    table = MadeUpTable(2)
    table.commit(Append([rows(f"d{number}-{'x' * 500}") for number in range(200)], table.context()))
    path = table.manifests()[0].manifest_path
    table.files[path] = in_blocks_of_one_entry(table.files[path])
    assert len(block_sizes(table.files[path])) == 200
    with pytest.warns(FormatWarning):  # the manifest list has the other length
        table.commit(rewrite(table, skip_optimal=True))
    (manifest,) = table.manifests()
    written = manifest.manifest_path
    assert written != path
    assert [size >= 64_000 for size in block_sizes(table.files[written])] == [True, False]
    assert len(table.live()) == 200
    assert rewrite(table, skip_optimal=True).attempt(table.metadata, number=0, now_ms=0, read=table.read) is None


def user_manifest(table: MadeUpTable, sources: list[ManifestFile]) -> ManifestFile:
    """Return a manifest with the live entries of these manifests, as a user would write it."""
    action = RewriteManifests(**table.numbered(), clustering=Clustering(), rewrite_if=lambda manifest: manifest in sources)
    (manifest,) = table.attempt(action).manifests
    return manifest


def test_manifests_are_replaced_by_manifests_of_the_user() -> None:
    table = table_of()
    before = table.live()
    sources = table.manifests()[:3]
    replacement = user_manifest(table, sources)
    table.commit(rewrite(table, clustering=None, removed=sources, added=[replacement]))
    assert table.manifests()[0].manifest_path == replacement.manifest_path
    assert {name: entry.data_file for name, entry in table.live().items()} == {name: entry.data_file for name, entry in before.items()}
    assert summary(table)["entries-processed"] == "0"
    assert summary(table)["manifests-replaced"] == "3"


def test_a_rewrite_that_would_lose_or_add_files_is_refused() -> None:
    table = table_of()
    sources = table.manifests()[:3]
    replacement = user_manifest(table, sources)
    with pytest.raises(InvalidInputError, match="removed manifests of DATA contain 2 live files, the added ones 3"):
        table.attempt(rewrite(table, clustering=None, removed=sources[:2], added=[replacement]))
    with pytest.raises(InvalidInputError, match="contain 1 live files, the added ones 0"):
        table.attempt(rewrite(table, clustering=None, removed=sources[:1]))
    for changes in ({"added_files_count": 1}, {"deleted_files_count": 1}, {"sequence_number": 3}):
        with pytest.raises(InvalidInputError, match="cannot be added: it has"):
            rewrite(table, clustering=None, removed=sources, added=[replace(replacement, **changes)])  # type: ignore[arg-type]
    assert replacement.sequence_number == UNASSIGNED_SEQ


def test_a_commit_that_removes_a_missing_manifest_is_refused_and_names_the_snapshot() -> None:
    table = table_of()
    sources = table.manifests()[:3]
    replacement = user_manifest(table, sources)
    action = rewrite(table, clustering=None, removed=sources, added=[replacement])
    table.commit(Overwrite(removed=["d8"], added=[], **table.numbered()))
    head = table.metadata.current_snapshot_id
    with pytest.raises(CommitInvalidatedError, match=f"is not in snapshot {head}, the newest of branch main") as refused:
        table.attempt(action, 1)
    assert refused.value.path == sources[0].manifest_path
