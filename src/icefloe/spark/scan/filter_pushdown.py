"""Push-down of filters: convert predicates that Spark pushes to a scan or a write to Iceberg expressions.

Each predicate becomes an expression that is true for exactly the rows for which the predicate is true, and not false or unknown (null). If there is no such
expression, only Spark evaluates the predicate. `function_pushdown.py` translates predicates on functions of a column (dates, `truncate`). A predicate on
`bucket` is not a range of its column: `BucketFilter` prunes files by their partition instead, and Spark evaluates the predicate on every row.
`true_of_all_rows` finds the filters that Spark need not evaluate. `filter_to_spark.py` converts Iceberg expressions to Spark columns.
Spec: Scan Planning; Partition Transforms (bucket).
"""

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.errors import InvalidFilterError, InvalidSchemaError
from icefloe.scan.pruning import strict_mask
from icefloe.scan.scan_plan import PlannedFiles, ScanPlan
from icefloe.spark.functions.spark_functions import call_of
from icefloe.spark.scan.function_pushdown import (
    ExpressionJson,
    LocalDays,
    NotTranslatable,
    check_date_like,
    period_filter,
    period_of,
    truncation_filter,
    truncation_of,
)
from icefloe.spec.arrow_values import fill_nulls, numpy_of
from icefloe.spec.expressions.bind import bind
from icefloe.spec.expressions.predicate import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
    NotEqualTo,
    NotIn,
    NotNull,
    NotStartsWith,
    Or,
    StartsWith,
    all_of,
    any_of,
)
from icefloe.spec.manifest.manifest_columns import ManifestColumns, partition_column
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.partitioning.partition_spec import PartitionSpec
from icefloe.spec.partitioning.transforms import BucketTransform, IdentityTransform
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import IcebergType, UUIDType

# For each comparison of a column with a value: the expression for the rows where the comparison is true, and the one for the rows where it is false. For null
# it is neither. As in Spark, NaN is the greatest number and equals itself in these expressions, and -0.0 equals 0.0.
_COMPARISONS: Mapping[str, tuple[Callable[[str, Any], BooleanExpression], Callable[[str, Any], BooleanExpression]]] = {
    "=": (EqualTo, NotEqualTo),
    "<>": (NotEqualTo, EqualTo),
    "<": (LessThan, GreaterThanOrEqual),
    "<=": (LessThanOrEqual, GreaterThan),
    ">": (GreaterThan, LessThanOrEqual),
    ">=": (GreaterThanOrEqual, LessThan),
    "STARTS_WITH": (StartsWith, NotStartsWith),
}
# For comparisons of functions, the operator that is true where this operator is false.
_OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">", "<=>": "not <=>"}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>", "<=>": "<=>"}


@dataclass(frozen=True)
class _Columns:
    """What the translation of predicates needs to resolve columns: the schema, and a function that returns the days of the session's time zone, or None."""

    schema: Schema
    make_days: Callable[[], LocalDays] | None

    @cached_property
    def days(self) -> LocalDays | None:
        return None if self.make_days is None else self.make_days()


def to_expressions(
    predicates: Sequence[ExpressionJson], schema: Schema, days: Callable[[], LocalDays] | None = None
) -> list[BooleanExpression | None]:
    """Translate pushed predicates into Iceberg expressions.

    Args:
        predicates: Spark's predicates, in the JSON of `bridge/java/ConnectorJson.java`.
        schema: The schema with the columns of the predicates.
        days: A function that returns the days of the session's time zone; with None, predicates on dates of timestamps with a zone are not translated.

    Returns:
        For each predicate an expression that is true for exactly the rows for which the predicate is true; None if there is no such expression.
    """
    columns = _Columns(schema, days)
    return [_to_expression(predicate, columns) for predicate in predicates]


def pruning_filter(predicates: Sequence[ExpressionJson], schema: Schema, days: Callable[[], LocalDays] | None = None) -> BooleanExpression:
    """Return the conjunction of the expressions of all predicates that can be translated. The arguments are the same as for `to_expressions`."""
    return all_of([expression for expression in to_expressions(predicates, schema, days) if expression is not None])


def _to_expression(predicate: ExpressionJson, columns: _Columns) -> BooleanExpression | None:
    try:
        expression = _translate(predicate, columns, outcome=True)
        bind(expression, columns.schema)
    except (NotTranslatable, InvalidFilterError, InvalidSchemaError):
        return None
    return expression


def _translate(node: ExpressionJson, columns: _Columns, *, outcome: bool) -> BooleanExpression:
    """Return an expression for the rows for which a predicate is true, or with `outcome=False` for the rows for which it is false.

    Rows for which the predicate is unknown match neither expression. So NOT can be translated: its operand is translated with the opposite outcome.
    """
    if node["kind"] == "reference":
        return EqualTo(_column(node, columns.schema)[0], outcome)
    if node["kind"] == "literal" and json.loads(node["type"]) == "boolean":
        return _constant(node["value"] == str(outcome).lower())
    if node["kind"] not in ("call", "Predicate", "And", "Or", "Not", "AlwaysTrue", "AlwaysFalse"):
        raise NotTranslatable
    name, children = node["name"], node["children"]
    if name in ("AND", "OR"):
        sides = [_translate(child, columns, outcome=outcome) for child in children]
        return And(*sides) if (name == "AND") == outcome else Or(*sides)
    if name == "NOT":
        return _translate(children[0], columns, outcome=not outcome)
    if name in ("ALWAYS_TRUE", "ALWAYS_FALSE"):
        return _constant((name == "ALWAYS_TRUE") == outcome)
    if name == "BOOLEAN_EXPRESSION":
        return _translate(children[0], columns, outcome=outcome)
    return _translate_comparison(name, children, columns, outcome=outcome)


def _translate_comparison(name: str, children: Sequence[ExpressionJson], columns: _Columns, *, outcome: bool) -> BooleanExpression:
    if not children:  # a partition predicate without children; there is nothing to translate
        raise NotTranslatable
    if name in _MIRRORED and children[0]["kind"] == "literal":
        name, children = _MIRRORED[name], children[::-1]
    if children[0]["kind"] != "reference":
        return _translate_function(name, children[0], children[1:], columns, outcome=outcome)
    column, kind = _column(children[0], columns.schema)
    if name in ("IS_NULL", "IS_NOT_NULL"):
        return IsNull(column) if (name == "IS_NULL") == outcome else NotNull(column)
    values = [_value(child) for child in children[1:]]
    if isinstance(kind, UUIDType) and not all(value is None or _is_uuid(value) for value in values):
        raise NotTranslatable
    if name == "IN":
        return _translate_in(column, values, outcome=outcome)
    if len(values) != 1:
        raise NotTranslatable
    value = values[0]
    if name == "<=>":
        if value is None:
            return IsNull(column) if outcome else NotNull(column)
        return EqualTo(column, value) if outcome else Or(IsNull(column), NotEqualTo(column, value))
    if name not in _COMPARISONS:
        raise NotTranslatable
    if value is None:  # the comparison is unknown for every row, so that no row matches
        return AlwaysFalse()
    return _COMPARISONS[name][0 if outcome else 1](column, value)


def _translate_function(
    name: str, function: ExpressionJson, others: Sequence[ExpressionJson], columns: _Columns, *, outcome: bool
) -> BooleanExpression:
    """Translate a predicate on a function of a column. Like `_translate`, but for functions that return null only if the column is null."""
    column, test = _function(function, others, columns)
    if name in ("IS_NULL", "IS_NOT_NULL"):
        return IsNull(column) if (name == "IS_NULL") == outcome else NotNull(column)
    values = [_value(child) for child in others]
    non_null = [value for value in values if value is not None]
    if name == "IN":
        if not values or (not outcome and len(non_null) < len(values)):
            return _translate_in(column, values, outcome=outcome)
        tests = [test("=" if outcome else "<>", value) for value in non_null]
        return any_of(tests) if outcome else all_of(tests)
    if len(values) != 1 or name not in _OPPOSITE:
        raise NotTranslatable
    if not non_null:
        return (IsNull(column) if outcome else NotNull(column)) if name == "<=>" else AlwaysFalse()
    return test({"<=>": "="}.get(name, name) if outcome else _OPPOSITE[name], non_null[0])


def _function(
    node: ExpressionJson, others: Sequence[ExpressionJson], columns: _Columns
) -> tuple[str, Callable[[str, Any], BooleanExpression]]:
    """Parse a call of a function of a column. Return the column's name, and a function that translates `call operator value`, given operator and value."""
    truncation = truncation_of(node)
    if truncation is not None:
        column, kind = _column(truncation.column, columns.schema)
        return column, lambda operator, value: truncation_filter(truncation, operator, value, column, kind)
    bucket = call_of(node, "bucket")
    if bucket is not None:
        return _column(bucket.column, columns.schema)[0], _no_range
    period = period_of(node)
    column, kind = _column(period.column, columns.schema)
    check_date_like(kind)
    if any(child["kind"] != "literal" or json.loads(child["type"]) not in period.literal_types for child in others):
        raise NotTranslatable
    return column, lambda operator, value: period_filter(period, operator, value, column, kind, columns.days)


def _no_range(_: str, __: Any) -> BooleanExpression:
    raise NotTranslatable


def _translate_in(column: str, values: Sequence[Any], *, outcome: bool) -> BooleanExpression:
    """Translate IN. If null is among the values, IN is never false."""
    non_null = tuple(value for value in values if value is not None)
    if outcome:
        return In(column, non_null) if non_null else AlwaysFalse()
    if not non_null and len(values) == 0:
        raise NotTranslatable  # the meaning of an empty list depends on Spark's settings
    return NotIn(column, non_null) if len(non_null) == len(values) else AlwaysFalse()


def _constant(is_true: bool) -> BooleanExpression:
    return AlwaysTrue() if is_true else AlwaysFalse()


def _is_uuid(text: Any) -> bool:
    """Return whether a literal is the canonical text of a uuid. Spark compares uuids as text; canonical texts have the same order as the bytes of the uuids."""
    try:
        return isinstance(text, str) and str(uuid.UUID(text)) == text
    except ValueError:
        return False


def _column(node: ExpressionJson, schema: Schema) -> tuple[str, IcebergType]:
    """Return the dotted name and the type of a column. Raise `NotTranslatable` if there is no such column or its dotted name is ambiguous."""
    if node["kind"] != "reference":
        raise NotTranslatable
    name, fields = ".".join(node["parts"]), schema.fields
    column = None
    for part in node["parts"]:
        column = next((field for field in fields if field.name == part), None)
        if column is None:
            raise NotTranslatable
        fields = getattr(column.field_type, "fields", ())
    if column is None or name in schema.ambiguous_names or schema.find_field(name).field_id != column.field_id:
        raise NotTranslatable
    return name, column.field_type


def literal_value(node: ExpressionJson) -> Any:
    """Return the value of a literal of Spark, as Iceberg expressions and column defaults have it.

    Args:
        node: An expression of Spark, in the JSON of `bridge/java/ConnectorJson.java`.

    Returns:
        The value; None for null and for an expression that is not a literal that can be converted.
    """
    try:
        return _value(node)
    except NotTranslatable:
        return None


def _value(node: ExpressionJson) -> Any:
    """Return the value of a literal: dates in days, timestamps and times in microseconds."""
    if node["kind"] != "literal":
        raise NotTranslatable
    kind, text = json.loads(node["type"]), node["value"]
    if text is None:
        return None
    if kind == "string":
        return text
    if kind == "boolean":
        return text == "true"
    if kind in ("byte", "short", "integer", "long"):
        return int(text)
    if kind in ("float", "double"):
        number = float(text.replace("Infinity", "inf"))
        # The shortest decimal text of a float parses to a different double.
        return float(np.float32(number)) if kind == "float" else number
    if isinstance(kind, str) and kind.startswith("decimal"):
        return Decimal(text)
    if kind == "binary":
        return bytes.fromhex(text)
    if kind in ("date", "timestamp", "timestamp_ntz"):
        return int(text)
    if isinstance(kind, str) and kind.startswith("time("):
        micros, rest = divmod(int(text), 1000)  # Spark uses nanoseconds
        if not rest:
            return micros
    raise NotTranslatable


@dataclass(frozen=True, slots=True)
class BucketFilter:
    """A condition that follows from a predicate on `bucket`: every matching row has one of `buckets` for the column with the id `source_id`."""

    source_id: int
    transform: BucketTransform
    buckets: frozenset[int]


def bucket_filters(predicates: Iterable[ExpressionJson], schema: Schema) -> list[BucketFilter]:
    """Return the bucket conditions that follow from the pushed predicates of a scan. A matching row satisfies all of them."""
    filters = (_bucket_filter(term, schema) for predicate in predicates for term in _conjuncts(predicate))
    return [bucket_filter for bucket_filter in filters if bucket_filter is not None]


def prune_buckets(plan: ScanPlan, filters: Sequence[BucketFilter], metadata: TableMetadata) -> ScanPlan:
    """Remove the files whose buckets do not match the filters from a plan. Files of partition specs without a field for these buckets remain."""
    if not filters:
        return plan
    return plan.without_partitions([_bucket_mask(part, filters, metadata.spec_by_id(part.spec_id)) for part in plan.parts])


def _conjuncts(node: ExpressionJson) -> Iterator[ExpressionJson]:
    if node.get("name") == "AND":
        for child in node["children"]:
            yield from _conjuncts(child)
    else:
        yield node


def _bucket_filter(node: ExpressionJson, schema: Schema) -> BucketFilter | None:
    """Return the filter for `bucket(n, column) = literal` or `bucket(n, column) IN (literals)`; None for any other predicate."""
    sides = list(node.get("children") or ())
    name = node.get("name")
    if name in ("=", "<=>") and sides[0]["kind"] == "literal":
        sides.reverse()
    call = call_of(sides[0], "bucket") if name in ("=", "<=>", "IN") and sides else None
    if call is None or call.column["kind"] != "reference":
        return None
    column = ".".join(call.column["parts"])
    if any(side["kind"] != "literal" or json.loads(side["type"]) != "integer" for side in sides[1:]):
        return None
    values = {side["value"] for side in sides[1:]}
    field_id = schema.find_id(column) if column not in schema.ambiguous_names else None
    # In Spark uuids are text, and the bucket of a text differs from the bucket of the uuid.
    if field_id is None or schema.path_of(field_id) != tuple(call.column["parts"]) or isinstance(schema.find_type(field_id), UUIDType):
        return None
    if name == "<=>" and None in values:
        return None
    return BucketFilter(field_id, BucketTransform(call.number), frozenset(int(value) for value in values if value is not None))


def _bucket_mask(part: PlannedFiles, filters: Sequence[BucketFilter], spec: PartitionSpec) -> NDArray[np.bool_]:
    """Return a mask of the files that may contain rows in the buckets of all filters."""
    mask = np.ones(len(part), np.bool_)
    for bucket_filter in filters:
        buckets = pa.array(sorted(bucket_filter.buckets), pa.int32())
        for field in spec.fields:
            if field.source_id == bucket_filter.source_id and field.transform == bucket_filter.transform:
                mask &= numpy_of(fill_nulls(pc.is_in(part.entries[partition_column(field.field_id)], buckets), False))
    return mask


def true_of_all_rows(plan: ScanPlan, filters: Sequence[BooleanExpression | None], metadata: TableMetadata) -> list[bool]:
    """Return for each filter whether metadata proves that it is true for every row of the planned files, so that Spark need not evaluate it.

    Args:
        plan: The planned files. They were planned with the conjunction of the filters that are not None.
        filters: The filters; None for a predicate without an Iceberg expression, for which the result is False.
        metadata: The metadata of the table.
    """
    if None not in filters and all(part.covered is not None and bool(part.covered.all()) for part in plan.parts):
        return [True] * len(filters)
    return [expression is not None and _is_true_of_all_rows(plan, expression, metadata) for expression in filters]


def _is_true_of_all_rows(plan: ScanPlan, expression: BooleanExpression, metadata: TableMetadata) -> bool:
    """Return whether the metrics and partition values of the files prove that a filter is true for every row.

    Of the partition fields only identity fields are used, because their partition values are the values of the rows.
    """
    bound = bind(expression, plan.schema)
    specs = {spec.spec_id: _identities(spec) for spec in metadata.partition_specs}
    return all(bool(strict_mask(ManifestColumns(part.entries), bound, specs[part.spec_id], plan.schema).all()) for part in plan.parts)


def _identities(spec: PartitionSpec) -> PartitionSpec:
    return PartitionSpec(*(field for field in spec.fields if isinstance(field.transform, IdentityTransform)), spec_id=spec.spec_id)
