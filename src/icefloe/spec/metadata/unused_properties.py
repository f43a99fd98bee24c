"""Table properties of Java that Icefloe keeps but that have no effect, each with the reason. `table_properties.py` has those with an effect.

They are listed for warnings, because a silently ignored property would seem to have an effect. Spec: Table Metadata Fields (`properties`).
"""

from collections.abc import Mapping

_DELETE_FILES = (
    "delete files are Parquet files, or deletion vectors from version 3 on, and row groups are divided by the size of the rows in memory"
)
_ORC_READS = "ORC files are read by Arrow, in batches of its own size"
_MANIFESTS = "manifests are written with the codec of write.avro.compression-codec, at its default level"

UNUSED_PROPERTIES: Mapping[str, str] = {
    "write.delete.format.default": "position deletes are Parquet files, or deletion vectors from version 3 on",
    **dict.fromkeys(
        (
            "write.delete.parquet.row-group-check-min-record-count",
            "write.delete.parquet.row-group-check-max-record-count",
            "write.delete.avro.compression-codec",
            "write.delete.avro.compression-level",
            "write.delete.orc.stripe-size-bytes",
            "write.delete.orc.block-size-bytes",
            "write.delete.orc.vectorized.batch-size",
            "write.delete.orc.compression-codec",
            "write.delete.orc.compression-strategy",
        ),
        _DELETE_FILES,
    ),
    "write.parquet.row-group-check-min-record-count": "row groups are divided by the size of the rows in memory, batch by batch",
    "write.parquet.row-group-check-max-record-count": "row groups are divided by the size of the rows in memory, batch by batch",
    "write.parquet.row-group-size-track-uncompressed": "row groups are divided by the size of the rows in memory, batch by batch",
    "write.parquet.bloom-filter-adaptive-enabled": "bloom filters have the size that the number of distinct values requires",
    "write.avro.compression-level": "Avro files are written at the default level of their codec",
    "write.manifest.compression-codec": _MANIFESTS,
    "write.manifest.compression-level": _MANIFESTS,
    "write.orc.block-size-bytes": "Arrow writes ORC without padding to blocks",
    "write.orc.vectorized.batch-size": "Arrow writes ORC in batches of its own size",
    "read.split.metadata-target-size": "manifests are read by the megabyte, or by a Spark job where planning is distributed",
    "read.split.planning-lookback": "Spark packs files into tasks by its own rule",
    "read.orc.vectorization.enabled": _ORC_READS,
    "read.orc.vectorization.batch-size": _ORC_READS,
    "read.delete-planning-mode": "delete manifests are planned where data manifests are: read.data-planning-mode",
    "identifier-fields.rely": "Icefloe reports no constraints to Spark, so that no query is changed by them",
    "write.location-provider.impl": "Java classes are not loaded; data files are written below write.data.path or the table's location",
    "write.summary.partition-limit": "summaries count changed partitions and list none",
    "write.manifest-lists.enabled": "every snapshot has a manifest list",
    "compatibility.snapshot-id-inheritance.enabled": "snapshot ids are inherited in every version of the format",
    "write.upsert.enabled": "it is a setting of another engine",
    "encryption.data-key-length": "tables with a key are not written",
}
# Prefixes of property names; the rest of the name is a column's.
UNUSED_PREFIXES: Mapping[str, str] = {
    "write.parquet.stats-enabled.column.": "statistics in Parquet footers are written of every column",
    "write.parquet.dict-encoding-enabled.column.": "Arrow itself stops writing a dictionary where write.parquet.dict-size-bytes is reached",
}


def unused_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the names of the properties that have no effect, each with the reason. For a property of a column, the name is only the prefix.

    The names are logged, and names of columns could have any length and any characters.
    """
    reasons = {name: UNUSED_PROPERTIES[name] for name in properties if name in UNUSED_PROPERTIES}
    return reasons | {prefix: reason for prefix, reason in UNUSED_PREFIXES.items() if any(name.startswith(prefix) for name in properties)}
