"""SHOW FUNCTIONS IN and DESCRIBE FUNCTION for the functions of attached catalogs (`functions/spark_functions.py`).

Spark parses these statements, but runs them for its session catalog only.
"""

from fnmatch import fnmatchcase

from pyspark.sql import SparkSession

from icefloe.spark.catalog.attached_catalogs import SESSION_CATALOG, attached_catalog, resolve_name
from icefloe.spark.functions.spark_functions import FUNCTIONS, SYSTEM, Function, is_for_functions
from icefloe.spark.statements.view_statements import Statement
from icefloe.spec.sql_tokens import Tokens


def function_statement(spark: SparkSession, text: str) -> Statement | None:
    """Parse one of these statements; return None for any other, and for a catalog that is not attached. Raises `StatementSyntaxError`."""
    tokens = Tokens(text)
    if tokens.take("SHOW"):
        return _show(spark, tokens)
    return _describe(spark, tokens) if tokens.take("DESCRIBE", "FUNCTION") or tokens.take("DESC", "FUNCTION") else None


def _show(spark: SparkSession, tokens: Tokens) -> Statement | None:
    if not tokens.take("USER"):
        tokens.take("ALL")
    if not tokens.take("FUNCTIONS") or not (tokens.take("IN") or tokens.take("FROM")):
        return None
    catalog, *namespace = tokens.dotted_name()
    if attached_catalog(spark, catalog) is None:
        place = resolve_name(spark, (catalog, *namespace, "any"))
        if place is None:
            return None
        catalog, namespace = place[0].name, list(place[1][:-1])
    if catalog == SESSION_CATALOG and not is_for_functions(namespace):
        return None
    tokens.take("LIKE")
    pattern = tokens.string() if tokens.is_string() else "*" if tokens.at_end else tokens.name()
    tokens.end()
    names = sorted(f"{catalog}.{SYSTEM}.{name}" for name in FUNCTIONS if is_for_functions(namespace) and _matches(name, pattern))
    return Statement(name=tuple(namespace), run=lambda: [(name,) for name in names], names=("function",))


def _matches(name: str, pattern: str) -> bool:
    """Return True if a pattern of Spark matches: `*` is any text, `|` separates alternatives, case does not matter."""
    return any(fnmatchcase(name, part.strip().lower()) for part in pattern.split("|"))


def _describe(spark: SparkSession, tokens: Tokens) -> Statement | None:
    tokens.take("EXTENDED")
    place = resolve_name(spark, ("",) if tokens.is_string() else tokens.dotted_name())
    if place is None or not is_for_functions(place[1][:-1]) or place[1][-1].lower() not in FUNCTIONS:
        return None
    tokens.end()
    function = FUNCTIONS[place[1][-1].lower()]
    return Statement(name=place[1], run=lambda: [(line,) for line in _lines(place[0].name, function)], names=("function_desc",))


def _lines(catalog: str, function: Function) -> list[str]:
    return [f"Function: {catalog}.{SYSTEM}.{function.name}", f"Usage: {function.description}"]
