"""Scan requests over Parquet files that a test wrote itself, so that files may be older than the schema they are read with."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from icefloe.io.file_io_by_scheme import load_file_io
from icefloe.operations.engine import ScanRequest
from icefloe.scan.scan_plan import PlannedFiles, ScanPlan
from icefloe.spec.expressions.bind import bind
from icefloe.spec.expressions.row_filter import to_expression
from icefloe.spec.manifest.manifest_columns import partition_column
from icefloe.spec.partitioning.partition_spec import UNPARTITIONED_SPEC, PartitionSpec, partition_type
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import PrimitiveType
from icefloe.spec.values import physical_arrow_type


@dataclass(frozen=True)
class Part:
    """Files of one spec, each with its partition tuple."""

    files: Sequence[tuple[Path, tuple[Any, ...]]]
    spec: PartitionSpec = UNPARTITIONED_SPEC


def write_file(path: Path, schema: Schema, rows: dict[str, list[Any]]) -> Path:
    """Write a Parquet file with the field ids of a schema, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(rows, schema=schema_to_arrow(schema)), path)
    return path


def request(
    schema: Schema,
    *parts: Part,
    row_filter: str = "TRUE",
    columns: tuple[str, ...] = ("*",),
    schemas: Sequence[Schema] | None = None,
    limit: int | None = None,
) -> ScanRequest:
    bound = bind(to_expression(row_filter), schema)
    plan = ScanPlan(
        snapshot_id=1, schema=schema, row_filter=bound, parts=tuple(_planned(part, schema, bound) for part in parts if part.files)
    )
    return ScanRequest(
        table_name="lake.db.t",
        plan=plan,
        schema=schema,
        projection=schema.select(*columns),
        row_filter=bound,
        specs={part.spec.spec_id: part.spec for part in parts},
        io=load_file_io({}),
        schemas=(schema,) if schemas is None else schemas,
        limit=limit,
    )


def _planned(part: Part, schema: Schema, bound: Any) -> PlannedFiles:
    count = len(part.files)
    kind = partition_type(part.spec, schema)
    columns = {
        "sequence_number": pa.array([1] * count, pa.int64()),
        "file_sequence_number": pa.array([1] * count, pa.int64()),
        "content": pa.array([0] * count, pa.int32()),
        "file_path": pa.array([str(path) for path, _ in part.files]),
        "file_format": pa.array(["PARQUET"] * count),
        "record_count": pa.array([pq.read_metadata(path).num_rows for path, _ in part.files], pa.int64()),
        "file_size_in_bytes": pa.array([path.stat().st_size for path, _ in part.files], pa.int64()),
        "split_offsets": pa.nulls(count, pa.list_(pa.int64())),
        "sort_order_id": pa.nulls(count, pa.int32()),
        "first_row_id": pa.nulls(count, pa.int64()),
        "spec_id": pa.array([part.spec.spec_id] * count, pa.int32()),
    }
    for place, field in enumerate(kind.fields):
        assert isinstance(field.field_type, PrimitiveType)
        values = [values[place] for _, values in part.files]
        columns[partition_column(field.field_id)] = pa.array(values, physical_arrow_type(field.field_type))
    return PlannedFiles(
        entries=pa.table(columns),
        spec_id=part.spec.spec_id,
        partition_type=kind,
        residuals=[bound],
        residual_index=np.zeros(count, np.int64),
        covered=None,
        statistics=(),
    )
