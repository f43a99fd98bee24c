"""Options of reads and settings of sessions: how files are split, where scans are planned, what is pushed down. Options without effect are warned about.

An option overrides a setting of the session, which overrides a table property. `table_selector.py` handles options that select a snapshot; options of writes
are in `spark/write/write_options.py`. Spec: Table Metadata Fields (`properties`).
"""

from collections.abc import Collection, Mapping
from typing import Any, Literal, TypeVar, cast

from pyspark.sql import SparkSession

from icefloe.errors import InvalidInputError, InvalidPropertyError
from icefloe.formatting import short_text
from icefloe.operations.warnings_once import warn_once
from icefloe.option import Option
from icefloe.scan.stream_rules import ON_MISSING, READ_OVERWRITES, SKIP_DELETES, SKIP_OVERWRITES
from icefloe.similar_names import similar_name
from icefloe.spark.scan.table_selector import RANGE_OPTIONS, SELECTING_OPTIONS
from icefloe.spec.metadata.property_kinds import Property
from icefloe.spec.metadata.table_properties import (
    ADAPTIVE_SPLITS,
    PARQUET_BATCH_ROWS,
    PARQUET_VECTORIZED,
    PLANNING_MODE,
    SPLIT_OPEN_FILE_COST,
    SPLIT_SIZE,
)

T = TypeVar("T")
PlanningMode = Literal["auto", "local", "distributed"]
SESSION_PREFIX = "spark.sql.iceberg."
# The reasons why an option or setting of Java's Iceberg has no effect, for the configuration reference and for warnings.
_CACHE = "deleted rows are found once on the driver and sent with the query, so that executors read no delete files to keep"
_STREAMS = "only streams use it"
_OWN_PLANNING = "batches are planned when Spark needs them, from the manifests of the snapshots in a batch alone"
_LOCALITY = "Spark places the tasks of its own file scan"

UNUSED_SETTINGS: Mapping[str, str] = {
    "delete-planning-mode": "delete manifests are planned where data manifests are: spark.sql.iceberg.data-planning-mode",
    "locality.enabled": _LOCALITY,
    "executor-cache.enabled": _CACHE,
    "executor-cache.delete-files.enabled": _CACHE,
    "executor-cache.timeout": _CACHE,
    "executor-cache.max-entry-size": _CACHE,
    "executor-cache.max-total-size": _CACHE,
    "executor-cache.locality.enabled": _CACHE,
    "identifier-fields-rely": "Spark is given no constraints, so that no query is changed by them",
    "async-micro-batch-planning-enabled": _OWN_PLANNING,
    "view.schema-binding-mode": "the columns of every view are cast to the types of the view, as with COMPENSATION",
}
FROM_TIMESTAMP = "stream-from-timestamp"
MAX_FILES, MAX_ROWS, MAX_BYTES = (f"streaming-max-{unit}-per-micro-batch" for unit in ("files", "rows", "bytes"))
POLLING = "streaming-snapshot-polling-interval-ms"
READ_MODE, DEDUPLICATION, COMPUTE_UPDATES = "read.mode", "deduplicationMode", "computeUpdates"
_ROWS_MODE, CHANGES_MODE = "rows", "changes"  # the values of `READ_MODE`
# Options of Spark's clause CHANGES, in lower case.
OPTIONS_OF_CLAUSE = (
    "startingversion",
    "endingversion",
    "startingtimestamp",
    "endingtimestamp",
    "startingboundinclusive",
    "endingboundinclusive",
)
_OPTIONS_OF_ROWS = (FROM_TIMESTAMP, POLLING, MAX_FILES, MAX_ROWS, MAX_BYTES, SKIP_DELETES, SKIP_OVERWRITES, READ_OVERWRITES, ON_MISSING)
STREAM_OPTION_NAMES = (*_OPTIONS_OF_ROWS, READ_MODE, DEDUPLICATION, COMPUTE_UPDATES)
UNUSED_READ_OPTIONS: dict[str, str] = {
    "lookback": "Spark packs files into tasks by a rule of its own",
    "locality": _LOCALITY,
    **dict.fromkeys(
        (
            "async-micro-batch-planning-enabled",
            "async-queue-preload-file-limit",
            "async-queue-preload-row-limit",
        ),
        _OWN_PLANNING,
    ),
}
# Options of streams, which have no effect on other reads.
UNUSED_BY_QUERIES = {**UNUSED_READ_OPTIONS, **dict.fromkeys(map(str.lower, (*_OPTIONS_OF_ROWS, DEDUPLICATION, COMPUTE_UPDATES)), _STREAMS)}
# The query that Spark pushed to a scan builder: the `options` of the read; of the session the `zone`, Iceberg's `settings` and the split size, `split_bytes`;
# in `operation` the row-level operation to which the scan belongs, or None; optionally `filters`, `limit` and `aggregation`; for a scan its `schema` in
# Spark's JSON.
PushedQuery = Mapping[str, Any]
_SPLIT_BYTES = "spark.sql.files.maxPartitionBytes"
PLANNING_SETTING = "spark.icefloe.planning.mode"
# The read option in Java's Iceberg, the session setting, the table property, and Spark's setting with the same effect.
_READS: tuple[tuple[str, str, Property[Any], str], ...] = (
    ("split-size", "read.split-size", SPLIT_SIZE, _SPLIT_BYTES),
    ("file-open-cost", "", SPLIT_OPEN_FILE_COST, "spark.sql.files.openCostInBytes"),
    ("vectorization-enabled", "vectorization.enabled", PARQUET_VECTORIZED, "spark.sql.parquet.enableVectorizedReader"),
    ("batch-size", "", PARQUET_BATCH_ROWS, "spark.sql.parquet.columnarReaderBatchSize"),
)
# Spark makes splits smaller to get this number of splits; with 1 it never does.
_LEAST_SPLITS = "spark.sql.files.minPartitionNum"
_ADAPTIVE = "read.adaptive-split-size.enabled"
_SPLIT_COUNT: Property[int | None] = Property(
    "read.adaptive-split-size.parallelism",
    None,
    SPLIT_SIZE.parse,
    "a whole number of at least 1",
    "How many tasks a small table is cut into at least; Spark's own number where it is not set.",
)
_AGGREGATES = ("aggregate-push-down-enabled", "aggregate-push-down.enabled")
_COLUMN_STATISTICS = "report-column-stats"
_ESTIMATES = "size-estimation.enabled"
_PLANNING = "data-planning-mode"
_GROUPING = "planning.preserve-data-grouping"
_TOLERANT = "tolerant"
_SETTING_PREFIXES = (SESSION_PREFIX, "spark.icefloe.")
# All options and settings (after the prefix `spark.sql.iceberg.`) that have an effect on a read.
ACTED_ON_OPTIONS = (*SELECTING_OPTIONS, *RANGE_OPTIONS, "planning-mode", _TOLERANT, *(option for option, *_ in _READS), _AGGREGATES[0])
ACTED_ON_SETTINGS = (
    *(setting for _, setting, *_ in _READS if setting),
    *(_ADAPTIVE, _SPLIT_COUNT.name, _AGGREGATES[1], _COLUMN_STATISTICS, _ESTIMATES, _PLANNING, _GROUPING),
)

_KNOWN_OPTIONS = (*ACTED_ON_OPTIONS, *UNUSED_BY_QUERIES, READ_MODE, "path", "versionasof", "timestampasof")

# The same with their meanings, for the configuration reference; settings have their full names.
READ_OPTIONS = (
    Option("snapshot-id", "The snapshot that is read, by its id."),
    Option("branch", "The branch that is read."),
    Option("tag", "The tag that is read."),
    Option("as-of-timestamp", "The snapshot that was current then: milliseconds from 1970-01-01 UTC, or a time with its zone."),
    Option("start-snapshot-id", "Only rows appended after this snapshot; of the table `.changes`, changes after it."),
    Option("end-snapshot-id", "Last snapshot of that range.", "the current one"),
    Option("start-timestamp", "Of the table `.changes`: changes after this time, in milliseconds."),
    Option("end-timestamp", "Of the table `.changes`: changes up to this time, in milliseconds."),
    Option("planning-mode", "`read.data-planning-mode` for one read.", java=False),
    Option(_TOLERANT, "`true`: harmless deviations of manifests from the format are warnings instead of errors.", "`false`", java=False),
    Option("split-size", "`read.split.target-size` for one read."),
    Option("file-open-cost", "`read.split.open-file-cost` for one read."),
    Option("vectorization-enabled", "`read.parquet.vectorization.enabled` for one read."),
    Option("batch-size", "`read.parquet.vectorization.batch-size` for one read."),
    Option("aggregate-push-down-enabled", "`false`: `count`, `min` and `max` are computed from rows.", "`true`"),
)
READ_SETTINGS = (
    Option(SESSION_PREFIX + "read.split-size", "`read.split.target-size` for the session. In Java since 1.12."),
    Option(SESSION_PREFIX + "vectorization.enabled", "`read.parquet.vectorization.enabled` for the session."),
    Option(SESSION_PREFIX + _ADAPTIVE, "`read.split.adaptive-size.enabled` for the session."),
    Option(SESSION_PREFIX + _SPLIT_COUNT.name, _SPLIT_COUNT.meaning),
    Option(SESSION_PREFIX + _AGGREGATES[1], "`false`: `count`, `min` and `max` are computed from rows.", "`true`"),
    Option(
        SESSION_PREFIX + _COLUMN_STATISTICS,
        "`false`: with `spark.sql.cbo.enabled`, the null counts, bounds and numbers of distinct values of columns do not reach Spark's optimizer.",
        "`true`",
    ),
    Option(
        SESSION_PREFIX + _ESTIMATES,
        "`false`: Spark chooses joins by the sizes of the planned files, whatever share filters keep, and broadcasts no join by its estimated size.",
        "`true`",
        java=False,
    ),
    Option(SESSION_PREFIX + _PLANNING, "`read.data-planning-mode` for the session."),
    Option(
        SESSION_PREFIX + _GROUPING,
        "`true`, with `spark.sql.sources.v2.bucketing.enabled`: scans report their partitions, so that joins by partition fields need no shuffle.",
        "`false`",
    ),
    Option(
        PLANNING_SETTING,
        "`read.data-planning-mode` for the session; it is preferred to `spark.sql.iceberg.data-planning-mode`.",
        java=False,
    ),
)


def similar_setting(name: str, write_settings: Collection[str] = ()) -> str | None:
    """Return the setting of Icefloe or Iceberg that the user seems to mean with an unknown setting; None if there is no similar one, or the name is known.

    Args:
        name: The full name of the unknown setting.
        write_settings: The settings of writes without their prefix, to compare the name with them too; by default it is compared with settings of reads.
    """
    if not name.startswith(_SETTING_PREFIXES):
        return None
    # Only the parts after the prefix are compared.
    known = {setting: SESSION_PREFIX + setting for setting in (*ACTED_ON_SETTINGS, *UNUSED_SETTINGS, *write_settings)}
    similar = similar_name(name.removeprefix(SESSION_PREFIX), (*known, PLANNING_SETTING))
    return known.get(similar or "", similar)


def warn_of_settings(spark: SparkSession, settings: Mapping[str, str], write_settings: Collection[str] = ()) -> None:
    """Warn once per session about each setting that has no effect or seems misspelt.

    Args:
        spark: The session.
        settings: All settings of the session, also those of Spark.
        write_settings: The settings of writes, without their prefix; see `similar_setting`.
    """
    reasons = {key: UNUSED_SETTINGS.get(key.removeprefix(SESSION_PREFIX)) for key in settings if key.startswith(SESSION_PREFIX)}
    similar = {key: similar_setting(key, write_settings) for key in settings}
    _warn(
        spark, "setting", reasons | {key: f"it is unknown, and seems to mean {name}" for key, name in similar.items() if name is not None}
    )


def warn_of_read_options(spark: SparkSession, options: Mapping[str, str], *, is_stream: bool = False, has_changes: bool = False) -> None:
    """Warn once per session about each read option that has no effect, because only Java's Iceberg uses it, or only streams do.

    Args:
        spark: The session.
        options: The options of the read.
        is_stream: Whether a stream is read.
        has_changes: Whether changes are read, for which Spark has options too.
    """
    unused = UNUSED_READ_OPTIONS if is_stream else UNUSED_BY_QUERIES
    names = {key.lower() for key in options} - ({DEDUPLICATION.lower(), COMPUTE_UPDATES.lower()} if has_changes else set())
    _warn(spark, "read option", {name: unused.get(name) for name in names})


def check_read_options(options: Mapping[str, str], *others: str) -> None:
    """Refuse options of a read that seem misspelt, because ignoring them could read a different snapshot.

    Args:
        options: The options.
        *others: Names of options that only this read has, in lower case.

    Raises:
        InvalidInputError: An option seems misspelt; the error's next step has the known option.
    """
    for name in options:
        similar = similar_name(name.lower(), (*_KNOWN_OPTIONS, *others))
        if similar is not None:
            written = next((option for option in (DEDUPLICATION, COMPUTE_UPDATES) if option.lower() == similar), similar)
            raise InvalidInputError(f"there is no read option {short_text(name)!r}", next_step=f"write {written!r}")


def check_read_mode(options: Mapping[str, str], table_name: str, *, is_stream: bool) -> None:
    """Refuse `read.mode` of changes for a table whose rows are read.

    Raises:
        InvalidInputError: The read is of changes, which have other columns than the table; or the value is not a mode.
    """
    mode = read_mode(options)
    if mode != CHANGES_MODE:
        return
    if is_stream:
        by_name = 'its table has the columns of the rows; write spark.readStream.format("iceberg").option("read.mode", "changes").load(...)'
        raise InvalidInputError(
            f"{table_name} is read by readStream.table with {READ_MODE} {CHANGES_MODE}, and Spark gives a table its columns before it passes the option",
            table=table_name,
            next_step=f"{by_name}, or on Spark 4.2 and later spark.readStream.changes(...)",
        )
    raise changes_need_stream(table_name)


def changes_need_stream(table_name: str) -> InvalidInputError:
    """Return the error about a read of changes that is no stream."""
    return InvalidInputError(
        f"{table_name} is read with {READ_MODE} {CHANGES_MODE}, which is for streams",
        table=table_name,
        next_step="call create_changelog_view or read the table .changes; on Spark 4.2 and later also spark.read.changes(...)",
    )


def read_mode(options: Mapping[str, str]) -> str:
    """Return what a read reads: `rows`, the default, or `changes`. Raises `InvalidInputError` if the option has another value."""
    text = (_option(options, READ_MODE) or _ROWS_MODE).strip().lower()
    if text not in (_ROWS_MODE, CHANGES_MODE):
        allowed = f"{_ROWS_MODE} or {CHANGES_MODE}"
        raise InvalidInputError(
            f"the read option {READ_MODE} is {short_text(text)!r}, which is not {allowed}", next_step=f"give it {allowed}"
        )
    return text


def _warn(spark: SparkSession, kind: str, reasons: Mapping[str, str | None]) -> None:
    unused = {name: reason for name, reason in reasons.items() if reason is not None}
    if unused:
        session = str(spark._jsparkSession.sessionUUID())
        for name, reason in unused.items():
            warn_once(session, kind, name, reason)


def planning_mode(query: PushedQuery, properties: Mapping[str, str]) -> PlanningMode:
    """Return where a scan is planned: `local` in this process, `distributed` by a Spark job, or `auto` for whichever seems faster.

    Raises:
        InvalidPropertyError: An option, setting or property has an invalid value.
    """
    return cast(PlanningMode, _value(query, PLANNING_MODE, properties, "planning-mode", PLANNING_SETTING, SESSION_PREFIX + _PLANNING))


def pushes_aggregates(query: PushedQuery) -> bool:
    """Return whether aggregates are pushed down: `aggregate-push-down-enabled`, true by default.

    Raises:
        InvalidPropertyError: The value is not true or false.
    """
    return _flag(query, *_AGGREGATES)


def is_tolerant(query: PushedQuery) -> bool:
    """Return whether harmless deviations from the format are only warnings: `tolerant`, false by default, and always false for a row-level operation.

    Raises:
        InvalidPropertyError: The value is not true or false.
    """
    return query.get("operation") is None and _option(query["options"], _TOLERANT) is not None and _flag(query, _TOLERANT, "")


def reports_statistics(query: PushedQuery) -> bool:
    """Return whether Spark's optimizer gets statistics of columns: `report-column-stats`, true by default.

    Raises:
        InvalidPropertyError: The value is not true or false.
    """
    return _flag(query, "", _COLUMN_STATISTICS)


def estimates_sizes(query: PushedQuery) -> bool:
    """Return whether scans estimate how many rows filters keep, and the sizes of joins are estimated: `size-estimation.enabled`, true by default.

    Raises:
        InvalidPropertyError: The value is not true or false.
    """
    return _flag(query, "", _ESTIMATES)


def reports_partitions(query: PushedQuery) -> bool:
    """Return whether a scan reports its partitions: `planning.preserve-data-grouping`, false by default.

    Always False if Spark's setting for storage-partitioned joins is off, because Spark would not use the partitions.

    Raises:
        InvalidPropertyError: The value is not true or false.
    """
    return bool(query.get("groups_partitions")) and _value(query, ADAPTIVE_SPLITS, {}, "", SESSION_PREFIX + _GROUPING) is True


def _flag(query: PushedQuery, option: str, setting: str) -> bool:
    return _value(query, ADAPTIVE_SPLITS, {}, option, SESSION_PREFIX + setting) is not False


def _value(query: PushedQuery, known: Property[T], properties: Mapping[str, str], option: str, *settings: str) -> T:
    """Return the value of a read option; if it is not set, of the first of `settings` that is set; otherwise of the table property `known`.

    Raises:
        InvalidPropertyError: The value is not allowed; the error has the name of the option, setting or property.
    """
    texts = [(f"the read option {option}", _option(query["options"], option))]
    texts += [(f"the setting {name}", query["settings"].get(name)) for name in settings]
    name, text = next(((name, text) for name, text in texts if text is not None), ("", None))
    if text is None:
        return known.read(properties)
    try:
        return known.read({known.name: text})
    except InvalidPropertyError as error:
        raise InvalidPropertyError(f"{name} is {text!r}, which is not {known.allowed}", next_step=f"give it {known.allowed}") from error


def session_for(spark: SparkSession, query: PushedQuery, properties: Mapping[str, str]) -> SparkSession:
    """Return a session in which Spark reads, splits and packs files as the options of the read, the settings and the table's properties require.

    Args:
        spark: The session of the query.
        query: The query, with its options and settings.
        properties: Properties of the table.

    Returns:
        The same session; or a clone of it with changed settings, if one of Spark's settings must change.

    Raises:
        InvalidPropertyError: A value is not valid.
        InvalidInputError: Spark's own split size is not positive, so that it would divide a file endlessly, or read no rows.
    """
    spark_settings: dict[str, Any] = {}
    for option, setting, read_property, spark_setting in _READS:
        value = _value(query, read_property, properties, option, *([SESSION_PREFIX + setting] if setting else []))
        if value is not None:
            spark_settings[spark_setting] = value
    split_bytes = query.get("split_bytes")
    if split_bytes is not None and split_bytes <= 0 and _SPLIT_BYTES not in spark_settings:
        raise InvalidInputError(
            f"{_SPLIT_BYTES} is {split_bytes} bytes, and a split of a file has at least 1",
            next_step=f"set {_SPLIT_BYTES} to a positive size such as 128MB, or unset it",
        )
    if _value(query, ADAPTIVE_SPLITS, properties, "", SESSION_PREFIX + _ADAPTIVE) is False:
        spark_settings[_LEAST_SPLITS] = 1
    elif (count := _value(query, _SPLIT_COUNT, {}, "", SESSION_PREFIX + _SPLIT_COUNT.name)) is not None:
        spark_settings[_LEAST_SPLITS] = count
    if not spark_settings:
        return spark
    java: Any = spark._jsparkSession.cloneSession()
    for name, value in spark_settings.items():
        java.conf().set(name, str(value).lower())
    return SparkSession(spark.sparkContext, java)


def _option(options: Mapping[str, str], name: str) -> str | None:
    return next((value for key, value in options.items() if key.lower() == name), None)
