"""Procedures that compute statistics: of columns, for the planning of joins, and of partitions. Spec: Table Statistics; Partition Statistics."""

from icefloe.catalog.catalog import Catalog
from icefloe.operations.partition_statistics import find_partition_statistics
from icefloe.procedures.procedure import Long, Names, Rows, Text, procedure
from icefloe.spec.types import StringType


@procedure(("statistics_file", StringType()))
def compute_table_stats(catalog: Catalog, table: Text, snapshot_id: Long | None = None, columns: Names | None = None) -> Rows:
    """Count the distinct values of columns, all top-level ones of primitive types if none is named, and commit them as the snapshot's statistics file."""
    statistics = catalog.load_table(table).compute_statistics(columns, snapshot_id)
    return [] if statistics is None else [(statistics.statistics_path,)]


@procedure(("partition_statistics_file", StringType()))
def compute_partition_stats(catalog: Catalog, table: Text, snapshot_id: Long | None = None) -> Rows:
    """Count rows, files and deletes of each partition, on top of the last statistics of partitions, and commit them as the snapshot's file."""
    loaded_table = catalog.load_table(table)
    loaded_table.compute_partition_statistics(snapshot_id)
    file = find_partition_statistics(loaded_table.metadata, loaded_table.full_name, snapshot_id)
    return [] if file is None else [(file.statistics_path,)]
