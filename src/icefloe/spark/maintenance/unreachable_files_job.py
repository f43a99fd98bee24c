"""The Spark job that finds the files that only expired snapshots need: tasks read the manifests, and a join removes the files that kept manifests name.

The rules, and the same computation in this process, are in `icefloe.operations.unreachable_files`. Spec: Manifests.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType

from icefloe.errors import Problem
from icefloe.operations.engine import UnreachableRequest
from icefloe.operations.unreachable_files import NAMED, Unreachable, distinct_files, existing, named_files, read_row, read_row_or_problem
from icefloe.spark.jobs.spark_jobs import run_job
from icefloe.spark.jobs.task_errors import TaskErrors
from icefloe.spark.maintenance.manifest_rows import manifest_rows
from icefloe.spec.ports import FileIO

_KEYS = StructType([StructField("key", StringType())])
_FOUND = StructType(
    [
        *(StructField(name, StringType()) for name in ("kind", "path", "key")),
        StructField("size_in_bytes", LongType()),
        StructField("is_live", BooleanType()),
        StructField("problem", StringType()),
    ]
)
_FOUND_ARROW = NAMED.append(pa.field("problem", pa.string()))


@dataclass(frozen=True)
class ExpiredManifestReader:
    """The task over manifests of expired snapshots: it returns the files that they name, and for a manifest that cannot be read its path and the reason."""

    io: FileIO

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a batch of files, or of one problem, for each manifest."""
        for batch in batches:
            for row in batch.to_pylist():
                manifest = read_row_or_problem(self.io.read, row)
                yield from _problem_row(manifest) if isinstance(manifest, Problem) else _without_problem(named_files(manifest))


@dataclass(frozen=True)
class KeptManifestReader:
    """The task over kept manifests: it returns the keys of the files of their live entries."""

    io: FileIO
    errors: TaskErrors = field(default_factory=TaskErrors)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield batches of keys for each manifest."""
        for batch in batches:
            for row in batch.to_pylist():
                with self.errors.carried():
                    files = named_files(read_row(self.io.read, row))
                yield from files.filter(files["is_live"]).select(["key"]).to_batches()


def unreachable(spark: SparkSession, request: UnreachableRequest) -> Unreachable:
    """Run the job of `Engine.unreachable`.

    Raises:
        NoSuchFileError: A kept manifest does not exist.
        FormatError: A kept manifest is not valid.
        StorageError: A kept manifest cannot be read.
        EngineError: The job failed for another reason.
    """
    gone = manifest_rows(spark, request.gone).mapInArrow(ExpiredManifestReader(request.io), _FOUND)
    kept = manifest_rows(spark, request.kept).mapInArrow(KeptManifestReader(request.io), _KEYS)
    # A manifest that could not be read has no key, so the join never removes it.
    remaining = gone.join(kept.distinct(), "key", "left_anti").select(_FOUND_ARROW.names)
    rows = run_job(spark, f"find files of {request.table_name} that nothing needs", remaining.toArrow).cast(_FOUND_ARROW)
    is_file = pc.is_null(rows["problem"])
    unread = rows.filter(pc.invert(is_file))
    files = distinct_files(rows.filter(is_file).drop_columns("problem"))
    problems = zip(unread["path"].to_pylist(), unread["problem"].to_pylist(), strict=True)
    return Unreachable(
        files=existing(files, request.io), unreadable=tuple(Problem(where=path, what=what) for path, what in sorted(problems))
    )


def _without_problem(files: Any) -> list[pa.RecordBatch]:
    batches: list[pa.RecordBatch] = files.append_column("problem", pa.nulls(len(files), pa.string())).cast(_FOUND_ARROW).to_batches()
    return batches


def _problem_row(problem: Problem) -> list[pa.RecordBatch]:
    row = {**dict.fromkeys(_FOUND_ARROW.names), "path": problem.where, "problem": problem.what}
    return [pa.RecordBatch.from_pylist([row], schema=_FOUND_ARROW)]
