"""`RowsInForm`: a DataFrame with the form that this one write gives its files, where that is not the table's: what options of a write come to.

Options become a form in `write_options.py`. Spec: Writing Data Files; Sorting.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame

from icefloe.datafile.write_target import WriteTarget
from icefloe.kernel.partitioning.partition_spec import PartitionSpec
from icefloe.kernel.partitioning.sort_order import SortOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteForm:
    """How the files of one write differ from what the table says: properties over the table's; None where the table's own spec and order hold."""

    properties: Mapping[str, str] = field(default_factory=dict)
    spec: PartitionSpec | None = None
    sort_order: SortOrder | None = None

    def of(self, target: WriteTarget) -> WriteTarget:
        """The target in this form."""
        found = replace(target, properties={**target.properties, **self.properties})
        if self.spec is not None:
            found = replace(found, spec=self.spec)
        if self.sort_order is not None:
            found = replace(found, sort_order=self.sort_order, sort_order_id=self.sort_order.order_id)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsInForm:
    """Rows for a table's writes (`append`, `overwrite`, `dynamic_partition_overwrite`), whose files are made in a form of their own."""

    rows: DataFrame
    form: WriteForm
