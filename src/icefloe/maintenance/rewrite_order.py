"""`rewrite_order`: the order of rows in new files, from the arguments `strategy` and `sort_order` of `rewrite_data_files`. Spec: Sorting."""

from icefloe.errors import InvalidInputError
from icefloe.operations.loaded_table import LoadedTable
from icefloe.spec.metadata.sort_keys import sort_order_of
from icefloe.spec.partitioning.curve_cells import CurveOrder, check_curve
from icefloe.spec.partitioning.sort_order import UNSORTED_SORT_ORDER, SortOrder, check_sort_order
from icefloe.spec.partitioning.space_filling_curve import CurveName
from icefloe.spec.partitioning.transforms import IdentityTransform
from icefloe.spec.schema.schema import Schema
from icefloe.spec.sql_tokens import Tokens

STRATEGIES = ("binpack", "sort")
RowOrder = SortOrder | CurveOrder


def rewrite_order(table: LoadedTable, strategy: str | None, sort_order: str | SortOrder | None) -> RowOrder:
    """Return the order of a rewrite's rows; `UNSORTED_SORT_ORDER` keeps the order. Raises `InvalidInputError` as `TableMaintenance.rewrite_data_files` does."""
    strategy = strategy or ("binpack" if sort_order is None else "sort")
    if strategy not in STRATEGIES:
        curve = strategy if strategy in [*CurveName] else None
        raise InvalidInputError(
            f"there is no strategy {strategy!r}",
            next_step=f"there are: {', '.join(STRATEGIES)}" + (f"; pass sort, and the sort order {curve}(a, b)" if curve else ""),
        )
    if strategy == "binpack":
        if sort_order is not None:
            raise InvalidInputError(
                "the strategy binpack keeps the order of rows, and a sort order is given", next_step="leave one of the two out"
            )
        return UNSORTED_SORT_ORDER
    if isinstance(sort_order, str):
        curve_order = curve_order_of(sort_order, table.schema())
        if curve_order is not None:
            check_curve(curve_order, table.schema())
            return curve_order
        sort_order = sort_order_of(sort_order, table.schema())
    order = table.metadata.sort_order() if sort_order is None else sort_order
    check_sort_order(order, table.schema())
    if order.is_unsorted:
        raise InvalidInputError(
            f"{table.full_name} has no sort order, and none is given",
            table=table.full_name,
            next_step="pass sort_order, such as 'id DESC NULLS LAST'",
        )
    return order


def curve_order_of(text: str, schema: Schema) -> CurveOrder | None:
    """Parse a curve such as `zorder(a, b.c)`. Return None for any other text.

    Raises:
        StatementSyntaxError: The text continues after the columns, for example with a sort key.
        InvalidSchemaError: The table does not have one of the columns.
    """
    tokens = Tokens(text)
    name = next((name for name in CurveName if tokens.take(name.upper(), "(")), None)
    if name is None:
        return None
    columns = [tokens.dotted_name()]
    while tokens.take(","):
        columns.append(tokens.dotted_name())
    tokens.expect(")")
    if not tokens.at_end:
        raise tokens.syntax_error(f"{name}(...) is the whole order and has no sort keys beside it")
    return CurveOrder(name, tuple(schema.find_field(".".join(column)).field_id for column in columns))


def without_constant_columns(curve: CurveOrder, table: LoadedTable, output_spec_id: int) -> CurveOrder:
    """Remove the columns of a curve that have only one value in each partition, because rows are divided by partition anyway.

    Raises:
        InvalidInputError: No column remains.
    """
    spec = table.metadata.spec_by_id(output_spec_id)
    constant = {field.source_id for field in spec.fields if isinstance(field.transform, IdentityTransform)}
    left = tuple(field_id for field_id in curve.source_ids if field_id not in constant)
    if not left:
        raise InvalidInputError(
            f"every column of {curve.name} has one value in each partition of {table.full_name}",
            table=table.full_name,
            next_step="name columns that the table is not partitioned by",
        )
    return curve.over(left)
