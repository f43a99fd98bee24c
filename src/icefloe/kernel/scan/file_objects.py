"""`DataFile` objects of the rows of a `ManifestColumns` table, of data files and delete files alike.

Floor: kernel.scan. Spec: Data File Fields.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from itertools import repeat
from typing import Any, TypeVar

from icefloe.kernel.manifest.columns import STATISTICS, partition_column, statistic_column
from icefloe.kernel.manifest.data_file import DataFile, FileContent, FileFormat
from icefloe.kernel.manifest.partition_values import primitive
from icefloe.kernel.types import StructType
from icefloe.kernel.values import physical_list

_FORMATS = {form.value: form for form in FileFormat}
_CONTENTS = {int(content): content for content in FileContent}
# Columns that are a field as they are; those of delete files are not in the tables of data files, and no row ids in theirs.
_PLAIN = (
    "file_path",
    "record_count",
    "file_size_in_bytes",
    "sort_order_id",
    "first_row_id",
    "referenced_data_file",
    "content_offset",
    "content_size_in_bytes",
)
_LISTS = ("split_offsets", "equality_ids")

T = TypeVar("T")


def objects(kind: type[T], values: Mapping[str, Iterable[Any]], count: int) -> list[T]:
    """`count` objects of a slotted dataclass from its fields' values, field by field; every field must be given.

    A scan makes hundreds of thousands of them. Setting a slot over all objects at once takes a third of the time that their `__init__` does.
    """
    made = [object.__new__(kind) for _ in range(count)]
    for field in fields(kind):  # type: ignore[arg-type]  # a dataclass, which typing cannot say
        deque(map(getattr(kind, field.name).__set__, made, values[field.name]), maxlen=0)
    return made


def file_objects(rows: Any, spec_id: int, partition_type: StructType, statistics: Sequence[int] = ()) -> list[DataFile]:
    """One object a row, in order; column statistics of the fields in `statistics`, whose slot columns are there."""
    known = set(rows.column_names)
    nothing: Mapping[str, Iterable[Any]] = {field.name: repeat(None) for field in fields(DataFile)}
    values = {
        **nothing,
        **{name: rows[name].to_pylist() for name in _PLAIN if name in known},
        **{name: _tuples(rows[name]) for name in _LISTS if name in known},
        **({name: _maps(rows, statistic, statistics) for name, statistic in STATISTICS.items()} if statistics else {}),
        "file_format": map(_FORMATS.__getitem__, rows["file_format"].to_pylist()),
        "content": map(_CONTENTS.__getitem__, rows["content"].to_pylist()),
        "partition": partition_tuples(rows, partition_type),
        "spec_id": repeat(spec_id),
    }
    return objects(DataFile, values, rows.num_rows)


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
