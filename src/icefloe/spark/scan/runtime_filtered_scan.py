"""`RuntimeFilteredScan`: a scan that prunes files while a join runs, by the values that the join needs, for any partition transform (dynamic pruning).

Spark's own file scan can prune files only by columns that have one value per file. If a join filters by the source column of any other transform,
`bridge/java/SparkRule.java` plans a scan of Spark's connector interface instead (`bridge/java/PartitionedFiles.java`), which reads files as Spark's own scan
does.
Spec: Partition Transforms; Scan Planning.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructField

from icefloe.spark.bridge.callback import connector_method
from icefloe.spark.bridge.gateway import executors_have_classes
from icefloe.spark.bridge.messages import Expression
from icefloe.spark.scan.native_scan import FileValues, ScanFileGroup, partitioned_files
from icefloe.spark.scan.read_options import session_for
from icefloe.spark.scan.read_strategy import grouped_files
from icefloe.spark.scan.reader_names import names_for_the_reader
from icefloe.spark.scan.spark_scan import PushedScan, SparkScan
from icefloe.spark.types.spark_types import has_geo_type
from icefloe.spec.arrow_values import numpy_of
from icefloe.spec.partitioning.transforms import UnknownTransform, VoidTransform
from icefloe.spec.schema.schema import Schema


def can_read_partitions(pushed: PushedScan) -> bool:
    """Return whether a scan of the connector interface can read a pushed query: it must request rows, and tasks must have Icefloe's classes."""
    if pushed.query.get("operation") is not None or not {"aggregation", "limit"}.isdisjoint(pushed.query):
        return False
    return executors_have_classes(pushed.spark)


def runtime_filtered_scan(pushed: PushedScan) -> "RuntimeFilteredScan | None":
    """Return a scan of a pushed query whose files can be pruned at run time; None if Spark's own file scan can prune by all partition fields that are read."""
    if not can_read_partitions(pushed):
        return None
    scan = RuntimeFilteredScan(pushed)
    return scan if scan.is_filtered_by_transforms and not has_geo_type(scan.struct) else None


class RuntimeFilteredScan(SparkScan):
    """A scan of a table's files from which a join may prune files at run time."""

    @property
    def struct(self) -> Any:
        """The columns that Spark reads."""
        return self._struct

    @property
    def is_filtered_by_transforms(self) -> bool:
        """Return whether a join can prune files by a transform of a column, and not only by a column itself."""
        return len(self.filter_attributes()) > len(super().filter_attributes())

    @property
    def split_keys(self) -> Sequence[tuple[StructField, FileValues]]:
        """Return the columns with the partition keys of splits, and a function that returns their values for files; here there are no keys."""
        return ()

    @connector_method
    def partitioned_files(self) -> Any:
        """Return Java's scan of the files with the keys of their splits; None if Spark's reader cannot read all of them."""
        groups = self._groups
        if any(group.reason for group in groups):
            return None
        return partitioned_files(self._session, self.request, self._needed_and_groups[0], groups, self.split_keys)

    @cached_property
    def _session(self) -> Any:
        return session_for(self._pushed.spark, self._pushed.query, self._pushed.scan.metadata.properties)

    @cached_property
    def _needed_and_groups(self) -> tuple[Schema, list[ScanFileGroup]]:
        needed, groups, _ = grouped_files(self._session, self.request, self._kept, self._pushed.plans.deletes)
        return needed, groups

    @property
    def _groups(self) -> list[ScanFileGroup]:
        return self._needed_and_groups[1]

    @connector_method
    def filter_attributes(self) -> list[str]:
        """Return the columns of partition fields. Spark prunes files by the values that a join has for these columns."""
        request = self.request
        fields = [field for part in request.plan.parts for field in request.specs[part.spec_id].fields]
        ids = {field.source_id for field in fields if not isinstance(field.transform, VoidTransform | UnknownTransform)}
        return [field.name for field in request.projection.fields if field.field_id in ids]

    @connector_method
    def matching_files(self, predicates: list[Expression]) -> list[int]:
        """Return the numbers of the files, in the order of the groups' files, that may contain rows with the values in a join."""
        paths = pa.chunked_array([group.files["file_path"].combine_chunks() for group in self._groups], pa.string())
        filters = [_of_column(predicate, self._columns_of_reader) for predicate in predicates]
        if None in filters:
            return list(range(len(paths)))
        pushed = self._pushed
        narrowed = replace(pushed, query={**pushed.query, "filters": [*pushed.filters, *filters]})
        return np.flatnonzero(numpy_of(pc.is_in(paths, value_set=narrowed.plan().files["file_path"].combine_chunks()))).tolist()

    @cached_property
    def _columns_of_reader(self) -> dict[str, str]:
        """The table's column names, by their names in Spark's reader."""
        request = self.request
        names = names_for_the_reader(self._needed_and_groups[0], request.schemas).columns
        return {reader_name: name for name, reader_name in names.items()}


def _of_column(predicate: Mapping[str, Any], columns: Mapping[str, str]) -> Mapping[str, Any] | None:
    """Convert a predicate on a column of Spark's reader to one on the table's column; return None for any other predicate."""
    reference, *values = predicate.get("children") or [{}]
    if reference.get("kind") != "reference" or len(reference["parts"]) != 1 or reference["parts"][0] not in columns:
        return None
    return {**predicate, "children": [{**reference, "parts": [columns[reference["parts"][0]]]}, *values]}
