"""Every table property that Icefloe acts on: name, default and what it may be, in one table.

Those of Java's that it does not act on are in `unused_properties.py`.

Read one with `TARGET_FILE_SIZE_BYTES.read(metadata.properties)`. Floor: kernel.metadata. Spec: Table Metadata Fields (`properties`). The names are those
of the table properties in the format's documentation.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from icefloe.errors import InvalidPropertyError, MetadataFormatError, Problem
from icefloe.kernel.schema.name_mapping import NameMapping, mapping_from_json

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Property(Generic[T]):
    """One property. `parse` raises ValueError or `MetadataFormatError` where the text is not `allowed`, which says in words what is."""

    name: str
    default: T
    parse: Callable[[str], T]
    allowed: str

    def read(self, properties: Mapping[str, str]) -> T:
        """The value, or the default where it is not set.

        Raises:
            InvalidPropertyError: the text is not a value of this property; names both.
        """
        text = properties.get(self.name)
        if text is None:
            return self.default
        try:
            return self.parse(text)
        except (ValueError, MetadataFormatError) as error:
            raise InvalidPropertyError(
                f"the table property {self.name} is {text!r}, which is not {self.allowed}",
                problems=error.problems if isinstance(error, MetadataFormatError) else (),
                next_step=f"set {self.name} to {self.allowed}",
            ) from error


# Python's own int() would also take `1_000` and blanks.
_WHOLE_NUMBER = re.compile(r"[+-]?\d{1,19}", re.ASCII)


def _number(name: str, default: int, smallest: int, unit: str) -> Property[int]:
    return Property(name, default, _at_least(smallest), f"a whole number ({unit}) of at least {smallest}")


def _at_least(smallest: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if _WHOLE_NUMBER.fullmatch(text) is None or int(text) < smallest:
            raise ValueError(text)
        return int(text)

    return parse


def _flag(name: str, *, default: bool) -> Property[bool]:
    return Property(name, default, _true_or_false, "true or false")


def _true_or_false(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def _choice(name: str, default: str, *choices: str) -> Property[str]:
    def parse(text: str) -> str:
        if text.lower() not in choices:
            raise ValueError(text)
        return text.lower()

    return Property(name, default, parse, f"one of {', '.join(choices)}")


def _optional(name: str, like: Property[str]) -> Property[str | None]:
    return Property(name, None, like.parse, like.allowed)


def _location(name: str) -> Property[str | None]:
    def parse(text: str) -> str:
        if not text.strip("/"):
            raise ValueError(text)
        return text.rstrip("/")

    return Property(name, None, parse, "a location")


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

# Commits. Waits double from the least to the most, with jitter, until the tries or the time run out.
COMMIT_NUM_RETRIES = _number("commit.retry.num-retries", 4, 0, "retries")
COMMIT_MIN_WAIT_MS = _number("commit.retry.min-wait-ms", 100, 0, "milliseconds")
COMMIT_MAX_WAIT_MS = _number("commit.retry.max-wait-ms", 60_000, 0, "milliseconds")
COMMIT_TOTAL_TIMEOUT_MS = _number("commit.retry.total-timeout-ms", 1_800_000, 0, "milliseconds")
STATUS_CHECK_NUM_RETRIES = _number("commit.status-check.num-retries", 3, 0, "retries")
STATUS_CHECK_MIN_WAIT_MS = _number("commit.status-check.min-wait-ms", 1_000, 0, "milliseconds")
STATUS_CHECK_MAX_WAIT_MS = _number("commit.status-check.max-wait-ms", 60_000, 0, "milliseconds")
STATUS_CHECK_TOTAL_TIMEOUT_MS = _number("commit.status-check.total-timeout-ms", 1_800_000, 0, "milliseconds")
MANIFEST_TARGET_SIZE_BYTES = _number("commit.manifest.target-size-bytes", 8_388_608, 1, "bytes")
MANIFEST_MIN_COUNT_TO_MERGE = _number("commit.manifest.min-count-to-merge", 100, 1, "manifests")
MANIFEST_MERGE_ENABLED = _flag("commit.manifest-merge.enabled", default=True)

# Data files.
DEFAULT_FILE_FORMAT = _choice("write.format.default", "parquet", "parquet", "avro", "orc")
TARGET_FILE_SIZE_BYTES = _number("write.target-file-size-bytes", 536_870_912, 1, "bytes")
DISTRIBUTION_MODE = _choice("write.distribution-mode", "hash", "none", "hash", "range")
# Of statements that change rows, in place of the one above. None: the one above holds.
DELETE_DISTRIBUTION_MODE: Property[str | None] = _optional("write.delete.distribution-mode", DISTRIBUTION_MODE)
UPDATE_DISTRIBUTION_MODE: Property[str | None] = _optional("write.update.distribution-mode", DISTRIBUTION_MODE)
MERGE_DISTRIBUTION_MODE: Property[str | None] = _optional("write.merge.distribution-mode", DISTRIBUTION_MODE)
# Of engines that write in many tasks. Without fan-out rows come to a file's writer sorted by partition, so that one file of a task is open at a time.
FANOUT_ENABLED = _flag("write.spark.fanout.enabled", default=True)
ADVISORY_PARTITION_SIZE_BYTES: Property[int | None] = Property(
    "write.spark.advisory-partition-size-bytes", None, _at_least(1), "a whole number (bytes) of at least 1"
)
ACCEPT_ANY_SCHEMA = _flag("write.spark.accept-any-schema", default=False)
AUTO_SCHEMA_EVOLUTION = _flag("write.spark.auto-schema-evolution.enabled", default=True)
DATA_PATH = _location("write.data.path")
PARQUET_CODEC = _choice("write.parquet.compression-codec", "zstd", "zstd", "gzip", "snappy", "lz4", "brotli", "uncompressed")
PARQUET_COMPRESSION_LEVEL: Property[int | None] = Property(
    "write.parquet.compression-level", None, _at_least(-131_072), "a whole number that the codec takes as a level"
)
PARQUET_ROW_GROUP_SIZE_BYTES = _number("write.parquet.row-group-size-bytes", 134_217_728, 1, "bytes")
PARQUET_PAGE_SIZE_BYTES = _number("write.parquet.page-size-bytes", 1_048_576, 1, "bytes")
PARQUET_PAGE_ROW_LIMIT = _number("write.parquet.page-row-limit", 20_000, 1, "rows")
PARQUET_DICT_SIZE_BYTES = _number("write.parquet.dict-size-bytes", 2_097_152, 1, "bytes")
PARQUET_PAGE_VERSION = _choice("write.parquet.page-version", "v1", "v1", "v2")
PARQUET_BLOOM_MAX_BYTES = _number("write.parquet.bloom-filter-max-bytes", 1_048_576, 32, "bytes")
BLOOM_ENABLED_PREFIX = "write.parquet.bloom-filter-enabled.column."
_BLOOM_FPP_PREFIX, _BLOOM_NDV_PREFIX = "write.parquet.bloom-filter-fpp.column.", "write.parquet.bloom-filter-ndv.column."
ORC_CODEC = _choice("write.orc.compression-codec", "zlib", "none", "zlib", "snappy", "lz4", "zstd")
ORC_COMPRESSION_STRATEGY = _choice("write.orc.compression-strategy", "speed", "speed", "compression")
ORC_STRIPE_SIZE_BYTES = _number("write.orc.stripe-size-bytes", 67_108_864, 1, "bytes")
ORC_BLOOM_FILTER_COLUMNS: Property[str] = Property("write.orc.bloom.filter.columns", "", str, "names of columns, with commas between them")
ORC_BLOOM_FILTER_FPP = Property("write.orc.bloom.filter.fpp", 0.05, _probability, "a number between 0 and 1")

# Of Parquet delete files, by the properties of data files that hold where these are not set. JAVA: TableProperties.DELETE_*.
DELETE_FILE_PROPERTIES: Mapping[str, Property[Any]] = {
    known.name: Property("write.delete." + known.name.removeprefix("write."), None, known.parse, known.allowed)
    for known in (
        *(TARGET_FILE_SIZE_BYTES, PARQUET_ROW_GROUP_SIZE_BYTES, PARQUET_PAGE_SIZE_BYTES, PARQUET_PAGE_ROW_LIMIT, PARQUET_PAGE_VERSION),
        *(PARQUET_DICT_SIZE_BYTES, PARQUET_CODEC, PARQUET_COMPRESSION_LEVEL),
    )
}

# Metrics of data files.
METRICS_DEFAULT: Property[str] = Property("write.metadata.metrics.default", "truncate(16)", _metrics_mode, _METRICS_MODES)
METRICS_MAX_INFERRED_COLUMNS = _number("write.metadata.metrics.max-inferred-column-defaults", 100, 0, "columns")
METRICS_COLUMN_PREFIX = "write.metadata.metrics.column."

# Metadata files. However small, the log names the file before: see `metadata_log.py`.
METADATA_PATH = _location("write.metadata.path")
METADATA_CODEC = _choice("write.metadata.compression-codec", "none", "none", "gzip")
METADATA_PREVIOUS_VERSIONS_MAX = _number("write.metadata.previous-versions-max", 100, 0, "files")
METADATA_DELETE_AFTER_COMMIT = _flag("write.metadata.delete-after-commit.enabled", default=False)
# `gzip` is the name the format's properties use for Avro's `deflate`.
AVRO_CODEC = _choice("write.avro.compression-codec", "gzip", "gzip", "zstd", "snappy", "uncompressed")
NAME_MAPPING: Property[NameMapping | None] = Property("schema.name-mapping.default", None, mapping_from_json, "a name mapping in JSON")

# The table's key at a key service. Tables that have one are not written: see `encryption.py`.
ENCRYPTION_KEY: Property[str | None] = Property("encryption.key-id", None, str, "the name of a key")

# Row-level operations.
DELETE_MODE = _choice("write.delete.mode", "copy-on-write", "copy-on-write", "merge-on-read")
UPDATE_MODE = _choice("write.update.mode", "copy-on-write", "copy-on-write", "merge-on-read")
MERGE_MODE = _choice("write.merge.mode", "copy-on-write", "copy-on-write", "merge-on-read")
# The table property's own default is `partition`; Java's Spark writes by file where it is not set, and so do we: such deletes leave with their data file.
DELETE_GRANULARITY = _choice("write.delete.granularity", "file", "file", "partition")
DELETE_ISOLATION_LEVEL = _choice("write.delete.isolation-level", "serializable", "serializable", "snapshot")
UPDATE_ISOLATION_LEVEL = _choice("write.update.isolation-level", "serializable", "serializable", "snapshot")
MERGE_ISOLATION_LEVEL = _choice("write.merge.isolation-level", "serializable", "serializable", "snapshot")

# Reads. Where sizes are not set, the engine's own hold.
SPLIT_SIZE: Property[int | None] = Property("read.split.target-size", None, _at_least(1), "a whole number (bytes) of at least 1")
SPLIT_OPEN_FILE_COST: Property[int | None] = Property(
    "read.split.open-file-cost", None, _at_least(0), "a whole number (bytes) of at least 0"
)
ADAPTIVE_SPLITS: Property[bool | None] = Property("read.split.adaptive-size.enabled", None, _true_or_false, "true or false")
PARQUET_VECTORIZED: Property[bool | None] = Property("read.parquet.vectorization.enabled", None, _true_or_false, "true or false")
PARQUET_BATCH_ROWS: Property[int | None] = Property(
    "read.parquet.vectorization.batch-size", None, _at_least(1), "a whole number (rows) of at least 1"
)
PLANNING_MODE = _choice("read.data-planning-mode", "auto", "auto", "local", "distributed")

# Staged commits.
WAP_ENABLED = _flag("write.wap.enabled", default=False)

# Retention of snapshots and references. The first is five days.
MAX_SNAPSHOT_AGE_MS = _number("history.expire.max-snapshot-age-ms", 432_000_000, 0, "milliseconds")
MIN_SNAPSHOTS_TO_KEEP = _number("history.expire.min-snapshots-to-keep", 1, 1, "snapshots")
MAX_REF_AGE_MS = _number("history.expire.max-ref-age-ms", 2**63 - 1, 1, "milliseconds")
# False says that files of the table may be those of other tables too.
GC_ENABLED = _flag("gc.enabled", default=True)

# Given when a table is made; never kept among its properties. JAVA: TableProperties.RESERVED_PROPERTIES.
FORMAT_VERSION = _number("format-version", 2, 1, "version")
# What metadata says elsewhere, under names that some writers list among properties.
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
)


def property_texts(given: Mapping[str, object], what: str = "table") -> dict[str, str]:
    """Return the properties as texts: numbers as they are written, truth values as true or false.

    Raises:
        InvalidPropertyError: a name is no text, or a value is neither text nor a number nor a truth value; None is not a value.
    """
    for name, value in given.items():
        if not isinstance(name, str):
            raise InvalidPropertyError(f"{name!r} cannot be the name of a {what} property: names are text", next_step="pass a text")
        if not isinstance(value, str | int | float):
            raise InvalidPropertyError(
                f"the {what} property {name} cannot be {value!r}: properties are text",
                next_step="leave it out, or pass a text" if value is None else "pass a text",
            )
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in given.items()}


def without_derived(given: Mapping[str, str]) -> dict[str, str]:
    """Those that a new table may be given: a list of another table's properties may hold more."""
    return {name: text for name, text in given.items() if name not in DERIVED}


def column_metrics_modes(properties: Mapping[str, str]) -> dict[str, str]:
    """The metrics mode of every column that has one of its own, by the column's dotted name. Raises `InvalidPropertyError`."""
    modes = {}
    for name in properties:
        if name.startswith(METRICS_COLUMN_PREFIX):
            mode: Property[str] = Property(name, "", _metrics_mode, _METRICS_MODES)
            modes[name.removeprefix(METRICS_COLUMN_PREFIX)] = mode.read(properties)
    return modes


def bloom_filter_columns(properties: Mapping[str, str]) -> dict[str, tuple[float, int | None]]:
    """By the dotted name of each column that is to have a bloom filter in Parquet: the chance of a false answer, and the distinct values where said.

    Raises `InvalidPropertyError`.
    """
    found = {}
    for name in properties:
        column = name.removeprefix(BLOOM_ENABLED_PREFIX)
        if column != name and _flag(name, default=False).read(properties):
            fpp = Property(_BLOOM_FPP_PREFIX + column, 0.01, _probability, "a number between 0 and 1").read(properties)
            ndv = Property(_BLOOM_NDV_PREFIX + column, 0, _at_least(1), "a whole number (distinct values) of at least 1").read(properties)
            found[column] = fpp, ndv or None
    return found


def check_properties(properties: Mapping[str, str]) -> None:
    """Looks at every property that Icefloe acts on. Raises `InvalidPropertyError` that lists each wrong one."""
    problems = list(_property_problems(properties))
    if problems:
        names = ", ".join(problem.where for problem in problems)
        raise InvalidPropertyError(f"table properties that are not what they may be: {names}", problems=problems)


def _property_problems(properties: Mapping[str, str]) -> Iterator[Problem]:
    for known in ALL:
        try:
            known.read(properties)
        except InvalidPropertyError as error:
            yield Problem(where=known.name, what=error.message)
            yield from (Problem(where=f"{known.name} {problem.where}", what=problem.what) for problem in error.problems)
    for prefix, read in ((METRICS_COLUMN_PREFIX, column_metrics_modes), (BLOOM_ENABLED_PREFIX, bloom_filter_columns)):
        try:
            read(properties)
        except InvalidPropertyError as error:
            yield Problem(where=prefix, what=error.message)
