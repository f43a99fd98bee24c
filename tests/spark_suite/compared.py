"""What a file of SQL returned on Iceberg tables, compared with what Spark's suite expects and with what it returned on Spark's own Parquet tables."""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from tests.jvm_suite.differences import Outcome

# The result of a statement that changes rows is that of Icefloe: its numbers of rows and files. Spark returns nothing.
CHANGED_ROWS = "struct<num_affected_rows"
A_TABLE = "a view of a table"
# An error: a class of Java, and in Spark's suite a condition where it has one.
ERROR_CLASS = re.compile(r"(?:\w+\.)+(\w+(?:Exception|Error))")
ERROR = re.compile(rf'{ERROR_CLASS.pattern}\n(?:\{{\s+"errorClass" : "([\w.]+)")?')
# Numbers that Spark gives to expressions, and the name of the catalog, which it writes into the names of columns.
VARYING = ((re.compile(r"#\d+L?"), "#"), (re.compile(r"\bspark_catalog\b"), "lake"))


def read_golden(text: str) -> list[dict[str, Any]]:
    """Return the statements of a file of expected results of Spark, each as a result of the same form as those of a run."""
    parts = re.split(r"^-- !query( schema| output)?\n", text, flags=re.MULTILINE)[2:]
    golden = []
    for place in range(0, len(parts) - 4, 6):
        sql, schema, output = (parts[place + offset].strip("\n") for offset in (0, 2, 4))
        error = ERROR.match(output) if schema == "struct<>" else None
        result = {"error": error[2] or error[1], "message": output} if error else {"schema": schema, "rows": output.split("\n")}
        golden.append({"method": str(place // 6 + 1), "sql": sql, **result})
    return golden


def unlike_golden(golden: Iterable[Mapping[str, Any]], results: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the numbers of the statements whose results are not those that Spark expects; the setting and the tables of Spark's suite are others in places."""
    by_number = {result["method"]: result for result in golden}
    return {result["method"] for result in results if not _is_golden(by_number.get(result["method"]), result)}


def _is_golden(golden: Mapping[str, Any] | None, result: Mapping[str, Any]) -> bool:
    if golden is None or golden["sql"].split() != result.get("sql", "").split():
        return False
    if "error" in golden or "error" in result:
        return _error_of(golden) == _error_of(result)
    rows = [row.rstrip() for row in "\n".join(result["rows"]).split("\n")]
    as_printed = {**golden, "rows": [row.rstrip() for row in golden["rows"]], "sorted": result.get("sorted")}
    if result["schema"] == A_TABLE:
        return golden["schema"] == "struct<>"
    return _is_same(as_printed, {**result, "rows": rows})


def compared(
    file: str, judge: Iterable[Mapping[str, Any]], results: Iterable[Mapping[str, Any]], *, only: Collection[str] | None = None
) -> dict[str, Outcome]:
    """Return the outcome of each statement, by the file's name and the number of the statement in it.

    Args:
        file: The name of the file.
        judge: The results on Spark's own tables.
        results: The results on Iceberg tables.
        only: The statements to compare; the others are as Spark expects them. None for all.
    """
    of_judge, of_tables = ({result["method"]: result for result in one} for one in (judge, results))
    outcomes = {}
    for number in {**of_judge, **of_tables}:
        method = f"{file}.{number}"
        result = of_tables.get(number, {})
        text = _difference(of_judge.get(number, {}), result) if only is None or number in only or not result else ""
        outcomes[method] = Outcome(method, "failed" if text else "passed", text, result.get("seconds", 0.0))
    return outcomes


def _difference(judge: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    for tables, one in (("Spark's Parquet tables", judge), ("Icefloe's tables", result)):
        if "sql" not in one:
            return f"did not run on {tables}: {one.get('reason', 'the file ended before')}"
    if _is_same(judge, result):
        return ""
    return f"{result['sql'][:600]}\nSpark's Parquet: {_shown(judge)}\nIcefloe:         {_shown(result)}"


def _is_same(judge: Mapping[str, Any], result: Mapping[str, Any]) -> bool:
    if "error" in judge or "error" in result:
        return _error_of(judge) == _error_of(result)
    if judge["schema"] == "struct<>" and result["schema"].startswith(CHANGED_ROWS):
        return True
    if judge["sql"].lower().startswith("explain"):
        return True  # a plan names the scan of its tables
    if _without_varying(judge["schema"]) != _without_varying(result["schema"]):
        return False
    rows, expected = ([_without_varying(row) for row in one["rows"]] for one in (result, judge))
    if judge["sql"].lower().startswith("desc"):  # Spark pads the words for its own commands alone
        rows, expected = ([re.sub(r" *(\t|$) *", r"\1", row) for row in one] for one in (rows, expected))
    if judge["sql"].lower().startswith("show views"):  # of which Spark prints the second column alone
        rows, expected = ([row.split("\t")[1] if row.count("\t") == 2 else row for row in one] for one in (rows, expected))
    return rows == expected if judge.get("sorted") else sorted(rows) == sorted(expected)


def _error_of(result: Mapping[str, Any]) -> str | None:
    """Return the condition of an error, or the name of its class where it has none."""
    if "error" not in result:
        return None
    condition = re.match(r"(?:\w+\.)+\w+: \[([A-Z0-9_.]+)\]", result["message"])
    return str(
        condition[1] if condition else result["error"].rpartition(".")[2] if ERROR_CLASS.fullmatch(result["error"]) else result["error"]
    )


def _without_varying(text: str) -> str:
    for pattern, replacement in VARYING:
        text = pattern.sub(replacement, text)
    return text


def _shown(result: Mapping[str, Any]) -> str:
    if "error" in result:
        return f"{result['error']}: {result['message'][:400]}"
    return f"{result['schema'][:300]}\n" + "\n".join(result["rows"][:12])
