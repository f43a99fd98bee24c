"""A write by Spark SQL or a DataFrame: its options options_of_write, its columns held against the table's, its rows appended or put in the place of others.

One write is one commit, also where it adds columns. Spec: Writing Data Files; Schema Evolution; Snapshots.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, DataType, StructType
from pyspark.sql.types import MapType as SparkMap

from icefloe.errors import InvalidInputError, Problem, SchemaMismatchError
from icefloe.kernel.expressions.predicate import AlwaysTrue, BooleanExpression
from icefloe.kernel.metadata.snapshot_ref import MAIN
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.schema.schema_history import relax_required_fields
from icefloe.kernel.types import IcebergType, ListType, MapType, NestedField
from icefloe.kernel.types import StructType as IcebergStruct
from icefloe.spark.scan.read_options import warn_of_settings
from icefloe.spark.types.spark_types import column_named, struct_to_schema
from icefloe.spark.write.formatted_rows import RowsInForm
from icefloe.spark.write.write_options import WriteOptions, write_options
from icefloe.table.changes.row_mutations import RowMutations
from icefloe.table.rows.staged_writes import branch_named
from icefloe.table.table import Table
from icefloe.table.transaction import Transaction

CASE_SENSITIVE = "spark.sql.caseSensitive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """What is written over what: `overwrite_filter` None for an append; `whole_partitions` for those that the rows lie in."""

    rows: DataFrame
    options: WriteOptions
    branch: str | None = None
    overwrite_filter: BooleanExpression | None = None
    whole_partitions: bool = False


def options_of_write(spark: SparkSession, options: Mapping[str, str], metadata: TableMetadata, table_name: str) -> WriteOptions:
    """The options of a write in a session. Raises as `write_options`."""
    settings = spark.conf.getAll
    warn_of_settings(spark, settings)
    return write_options(options, settings, metadata, table_name)


def branch_of(options: WriteOptions, named: str | None, table_name: str) -> str | None:
    """The branch that a write names: that of its option, or of the table's name. Raises `InvalidInputError` where these are two."""
    if named is not None and options.branch not in (None, named):
        raise InvalidInputError(
            f"the table is named with the branch {named!r}, and the write option branch is {options.branch!r}",
            table=table_name,
            next_step="give one of them",
        )
    return options.branch or named


def run_write(table: Table, write: Write) -> None:
    """Writes and commits, as one version of the table.

    Raises:
        SchemaMismatchError: the columns do not fit, are in another order, or a value does not fit.
        InvalidSchemaError: columns that are to be merged cannot be.
        CommitInvalidatedError: others did what the isolation level forbids.
        And as `Table.append` and `Table.overwrite`.
    """
    if not write.options.merges_schema:
        _put(table, table.metadata, write)
        return
    with table.transaction() as transaction:
        write_within(transaction, write)


def write_within(transaction: Transaction, write: Write) -> None:
    """The rows, and where columns are to be merged those that the table has no room for, as parts of a transaction. Raises as `run_write`."""
    if write.options.merges_schema:
        rows = _in_tables_spelling(write.rows, transaction.table_metadata.schema())
        with transaction.update_schema() as update:
            update.union_by_name(struct_to_schema(rows.schema))
    _put(transaction, transaction.table_metadata, write)


def _put(changes: RowMutations, metadata: TableMetadata, write: Write) -> None:
    options, schema = write.options, metadata.schema()
    rows = _in_tables_spelling(write.rows, schema)
    # Of a column that may hold null in older files Spark was told so: it leaves the test of every value to the tasks, which refuse a null.
    _check(rows.schema, Schema(*relax_required_fields(schema.fields, metadata.schemas)), options)
    given = RowsInForm(rows=rows, form=options.form)
    properties, branch = options.snapshot_properties, write.branch or MAIN
    isolation: dict[str, Any] = {"isolation_level": options.isolation_level, "validate_from_snapshot_id": options.validate_from}
    replaces_partitions = write.whole_partitions or (options.overwrites_partitions and isinstance(write.overwrite_filter, AlwaysTrue))
    with branch_named(is_named=write.branch is not None):
        if replaces_partitions and not (options.form.spec or metadata.spec()).is_unpartitioned:
            changes.dynamic_partition_overwrite(given, properties, branch, **isolation)
        elif replaces_partitions:  # the one partition of a table that is not partitioned; without rows it is not named, and stays
            if not rows.isEmpty():
                changes.overwrite(given, AlwaysTrue(), properties, branch=branch, **isolation)
        elif write.overwrite_filter is not None:
            changes.overwrite(given, write.overwrite_filter, properties, branch=branch, **isolation)
        else:
            changes.append(given, properties, branch)


def _in_tables_spelling(rows: DataFrame, schema: Schema) -> DataFrame:
    """The rows with columns named as the table names them, where Spark does not tell upper from lower case."""
    if str(rows.sparkSession.conf.get(CASE_SENSITIVE, "false")).lower() == "true":
        return rows
    own = set(schema.names)
    by_lower = {name.lower(): name for name in schema.names}
    new = {name: by_lower[name.lower()] for name in rows.columns if name not in own and name.lower() in by_lower}
    if not new:
        return rows
    return rows.select(*(column_named(name).alias(new.get(name, name)) for name in rows.columns))


def _check(rows: StructType, schema: Schema, options: WriteOptions) -> None:
    """What Spark leaves to us where the table accepts any schema."""
    problems = list(_problems(rows, schema.fields, (), options))
    if problems:
        raise SchemaMismatchError(
            "the DataFrame does not fit the table",
            problems=problems,
            next_step="select the columns in the table's order, without nulls where the table has none; or switch the check off: "
            "check-ordering, check-nullability",
        )


def _problems(rows: StructType, fields: Sequence[NestedField], path: tuple[str, ...], options: WriteOptions) -> Iterator[Problem]:
    own = {field.name: field for field in fields}
    shared = [field for field in rows.fields if field.name in own]
    if options.checks_ordering:
        wanted = [field.name for field in fields if field.name in set(rows.names)]
        found = [field.name for field in shared]
        if wanted != found:
            yield Problem(
                where=".".join(path) or "columns", what=f"are in the order {', '.join(found)}, the table's in {', '.join(wanted)}"
            )
    for field in shared:
        target, here = own[field.name], (*path, field.name)
        if options.checks_nullability and field.nullable and target.required:
            yield Problem(where=".".join(here), what="may be null, and the table requires it")
        yield from _inner_problems(field.dataType, target.field_type, here, options)


def _inner_problems(found: DataType, wanted: IcebergType, path: tuple[str, ...], options: WriteOptions) -> Iterable[Problem]:
    if isinstance(found, StructType) and isinstance(wanted, IcebergStruct):
        return _problems(found, wanted.fields, path, options)
    if isinstance(found, ArrayType) and isinstance(wanted, ListType):
        return _inner_problems(found.elementType, wanted.element, (*path, "element"), options)
    if isinstance(found, SparkMap) and isinstance(wanted, MapType):
        return _inner_problems(found.valueType, wanted.value_type, (*path, "value"), options)
    return ()
