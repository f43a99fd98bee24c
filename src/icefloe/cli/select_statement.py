"""SELECT statements that can be computed by a scan of one table, without Spark.

Their form is `SELECT columns FROM table WHERE condition ORDER BY columns LIMIT n`, which sqlglot parses in Spark's dialect. For any other statement the error
names the reason why it needs Spark. The results are those of Spark SQL: names of columns in any case, nulls first in ascending order, NaN after every number,
-0.0 equal to 0.0.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from icefloe.cli.row_view import RowBatches
from icefloe.errors import InvalidFilterError, InvalidInputError
from icefloe.inspect import MetadataTable
from icefloe.operations.data_scan import DataScan
from icefloe.operations.loaded_table import TableReader
from icefloe.spec.expressions.bind import bind
from icefloe.spec.expressions.filter_parser import filter_of_condition
from icefloe.spec.expressions.predicate import AlwaysTrue, BooleanExpression
from icefloe.spec.expressions.row_evaluator import arrow_mask
from icefloe.spec.partitioning.sort_order import NullOrder, SortDirection, SortField, SortOrder, sorted_positions
from icefloe.spec.partitioning.transforms import IdentityTransform
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import IcebergType, LongType, NestedField, PrimitiveType, StructType

ENGINE = "arrow"

Path = tuple[str, ...]


class NeedsSparkError(Exception):
    """A statement cannot be computed by a scan of one table. The text of the error is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderByKey:
    """A key of ORDER BY: a column, its direction, and where nulls come."""

    path: Path
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectStatement:
    """A parsed SELECT statement that a scan of one table can compute.

    Attributes:
        table: The parts of the table's name.
        version: The snapshot id, branch or tag of VERSION AS OF; None for the current snapshot.
        columns: The selected columns, each as its path and its name in the result; None for every column. The name is spelled as in the statement, as in
            Spark; an empty name represents the full name as the table spells it.
        counts: The name of the result's only column if the statement selects `count(*)`; otherwise None.
        row_filter: The condition.
        keys: The columns to sort by.
        limit: The greatest number of rows; None for no limit.
        offset: The number of rows to skip.
    """

    table: tuple[str, ...]
    version: str | None
    columns: tuple[tuple[Path, str], ...] | None
    counts: str | None
    row_filter: BooleanExpression
    keys: tuple[OrderByKey, ...]
    limit: int | None
    offset: int


def parse_select(text: str) -> SelectStatement:
    """Parse a statement.

    Raises:
        NeedsSparkError: The statement is not a SELECT from one table in the supported form.
        InvalidInputError: The text is empty, or has more than one statement.
    """
    try:
        trees = [tree for tree in sqlglot.parse(text, dialect="spark") if tree is not None]
    except SqlglotError as error:
        raise NeedsSparkError(f"it is no SELECT that can be parsed: {str(error).splitlines()[0]}") from error
    except RecursionError as error:
        raise NeedsSparkError("it is nested too deeply") from error
    if not trees:
        raise InvalidInputError("the statement is empty", next_step='write it as "SELECT id, name FROM db.t WHERE id < 10 LIMIT 20"')
    if len(trees) > 1:
        raise InvalidInputError("more than one statement is given", next_step="run one statement at a time")
    tree = trees[0]
    if not isinstance(tree, exp.Select):
        if isinstance(tree, exp.Condition | exp.Alias):  # sqlglot parses a mistyped keyword as the name of a column
            raise NeedsSparkError("it does not begin with SELECT")
        keyword = tree.name.upper() if isinstance(tree, exp.Command) else tree.key.upper()
        raise NeedsSparkError(f"{keyword} is more than a SELECT from one table")
    clauses = _clauses(tree, {"expressions", "from", "where", "order", "limit", "offset"})
    source = clauses.get("from")
    if source is None or not isinstance(source.this, exp.Table):
        raise NeedsSparkError("it does not select from a table")
    reader = _Reader(source.this)
    where = clauses.get("where")
    aliases = {item.alias.lower(): item.this for item in clauses.get("expressions", []) if isinstance(item, exp.Alias)}
    columns, counts = reader.selection(clauses.get("expressions", []))
    return SelectStatement(
        table=reader.name,
        version=reader.version,
        columns=columns,
        counts=counts,
        row_filter=AlwaysTrue() if where is None else reader.condition(where.this),
        keys=tuple(reader.key(key, aliases) for key in (clauses["order"].expressions if "order" in clauses else ())),
        limit=_number(clauses.get("limit"), "LIMIT"),
        offset=_number(clauses.get("offset"), "OFFSET") or 0,
    )


def run_on_table(statement: SelectStatement, table: TableReader, *, tolerant: bool = False) -> RowBatches:
    """Run a statement on a table.

    Args:
        statement: The statement.
        table: The table.
        tolerant: Whether harmless deviations from the format are only warnings, as in `TableReader.scan`.

    Returns:
        The rows of the result.

    Raises:
        NoSuchSnapshotError: The table does not have the version in the statement.
        InvalidSchemaError, InvalidFilterError: The statement names an unknown column, or compares a column with a value of another type.
        NeedsSparkError: A column is in a list or map, or the rows cannot be sorted by a column of its type.
        IcefloeError: The errors of `DataScan.to_arrow`.
    """
    scan = replace(scan_of(table, statement.version), tolerant=tolerant)
    schema = scan.schema()
    scan = scan.filter(statement.row_filter)
    if statement.counts is not None:
        bind(statement.row_filter, schema, case_sensitive=False)
        return _count_row(statement, scan.count())
    columns = _resolve_columns(statement, schema)
    keys = [(_path_in(schema, key.path), key) for key in statement.keys]
    names = dict.fromkeys(path[0] for path in [*(path for path, _ in columns), *(path for path, _ in keys)])
    scan = scan.select(*names)
    if keys:
        rows = _sort_rows(scan.to_arrow(), scan.projection(), keys)
        return _select_columns(columns, schema, _slice_batches(rows.to_batches(), statement.offset, statement.limit))
    if statement.limit is not None:
        scan = replace(scan, limit=statement.offset + statement.limit)
    return _select_columns(columns, schema, _slice_batches(scan.to_arrow_batch_reader(), statement.offset, statement.limit))


def run_on_metadata_table(statement: SelectStatement, table: MetadataTable) -> RowBatches:
    """Run a statement on a metadata table. The errors are those of `run_on_table`."""
    if statement.version is not None:
        raise NeedsSparkError("it reads a metadata table of an older snapshot")
    bound = bind(statement.row_filter, table.schema, case_sensitive=False)
    rows = table.to_arrow()
    rows = rows.filter(arrow_mask(bound, rows))
    if statement.counts is not None:
        return _count_row(statement, rows.num_rows)
    columns = _resolve_columns(statement, table.schema)
    keys = [(_path_in(table.schema, key.path), key) for key in statement.keys]
    if keys:
        rows = _sort_rows(rows, table.schema, keys)
    return _select_columns(columns, table.schema, _slice_batches(rows.to_batches(), statement.offset, statement.limit))


def scan_of(table: TableReader, version: str | None) -> DataScan:
    """Return a scan in which names of columns may have any letter case.

    Args:
        table: The table.
        version: A snapshot id, branch or tag; None for the current snapshot.

    Raises:
        NoSuchSnapshotError: The table does not have the version.
    """
    if version is not None and version.isascii() and version.isdecimal() and version not in table.metadata.refs:
        return table.scan(snapshot_id=int(version), case_sensitive=False)
    scan = table.scan(case_sensitive=False)
    return scan if version is None else scan.use_ref(version)


class _Reader:
    """Reads the names in one statement: of the table, and of columns, which may have the name of the table in front."""

    def __init__(self, table: Any) -> None:
        arguments = _clauses(table, {"this", "db", "catalog", "alias", "version"})
        if any(not isinstance(part, exp.Identifier) for part in table.parts):
            raise NeedsSparkError(f"{table.sql(dialect='spark')} is not the name of a table")
        self.name = tuple(part.name for part in table.parts)
        self.version = _version(arguments.get("version"))
        self._qualifiers = (
            {table.alias.lower()} if table.alias else {".".join(self.name[place:]).lower() for place in range(len(self.name))}
        )
        if table.alias and table.args["alias"].args.get("columns"):
            raise NeedsSparkError("the alias of the table renames its columns")

    def selection(self, items: list[Any]) -> tuple[tuple[tuple[Path, str], ...] | None, str | None]:
        """Convert the expressions after SELECT.

        Returns:
            The selected columns, each with its name in the result, or None for `*` and `count(*)`; and the name of the count in the result, or None if the
            statement does not count rows.

        Raises:
            NeedsSparkError: An expression is neither a column nor a single `*` or `count(*)`.
        """
        if len(items) == 1 and isinstance(items[0], exp.Star) and not _clauses(items[0], set()):
            return None, None
        counted = items[0].this if len(items) == 1 and isinstance(items[0], exp.Alias) else items[0] if items else None
        if len(items) == 1 and isinstance(counted, exp.Count) and isinstance(counted.this, exp.Star):
            return None, items[0].alias or "count(1)"
        return tuple(self._item(item) for item in items), None

    def _item(self, item: Any) -> tuple[Path, str]:
        if isinstance(item, exp.Alias):
            return self.path(item.this), item.alias
        path = self.path(item)
        return path, path[-1]

    def path(self, tree: Any) -> Path:
        """Return the parts of a column's name, without the name of the table. Raises `NeedsSparkError` for any other expression."""
        parts = tree.parts if isinstance(tree, exp.Column | exp.Dot) else ()
        if not parts or not all(isinstance(part, exp.Identifier) for part in parts):
            raise NeedsSparkError(f"{tree.sql(dialect='spark')} is more than the name of a column")
        names = tuple(part.name for part in parts)
        for length in range(len(names) - 1, 0, -1):
            if ".".join(names[:length]).lower() in self._qualifiers:
                return names[length:]
        return names

    def condition(self, tree: Any) -> BooleanExpression:
        """Convert a condition to a filter."""
        text = tree.sql(dialect="spark")

        def without_table(node: Any) -> Any:
            if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
                return node
            names = self.path(node)
            plain: Any = exp.Column(this=exp.Identifier(this=names[0], quoted=True))
            for name in names[1:]:
                plain = exp.Dot(this=plain, expression=exp.Identifier(this=name, quoted=True))
            return plain

        try:
            return filter_of_condition(tree.transform(without_table), text)
        except InvalidFilterError as error:
            raise NeedsSparkError(f"its condition is more than a filter on columns: {error.message.rpartition(': ')[2]}") from error

    def key(self, tree: Any, aliases: Mapping[str, Any]) -> OrderByKey:
        """Return a key of ORDER BY. A name that was given with AS takes precedence over the name of a column."""
        if not isinstance(tree, exp.Ordered):
            raise NeedsSparkError(f"it is sorted by {tree.sql(dialect='spark')}")
        _clauses(tree, {"this", "desc", "nulls_first"})
        name = tree.this.name.lower() if isinstance(tree.this, exp.Column) and len(tree.this.parts) == 1 else ""
        descending = bool(tree.args.get("desc"))
        return OrderByKey(
            path=self.path(aliases.get(name, tree.this)),
            descending=descending,
            nulls_first=bool(tree.args.get("nulls_first")),
        )


def _clauses(tree: Any, supported: set[str]) -> dict[str, Any]:
    """Return the parts of a syntax tree by name. A part that is not supported is refused, because it must not be ignored.

    Raises:
        NeedsSparkError: A part is not supported.
    """
    present = {name.rstrip("_"): part for name, part in tree.args.items() if part}
    unsupported = sorted(present.keys() - supported)
    if unsupported:
        raise NeedsSparkError(f"it has {unsupported[0].replace('_', ' ').upper()}")
    return present


def _version(version: Any) -> str | None:
    if version is None:
        return None
    if version.name != "VERSION" or not isinstance(version.expression, exp.Literal):
        raise NeedsSparkError("it reads the table as of a time")
    return str(version.expression.this)


def _number(clause: Any, name: str) -> int | None:
    if clause is None:
        return None
    value = _clauses(clause, {"expression"})["expression"]
    if not isinstance(value, exp.Literal) or value.is_string or not str(value.this).isdecimal():
        raise NeedsSparkError(f"{name} is not a number")
    return int(value.this)


def _resolve_columns(statement: SelectStatement, schema: Schema) -> list[tuple[Path, str]]:
    """Return the paths of the selected columns as the schema spells them, each with its name in the result."""
    if statement.columns is None:
        return [((field.name,), field.name) for field in schema.fields]
    paths = [(_path_in(schema, path), name) for path, name in statement.columns]
    return [(path, name or ".".join(path)) for path, name in paths]


def _path_in(schema: Schema, path: Path) -> Path:
    """Return the path of a column as the schema spells it. Only fields of structs can have several parts.

    Raises:
        InvalidSchemaError: The schema has no such column.
        NeedsSparkError: The path leads into a list or map.
    """
    schema.find_field(".".join(path), case_sensitive=False)  # raises an error that lists the columns
    fields, spelled = schema.fields, []
    for place, name in enumerate(path):
        field = next((item for item in fields if item.name == name), None) or next(
            (f for f in fields if f.name.lower() == name.lower()), None
        )
        if field is None:
            raise NeedsSparkError(f"{'.'.join(path)} is in a list or map")
        spelled.append(field.name)
        if place < len(path) - 1:
            if not isinstance(field.field_type, StructType):
                raise NeedsSparkError(f"{'.'.join(path)} is in a list or map")
            fields = field.field_type.fields
    return tuple(spelled)


def _kind_at(schema: Schema, path: Path) -> IcebergType:
    return schema.find_field(".".join(path)).field_type


def _sort_rows(rows: Any, schema: Schema, keys: list[tuple[Path, OrderByKey]]) -> Any:
    columns, fields, order = [], [], []
    for number, (path, key) in enumerate(keys, start=1):
        kind = _kind_at(schema, path)
        if not isinstance(kind, PrimitiveType):
            raise NeedsSparkError(f"it is sorted by {'.'.join(path)}, which has the type {kind}")
        columns.append(_comparable(_column_at(rows, path)))
        fields.append(NestedField(number, f"key {number}", kind))
        order.append(
            SortField(
                number,
                IdentityTransform(),
                SortDirection.DESC if key.descending else SortDirection.ASC,
                NullOrder.NULLS_FIRST if key.nulls_first else NullOrder.NULLS_LAST,
            )
        )
    table = pa.table(columns, names=[field.name for field in fields])
    positions = sorted_positions(table, SortOrder(*order), Schema(*fields))
    if positions is None:
        raise NeedsSparkError("it is sorted by a column of a type that has no order")
    return rows.combine_chunks().take(positions)


def _comparable(column: Any) -> Any:
    """Replace floats by values that sort as in SQL: -0.0 equals 0.0, and all NaN are equal. A sort order of the format distinguishes them."""
    if not pa.types.is_floating(column.type):
        return column
    return pc.if_else(pc.is_nan(column), pa.scalar(math.nan, column.type), pc.add(column, pa.scalar(0.0, column.type)))


def _slice_batches(batches: Any, offset: int, limit: int | None) -> Iterator[Any]:
    """Yield at most `limit` rows after the first `offset` rows. Batches that are not needed are not read."""
    left = limit
    for batch in batches:
        if left is not None and left <= 0:
            return
        skipped = min(offset, batch.num_rows)
        offset -= skipped
        part = batch.slice(skipped, left)
        if left is not None:
            left -= part.num_rows
        if part.num_rows:
            yield part


def _select_columns(columns: list[tuple[Path, str]], schema: Schema, batches: Iterator[Any]) -> RowBatches:
    kinds = tuple(_kind_at(schema, path) for path, _ in columns)
    return RowBatches(
        names=tuple(name for _, name in columns),
        types=tuple(str(kind) for kind in kinds),
        kinds=kinds,
        batches=(_columns_of(batch, columns) for batch in batches),
        engine=ENGINE,
    )


def _columns_of(batch: Any, columns: list[tuple[Path, str]]) -> Any:
    return pa.RecordBatch.from_arrays([_column_at(batch, path) for path, _ in columns], names=[name for _, name in columns])


def _column_at(rows: Any, path: Path) -> Any:
    column = rows.column(path[0])
    return column if len(path) == 1 else pc.struct_field(column, list(path[1:]))


def _count_row(statement: SelectStatement, count: int) -> RowBatches:
    total = max(0, 1 - statement.offset) if statement.limit is None else min(statement.limit, max(0, 1 - statement.offset))
    name = statement.counts or ""
    return RowBatches(
        names=(name,),
        types=("long",),
        kinds=(LongType(),),
        batches=[pa.RecordBatch.from_arrays([pa.array([count] * total, pa.int64())], names=[name])],
        engine=ENGINE,
    )
