"""Tables that Icefloe wrote by every kind of operation break no rule: their files and rows neither."""

from pathlib import Path

import pyarrow as pa
import pytest
from tests.combinations import repetitions

from icefloe import SqlCatalog

SCHEMA = pa.schema([("id", pa.int64()), ("kind", pa.string()), ("x", pa.float64())])


def rows(start: int, count: int, kind: str) -> pa.Table:
    ids = range(start, start + count)
    values = [None if n % 5 == 0 else float("nan") if n % 7 == 0 else n / 2 for n in ids]
    return pa.table({"id": ids, "kind": [kind if n % 3 else None for n in ids], "x": values}, schema=SCHEMA)


COPY, MERGE = "copy-on-write", "merge-on-read"


@pytest.mark.parametrize(
    ("version", "mode"), repetitions([(1, COPY), (2, COPY), (2, MERGE), (3, COPY), (3, MERGE)], (1, COPY), (2, MERGE), (3, MERGE))
)
def test_a_table_after_every_kind_of_operation_breaks_no_rule(tmp_path: Path, version: int, mode: str) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    properties = {"format-version": str(version), "write.delete.mode": mode, "write.update.mode": mode, "write.merge.mode": mode}
    table = catalog.create_table("db.t", SCHEMA, partition_spec=["kind"], properties=properties)
    for number in range(4):
        table.append(rows(10 * number, 10, "ab"[number % 2]))
    table.delete("id in (3, 14)")
    table.upsert(rows(30, 12, "a"), join_cols=["id"])
    with table.update_schema() as schema:
        schema.add_column("more", "string")
        schema.rename_column("x", "y")
    with table.update_spec() as spec:
        spec.add_field("id", "bucket[4]", "bucket")
    table.append(pa.table({"id": [90, 91], "kind": ["c", None], "y": [1.0, 2.0], "more": ["m", None]}))
    table.overwrite(pa.table({"id": [95], "kind": ["b"], "y": [1.0], "more": ["n"]}), "kind = 'b'")
    table.manage_snapshots().create_branch(table.current_snapshot().snapshot_id, "audit").commit()  # type: ignore[union-attr]
    table.append(pa.table({"id": [99], "kind": ["d"], "y": [0.0], "more": [None]}), branch="audit")
    table.rewrite_manifests()
    table.maintenance.rewrite_data_files(options={"rewrite-all": "true"})
    table.compute_statistics()
    table.compute_partition_statistics()
    if version < 3:
        table.set_properties({"format-version": str(version + 1)})
        table.append(pa.table({"id": [200], "kind": ["e"], "y": [0.0], "more": [None]}))
        table.delete("id = 200")
    assert table.refresh().inspect.validate(values=True).findings == ()
    table.expire_snapshots(retain_last=2, older_than=table.metadata.last_updated_ms + 1)
    assert table.refresh().inspect.validate(values=True, files=True).findings == ()
