"""What a read's options, the table's properties and the session's settings say of a scan: which snapshot, how files are cut, where planning runs.

An option wins over a setting of the session, and that over a property. Spec: Table Metadata Fields (`properties`).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from pyspark.sql import SparkSession

from icefloe.errors import InvalidInputError
from icefloe.kernel.metadata.table_properties import (
    ADAPTIVE_SPLITS,
    PARQUET_BATCH_ROWS,
    PARQUET_VECTORIZED,
    PLANNING_MODE,
    SPLIT_OPEN_FILE_COST,
    SPLIT_SIZE,
    Property,
)
from icefloe.kernel.option import Option
from icefloe.spark.connect.connect_options import milliseconds
from icefloe.spark.scan.distributed_planning import PlanningMode
from icefloe.spark.scan.scan_builder import Wanted
from icefloe.spark.scan.table_selector import Selected
from icefloe.spark.scan.unused_settings import SESSION_PREFIX

PLANNING_SETTING = "spark.icefloe.planning.mode"
# What a scan is read by: the option that Java has, its setting of the session, the table's property, and the setting of Spark's that does it.
_READS: tuple[tuple[str, str, Property[Any], str], ...] = (
    ("split-size", "read.split-size", SPLIT_SIZE, "spark.sql.files.maxPartitionBytes"),
    ("file-open-cost", "", SPLIT_OPEN_FILE_COST, "spark.sql.files.openCostInBytes"),
    ("vectorization-enabled", "vectorization.enabled", PARQUET_VECTORIZED, "spark.sql.parquet.enableVectorizedReader"),
    ("batch-size", "", PARQUET_BATCH_ROWS, "spark.sql.parquet.columnarReaderBatchSize"),
)
# Spark makes splits smaller where there are fewer than so many; with one, it never does.
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
_PLANNING = "data-planning-mode"
# What chooses changes between snapshots.
RANGE_OPTIONS = ("start-snapshot-id", "end-snapshot-id", "start-timestamp", "end-timestamp")
_SELECTING = {"snapshot-id": "snapshot_id", "branch": "branch", "tag": "tag", "as-of-timestamp": "as_of_ms"}
# All options and settings, these after `spark.sql.iceberg.`, that a read heeds.
ACTED_ON_OPTIONS = (*_SELECTING, *RANGE_OPTIONS, "planning-mode", *(option for option, *_ in _READS), _AGGREGATES[0])
ACTED_ON_SETTINGS = (
    *(setting for _, setting, *_ in _READS if setting),
    *(_ADAPTIVE, _SPLIT_COUNT.name, _AGGREGATES[1], _COLUMN_STATISTICS, _PLANNING),
)

# The same for the configuration reference: options of a read, then settings of the session in full.
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
    Option("split-size", "`read.split.target-size` for one read."),
    Option("file-open-cost", "`read.split.open-file-cost` for one read."),
    Option("vectorization-enabled", "`read.parquet.vectorization.enabled` for one read."),
    Option("batch-size", "`read.parquet.vectorization.batch-size` for one read."),
    Option("aggregate-push-down-enabled", "`false`: `count`, `min` and `max` are computed from rows.", "`true`"),
)
READ_SETTINGS = (
    Option(SESSION_PREFIX + "read.split-size", "`read.split.target-size` for the session.", java=False),
    Option(SESSION_PREFIX + "vectorization.enabled", "`read.parquet.vectorization.enabled` for the session."),
    Option(SESSION_PREFIX + _ADAPTIVE, "`read.split.adaptive-size.enabled` for the session."),
    Option(SESSION_PREFIX + _SPLIT_COUNT.name, _SPLIT_COUNT.meaning),
    Option(SESSION_PREFIX + _AGGREGATES[1], "`false`: `count`, `min` and `max` are computed from rows.", "`true`"),
    Option(SESSION_PREFIX + _COLUMN_STATISTICS, "`false`: numbers of distinct values do not reach Spark's optimizer.", "`true`"),
    Option(SESSION_PREFIX + _PLANNING, "`read.data-planning-mode` for the session."),
    Option(PLANNING_SETTING, "The same; it is preferred to the one above.", java=False),
)


def with_options(selected: Selected, options: Mapping[str, str], *, takes_range: bool = False) -> Selected:
    """The selection that a read's options make: `snapshot-id`, `branch`, `tag` or `as-of-timestamp` (milliseconds, or a time with its zone).

    Raises:
        InvalidInputError: several of them, one beside a selector in the name, or one that is no number where it has to be; or a range of snapshots that no
            table has, as `_with_range` says. With `takes_range` the caller reads the range itself.
    """
    if not takes_range:
        selected = _with_range(selected, options)
    given = {_SELECTING[key.lower()]: value for key, value in options.items() if key.lower() in _SELECTING}
    if not given or given == {"branch": selected.branch}:
        return selected
    if len(given) > 1 or selected.is_past or selected.branch is not None:
        beside = " beside the one that its name or clause says" if len(given) == 1 else ""
        raise InvalidInputError(
            f"{selected.table.full_name} is read with {', '.join(sorted(key.lower() for key in options if key.lower() in _SELECTING))}{beside}, "
            "and only one snapshot can be",
            next_step="give one of snapshot-id, branch, tag and as-of-timestamp",
        )
    return replace(
        selected,
        branch=given.get("branch"),
        tag=given.get("tag"),
        snapshot_id=_snapshot_id("snapshot-id", given["snapshot_id"]) if "snapshot_id" in given else None,
        as_of_ms=milliseconds(given["as_of_ms"]) if "as_of_ms" in given else None,
    )


def _with_range(selected: Selected, options: Mapping[str, str]) -> Selected:
    """Return the selection of the rows appended after `start-snapshot-id` up to `end-snapshot-id`; unchanged without such options.

    Raises:
        InvalidInputError: only the end is given, a range of times, a range of a metadata table, or one beside a snapshot, a tag or a time.
    """
    given = {key.lower(): value for key, value in options.items() if key.lower() in RANGE_OPTIONS}
    if not given:
        return selected
    name = selected.table.full_name
    if selected.metadata_table is not None:
        raise InvalidInputError(
            f"the metadata table {name}.{selected.metadata_table} cannot be read by {', '.join(sorted(given))}",
            table=name,
            next_step="of a table's metadata tables, .changes alone takes these options",
        )
    times = sorted(given.keys() & {"start-timestamp", "end-timestamp"})
    if times:
        raise InvalidInputError(
            f"{name} is read with {' and '.join(times)}, which only its table .changes takes",
            table=name,
            next_step="give start-snapshot-id and end-snapshot-id for appended rows; or read .changes for added and removed ones",
        )
    if "start-snapshot-id" not in given:
        raise InvalidInputError(
            f"{name} is read with end-snapshot-id alone",
            table=name,
            next_step="give start-snapshot-id too, or snapshot-id for one snapshot",
        )
    if selected.is_past or any(key.lower() in _SELECTING and key.lower() != "branch" for key in options):
        raise InvalidInputError(
            f"{name} is read with {', '.join(sorted(given))} beside a snapshot, a tag or a time", table=name, next_step="give one of them"
        )
    start = _snapshot_id("start-snapshot-id", given["start-snapshot-id"])
    if "end-snapshot-id" not in given:
        return replace(selected, appended_after=start)
    if selected.branch is not None or any(key.lower() == "branch" for key in options):
        raise InvalidInputError(
            f"{name} is read with a branch and with end-snapshot-id",
            table=name,
            next_step="give one of them: each says where the range ends",
        )
    return replace(selected, appended_after=start, snapshot_id=_snapshot_id("end-snapshot-id", given["end-snapshot-id"]))


def _snapshot_id(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidInputError(f"the read option {name} is {text!r}, which is no whole number", next_step="give a snapshot's id") from None


def planning_mode(asked: Wanted, properties: Mapping[str, str]) -> PlanningMode:
    """`auto`, `local` or `distributed`. Raises `InvalidPropertyError` for another word."""
    settings = asked["settings"]
    given = _option(asked["options"], "planning-mode") or settings.get(PLANNING_SETTING) or settings.get(SESSION_PREFIX + _PLANNING)
    return cast(PlanningMode, PLANNING_MODE.read(properties if given is None else {PLANNING_MODE.name: given}))


def answers_aggregates(asked: Wanted) -> bool:
    """Return whether metadata may answer aggregates: `aggregate-push-down-enabled`, true by default. Raises `InvalidPropertyError`."""
    return _flag(asked, *_AGGREGATES)


def reports_statistics(asked: Wanted) -> bool:
    """Return whether Spark's optimizer is given the statistics of columns, true by default. Raises `InvalidPropertyError`."""
    return _flag(asked, "", _COLUMN_STATISTICS)


def _flag(asked: Wanted, option: str, setting: str) -> bool:
    given = _option(asked["options"], option)
    name, text = (SESSION_PREFIX + setting, asked["settings"].get(SESSION_PREFIX + setting)) if given is None else (option, given)
    return text is None or bool(replace(ADAPTIVE_SPLITS, name=name).read({name: text}))


def session_for(spark: SparkSession, asked: Wanted, properties: Mapping[str, str]) -> SparkSession:
    """Return the session by whose settings Spark reads, cuts and packs files: a copy of this one where Iceberg's options, settings or properties say how.

    Raises `InvalidPropertyError` for a value that is none.
    """
    settings: Mapping[str, str] = asked["settings"]
    wanted: dict[str, Any] = {}
    for option, setting, known, sparks in _READS:
        given = _option(asked["options"], option) or settings.get(SESSION_PREFIX + setting)
        value = known.read(properties if given is None else {known.name: given})
        if value is not None:
            wanted[sparks] = value
    adapts = settings.get(SESSION_PREFIX + _ADAPTIVE)
    if ADAPTIVE_SPLITS.read(properties if adapts is None else {ADAPTIVE_SPLITS.name: adapts}) is False:
        wanted[_LEAST_SPLITS] = 1
    elif (count := _SPLIT_COUNT.read({name.removeprefix(SESSION_PREFIX): text for name, text in settings.items()})) is not None:
        wanted[_LEAST_SPLITS] = count
    if not wanted:
        return spark
    java: Any = spark._jsparkSession.cloneSession()
    for name, value in wanted.items():
        java.conf().set(name, str(value).lower())
    return SparkSession(spark.sparkContext, java)


def _option(options: Mapping[str, str], name: str) -> str | None:
    return next((value for key, value in options.items() if key.lower() == name), None)
