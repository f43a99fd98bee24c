#!/usr/bin/env bash
# DuckDB applies an equality delete of an Iceberg table to rows with a null in a key column, whatever value is deleted.
#
# Guess before the run: a deleted value removes the rows that have it and no row with a null, since a null in a delete file matches a null alone (section "Equality Delete Files" of the specification).
# Seen with duckdb 1.5.5 and the iceberg extension of its package: deleting x = 5, or x = 99, which no row has, removes every row whose x is null. With two key columns, deleting (0, 5) removes
# (0, null), (null, 5) and (null, null) as well. Deleting a null is right: it removes the rows with a null and keeps the others.
# PyIceberg makes the table and the manifest of the delete file. DuckDB has read the same table without a delete file first, and returned all rows.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv environment
environment/bin/pip install --quiet duckdb==1.5.5 duckdb-extension-iceberg==1.5.5 duckdb-extension-avro==1.5.5 "pyiceberg[sql-sqlite,pyarrow]==0.12.0" pyarrow==26.0.1
cat > run.py <<'PYTHON'
import json
import pathlib
import uuid

import duckdb
import duckdb_extension_avro
import duckdb_extension_iceberg
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import IntegerType, NestedField

FOLDER = pathlib.Path.cwd()


class DeleteManifestWriter(ManifestWriterV2):
    """PyIceberg writes no equality deletes; its writer of manifests writes this kind of manifest too."""

    def content(self):
        return ManifestContent.DELETES

    @property
    def _meta(self):
        return {**super()._meta, "content": "deletes"}


def with_equality_delete(table, keys, deleted, name):
    """Return the location of metadata whose snapshot has one more file: an equality delete of the rows."""
    metadata, io = table.metadata, table.io
    snapshot_id, sequence = 1 + metadata.current_snapshot_id % 2**60, metadata.last_sequence_number + 1
    fields = [pa.field(key, pa.int32(), metadata={"PARQUET:field_id": str(table.schema().find_field(key).field_id)}) for key in keys]
    path = FOLDER / f"{name}-deletes.parquet"
    pq.write_table(pa.Table.from_pylist([dict(zip(keys, row)) for row in deleted], pa.schema(fields)), path)
    file = DataFile.from_args(
        content=DataFileContent.EQUALITY_DELETES, file_path=f"file://{path}", file_format=FileFormat.PARQUET, partition=Record(),
        record_count=len(deleted), file_size_in_bytes=path.stat().st_size, equality_ids=[table.schema().find_field(key).field_id for key in keys],
    )
    file.spec_id = 0
    manifest_path = f"file://{FOLDER}/{name}-manifest.avro"
    with DeleteManifestWriter(table.spec(), table.schema(), io.new_output(manifest_path), snapshot_id, "deflate") as writer:
        writer.add_entry(ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=snapshot_id, data_file=file))
    manifests = [*table.current_snapshot().manifests(io), writer.to_manifest_file()]
    list_path = f"file://{FOLDER}/{name}-list.avro"
    with write_manifest_list(2, io.new_output(list_path), snapshot_id, metadata.current_snapshot_id, sequence, "deflate") as writer:
        writer.add_manifests(manifests)
    document = json.loads(metadata.model_dump_json())
    document["snapshots"].append({
        "snapshot-id": snapshot_id, "parent-snapshot-id": metadata.current_snapshot_id, "sequence-number": sequence,
        "timestamp-ms": metadata.last_updated_ms + 1, "manifest-list": list_path, "summary": {"operation": "delete"}, "schema-id": 0,
    })
    document.update({"current-snapshot-id": snapshot_id, "last-sequence-number": sequence, "last-updated-ms": metadata.last_updated_ms + 1})
    document["refs"] = {"main": {"snapshot-id": snapshot_id, "type": "branch"}}
    location = FOLDER / f"v9-{name}.metadata.json"
    location.write_text(json.dumps(document))
    return location


def connect():
    con = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    for module in (duckdb_extension_avro, duckdb_extension_iceberg):
        folder = pathlib.Path(module.__file__).parent
        con.execute(f"LOAD '{next(folder.glob(f'extensions/v{duckdb.__version__}/*.duckdb_extension'))}'")
    return con


catalog = SqlCatalog("c", uri=f"sqlite:///{FOLDER}/catalog.db", warehouse=f"file://{FOLDER}/warehouse")
catalog.create_namespace("db")
columns = Schema(*(NestedField(number, name, IntegerType(), required=False) for number, name in enumerate(("id", "x", "y"), 1)))
table = catalog.create_table("db.t", columns, properties={"format-version": "2"})
rows = [(1, 5, 0), (2, None, 0), (3, 6, 0), (4, 0, 5), (5, 0, None), (6, None, 5), (7, None, None)]
types = pa.schema([(name, pa.int32()) for name in ("id", "x", "y")])
table.append(pa.Table.from_pylist([dict(zip(types.names, row)) for row in rows], types))
con = connect()
print("version", duckdb.__version__)
print("rows (id, x, y):", rows)
before = con.sql(f"SELECT id FROM iceberg_scan('{table.metadata_location}') ORDER BY id").fetchall()
print("without a delete | ids left:", [row[0] for row in before])
for name, keys, deleted in (
    ("one", ["x"], [(5,)]),
    ("null", ["x"], [(None,)]),
    ("pair", ["x", "y"], [(0, 5)]),
    ("none", ["x"], [(99,)]),
):
    location = with_equality_delete(table, keys, deleted, name)
    found = con.sql(f"SELECT id FROM iceberg_scan('{location}') ORDER BY id").fetchall()
    left = {id for id, x, y in rows if tuple({"x": x, "y": y}[key] for key in keys) not in deleted}
    print("deleted", dict(zip(keys, deleted[0])), "| ids left:", [row[0] for row in found], "| by the specification:", sorted(left))
PYTHON
environment/bin/python run.py 2>/dev/null | tee seen.txt
cat > expected.txt <<'TEXT'
version 1.5.5
rows (id, x, y): [(1, 5, 0), (2, None, 0), (3, 6, 0), (4, 0, 5), (5, 0, None), (6, None, 5), (7, None, None)]
without a delete | ids left: [1, 2, 3, 4, 5, 6, 7]
deleted {'x': 5} | ids left: [3, 4, 5] | by the specification: [2, 3, 4, 5, 6, 7]
deleted {'x': None} | ids left: [1, 3, 4, 5] | by the specification: [1, 3, 4, 5]
deleted {'x': 0, 'y': 5} | ids left: [1, 2, 3] | by the specification: [1, 2, 3, 5, 6, 7]
deleted {'x': 99} | ids left: [1, 3, 4, 5] | by the specification: [1, 2, 3, 4, 5, 6, 7]
TEXT
diff expected.txt seen.txt
