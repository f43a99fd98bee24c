"""Every table property that has an effect in Icefloe, with name, default and allowed values.

`property_kinds.py` has the kinds of values; `unused_properties.py` has properties of Java that have no effect in Icefloe.

Read a property with `TARGET_FILE_SIZE_BYTES.read(metadata.properties)`. Spec: Table Metadata Fields (`properties`). The names are those
of the table properties in the format's documentation.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from icefloe.errors import InvalidPropertyError, Problem
from icefloe.formatting import short_text
from icefloe.similar_names import similar_name
from icefloe.spec.metadata import maintenance_properties
from icefloe.spec.metadata.property_kinds import Property, at_least, choice, flag, location, number, optional, true_or_false
from icefloe.spec.metadata.unused_properties import UNUSED_PREFIXES, UNUSED_PROPERTIES
from icefloe.spec.schema.name_mapping import NameMapping, mapping_from_json


def _probability(text: str) -> float:
    if not 0 < float(text) < 1:
        raise ValueError(text)
    return float(text)


_METRICS_MODE = re.compile(r"none|counts|full|truncate\((?:[1-9]\d*)\)")


def _metrics_mode(text: str) -> str:
    mode = text.strip().lower()
    if _METRICS_MODE.fullmatch(mode) is None:
        raise ValueError(text)
    return mode


_METRICS_MODES = "none, counts, full or truncate(n) with n of at least 1"

# Commits. `icefloe.operations.retry_waits` computes the waits between retries.
COMMIT_NUM_RETRIES = number("commit.retry.num-retries", 4, 0, "retries", "How often a commit is retried after other writers won the race.")
COMMIT_MIN_WAIT_MS = number(
    "commit.retry.min-wait-ms",
    100,
    0,
    "milliseconds",
    "Wait before the first retry of a commit, with jitter. Later waits double up to 8 times it, or 8 times what the attempt took, and then halve again.",
)
COMMIT_MAX_WAIT_MS = number("commit.retry.max-wait-ms", 60_000, 0, "milliseconds", "Longest wait between two attempts of a commit.")
COMMIT_TOTAL_TIMEOUT_MS = number("commit.retry.total-timeout-ms", 1_800_000, 0, "milliseconds", "Time after which a commit is not retried.")
STATUS_CHECK_NUM_RETRIES = number(
    "commit.status-check.num-retries",
    3,
    0,
    "retries",
    "How often the status of a commit whose response was lost is checked again in the catalog.",
)
STATUS_CHECK_MIN_WAIT_MS = number(
    "commit.status-check.min-wait-ms",
    1_000,
    0,
    "milliseconds",
    "Wait before the second status check; each later wait is twice as long, with jitter.",
)
STATUS_CHECK_MAX_WAIT_MS = number("commit.status-check.max-wait-ms", 60_000, 0, "milliseconds", "Longest wait between two status checks.")
STATUS_CHECK_TOTAL_TIMEOUT_MS = number(
    "commit.status-check.total-timeout-ms",
    1_800_000,
    0,
    "milliseconds",
    "Time after which the status of a commit is not checked again: its state is unknown.",
)
MANIFEST_TARGET_SIZE_BYTES = number(
    "commit.manifest.target-size-bytes", 8_388_608, 1, "bytes", "Size at which a manifest is full; smaller ones may be merged up to it."
)
MANIFEST_MIN_COUNT_TO_MERGE = number(
    "commit.manifest.min-count-to-merge",
    100,
    1,
    "manifests",
    "Number of manifests of one partition spec from which on a commit merges small ones.",
)
MANIFEST_MERGE_ENABLED = flag("commit.manifest-merge.enabled", "Whether commits merge small manifests.", default=True)

# Data files.
DEFAULT_FILE_FORMAT = choice("write.format.default", "parquet", "parquet", "avro", "orc", meaning="Format of new data files.")
TARGET_FILE_SIZE_BYTES = number(
    "write.target-file-size-bytes", 536_870_912, 1, "bytes", "Size at which a data file is closed and the next one is begun."
)
DISTRIBUTION_MODE = choice(
    "write.distribution-mode",
    "hash",
    "none",
    "hash",
    "range",
    meaning="How Spark distributes rows to tasks before it writes them: as they are, by partition, or by ranges of the sort order.",
)
# The distribution modes of DELETE, UPDATE and MERGE; if one is None, the property above applies.
DELETE_DISTRIBUTION_MODE: Property[str | None] = optional(
    "write.delete.distribution-mode",
    DISTRIBUTION_MODE,
    "How Spark distributes the rows of DELETE; `write.distribution-mode` where it is not set.",
)
UPDATE_DISTRIBUTION_MODE: Property[str | None] = optional(
    "write.update.distribution-mode",
    DISTRIBUTION_MODE,
    "How Spark distributes the rows of UPDATE; `write.distribution-mode` where it is not set.",
)
MERGE_DISTRIBUTION_MODE: Property[str | None] = optional(
    "write.merge.distribution-mode",
    DISTRIBUTION_MODE,
    "How Spark distributes the rows of MERGE; `write.distribution-mode` where it is not set.",
)
# For engines that write in many tasks. Without fan-out, the rows of a task are sorted by partition, so that the task has one open file at a time.
FANOUT_ENABLED = flag(
    "write.spark.fanout.enabled",
    "Whether a task keeps a file open for each partition. With `false` its rows are sorted by partition first, and one file is open at a time.",
    default=True,
    java_default="false",
)
ADVISORY_PARTITION_SIZE_BYTES: Property[int | None] = Property(
    "write.spark.advisory-partition-size-bytes",
    None,
    at_least(1),
    "a whole number (bytes) of at least 1",
    "Bytes of shuffled rows for one task of a write; Spark's own setting where it is not set.",
)
ACCEPT_ANY_SCHEMA = flag(
    "write.spark.accept-any-schema",
    "Whether Spark leaves the check of a write's columns to Icefloe, which the write option `merge-schema` needs.",
    default=False,
)
AUTO_SCHEMA_EVOLUTION = flag(
    "write.spark.auto-schema-evolution.enabled", "Whether the table takes MERGE WITH SCHEMA EVOLUTION.", default=True
)
DATA_PATH = location("write.data.path", "Folder of new data files; `data` below the table's location where it is not set.")
OBJECT_STORE_ENABLED = flag(
    "write.object-storage.enabled",
    "Whether a hash of its name is in the path of a new data file, for stores that divide load by prefixes.",
    default=False,
)
OBJECT_STORE_PARTITIONED_PATHS = flag(
    "write.object-storage.partitioned-paths", "Whether the partition's folder is in the path too, after the hash.", default=True
)
OBJECT_STORE_PATH = location(
    "write.object-storage.path",
    "Folder of new data files with `write.object-storage.enabled`, where `write.data.path` is not set. Java deprecates it.",
)
FOLDER_STORAGE_PATH = location("write.folder-storage.path", "Folder of new data files, where the others are not set. Java deprecates it.")
PARQUET_CODEC = choice(
    "write.parquet.compression-codec",
    "zstd",
    "zstd",
    "gzip",
    "snappy",
    "lz4",
    "brotli",
    "uncompressed",
    meaning="Compression of Parquet data files.",
)
PARQUET_COMPRESSION_LEVEL: Property[int | None] = Property(
    "write.parquet.compression-level",
    None,
    at_least(-131_072),
    "a whole number that the codec takes as a level",
    "Level of that compression; the codec's own where it is not set.",
)
PARQUET_ROW_GROUP_SIZE_BYTES = number(
    "write.parquet.row-group-size-bytes", 134_217_728, 1, "bytes", "Bytes of the rows in memory that make a row group of a Parquet file."
)
PARQUET_PAGE_SIZE_BYTES = number("write.parquet.page-size-bytes", 1_048_576, 1, "bytes", "Size of a page of a Parquet file.")
PARQUET_PAGE_ROW_LIMIT = number("write.parquet.page-row-limit", 20_000, 1, "rows", "Most rows in a page of a Parquet file.")
PARQUET_DICT_SIZE_BYTES = number(
    "write.parquet.dict-size-bytes", 2_097_152, 1, "bytes", "Size from which on a Parquet column is written without a dictionary."
)
PARQUET_PAGE_VERSION = choice("write.parquet.page-version", "v1", "v1", "v2", meaning="Version of the pages of a Parquet file.")
PARQUET_SHRED_VARIANTS = flag(
    "write.parquet.shred-variants",
    "Whether top-level variants are stored in Parquet in columns of their own for the fields that most of them have.",
    default=False,
)
PARQUET_VARIANT_INFERENCE_ROWS = number(
    "write.parquet.variant-inference-buffer-size",
    100,
    1,
    "rows",
    "First rows of a file from which the columns of shredded variants are chosen.",
)
PARQUET_BLOOM_MAX_BYTES = number(
    "write.parquet.bloom-filter-max-bytes", 1_048_576, 32, "bytes", "Largest bloom filter of a Parquet column."
)
# Prefixes of property names; the rest of the name is a column's.
_BLOOM_ENABLED = flag("write.parquet.bloom-filter-enabled.column.", "Whether the column has bloom filters in Parquet files.", default=False)
_BLOOM_FPP = Property(
    "write.parquet.bloom-filter-fpp.column.",
    0.01,
    _probability,
    "a number between 0 and 1",
    "Probability of a false positive of its bloom filters.",
)
_BLOOM_NDV: Property[int | None] = Property(
    "write.parquet.bloom-filter-ndv.column.",
    None,
    at_least(1),
    "a whole number (distinct values) of at least 1",
    "Distinct values that its bloom filters are made for; the rows of the first row group where it is not set.",
)
BLOOM_ENABLED_PREFIX = _BLOOM_ENABLED.name
ORC_CODEC = choice("write.orc.compression-codec", "zlib", "none", "zlib", "snappy", "lz4", "zstd", meaning="Compression of ORC data files.")
ORC_COMPRESSION_STRATEGY = choice(
    "write.orc.compression-strategy", "speed", "speed", "compression", meaning="Whether that compression prefers speed or size."
)
ORC_STRIPE_SIZE_BYTES = number("write.orc.stripe-size-bytes", 67_108_864, 1, "bytes", "Size of a stripe of an ORC file.")
ORC_BLOOM_FILTER_COLUMNS: Property[str] = Property(
    "write.orc.bloom.filter.columns", "", str, "names of columns, with commas between them", "Columns that have bloom filters in ORC files."
)
ORC_BLOOM_FILTER_FPP = Property(
    "write.orc.bloom.filter.fpp", 0.05, _probability, "a number between 0 and 1", "Probability of a false positive of these bloom filters."
)

# For properties of Parquet data files, the property of delete files that replaces it if it is set. JAVA: TableProperties.DELETE_*.
DELETE_FILE_PROPERTIES: Mapping[str, Property[Any]] = {
    of_data_files.name: Property(
        "write.delete." + of_data_files.name.removeprefix("write."),
        None,
        of_data_files.parse,
        of_data_files.allowed,
        f"The same as `{of_data_files.name}` for Parquet delete files; `{of_data_files.name}` where it is not set.",
        "67108864" if of_data_files is TARGET_FILE_SIZE_BYTES else None,
    )
    for of_data_files in (
        *(TARGET_FILE_SIZE_BYTES, PARQUET_ROW_GROUP_SIZE_BYTES, PARQUET_PAGE_SIZE_BYTES, PARQUET_PAGE_ROW_LIMIT, PARQUET_PAGE_VERSION),
        *(PARQUET_DICT_SIZE_BYTES, PARQUET_CODEC, PARQUET_COMPRESSION_LEVEL),
    )
}

# Metrics of data files.
METRICS_DEFAULT: Property[str] = Property(
    "write.metadata.metrics.default",
    "truncate(16)",
    _metrics_mode,
    _METRICS_MODES,
    "Which metrics of a column manifests keep: none, counts, counts and bounds cut to n characters, or full bounds.",
)
METRICS_MAX_INFERRED_COLUMNS = number(
    "write.metadata.metrics.max-inferred-column-defaults",
    100,
    0,
    "columns",
    "In schemas of more fields, only the first so many have metrics, unless `write.metadata.metrics.default` is set.",
)
METRICS_COLUMN: Property[str] = Property(
    "write.metadata.metrics.column.",
    "",
    _metrics_mode,
    _METRICS_MODES,
    "Which metrics manifests keep of one column, in place of the default.",
)
METRICS_COLUMN_PREFIX = METRICS_COLUMN.name

# Metadata files. The metadata log has at least one entry: see `metadata_updates.py`.
METADATA_PATH = location(
    "write.metadata.path",
    "Folder of new metadata files, manifest lists and manifests; `metadata` below the table's location where it is not set.",
)
METADATA_CODEC = choice("write.metadata.compression-codec", "none", "none", "gzip", meaning="Compression of metadata files.")
METADATA_PREVIOUS_VERSIONS_MAX = number(
    "write.metadata.previous-versions-max", 100, 0, "files", "How many older metadata files the metadata log names."
)
METADATA_DELETE_AFTER_COMMIT = flag(
    "write.metadata.delete-after-commit.enabled", "Whether metadata files that leave the log are deleted.", default=False
)
# In table properties, `gzip` is the name of Avro's codec `deflate`.
AVRO_CODEC = choice(
    "write.avro.compression-codec",
    "gzip",
    "gzip",
    "zstd",
    "snappy",
    "uncompressed",
    meaning="Compression of Avro data files, manifests and manifest lists; `gzip` is Avro's `deflate`.",
)
NAME_MAPPING: Property[NameMapping | None] = Property(
    "schema.name-mapping.default",
    None,
    mapping_from_json,
    "a name mapping in JSON",
    "Field ids for the columns of data files that have none, by name.",
)

# The id of the table's key in a key service. Tables with this property are not written: see `encryption.py`.
ENCRYPTION_KEY: Property[str | None] = Property(
    "encryption.key-id", None, str, "the name of a key", "The table's key at a key service. Tables that have one are read-only."
)

# Row-level operations.
DELETE_MODE = choice(
    "write.delete.mode",
    "copy-on-write",
    "copy-on-write",
    "merge-on-read",
    meaning="Whether DELETE rewrites data files, or writes deletion vectors (version 3) or position delete files (version 2).",
)
UPDATE_MODE = choice("write.update.mode", "copy-on-write", "copy-on-write", "merge-on-read", meaning="The same for UPDATE.")
MERGE_MODE = choice("write.merge.mode", "copy-on-write", "copy-on-write", "merge-on-read", meaning="The same for MERGE and upserts.")
# Iceberg's documentation gives `partition` as the default. If it is not set, Java's Spark integration writes one delete file per data file, and so does
# Icefloe: such deletes are removed together with their data file.
DELETE_GRANULARITY = choice(
    "write.delete.granularity",
    "file",
    "file",
    "partition",
    meaning="Whether a position delete file is about one data file, or about all of a partition.",
    java_default="partition",
)
DELETE_ISOLATION_LEVEL = choice(
    "write.delete.isolation-level",
    "serializable",
    "serializable",
    "snapshot",
    meaning="Whether a DELETE is refused where others added matching rows meanwhile (`serializable`), or only where they removed some.",
)
UPDATE_ISOLATION_LEVEL = choice("write.update.isolation-level", "serializable", "serializable", "snapshot", meaning="The same for UPDATE.")
MERGE_ISOLATION_LEVEL = choice(
    "write.merge.isolation-level", "serializable", "serializable", "snapshot", meaning="The same for MERGE and upserts."
)

# Reads. If sizes are not set, the engine's own sizes apply.
SPLIT_SIZE: Property[int | None] = Property(
    "read.split.target-size",
    None,
    at_least(1),
    "a whole number (bytes) of at least 1",
    "Bytes of files that one task reads; Spark's `spark.sql.files.maxPartitionBytes` where it is not set.",
    java_default="134217728",
)
SPLIT_OPEN_FILE_COST: Property[int | None] = Property(
    "read.split.open-file-cost",
    None,
    at_least(0),
    "a whole number (bytes) of at least 0",
    "Bytes that each file counts as more; Spark's `spark.sql.files.openCostInBytes` where it is not set.",
    java_default="4194304",
)
ADAPTIVE_SPLITS: Property[bool | None] = Property(
    "read.split.adaptive-size.enabled",
    None,
    true_or_false,
    "true or false",
    "`false`: tasks are not made smaller where the table is too small to keep all processors busy.",
    java_default="true",
)
PARQUET_VECTORIZED: Property[bool | None] = Property(
    "read.parquet.vectorization.enabled",
    None,
    true_or_false,
    "true or false",
    "`false`: Spark reads Parquet row by row.",
    java_default="true",
)
PARQUET_BATCH_ROWS: Property[int | None] = Property(
    "read.parquet.vectorization.batch-size",
    None,
    at_least(1),
    "a whole number (rows) of at least 1",
    "Rows that Spark reads from Parquet at a time; its `spark.sql.parquet.columnarReaderBatchSize` where it is not set.",
    java_default="5000",
)
PLANNING_MODE = choice(
    "read.data-planning-mode",
    "auto",
    "auto",
    "local",
    "distributed",
    meaning="Whether manifests are read on the driver, or by a Spark job; `auto` decides by their size.",
)

# Staged commits.
WAP_ENABLED = flag(
    "write.wap.enabled", "Whether the session's `spark.wap.id` and `spark.wap.branch` stage the table's writes.", default=False
)

# Retention of snapshots and references. The default age of snapshots is five days.
MAX_SNAPSHOT_AGE_MS = number(
    "history.expire.max-snapshot-age-ms", 432_000_000, 0, "milliseconds", "Age from which on snapshots may expire."
)
MIN_SNAPSHOTS_TO_KEEP = number(
    "history.expire.min-snapshots-to-keep", 1, 1, "snapshots", "How many snapshots of a branch are kept however old they are."
)
MAX_REF_AGE_MS = number(
    "history.expire.max-ref-age-ms", 2**63 - 1, 1, "milliseconds", "Age from which on branches and tags, but for `main`, may expire."
)
# If it is false, files of the table may belong to other tables too, and are not deleted.
GC_ENABLED = flag(
    "gc.enabled", "`false`: files of the table may belong to other tables, so that expiry and purge delete none.", default=True
)
# Properties for catalogs in a Hive metastore.
HIVE_ENGINE_ENABLED = flag(
    "engine.hive.enabled", "Whether Hive itself can read a table whose catalog is in a Hive metastore.", default=False
)
HIVE_LOCK_ENABLED = flag(
    "engine.hive.lock-enabled",
    "`false`: commits take no lock of the Hive metastore, which must be of Hive 4 and compare by itself.",
    default=True,
)

# An argument for creating or upgrading a table; it is never stored among its properties. JAVA: TableProperties.RESERVED_PROPERTIES.
FORMAT_VERSION = number(
    "format-version",
    2,
    1,
    "version",
    "Version of the format. It is given when a table is created or upgraded, and is not kept among the properties.",
)
# Names of values that are stored under other keys of the metadata. Some writers list them among the properties.
DERIVED = frozenset(
    {
        "uuid",
        "snapshot-count",
        "current-snapshot-id",
        "current-snapshot-summary",
        "current-snapshot-timestamp-ms",
        "current-schema",
        "default-partition-spec",
        "default-sort-order",
    }
)

ALL: tuple[Property[object], ...] = (
    *(value for value in list(globals().values()) if isinstance(value, Property)),
    *DELETE_FILE_PROPERTIES.values(),
    *maintenance_properties.ALL,
)
# Properties of PyIceberg that have no effect in Icefloe, and whose names could be mistaken for misspelt known ones.
_OF_PYICEBERG = ("write.parquet.row-group-limit", "write.py-location-provider.impl")
KNOWN_NAMES = frozenset((*(known.name for known in ALL), *UNUSED_PROPERTIES, *UNUSED_PREFIXES, *DERIVED, *_OF_PYICEBERG))


def without_derived(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties without those of `DERIVED`: some writers list values as properties that the metadata has under other keys, such as `uuid`."""
    return {name: text for name, text in properties.items() if name not in DERIVED}


def column_metrics_modes(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the metrics modes that are set for single columns, by the column's dotted name.

    Raises:
        InvalidPropertyError: a mode is invalid.
    """
    modes = {}
    for name in properties:
        if name.startswith(METRICS_COLUMN_PREFIX):
            column = name.removeprefix(METRICS_COLUMN_PREFIX)
            modes[column] = METRICS_COLUMN.of_column(column).read(properties)
    return modes


def bloom_filter_columns(properties: Mapping[str, str]) -> dict[str, tuple[float, int | None]]:
    """Return the columns that get a bloom filter in Parquet, by dotted name.

    Returns:
        For each column the probability of false positives, and the number of distinct values or None if it is not set.

    Raises:
        InvalidPropertyError: a property of a bloom filter is invalid.
    """
    bloom_filters = {}
    for name in properties:
        column = name.removeprefix(BLOOM_ENABLED_PREFIX)
        if column != name and _BLOOM_ENABLED.of_column(column).read(properties):
            bloom_filters[column] = _BLOOM_FPP.of_column(column).read(properties), _BLOOM_NDV.of_column(column).read(properties)
    return bloom_filters


def check_properties(properties: Mapping[str, str]) -> None:
    """Check the values of every property that has an effect in Icefloe, and the names of all properties.

    Raises:
        InvalidPropertyError: properties have invalid values, all of which are listed; names seem misspelt; or names with the prefix `maintenance.` are unknown.
    """
    maintenance_properties.refuse_unknown(properties)
    misspelt = {name: similar for name in properties if (similar := similar_name(name, KNOWN_NAMES)) is not None}
    if misspelt:
        raise InvalidPropertyError(
            f"there is no table property {', '.join(misspelt)}",
            problems=[Problem(where=short_text(name), what=f"seems to mean {similar}") for name, similar in misspelt.items()],
            next_step=f"write {', '.join(misspelt.values())}; a property of your own needs a name that is less similar",
        )
    problems = list(_property_problems(properties))
    if problems:
        names = ", ".join(problem.where for problem in problems)
        raise InvalidPropertyError(f"table properties with invalid values: {names}", problems=problems)


def _property_problems(properties: Mapping[str, str]) -> Iterator[Problem]:
    for table_property in ALL:
        try:
            table_property.read(properties)
        except InvalidPropertyError as error:
            yield Problem(where=table_property.name, what=error.message)
            yield from (Problem(where=f"{table_property.name} {problem.where}", what=problem.what) for problem in error.problems)
    for prefix, read in ((METRICS_COLUMN_PREFIX, column_metrics_modes), (BLOOM_ENABLED_PREFIX, bloom_filter_columns)):
        try:
            read(properties)
        except InvalidPropertyError as error:
            yield Problem(where=prefix, what=error.message)
