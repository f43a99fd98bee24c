"""Metadata columns in Spark's own scan, computed from constants per file, the position of the row, and the lineage columns that a file may contain.

Outside of Spark, `icefloe/datafile/metadata_columns_of_rows.py` computes the same values. Spec: Column Projection; Reserved Field IDs; Row Lineage.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 Spark's users know it by this letter
from pyspark.sql.types import IntegerType, LongType, StringType, StructField
from pyspark.sql.types import StructType as SparkStruct
from pyspark.sql.types import TimestampType as SparkTimestamp

from icefloe.spark.types.arrow_conversion import to_spark_form
from icefloe.spark.types.spark_types import column_named, schema_to_struct
from icefloe.spec.manifest.manifest_columns import partition_column
from icefloe.spec.schema import metadata_columns as names
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import (
    BinaryType,
    DateType,
    FixedType,
    IcebergType,
    NestedField,
    PrimitiveType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from icefloe.spec.values import physical_arrow_type

# Prefix of columns that exist only during a scan; if a table's column has the prefix too, it is renamed during the scan.
OWN_PREFIX = "icefloe "
# Spark's Parquet reader writes the position of the row to a column with this name. `_metadata.row_index` would be packed into a struct for every row.
POSITION_COLUMN = "_tmp_metadata_row_index"
# Whether the row's position is deleted. `bridge/java/CountedParquet.java` fills both columns.
DELETED_ROWS_COLUMN = f"{OWN_PREFIX}deleted"
_FILE, _SPEC_ID = f"{OWN_PREFIX}file", f"{OWN_PREFIX}spec id"
_FIRST_ROW_ID, _SEQUENCE_NUMBER = f"{OWN_PREFIX}first row id", f"{OWN_PREFIX}sequence number"
_STORED = f"{OWN_PREFIX}stored "
# The constants for metadata columns: name, Spark type, and the column of the planned files that contains the value.
_CONSTANTS: Mapping[int, tuple[tuple[str, Any, str], ...]] = {
    names.FILE.field_id: ((_FILE, StringType(), "file_path"),),
    names.SPEC_ID.field_id: ((_SPEC_ID, IntegerType(), "spec_id"),),
    names.ROW_ID.field_id: ((_FIRST_ROW_ID, LongType(), "first_row_id"),),
    names.LAST_UPDATED_SEQUENCE_NUMBER.field_id: (
        (_FIRST_ROW_ID, LongType(), "first_row_id"),
        (_SEQUENCE_NUMBER, LongType(), "sequence_number"),
    ),
    # The columns of changes, which a scan of changes adds to its planned files under these names.
    names.CHANGE_TYPE.field_id: ((f"{OWN_PREFIX}change type", StringType(), names.CHANGE_TYPE.name),),
    names.CHANGE_ORDINAL.field_id: ((f"{OWN_PREFIX}change ordinal", IntegerType(), names.CHANGE_ORDINAL.name),),
    names.COMMIT_SNAPSHOT_ID.field_id: ((f"{OWN_PREFIX}commit snapshot", LongType(), names.COMMIT_SNAPSHOT_ID.name),),
    names.COMMIT_TIMESTAMP.field_id: ((f"{OWN_PREFIX}commit time", SparkTimestamp(), names.COMMIT_TIMESTAMP.name),),
}
_LINEAGE_IDS = frozenset(column.field_id for column in names.LINEAGE_COLUMNS)
# Metadata columns that are computed from the row's position in its file.
OF_POSITIONS = frozenset([names.POS.field_id, names.ROW_ID.field_id])


# The Arrow types in which constants are sent to Spark, if they differ from the type of the physical values.
_CONSTANT_TYPES: Mapping[type[IcebergType], Any] = {
    DateType: pa.date32(),
    TimestampType: pa.timestamp("us"),
    TimestamptzType: pa.timestamp("us", "UTC"),
    FixedType: pa.binary(),
    BinaryType: pa.binary(),
}


@dataclass(frozen=True, slots=True)
class MetadataColumns:
    """The metadata columns of a native scan: what Spark must read for them, and the expressions that compute them.

    Attributes:
        field_ids: The field ids of the metadata columns that the scan reads.
        partition: The type of `_partition`; a struct without fields if the scan does not read it.
    """

    field_ids: frozenset[int]
    partition: StructType

    @property
    def stored(self) -> tuple[NestedField, ...]:
        """The lineage columns to read from data files, which may contain values for them, with their names during the scan."""
        return tuple(replace(field, name=_STORED + field.name) for field in names.LINEAGE_COLUMNS if field.field_id in self.field_ids)

    def constants(self, files: Any) -> tuple[SparkStruct, dict[str, Any]]:
        """Return the values per data file from which the metadata columns are computed, for example the file's location.

        Args:
            files: A `pyarrow.Table` with the columns of `ScanPlan.files`.

        Returns:
            The Spark fields of these values, and for each field, by name, an Arrow array with one value per file.
        """
        needed = {name: (kind, source) for field_id in sorted(self.field_ids) for name, kind, source in _CONSTANTS.get(field_id, ())}
        fields = [StructField(name, kind, True) for name, (kind, _) in needed.items()]
        arrays = {name: _column(files, source, _ARROW[type(kind)]) for name, (kind, source) in needed.items()}
        if names.PARTITION_FIELD_ID in self.field_ids:
            kinds = schema_to_struct(Schema(*self.partition.fields), field_ids=False)
            for part, kind in zip(self.partition.fields, kinds.fields, strict=True):
                name = f"{OWN_PREFIX}partition {part.field_id}"
                fields.append(StructField(name, kind.dataType, True))
                source = partition_column(part.field_id)
                arrays[name] = as_constant(files[source] if source in files.column_names else pa.nulls(files.num_rows), part.field_type)
        return SparkStruct(fields), arrays

    def columns(self, is_deleted: Column) -> dict[int, Column]:
        """Return the expressions that compute the metadata columns, by field id. `is_deleted` is the expression for `_deleted`."""
        return {field_id: is_deleted if field_id == names.DELETED.field_id else self._column(field_id) for field_id in self.field_ids}

    def _column(self, field_id: int) -> Column:
        if field_id == names.POS.field_id:
            return row_position()
        if field_id == names.PARTITION_FIELD_ID:
            return self._partition()
        if field_id not in _LINEAGE_IDS:
            return column_named(_CONSTANTS[field_id][0][0])
        first_row_id = column_named(_FIRST_ROW_ID)
        if field_id == names.ROW_ID.field_id:
            inherited = first_row_id + row_position()
            stored = column_named(_STORED + names.ROW_ID.name)
        else:
            inherited = column_named(_SEQUENCE_NUMBER)
            stored = column_named(_STORED + names.LAST_UPDATED_SEQUENCE_NUMBER.name)
        # Spec: Row Lineage. In a file without a first row id, rows have no ids, even if the file contains values.
        return F.when(first_row_id.isNotNull(), F.coalesce(stored, inherited))

    def _partition(self) -> Column:
        if not self.partition.fields:
            return F.lit(None).cast("struct<>")
        return F.struct(*(column_named(f"{OWN_PREFIX}partition {part.field_id}").alias(part.name) for part in self.partition.fields))


def row_position() -> Column:
    """Return an expression for the position of the row in its file, which is never null.

    If Spark's reader leaves the column empty, the query fails, so that not every row is treated as the first row.
    """
    # A bare column would be used in filters on row groups, which find columns by name, and a file may have a column with this name. The 0 is never reached, but
    # because of it Spark infers that the expression is never null.
    unknown = F.raise_error(F.lit("Spark's Parquet reader returned no row position")).cast("long")
    return F.coalesce(column_named(POSITION_COLUMN), unknown, F.lit(0).cast("long"))


def is_row_deleted() -> Column:
    """Return an expression for whether the row is deleted by its position. It is never null: if Spark's reader leaves the column empty, the query fails."""
    unknown = F.raise_error(F.lit("Spark's Parquet reader returned no value for deleted rows")).cast("boolean")
    return F.coalesce(column_named(DELETED_ROWS_COLUMN), unknown, F.lit(False))


def position_name_conflict(schemas: Iterable[Schema]) -> str:
    """Return why Spark's own scan cannot read row positions: a column in one of the schemas has the name of a position column. Empty if it can."""
    own = (POSITION_COLUMN, DELETED_ROWS_COLUMN)
    conflict = next((name for schema in schemas for name in schema.names if name.lower() in own), None)
    return "" if conflict is None else f"one of its columns for row positions has the name of the column {conflict}, present or former"


_ARROW: Mapping[type[Any], Any] = {
    StringType: pa.string(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    SparkTimestamp: pa.timestamp("us", "UTC"),
}


def _column(files: Any, name: str, kind: Any) -> Any:
    """Return a column of the planned files as an Arrow array; nulls if the plan does not have it, as for first row ids before format version 3."""
    return files[name].cast(kind) if name in files.column_names else pa.nulls(files.num_rows, kind)


def as_constant(values: Any, kind: IcebergType) -> Any:
    """Convert values that are constant within each file, such as partition values, to the Arrow type that Spark needs for the column.

    Args:
        values: An Arrow array of physical values, one for each file; null for a file without a value.
        kind: The Iceberg type of the column.

    Spec: Column Projection.
    """
    if pa.types.is_null(values.type):
        values = values.cast(physical_arrow_type(kind)) if isinstance(kind, PrimitiveType) else values
    if isinstance(kind, UUIDType | TimeType):
        return to_spark_form(values.cast(pa.time64("us")) if isinstance(kind, TimeType) else values, kind)
    target = _CONSTANT_TYPES.get(type(kind))
    return values if target is None or values.type == target else values.cast(target)
