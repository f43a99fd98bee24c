"""What Spark's writes pass to a table instead of a DataFrame: rows with the properties, spec and order that options set, or files that are already written.

`write_options.py` parses the options. Spec: Writing Data Files; Sorting.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame

from icefloe.datafile.write_target import WriteTarget
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.partitioning.partition_spec import PartitionSpec
from icefloe.spec.partitioning.sort_order import SortOrder


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """Data files that tasks have already written for a table. They are in the table's locations, and have its current schema, spec and sort order."""

    files: tuple[DataFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteForm:
    """How the files of a write differ from the table's own settings, because of write options.

    Attributes:
        properties: table properties that differ for this write.
        spec: the partition spec of the files; None for the table's current spec.
        sort_order: the sort order of the files; None for the table's current order.
    """

    properties: Mapping[str, str] = field(default_factory=dict)
    spec: PartitionSpec | None = None
    sort_order: SortOrder | None = None

    def of(self, target: WriteTarget) -> WriteTarget:
        """Return the target of a write with these properties, spec and sort order."""
        changed = replace(target, properties={**target.properties, **self.properties})
        if self.spec is not None:
            changed = replace(changed, spec=self.spec)
        if self.sort_order is not None:
            changed = replace(changed, sort_order=self.sort_order, sort_order_id=self.sort_order.order_id)
        return changed


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsInForm:
    """Rows for the writes of a table (`append`, `overwrite`, `dynamic_partition_overwrite`), with the `WriteForm` of their files."""

    rows: DataFrame
    form: WriteForm
