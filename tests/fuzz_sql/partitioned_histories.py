"""Histories of tables that are partitioned by dates and times of any year from their beginning, and whose statements find rows by them."""

from collections.abc import Set
from dataclasses import dataclass, replace

from tests.fuzz_sql.expressions import columns_of
from tests.fuzz_sql.histories import DATES, FORMATS, Beginning, HistoryMaker
from tests.fuzz_sql.overwrites import OverwritePartition, OverwritePartitions, ReplaceWhere, is_expressed
from tests.fuzz_sql.rows import MORE_FAR_YEARS, ValueMaker, rendered
from tests.fuzz_sql.schemas import COMMON_LEAVES, RARE_LEAVES, Field, Leaf, SchemaMaker, Struct
from tests.fuzz_sql.steps import ROWS, Delete, Row, Step, Update

# Types that not every Spark and its Parquet have, or that Icefloe refuses by name, with those that are drawn in their place.
STAND_INS = {"TIME(6)": "DATE", "TIMESTAMP_NTZ(9)": "TIMESTAMP_NTZ", "TIMESTAMP_LTZ(9)": "TIMESTAMP"}
FAR_SHARE = 0.3
_KEY_TYPES = (*DATES, "TIME(6)", "STRING", "BIGINT")


@dataclass
class PartitionedHistoryMaker(HistoryMaker):
    """Chooses the steps of one table.

    Attributes:
        missing: The types of `STAND_INS` that columns cannot have here.
    """

    missing: Set[str] = frozenset()
    formats: tuple[str, ...] = ("parquet", "parquet", "parquet", "avro")
    first_fields: tuple[tuple[int, str], ...] = ()
    same_partitions: bool = True  # as in the beginning

    def __post_init__(self) -> None:
        super().__post_init__()
        self.values = ValueMaker(self.chosen, far=MORE_FAR_YEARS if self.chosen.random() < 0.85 else {}, far_share=FAR_SHARE)
        if not self.values.far:  # ORC has no times as far away
            self.formats = FORMATS
            self.format = self.chosen.choice(self.formats)
        rare = tuple(stand_in if name in self.missing else name for name, stand_in in STAND_INS.items())
        leaves = (*COMMON_LEAVES, *RARE_LEAVES, *DATES, *DATES, *rare, *rare)
        self.schemas = SchemaMaker(self.chosen, case_sensitive=self.case_sensitive, leaves=leaves)
        self.times = (*DATES, *DATES, rare[0])

    def beginning(self) -> Beginning:
        """Return a table with a number, one or two times, a text, and one or two columns of any type, partitioned by one or two columns."""
        beginning = super().beginning()
        self.schemas.last_number = 0
        numbered = Field(self.schemas.number(), "k", Leaf("INT"))
        columns = [numbered]
        kinds = [Leaf(self.chosen.choice(DATES)), Leaf(self.chosen.choice([*self.times, "STRING"])), Leaf("STRING")]
        for kind in (*kinds, *(self.schemas.kind(2) for _ in range(self.chosen.randint(1, 2)))):
            columns.append(Field(self.schemas.number(), self.schemas.name([column.name for column in columns]), kind))
        for _ in range(self.chosen.choice([1, 1, 2])):
            column = columns[len(self.first_fields) + 1]
            self.first_fields += ((column.number, self.chosen.choice(_transforms(column.kind))),)
            self.sources.add(column.number)
        return replace(beginning, schema=Struct(0, tuple(columns)), partition_fields=self.first_fields)

    def step(self, schema: Struct) -> Step:
        """Return the next step: one of those that need times or partitions, or any other."""
        steps = [self._overwrite_partitions, self._overwrite_partition, self._replace_where, self._delete_by_query, self._update_by_query]
        if self.chosen.random() < 0.3:
            step = self.chosen.choice(steps)(schema)
            if step is not None:
                return step
        return super().step(schema)

    def condition(self, schema: Struct) -> str:
        """Return a condition, often one on dates and times."""
        times = [column for column in columns_of(schema, "t") if column.kind in map(Leaf, self.times)]
        if times and self.chosen.random() < 0.6:
            return self._expressions().condition(times)
        return super().condition(schema)

    def _partition(self, schema: Struct) -> Step | None:
        if self.chosen.random() < 0.5:
            return None
        self.same_partitions = False
        return super()._partition(schema)

    def _keys(self, schema: Struct) -> list[Field]:
        return [column for column in schema.fields if column.number != 1 and column.kind in map(Leaf, _KEY_TYPES)]

    def _merge(self, schema: Struct) -> Step | None:
        keys = self._keys(schema)
        if not keys or self.chosen.random() < 0.3:
            return super()._merge(schema)
        key = self.chosen.choice(keys)
        rows: dict[str, Row] = {}
        for row in self.rows(schema, self.chosen.randint(1, 5)):
            rows[rendered(row[key.number], key.kind)] = row
        return self._merge_of(schema, tuple(rows.values()), key.number)

    # ---- rows in the place of others

    def _overwrite_partitions(self, schema: Struct) -> Step | None:
        if not self.same_partitions or not all(is_expressed(transform) for _, transform in self.first_fields):
            return None
        return OverwritePartitions(self.rows(schema, self.chosen.randint(1, 4)), self.first_fields, by_frame=self.chosen.random() < 0.4)

    def _overwrite_partition(self, schema: Struct) -> Step | None:
        by_value = [number for number, transform in self.first_fields if transform == "{}"]
        if not self.same_partitions or not by_value:
            return None
        column = next(column for column in schema.fields if column.number == by_value[0])
        return OverwritePartition(self.rows(schema, self.chosen.randint(1, 3)), column.number, self.values.leaf(column.kind.name))  # type: ignore[union-attr]

    def _replace_where(self, schema: Struct) -> Step | None:
        keys = self._keys(schema)
        if not keys:
            return None
        key = self.chosen.choice(keys)
        literals = [self.values.literal(key.kind) for _ in range(2)]
        test = self.chosen.choice(
            [f"{{}} = {literals[0]}", f"{{}} < {literals[0]}", f"{{}} >= {literals[0]}", f"{{}} IN ({', '.join(literals)})", "{} IS NULL"]
        )
        return ReplaceWhere(self.rows(schema, self.chosen.randint(1, 3)), key.number, test)

    # ---- rows that queries find

    def _delete_by_query(self, schema: Struct) -> Step:
        column, other = (self.chosen.choice(columns_of(schema, alias)[:3]) for alias in "tu")
        test = self._expressions().condition(columns_of(schema, "u"))
        if self.chosen.random() < 0.5:
            key = other.sql.removeprefix("u.")
            return Delete(f"t.{key} IN (SELECT {other.sql} FROM {ROWS} u WHERE {test})")
        return Delete(f"EXISTS (SELECT 1 FROM {ROWS} u WHERE {column.sql.replace('t.', 'u.', 1)} = {column.sql} AND {test})")

    def _update_by_query(self, schema: Struct) -> Step | None:
        assignments = self._assignments(schema)
        column = self.chosen.choice(columns_of(schema, "t")[:3]).sql
        test = self._expressions().condition(columns_of(schema, "u"))
        extreme = self.chosen.choice(["min", "max"])
        scalar = f"(SELECT {extreme}({column.replace('t.', 'u.', 1)}) FROM {ROWS} u WHERE {test})"
        return Update(assignments, f"{column} {self.chosen.choice(['=', '<', '>='])} {scalar}") if assignments else None


def _transforms(kind: object) -> list[str]:
    match kind:
        case Leaf("STRING"):
            return ["{}", "truncate(2, {})", "bucket(4, {})"]
        case Leaf("DATE"):
            return ["{}", "{}", "years({})", "months({})", "days({})", "bucket(4, {})"]
        case Leaf("TIMESTAMP" | "TIMESTAMP_NTZ"):
            return ["{}", "years({})", "months({})", "days({})", "hours({})", "bucket(4, {})"]
    return ["{}", "bucket(4, {})"]
