"""Procedures that register a table by its metadata file, or add existing data files to a table. Spec: Table Metadata; Column Projection."""

import re
from collections.abc import Mapping, Sequence

from icefloe.catalog.catalog import Catalog
from icefloe.errors import InvalidInputError
from icefloe.operations.rows.add_files import locations_to_add
from icefloe.procedures.procedure import Flag, Int, Rows, Source, Text, Texts, procedure
from icefloe.spec.metadata.snapshot import count_of
from icefloe.spec.partitioning.partition_folders import HIVE_NULL, folders_in_path, hive_value
from icefloe.spec.types import LongType
from icefloe.table.table import Table

_PATH = re.compile(r"`?(parquet|orc|avro)`?\s*\.\s*`(.+)`", re.IGNORECASE)


@procedure(
    ("current_snapshot_id", LongType()),
    ("total_records_count", LongType()),
    ("total_data_files_count", LongType()),
    optional=["current_snapshot_id", "total_records_count", "total_data_files_count"],
)
def register_table(catalog: Catalog, table: Text, metadata_file: Text) -> Rows:
    """Add an existing table to the catalog; metadata_file is its current metadata file."""
    snapshot = catalog.register_table(table, metadata_file).current_snapshot()
    if snapshot is None:
        return [(None, None, None)]
    return [(snapshot.snapshot_id, *(count_of(snapshot.summary.get(key)) for key in ("total-records", "total-data-files")))]


@procedure(("added_files_count", LongType()), ("changed_partition_count", LongType()), optional=["changed_partition_count"])
def add_files(
    table: Table,
    source_table: Source,
    partition_filter: Texts | None = None,
    check_duplicate_files: Flag = True,
    parallelism: Int | None = None,
) -> Rows:
    """Add existing data files to a table. The source is a path, `parquet.`s3://bucket/folder``, or in SQL the name of a table in Spark's session catalog."""
    check_parallelism(parallelism)
    if isinstance(source_table, str):
        locations = locations_to_add(table.handle, path_of_source(source_table))
    else:
        # These are folders of a table's partitions. In an object store, an empty folder does not exist, so that a missing one is no error.
        locations = locations_to_add(table.handle, source_table, missing_is_empty=True)
    selected = _of_partition(locations, partition_filter or {})
    if partition_filter and not selected:
        folder = "/".join(f"{name}={value}" for name, value in partition_filter.items())
        raise InvalidInputError(f"no file of {source_table} is in a folder {folder}", next_step="check the names of its folders")
    result = table.add_files(selected, check_duplicate_files=check_duplicate_files)
    snapshot = table.snapshot_by_id(result.snapshot_id) if result.snapshot_id is not None else None
    changed = 0 if snapshot is None else snapshot.summary.get("changed-partition-count")
    return [(result.added_files, None if changed is None else int(changed))]


def check_parallelism(parallelism: int | None) -> None:
    """Check that the argument `parallelism`, a number of threads, is at least 1 or None.

    Raises:
        InvalidInputError: The number is less than 1.
    """
    if parallelism is not None and parallelism < 1:
        raise InvalidInputError(f"parallelism is {parallelism}; it counts threads, so it is 1 or more")


def path_of_source(text: str) -> str:
    """Return the path in a source such as `parquet.`s3://bucket/folder``. Any other text is returned as it is: it is a path already."""
    path = _PATH.fullmatch(text.strip())
    return path[2] if path else text


def _of_partition(locations: Sequence[str], partition_filter: Mapping[str, str]) -> list[str]:
    """Return the locations whose path has a folder `name=value` for every entry of the filter."""
    partition = {name: None if value == HIVE_NULL else value for name, value in partition_filter.items()}
    return [
        location
        for location in locations
        if partition.items() <= {name: hive_value(text) for name, text in folders_in_path(location)}.items()
    ]
