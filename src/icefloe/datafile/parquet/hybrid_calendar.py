"""Dates and timestamps before 1900 in the hybrid calendar (Julian before 1582), which Spark 2, and Spark in the mode LEGACY, write to Parquet.

Spark recognizes such files by the version and keys in the footer, and converts the values when it reads them. It also converts instants from the time before
time zones had whole-hour offsets. Icefloe does not convert. From 1900 on the stored numbers mean the same in Iceberg's calendar; an earlier value in such a
file is refused, because it would be read as a different day or second.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.datafile.field_ids import is_list
from icefloe.errors import UnsupportedFeatureError
from icefloe.spec.types import DateType, IcebergType, TimestampNanoType, TimestamptzNanoType

_VERSION, _LEGACY, _LEGACY_INT96 = b"org.apache.spark.version", b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96"
# Versions of Spark that use Iceberg's calendar unless a key in the footer states otherwise. Origin: Spark's `DataSourceUtils`.
_FIRST_VERSION, _FIRST_VERSION_OF_INT96 = (3, 0), (3, 1)
# 1900-01-01 in days, and in the units of timestamps that Spark writes.
_DAYS, _FIRST = -25_567, {"us": -2_208_988_800_000_000, "ms": -2_208_988_800_000}


def hybrid_places(footer: Any) -> frozenset[int]:
    """Return the indexes of the leaves of a `pyarrow.parquet.FileMetaData` whose values use the hybrid calendar."""
    metadata = footer.metadata or {}
    match = re.match(rb"(\d{1,4})\.(\d{1,4})", metadata.get(_VERSION, b""))
    version = None if match is None else (int(match[1]), int(match[2]))
    is_int96 = _LEGACY_INT96 in metadata or (version is not None and version < _FIRST_VERSION_OF_INT96)
    is_other = _LEGACY in metadata or (version is not None and version < _FIRST_VERSION)
    if not is_int96 and not is_other:
        return frozenset()
    columns = [footer.schema.column(place) for place in range(len(footer.schema))]
    return frozenset(
        place
        for place, column in enumerate(columns)
        if (is_int96 if column.physical_type == "INT96" else is_other and _is_converted(column.logical_type))
    )


def _is_converted(logical_type: Any) -> bool:
    """Return whether Spark converts a column: a date, or a timestamp that is an instant."""
    return logical_type.type == "DATE" or (
        logical_type.type == "TIMESTAMP" and json.loads(logical_type.to_json()).get("isAdjustedToUTC") is True
    )


def known_since_1900(convert: Callable[[Any], Any], kind: IcebergType) -> Callable[[Any], Any]:
    """Return a conversion of a footer's extreme to a physical date or timestamp. It returns None for values before 1900, which differ in Iceberg's calendar."""
    first = (
        _DAYS if isinstance(kind, DateType) else _FIRST["us"] * (1000 if isinstance(kind, TimestampNanoType | TimestamptzNanoType) else 1)
    )

    def convert_if_known(raw: Any) -> Any:
        value = convert(raw)
        return None if value is None or value < first else value

    return convert_if_known


def refuse_hybrid_values(batch: Any, leaves: Sequence[int], places: frozenset[int], path: str) -> None:
    """Refuse a batch that contains a value before 1900 in the hybrid calendar.

    Args:
        batch: Rows with only the columns of `leaves`.
        leaves: The ascending indexes of the batch's leaves in the file.
        places: The indexes of the file's leaves that use the hybrid calendar.
        path: The path of the file, for the error.

    Raises:
        UnsupportedFeatureError: There is such a value.
    """
    arrays = (leaf for column, field in zip(batch.columns, batch.schema, strict=True) for leaf in _leaf_arrays(column, field.name))
    for (name, array), place in zip(arrays, leaves, strict=True):
        kind = array.type
        first = _DAYS if pa.types.is_date32(kind) else _FIRST.get(kind.unit) if pa.types.is_timestamp(kind) else None
        if place not in places or first is None:
            continue
        least = pc.min(array.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64())).as_py()
        if least is not None and least < first:
            raise UnsupportedFeatureError(
                f"column {name!r} of {path} has a value before 1900 in the calendar of Spark 2, which Icefloe does not convert",
                path=path,
                next_step="read the file with spark.read.parquet, which converts it, append these rows, and delete the file from the table",
            )


def _leaf_arrays(array: Any, name: str) -> Iterator[tuple[str, Any]]:
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        yield from _leaf_arrays(array.storage, name)
    elif pa.types.is_struct(kind) and kind.num_fields:
        for index, field in enumerate(kind.fields):
            yield from _leaf_arrays(array.field(index), f"{name}.{field.name}")
    elif pa.types.is_map(kind):
        yield from _leaf_arrays(array.keys, f"{name}.key")
        yield from _leaf_arrays(array.items, f"{name}.value")
    elif is_list(kind):
        yield from _leaf_arrays(array.values, f"{name}.element")
    else:
        yield name, array
