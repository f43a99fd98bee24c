"""`write_epoch`: writes and commits the rows of one epoch of a stream, at most once. An epoch is a micro-batch of Structured Streaming.

`write_builder.py` receives the epochs from Spark, `sql_write.py` writes their rows as those of any other write, and `commit/stream_epoch.py` decides whether an
epoch is committed already. Spec: Snapshots.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 Spark's users know it by this letter

from icefloe.commit.stream_epoch import StreamEpoch, is_committed
from icefloe.errors import InvalidInputError, in_one_line
from icefloe.operations.staging import branch_named, staging_of_write
from icefloe.operations.write_result import WriteResult
from icefloe.spark.bridge.gateway import java_class
from icefloe.spark.jobs.spark_jobs import run_job
from icefloe.spark.types.spark_types import column_named, field_inside
from icefloe.spark.write.sql_write import Write, run_write
from icefloe.spec.metadata.snapshot_ref import MAIN
from icefloe.table.epoch_changes import EpochChanges, OutputMode
from icefloe.table.table import Table

LOG = logging.getLogger(__name__)


def write_epoch(table: Table, write: Write, query_id: str, epoch: int, mode: OutputMode, *, is_first: bool) -> WriteResult | None:
    """Write and commit the rows of an epoch, unless the table has them already.

    An epoch without rows makes no snapshot. The rows of an epoch that is committed already are computed, because the state of the query depends on it.

    Args:
        table: the table, with its current metadata.
        write: the rows and what they replace.
        query_id: the id of the query, which is part of its checkpoint.
        epoch: the number of the epoch.
        mode: the output mode of the query.
        is_first: True for the first epoch since the query was started. Only then the history is searched for an epoch that Java has committed.

    Returns:
        The result; None if nothing was written.

    Raises:
        InvalidInputError: the stream upserts, and there are no key columns; or a key occurs twice in the rows.
        IcefloeError: the errors of `run_write` and `is_committed`.
    """
    properties, branch = write.options.snapshot_properties, write.branch or MAIN
    with branch_named(is_named=write.branch is not None):
        staging = staging_of_write(table.metadata, properties, branch, table.full_name)
    stream_epoch = StreamEpoch(query_id=query_id, epoch=epoch, branch=staging.branch or branch)
    if is_committed(table.metadata, stream_epoch, searches_history=is_first):
        LOG.info("epoch %d of the stream %s is in %s already; its rows are not written again", epoch, query_id, table.full_name)
        run_job(write.rows.sparkSession, f"compute epoch {epoch} again", write.rows.count)
        return None
    if mode is OutputMode.UPDATE and write.options.key_columns is None and not table.schema().identifier_field_ids:
        raise InvalidInputError(
            f"a stream with the output mode update replaces rows by their key, and {table.full_name} has no identifier fields",
            table=table.full_name,
            next_step='name the key columns: .option("key-columns", "id"); or set them: ALTER TABLE ... SET IDENTIFIER FIELDS id; '
            'or add all rows: .outputMode("append")',
        )
    if mode is OutputMode.UPDATE:
        write = replace(write, rows=_with_keys(write.rows, table, write.options.key_columns))
    options = replace(write.options, snapshot_properties={**properties, **stream_epoch.summary})
    changes = EpochChanges(table, stream_epoch, mode, searches_history=is_first)
    result = run_write(changes, replace(write, options=options), changes.transaction)
    return result if changes.is_committed or mode is OutputMode.UPDATE else None  # rows of an update may be those of the table


def _with_keys(rows: DataFrame, table: Table, key_columns: Sequence[str] | None) -> DataFrame:
    """Return the rows of an upsert, which fail where a key is null: a null equals nothing, so that each epoch would add its row again.

    Args:
        rows: the rows.
        table: the table.
        key_columns: names of the key columns; None for identifier fields, which are required.
    """
    schema, there = table.schema(), {name.lower() for name in rows.columns}
    for name in key_columns or ():
        field_id = schema.find_id(name, case_sensitive=False)
        path = None if field_id is None else schema.path_of(field_id)
        if path is None or path[0].lower() not in there:
            continue  # the upsert refuses the name, or the rows
        text = f"a row of the stream has a null in the key column {name}, and replaces no row of {table.full_name}"
        error = F.raise_error(F.lit(f"{in_one_line(text)}\n  Next: leave such rows out, or give the key a value"))
        is_null = field_inside(column_named(path[0]), path[1:], None).isNull()
        rows = rows.where(F.when(is_null, error.cast("boolean")).otherwise(F.lit(True)))
    return rows


def output_mode(spark: SparkSession, query_id: str) -> OutputMode:
    """Return the output mode of a running query, which Spark does not pass to the write."""
    queries = spark._jsparkSession.sharedState().activeStreamingQueries()
    query = queries.get(java_class(spark, "java.util.UUID").fromString(query_id))
    return OutputMode(query.outputMode().toString().lower())
