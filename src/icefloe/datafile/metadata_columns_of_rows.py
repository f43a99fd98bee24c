"""Values of the metadata columns for the rows of a data file: file, position, partition, whether a row is deleted, and row lineage.

`spec/schema/metadata_columns.py` has the ids and names of these columns.
Spec: Reserved Field IDs; Row Lineage; Row lineage assignment; Row Lineage for Upgraded Tables.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.errors import InvalidInputError
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spec.arrow_values import mask_array, numbers_array, scalar_of
from icefloe.spec.partitioning.partition_spec import PartitionSpec
from icefloe.spec.schema import metadata_columns as names
from icefloe.spec.schema.arrow_types import type_to_arrow
from icefloe.spec.types import NestedField, PrimitiveType, StructType
from icefloe.spec.values import physical_array


def metadata_array(
    field: NestedField,
    task: FileScanTask,
    spec: PartitionSpec,
    positions: NDArray[np.int64],
    *,
    deleted: NDArray[np.bool_] | None,
    stored: Mapping[int, Any],
) -> Any:
    """Return one metadata column for rows of a file, as an Arrow array.

    Args:
        field: The metadata column.
        task: The scan task of the file that contains the rows.
        spec: The file's partition spec.
        positions: Positions of the rows in the file.
        deleted: A boolean for each row, True if it is deleted; None if no row is deleted.
        stored: The lineage columns that the file itself contains, by field id.

    Raises:
        InvalidInputError: Only a changelog has this column.
    """
    rows = len(positions)
    match field.field_id:
        case names.FILE.field_id:
            return _repeat(task.file.file_path, pa.string(), rows)
        case names.POS.field_id:
            return numbers_array(positions, pa.int64())
        case names.DELETED.field_id:
            return mask_array(np.zeros(rows, np.bool_) if deleted is None else deleted)
        case names.SPEC_ID.field_id:
            return _repeat(task.spec_id, pa.int32(), rows)
        case names.PARTITION_FIELD_ID:
            return _partition(field, dict(zip((part.field_id for part in spec.fields), task.file.partition, strict=True)), rows)
        case names.ROW_ID.field_id | names.LAST_UPDATED_SEQUENCE_NUMBER.field_id:
            return _lineage(field, task, positions, stored.get(field.field_id))
    raise InvalidInputError(
        f"column {field.name!r} is a metadata column of changelogs, and rows do not have it", next_step="read it from the table's changelog"
    )


def _lineage(field: NestedField, task: FileScanTask, positions: NDArray[np.int64], stored: Any) -> Any:
    """Return the stored values, with inherited values in place of nulls; null for all rows if the file has no first row id. Spec: Row Lineage."""
    first_row_id = task.file.first_row_id
    if first_row_id is None:
        return pa.nulls(len(positions), pa.int64())
    if field.field_id == names.ROW_ID.field_id:
        inherited = numbers_array(positions + first_row_id, pa.int64())
    elif task.sequence_number is None:
        inherited = pa.nulls(len(positions), pa.int64())
    else:
        inherited = _repeat(task.sequence_number, pa.int64(), len(positions))
    return inherited if stored is None else pc.coalesce(stored, inherited)


def _partition(field: NestedField, values: Mapping[int, Any], rows: int) -> Any:
    """Return the file's partition as a struct of all partition fields of the table; fields that are not in the file's spec are null."""
    target = type_to_arrow(field.field_type)
    if not isinstance(field.field_type, StructType) or not field.field_type.fields:
        return pa.nulls(rows, target)
    arrays = []
    for part, arrow in zip(field.field_type.fields, target.fields, strict=True):
        value = values.get(part.field_id)
        if value is None or not isinstance(part.field_type, PrimitiveType):
            arrays.append(pa.nulls(rows, arrow.type))
        else:
            arrays.append(pa.repeat(physical_array(part.field_type, [value]).cast(arrow.type)[0], rows))
    return pa.StructArray.from_arrays(arrays, fields=list(target.fields))


def _repeat(value: Any, kind: Any, rows: int) -> Any:
    return pa.repeat(scalar_of(value, kind), rows)
