"""Statistics files under the module name of PyIceberg: `from icefloe.table.statistics import StatisticsFile`."""

from icefloe.spec.metadata.statistics_file import PartitionStatisticsFile, StatisticsFile
from icefloe.spec.metadata.statistics_file import StatisticsBlob as BlobMetadata

__all__ = ["BlobMetadata", "PartitionStatisticsFile", "StatisticsFile"]
