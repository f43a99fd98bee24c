"""`RuntimeFilteredScan`: a scan that prunes files while a join runs, by the join's values of partition source columns (dynamic partition pruning).

Spark's own file scan can prune files at run time only by columns with one value per file, so only for identity transforms. If a join filters by the source
column of another transform, `bridge/java/SparkRule.java` plans a scan of Spark's connector interface instead (`bridge/java/PartitionedFiles.java`), which reads
files as Spark's own scan does.
Spec: Partition Transforms; Scan Planning.
"""

from collections.abc import Mapping, Sequence
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
from icefloe.spark.scan.pushed_scan import PushedScan
from icefloe.spark.scan.read_options import session_for
from icefloe.spark.scan.read_strategy import grouped_files
from icefloe.spark.scan.reader_names import names_for_the_reader
from icefloe.spark.scan.spark_scan import SparkScan
from icefloe.spark.types.spark_types import has_geo_type
from icefloe.spec.arrow_values import numpy_of
from icefloe.spec.partitioning.transforms import UnknownTransform, VoidTransform
from icefloe.spec.schema.schema import Schema


def can_read_partitions(pushed: PushedScan) -> bool:
    """Return whether `PartitionedFiles` can read a pushed query: no aggregates or limit, and executors have Icefloe's classes."""
    return {"aggregation", "limit"}.isdisjoint(pushed.query) and executors_have_classes(pushed.spark)


def runtime_filtered_scan(pushed: PushedScan) -> "RuntimeFilteredScan | None":
    """Return a scan of a pushed query whose files can be pruned at run time by any partition transform.

    Return None if Spark's own file scan can prune by all partition fields whose columns are read, a column has a geo type, or `can_read_partitions` is False;
    and for a row-level operation.
    """
    if pushed.query.get("operation") is not None or not can_read_partitions(pushed):
        return None
    scan = RuntimeFilteredScan(pushed)
    return scan if scan.is_filtered_by_transforms and not has_geo_type(scan.struct) else None


class RuntimeFilteredScan(SparkScan):
    """Spark's scan of a table's rows, from which Spark may prune files at run time by the values of a join."""

    @property
    def struct(self) -> Any:
        """The Spark struct of the columns that Spark reads."""
        return self._struct

    @property
    def is_filtered_by_transforms(self) -> bool:
        """Whether files can be pruned by a column that has no identity partition field in every spec, which Spark's own file scan cannot do."""
        return len(self.filter_attributes()) > len(super().filter_attributes())

    @property
    def split_keys(self) -> Sequence[tuple[StructField, FileValues]]:
        """The partition keys by which files are divided into splits: a column, and a function that returns its value for each file. Here there are no keys."""
        return ()

    @connector_method
    def partitioned_files(self) -> Any:
        """Return the Java object `PartitionedFiles` for all planned files; None if Spark's own reader cannot read one of them."""
        if self._hides_deleted:
            return None
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
        """Return the names of the columns that are read and have a partition field. Spark prunes files by the values that a join has for these columns."""
        request = self.request
        fields = [field for part in request.plan.parts for field in request.specs[part.spec_id].fields]
        ids = {field.source_id for field in fields if not isinstance(field.transform, VoidTransform | UnknownTransform)}
        return [field.name for field in request.projection.fields if field.field_id in ids]

    @connector_method
    def matching_files(self, predicates: list[Expression]) -> list[int]:
        """Return the indexes of the files that may contain rows with the values of a join. All file groups' files are counted through, in order."""
        paths = pa.chunked_array([group.files["file_path"].combine_chunks() for group in self._groups], pa.string())
        filters = [_of_column(predicate, self._columns_of_reader) for predicate in predicates]
        known_filters = [predicate for predicate in filters if predicate is not None]
        if len(known_filters) < len(filters):
            return list(range(len(paths)))
        matching = self._with_filters(known_filters).plan().files["file_path"].combine_chunks()
        return np.flatnonzero(numpy_of(pc.is_in(paths, value_set=matching))).tolist()

    @cached_property
    def _columns_of_reader(self) -> dict[str, str]:
        """The names of top-level columns in the table, by their names in Spark's reader."""
        request = self.request
        names = names_for_the_reader(self._needed_and_groups[0], request.schemas).columns
        return {reader_name: name for name, reader_name in names.items()}


def _of_column(predicate: Mapping[str, Any], columns: Mapping[str, str]) -> Mapping[str, Any] | None:
    """Replace the reader's name of a column by the table's name in a predicate; return None if the predicate is not on a top-level column."""
    reference, *values = predicate.get("children") or [{}]
    if reference.get("kind") != "reference" or len(reference["parts"]) != 1 or reference["parts"][0] not in columns:
        return None
    return {**predicate, "children": [{**reference, "parts": [columns[reference["parts"][0]]]}, *values]}
