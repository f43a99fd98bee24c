"""Manifests, their entries and data files under the module name of PyIceberg: `from icefloe.manifest import DataFile, FileFormat`.

Manifests are decoded in `icefloe.spec.manifest.manifest_reader`.
"""

from icefloe.spec.manifest.data_file import DataFile, FileFormat
from icefloe.spec.manifest.data_file import FileContent as DataFileContent
from icefloe.spec.manifest.entry import ManifestEntry, ManifestEntryStatus
from icefloe.spec.manifest_list.manifest_file import ManifestContent, ManifestFile, PartitionFieldSummary

__all__ = [
    "DataFile",
    "DataFileContent",
    "FileFormat",
    "ManifestContent",
    "ManifestEntry",
    "ManifestEntryStatus",
    "ManifestFile",
    "PartitionFieldSummary",
]
