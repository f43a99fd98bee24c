"""How the files of a plan are read: shares that Spark's own Parquet scan reads alike, and those that Spark's tasks read through Python, with the reason.

Files with deletes are shares of their own, so that all others cost nothing more. Reading is `native_scan.py` and `portable.py`. Floor: spark.
Spec: Scan Planning; Column Projection; Row-level Deletes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.datafile.deletes import DeleteLoader
from icefloe.kernel.arrow_values import mask_array, numpy_of
from icefloe.kernel.manifest.columns import ENTRY_FIELDS
from icefloe.kernel.manifest.data_file import DataFile, FileContent, FileFormat
from icefloe.kernel.partitioning.partition_spec import PartitionSpec
from icefloe.kernel.partitioning.transforms import IdentityTransform
from icefloe.kernel.puffin.deletion_vector import DeletionVector
from icefloe.kernel.scan.planned_files import PlannedFiles
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.types import PrimitiveType
from icefloe.spark.deleted_rows import MOST_POSITIONS, fits, load_positions
from icefloe.spark.types import NOT_NATIVE
from icefloe.table.engine import ScanRequest

# Bytes of the delete files whose positions the driver gathers for Spark's own scan. Above that, Spark's tasks read their own, through Python.
MOST_DELETE_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Share:
    """Files that are read alike.

    `reason` says why Spark's own scan cannot read them; it is empty where it does. Then `constant_ids` are the columns that are the same in every row of a
    file, by its partition; `vectors` has the positions deleted in each file, in the order of the parts' files, None where no file has any.
    """

    parts: tuple[PlannedFiles, ...]
    reason: str = ""
    constant_ids: frozenset[int] = frozenset()
    vectors: tuple[DeletionVector | None, ...] | None = None

    @property
    def files(self) -> Any:
        """The files as one `pyarrow.Table`, as `ScanPlan.files`."""
        tables = [part.entries for part in self.parts]
        if not tables:  # a plan without files still has the columns
            return ENTRY_FIELDS.append(pa.field("spec_id", pa.int32())).empty_table()
        return pa.concat_tables(tables, promote_options="permissive")


def shares(request: ScanRequest, needed: Schema, deletes: DeleteLoader) -> Iterator[Share]:
    """The plan's files, each in one share. `needed` is what must be read of the table's schema; `deletes` reads what is deleted by position.

    Raises:
        NoSuchFileError, DataFileFormatError, PuffinFormatError: as `DeleteLoader.positions_of`.
    """
    position_bytes = sum(_bytes(file) for file in request.plan.delete_files if file.content is FileContent.POSITION_DELETES)
    alike: dict[tuple[str, bool, frozenset[int]], list[PlannedFiles]] = {}
    for part in request.plan.parts:
        constant_ids = _constant_ids(request.specs[part.spec_id], needed)
        for reason, deleted, rows in _split(part, gathers_positions=position_bytes <= MOST_DELETE_BYTES):
            files = part if len(rows) == len(part) else part.take(rows)
            alike.setdefault((reason, deleted and not reason, frozenset() if reason else constant_ids), []).append(files)
    for (reason, deleted, constant_ids), parts in alike.items():
        share = Share(parts=tuple(parts), reason=reason, constant_ids=constant_ids)
        yield from _with_vectors(share, deletes) if deleted else (share,)


def _split(part: PlannedFiles, *, gathers_positions: bool) -> Iterator[tuple[str, bool, NDArray[np.int64]]]:
    """The rows of a part by the reason against Spark's own scan, and by whether they have positions deleted."""
    positions, equality = _with_deletes(part)
    reasons = [
        (pc.not_equal(pc.utf8_upper(part.entries["file_format"]), FileFormat.PARQUET.value), "a file is no Parquet file"),
        (mask_array(equality), "a file has equality deletes"),
        (mask_array(positions & (not gathers_positions)), f"the files of deleted positions have over {MOST_DELETE_BYTES:,} bytes"),
    ]
    left = np.ones(len(part), np.bool_)
    for test, reason in reasons:
        found = left & numpy_of(test)
        if found.any():
            yield reason, False, np.flatnonzero(found)
        left &= ~found
    for deleted in (False, True):
        rows = np.flatnonzero(left & (positions == deleted))
        if len(rows):
            yield "", deleted, rows


def _with_deletes(part: PlannedFiles) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """For each file whether rows of it are deleted by position, and whether equality deletes apply to it."""
    if part.delete_offsets is None or part.delete_indices is None:
        nothing = np.zeros(len(part), np.bool_)
        return nothing, nothing
    is_equality = np.array([file.content is FileContent.EQUALITY_DELETES for file in part.delete_files], np.bool_)[part.delete_indices]
    file_of = np.repeat(np.arange(len(part)), np.diff(part.delete_offsets))
    positions, equality = (np.bincount(file_of[chosen], minlength=len(part)) > 0 for chosen in (~is_equality, is_equality))
    return positions, equality


def _bytes(file: DataFile) -> int:
    """What must be read of a delete file: a vector's own bytes, or the whole file."""
    return file.file_size_in_bytes if file.content_size_in_bytes is None else file.content_size_in_bytes


def _constant_ids(spec: PartitionSpec, needed: Schema) -> frozenset[int]:
    """The columns that are the same in every row of a file of a spec."""
    tops = {field.field_id: field.field_type for field in needed.fields if isinstance(field.field_type, PrimitiveType)}
    return frozenset(
        field.source_id
        for field in spec.fields
        if isinstance(field.transform, IdentityTransform) and field.source_id in tops and not isinstance(tops[field.source_id], NOT_NATIVE)
    )


def _with_vectors(share: Share, deletes: DeleteLoader) -> Iterator[Share]:
    """The share with its deleted positions; files with positions that Spark's bitmaps cannot hold are read otherwise."""
    vectors = load_positions(deletes, (task for part in share.parts for task in part.tasks()))
    if all(map(fits, vectors)):
        yield replace(share, vectors=tuple(vectors))
        return
    start = 0
    native, portable, kept = [], [], []
    for part in share.parts:
        own = vectors[start : start + len(part)]
        start += len(part)
        good = np.array([fits(vector) for vector in own], np.bool_)
        native.append(part.take(np.flatnonzero(good)))
        portable.append(part.take(np.flatnonzero(~good)))
        kept += [vector for vector in own if fits(vector)]
    yield replace(share, parts=tuple(native), vectors=tuple(kept))
    yield replace(share, parts=tuple(portable), reason=f"rows from {MOST_POSITIONS} on are deleted in a file")
