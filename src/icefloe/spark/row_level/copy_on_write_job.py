"""The Spark jobs that write files again: data files without their deleted rows, each or in groups, and the deletes of data files.

The work of a task is `datafile/copy_data_file.py`, `datafile/copy_file_group.py`, `datafile/compact_files.py` or `datafile/deletes/merge_deletes.py`.
Spec: Row-level Deletes (copy-on-write).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark import TaskContext
from pyspark.sql import SparkSession

from icefloe.datafile.compact_files import CompactedFiles, FilesToCompact, compact_files
from icefloe.datafile.copy_data_file import RewrittenFile, rewrite_task
from icefloe.datafile.copy_file_group import RewriteGroup, RewrittenGroup, rewrite_group
from icefloe.datafile.deletes.delete_file_output import WrittenDeletes
from icefloe.datafile.deletes.delete_loader import DeleteLoader
from icefloe.datafile.deletes.merge_deletes import DeletesToMerge, merge_deletes
from icefloe.datafile.write_target import WriteTarget
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spark.jobs.spark_jobs import MOST_SPARK_TASKS, run_job
from icefloe.spark.jobs.task_errors import TaskErrors
from icefloe.spark.write.failed_attempt_cleanup import Attempt, FinishedFiles, delete_lost_attempts, this_attempt, writing_job
from icefloe.spark.write.reported_files import check_files_exist
from icefloe.spec.expressions.predicate import AlwaysFalse, BooleanExpression
from icefloe.spec.metadata.table_properties import NAME_MAPPING
from icefloe.spec.partitioning.partition_spec import PartitionSpec
from icefloe.spec.schema.schema import Schema
from icefloe.table.engine import CompactionRequest, FilesRequest, MergeDeletesRequest, RewriteGroupsRequest, RewriteRequest

Work = FileScanTask | RewriteGroup | FilesToCompact | DeletesToMerge
Copied = RewrittenFile | RewrittenGroup | CompactedFiles | WrittenDeletes


@dataclass(frozen=True)
class TaskRewriter:
    """The function that Spark tasks run: it takes the number and the work of one task, and returns its outcome and attempt.

    The work is a scan task, whose file is copied without the rows that match the filter, files that are copied or compacted together, or deletes to merge.
    """

    target: WriteTarget
    schema: Schema
    specs: Mapping[int, PartitionSpec]
    finished: FinishedFiles
    deletes: DeleteLoader
    delete_filter: BooleanExpression
    errors: TaskErrors = field(default_factory=TaskErrors)

    def __call__(self, numbered: tuple[int, Work]) -> tuple[Copied, Attempt]:
        """Rewrite a file or a file group, and return the new files with the attempt."""
        number, work = numbered
        with self.errors.carried():
            outcome = self._outcome(work, number)
        self.finished.add([file.file_path for file in outcome.added])
        return outcome, this_attempt()

    def _outcome(self, work: Work, number: int) -> Copied:
        context = TaskContext.get()
        shared: dict[str, Any] = {
            "schema": self.schema,
            "specs": self.specs,
            "partition_id": number,
            "task_id": context.taskAttemptId() if context is not None else 0,
            "deletes": self.deletes,
        }
        if isinstance(work, RewriteGroup):
            return rewrite_group(self.target, work, **shared)
        if isinstance(work, FilesToCompact):
            return compact_files(self.target, work, **shared)
        if isinstance(work, DeletesToMerge):
            return merge_deletes(self.target, work, **shared)
        return rewrite_task(self.target, work, self.delete_filter, **shared)


def rewrite_files(spark: SparkSession, request: RewriteRequest) -> list[RewrittenFile]:
    """Copy the file of each scan task without the rows that match the filter.

    Returns:
        The outcomes, in the order of the tasks.

    Raises:
        NoSuchFileError: a data or delete file is missing.
        DataFileFormatError: a file is damaged.
        StorageError: the storage refused a task, and Spark's retries too; or the workers wrote to disks of their own.
        EngineError: the job failed for another reason.
    """
    return _run(spark, request, request.tasks, request.delete_filter)


def rewrite_groups(spark: SparkSession, request: RewriteGroupsRequest) -> list[RewrittenGroup]:
    """Copy each group of files into fewer; return the outcomes in the order of the groups. Raises as `rewrite_files`."""
    return _run(spark, request, request.groups, AlwaysFalse())


def compact(spark: SparkSession, request: CompactionRequest) -> list[CompactedFiles]:
    """Compact each item's files; return the outcomes in the order of the items. Raises as `rewrite_files`."""
    return _run(spark, request, request.work, AlwaysFalse())


def merge_deletes_of_files(spark: SparkSession, request: MergeDeletesRequest) -> list[WrittenDeletes]:
    """Write the deletes of each item's data files again; return the outcomes in the order of the items. Raises as `rewrite_files`."""
    return _run(spark, request, request.work, AlwaysFalse())


def _run(
    spark: SparkSession,
    request: FilesRequest,
    work: Sequence[Any],
    delete_filter: BooleanExpression,
) -> list[Any]:
    if not work:
        return []
    target = request.target
    numbered = list(enumerate(work))
    with writing_job(spark, target) as finished:
        deletes = DeleteLoader(
            target.io,
            schemas=request.schemas or (request.schema, *target.older_schemas),
            name_mapping=NAME_MAPPING.read(target.properties),
        )
        rewriter = TaskRewriter(target, request.schema, dict(request.specs), finished, deletes, delete_filter)
        outcomes = spark.sparkContext.parallelize(numbered, min(len(numbered), MOST_SPARK_TASKS)).map(rewriter)
        results = run_job(spark, f"rewrite files of {target.table_name}", outcomes.collect)
        added = {file.file_path for outcome, _ in results for file in outcome.added}
        delete_lost_attempts(spark, target, added, (attempt for _, attempt in results))
        check_files_exist(target, added)
    return [outcome for outcome, _ in results]
