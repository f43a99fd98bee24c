"""Procedures that make existing files a table, or a table's. Spec: Table Metadata; Column Projection."""

import re
from collections.abc import Mapping, Sequence

from icefloe.catalog.catalog import Catalog
from icefloe.errors import InvalidInputError
from icefloe.kernel.types import LongType
from icefloe.procedures.procedure import Flag, Int, Rows, Source, Text, Texts, procedure
from icefloe.table.rows.add_files import locations_to_add

_PATH = re.compile(r"`?(parquet|orc|avro)`?\s*\.\s*`(.+)`", re.IGNORECASE)


@procedure(
    ("current_snapshot_id", LongType()),
    ("total_records_count", LongType()),
    ("total_data_files_count", LongType()),
    optional=["current_snapshot_id", "total_records_count", "total_data_files_count"],
)
def register_table(catalog: Catalog, table: Text, metadata_file: Text) -> Rows:
    """Makes a name for a table that exists as files."""
    snapshot = catalog.register_table(table, metadata_file).current_snapshot()
    if snapshot is None:
        return [(None, None, None)]
    totals = [snapshot.summary.get(key) for key in ("total-records", "total-data-files")]
    return [(snapshot.snapshot_id, *(None if total is None else int(total) for total in totals))]


@procedure(("added_files_count", LongType()), ("changed_partition_count", LongType()), optional=["changed_partition_count"])
def add_files(
    catalog: Catalog,
    table: Text,
    source_table: Source,
    partition_filter: Texts | None = None,
    check_duplicate_files: Flag = True,
    parallelism: Int | None = None,
) -> Rows:
    """Makes files of a folder the table's: a path, `parquet.`s3://bucket/folder``, or in SQL the name of a table of Spark's own."""
    if parallelism is not None and parallelism < 1:
        raise InvalidInputError(f"parallelism is {parallelism}; it counts threads, so it is 1 or more")
    found = catalog.load_table(table)
    if isinstance(source_table, str):
        path = _PATH.fullmatch(source_table.strip())
        locations = locations_to_add(found.handle, path[2] if path else source_table)
    else:
        # Folders of a table's partitions, which an object store does not have as long as they are empty.
        locations = locations_to_add(found.handle, source_table, missing_is_empty=True)
    chosen = _of_partition(locations, partition_filter or {})
    if partition_filter and not chosen:
        wanted = "/".join(f"{name}={value}" for name, value in partition_filter.items())
        raise InvalidInputError(f"no file of {source_table} lies in a folder {wanted}", next_step="look at the names of its folders")
    result = found.add_files(chosen, check_duplicate_files=check_duplicate_files)
    snapshot = found.snapshot_by_id(result.snapshot_id) if result.snapshot_id is not None else None
    changed = 0 if snapshot is None else snapshot.summary.get("changed-partition-count")
    return [(result.added_files, None if changed is None else int(changed))]


def _of_partition(locations: Sequence[str], partition_filter: Mapping[str, str]) -> list[str]:
    """Those below folders `name=value` of all that the filter names."""
    wanted = [f"/{name}={value}/" for name, value in partition_filter.items()]
    return [location for location in locations if all(folder in location for folder in wanted)]
