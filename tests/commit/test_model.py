"""Random commits of every operation on v1, v2 and v3, with upgrades between them, compared with a simple model of the table."""

import itertools
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.commit.made_up_table import MadeUpTable, equality_deletes, name_of, position_deletes, rows, vector
from tests.repetitions import examples

from icefloe.commit.append import Append
from icefloe.commit.clustered_entries import Clustering
from icefloe.commit.conflicts import ConflictRules
from icefloe.commit.overwrite import Overwrite
from icefloe.commit.rewrite_files import RewriteFiles
from icefloe.commit.rewrite_manifests import RewriteManifests
from icefloe.commit.row_delta import RowDelta
from icefloe.spec.manifest.data_file import DataFile, FileContent
from icefloe.spec.manifest.entry import ManifestEntryStatus
from icefloe.spec.manifest.file_rules import is_deletion_vector
from icefloe.spec.manifest.manifest_reader import read_columns
from icefloe.spec.manifest_list.manifest_file import ManifestContent
from icefloe.spec.metadata.snapshot_manifests import spec_partition_type


@dataclass
class Model:
    """The live files with their data and file sequence numbers, and the first row id of every data file that was ever live."""

    live: dict[str, tuple[DataFile, int, int]] = field(default_factory=dict)
    row_ids: dict[str, int] = field(default_factory=dict)
    name_count: int = 0

    def name(self, kind: str) -> str:
        self.name_count += 1
        return f"{kind}{self.name_count}"

    def data(self) -> list[DataFile]:
        return [file for file, _, _ in self.live.values() if file.content == FileContent.DATA]

    def deletes_of(self, path: str) -> list[DataFile]:
        """Return the position deletes and deletion vectors that apply to one data file only."""
        return [file for file, _, _ in self.live.values() if file.referenced_data_file == path]

    def add(self, files: list[DataFile], number: int, data_number: int | None = None) -> None:
        for file in files:
            is_data = file.content == FileContent.DATA
            self.live[name_of(file)] = (file, number if data_number is None or not is_data else data_number, number)

    def remove(self, files: list[DataFile]) -> None:
        for file in files:
            del self.live[name_of(file)]
            if file.content == FileContent.DATA:
                for delete in self.deletes_of(file.file_path):
                    del self.live[name_of(delete)]


class Run:
    """A table and its model, to which the same commits are applied."""

    def __init__(self, version: int, data: st.DataObject) -> None:
        count, size = (
            data.draw(st.sampled_from([2, 3, 100])),
            data.draw(st.sampled_from([7_000, 8_388_608])),
        )  # one name_count-up manifest has 3,500 bytes
        self.table = MadeUpTable(
            version, {"commit.manifest.min-count-to-merge": str(count), "commit.manifest.target-size-bytes": str(size)}
        )
        self.model = Model()
        self.data = data

    def draw(self, strategy: st.SearchStrategy[Any]) -> Any:
        return self.data.draw(strategy)

    @property
    def version(self) -> int:
        return self.table.metadata.format_version

    def number(self) -> int:
        return self.table.metadata.last_sequence_number

    def new_rows(self, at_most: int = 3, records: int | None = None) -> list[DataFile]:
        partitions = self.draw(st.lists(st.sampled_from([None, "a", "b"]), min_size=1, max_size=at_most))
        count = st.integers(0, 9) if records is None else st.integers(0, records)
        return [rows(self.model.name("d"), self.draw(count), partition) for partition in partitions]

    def some_data(self) -> list[DataFile]:
        known = self.model.data()
        return self.draw(st.lists(st.sampled_from(known), max_size=2, unique_by=name_of)) if known else []

    def append(self) -> None:
        added = self.new_rows()
        self.table.commit(Append(added, self.table.context()))
        self.model.add(added, self.number())

    def overwrite(self) -> None:
        removed, added = self.some_data(), self.new_rows() if self.draw(st.booleans()) else []
        if not removed and not added:
            return
        paths = [file.file_path for file in removed]
        snapshot = self.table.commit(Overwrite(removed=paths, added=added, **self.table.numbered()))
        assert snapshot.operation == ("delete" if not added else "overwrite" if removed else "append")
        self.model.remove(removed)
        self.model.add(added, self.number())

    def row_delta(self) -> None:
        targets = self.some_data()
        puffin = self.model.name("p")
        deletes: list[DataFile] = []
        replaced: list[DataFile] = []
        for index, target in enumerate(targets):
            if self.version > 2:
                deletes.append(vector(puffin, target, records=2, offset=4 + index))
                replaced += self.model.deletes_of(target.file_path)
            else:
                deletes.append(position_deletes(self.model.name("p"), target, target=self.draw(st.sampled_from([target.file_path, None]))))
        if self.draw(st.booleans()):
            deletes.append(equality_deletes(self.model.name("e"), self.draw(st.none() | st.sampled_from(targets or [None]))))
        added = self.new_rows(2) if self.draw(st.booleans()) else []
        gone = [file for file in self.some_data() if file not in targets]
        if not (deletes or added or gone):
            return
        if self.version == 1:
            deletes, replaced = [], []
            if not (added or gone):
                return
        action = RowDelta(added=added, added_deletes=deletes, removed=gone, removed_deletes=replaced, **self.table.numbered())
        self.table.commit(action)
        self.model.remove(replaced)
        self.model.remove(gone)
        self.model.add([*added, *deletes], self.number())

    def rewrite(self) -> None:
        removed = self.some_data()
        if not removed:
            return
        planned_on = self.table.metadata.current_snapshot()
        assert planned_on is not None
        keeps_sequence_number = self.draw(st.booleans())
        sequence_number = max(self.model.live[file.file_path][1] for file in removed) if keeps_sequence_number else None
        total = sum(file.record_count for file in removed)
        added = [rows(self.model.name("d"), total, removed[0].partition[0] if removed[0].partition else None)]
        action = RewriteFiles(
            added=added,
            removed=removed,
            rules=ConflictRules(since=planned_on.snapshot_id),
            sequence_number=sequence_number,
            **self.table.numbered(),
        )
        assert self.table.commit(action).operation == "replace"
        self.model.remove(removed)
        self.model.add(added, self.number(), sequence_number if self.version > 1 else None)

    def rewrite_manifests(self) -> None:
        """Rewrite some manifests; the model does not change."""
        if not self.table.manifests():
            return
        by_size = Clustering(key=lambda file: file.record_count % 2)
        clustering = self.draw(st.sampled_from([Clustering(), Clustering(sort_by=("name",)), by_size]))
        chosen = self.draw(st.sets(st.sampled_from(self.table.manifests()), min_size=1))
        action = RewriteManifests(**self.table.numbered(), clustering=clustering, rewrite_if=lambda manifest: manifest in chosen)
        assert self.table.commit(action).operation == "replace"
        assert action.result.entries == sum((manifest.added_files_count or 0) + (manifest.existing_files_count or 0) for manifest in chosen)
        assert not chosen & set(self.table.manifests())

    def upgrade(self) -> None:
        if self.version < 3:
            self.table.upgrade(self.version + 1)

    def check(self) -> None:
        self.check_files()
        self.check_manifests()
        self.check_summary()
        if self.version > 2:
            self.check_row_ids()

    def check_files(self) -> None:
        live = self.table.live()
        assert {name: (entry.sequence_number, entry.file_sequence_number) for name, entry in live.items()} == {
            name: (number, file_number) for name, (_, number, file_number) in self.model.live.items()
        }
        for name, entry in live.items():
            assert replace(entry.data_file, first_row_id=None) == self.model.live[name][0]
        vectors = [entry.data_file.referenced_data_file for entry in live.values() if is_deletion_vector(entry.data_file)]
        assert len(vectors) == len(set(vectors))
        assert set(vectors) <= {file.file_path for file in self.model.data()}

    def check_manifests(self) -> None:
        for manifest, entries in self.table.entries():
            partition_type = spec_partition_type(self.table.metadata, manifest.partition_spec_id)
            columns = read_columns(self.table.read(manifest.manifest_path), manifest, partition_type).entries
            assert columns["first_row_id"].to_pylist() == [entry.data_file.first_row_id for entry in entries]
            assert columns["sequence_number"].to_pylist() == [entry.sequence_number for entry in entries]
            live = [entry for entry in entries if entry.is_live]
            by_status = [[entry for entry in entries if entry.status == status] for status in ManifestEntryStatus]
            assert [len(group) for group in by_status] == [
                manifest.existing_files_count,
                manifest.added_files_count,
                manifest.deleted_files_count,
            ]
            assert [sum(entry.data_file.record_count for entry in group) for group in by_status] == [
                manifest.existing_rows_count,
                manifest.added_rows_count,
                manifest.deleted_rows_count,
            ]
            assert all(entry.snapshot_id == manifest.added_snapshot_id for entry in by_status[2])
            if self.version > 1 and live:
                assert manifest.min_sequence_number == min(entry.sequence_number or 0 for entry in live)
            is_delete = manifest.content == ManifestContent.DELETES
            assert all((entry.data_file.content != FileContent.DATA) == is_delete for entry in entries)

    def check_summary(self) -> None:
        snapshot = self.table.metadata.current_snapshot()
        if snapshot is None:
            return
        files = [file for file, _, _ in self.model.live.values()]
        deletes = [file for file in files if file.content != FileContent.DATA]
        records = {content: sum(file.record_count for file in files if file.content == content) for content in FileContent}
        size = sum(file.content_size_in_bytes or file.file_size_in_bytes for file in files)
        assert {key: text for key, text in snapshot.summary.items() if key.startswith("total-")} == {
            "total-data-files": str(len(files) - len(deletes)),
            "total-delete-files": str(len(deletes)),
            "total-records": str(records[FileContent.DATA]),
            "total-files-size": str(size),
            "total-position-deletes": str(records[FileContent.POSITION_DELETES]),
            "total-equality-deletes": str(records[FileContent.EQUALITY_DELETES]),
        }

    def check_row_ids(self) -> None:
        """Check that row id ranges of all files are disjoint, constant and below the next row id, and that none is missing after a v3 commit."""
        snapshot = self.table.metadata.current_snapshot()
        next_row_id = self.table.metadata.next_row_id
        if snapshot is None or snapshot.first_row_id is None:
            assert next_row_id == 0
            assert all(entry.data_file.first_row_id is None for entry in self.table.live().values())
            return
        assert snapshot.added_rows is not None
        assert snapshot.first_row_id + snapshot.added_rows == next_row_id
        for name, entry in self.table.live().items():
            file = entry.data_file
            if file.content != FileContent.DATA:
                assert file.first_row_id is None
                continue
            assert file.first_row_id is not None
            assert self.model.row_ids.setdefault(name, file.first_row_id) == file.first_row_id
            self.records_of[name] = file.record_count
        ranges = sorted((first, first + self.records_of[name]) for name, first in self.model.row_ids.items() if self.records_of[name])
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(ranges))
        assert all(end <= next_row_id for _, end in ranges)

    @property
    def records_of(self) -> dict[str, int]:
        return self.__dict__.setdefault("_records_of", {})


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_table_equals_its_model_after_every_commit(version: int) -> None:
    @settings(max_examples=examples(40))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        run = Run(version, data)
        steps = {
            "append": run.append,
            "overwrite": run.overwrite,
            "row delta": run.row_delta,
            "rewrite": run.rewrite,
            "rewrite manifests": run.rewrite_manifests,
            "upgrade": run.upgrade,
        }
        for step in data.draw(st.lists(st.sampled_from(sorted(steps)), min_size=1, max_size=10)):
            steps[step]()
            run.check()

    check()
