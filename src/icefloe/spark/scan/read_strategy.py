"""Read strategies: which files of a planned scan Spark's own Parquet scan can read together, which it cannot read, and why; and their rows as a DataFrame.

The rows are the union of file groups. `native_scan.py` reads with Spark's own scan; `python_scan.py` reads all other files in Spark's tasks. Files with deletes
have separate groups, so that other files are not read more slowly. Footers are read only if the strategy depends on the columns of a file, for example for
column defaults, a name mapping, variants, or on Spark 4.0 structs.
Spec: Scan Planning; Column Projection; Default values; Row-level Deletes.
"""

import logging
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cache, partial, reduce
from itertools import product
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession

from icefloe.bounded_cache import BoundedCache
from icefloe.datafile.deletes.delete_loader import DeleteLoader
from icefloe.errors import in_one_line
from icefloe.io.file_io_by_scheme import check_locations, has_vended_access
from icefloe.operations.engine import ScanRequest
from icefloe.operations.warnings_once import is_repeated
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.scan.scan_plan import PlannedFiles
from icefloe.spark.bridge.gateway import executors_have_classes, is_accelerated_at_present
from icefloe.spark.runtime.spark_versions import is_older
from icefloe.spark.scan.equality_deletes import equality_deletes, key_columns_in, key_ids_of
from icefloe.spark.scan.file_columns import FileColumns, lost_structs_of
from icefloe.spark.scan.footer_field_ids import StoredFields, stored_fields
from icefloe.spark.scan.key_positions import with_kept_positions
from icefloe.spark.scan.metadata_column_values import OF_POSITIONS, position_name_conflict
from icefloe.spark.scan.native_scan import (
    ScanFileGroup,
    native_plan,
    native_scan,
    optimized_plan,
    requested_metadata_ids,
    schemes_without_file_system,
    stored_bytes,
)
from icefloe.spark.scan.position_deletes import (
    BEYOND,
    BYTES_OF_A_KEY,
    FITS,
    MOST_POSITIONS,
    LoadedPositions,
    key_of_positions,
    load_positions,
    too_many_positions,
)
from icefloe.spark.scan.python_scan import TaskReader, python_rows
from icefloe.spark.scan.scan_metrics import metrics_of_groups
from icefloe.spark.scan.version_probe import probe_scans
from icefloe.spark.types.spark_types import NOT_NATIVE, why_not_opened, why_not_stored_values
from icefloe.spec.arrow_values import numpy_of
from icefloe.spec.expressions.bind import filter_field_ids
from icefloe.spec.manifest.data_file import DataFile, FileContent, FileFormat
from icefloe.spec.partitioning.partition_spec import PartitionSpec
from icefloe.spec.partitioning.transforms import IdentityTransform
from icefloe.spec.schema.metadata_columns import DELETED, is_reserved
from icefloe.spec.schema.schema import Schema, fields_to_read, walk
from icefloe.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    FixedType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    UnknownType,
)

LOG = logging.getLogger(__name__)
# The types of key columns for which a Spark join finds the same equal keys as Iceberg's equality deletes. Floats are not among them, because -0.0 equals 0.0 in
# Spark; and uuids are not, because Spark cannot read them.
_JOINABLE = frozenset(
    [BooleanType, IntegerType, LongType, DecimalType, DateType, TimestampType, TimestamptzType, StringType, FixedType, BinaryType]
)
_Mask = NDArray[np.bool_]
# The beginning of the reason why files of a store are not read natively. It is the same for all tables of the store, and is logged once per session.
NO_FILE_SYSTEM = "it has no file system for"
# The reason if files may only be accessed with the catalog's credentials or signatures: Spark's file system would send its own keys. It is also logged once.
VENDED_ACCESS = "the catalog gives access to the files, by credentials or signatures that Spark's file systems do not have"
# The reason why an accelerator that is turned on later reads no file of a plan.
UNSIGNED_NOT_LOOKED_FOR = "it was off when the query was planned, so that no footer was read for unsigned integers"
# A function that returns the field ids in the files of tasks, in their order.
ReadFields = Callable[[Sequence[FileScanTask]], list[StoredFields]]


def read(spark: SparkSession, request: ScanRequest) -> DataFrame:
    """Return the rows of a scan as `planned_rows` does, but first probe a version of Spark that is not proven (see `probe_scans`).

    Sessions with an attached catalog have been probed already and need only `planned_rows`, whose other errors are raised here too.

    Raises:
        EngineError: The session has no JVM; or its Spark is too old, or is newer than the proven versions and fails the version probe.
    """
    probe_scans(spark)
    return planned_rows(spark, request)


def planned_rows(
    spark: SparkSession, request: ScanRequest, kept: float = 1.0, known: BoundedCache[Hashable, Any] | None = None
) -> DataFrame:
    """Return the rows of a scan as a DataFrame: the union of its file groups.

    The DataFrame is lazy: rows of data files are read by an action. Position delete files, and footers if a strategy depends on them, are read now.

    Args:
        spark: A classic session.
        request: The planned files, the columns and the filter.
        kept: The estimated share of the rows that Spark's filters keep, for the size estimates of its optimizer.
        known: Cached deleted positions from earlier statements with the same right to read; None for no cache.

    Raises:
        NoSuchFileError, DataFileFormatError, PuffinFormatError: A delete file is missing or damaged.
        UnsupportedTypeError: This Spark has no type for a column.
        LocationNotAllowedError: The catalog's configuration does not allow a file's location.
        EngineError: The session has no JVM.
    """
    return _union(spark, request, *grouped_files(spark, request, kept, known))


def plan_of_rows(
    spark: SparkSession,
    request: ScanRequest,
    kept: float = 1.0,
    known: BoundedCache[Hashable, Any] | None = None,
    non_null: Set[int] = frozenset(),
) -> tuple[Any, int | None]:
    """Return the rows of `planned_rows` as Spark's optimized logical plan. The arguments and errors are the same.

    Args:
        spark: A classic session.
        request: The planned files, the columns and the filter.
        kept: The estimated share of the rows that Spark's filters keep.
        known: Cached deleted positions; None for no cache.
        non_null: Ids of columns without nulls that the query filters by IS NOT NULL.

    Returns:
        The plan and, if the JVM may cache the plan, the size of its deleted positions in bytes; otherwise None. It may be cached if one native scan returns
        the rows, with at most a selection of columns (see `native_plan`).
    """
    needed, groups, deletes = grouped_files(spark, request, kept, known)
    plan = (
        native_plan(spark, request, needed, groups[0], non_null)
        if len(groups) == 1 and not groups[0].reason and request.limit is None
        else None
    )
    if plan is not None:
        return plan, 0 if groups[0].deleted is None else groups[0].deleted.size
    return optimized_plan(_union(spark, request, needed, groups, deletes)), None


def _union(
    spark: SparkSession, request: ScanRequest, needed: Schema, groups: Sequence[ScanFileGroup], deletes: Callable[[], DeleteLoader]
) -> DataFrame:
    rows = reduce(DataFrame.unionAll, (_rows(spark, request, needed, group, deletes) for group in groups))
    return rows if request.limit is None else rows.limit(request.limit)


def grouped_files(
    spark: SparkSession, request: ScanRequest, kept: float, known: BoundedCache[Hashable, Any] | None
) -> tuple[Schema, list[ScanFileGroup], Callable[[], DeleteLoader]]:
    """Divide the planned files into file groups. The arguments and errors are those of `planned_rows`.

    Returns:
        The part of the table's schema that the projection and the filter use; one or more file groups, where a plan without files has one empty group; and a
        function that returns the loader of delete files.
    """
    if request.plan.files.num_rows:
        check_locations(request.io, request.plan.files["file_path"])  # before any access, because Hadoop connects to any host
    table_columns = Schema(*(field for field in request.projection.fields if not is_reserved(field.field_id)))
    needed = Schema(*fields_to_read(request.schema, table_columns, filter_field_ids(request.row_filter)))
    deletes = cache(partial(DeleteLoader, request.io, schemas=request.schemas, name_mapping=request.name_mapping))
    reason = _why_not_native(spark, request, needed)
    if reason:
        groups = [ScanFileGroup(parts=request.plan.parts, reason=reason)]
    else:
        read_fields = partial(stored_fields, spark, request.io, table_name=request.table_name, known=known)
        has_classes = executors_have_classes(spark)
        can_leave_out = not request.plan.delete_files or has_classes
        positions_reason = "" if can_leave_out else "executors have not received the classes of Icefloe that leave out deleted rows"
        loses = any(isinstance(field.field_type, StructType) for _, field in walk(needed.fields)) and loses_structs(spark)
        is_accelerated = has_classes and is_accelerated_at_present(spark)
        groups = list(
            file_groups(
                request,
                needed,
                deletes,
                read_fields,
                known=known,
                positions_reason=positions_reason,
                loses_structs=loses,
                takes_unsigned=not has_classes,
                separates_unsigned=is_accelerated,
            )
        )
        if known is not None and request.plan.delete_files and can_leave_out and not position_name_conflict(request.schemas):
            groups = [group if group.reason else with_kept_positions(spark, request, group, known) for group in groups]
        if not is_accelerated:
            groups = [replace(group, accelerator_obstacle=UNSIGNED_NOT_LOOKED_FOR) for group in groups]
    groups = groups or [ScanFileGroup(parts=())]
    deleted = [None if group.deleted is None else group.deleted.count for group in groups]
    native = next((place for place, group in enumerate(groups) if not group.reason), 0)  # nodes that convert rows of Python have no metrics
    metrics = metrics_of_groups(request.plan, deleted, place=native)
    return needed, [replace(group, kept=kept, metrics=shown) for group, shown in zip(groups, metrics, strict=True)], deletes


def _rows(
    spark: SparkSession, request: ScanRequest, needed: Schema, group: ScanFileGroup, deletes: Callable[[], DeleteLoader]
) -> DataFrame:
    if not group.reason:
        return native_scan(spark, request, needed, group)
    tasks = [task for part in group.parts for task in part.tasks()]
    if not (group.reason.startswith((NO_FILE_SYSTEM, VENDED_ACCESS)) and is_repeated(spark.sparkContext.applicationId, group.reason)):
        LOG.warning(
            "%d files of %s are read through Python, which is slower than Spark's own Parquet scan: %s",
            len(tasks),
            in_one_line(request.table_name),
            in_one_line(group.reason),
        )
    reader = TaskReader(request.io, request.schema, request.projection, dict(request.specs), request.name_mapping, deletes())
    size = stored_bytes(group.files, request.projection.fields, request.schema, deleted=0, kept=group.kept)
    return python_rows(spark, tasks, reader, request.table_name, group.reason, size, group.metrics)


def rows_through_python(spark: SparkSession, request: ScanRequest, reason: str) -> DataFrame:
    """Return the rows of all planned files, which Python reads in Spark's tasks. `reason` is why Spark's own scan cannot read them, for the log."""
    deletes = partial(DeleteLoader, request.io, schemas=request.schemas, name_mapping=request.name_mapping)
    return _rows(spark, request, request.schema, ScanFileGroup(parts=request.plan.parts, reason=reason), deletes)


def _why_not_native(spark: SparkSession, request: ScanRequest, needed: Schema) -> str:
    """Return a reason for which Spark's own scan can read no file of the plan; empty if there is no such reason."""
    files = request.plan.files
    if not files.num_rows:
        return ""
    read = [field for field in needed.fields if not isinstance(field.field_type, UnknownType)]
    names = [f"{'.'.join(path)} ({field.field_type})" for path, field in walk(read) if isinstance(field.field_type, NOT_NATIVE)]
    if names:
        return f"it cannot read {', '.join(names)}"
    if reason := why_not_opened(spark, (*request.schemas, request.schema)) or why_not_stored_values(spark, needed):
        return reason
    if requested_metadata_ids(request) & OF_POSITIONS and (reason := position_name_conflict(request.schemas)):
        return reason
    matches = pc.extract_regex(files["file_path"], r"^(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://")
    schemes = {text.lower() for text in pc.unique(pc.struct_field(matches, "scheme")).to_pylist() if text is not None} - {"file"}
    if schemes and has_vended_access(request.io, files["file_path"]):
        return VENDED_ACCESS
    missing = schemes_without_file_system(spark, sorted(schemes)) if schemes else []
    return f"{NO_FILE_SYSTEM} {', '.join(missing)}" if missing else ""


def file_groups(
    request: ScanRequest,
    needed: Schema,
    deletes: Callable[[], DeleteLoader],
    read_fields: ReadFields,
    *,
    known: BoundedCache[Hashable, Any] | None = None,
    positions_reason: str = "",
    loses_structs: bool = False,
    takes_unsigned: bool = False,
    separates_unsigned: bool = False,
) -> Iterator[ScanFileGroup]:
    """Divide the files of a plan into groups of files that are read with the same strategy, and yield the groups.

    Args:
        request: The planned scan.
        needed: The part of the table's schema that is read.
        deletes: A function that returns the loader of delete files; it is called only if there are deletes.
        read_fields: A function that returns the field ids of files; it is called only if the strategy depends on the columns of a file.
        known: Cached deleted positions, to which newly read positions are added; None for no cache.
        positions_reason: The reason why Spark's own scan cannot skip rows by position in this session; empty if it can skip them.
        loses_structs: Whether Spark's own scan reads a struct as null if a file lacks all of its requested fields; see the function `loses_structs`.
        takes_unsigned: Whether Spark's own scan would read unsigned integers as signed, because executors do not have Icefloe's Parquet format.
        separates_unsigned: Whether files with unsigned integers form groups of their own, because an accelerator, which may read the other files, returns
            null for large ones.

    Raises:
        NoSuchFileError, DataFileFormatError, PuffinFormatError: A delete file is missing or damaged; `DataFileFormatError` also if a data file lacks a required
            column without a default.
    """
    delete_files = request.plan.delete_files
    if delete_files:
        positions_reason = positions_reason or position_name_conflict(request.schemas) or too_many_positions(delete_files)
    keys = _EqualityKeys.of(request, deletes)
    fields_read = (*needed.fields, *(field for fields in keys.fields.values() for field in fields))
    lost_structs = lost_structs_of(needed, request.schemas) if loses_structs else ()
    has_mapping = request.name_mapping is not None
    columns = FileColumns(
        fields_read,
        needed,
        lost_structs,
        has_mapping=has_mapping,
        may_be_missing=request.may_be_missing,
        takes_unsigned=takes_unsigned,
        separates_unsigned=separates_unsigned,
    )
    parts_by_strategy: dict[_Strategy, list[PlannedFiles]] = {}
    for part in request.plan.parts:
        constant_ids = _constant_ids(request.specs[part.spec_id], fields_read)
        for strategy, rows in _split_by_deletes(part, constant_ids, keys, positions_reason):
            files = part if len(rows) == len(part) else part.take(rows)
            for exact_strategy, split_part in _split_by_columns(files, strategy, columns, read_fields):
                parts_by_strategy.setdefault(exact_strategy, []).append(split_part)
    for strategy in [strategy for strategy in parts_by_strategy if strategy.has_positions]:
        for group in _split_by_positions(_file_group(strategy, parts_by_strategy.pop(strategy)), deletes(), known):
            if group.reason or group.deleted is not None:
                yield _with_equality_deletes(group, strategy, keys)
            else:
                parts_by_strategy.setdefault(replace(strategy, has_positions=False), []).extend(group.parts)
    for strategy, parts in parts_by_strategy.items():
        yield _with_equality_deletes(_file_group(strategy, parts), strategy, keys)


@dataclass(frozen=True, slots=True)
class _Strategy:
    """A read strategy. Files with equal strategies are read in one group; the attributes are those of `ScanFileGroup`, or whether deletes apply."""

    reason: str = ""
    constant_ids: frozenset[int] = frozenset()
    has_positions: bool = False
    has_keys: bool = False
    missing: frozenset[int] = frozenset()
    has_unsigned: bool = False


@dataclass(frozen=True, slots=True)
class _EqualityKeys:
    """The key columns of the equality delete files of a plan.

    Both attributes are by the set of the field ids of a delete file's key columns.

    Attributes:
        fields: The top-level columns that contain the key columns; see `KeySetFiles.fields`.
        reasons: The reason why Spark's own scan cannot apply deletes with these key columns; empty if it can.
    """

    fields: Mapping[frozenset[int], tuple[NestedField, ...]]
    reasons: Mapping[frozenset[int], str]

    @classmethod
    def of(cls, request: ScanRequest, deletes: Callable[[], DeleteLoader]) -> "_EqualityKeys":
        files = {key_ids_of(file): file for file in request.plan.delete_files if file.content is FileContent.EQUALITY_DELETES}
        fields = {ids: deletes().key_fields(request.schema, tuple(sorted(ids)), file) for ids, file in files.items()}
        reads_deleted = DELETED.field_id in request.projection
        return cls(
            fields, {ids: _why_no_join(key_fields, request.schema, reads_deleted=reads_deleted) for ids, key_fields in fields.items()}
        )


def _why_no_join(fields: tuple[NestedField, ...], schema: Schema, *, reads_deleted: bool) -> str:
    """Return the reason why Spark's own scan cannot apply equality deletes with these key columns; empty if it can."""
    if reads_deleted:
        return "the query reads _deleted, and rows are deleted by equality"
    for field in fields:
        for end in key_columns_in(field):
            if type(end.field_type) not in _JOINABLE:
                return f"rows are deleted by the column {end.name} ({end.field_type})"
            if end.field_id not in schema and end is not field:
                return f"rows are deleted by the column {end.name}, which was dropped from inside {field.name}"
    return ""


def _split_by_deletes(
    part: PlannedFiles, constant_ids: frozenset[int], keys: _EqualityKeys, positions_reason: str
) -> Iterator[tuple[_Strategy, NDArray[np.int64]]]:
    """Divide the files of a part by the deletes that apply to them and by their format. Yield each strategy with the indexes in `part` of its files.

    Args:
        part: Files of one spec.
        constant_ids: The ids of the columns with one value per file.
        keys: The key columns of equality deletes.
        positions_reason: The reason why Spark's own scan cannot read files with position deletes; empty if it can.
    """
    has_positions, has_keys, reasons = _applied_deletes(part, keys)
    refused = [
        (~numpy_of(pc.equal(pc.utf8_upper(part.entries["file_format"]), FileFormat.PARQUET.value)), "a file is no Parquet file"),
        *reasons,
        (has_positions & bool(positions_reason), positions_reason),
    ]
    left = np.ones(len(part), np.bool_)
    for mask, reason in refused:
        rows = np.flatnonzero(left & mask)
        left[rows] = False
        if len(rows):
            yield _Strategy(reason), rows
    for positions, by_key in product((False, True), repeat=2):
        rows = np.flatnonzero(left & (has_positions == positions) & (has_keys == by_key))
        if len(rows):
            yield _Strategy("", constant_ids, positions, by_key), rows


def _file_group(strategy: _Strategy, parts: Iterable[PlannedFiles]) -> ScanFileGroup:
    return ScanFileGroup(
        parts=tuple(parts),
        reason=strategy.reason,
        constant_ids=strategy.constant_ids,
        missing=strategy.missing,
        accelerator_obstacle="a file has unsigned integers" if strategy.has_unsigned else None,
    )


def _with_equality_deletes(group: ScanFileGroup, strategy: _Strategy, keys: _EqualityKeys) -> ScanFileGroup:
    by_key = strategy.has_keys and not group.reason
    return replace(group, equality=equality_deletes(group.parts, keys.fields)) if by_key else group


def loses_structs(spark: SparkSession) -> bool:
    """Return whether Spark's own scan reads a struct, and a list or map around it, as null if a file lacks all of the struct's requested fields.

    Spark 4.0 always does. Later versions have a setting for this, which `READER_OPTIONS` in `native_scan.py` turns off.
    """
    return is_older(spark.version, "4.1")


def _split_by_columns(
    part: PlannedFiles, strategy: _Strategy, columns: FileColumns, read_fields: ReadFields
) -> Iterator[tuple[_Strategy, PlannedFiles]]:
    """Divide the files of a part, which have the same strategy so far, by the columns in the files. Yield each exact strategy with its files."""
    if strategy.reason or not columns.matter:
        yield strategy, part
        return
    tasks = list(part.tasks())
    outcomes = []
    for task, stored in zip(tasks, read_fields(tasks), strict=True):
        columns.check_required(task.file.file_path, stored.ids, strategy.constant_ids)
        outcomes.append(columns.without(stored, strategy.constant_ids))
    for reason, missing, has_unsigned in dict.fromkeys(outcomes):
        rows = np.array([number for number, outcome in enumerate(outcomes) if outcome == (reason, missing, has_unsigned)], np.int64)
        files = part if len(rows) == len(part) else part.take(rows)
        yield (_Strategy(reason) if reason else replace(strategy, missing=missing, has_unsigned=has_unsigned)), files


def _applied_deletes(part: PlannedFiles, keys: _EqualityKeys) -> tuple[_Mask, _Mask, list[tuple[_Mask, str]]]:
    """Determine which kinds of deletes apply to the files of a part.

    Returns:
        A mask of the files with position deletes; a mask of the files with equality deletes; and masks of files whose equality deletes Spark's own scan cannot
        apply, each with the reason.
    """
    nothing = np.zeros(len(part), np.bool_)
    if part.delete_offsets is None or part.delete_indices is None:
        return nothing, nothing, []
    file_of = np.repeat(np.arange(len(part)), np.diff(part.delete_offsets))

    def any_delete_file(value: object, trait: Callable[[DataFile], object]) -> _Mask:
        has_value = np.array([trait(file) == value for file in part.delete_files], np.bool_)[part.delete_indices]
        return np.bincount(file_of[has_value], minlength=len(part)) > 0

    def reason_of(file: DataFile) -> str:
        return keys.reasons[key_ids_of(file)] if file.content is FileContent.EQUALITY_DELETES else ""

    has_keys = any_delete_file(FileContent.EQUALITY_DELETES, attrgetter("content"))
    has_positions = any_delete_file(FileContent.POSITION_DELETES, attrgetter("content"))
    reasons = sorted({reason for file in part.delete_files if (reason := reason_of(file))})
    refused = [(any_delete_file(reason, reason_of), reason) for reason in reasons]
    return has_positions, has_keys, refused


def _constant_ids(spec: PartitionSpec, fields: Iterable[NestedField]) -> frozenset[int]:
    """Return the ids of the top-level fields that have one value per file in a spec, because it has an identity field for them."""
    top_fields = {field.field_id: field.field_type for field in fields if isinstance(field.field_type, PrimitiveType)}
    return frozenset(
        field.source_id
        for field in spec.fields
        if isinstance(field.transform, IdentityTransform)
        and field.source_id in top_fields
        and not isinstance(top_fields[field.source_id], NOT_NATIVE)
    )


def _split_by_positions(group: ScanFileGroup, deletes: DeleteLoader, known: BoundedCache[Hashable, Any] | None) -> Iterator[ScanFileGroup]:
    """Load the deleted positions of a group, and divide the group by them into up to three groups.

    A group of files without deleted positions has no `deleted`; a group of files whose positions do not fit in Spark's bitmaps has a `reason`.
    """
    tasks = [task for part in group.parts for task in part.tasks()]

    def load() -> tuple[LoadedPositions, int]:
        loaded = load_positions(deletes, tasks)
        return loaded, loaded.rows.size + BYTES_OF_A_KEY * len(tasks)

    loaded = load()[0] if known is None else known.get_or_load(key_of_positions(tasks), load)
    for kind in np.unique(loaded.kinds).tolist():
        start = 0
        parts = []
        for part in group.parts:
            rows = np.flatnonzero(loaded.kinds[start : start + len(part)] == kind)
            parts += [part.take(rows)] if len(rows) else []
            start += len(part)
        subgroup = replace(group, parts=tuple(parts))
        if kind == FITS:
            subgroup = replace(subgroup, deleted=loaded.rows)
        elif kind == BEYOND:
            subgroup = replace(subgroup, reason=f"rows from {MOST_POSITIONS:,} on are deleted in a file")
        yield subgroup
