"""PyIceberg and Icefloe on one SQLite catalog: each sees what the other wrote; and a notebook that runs under both with only its imports changed."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from icefloe import SqlCatalog

pytestmark = pytest.mark.oracle
Run = Callable[..., str]

OPEN = """
import json, sys
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
catalog = SqlCatalog("lake", uri=f"sqlite:///{sys.argv[1]}/catalog.db", warehouse=sys.argv[1])
"""

NOTEBOOK = """
import json, sys
import pyarrow as pa

folder = sys.argv[1]
catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=folder)
catalog.create_namespace("nb")
schema = Schema(
    NestedField(field_id=1, name="id", field_type=LongType(), required=False),
    NestedField(field_id=2, name="kind", field_type=StringType(), required=False),
    NestedField(field_id=3, name="at", field_type=TimestampType(), required=False),
)
spec = PartitionSpec(PartitionField(source_id=2, field_id=1000, transform=IdentityTransform(), name="kind"))
table = catalog.create_table("nb.t", schema=schema, partition_spec=spec, properties={"owner": "me"})
rows = pa.table({"id": [1, 2, 3, 4], "kind": ["a", "b", "a", "c"], "at": pa.array([0, 10, 20, 30], pa.timestamp("us"))})
table.append(rows)
table.append(rows)
table.delete(delete_filter=EqualTo("kind", "c"))
table.overwrite(rows.slice(0, 1), overwrite_filter=And(EqualTo("kind", "a"), GreaterThan("id", 2)))
out = {
    "tables": [list(name) for name in catalog.list_tables("nb")],
    "exists": [catalog.table_exists("nb.t"), catalog.table_exists("nb.u")],
    "rows": sorted(table.scan().to_arrow()["id"].to_pylist()),
    "filtered": sorted(table.scan(row_filter="kind = 'a' and id < 3", selected_fields=("id",)).to_arrow()["id"].to_pylist()),
    "limit": table.scan(limit=2).to_arrow().num_rows,
    "tasks": sorted(task.file.record_count for task in table.scan(row_filter="kind = 'b'").plan_files()),
    "columns": table.schema().column_names,
    "partition": [field.name for field in table.spec().fields],
    "owner": table.properties["owner"],
    "history": len(table.history()) >= 4,
}
first = table.snapshots()[0]
out["first"] = sorted(table.scan(snapshot_id=first.snapshot_id).to_arrow()["id"].to_pylist())
out["by_id"] = table.snapshot_by_id(first.snapshot_id).snapshot_id == first.snapshot_id
found = []
for manifest in table.snapshot_by_id(first.snapshot_id).manifests(table.io):
    assert manifest.manifest_path.endswith(".avro") and manifest.added_files_count == 3 and len(manifest.partitions) == 1
    for entry in manifest.fetch_manifest_entry(table.io):
        file = entry.data_file
        assert file.file_path and int(entry.status) == 1 and file.file_size_in_bytes > 0 and file.column_sizes
        bounds = [file.lower_bounds[1].hex(), file.upper_bounds[1].hex()]
        counts = [file.record_count, file.value_counts[1], file.null_value_counts[1]]
        found.append([file.partition[0], *counts, *bounds, str(file.file_format).split(".")[-1]])
out["files"] = sorted(found)
catalog.rename_table("nb.t", "nb.u")
out["renamed"] = [list(name) for name in catalog.list_tables("nb")]
location = catalog.load_table("nb.u").metadata_location
out["static"] = StaticTable.from_metadata(location).scan().to_arrow().num_rows
catalog.drop_table("nb.u")
out["back"] = catalog.register_table("nb.back", location).scan().to_arrow().num_rows
print(json.dumps(out))
"""

THEIR_IMPORTS = """
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import And, EqualTo, GreaterThan, GreaterThanOrEqual
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType, TimestampType
"""

OUR_IMPORTS = """
from icefloe.catalog.sql_catalog import SqlCatalog
from icefloe.table import StaticTable
from icefloe import And, EqualTo, GreaterThan, GreaterThanOrEqual, IdentityTransform, LongType, NestedField
from icefloe import PartitionField, PartitionSpec, Schema, StringType, TimestampType
"""


def ours(folder: Path) -> SqlCatalog:
    return SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))


def test_a_notebook_runs_with_only_its_imports_changed(pyiceberg: Run, tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "ours").mkdir()
    theirs = json.loads(pyiceberg(THEIR_IMPORTS + NOTEBOOK, str(tmp_path / "theirs")).splitlines()[-1])
    done = subprocess.run(
        [sys.executable, "-c", OUR_IMPORTS + NOTEBOOK, str(tmp_path / "ours")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == theirs


def test_pyiceberg_sees_a_table_of_icefloe_appends_and_we_see_its_rows(pyiceberg: Run, tmp_path: Path) -> None:
    catalog = ours(tmp_path)
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", pa.schema([("id", pa.int64()), ("name", pa.string())]), partition_spec=["name"])
    table.append(pa.table({"id": [1, 2, 3], "name": ["a", "b", None]}))
    printed = pyiceberg(
        OPEN
        + """
table = catalog.load_table("db.t")
before = sorted(table.scan().to_arrow()["id"].to_pylist())
table.append(pa.table({"id": [4, 5], "name": ["d", "e"]}))
print(json.dumps([before, sorted(table.scan(row_filter="id >= 3").to_arrow()["id"].to_pylist())]))
""",
        str(tmp_path),
    )
    assert json.loads(printed.splitlines()[-1]) == [[1, 2, 3], [3, 4, 5]]
    table.refresh()
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2, 3, 4, 5]
    table.delete("id = 4")
    again = pyiceberg(OPEN + "print(sorted(catalog.load_table('db.t').scan().to_arrow()['id'].to_pylist()))", str(tmp_path))
    assert json.loads(again.splitlines()[-1]) == [1, 2, 3, 5]


@pytest.mark.parametrize("version", ["1", "2"])
def test_icefloe_reads_and_changes_a_table_that_pyiceberg_made(pyiceberg: Run, tmp_path: Path, version: str) -> None:
    pyiceberg(
        OPEN
        + f"""
catalog.create_namespace("db", {{"owner": "them"}})
table = catalog.create_table("db.t", pa.schema([("id", pa.int64()), ("v", pa.float64())]), properties={{"format-version": "{version}"}})
for start in (0, 10, 20):
    table.append(pa.table({{"id": list(range(start, start + 10)), "v": [x / 2 for x in range(10)]}}))
table.delete("id < 5")
""",
        str(tmp_path),
    )
    catalog = ours(tmp_path)
    assert catalog.load_namespace_properties("db") == {"owner": "them"}
    table = catalog.load_table("db.t")
    assert table.format_version == int(version)
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == list(range(5, 30))
    table.delete("id >= 25")
    table.append(pa.table({"id": [100], "v": [None]}, schema=pa.schema([("id", pa.int64()), ("v", pa.float64())])))
    printed = pyiceberg(OPEN + "print(sorted(catalog.load_table('db.t').scan().to_arrow()['id'].to_pylist()))", str(tmp_path))
    assert json.loads(printed.splitlines()[-1]) == [*range(5, 25), 100]
