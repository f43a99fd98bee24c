"""The table of the benchmark `planning-20m`: 20,000,000 data files in 200 manifests of 100,000. They do not exist, but for one.

Every manifest has entries of its own, with statistics of four columns, and about the length that Java writes by default (`commit.manifest.target-size-bytes`,
8 MB). Icefloe writes the manifests from columns. Files are spread over all manifests, so that a filter on bounds can skip files but no manifest. The first
file exists, for queries with a limit.
"""

import json
import uuid
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.planning_table import DAYS, FIRST_DAY, MICROS_OF_A_DAY, metadata_of_one_snapshot, schema_json, snapshot_json
from icefloe.spec.manifest.manifest_column_writer import ManifestTarget, write_manifest_columns
from icefloe.spec.manifest.manifest_columns import partition_column
from icefloe.spec.manifest_list.manifest_file import ManifestFile
from icefloe.spec.manifest_list.manifest_list_writer import write_manifest_list
from icefloe.spec.metadata.snapshot_manifests import spec_partition_type
from icefloe.table.static_table import StaticTable

MANIFESTS, FILES_PER_MANIFEST = 200, 100_000
FILES = MANIFESTS * FILES_PER_MANIFEST
# File number n has the ids from n times this number on, a thousand times as many: an id is in a thousand files.
IDS_OF_A_STEP, STEPS_OF_A_FILE = 1_000, 1_000
# Spreads successive file numbers over the manifests; it has no divisor in common with the number of files.
STRIDE = 7_368_787
SNAPSHOT_ID = 5_100_200_300_400_500_601
PROCESSES = 4
COLUMNS = [(1, "id", "long"), (2, "happened", "timestamp"), (3, "customer", "long"), (4, "amount", "double")]
DAY_FIELD = 1000

ROWS_OF_A_FILE = 1_000
ID = FILES // 2 * IDS_OF_A_STEP  # bounds decide which files have it


def metadata_path(folder: Path, manifest_count: int = MANIFESTS) -> Path:
    """Build the table if it does not exist yet, with the first manifests alone for fewer files; return the path of its metadata file."""
    path = folder / "metadata" / "00001-table.metadata.json"
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    manifest_list = path.with_name(f"snap-{SNAPSHOT_ID}-1-{uuid.UUID(int=0)}.avro")
    draft = path.with_name("draft.metadata.json")
    draft.write_text(json.dumps(table_metadata(folder, manifest_list)))
    with ProcessPoolExecutor(PROCESSES) as pool:
        manifests = list(pool.map(partial(written_manifest, str(draft)), range(manifest_count)))
    manifest_list.write_bytes(
        write_manifest_list(manifests, format_version=2, snapshot_id=SNAPSHOT_ID, parent_snapshot_id=None, sequence_number=1)
    )
    draft.rename(path)
    return path


def written_manifest(draft: str, number: int) -> ManifestFile:
    """Write a manifest of the table; return its record for the manifest list."""
    metadata = StaticTable.from_metadata(draft).metadata
    path = Path(draft).with_name(f"{uuid.UUID(int=number)}-m0.avro")
    target = ManifestTarget(
        path=str(path),
        schema=metadata.schema(),
        schema_json=json.dumps(schema_json(COLUMNS)),
        spec_fields_json=json.dumps(SPEC_FIELDS),
        spec_id=0,
        partition_type=spec_partition_type(metadata, 0),
        snapshot_id=SNAPSHOT_ID,
        format_version=2,
    )
    content, manifest = write_manifest_columns(entries_of(number, metadata.location), target)
    path.write_bytes(content)
    return manifest


def entries_of(manifest: int, location: str) -> Any:
    """Return the entries of one manifest as columns."""
    chance = np.random.default_rng(manifest)
    count = FILES_PER_MANIFEST
    files = (np.arange(count, dtype=np.int64) + manifest * count) * STRIDE % FILES
    days = days_of(chance)
    low_ids, low_times = files * IDS_OF_A_STEP, days * MICROS_OF_A_DAY + chance.integers(10**9, size=count)
    customers = np.sort(chance.integers(10**6, size=(count, 2)), axis=1)
    amounts = np.sort(chance.integers(10**6, size=(count, 2)) / 100, axis=1)
    lower = [low_ids, low_times, customers[:, 0], amounts[:, 0]]
    upper = [low_ids + IDS_OF_A_STEP * STEPS_OF_A_FILE - 1, low_times + 10**9, customers[:, 1], amounts[:, 1]]
    sizes = 40_000 + chance.integers(1_000, size=count)
    names = [
        f"{location}/data/happened_day={day}/{file:08}-{stamp:08x}.parquet"
        for day, file, stamp in zip(days.tolist(), files.tolist(), chance.integers(2**32, size=count).tolist(), strict=True)
    ]
    if manifest == 0:
        sizes[0] = written_rows(Path(names[0]))
    rows = np.full((count, len(COLUMNS)), ROWS_OF_A_FILE)
    return pa.table(
        {
            "status": pa.array(np.ones(count, np.int32)),
            "snapshot_id": pa.nulls(count, pa.int64()),
            "sequence_number": pa.nulls(count, pa.int64()),
            "file_sequence_number": pa.nulls(count, pa.int64()),
            "content": pa.array(np.zeros(count, np.int32)),
            "file_path": pa.array(names),
            "file_format": pa.array(["PARQUET"] * count),
            "record_count": pa.array(rows[:, 0]),
            "file_size_in_bytes": pa.array(sizes),
            "sort_order_id": pa.array(np.zeros(count, np.int32)),
            partition_column(DAY_FIELD): pa.array(days.astype(np.int32)),
            "column_sizes": map_of(pa.array(chance.integers(7_000, 9_000, size=count * len(COLUMNS)))),
            "value_counts": map_of(pa.array(rows.reshape(-1))),
            "null_value_counts": map_of(pa.array(np.zeros(count * len(COLUMNS), np.int64))),
            "lower_bounds": map_of(bounds(lower)),
            "upper_bounds": map_of(bounds(upper)),
        }
    )


def days_of(chance: np.random.Generator) -> NDArray[np.int64]:
    """Return the day of each file of a manifest, the first values of its generator."""
    return FIRST_DAY + chance.integers(DAYS, size=FILES_PER_MANIFEST)


def files_of_day(day: date) -> int:
    """Return the number of files of a day."""
    number = (day - date(1970, 1, 1)).days
    return sum(int(np.count_nonzero(days_of(np.random.default_rng(manifest)) == number)) for manifest in range(MANIFESTS))


def written_rows(path: Path) -> int:
    """Write the first file, without values; return its size."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kinds = {"long": pa.int64(), "timestamp": pa.timestamp("us"), "double": pa.float64()}
    fields = [pa.field(name, kinds[kind], metadata={"PARQUET:field_id": str(field_id)}) for field_id, name, kind in COLUMNS]
    pq.write_table(pa.Table.from_pylist([{}] * ROWS_OF_A_FILE, schema=pa.schema(fields)), path)
    return path.stat().st_size


def map_of(values: Any) -> Any:
    """Return maps from the field id of every column to the values, which follow each other."""
    count = len(values) // len(COLUMNS)
    offsets = np.arange(count + 1, dtype=np.int32) * len(COLUMNS)
    return pa.MapArray.from_arrays(offsets, np.tile([field_id for field_id, _, _ in COLUMNS], count), values)


def bounds(columns: list[NDArray[Any]]) -> Any:
    """Return the bounds of columns of 8 bytes in single-value serialization, those of a file next to each other."""
    data = np.stack([column.view(np.int64) for column in columns], axis=1)
    offsets = np.arange(data.size + 1, dtype=np.int32) * 8
    return pa.Array.from_buffers(pa.binary(), data.size, [None, pa.py_buffer(offsets), pa.py_buffer(data.tobytes())])


SPEC_FIELDS = [{"name": "happened_day", "transform": "day", "source-id": 2, "field-id": DAY_FIELD}]


def table_metadata(folder: Path, manifest_list: Path) -> dict[str, Any]:
    """Return the table metadata."""
    snapshot = snapshot_json(SNAPSHOT_ID, 1, manifest_list, {"total-records": FILES * ROWS_OF_A_FILE, "total-data-files": FILES})
    return metadata_of_one_snapshot(folder, snapshot, schema_json(COLUMNS), SPEC_FIELDS, uuid.UUID(int=20))
