"""Metadata columns in Spark's own scan: made of constants per file, the row's position, and what the file itself says of row lineage.

In-process they are made in `datafile/metadata_columns_of_rows.py`, to the same values. Spec: Reserved Field IDs; Row Lineage.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 Spark's users know it by this letter
from pyspark.sql.types import IntegerType, LongType, StringType, StructField
from pyspark.sql.types import StructType as SparkStruct

from icefloe.kernel.expressions.bind import predicates
from icefloe.kernel.manifest.manifest_columns import partition_column
from icefloe.kernel.schema import metadata_columns as names
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.types import NestedField, StructType
from icefloe.spark.scan.filter_columns import column_named
from icefloe.spark.types.partition_constants import as_constant
from icefloe.spark.types.spark_types import schema_to_struct
from icefloe.table.engine import ScanRequest

# Columns that only a scan knows begin so; a column of a table whose name does too is called otherwise while the scan runs.
OWN_PREFIX = "icefloe "
# Spark's Parquet reader puts the row's position into a column of this name. Asked for as `_metadata.row_index`, it would be packed into a struct for every row.
POSITION_COLUMN = "_tmp_metadata_row_index"
_FILE, _SPEC_ID = f"{OWN_PREFIX}file", f"{OWN_PREFIX}spec id"
_FIRST_ROW_ID, _SEQUENCE_NUMBER = f"{OWN_PREFIX}first row id", f"{OWN_PREFIX}sequence number"
_STORED = f"{OWN_PREFIX}stored "
# The constants that a metadata column needs: what each is called, its Spark type, and the column of planned files that holds it.
_CONSTANTS: Mapping[int, tuple[tuple[str, Any, str], ...]] = {
    names.FILE.field_id: ((_FILE, StringType(), "file_path"),),
    names.SPEC_ID.field_id: ((_SPEC_ID, IntegerType(), "spec_id"),),
    names.ROW_ID.field_id: ((_FIRST_ROW_ID, LongType(), "first_row_id"),),
    names.LAST_UPDATED_SEQUENCE_NUMBER.field_id: (
        (_FIRST_ROW_ID, LongType(), "first_row_id"),
        (_SEQUENCE_NUMBER, LongType(), "sequence_number"),
    ),
}
# Made of the row's position in its file.
OF_POSITIONS = frozenset([names.POS.field_id, names.ROW_ID.field_id])


@dataclass(frozen=True, slots=True)
class MetadataColumns:
    """The metadata columns of one scan, by field id; `partition` is the type of `_partition` where that is among them."""

    field_ids: frozenset[int]
    partition: StructType

    @property
    def stored(self) -> tuple[NestedField, ...]:
        """The columns to look for in the files themselves, under the names they have in the scan."""
        return tuple(replace(field, name=_STORED + field.name) for field in names.LINEAGE_COLUMNS if field.field_id in self.field_ids)

    def constants(self, files: Any) -> tuple[SparkStruct, dict[str, Any]]:
        """The constants per file that the columns are made of, for `files`, a table as `ScanPlan.files`."""
        wanted = {name: (kind, source) for field_id in sorted(self.field_ids) for name, kind, source in _CONSTANTS.get(field_id, ())}
        fields = [StructField(name, kind, True) for name, (kind, _) in wanted.items()]
        arrays = {name: _column(files, source, _ARROW[type(kind)]) for name, (kind, source) in wanted.items()}
        if names.PARTITION_FIELD_ID in self.field_ids:
            kinds = schema_to_struct(Schema(*self.partition.fields), field_ids=False)
            for part, kind in zip(self.partition.fields, kinds.fields, strict=True):
                name = f"{OWN_PREFIX}partition {part.field_id}"
                fields.append(StructField(name, kind.dataType, True))
                source = partition_column(part.field_id)
                arrays[name] = as_constant(files[source] if source in files.column_names else pa.nulls(files.num_rows), part.field_type)
        return SparkStruct(fields), arrays

    def columns(self, is_deleted: Column) -> dict[int, Column]:
        """How each column is made, by field id; `is_deleted` tells of a row whether it is."""
        return {field_id: is_deleted if field_id == names.DELETED.field_id else self._column(field_id) for field_id in self.field_ids}

    def _column(self, field_id: int) -> Column:
        if field_id == names.FILE.field_id:
            return column_named(_FILE)
        if field_id == names.POS.field_id:
            return row_position()
        if field_id == names.SPEC_ID.field_id:
            return column_named(_SPEC_ID)
        if field_id == names.PARTITION_FIELD_ID:
            return self._partition()
        first_row_id = column_named(_FIRST_ROW_ID)
        if field_id == names.ROW_ID.field_id:
            inherited = first_row_id + row_position()
            stored = column_named(_STORED + names.ROW_ID.name)
        else:
            inherited = column_named(_SEQUENCE_NUMBER)
            stored = column_named(_STORED + names.LAST_UPDATED_SEQUENCE_NUMBER.name)
        # Spec: Row Lineage. A file without a first row id has rows without ids, whatever stands in it.
        return F.when(first_row_id.isNotNull(), F.coalesce(stored, inherited))

    def _partition(self) -> Column:
        if not self.partition.fields:
            return F.lit(None).cast("struct<>")
        return F.struct(*(column_named(f"{OWN_PREFIX}partition {part.field_id}").alias(part.name) for part in self.partition.fields))


def asked_metadata(request: ScanRequest) -> frozenset[int]:
    """The ids of the metadata columns that a scan's projection or filter names."""
    ids = {field.field_id for field in request.projection.fields} | {test.field.field_id for test in predicates(request.row_filter)}
    return frozenset(filter(names.is_reserved, ids))


def row_position() -> Column:
    """The row's position in its file; never null. With a Spark whose reader leaves it empty, the query fails instead of taking every row for the first."""
    # The bare column would go into filters on row groups, which take columns by name: a file may have one of this name. The 0 is never reached: it tells
    # Spark that there is no null.
    unknown = F.raise_error(F.lit("Spark's Parquet reader does not tell the positions of rows")).cast("long")
    return F.coalesce(column_named(POSITION_COLUMN), unknown, F.lit(0).cast("long"))


def positions_taken(schemas: Iterable[Schema]) -> str:
    """Why Spark's own scan cannot tell the positions of rows in files of these schemas: a column may be called as it calls them. Empty where none is."""
    taken = next((name for schema in schemas for name in schema.names if name.lower() == POSITION_COLUMN), None)
    return "" if taken is None else f"it calls the positions of rows as the column {taken} is called, or was"


_ARROW: Mapping[type[Any], Any] = {StringType: pa.string(), IntegerType: pa.int32(), LongType: pa.int64()}


def _column(files: Any, name: str, kind: Any) -> Any:
    """A column of the planned files; null where the plan has none, as of first row ids before version 3."""
    return files[name].cast(kind) if name in files.column_names else pa.nulls(files.num_rows, kind)
