"""The same INSERT, UPDATE, DELETE and MERGE on an Icefloe table through Spark SQL and on a table of SQLite; MERGE, which SQLite lacks, by its definition."""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from hypothesis import strategies as st
from tests.spark.sql.conftest import Run

from icefloe import SqlCatalog

_NUMBER = count(1)
PREDICATES = ("id < 3", "v % 2 = 0", "k = 'a'", "k IS NULL", "NOT (k = 'a' OR id > 5)", "id IN (1, 4, NULL)", "v > 4 AND k <> 'b'", "1 = 1")
ASSIGNMENTS = ("v = v + 1", "k = 'c'", "k = NULL", "k = 'b', v = id", "id = id + 1")
FORMS = ((2, "copy-on-write"), (2, "merge-on-read"), (3, "copy-on-write"), (3, "merge-on-read"))
PARTITIONING = ("", "PARTITIONED BY (k)", "PARTITIONED BY (bucket(2, id), k)")

ids = st.one_of(st.integers(0, 8), st.none())
kinds = st.sampled_from(("a", "b", None))
rows = st.lists(st.tuples(ids, kinds, st.integers(0, 9)), min_size=1, max_size=6)
sources = st.lists(st.tuples(st.integers(0, 8), kinds, st.integers(0, 9)), max_size=6, unique_by=lambda row: row[0])
merges = st.tuples(st.just("merge"), sources, st.sampled_from(PREDICATES), st.booleans(), st.sampled_from(("", "delete", "update")))
steps = st.one_of(
    st.tuples(st.just("insert"), rows),
    st.tuples(st.just("update"), st.sampled_from(ASSIGNMENTS), st.sampled_from(PREDICATES)),
    st.tuples(st.just("delete"), st.sampled_from(PREDICATES)),
    st.tuples(st.just("delete by query"), st.sampled_from(PREDICATES)),
    merges,
)


def literal(value: Any) -> str:
    """Return the SQL literal of a value."""
    return "NULL" if value is None else repr(value)


def values(given: list[tuple[Any, ...]]) -> str:
    """Return a query of rows of (id, k, v), which may be empty."""
    texts = [f"SELECT CAST({literal(i)} AS BIGINT) AS id, CAST({literal(k)} AS STRING) AS k, CAST({v} AS BIGINT) AS v" for i, k, v in given]
    return " UNION ALL ".join(texts) or "SELECT CAST(1 AS BIGINT) AS id, 'a' AS k, CAST(1 AS BIGINT) AS v WHERE 1 = 0"


@dataclass
class Both:
    """One table in both engines; `uid` identifies its rows and is never changed."""

    sql: Run
    lake: SqlCatalog
    version: int
    mode: str
    partitioning: str
    name: str = field(default_factory=lambda: f"dml_{next(_NUMBER)}")
    uids: Iterator[int] = field(default_factory=lambda: count(1))
    row_ids: dict[int, int] = field(default_factory=dict)
    model: sqlite3.Connection = field(default_factory=lambda: sqlite3.connect(":memory:"))

    def __post_init__(self) -> None:
        modes = ", ".join(f"'write.{command}.mode' = '{self.mode}'" for command in ("delete", "update", "merge"))
        self.sql(f"""CREATE TABLE lake.db.{self.name} (uid BIGINT, id BIGINT, k STRING, v BIGINT) USING iceberg {self.partitioning}
                     TBLPROPERTIES ('format-version' = '{self.version}', {modes})""")
        self.model.execute("CREATE TABLE t (uid INTEGER, id INTEGER, k TEXT, v INTEGER)")

    def run(self, step: tuple[Any, ...]) -> None:
        """Run one statement on both, and check that both have the same rows."""
        table = f"lake.db.{self.name}"
        if step[0] == "insert":
            new = [(next(self.uids), *row) for row in step[1]]
            self.sql(f"INSERT INTO {table} VALUES {', '.join('(' + ', '.join(map(literal, row)) + ')' for row in new)}")
            self.model.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", new)
        elif step[0] == "merge":
            self.merge(*step[1:])
        else:
            said = {
                "update": lambda t: f"UPDATE {t} SET {step[1]} WHERE {step[-1]}",
                "delete": lambda t: f"DELETE FROM {t} WHERE {step[1]}",
                "delete by query": lambda t: f"DELETE FROM {t} WHERE id IN (SELECT id + 1 FROM {t} WHERE {step[1]})",
            }[step[0]]
            self.sql(said(table))
            self.model.execute(said("t"))
        self.check()

    def merge(self, source: list[tuple[Any, ...]], predicate: str, inserts: bool, by_source: str) -> None:
        """Delete matched rows for which the predicate holds, and give the other matched rows the source's values."""
        on_target = predicate
        for column in ("id", "k", "v"):
            on_target = on_target.replace(f"{column} ", f"t.{column} ")
        first = next(self.uids)
        clauses = [f"WHEN MATCHED AND {on_target} THEN DELETE", "WHEN MATCHED THEN UPDATE SET k = s.k, v = s.v + t.v"]
        if inserts:
            clauses.append(f"WHEN NOT MATCHED THEN INSERT (uid, id, k, v) VALUES ({first} + s.id, s.id, s.k, s.v)")
        if by_source:
            clauses.append(f"WHEN NOT MATCHED BY SOURCE AND t.v > 3 THEN {'DELETE' if by_source == 'delete' else 'UPDATE SET v = -t.v'}")
        self.sql(f"MERGE INTO lake.db.{self.name} t USING ({values(source)}) s ON t.id = s.id {' '.join(clauses)}")
        self.uids = count(first + 10)
        execute = self.model.execute
        execute("CREATE TABLE s (id INTEGER, k TEXT, v INTEGER)")
        self.model.executemany("INSERT INTO s VALUES (?, ?, ?)", source)
        execute(
            f"CREATE TABLE old AS SELECT uid, id IN (SELECT id FROM s) IS TRUE AS matched, ({predicate}) IS TRUE AS is_deleted, v FROM t"
        )
        execute("CREATE TABLE added AS SELECT * FROM s WHERE id NOT IN (SELECT id FROM t WHERE id IS NOT NULL)")
        execute("DELETE FROM t WHERE uid IN (SELECT uid FROM old WHERE matched AND is_deleted)")
        execute("UPDATE t SET k = s.k, v = s.v + t.v FROM s WHERE s.id = t.id")
        if inserts:
            execute(f"INSERT INTO t SELECT {first} + id, id, k, v FROM added")
        if by_source:
            of_old = "uid IN (SELECT uid FROM old WHERE NOT matched AND v > 3)"
            execute(f"DELETE FROM t WHERE {of_old}" if by_source == "delete" else f"UPDATE t SET v = -v WHERE {of_old}")
        for made in ("s", "old", "added"):
            execute(f"DROP TABLE {made}")

    def expected(self) -> list[tuple[Any, ...]]:
        """Return SQLite's rows."""
        return sorted(self.model.execute("SELECT uid, id, k, v FROM t").fetchall())

    def check(self) -> None:
        """Compare the rows, read in this process; in version 3 no unchanged row has another row id than before."""
        found = self.lake.load_table(f"db.{self.name}").scan(selected_fields=("uid", "id", "k", "v", "_row_id")).to_arrow().to_pylist()
        assert sorted((row["uid"], row["id"], row["k"], row["v"]) for row in found) == self.expected()
        if self.version == 3:
            now = {row["uid"]: row["_row_id"] for row in found}
            assert None not in now.values()
            assert len(set(now.values())) == len(now)
            assert {uid: self.row_ids[uid] for uid in now if uid in self.row_ids} == {uid: now[uid] for uid in now if uid in self.row_ids}
            self.row_ids = now

    def check_spark(self) -> None:
        """Compare the rows as Spark reads them."""
        assert sorted(self.sql(f"SELECT uid, id, k, v FROM lake.db.{self.name}")) == self.expected()
