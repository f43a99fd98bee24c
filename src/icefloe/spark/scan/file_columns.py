"""`FileColumns`: how the read strategy of a file depends on its columns: those it lacks, and those that Spark's own scan would read as other than stored.

`footer_field_ids.py` reads the columns of files. Spec: Column Projection; Default values.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from icefloe.datafile.projection import lacks_required
from icefloe.spark.scan.footer_field_ids import FieldIds, StoredFields
from icefloe.spark.types.spark_types import NOT_NATIVE
from icefloe.spec.schema.schema import Schema, walk
from icefloe.spec.schema.schema_history import is_complete_history
from icefloe.spec.types import IntegerType, LongType, NestedField, PrimitiveType, StructType, TimeType, VariantType, children

# By integer type, the width of unsigned integers in a file that Spark's own scan would read as signed ones. Icefloe's Parquet format (`SignedParquet.java`)
# checks their values.
_WIDTHS: Mapping[type, int] = {IntegerType: 32, LongType: 64}


@dataclass(frozen=True, slots=True)
class LostStruct:
    """A struct that a scan reads, at any depth: its dotted path, its field id, and the ids of the leaf columns that the scan reads from it."""

    path: str
    field_id: int
    leaves: frozenset[int]


def lost_structs_of(needed: Schema, schemas: Sequence[Schema]) -> list[LostStruct]:
    """Return the structs in `needed` of which a file may lack all fields, according to `schemas`, with which files were written; all if these have gaps."""
    structs = [
        LostStruct(".".join(path), field.field_id, frozenset(leaf.field_id for _, leaf in walk((field,)) if not children(leaf.field_type)))
        for path, field in walk(needed.fields)
        if isinstance(field.field_type, StructType) and field.field_type.fields
    ]
    if not is_complete_history(schemas):
        return structs
    ids_of_schemas = [frozenset(field.field_id for _, field in walk(schema.fields)) for schema in schemas] if structs else []
    return [struct for struct in structs if any(struct.field_id in ids and struct.leaves.isdisjoint(ids) for ids in ids_of_schemas)]


class FileColumns:
    """Determines how the read strategy of a file depends on the columns in the file. If `matter` is False, it does not, and no footer need be read.

    Args:
        fields: The columns that are read, including the keys of equality deletes.
        needed: The part of the table's schema that is read.
        lost_structs: The structs that Spark's own scan reads as null if a file lacks all of their fields.
        has_mapping: Whether the table has a name mapping.
        may_be_missing: The ids of required columns that old files may lack.
        takes_unsigned: Whether Spark's own scan would read unsigned integers as signed.
        separates_unsigned: Whether files with unsigned integers form groups of their own.
    """

    def __init__(
        self,
        fields: Iterable[NestedField],
        needed: Schema,
        lost_structs: Sequence[LostStruct],
        *,
        has_mapping: bool,
        may_be_missing: frozenset[int],
        takes_unsigned: bool,
        separates_unsigned: bool,
    ) -> None:
        top_fields = tuple({field.field_id: field for field in fields}.values())
        self._top_defaults = {field.field_id: field for field in top_fields if field.initial_default is not None}
        # Fields inside structs, with the top-level column that contains each.
        self._inner_defaults = [
            (top, field) for top in top_fields for _, field in walk((top,)) if field is not top and field.initial_default is not None
        ]
        self._needed = needed
        self._lost_structs = lost_structs
        # The width of the integers that must be signed, by field id.
        self._signed = {
            field.field_id: (".".join(path), _WIDTHS[type(field.field_type)])
            for path, field in walk(top_fields)
            if (takes_unsigned or separates_unsigned) and type(field.field_type) in _WIDTHS
        }
        self._takes_unsigned = takes_unsigned
        self._times_and_variants = {
            field.field_id: ".".join(path) for path, field in walk(top_fields) if isinstance(field.field_type, TimeType | VariantType)
        }
        is_late = any(field.field_id in may_be_missing for _, field in walk(needed.fields))
        self.matter = has_mapping or is_late
        self.matter |= bool(self._top_defaults or self._inner_defaults or lost_structs or self._signed or self._times_and_variants)

    def check_required(self, path: str, ids: FieldIds, constant_ids: frozenset[int]) -> None:
        """Check that a file has every required column without a default.

        Args:
            path: The location of the file, for the error.
            ids: The field ids in the file; None for a file without field ids, which is not checked.
            constant_ids: The ids of the columns with one value per file, which the file need not have.

        Raises:
            DataFileFormatError: The file lacks a required column.
        """
        missing = next(_required_beyond(self._needed.fields, ids | constant_ids), None) if ids is not None else None
        if missing is not None:
            above = (self._needed.path_of(missing.field_id) or ())[:-1]
            raise lacks_required(path, missing, "".join(f"{name}." for name in above))

    def without(self, stored: StoredFields, constant_ids: frozenset[int]) -> tuple[str, frozenset[int], bool]:
        """Determine whether Spark's own scan can read a file, and which of its columns have their default.

        Args:
            stored: The columns in the file.
            constant_ids: The ids of the columns with one value per file, which the file need not have.

        Returns:
            The reason why Spark cannot read the file, empty if it can; the ids of the top-level columns with a default that the file lacks; and whether the
            file has unsigned integers in columns that are read.
        """
        ids = stored.ids
        if ids is None:
            return "a file has no field ids", frozenset(), False
        unsigned = [(path, width) for field_id, (path, width) in self._signed.items() if stored.unsigned.get(field_id) == width]
        if unsigned and self._takes_unsigned:
            path, width = unsigned[0]
            return f"a file has unsigned integers of {width} bits in {path}", frozenset(), False
        for field_id, path in self._times_and_variants.items():
            if field_id in stored.unread:
                return f"a file has {stored.unread[field_id]} in {path}, which Spark's reader lacks", frozenset(), False
        missing = frozenset(self._top_defaults.keys() - ids - constant_ids)
        for field_id in sorted(missing):
            kind = self._top_defaults[field_id].field_type
            if isinstance(kind, NOT_NATIVE) or not isinstance(kind, PrimitiveType):
                return f"a file lacks {self._top_defaults[field_id].name} ({kind}), which has a default", frozenset(), False
        for top, field in self._inner_defaults:
            if top.field_id in ids and field.field_id not in ids:
                return f"a file lacks {field.name} inside {top.name}, which has a default", frozenset(), False
        for struct in self._lost_structs:
            if struct.field_id in ids and struct.leaves.isdisjoint(ids):
                return f"a file lacks all fields that are read of {struct.path}, which this Spark would read as null", frozenset(), False
        return "", missing, bool(unsigned)


def _required_beyond(fields: Iterable[NestedField], ids: frozenset[int], *, in_struct: bool = True) -> Iterator[NestedField]:
    """Yield the required fields without a default whose ids are not in `ids`. If a whole struct is missing, only the struct is yielded, if it is required."""
    for field in fields:
        if field.field_id in ids or not in_struct:
            yield from _required_beyond(children(field.field_type), ids, in_struct=isinstance(field.field_type, StructType))
        elif field.required and field.initial_default is None:
            yield field
