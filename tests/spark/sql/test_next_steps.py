"""The next steps of errors in SQL statements name statements, not methods of Python."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import icefloe
from icefloe.spark.bridge.spark_errors import in_sql

SOURCES = Path(icefloe.__file__).parent
# Python calls, and arguments by name.
PYTHON = re.compile(r"\b(?:table|catalog|view)\.\w+\(|\b\w+_\w+\(|\b\w+\(\)|=(?:True|False|None)\b")
# Parts of the package that a statement does not reach.
NOT_OF_SQL = ("cli", "spark", "catalog", "inspect", "demo", "testing")
# Modules whose errors are about arguments of a Python method, which a statement gives by itself or does not have.
ARGUMENTS_OF_PYTHON = {
    "operations/available_engines.py",
    "operations/other_frames.py",
    "operations/pandas_rows.py",
    "table/merge_statement.py",
    "operations/rows/upsert.py",
    "operations/upsert_source.py",
    "operations/rows/delete_keys.py",
    "table/transaction.py",
    "table/table.py",
    "operations/files/file_operations.py",
    "io/input_and_output_file.py",
    "spec/schema/schema_evolution.py",
    "spec/partitioning/source_columns.py",
}


def next_steps() -> Iterator[tuple[str, str]]:
    for file in sorted(SOURCES.rglob("*.py")):
        name, source = file.relative_to(SOURCES).as_posix(), file.read_text("utf-8")
        if name.split("/")[0] in NOT_OF_SQL or name in ARGUMENTS_OF_PYTHON or "next_step" not in source:
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.keyword) and node.arg == "next_step":
                for text in _texts(node.value):
                    yield f"{name}: {text}", text


def _texts(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(_part(part) for part in node.values)
    elif isinstance(node, ast.IfExp):
        yield from _texts(node.body)
        yield from _texts(node.orelse)


def _part(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    is_name = isinstance(node, ast.FormattedValue) and (node.conversion == ord("r") or "dotted" in ast.unparse(node.value))
    return "'x'" if is_name else "2" if "VERSION" in ast.unparse(node) else "x"


def test_next_steps_name_statements() -> None:
    calls = {where: text for where, text in next_steps() if PYTHON.search(text)}
    assert len(calls) > 15
    assert {where: in_sql(text) for where, text in calls.items() if PYTHON.search(in_sql(text))} == {}


def test_statements_of_next_steps_have_the_names_of_the_call() -> None:
    assert in_sql("create it with create_namespace('a.b'); there are: c") == "create it with CREATE NAMESPACE a.b; there are: c"
    upgraded = in_sql("upgrade it with table.upgrade_table_version(2), or delete by a filter")
    assert upgraded == "upgrade it with ALTER TABLE ... SET TBLPROPERTIES ('format-version' = '2'), or delete by a filter"
    assert in_sql("choose one of a, b") == "choose one of a, b"
