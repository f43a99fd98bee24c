"""The names that columns have while Spark's Parquet reader reads them, so that it never takes another column of a file for one by its name.

The reader finds columns and the fields of structs by id, but three of its steps use names of the file:

- It evaluates filters on row groups by the path of a column. Where a file may have another column there (columns swapped their names, or a name was dropped and
  used again), the wrong statistics would skip row groups that contain matching rows.
- It chooses the type to decode a column to by its name in the file, and by its id only where no column of that name is read. In a struct whose field was
  renamed and whose old name is another field's now, it would decode the values as that field's type.
- Where it reads no field of a struct that a file has, it reads any one, to see which structs are null, and chooses that one's type by the name.

A name that no file has turns all three off. The history of schemas shows which names are safe; where it has gaps, every column is renamed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import types as spark_types

from icefloe.spark.scan.metadata_column_values import OWN_PREFIX, POSITION_COLUMN
from icefloe.spark.types.spark_types import FIELD_ID_KEY, column_named, schema_to_struct
from icefloe.spec.manifest.partition_values import avro_name
from icefloe.spec.schema.schema import Schema, walk
from icefloe.spec.schema.schema_history import is_complete_history
from icefloe.spec.types import DoubleType, FloatType, NestedField, StructType, children

# Spark's metadata column of every scan of files.
SPARK_METADATA = "_metadata"


@dataclass(frozen=True, slots=True)
class ReaderNames:
    """Names for Spark's Parquet reader.

    Attributes:
        columns: The name of each top-level column, by its name in the table.
        renamed_inside: The columns in which fields of structs have other names too, by id.
    """

    columns: Mapping[str, str]
    renamed_inside: Mapping[int, NestedField]

    def of_struct(self, columns: Iterable[NestedField]) -> spark_types.StructType:
        """Return the Spark struct of columns, with ids, as the reader sees them."""
        struct = schema_to_struct(Schema(*columns))
        for field in struct.fields:
            if field.metadata[FIELD_ID_KEY] in self.renamed_inside:
                field.dataType = _with_other_names(field.dataType)
            field.name = self.columns[field.name]
        struct.names = [field.name for field in struct.fields]
        return struct

    def restore(self, rows: DataFrame) -> DataFrame:
        """Return rows of the reader with the table's names inside their columns; the columns themselves keep the reader's names."""
        present = {name: field for field in self.renamed_inside.values() if (name := self.columns[field.name]) in rows.columns}
        if not present:
            return rows
        # Spark casts structs by the positions of their fields, and structs of the same types at no cost.
        nullable = {field.name: field.dataType for field in rows.schema.fields}
        return rows.withColumns({name: column_named(name).cast(_named_as(nullable[name], field)) for name, field in present.items()})


def names_for_the_reader(needed: Schema, schemas: Sequence[Schema]) -> ReaderNames:
    """Return the names of columns while Spark's Parquet reader sees them: their own names, or ones that no file has.

    Columns with floats are renamed too: the upper bound of a row group ignores NaN, which Spark sorts above all numbers, and dictionaries and bloom filters
    distinguish -0.0 from 0.0, which are equal in Spark.

    Args:
        needed: The columns to read.
        schemas: All schemas that files of the table may have been written with.
    """
    ids_by_path: dict[tuple[str, ...], set[int]] = {}
    ids_inside: dict[tuple[int, str], set[int]] = {}  # of the fields that a struct had under a name, by the id of the struct
    for schema in (*schemas, needed):
        for path, field in walk(schema.fields):
            # Without regard to case, as Spark matches by default.
            ids_by_path.setdefault(tuple(part.lower() for part in path), set()).add(field.field_id)
        for struct_id, field in _fields_of_structs(schema.fields):
            for name in {field.name.lower(), avro_name(field.name).lower()}:  # Java writes the name that Avro allows
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


def _fields_of_structs(fields: Iterable[NestedField]) -> Iterator[tuple[int, NestedField]]:
    """Yield the fields of the structs inside columns, each with the id of its struct."""
    for field in fields:
        inner = children(field.field_type)
        if isinstance(field.field_type, StructType):
            yield from ((field.field_id, part) for part in inner)
        yield from _fields_of_structs(inner)


def _with_other_names(kind: Any) -> Any:
    """Return a Spark type whose structs' fields have names that no file has; their ids are in their metadata."""
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
    """Return a Spark type with the names inside a column of the table: equal in all else, so that a cast to it changes no value."""
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
