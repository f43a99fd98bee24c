"""Partition specs under the module name of PyIceberg: `from icefloe.partitioning import PartitionField, PartitionSpec`."""

from icefloe.spec.partitioning.partition_spec import FIRST_PARTITION_FIELD_ID as PARTITION_FIELD_ID_START
from icefloe.spec.partitioning.partition_spec import UNPARTITIONED_SPEC as UNPARTITIONED_PARTITION_SPEC
from icefloe.spec.partitioning.partition_spec import PartitionField, PartitionSpec

__all__ = ["PARTITION_FIELD_ID_START", "UNPARTITIONED_PARTITION_SPEC", "PartitionField", "PartitionSpec"]
