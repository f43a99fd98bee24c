"""Schemas and rows for the tests of data files: functions that write them, read them, and draw them at random."""

import datetime as dt
import decimal
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from icefloe.datafile.data_file_reader import read_task
from icefloe.datafile.data_file_writer import write_batches
from icefloe.datafile.write_target import WriteTarget
from icefloe.io.local_file_io import LocalFileIO
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spec.expressions.bind import bind
from icefloe.spec.expressions.filter_parser import parse_filter
from icefloe.spec.expressions.predicate import AlwaysTrue, BooleanExpression
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.partitioning.partition_spec import UNPARTITIONED_SPEC, PartitionSpec
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.spec.schema.name_mapping import NameMapping
from icefloe.spec.schema.schema import Schema, assign_fresh_ids
from icefloe.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
    VariantType,
)
from icefloe.spec.variant import variant_from_python

IO = LocalFileIO()


def target(folder: Path | str, schema: Schema, spec: PartitionSpec = UNPARTITIONED_SPEC, **properties: str) -> WriteTarget:
    """Return a write target below `folder`; in names of properties a double underscore is a dot and a single one a hyphen."""
    named = {name.replace("__", ".").replace("_", "-"): text for name, text in properties.items()}
    return WriteTarget(
        table_name="ns.t", schema=schema, spec=spec, data_location=f"{folder}/data", io=IO, operation_uuid="op", properties=named
    )


def write(where: WriteTarget, rows: Any) -> list[DataFile]:
    """Write an Arrow table, or a list of row dicts, in one task."""
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(rows, schema=schema_to_arrow(where.schema))
    return write_batches(where, table.to_batches(), partition_id=0, task_id=0)


def task_of(file: DataFile, residual: BooleanExpression | None = None) -> FileScanTask:
    return FileScanTask(file=file, residual=residual or AlwaysTrue(), length=file.file_size_in_bytes)


def read(
    files: Iterable[DataFile],
    schema: Schema,
    *,
    where: str = "TRUE",
    columns: Schema | None = None,
    specs: Iterable[PartitionSpec] = (),
    name_mapping: NameMapping | None = None,
) -> pa.Table:
    """Return the rows of files in the columns of the schema."""
    projection = columns or schema
    bound = bind(parse_filter(where), schema)
    by_id = {UNPARTITIONED_SPEC.spec_id: UNPARTITIONED_SPEC} | {spec.spec_id: spec for spec in specs}
    batches = [
        batch
        for file in files
        for batch in read_task(IO, task_of(file, bound), schema=schema, projection=projection, specs=by_id, name_mapping=name_mapping)
    ]
    return pa.Table.from_batches(batches, schema=schema_to_arrow(projection))


def same(left: Any, right: Any) -> bool:
    """Return True if two lists of rows are equal; NaN equals NaN, and the zeros are different."""
    return repr(left) == repr(right)


def _decimals(kind: DecimalType) -> st.SearchStrategy[Any]:
    bound = 10**kind.precision - 1
    return st.integers(-bound, bound).map(lambda number: decimal.Decimal(number).scaleb(-kind.scale, decimal.Context(prec=60)))


_MOMENTS = st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30))
_VALUES: dict[IcebergType, st.SearchStrategy[Any]] = {
    BooleanType(): st.booleans(),
    IntegerType(): st.integers(-(2**31), 2**31 - 1),
    LongType(): st.integers(-(2**63), 2**63 - 1),
    FloatType(): st.floats(width=32) | st.sampled_from([0.0, -0.0, float("nan"), float("inf")]),
    DoubleType(): st.floats() | st.sampled_from([0.0, -0.0, float("nan"), float("-inf")]),
    DecimalType(9, 2): _decimals(DecimalType(9, 2)),
    DecimalType(18, 0): _decimals(DecimalType(18, 0)),
    DecimalType(38, 10): _decimals(DecimalType(38, 10)),
    DateType(): st.dates(),
    TimeType(): st.times(),
    TimestampType(): _MOMENTS,
    TimestamptzType(): _MOMENTS.map(lambda moment: moment.replace(tzinfo=dt.UTC)),
    StringType(): st.text(max_size=20) | st.text(alphabet="a\U0010ffff\ud7ff", min_size=15, max_size=19),
    UUIDType(): st.binary(min_size=16, max_size=16),
    FixedType(3): st.binary(min_size=3, max_size=3),
    FixedType(20): st.binary(min_size=20, max_size=20),
    BinaryType(): st.binary(max_size=20) | st.sampled_from([b"\xff" * 20, b"a" + b"\xff" * 20]),
}
primitives = st.sampled_from(list(_VALUES))


def _fields(types: st.SearchStrategy[IcebergType], most: int) -> st.SearchStrategy[tuple[NestedField, ...]]:
    members = st.lists(st.tuples(types, st.booleans()), min_size=1, max_size=most)
    # Field ids are assigned afterwards; here they must differ only within a struct.
    return members.map(lambda found: tuple(NestedField(i, f"f{i}", kind, required) for i, (kind, required) in enumerate(found)))


def _nested(inner: st.SearchStrategy[IcebergType]) -> st.SearchStrategy[IcebergType]:
    return (
        _fields(inner, 3).map(lambda fields: StructType(*fields))
        | st.tuples(inner, st.booleans()).map(lambda found: ListType(element_id=0, element=found[0], element_required=found[1]))
        | st.tuples(primitives, inner, st.booleans()).map(
            lambda found: MapType(key_id=0, key_type=found[0], value_id=1, value_type=found[1], value_required=found[2])
        )
    )


types = st.recursive(primitives, _nested, max_leaves=4)

_ANY_VALUE = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(max_size=5) | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
_POINTS = st.binary(min_size=16, max_size=16).map(lambda doubles: b"\x01\x01\x00\x00\x00" + doubles)
# Types that only tables of format version 3 have.
_LATER_VALUES: dict[IcebergType, st.SearchStrategy[Any]] = {
    TimestampNanoType(): st.integers(-(2**62), 2**62),
    TimestamptzNanoType(): st.integers(-(2**62), 2**62),
    GeometryType(): _POINTS,
    GeographyType("EPSG:4326", "karney"): _POINTS,
    UnknownType(): st.none(),
    VariantType(): _ANY_VALUE.map(variant_from_python).map(lambda found: {"metadata": found[0], "value": found[1]}),
}
later_types = st.sampled_from(list(_LATER_VALUES))


@st.composite
def schemas(draw: st.DrawFn, kinds: st.SearchStrategy[IcebergType] = types, most: int = 4) -> Schema:
    fields = draw(_fields(kinds, most))
    return assign_fresh_ids(LooseSchema(fields))


class LooseSchema:
    """The part of a schema that `assign_fresh_ids` uses, without the check for unique ids: drawn ids are not unique."""

    def __init__(self, fields: tuple[NestedField, ...]) -> None:
        self.fields, self.schema_id, self.identifier_field_ids = fields, 0, ()


def values(field: NestedField) -> st.SearchStrategy[Any]:
    """Draw values of a field in the form that `pa.array` accepts."""
    kind = field.field_type
    if isinstance(kind, StructType):
        found: st.SearchStrategy[Any] = st.fixed_dictionaries({inner.name: values(inner) for inner in kind.fields})
    elif isinstance(kind, ListType):
        found = st.lists(values(kind.element_field), max_size=3)
    elif isinstance(kind, MapType):
        found = st.lists(st.tuples(values(kind.key_field), values(kind.value_field)), max_size=3)
    else:
        found = (_VALUES | _LATER_VALUES)[kind]
    return found if field.required else st.none() | found


@st.composite
def tables(draw: st.DrawFn, kinds: st.SearchStrategy[IcebergType] = types, most: int = 4, rows: int = 12) -> tuple[Schema, pa.Table]:
    schema = draw(schemas(kinds, most))
    row = st.fixed_dictionaries({field.name: values(field) for field in schema.fields})
    return schema, pa.Table.from_pylist(draw(st.lists(row, min_size=1, max_size=rows)), schema=schema_to_arrow(schema))
