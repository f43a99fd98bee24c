"""Steps that put rows in the place of others: of partitions, of one partition that is named, of rows that a condition finds."""

from dataclasses import dataclass, replace

from tests.fuzz_sql.schemas import Struct, quoted
from tests.fuzz_sql.steps import NAME, TABLE, NotApplicableError, Row, Step, required_path, values_clause

# The values that rows of one partition have in common, for each transform that Spark can express without Icefloe; its own hash is not that of buckets.
_IN_COMMON = {
    "{}": ("{}",),
    "years({})": ("year({})",),
    "months({})": ("year({})", "month({})"),
    "days({})": ("CAST({} AS DATE)",),
    "hours({})": ("CAST({} AS DATE)", "hour({})"),
    "truncate(2, {})": ("left({}, 2)",),
}


def is_expressed(transform: str) -> bool:
    """Return whether Spark has the partition of a row without Icefloe."""
    return transform in _IN_COMMON


@dataclass(frozen=True)
class OverwritePartitions(Step):
    """Rows in the place of all rows of their partitions.

    Attributes:
        partition_fields: Those of the table, which have been the same from its beginning.
        by_frame: Whether a DataFrame writes the rows; else a statement with the setting for it.
    """

    rows: tuple[Row, ...]
    partition_fields: tuple[tuple[int, str], ...]
    by_frame: bool = False
    label = "overwrite partitions"

    def statements(self, schema: Struct) -> list[str]:
        if not self.rows:
            raise NotApplicableError("no rows")
        query = f"SELECT * FROM {values_clause(schema, self.rows, 'r')}"
        if self.by_frame:
            return [f">>> sql({query!r}).writeTo('{NAME}').overwritePartitions()"]
        return [f">>> dynamic_overwrite({f'INSERT OVERWRITE {NAME} {query}'!r})"]

    def judge(self, schema: Struct) -> str | None:
        new = values_clause(schema, self.rows, "r")
        same = []
        for number, transform in self.partition_fields:
            column = quoted(required_path(schema, number)[0])
            same += [f"{text.replace('{}', f't.{column}')} <=> {text.replace('{}', f'r.{column}')}" for text in _IN_COMMON[transform]]
        return f"SELECT t.* FROM {TABLE} t LEFT ANTI JOIN (SELECT * FROM {new}) r ON {' AND '.join(same)} UNION ALL SELECT * FROM {new}"


@dataclass(frozen=True)
class OverwritePartition(Step):
    """Rows in the place of one partition, which the statement names by its value; they get that value."""

    rows: tuple[Row, ...]
    number: int
    value: str
    label = "overwrite a named partition"

    def statements(self, schema: Struct) -> list[str]:
        if not self.rows:
            raise NotApplicableError("no rows")
        column = quoted(required_path(schema, self.number)[0])
        others = replace(schema, fields=tuple(one for one in schema.fields if one.number != self.number))
        return [f"INSERT OVERWRITE {NAME} PARTITION ({column} = {self.value}) SELECT * FROM {values_clause(others, self.rows, 'r')}"]

    def judge(self, schema: Struct) -> str | None:
        column = quoted(required_path(schema, self.number)[0])
        rows = tuple({**row, self.number: self.value} for row in self.rows)
        return f"SELECT * FROM {TABLE} t WHERE NOT coalesce(t.{column} = {self.value}, false) UNION ALL SELECT * FROM {values_clause(schema, rows, 'r')}"


@dataclass(frozen=True)
class ReplaceWhere(Step):
    """Rows in the place of those for which a test of one column is true."""

    rows: tuple[Row, ...]
    number: int
    test: str  # with {} for the column
    label = "replace where"

    def statements(self, schema: Struct) -> list[str]:
        if not self.rows:
            raise NotApplicableError("no rows")
        test = self.test.replace("{}", quoted(required_path(schema, self.number)[0]))
        return [f"INSERT INTO {NAME} REPLACE WHERE {test} SELECT * FROM {values_clause(schema, self.rows, 'r')}"]

    def judge(self, schema: Struct) -> str | None:
        test = self.test.replace("{}", f"t.{quoted(required_path(schema, self.number)[0])}")
        return f"SELECT * FROM {TABLE} t WHERE NOT coalesce({test}, false) UNION ALL SELECT * FROM {values_clause(schema, self.rows, 'r')}"
