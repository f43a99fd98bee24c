"""Names of columns for Spark's Parquet reader, chosen so that the reader never confuses columns that have, or had, the same name.

The reader finds columns and struct fields by id, but three of its steps use the names in a file:

- It evaluates filters on row groups by the path of a column. If a different column of the file has this path (because columns swapped names, or a name was
  dropped and used again), the wrong statistics would skip row groups that contain matching rows.
- It determines the type of a column by the column's name in the file, and by the id only if no column with that name is read. If a struct field was renamed and
  a different field now has the old name, the reader would decode the values with the type of the different field.
- If a file lacks all requested fields of a struct, it reads an arbitrary field to determine which structs are null, and determines this field's type by name.

If a column has a name that occurs in no file, all three steps are harmless. The history of schemas shows which columns need such a name; if the history has
gaps, all columns are renamed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 Spark's users know it by this letter
from pyspark.sql import types as spark_types

from icefloe.spark.scan.metadata_column_values import OWN_PREFIX, POSITION_COLUMN
from icefloe.spark.types.spark_types import FIELD_ID_KEY, column_named, field_inside, schema_to_struct
from icefloe.spec.manifest.partition_values import avro_name
from icefloe.spec.schema.schema import Schema, walk
from icefloe.spec.schema.schema_history import is_complete_history
from icefloe.spec.types import DoubleType, FloatType, IcebergType, ListType, MapType, NestedField, StructType, UUIDType, children

# The metadata column that Spark adds to every scan of files.
SPARK_METADATA = "_metadata"
# The parts of a uuid between its hyphens: the first byte of each, counted from 1, and the number of bytes.
_BYTES_OF_A_UUID = 16
_NO_UUID = "a data file has a value in a uuid column that is not of 16 bytes"
_PARTS_OF_A_UUID = ((1, 4), (5, 2), (7, 2), (9, 2), (11, 6))


@dataclass(frozen=True, slots=True)
class ReaderNames:
    """The names of a scan's columns and struct fields in Spark's Parquet reader.

    Attributes:
        columns: The reader's name of each top-level column, by the name in the table.
        renamed_inside: The top-level columns, by id, in which the struct fields have other names too.
    """

    columns: Mapping[str, str]
    renamed_inside: Mapping[int, NestedField]

    def of_struct(self, columns: Iterable[NestedField]) -> spark_types.StructType:
        """Return the Spark schema for the reader: the columns under the reader's names, with field ids in the metadata."""
        columns = tuple(columns)
        struct = schema_to_struct(Schema(*columns))
        for field, column in zip(struct.fields, columns, strict=True):
            if has_uuid(column):
                field.dataType = _with_bytes(field.dataType, column.field_type)
            if field.metadata[FIELD_ID_KEY] in self.renamed_inside:
                field.dataType = _with_other_names(field.dataType)
            field.name = self.columns[field.name]
        struct.names = [field.name for field in struct.fields]
        return struct

    def texts_of_uuids(self, columns: Iterable[NestedField]) -> dict[int, Column]:
        """Return the texts of the top-level uuid columns among those that the reader reads, which are bytes to it, by field id."""
        return {
            column.field_id: _uuid_text(column_named(self.columns[column.name]))
            for column in columns
            if isinstance(column.field_type, UUIDType)
        }

    def restore(self, rows: DataFrame, columns: Iterable[NestedField]) -> DataFrame:
        """Rename struct fields in the reader's rows back to the table's names, and make texts of uuids inside of columns.

        The top-level columns keep the reader's names.

        Args:
            rows: The rows.
            columns: The columns that the reader reads.
        """
        rows = self._with_own_names(rows)
        inside = [column for column in columns if has_uuid(column) and not isinstance(column.field_type, UUIDType)]
        if not inside:
            return rows
        types = {field.name: field.dataType for field in rows.schema.fields}
        names = [(self.columns[column.name], column.field_type) for column in inside]
        return rows.withColumns({name: _with_texts(column_named(name), kind, types[name]) for name, kind in names})

    def _with_own_names(self, rows: DataFrame) -> DataFrame:
        present = {name: field for field in self.renamed_inside.values() if (name := self.columns[field.name]) in rows.columns}
        if not present:
            return rows
        # Spark casts structs by the positions of their fields, at no cost if the types are the same.
        nullable = {field.name: field.dataType for field in rows.schema.fields}
        return rows.withColumns({name: column_named(name).cast(_named_as(nullable[name], field)) for name, field in present.items()})


def names_for_the_reader(needed: Schema, schemas: Sequence[Schema]) -> ReaderNames:
    """Choose the names of columns for Spark's Parquet reader: their own names if these are safe, otherwise names that occur in no file.

    Columns with floats are always renamed: the upper bound of a row group ignores NaN, which Spark sorts above all numbers, and dictionaries and bloom filters
    distinguish -0.0 from 0.0, which are equal in Spark.

    Args:
        needed: The columns to read.
        schemas: All schemas with which files of the table may have been written.
    """
    ids_by_path: dict[tuple[str, ...], set[int]] = {}
    ids_inside: dict[tuple[int, str], set[int]] = {}  # the fields that a struct has had under a name, by the id of the struct
    for schema in (*schemas, needed):
        for path, field in walk(schema.fields):
            # In lower case, because Spark ignores case by default.
            ids_by_path.setdefault(tuple(part.lower() for part in path), set()).add(field.field_id)
        for struct_id, field in _fields_of_structs(schema.fields):
            for name in {field.name.lower(), avro_name(field.name).lower()}:  # Java writes the name in the form that Avro allows
                ids_inside.setdefault((struct_id, name), set()).add(field.field_id)
    reused = {struct_id for (struct_id, _), ids in ids_inside.items() if len(ids) > 1}
    complete = is_complete_history(schemas)
    columns, renamed_inside = {}, {}
    for field in needed.fields:
        inner = [part for _, part in walk((field,))]
        paths = [tuple(part.lower() for part in path) for path, _ in walk((field,))]
        is_safe = complete and all(len(ids_by_path[path]) == 1 for path in paths)
        name = field.name.lower()
        is_safe = is_safe and not any(isinstance(part.field_type, FloatType | DoubleType) for part in inner)
        is_safe = is_safe and name not in (SPARK_METADATA, POSITION_COLUMN) and not name.startswith(OWN_PREFIX)
        columns[field.name] = field.name if is_safe else f"{field.name} (field {field.field_id})"
        structs = {part.field_id for part in inner if isinstance(part.field_type, StructType)}
        if structs and (not complete or structs & reused):
            renamed_inside[field.field_id] = field
    return ReaderNames(columns, renamed_inside)


def _uuid_text(column: Column) -> Column:
    """Return the text of a uuid's 16 bytes, in lower case."""
    parts = [F.hex(F.substring(column, start, length)) for start, length in _PARTS_OF_A_UUID]
    text = F.lower(F.concat(parts[0], *(part for digits in parts[1:] for part in (F.lit("-"), digits))))
    return F.when(F.octet_length(column) != _BYTES_OF_A_UUID, F.raise_error(F.lit(_NO_UUID)).cast("string")).otherwise(text)


def has_uuid(column: NestedField) -> bool:
    """Return whether a column is a uuid or has one inside."""
    return any(isinstance(field.field_type, UUIDType) for _, field in walk((column,)))


def _with_bytes(kind: Any, stored: IcebergType) -> Any:
    """Return the Spark type of a column with bytes in the place of the texts of uuids."""
    if isinstance(stored, UUIDType):
        return spark_types.BinaryType()
    if isinstance(stored, StructType):
        fields = zip(kind.fields, stored.fields, strict=True)
        return spark_types.StructType(
            [spark_types.StructField(f.name, _with_bytes(f.dataType, inner.field_type), f.nullable, f.metadata) for f, inner in fields]
        )
    if isinstance(stored, ListType):
        return spark_types.ArrayType(_with_bytes(kind.elementType, stored.element_type), kind.containsNull)
    if isinstance(stored, MapType):
        keys, values = _with_bytes(kind.keyType, stored.key_type), _with_bytes(kind.valueType, stored.value_type)
        return spark_types.MapType(keys, values, kind.valueContainsNull)
    return kind


def _with_texts(column: Column, stored: IcebergType, kind: Any) -> Column:
    """Return a column with the texts of uuids in the place of their bytes. `kind` is the Spark type of the column, with bytes."""
    if isinstance(stored, UUIDType):
        return _uuid_text(column)
    if not any(isinstance(field.field_type, UUIDType) for _, field in walk(children(stored))):
        return column
    if isinstance(stored, StructType):
        fields = [
            _with_texts(field_inside(column, (field.name,), kind), field.field_type, part.dataType).alias(field.name)
            for field, part in zip(stored.fields, kind.fields, strict=True)
        ]
        return F.when(column.isNotNull(), F.struct(*fields))
    if isinstance(stored, MapType):
        texts = F.transform_values(column, lambda _, value: _with_texts(value, stored.value_type, kind.valueType))
        return F.transform_keys(texts, lambda key, _: _with_texts(key, stored.key_type, kind.keyType))
    (element,) = children(stored)  # of a list
    return F.transform(column, lambda value: _with_texts(value, element.field_type, kind.elementType))


def _fields_of_structs(fields: Iterable[NestedField]) -> Iterator[tuple[int, NestedField]]:
    """Yield all fields of structs inside the columns, at all depths, each after the field id of its struct."""
    for field in fields:
        inner = children(field.field_type)
        if isinstance(field.field_type, StructType):
            yield from ((field.field_id, part) for part in inner)
        yield from _fields_of_structs(inner)


def _with_other_names(kind: Any) -> Any:
    """Return a Spark type with the struct fields renamed to names that occur in no file. Their field ids must be in the metadata."""
    if isinstance(kind, spark_types.StructType):
        return spark_types.StructType(
            [
                spark_types.StructField(
                    f"{f.name} (field {f.metadata[FIELD_ID_KEY]})", _with_other_names(f.dataType), f.nullable, f.metadata
                )
                for f in kind.fields
            ]
        )
    if isinstance(kind, spark_types.ArrayType):
        return spark_types.ArrayType(_with_other_names(kind.elementType), kind.containsNull)
    if isinstance(kind, spark_types.MapType):
        return spark_types.MapType(_with_other_names(kind.keyType), _with_other_names(kind.valueType), kind.valueContainsNull)
    return kind


def _named_as(kind: Any, field: NestedField) -> Any:
    """Return the Spark type `kind` with the table's names of struct fields. All else is equal, so that a cast to the type changes no value."""
    return _with_names(kind, schema_to_struct(Schema(field), field_ids=False).fields[0].dataType)


def _with_names(kind: Any, named: Any) -> Any:
    if isinstance(kind, spark_types.StructType):
        fields = zip(kind.fields, named.fields, strict=True)
        return spark_types.StructType([spark_types.StructField(n.name, _with_names(f.dataType, n.dataType), f.nullable) for f, n in fields])
    if isinstance(kind, spark_types.ArrayType):
        return spark_types.ArrayType(_with_names(kind.elementType, named.elementType), kind.containsNull)
    if isinstance(kind, spark_types.MapType):
        keys, values = _with_names(kind.keyType, named.keyType), _with_names(kind.valueType, named.valueType)
        return spark_types.MapType(keys, values, kind.valueContainsNull)
    return kind
