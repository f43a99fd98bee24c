"""`DataFile` objects of the rows of a `ManifestColumns` table, of data files and delete files alike.

Floor: kernel.scan. Spec: Data File Fields.
"""

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Any

from icefloe.kernel.manifest.columns import STATISTICS, partition_column, statistic_column
from icefloe.kernel.manifest.data_file import DataFile, FileContent, FileFormat
from icefloe.kernel.manifest.partition_values import primitive
from icefloe.kernel.types import StructType
from icefloe.kernel.values import physical_list

_FORMATS = {form.value: form for form in FileFormat}
_CONTENTS = {int(content): content for content in FileContent}
_PLAIN = ("file_path", "record_count", "file_size_in_bytes", "sort_order_id")
_OF_DATA_FILES = ("first_row_id",)
_OF_DELETE_FILES = ("referenced_data_file", "content_offset", "content_size_in_bytes")


def file_objects(rows: Any, spec_id: int, partition_type: StructType, statistics: Sequence[int] = ()) -> Iterator[DataFile]:
    """One object a row, in order; column statistics of the fields in `statistics`, whose slot columns are there."""
    plain = (*_PLAIN, *(name for name in (*_OF_DATA_FILES, *_OF_DELETE_FILES) if name in rows.column_names))
    fields: dict[str, Any] = {name: rows[name].to_pylist() for name in plain}
    fields["file_format"] = map(_FORMATS.__getitem__, rows["file_format"].to_pylist())
    fields["content"] = map(_CONTENTS.__getitem__, rows["content"].to_pylist())
    fields["partition"] = partition_tuples(rows, partition_type)
    fields["spec_id"] = repeat(spec_id, rows.num_rows)
    for name in ("split_offsets", "equality_ids"):
        if name in rows.column_names:
            fields[name] = _tuples(rows[name])
    if statistics:
        fields |= {name: _maps(rows, statistic, statistics) for name, statistic in STATISTICS.items()}
    for values in zip(*fields.values(), strict=True):
        yield DataFile(**dict(zip(fields, values, strict=True)))


def partition_tuples(rows: Any, partition_type: StructType) -> list[tuple[Any, ...]]:
    """The partition tuples of rows of a `ManifestColumns` table, as physical values in spec order."""
    values = []
    for field in partition_type.fields:
        values.append(physical_list(primitive(field.field_type), rows[partition_column(field.field_id)]))
    return list(zip(*values, strict=True)) if values else [()] * rows.num_rows


def _tuples(column: Any) -> list[tuple[Any, ...] | None]:
    return [None if values is None else tuple(values) for values in column.to_pylist()]


def _maps(rows: Any, statistic: str, field_ids: Sequence[int]) -> list[dict[int, Any] | None]:
    """The statistic's map of each file, from the slot columns; None where it says nothing."""
    found: list[dict[int, Any]] = [{} for _ in range(rows.num_rows)]
    for field_id in field_ids:
        for known, value in zip(found, rows[statistic_column(statistic, field_id)].to_pylist(), strict=True):
            if value is not None:
                known[field_id] = value
    return [known or None for known in found]
