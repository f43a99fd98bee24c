"""DuckDB's rows of a table of Iceberg: a process in DuckDB's environment, whose Iceberg extension reads the table by its metadata file."""

import json
import subprocess
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.ipc
import pytest
from tests.fuzz_sql.schemas import Kind, Struct, has_leaf, walk
from tests.oracle.conftest import ORACLES, interpreter

_READER = """
import json, os, sys
# DuckDB prints the progress of a slow query to the standard output.
replies = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
sys.path.insert(0, sys.argv[1])
import pyarrow as pa
from duckdb_rows import connect
connection = connect()
for line in sys.stdin:
    metadata, target = json.loads(line)
    try:
        rows = connection.execute("SELECT * FROM iceberg_scan(?)", [metadata]).fetch_arrow_table()
        with pa.ipc.new_file(target, rows.schema) as file:
            file.write_table(rows)
        print(json.dumps(""), file=replies, flush=True)
    except Exception as error:
        print(json.dumps(f"{type(error).__name__}: {error}"), file=replies, flush=True)
"""


class UnreadableError(Exception):
    """DuckDB cannot read a table."""


class DuckDB:
    """A process that reads tables."""

    def __init__(self, python: str, folder: Path) -> None:
        self.target = folder / "duckdb.arrow"
        self.process = subprocess.Popen(
            [python, "-c", _READER, str(ORACLES)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    @classmethod
    def installed(cls, folder: Path) -> Self | str:
        """Return a process that reads tables; why there is none where DuckDB is not installed and cannot be."""
        try:
            return cls(interpreter("duckdb"), folder)
        except pytest.skip.Exception as absent:
            return str(absent)

    def close(self) -> None:
        self.process.communicate()

    @staticmethod
    def cannot_read(schema: Struct) -> str:
        """Return why DuckDB cannot read tables with a schema, as the page on other engines has it; empty if it can."""
        if has_leaf(schema, "VOID"):
            return "a column without a type"
        if has_leaf(schema, "VARIANT"):
            return "a variant, which has several encodings"
        structs: list[Kind] = [schema, *(kind for _, _, kind, _ in walk(schema))]
        for struct in structs:
            if isinstance(struct, Struct) and len({field.name.lower() for field in struct.fields}) < len(struct.fields):
                return "names that differ by case alone"
        return ""

    def read(self, metadata_location: str) -> Any:
        """Return the rows of a table.

        Raises:
            UnreadableError: DuckDB cannot read it.
        """
        if self.process.stdin is None or self.process.stdout is None:
            raise TypeError("the process has pipes")
        self.process.stdin.write(json.dumps([metadata_location, str(self.target)]) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        refused = json.loads(answer) if answer else "DuckDB ended"
        if refused:
            raise UnreadableError(" ".join(refused.split())[:160])
        with pa.ipc.open_file(str(self.target)) as file:
            return file.read_all()
