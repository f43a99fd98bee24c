"""The check of delete files beside data files: of many snapshots at once, and by partitions of any value."""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from tests.checks.stored_table import written_table

from icefloe import SqlCatalog
from icefloe.checks.delete_rules import DeleteCheck, SnapshotWithDeletes
from icefloe.inspect import validate
from icefloe.spec.metadata.snapshot_manifests import spec_partition_type


def test_a_manifest_is_read_once_however_many_snapshots_have_it(tmp_path: Path) -> None:
    table = written_table(tmp_path)
    for number in range(4):
        table.append(pa.table({"day": ["x"], "n": [number]}, schema=table.schema().as_arrow()))
    reads: Counter[str] = Counter()

    def read(path: str) -> bytes:
        reads[path] += 1
        return bytes(table.io.read(path))

    types = {spec.spec_id: spec_partition_type(table.metadata, spec.spec_id) for spec in table.metadata.partition_specs}
    snapshots = [
        SnapshotWithDeletes(snapshot_id=one.snapshot_id, manifests=one.manifests(table.io), is_whole=True) for one in table.snapshots()
    ]
    assert list(DeleteCheck(read=read, partition_types=types).findings(snapshots)) == []
    assert len(reads) > len(list(snapshots[-1].manifests))
    assert set(reads.values()) == {1}


@pytest.mark.parametrize("value", [float("nan"), -0.0, float("-inf"), None])
def test_deletes_of_a_partition_of_any_value_find_its_data_files(tmp_path: Path, value: float | None) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    schema = pa.schema([("part", pa.float64()), ("id", pa.int64())])
    properties = {"format-version": "2", "write.delete.mode": "merge-on-read", "write.delete.granularity": "partition"}
    table = catalog.create_table("db.t", schema, partition_spec=["part"], properties=properties)
    for _ in range(2):
        table.append(pa.table({"part": [value, value, 1.0], "id": [0, 1, 2]}, schema=schema))
    table.delete("id = 0")
    (delete,) = (file for file in table.refresh().inspect.files().to_pylist() if file["content"] != 0)
    assert delete["record_count"] == 2, "it is for both files of the partition"
    assert validate(table).findings == ()
    table.overwrite(pa.table({"part": [1.0], "id": [5]}, schema=schema))
    deletes = [file for file in table.refresh().inspect.files().to_pylist() if file["content"] != 0]
    assert len(deletes) == 1
    assert [finding.rule for finding in validate(table).findings] == ["dangling-delete"]
