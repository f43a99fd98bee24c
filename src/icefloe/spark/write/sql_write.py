"""Writes of rows by Spark SQL and DataFrames: parse the options, check the columns against the table, and append or overwrite.

A write is a single commit, even if it adds columns. `write_options.py` has the options. Spec: Writing Data Files; Schema Evolution; Snapshots.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, DataType, StructField, StructType
from pyspark.sql.types import MapType as SparkMap

from icefloe.errors import InvalidInputError, Problem, SchemaMismatchError
from icefloe.operations.staging import branch_named
from icefloe.operations.warnings_once import warn_once
from icefloe.operations.write_result import WriteResult
from icefloe.spark.bridge.gateway import static_method
from icefloe.spark.scan.read_options import warn_of_settings
from icefloe.spark.types.spark_types import column_named, struct_to_schema
from icefloe.spark.write.formatted_rows import RowsInForm
from icefloe.spark.write.write_options import SETTINGS, UNUSED_WRITE_OPTIONS, WriteOptions, write_options
from icefloe.spec.expressions.predicate import AlwaysTrue, BooleanExpression
from icefloe.spec.metadata.snapshot_ref import MAIN
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.schema.schema import Schema
from icefloe.spec.schema.schema_history import relax_required_fields
from icefloe.spec.types import IcebergType, ListType, MapType, NestedField
from icefloe.spec.types import StructType as IcebergStruct
from icefloe.table.table_mutations import TableMutations
from icefloe.table.transaction import Transaction

CASE_SENSITIVE = "spark.sql.caseSensitive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A write of rows to a table, with its options parsed.

    Attributes:
        rows: the rows to write.
        options: the write's options.
        branch: the branch; None for main.
        overwrite_filter: a filter that matches the rows to replace; None for an append.
        whole_partitions: True if the partitions that contain the new rows are replaced.
        upserts: True if each row replaces the row with the same key.
    """

    rows: DataFrame
    options: WriteOptions
    branch: str | None = None
    overwrite_filter: BooleanExpression | None = None
    whole_partitions: bool = False
    upserts: bool = False


def options_of_write(spark: SparkSession, options: Mapping[str, str], metadata: TableMetadata, table_name: str) -> WriteOptions:
    """Parse the options of a write, with the session's settings as defaults. Warn about what has no effect. Raises the errors of `write_options`."""
    settings = json.loads(static_method(spark, "PythonBridge", "settings", spark._jsparkSession.sessionState().conf()))
    warn_of_settings(spark, settings, SETTINGS)
    for name in sorted({key.lower() for key in options} & UNUSED_WRITE_OPTIONS.keys()):
        warn_once(str(spark._jsparkSession.sessionUUID()), "write option", name, UNUSED_WRITE_OPTIONS[name])
    return write_options(options, settings, metadata, table_name)


def branch_of(options: WriteOptions, branch_in_name: str | None, table_name: str) -> str | None:
    """Return the branch of a write, from its option or from the table's name; None if neither has one. Raises `InvalidInputError` if they differ."""
    if branch_in_name is not None and options.branch not in (None, branch_in_name):
        raise InvalidInputError(
            f"the table is named with the branch {branch_in_name!r}, and the write option branch is {options.branch!r}",
            table=table_name,
            next_step="give one of them",
        )
    return options.branch or branch_in_name


def run_write(changes: TableMutations, write: Write, transaction: Callable[[], Transaction]) -> WriteResult | None:
    """Run a write in a single commit, also if it adds columns, and return the result; None if there was nothing to write.

    Args:
        changes: the table.
        write: the write.
        transaction: starts a transaction of the table.

    Raises:
        SchemaMismatchError: the columns do not fit or are in a different order, or a value does not fit.
        InvalidSchemaError: `merge-schema` cannot add or widen a column.
        CommitInvalidatedError: a concurrent commit made a change that conflicts with the isolation level.
        IcefloeError: the errors of `Table.append` and `Table.overwrite`.
    """
    if not write.options.merges_schema:
        return _write(changes, changes.mutation_context().metadata, write)
    with transaction() as changes_together:
        return write_within(changes_together, write)


def statement_counts(result: WriteResult | None) -> dict[str, int | None] | None:
    """Return the row that a SQL statement shows for its result, by column name (see `bridge/java/RowStatement.java`); None if there is no result.

    It also has the numbers that only Spark's SQL tab shows (`bridge/java/WriteMetrics.java`).
    """
    if result is None:
        return None
    inserted, deleted = result.inserted_records, result.deleted_records
    return {
        "num_affected_rows": None if deleted is None else inserted + result.rows_updated + deleted,
        "num_inserted_rows": inserted,
        "num_updated_rows": result.rows_updated,
        "num_deleted_rows": deleted,
        "num_added_files": result.added_files,
        "num_removed_files": result.removed_files,
        "num_added_delete_files": result.added_delete_files,
        "snapshot_id": result.snapshot_id,
        "added_bytes": result.added_bytes,
        # A write in a transaction, such as CREATE TABLE AS SELECT, is committed later.
        "commit_attempts": result.attempts or None,
        "commit_ms": result.commit_ms if result.attempts else None,
    }


def write_within(transaction: Transaction, write: Write) -> WriteResult | None:
    """Add a write, and the columns that `merge-schema` adds, to a transaction. Return the result of the write. Raises the errors of `run_write`."""
    if write.options.merges_schema:
        rows = _with_table_names(write.rows, transaction.table_metadata.schema())
        with transaction.update_schema() as update:
            update.union_by_name(struct_to_schema(rows.schema))
    return _write(transaction, transaction.table_metadata, write)


def _write(changes: TableMutations, metadata: TableMetadata, write: Write) -> WriteResult | None:
    options, schema = write.options, metadata.schema()
    rows = _with_table_names(write.rows, schema)
    # A required column with nulls in older files is nullable in Spark, and so are rows that are read from it; tasks refuse nulls.
    _check(rows.schema, Schema(*relax_required_fields(schema.fields, metadata.schemas)), options)
    rows_in_form = RowsInForm(rows=rows, form=options.form)
    properties, branch = options.snapshot_properties, write.branch or MAIN
    isolation: dict[str, Any] = {"isolation_level": options.isolation_level, "validate_from_snapshot_id": options.validate_from}
    replaces_partitions = write.whole_partitions or (options.overwrites_partitions and isinstance(write.overwrite_filter, AlwaysTrue))
    with branch_named(is_named=write.branch is not None):
        if write.upserts:
            is_case_sensitive = _is_case_sensitive(rows.sparkSession)
            return changes.upsert(
                rows_in_form, options.key_columns, case_sensitive=is_case_sensitive, branch=branch, snapshot_properties=properties
            )
        if options.key_columns is not None:
            raise InvalidInputError(
                "the write option key-columns is an option of streams with the output mode update",
                next_step="leave it out; or call table.upsert(df, join_cols=[...])",
            )
        if replaces_partitions and not (options.form.spec or metadata.spec()).is_unpartitioned():
            return changes.dynamic_partition_overwrite(rows_in_form, properties, branch, **isolation)
        if replaces_partitions:  # an unpartitioned table is a single partition, which a write without rows does not replace
            return None if rows.isEmpty() else changes.overwrite(rows_in_form, AlwaysTrue(), properties, branch=branch, **isolation)
        if write.overwrite_filter is not None:
            return changes.overwrite(rows_in_form, write.overwrite_filter, properties, branch=branch, **isolation)
        return changes.append(rows_in_form, properties, branch)


def _is_case_sensitive(spark: SparkSession) -> bool:
    return str(spark.conf.get(CASE_SENSITIVE, "false")).lower() == "true"


def _with_table_names(rows: DataFrame, schema: Schema) -> DataFrame:
    """Rename columns and struct fields of rows that differ only by case from names of the table, unless the session is case-sensitive."""
    if _is_case_sensitive(rows.sparkSession):
        return rows
    struct = rows.schema
    spelled = _respell(struct, schema.fields)
    if spelled == struct:
        return rows
    columns = []
    for field, target in zip(struct.fields, spelled.fields, strict=True):
        # Spark casts structs by the positions of their fields.
        column = column_named(field.name) if field.dataType == target.dataType else column_named(field.name).cast(target.dataType)
        columns.append(column.alias(target.name))
    return rows.select(*columns)


def _respell(struct: StructType, fields: Sequence[NestedField]) -> StructType:
    """Return a struct with names that differ only by case from names in `fields` replaced by these, at every level."""
    exact = {field.name: field for field in fields}
    by_lower = {field.name.lower(): field for field in fields if field.name not in struct.names}
    spelled = []
    for field in struct.fields:
        match = exact.get(field.name) or by_lower.pop(field.name.lower(), None)
        kind = field.dataType if match is None else _spelled_type(field.dataType, match.field_type)
        spelled.append(StructField(field.name if match is None else match.name, kind, field.nullable, field.metadata))
    return StructType(spelled)


def _spelled_type(kind: DataType, table_type: IcebergType) -> DataType:
    if isinstance(kind, StructType) and isinstance(table_type, IcebergStruct):
        return _respell(kind, table_type.fields)
    if isinstance(kind, ArrayType) and isinstance(table_type, ListType):
        return ArrayType(_spelled_type(kind.elementType, table_type.element), kind.containsNull)
    if isinstance(kind, SparkMap) and isinstance(table_type, MapType):
        key, value = _spelled_type(kind.keyType, table_type.key_type), _spelled_type(kind.valueType, table_type.value_type)
        return SparkMap(key, value, kind.valueContainsNull)
    return kind


def _check(rows: StructType, schema: Schema, options: WriteOptions) -> None:
    """Raise `SchemaMismatchError` for columns in a wrong order, and for nullable columns of required columns, unless the options switch these checks off.

    Spark does not check the columns itself if the table has `write.spark.accept-any-schema`.
    """
    problems = list(_problems(rows, schema.fields, (), options))
    if problems:
        raise SchemaMismatchError(
            "the DataFrame does not fit the table",
            problems=problems,
            next_step="select the columns in the table's order, without nulls where the table has none; or switch the check off: "
            "check-ordering, check-nullability",
        )


def _problems(rows: StructType, fields: Sequence[NestedField], path: tuple[str, ...], options: WriteOptions) -> Iterator[Problem]:
    table_fields = {field.name: field for field in fields}
    shared = [field for field in rows.fields if field.name in table_fields]
    if options.checks_ordering:
        table_order = [field.name for field in fields if field.name in set(rows.names)]
        row_order = [field.name for field in shared]
        if table_order != row_order:
            yield Problem(
                where=".".join(path) or "columns", what=f"are in the order {', '.join(row_order)}, the table's in {', '.join(table_order)}"
            )
    for field in shared:
        target, field_path = table_fields[field.name], (*path, field.name)
        if options.checks_nullability and field.nullable and target.required:
            yield Problem(where=".".join(field_path), what="may be null, and the table requires it")
        yield from _inner_problems(field.dataType, target.field_type, field_path, options)


def _inner_problems(row_type: DataType, table_type: IcebergType, path: tuple[str, ...], options: WriteOptions) -> Iterable[Problem]:
    if isinstance(row_type, StructType) and isinstance(table_type, IcebergStruct):
        return _problems(row_type, table_type.fields, path, options)
    if isinstance(row_type, ArrayType) and isinstance(table_type, ListType):
        return _inner_problems(row_type.elementType, table_type.element, (*path, "element"), options)
    if isinstance(row_type, SparkMap) and isinstance(table_type, MapType):
        return _inner_problems(row_type.valueType, table_type.value_type, (*path, "value"), options)
    return ()
