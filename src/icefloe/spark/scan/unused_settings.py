"""Settings of a session and options of a read that Java's Iceberg has and Icefloe does not act on, each with the reason; and the warnings of them.

Those that it acts on are in `read_options.py` and `spark/write/write_options.py`.
"""

from collections.abc import Mapping

from pyspark.sql import SparkSession

from icefloe.table.warnings_once import warn_once

SESSION_PREFIX = "spark.sql.iceberg."
_CACHE = "deleted rows are found once on the driver and sent with the query, so that executors read no delete files to keep"
_STREAMS = "tables are not read as streams"
_LOCALITY = "Spark places the tasks of its own file scan"
_VARIANTS = "variants are written whole"

UNUSED_SETTINGS: Mapping[str, str] = {
    "planning.preserve-data-grouping": "Spark groups the tasks of its own file scan by size",
    "delete-planning-mode": "delete manifests are planned where data manifests are: spark.sql.iceberg.data-planning-mode",
    "locality.enabled": _LOCALITY,
    "executor-cache.enabled": _CACHE,
    "executor-cache.delete-files.enabled": _CACHE,
    "executor-cache.timeout": _CACHE,
    "executor-cache.max-entry-size": _CACHE,
    "executor-cache.max-total-size": _CACHE,
    "executor-cache.locality.enabled": _CACHE,
    "identifier-fields-rely": "Spark is given no constraints, so that no query is changed by them",
    "async-micro-batch-planning-enabled": _STREAMS,
    "shred-variants": _VARIANTS,
    "variant-inference-buffer-size": _VARIANTS,
}
UNUSED_READ_OPTIONS: dict[str, str] = {
    "lookback": "Spark packs files into tasks by a rule of its own",
    "locality": _LOCALITY,
    **dict.fromkeys(
        (
            "streaming-skip-delete-snapshots",
            "streaming-skip-overwrite-snapshots",
            "stream-from-timestamp",
            "streaming-max-files-per-micro-batch",
            "streaming-max-rows-per-micro-batch",
            "async-micro-batch-planning-enabled",
            "streaming-snapshot-polling-interval-ms",
            "async-queue-preload-file-limit",
            "async-queue-preload-row-limit",
        ),
        _STREAMS,
    ),
}


def warn_of_settings(spark: SparkSession, settings: Mapping[str, str]) -> None:
    """Warn of the session's settings that have no effect, each once in the session. Other settings may be among them."""
    _warn(
        spark, "setting", {key: UNUSED_SETTINGS.get(key.removeprefix(SESSION_PREFIX)) for key in settings if key.startswith(SESSION_PREFIX)}
    )


def warn_of_read_options(spark: SparkSession, options: Mapping[str, str]) -> None:
    """Warn of a read's options that have no effect, each once in the session."""
    _warn(spark, "read option", {key.lower(): UNUSED_READ_OPTIONS.get(key.lower()) for key in options})


def _warn(spark: SparkSession, kind: str, reasons: Mapping[str, str | None]) -> None:
    found = {name: reason for name, reason in reasons.items() if reason is not None}
    if found:
        session = str(spark._jsparkSession.sessionUUID())
        for name, reason in found.items():
            warn_once(session, kind, name, reason)
