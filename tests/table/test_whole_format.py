"""The whole format through the public interface, compared with a plain model: any schema, version, file format, partitioning, sort order and change.

The model keeps every row by field id as it was written, and reads it by the rules of Column Projection, without files. Each row has a unique number `k`, by
which its lineage is checked. Values and filters are drawn by `format_values.py` and `format_filters.py`.
"""

import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, event, given, note, settings
from hypothesis import strategies as st
from tests.repetitions import examples
from tests.table.format_filters import Tree, as_filter, columns, evaluate, native, trees
from tests.table.format_values import LATER, Plain, arrow_of_rows, present, rows_of_arrow, types, values, wider

from icefloe import (
    InvalidInputError,
    InvalidPartitionSpecError,
    InvalidSchemaError,
    LongType,
    NestedField,
    Schema,
    SqlCatalog,
    StaticTable,
    StructType,
    UnknownType,
)
from icefloe.catalog.catalog import Catalog
from icefloe.inspect import validate
from icefloe.spec.metadata.metadata_reader import check_table_metadata
from icefloe.spec.schema.schema import assign_fresh_ids
from icefloe.spec.types import IcebergType, ListType, MapType
from icefloe.table import Table

Row = dict[int, Plain]
FORMATS = ("parquet", "orc", "avro")
# The source types of each transform, by the first word of the type's name. Spec: Partition Transforms.
MOMENTS = {"timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"}
TAKES = {
    "identity": {"boolean", "int", "long", "float", "double", "decimal", "date", "time", *MOMENTS, "string", "uuid", "fixed", "binary"},
    "bucket[3]": {"int", "long", "decimal", "date", "time", *MOMENTS, "string", "uuid", "fixed", "binary"},
    "truncate[2]": {"int", "long", "decimal", "string", "binary"},
    "year": {"date", *MOMENTS},
    "month": {"date", *MOMENTS},
    "day": {"date", *MOMENTS},
    "hour": MOMENTS,
    "void": {"int", "string", "double", "date", "boolean"},
}
NAMES = ["a", "b", "c", "d.e", "order", "größe"]


def word(kind: IcebergType) -> str:
    return str(kind).split("(", maxsplit=1)[0].split("[")[0].split("<")[0]


@dataclass
class Snapshot:
    schema: Schema
    rows: list[Row]


@dataclass
class Model:
    """The table, and its expected rows: the current ones and those of every snapshot."""

    table: Table
    data: st.DataObject
    rows: list[Row] = field(default_factory=list)
    defaults: dict[int, Plain] = field(default_factory=dict)  # initial defaults by field id
    write_defaults: dict[int, Plain] = field(default_factory=dict)
    history: dict[int, Snapshot] = field(default_factory=dict)
    lineage: dict[int, tuple[int, int]] = field(default_factory=dict)  # by k: row id, and the sequence number of the last change
    next_k: int = 0

    def draw(self, strategy: st.SearchStrategy[Any], label: str) -> Any:
        return self.data.draw(strategy, label=label)

    # The values of a row in a schema. Spec: Column Projection.

    def project(self, members: Sequence[NestedField], row: Row) -> Row:
        return {member.field_id: self.value(member, row) for member in members}

    def value(self, member: NestedField, row: Row) -> Plain:
        if member.field_id in row:
            return self.inner(member.field_type, row[member.field_id])
        default = self.defaults.get(member.field_id)
        return self.inner(member.field_type, default)

    def inner(self, kind: IcebergType, value: Plain) -> Plain:
        if value is None:
            return None
        if isinstance(kind, StructType):
            return self.project(kind.fields, value)
        if isinstance(kind, ListType):
            return [self.inner(kind.element, item) for item in value]
        if isinstance(kind, MapType):
            return [(self.inner(kind.key_type, key), self.inner(kind.value_type, item)) for key, item in value]
        return value

    # Checks.

    def check(self) -> None:
        self.same(self.table.schema(), self.rows, None, ("*",))
        tree = self.draw(trees(self.table.schema().fields), "filter")
        names = self.draw(st.lists(st.sampled_from(self.table.schema().names), min_size=1, max_size=3, unique=True), "columns")
        self.same(self.table.schema(), self.rows, tree, names)
        if self.history:
            number = self.draw(st.sampled_from(list(self.history)), "snapshot")
            then = self.history[number]
            self.same(then.schema, then.rows, self.draw(trees(then.schema.fields), "filter then"), ("*",), number)
        self.check_lineage()

    def same(
        self, schema: Schema, rows: list[Row], tree: Tree | None, names: Sequence[str], snapshot: int | None = None, table: Any = None
    ) -> None:
        read = [self.project(schema.fields, row) for row in rows]
        expected = [row for row in read if tree is None or evaluate(tree, row) is True]
        where = None if tree is None else as_filter(tree)
        if where is not None and self.draw(st.booleans(), "as text"):
            where = str(where)
        scan = (table or self.table).scan(where, selected_fields=tuple(names), snapshot_id=snapshot)
        kept = tuple(field for field in schema.fields if "*" in names or field.name in names)
        found = rows_of_arrow(kept, scan.to_arrow())
        ids = [field.field_id for field in kept]
        here, wanted = Counter(map(repr, found)), Counter(repr({number: row[number] for number in ids}) for row in expected)
        assert here == wanted, f"{where}: found {here - wanted}, not {wanted - here}"
        assert scan.count() == len(expected)

    def check_everything(self) -> None:
        raw = self.table.io.read(self.table.metadata_location)
        assert check_table_metadata(raw, self.table.metadata_location) == []
        found = validate(self.table, files=True, data=True, values=True).findings
        assert [finding.message for finding in found] == []
        opened = StaticTable.from_metadata(self.table.metadata_location)
        self.same(opened.schema(), self.rows, None, ("*",), table=opened)
        for number, then in self.history.items():
            self.same(then.schema, then.rows, None, ("*",), number, table=opened)

    def check_lineage(self) -> None:
        """Check in version 3 that the row id and last sequence number of an unchanged row never change, and that row ids are unique."""
        snapshot = self.table.metadata.current_snapshot()
        if snapshot is None:
            return
        rows = self.table.scan(selected_fields=("k", "_row_id", "_last_updated_sequence_number")).to_arrow().to_pylist()
        if snapshot.first_row_id is None:
            assert {row["_row_id"] for row in rows} <= {None}
            return
        ids = [row["_row_id"] for row in rows]
        assert None not in ids
        assert len(set(ids)) == len(ids)
        assert max(ids, default=-1) < (self.table.metadata.next_row_id or 0)
        for row in rows:
            now = (row["_row_id"], row["_last_updated_sequence_number"])
            assert now[1] is not None
            assert self.lineage.setdefault(row["k"], now) == now
        present_ids = {row["k"] for row in rows}
        for row in self.fresh:
            if row in present_ids:
                assert self.lineage[row][1] == snapshot.sequence_number

    fresh: tuple[int, ...] = ()  # the k of the rows that the last step added

    def committed(self) -> None:
        number = self.table.metadata.current_snapshot_id
        if number is not None and number not in self.history:
            self.history[number] = Snapshot(self.table.schema(), list(self.rows))

    # Steps.

    def some_rows(self, most: int = 5) -> tuple[Any, list[Row]]:
        """Draw rows to write, in Arrow and as the table must return them."""
        key, *rest = self.table.schema().fields
        drawn = self.draw(st.lists(st.fixed_dictionaries({one.field_id: values(one) for one in rest}), min_size=1, max_size=most), "rows")
        rows: list[Row] = []
        for row in drawn:
            rows.append({key.field_id: self.next_k} | row)
            self.next_k += 1
        self.fresh = tuple(row[key.field_id] for row in rows)
        out = [one for one in rest if not one.required or one.field_id in self.write_defaults]
        left = set(self.draw(st.lists(st.sampled_from(out), max_size=1), "left out")) if out else set()
        given = tuple(one for one in (key, *rest) if one not in left)
        arrow = arrow_of_rows(given, rows)
        missing = {one.field_id: self.write_defaults.get(one.field_id) for one in left}
        return arrow, [row | {number: self.inner_default(number, value) for number, value in missing.items()} for row in rows]

    def inner_default(self, number: int, value: Plain) -> Plain:
        return value

    def append(self) -> None:
        arrow, rows = self.some_rows()
        self.table.append(arrow)
        self.rows = self.rows + rows

    def matching(self) -> tuple[Any, list[Row]]:
        fields = self.table.schema().fields
        tree = self.draw(trees(fields), "filter")
        return as_filter(tree), [row for row in self.rows if evaluate(tree, self.project(fields, row)) is not True]

    def delete(self) -> None:
        where, rows = self.matching()
        self.table.delete(where)
        self.rows = rows

    def overwrite(self) -> None:
        where, kept = self.matching()
        arrow, rows = self.some_rows(3)
        self.table.overwrite(arrow, where)
        self.rows = kept + rows

    def change_format(self) -> None:
        self.table.set_properties({"write.format.default": self.draw(st.sampled_from(FORMATS), "format")})

    def upgrade(self) -> None:
        version = min(3, self.table.format_version + 1)
        self.table.set_properties({"format-version": str(version)})
        assert self.table.format_version == version

    def sources(self) -> list[tuple[str, IcebergType]]:
        return [(one.name, one.kind) for one in columns(self.table.schema().fields) if one.kind.is_primitive and "d.e" not in one.name]

    def change_spec(self) -> None:
        live = [one.name for one in self.table.spec().fields if str(one.transform) != "void"]
        with self.table.update_spec() as update:
            if live and self.draw(st.booleans(), "remove"):
                update.remove_field(self.draw(st.sampled_from(live), "partition field"))
            else:
                update.add_field(*self.some_transform(), f"p{self.table.metadata.last_partition_id}")

    def some_transform(self) -> tuple[str, str]:
        fitting = [(name, transform) for name, kind in self.sources() for transform, takes in TAKES.items() if word(kind) in takes]
        return self.draw(st.sampled_from(fitting), "transform")

    def change_order(self) -> None:
        with self.table.update_sort_order() as update:
            for _ in range(self.draw(st.integers(0, 2), "keys")):
                name, transform = self.some_transform()
                if transform != "void":
                    (update.asc if self.draw(st.booleans(), "ascending") else update.desc)(name, transform)

    def change_schema(self) -> None:
        what = self.draw(st.sampled_from(["add", "add", "add inside", "rename", "drop", "widen", "move", "optional", "default"]), "change")
        rest = self.table.schema().fields[1:]
        free = [name for name in NAMES if name not in self.table.schema().names]
        if what == "add" and free:
            self.add((self.draw(st.sampled_from(free), "name"),))
        elif what == "add inside" and (structs := [one for one in rest if isinstance(one.field_type, StructType)]):
            outer = self.draw(st.sampled_from(structs), "struct")
            self.add((outer.name, f"n{self.table.metadata.last_column_id}"))
        elif rest:
            self.change_one(what, self.draw(st.sampled_from(rest), "of"), free)

    def add(self, path: tuple[str, ...]) -> None:
        version = self.table.format_version
        kind = self.draw(types(version), "type")
        given = NestedField(0, "x", kind)
        default = None
        if version >= 3 and kind not in LATER[2:] and kind.is_primitive and self.draw(st.booleans(), "with default"):
            default = self.draw(present(given.field_type), "default")
        required = default is not None and self.draw(st.booleans(), "required")
        with self.table.update_schema() as update:
            update.add_column(path, kind, required=required, default_value=None if default is None else native(kind, default))
        if default is not None:
            added = self.table.schema().find_field(".".join(path)).field_id
            self.defaults[added] = self.write_defaults[added] = default

    def change_one(self, what: str, one: NestedField, free: list[str]) -> None:
        with self.table.update_schema() as update:
            path = (one.name,)
            if what == "rename" and free:
                update.rename_column(path, self.draw(st.sampled_from(free), "name"))
            elif what == "drop":
                update.delete_column(path)
            elif what == "widen" and (kinds := wider(one.field_type, self.table.format_version)):
                update.update_column(path, self.draw(st.sampled_from(kinds), "wider"))
            elif what == "move" and len(self.table.schema().fields) > 2:
                update.move_after(path, "k")
            elif what == "optional":
                update.make_column_optional(path)
            elif what == "default" and self.table.format_version >= 3 and one.field_type.is_primitive and one.field_type not in LATER[2:]:
                value = self.draw(present(one.field_type), "default")
                update.set_default_value(path, native(one.field_type, value))
                self.write_defaults[one.field_id] = value


STEPS = ["append", "append", "append", "delete", "overwrite", "schema", "schema", "schema", "spec", "order", "format", "upgrade"]


def empty_catalog(folder: str) -> Catalog:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=folder)
    catalog.create_namespace("db")
    return catalog


def start(catalog: Catalog, name: str, data: st.DataObject) -> Table:
    """Create an empty table of any version, with any columns after `k`."""
    version = data.draw(st.sampled_from([1, 2, 3, 3]), label="version")
    kinds = data.draw(st.lists(st.tuples(types(version), st.booleans()), min_size=1, max_size=4), label="columns")
    fields = [
        NestedField(number, f"f{number}", kind, must and not isinstance(kind, UnknownType)) for number, (kind, must) in enumerate(kinds, 2)
    ]
    schema = assign_fresh_ids(SchemaWithoutIds((NestedField(1, "k", LongType(), True), *fields)))  # type: ignore[arg-type]
    properties = {
        "format-version": str(version),
        "write.format.default": data.draw(st.sampled_from(FORMATS), label="format"),
        "write.metadata.metrics.default": data.draw(
            st.sampled_from(["truncate(16)", "full", "counts", "none", "truncate(2)"]), label="metrics"
        ),
    }
    if version > 1:  # version 1 has no delete files
        properties["write.delete.mode"] = data.draw(st.sampled_from(["copy-on-write", "merge-on-read"]), label="delete mode")
    return catalog.create_table(name, schema, properties=properties)


@dataclass
class SchemaWithoutIds:
    """The part of a schema that `assign_fresh_ids` uses, without the check for unique ids."""

    fields: tuple[NestedField, ...]
    schema_id: int = 0
    identifier_field_ids: tuple[int, ...] = ()


def run(data: st.DataObject, most: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        compare_with_model(start(empty_catalog(folder), "db.t", data), data, most)


def compare_with_model(table: Table, data: st.DataObject, most: int) -> None:
    """Change an empty table in random ways, and compare all that can be read of it with the model after each."""
    model = Model(table, data)
    steps = data.draw(st.lists(st.sampled_from(STEPS), min_size=2, max_size=most), label="steps")
    for step in ["spec", "append", *steps]:
        model.fresh = ()
        before = (dict(model.defaults), dict(model.write_defaults), model.table.metadata_location)
        change = {
            "append": model.append,
            "delete": model.delete,
            "overwrite": model.overwrite,
            "schema": model.change_schema,
            "spec": model.change_spec,
            "order": model.change_order,
            "format": model.change_format,
            "upgrade": model.upgrade,
        }[step]
        try:
            change()
        except (InvalidSchemaError, InvalidPartitionSpecError, InvalidInputError) as refused:
            if step not in ("schema", "spec", "order"):
                raise
            note(f"refused: {refused}")
            event(f"refused: {step}")
            model.defaults, model.write_defaults, location = before
            assert model.table.metadata_location == location
        model.committed()
        model.check()
    model.check_everything()


QUICK = settings(max_examples=examples(15, least=6), suppress_health_check=list(HealthCheck))


@QUICK
@given(data=st.data())
def test_a_random_table_has_the_rows_of_the_model(data: st.DataObject) -> None:
    run(data, 6)


@pytest.mark.slow
@settings(QUICK, max_examples=1500, phases=(Phase.generate, Phase.shrink))
@given(data=st.data())
def test_many_random_tables_have_the_rows_of_the_model(data: st.DataObject) -> None:
    run(data, 12)
