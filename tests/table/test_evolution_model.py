"""Random sequences of writes, deletes and changes of schema and spec, compared with a plain model: a list of dictionaries for every snapshot."""

import json
import tempfile
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.repetitions import examples

from icefloe import DecimalType, DoubleType, IntegerType, InvalidPartitionSpecError, InvalidSchemaError, LongType, SqlCatalog, StringType
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import DateType, FloatType, IcebergType, NestedField, StructType, TimestampType
from icefloe.spec.values import to_python
from icefloe.table import Table

Row = dict[str, Any]

START = Schema(
    NestedField(1, "a", IntegerType()),
    NestedField(2, "b", FloatType()),
    NestedField(3, "c", StringType()),
    NestedField(4, "d", DecimalType(5, 2)),
    NestedField(5, "s", StructType(NestedField(6, "x", IntegerType()), NestedField(7, "y", StringType()))),
)
KINDS: list[IcebergType] = [IntegerType(), LongType(), FloatType(), DoubleType(), StringType(), DecimalType(5, 2)]
WIDER = {IntegerType(): LongType(), FloatType(): DoubleType(), DecimalType(5, 2): DecimalType(20, 2)}
# Additions of version 3: columns may have a default, and dates are promoted.
V3_KINDS = [*KINDS, DateType(), DateType()]
V3_WIDER = {**WIDER, DateType(): TimestampType()}
TRANSFORMS = ["day", "month", "identity", "bucket[2]", "bucket[3]", "truncate[4]", "void"]
NAMES = ["a", "b", "c", "d", "s", "e", "f"]


def values(kind: IcebergType) -> st.SearchStrategy[Any]:
    return st.none() | present(kind)


def present(kind: IcebergType) -> st.SearchStrategy[Any]:
    """Draw from few values of each type, so that filters match them; a wide type has some that its narrow type cannot hold."""
    if isinstance(kind, StructType):
        some: st.SearchStrategy[Any] = st.fixed_dictionaries({field.name: values(field.field_type) for field in kind.fields})
    elif isinstance(kind, IntegerType):
        some = st.integers(-3, 3)
    elif isinstance(kind, LongType):
        some = st.sampled_from([-(2**40), -1, 0, 1, 2, 2**40])
    elif isinstance(kind, DateType):
        some = st.sampled_from([date(1969, 12, 31), date(1970, 1, 1), date(2024, 2, 29)])
    elif isinstance(kind, TimestampType):
        some = st.sampled_from([datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(1970, 1, 1), datetime(2024, 2, 29, 12)])
    elif isinstance(kind, StringType):
        some = st.sampled_from(["", "k", "kiwi", "kiwano", "z"])
    elif isinstance(kind, DecimalType):
        some = st.sampled_from(
            [Decimal("0.00"), Decimal("-1.25"), Decimal("7.50"), *([Decimal("123456789.01")] if kind.precision > 5 else [])]
        )
    else:
        some = st.sampled_from([0.0, -0.5, 1.5, *([0.1] if isinstance(kind, DoubleType) else [])])
    return some


def comparable(rows: list[Row]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True, default=str) for row in rows)


class Model:
    """The table, and its expected rows: the current ones and those of every snapshot."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.rows: list[Row] = []
        self.history: dict[int, list[Row]] = {}

    @property
    def is_v3(self) -> bool:
        return self.table.format_version == 3

    def note(self) -> None:
        snapshot = self.table.metadata.current_snapshot_id
        if snapshot is not None and snapshot not in self.history:
            self.history[snapshot] = [dict(row) for row in self.rows]

    def check(self) -> None:
        assert comparable(self.table.scan().to_arrow().to_pylist()) == comparable(self.rows)
        for snapshot, rows in self.history.items():
            assert comparable(self.table.scan(snapshot_id=snapshot).to_arrow().to_pylist()) == comparable(rows)

    def append(self, data: st.DataObject) -> None:
        schema = self.table.schema()
        row = st.fixed_dictionaries({field.name: values(field.field_type) for field in schema.fields})
        rows = data.draw(st.lists(row, min_size=1, max_size=4), label="rows")
        found = pa.Table.from_pylist(rows, schema=schema_to_arrow(schema))
        filled = [field for field in schema.fields if field.write_default is not None]
        if filled and data.draw(st.booleans(), label="leave out"):
            field = data.draw(st.sampled_from(filled), label="column")
            found = found.drop_columns([field.name])
            rows = [{**row, field.name: to_python(field.field_type, field.write_default)} for row in rows]
        self.table.append(found)
        self.rows += rows

    def filter(self, data: st.DataObject) -> tuple[str, Any]:
        """Draw a filter, as text and as a predicate on a row."""
        columns = [field for field in self.table.schema().fields if field.field_type.is_primitive]
        if not columns:
            return "true", lambda row: True
        column = data.draw(st.sampled_from(columns), label="column")
        value = data.draw(present(column.field_type), label="value")
        text = f"'{value}'" if isinstance(value, str | date) else str(value)
        name = column.name
        return data.draw(
            st.sampled_from(
                [
                    (f"{name} = {text}", lambda row: row[name] == value),
                    (f"{name} < {text}", lambda row: row[name] is not None and row[name] < value),
                    (f"{name} >= {text}", lambda row: row[name] is not None and row[name] >= value),
                    (f"{name} is null", lambda row: row[name] is None),
                    (f"{name} != {text}", lambda row: row[name] is not None and row[name] != value),
                ]
            ),
            label="filter",
        )

    def scan(self, data: st.DataObject) -> None:
        text, matches = self.filter(data)
        rows = self.table.scan(text).to_arrow().to_pylist()
        assert comparable(rows) == comparable([row for row in self.rows if matches(row)]), text

    def delete(self, data: st.DataObject) -> None:
        text, matches = self.filter(data)
        self.table.delete(text)
        self.rows = [row for row in self.rows if not matches(row)]

    def change_schema(self, data: st.DataObject) -> None:
        fields = self.table.schema().fields
        names = [field.name for field in fields]
        free = [name for name in NAMES if name not in names]
        field = data.draw(st.sampled_from(fields), label="of")
        name = field.name
        what = data.draw(
            st.sampled_from(["add", "rename", "drop", "widen", "move", "add inside", "drop inside", "set default"]), label="change"
        )
        wider = V3_WIDER if self.is_v3 else WIDER
        with self.table.update_schema() as update:
            if what == "add" and free:
                new = data.draw(st.sampled_from(free))
                kind = data.draw(st.sampled_from(V3_KINDS if self.is_v3 else KINDS), label="type")
                default = data.draw(values(kind), label="default") if self.is_v3 else None
                update.add_column(new, kind, default_value=default)
                self.rows = [{**row, new: default} for row in self.rows]
            elif what == "set default" and self.is_v3 and field.field_type.is_primitive:
                update.set_default_value(name, data.draw(values(field.field_type), label="default"))
            elif what == "rename" and free:
                new = data.draw(st.sampled_from(free))
                update.rename_column(name, new)
                self.rows = [{(new if key == name else key): value for key, value in row.items()} for row in self.rows]
            elif what == "drop" and len(fields) > 1:
                update.delete_column(name)
                self.rows = [{key: value for key, value in row.items() if key != name} for row in self.rows]
            elif what == "widen" and field.field_type in wider:
                update.update_column(name, wider[field.field_type])
                if field.field_type == DateType():
                    self.rows = [{**row, name: row[name] and datetime.combine(row[name], time())} for row in self.rows]
            elif what == "move":
                update.move_before(name, names[0]) if name != names[0] else update.move_first(name)
            elif what == "add inside" and isinstance(field.field_type, StructType) and f"{name}.z" not in self.table.schema().column_names:
                inside = 9 if self.is_v3 else None
                update.add_column(f"{name}.z", LongType(), default_value=inside)
                self.rows = [{**row, name: None if row[name] is None else {**row[name], "z": inside}} for row in self.rows]
            elif what == "drop inside" and isinstance(field.field_type, StructType) and len(field.field_type.fields) > 1:
                gone = field.field_type.fields[0].name
                update.delete_column(f"{name}.{gone}")
                self.rows = [
                    {**row, name: None if row[name] is None else {key: value for key, value in row[name].items() if key != gone}}
                    for row in self.rows
                ]

    def change_spec(self, data: st.DataObject) -> None:
        live = [field.name for field in self.table.spec().fields if str(field.transform) != "void"]
        column = data.draw(st.sampled_from(self.table.schema().names), label="of")
        with self.table.update_spec() as update:
            if live and data.draw(st.booleans(), label="remove"):
                update.remove_field(data.draw(st.sampled_from(live)))
            else:
                update.add_field(
                    column, data.draw(st.sampled_from(TRANSFORMS), label="transform"), f"p{self.table.metadata.last_partition_id}"
                )


STEPS = st.lists(st.sampled_from(["append", "append", "delete", "scan", "schema", "schema", "spec"]), min_size=3, max_size=9)


@settings(max_examples=examples(20, least=8), suppress_health_check=[HealthCheck.too_slow])
@given(version=st.sampled_from(["1", "2", "3", "3"]), steps=STEPS, data=st.data())
def test_a_table_has_the_rows_of_the_model(version: str, steps: list[str], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=folder)
        catalog.create_namespace("db")
        table = catalog.create_table("db.t", START, properties={"format-version": version if version != "3" else "2"})
        table.set_properties({"format-version": version})
        model = Model(table)
        model.append(data)
        model.note()
        for step in steps:
            rows = list(model.rows)
            try:
                {
                    "append": model.append,
                    "delete": model.delete,
                    "scan": model.scan,
                    "schema": model.change_schema,
                    "spec": model.change_spec,
                }[step](data)
            except (InvalidSchemaError, InvalidPartitionSpecError):
                assert step in ("schema", "spec")
                model.rows = rows
            model.note()
        model.check()
        model.scan(data)
