"""Random histories: the first schema and properties of a table, and one step after the other, chosen by what the table is by then."""

from dataclasses import dataclass, field
from random import Random

from tests.fuzz_sql.expressions import ExpressionMaker, columns_of
from tests.fuzz_sql.rows import FAR_YEARS, ValueMaker
from tests.fuzz_sql.schemas import (
    COMMON_LEAVES,
    FOREIGN_LEAVES,
    RARE_LEAVES,
    WIDER,
    Field,
    Kind,
    Leaf,
    Path,
    SchemaMaker,
    Struct,
    quoted,
    sql_type,
    walk,
)
from tests.fuzz_sql.steps import (
    NAME,
    AddField,
    Assignment,
    Clause,
    CopyRows,
    Delete,
    DeleteKeys,
    DropField,
    Insert,
    Layout,
    Merge,
    MoveField,
    PartitionField,
    RenameFields,
    Row,
    SortOrder,
    Step,
    Update,
    WidenField,
    transformed,
)

FORMATS = ("parquet", "parquet", "parquet", "parquet", "orc", "avro")
MODES = ("copy-on-write", "merge-on-read")
DATES = ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ")
# Settings that a table's history may have otherwise. Without code generation small statements are quicker.
DEFAULT_SETTINGS = {
    "spark.sql.caseSensitive": "false",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.parquet.enableVectorizedReader": "true",
    "spark.sql.parquet.enableNestedColumnVectorizedReader": "true",
}
_NOT_KEYS = ("FLOAT", "DOUBLE", "VARIANT", "VOID")  # no keys of equality deletes


@dataclass(frozen=True)
class Beginning:
    """How a table is created, and the settings of the session that its statements run with.

    Attributes:
        partition_fields: The numbers of columns, each with its transform, as in the step `PartitionField`.
    """

    schema: Struct
    version: int
    properties: dict[str, str]
    settings: dict[str, str]
    partition_fields: tuple[tuple[int, str], ...] = ()

    def statement(self) -> str:
        columns = ", ".join(f"{quoted(column.name)} {sql_type(column.kind)}" for column in self.schema.fields)
        properties = ", ".join(f"'{name}' = '{value}'" for name, value in self.properties.items())
        fields = ", ".join(transformed(self.schema, number, transform) for number, transform in self.partition_fields)
        partitioned = f" PARTITIONED BY ({fields})" if fields else ""
        return f"CREATE TABLE {NAME} ({columns}) USING iceberg{partitioned} TBLPROPERTIES ({properties})"


@dataclass
class HistoryMaker:
    """Chooses the steps of one table."""

    chosen: Random
    rows_made: int = 0
    sources: set[int] = field(default_factory=set)  # fields that partition fields and sort orders need
    partition_fields: list[str] = field(default_factory=list)
    dropped_names: dict[int, list[str]] = field(default_factory=dict)  # by the number of the struct
    version: int = 2
    formats: tuple[str, ...] = FORMATS

    def __post_init__(self) -> None:
        self.version = self.chosen.choice([1, 2, 2, 3, 3])
        leaves = COMMON_LEAVES + COMMON_LEAVES + RARE_LEAVES + (("VARIANT",) if self.version == 3 and self.chosen.random() < 0.4 else ())
        self.case_sensitive = self.chosen.random() < 0.25
        self.schemas = SchemaMaker(self.chosen, case_sensitive=self.case_sensitive, leaves=leaves)
        self.format = self.chosen.choice(self.formats)
        # ORC has no times as far away.
        self.values = ValueMaker(self.chosen, far=FAR_YEARS if self.chosen.random() < 0.3 else {})

    def beginning(self) -> Beginning:
        properties = {"format-version": str(self.version), "write.format.default": self.format}
        for statement in ("delete", "update", "merge"):
            properties[f"write.{statement}.mode"] = self.chosen.choice(MODES) if self.version > 1 else MODES[0]
        settings = dict(DEFAULT_SETTINGS)
        settings["spark.sql.caseSensitive"] = str(self.case_sensitive).lower()
        settings["spark.sql.ansi.enabled"] = self.chosen.choice(["true", "true", "false"])
        for name, usual in list(settings.items())[2:]:
            if self.chosen.random() < 0.1:
                settings[name] = {"true": "false", "false": "true", "NO_CODEGEN": "CODEGEN_ONLY"}[usual]
        schema = self.schemas.table()
        if self.version == 3 and self.chosen.random() < 0.08:  # data files without a column
            schema = Struct(0, tuple(Field(column.number, column.name, Leaf("VOID")) for column in schema.fields[:2]))
        return Beginning(schema, self.version, properties, settings)

    def second_step(self, schema: Struct) -> Step:
        """Return the step after the first: often a partition field, which most of the history is then stored by."""
        partition = self._partition(schema) if self.chosen.random() < 0.25 else None
        return partition or self.step(schema)

    def step(self, schema: Struct) -> Step:
        """Return the next step of a table that has this schema."""
        evolution = [self._add, self._add, self._rename, self._rename, self._exchange, self._drop, self._widen, self._move]
        rows = [self._insert, self._insert, self._insert, self._delete, self._update, self._merge, self._merge, self._copy]
        layout = [self._partition, self._sort, self._properties, self._maintenance]
        if self.version > 1:
            rows.append(self._delete_keys)
        for _ in range(20):
            group = self.chosen.choices([evolution, rows, layout], [5, 5, 2])[0]
            step = self.chosen.choice(group)(schema)
            if step is not None:
                return step
        return self.insert(schema)

    def insert(self, schema: Struct) -> Step:
        """Return an insert of some rows, whose first column counts on."""
        return Insert(self.rows(schema, self.chosen.randint(1, 5)))

    def rows(self, schema: Struct, count: int) -> tuple[Row, ...]:
        made = []
        for _ in range(count):
            row = {column.number: self.values.value(column.kind) for column in schema.fields}
            row[schema.fields[0].number if schema.fields[0].kind == Leaf("INT") else -1] = str(self.rows_made)
            self.rows_made += 1
            made.append(row)
        return tuple(made)

    # ---- the schema

    def _structs(self, schema: Struct) -> list[Struct]:
        """Return the structs that may get a field: all but those in keys of maps."""
        return [schema, *(kind for _, _, kind, in_key in walk(schema) if isinstance(kind, Struct) and not in_key)]

    def _fields(self, schema: Struct) -> list[tuple[Path, Field]]:
        """Return the fields that may change: not the first column, by which rows differ, and none in keys of maps."""
        found = [(path, one) for path, one, _, in_key in walk(schema) if one is not None and not in_key]
        return [(path, one) for path, one in found if one.number != 1]

    def _struct_of(self, schema: Struct, number: int) -> Struct:
        return next(one for one in self._structs(schema) if any(column.number == number for column in one.fields))

    def _add(self, schema: Struct) -> Step:
        structs = self._structs(schema)
        target = self.chosen.choice(structs if self.chosen.random() < 0.5 or len(structs) == 1 else structs[1:])
        names = [column.name for column in target.fields]
        again = [name for name in self.dropped_names.get(target.number, []) if name.lower() not in [other.lower() for other in names]]
        name = self.chosen.choice(again) if again and self.chosen.random() < 0.7 else self.schemas.name(names)
        kind: Kind = self.schemas.kind(2) if self.chosen.random() < 0.4 else self.schemas.leaf()
        if target is schema and self.chosen.random() < 0.1:
            kind = Leaf(self.chosen.choice(list(FOREIGN_LEAVES)))
            return AddField(target.number, Field(self.schemas.number(), name, kind))
        if target is schema and self.version == 3 and self.chosen.random() < 0.08:
            return AddField(target.number, Field(self.schemas.number(), name, Leaf("VOID")))
        default = None
        if (
            target is schema
            and self.version == 3
            and isinstance(kind, Leaf)
            and kind.name in ("INT", "BIGINT", "STRING", "BOOLEAN", "DATE")
        ):
            default = self.values.literal(kind) if self.chosen.random() < 0.4 else None
        first = self.chosen.random() < 0.15 and target is not schema
        after = self.chosen.choice(target.fields).number if self.chosen.random() < 0.3 and not first else None
        return AddField(target.number, Field(self.schemas.number(), name, kind), after, first, default)

    def _rename(self, schema: Struct) -> Step | None:
        fields = self._fields(schema)
        if not fields:
            return None
        nested = [one for one in fields if len(one[0]) > 1]
        _, old = self.chosen.choice(nested if nested and self.chosen.random() < 0.6 else fields)
        parent = self._struct_of(schema, old.number)
        siblings = [column.name for column in parent.fields]
        self.dropped_names.setdefault(parent.number, []).append(old.name)
        return RenameFields(((old.number, self.schemas.name(siblings)),))

    def _exchange(self, schema: Struct) -> Step | None:
        structs = [one for one in self._structs(schema) if len([column for column in one.fields if column.number != 1]) > 1]
        if not structs:
            return None
        first, second = self.chosen.sample([column for column in self.chosen.choice(structs).fields if column.number != 1], 2)
        return RenameFields(((first.number, second.name), (second.number, first.name)))

    def _drop(self, schema: Struct) -> Step | None:
        fields = [
            one
            for _, one in self._fields(schema)
            if len(self._struct_of(schema, one.number).fields) > 1
            and not ({one.number} | {inner.number for _, inner, _, _ in walk(one.kind) if inner is not None}) & self.sources
        ]
        if not fields:
            return None
        dropped = self.chosen.choice(fields)
        self.dropped_names.setdefault(self._struct_of(schema, dropped.number).number, []).append(dropped.name)
        return DropField(dropped.number)

    def _widen(self, schema: Struct) -> Step | None:
        fields = [
            one
            for _, one in self._fields(schema)
            if isinstance(one.kind, Leaf) and one.kind.name in WIDER and one.number not in self.sources
        ]
        if not fields:
            return None
        widened = self.chosen.choice(fields)
        return WidenField(widened.number, Leaf(self.chosen.choice(WIDER[widened.kind.name])))  # type: ignore[union-attr]

    def _move(self, schema: Struct) -> Step | None:
        structs = [one for one in self._structs(schema) if len(one.fields) > 2]
        if not structs:
            return None
        target = self.chosen.choice(structs)
        movable = [column for column in target.fields if column.number != 1]
        moved = self.chosen.choice(movable)
        others = [column.number for column in target.fields if column is not moved]
        return MoveField(moved.number, self.chosen.choice(others if target is schema else [*others, None]))

    # ---- rows

    def _expressions(self) -> ExpressionMaker:
        return ExpressionMaker(self.chosen, self.values)

    def condition(self, schema: Struct) -> str:
        """Return a condition on rows: often on a key, so that some rows are left."""
        columns = columns_of(schema, "t")
        key = columns[0].sql
        condition = self._expressions().condition(columns)
        match self.chosen.choice(["alone", "alone", "or", "key"]):
            case "or":
                return f"({condition} OR {key} = {self.chosen.randint(0, self.rows_made)})"
            case "key":
                return f"{key} {self.chosen.choice(['=', '<', '>'])} {self.chosen.randint(0, self.rows_made)}"
        return condition

    def _insert(self, schema: Struct) -> Step:
        rows = self.rows(schema, self.chosen.randint(1, 5))
        how = self.chosen.choice(["position", "position", "name", "columns", "overwrite"])
        order = [column.number for column in schema.fields]
        self.chosen.shuffle(order)
        return Insert(rows, how, tuple(order))

    def _copy(self, schema: Struct) -> Step:
        return CopyRows(self.condition(schema))

    def _delete(self, schema: Struct) -> Step:
        return Delete(self.condition(schema))

    def _assignments(self, schema: Struct) -> tuple[Assignment, ...]:
        columns = columns_of(schema, "t")
        made = []
        for column in self.chosen.sample(schema.fields[1:], min(self.chosen.randint(1, 2), len(schema.fields) - 1)):
            made.append(Assignment(column.number, self._expressions().same_kind(columns, column.kind)))
        return tuple(made)

    def _update(self, schema: Struct) -> Step | None:
        structs = [column for column in schema.fields if isinstance(column.kind, Struct)]
        if structs and self.chosen.random() < 0.4:
            column = self.chosen.choice(structs)
            inner = self.chosen.choice(column.kind.fields)  # type: ignore[union-attr]
            assignment = Assignment(inner.number, self._expressions().same_kind([], inner.kind))
            # What an assignment to a field of null makes is for the version of Spark to decide.
            return Update((assignment,), f"t.{quoted(column.name)} IS NOT NULL AND {self.condition(schema)}")
        assignments = self._assignments(schema)
        return Update(assignments, self.condition(schema)) if assignments else None

    def _merge(self, schema: Struct) -> Step | None:
        if schema.fields[0].number != 1 or schema.fields[0].kind != Leaf("INT"):
            return None
        keys = self.chosen.sample(range(self.rows_made + 3), min(self.chosen.randint(1, 5), self.rows_made + 3))
        rows = tuple({**{column.number: self.values.value(column.kind) for column in schema.fields}, 1: str(key)} for key in keys)
        return self._merge_of(schema, rows, key=1)

    def _merge_of(self, schema: Struct, rows: tuple[Row, ...], key: int) -> Merge:
        """Return a MERGE of rows whose keys differ."""
        clauses = []
        for last in (False, True):
            if self.chosen.random() < 0.6:
                condition = "" if last and self.chosen.random() < 0.5 else self.condition(schema)
                clauses.append(self._clause(schema, condition))
        return Merge(
            rows,
            key=key,
            condition=self._expressions().condition(columns_of(schema, "t")) if self.chosen.random() < 0.4 else "",
            matched=tuple(clauses),
            inserts=self.chosen.random() < 0.7 or not clauses,
            insert_condition=self._expressions().condition(columns_of(schema, "s")) if self.chosen.random() < 0.3 else "",
            by_source=self._clause(schema, self.condition(schema), source=False) if self.chosen.random() < 0.25 else None,
        )

    def _clause(self, schema: Struct, condition: str, *, source: bool = True) -> Clause:
        choice = self.chosen.random()
        if choice < 0.3:
            return Clause(condition, None)
        if choice < 0.6 and source:
            return Clause(condition, None, all_columns=True)
        made = []
        for one in self._assignments(schema):
            column = next(column for column in schema.fields if column.number == one.number)
            made.append(Assignment(one.number, f"s.{quoted(column.name)}") if source and self.chosen.random() < 0.5 else one)
        return Clause(condition, tuple(made) or None)

    def _delete_keys(self, schema: Struct) -> Step | None:
        usable = [column for column in schema.fields if isinstance(column.kind, Leaf) and column.kind.name not in _NOT_KEYS]
        if not usable:
            return None
        columns = self.chosen.sample(usable, min(len(usable), self.chosen.choice([1, 1, 2])))
        rows = [{column.number: self.values.value(column.kind) for column in columns} for _ in range(self.chosen.randint(1, 3))]
        for row in rows:
            if 1 in row:
                row[1] = str(self.chosen.randint(0, self.rows_made))
        return DeleteKeys(tuple(column.number for column in columns), tuple(rows))

    # ---- the layout

    def _leaves_in_structs(self, schema: Struct) -> list[tuple[Path, Field]]:
        """Return the fields that are in no list and no map."""
        found: list[tuple[Path, Field]] = []
        todo: list[tuple[Path, Struct]] = [((), schema)]
        while todo:
            above, struct = todo.pop()
            for column in struct.fields:
                path = (*above, column.name)
                if isinstance(column.kind, Struct):
                    todo.append((path, column.kind))
                elif isinstance(column.kind, Leaf):
                    found.append((path, column))
        return found

    def _partition(self, schema: Struct) -> Step | None:
        if self.partition_fields and self.chosen.random() < 0.4:
            gone = self.partition_fields.pop(self.chosen.randrange(len(self.partition_fields)))
            return Layout("drop partition field", (f"ALTER TABLE {NAME} DROP PARTITION FIELD {gone}",))
        leaves = self._leaves_in_structs(schema)
        times = [leaf for leaf in leaves if leaf[1].kind in map(Leaf, DATES)]
        _, column = self.chosen.choice(times if times and self.values.far and self.chosen.random() < 0.7 else leaves)
        transforms = ["{}", "bucket(4, {})"]
        name = column.kind.name.partition("(")[0]  # type: ignore[union-attr]
        if name in ("INT", "BIGINT", "STRING", "DECIMAL", "BINARY"):
            transforms.append("truncate(2, {})")
        if name in DATES:
            transforms += ["years({})", "months({})", "days({})"] + (["hours({})"] if name != "DATE" else [])
        if name in ("FLOAT", "DOUBLE", "BOOLEAN"):
            transforms.remove("bucket(4, {})")
        if name in ("VARIANT", "VOID", "FLOAT", "DOUBLE") or len(self.partition_fields) > 1:
            return None
        self.sources.add(column.number)
        alias = f"p_{self.schemas.number()}"
        self.partition_fields.append(alias)
        return PartitionField(column.number, f"{self.chosen.choice(transforms)} AS {alias}")

    def _sort(self, schema: Struct) -> Step | None:
        _, column = self.chosen.choice(self._leaves_in_structs(schema))
        if column.kind in (Leaf("VARIANT"), Leaf("VOID")):
            return None
        self.sources.add(column.number)
        order = self.chosen.choice(["", " DESC", " DESC NULLS LAST", " ASC NULLS LAST"])
        return SortOrder(column.number, f"{self.chosen.choice(['ORDERED BY', 'LOCALLY ORDERED BY'])} {{}}{order}")

    def _properties(self, schema: Struct) -> Step:
        if self.version < 3 and self.chosen.random() < 0.2:
            self.version += 1
            return Layout("upgrade", (f"ALTER TABLE {NAME} SET TBLPROPERTIES ('format-version' = '{self.version}')",), refusable=False)
        properties = {"write.format.default": self.chosen.choice(self.formats)}
        if self.version > 1:
            properties |= {f"write.{statement}.mode": self.chosen.choice(MODES) for statement in ("delete", "update", "merge")}
        listed = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
        return Layout("properties", (f"ALTER TABLE {NAME} SET TBLPROPERTIES ({listed})",), refusable=False)

    def _maintenance(self, schema: Struct) -> Step:
        name = self.chosen.choice(
            ["rewrite_data_files", "rewrite_data_files", "rewrite_position_delete_files", "rewrite_manifests", "expire_snapshots"]
        )
        options = {
            "rewrite_data_files": ", options => map('rewrite-all', 'true')",
            "rewrite_position_delete_files": ", options => map('rewrite-all', 'true')",
            "rewrite_manifests": "",
            "expire_snapshots": ", older_than => TIMESTAMP'2100-01-01 00:00:00', retain_last => 1",
        }[name]
        return Layout(name, (f"CALL lake.system.{name}(table => '{{plain}}'{options})",), refusable=False)
