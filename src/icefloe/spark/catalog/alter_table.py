"""ALTER TABLE: apply the changes that Spark parsed from a statement to a table, in one commit.

Iceberg's SQL extensions, which Spark does not parse, are in `statements/alter_statements.py`.
Spec: Schema Evolution; Default values; Table Metadata Fields.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import DataType

from icefloe.errors import IcefloeError, InvalidInputError, InvalidSchemaError, UnsupportedFeatureError
from icefloe.operations.changes.update_schema import UpdateSchema
from icefloe.spark.catalog.column_defaults import default_of_clause, evaluated_default
from icefloe.spark.catalog.table_definition import iceberg_type
from icefloe.spark.types.declared_types import COLLATION, check_collation, declared_types, takes_char_as_string
from icefloe.table.table import Table
from icefloe.table.transaction import Transaction

Change = Mapping[str, Any]

_STATEMENTS_OF_PROPERTIES = {
    "sort-order": "ALTER TABLE ... WRITE ORDERED BY ...",
    "identifier-fields": "ALTER TABLE ... SET IDENTIFIER FIELDS ...",
}
# Properties that SHOW TBLPROPERTIES adds; statements cannot set them.
_SHOWN_ONLY = ("provider", "format", "metadata-location")
_PROPERTY_CHANGES = ("SetProperty", "RemoveProperty")


def alter(spark: SparkSession, table: Table, changes: Sequence[Change]) -> None:
    """Apply all changes of an ALTER TABLE statement in one commit.

    Properties are changed first, because the changes of columns may need a new format version.

    Args:
        spark: the session, which evaluates defaults.
        table: the table to change.
        changes: Spark's `TableChange` objects as mappings (`TableChangeMessage`).

    Raises:
        UnsupportedFeatureError: Iceberg tables do not support a kind of change or property.
        InvalidSchemaError: the schema does not allow a change.
        InvalidInputError: a value is not allowed.
        InvalidPropertyError: a property has a value that is not allowed.
        CommitConflictError: concurrent commits changed the table, and the retries failed.
    """
    with table.transaction() as tx:
        for change in changes:
            if change["kind"] in _PROPERTY_CHANGES:
                _change_property(tx, change)
        change_columns(spark, tx, [change for change in changes if change["kind"] not in _PROPERTY_CHANGES])


def change_columns(spark: SparkSession, tx: Transaction, changes: Sequence[Change]) -> None:
    """Add changes of columns to a transaction; `changes` are as for `alter`, without changes of properties. Raises the errors of `alter`."""
    if changes:
        with tx.update_schema() as update:
            for change in changes:
                _change_column(spark, update, change)


def supports_change(spark: SparkSession, table: Table, change: Change) -> bool:
    """Return whether a column can change as a statement WITH SCHEMA EVOLUTION requires; only changes of types are checked here.

    The result is False if the column cannot be promoted to the new type, or if Iceberg stores the new type as the current one (SMALLINT as INT).
    """
    if change["kind"] != "UpdateColumnType":
        return True
    update = table.update_schema()
    before = update.schema()
    try:
        _change_column(spark, update, change)
    except IcefloeError:
        return False
    return update.schema() != before


def _change_property(tx: Transaction, change: Change) -> None:
    name = change["property"]
    if change["kind"] == "RemoveProperty":
        tx.remove_properties(name)
    elif name.lower() == COLLATION:
        check_collation({name: change["value"]}, "the table")  # the default collation, which every column has, is not a property
    elif name.lower() == "location":
        tx.set_location(change["value"])
    elif name.lower() in ("current-snapshot-id", "cherry-pick-snapshot-id"):
        _change_snapshot(tx, name.lower(), change["value"])
    elif name.lower() in _STATEMENTS_OF_PROPERTIES:
        raise UnsupportedFeatureError(f"the property {name} cannot be set", next_step=f"use {_STATEMENTS_OF_PROPERTIES[name.lower()]}")
    elif name.lower() in _SHOWN_ONLY:
        raise UnsupportedFeatureError(f"the property {name} is shown, and cannot be set")
    else:
        tx.set_properties({name: change["value"]})


def _change_snapshot(tx: Transaction, name: str, value: str) -> None:
    if not value.lstrip("-").isdigit():
        raise InvalidInputError(f"{name} cannot be {value!r}: it is a snapshot's id", next_step="see the table's snapshots")
    with tx.manage_snapshots() as manage:
        if name == "current-snapshot-id":
            manage.set_current_snapshot(int(value))
        else:
            manage.cherry_pick(int(value))


def _change_column(spark: SparkSession, update: UpdateSchema, change: Change) -> None:
    apply_change = _COLUMN_CHANGES.get(change["kind"])
    if apply_change is None:
        raise UnsupportedFeatureError(f"Iceberg tables do not support the change {change['kind']}")
    apply_change(spark, update, change)


def _declared_type(spark: SparkSession, path: Sequence[str], text: str) -> DataType:
    [data_type] = declared_types([(".".join(path), text)], char_as_string=takes_char_as_string(spark))
    return data_type


def _add(spark: SparkSession, update: UpdateSchema, change: Change) -> None:
    path = tuple(change["fieldNames"])
    default = default_of_clause(change.get("defaultValue"), ".".join(path))
    field_type = iceberg_type(_declared_type(spark, path, change["dataType"]), ".".join(path))
    update.add_column(path, field_type, change["comment"], not change["isNullable"], default)
    _move_to(update, path, change.get("position"))


def _rename(_: SparkSession, update: UpdateSchema, change: Change) -> None:
    update.rename_column(tuple(change["fieldNames"]), change["newName"])


def _drop(_: SparkSession, update: UpdateSchema, change: Change) -> None:
    path = tuple(change["fieldNames"])
    if change["ifExists"] and update.schema().find_id(".".join(path)) is None:
        return
    update.delete_column(path)


def _set_type(spark: SparkSession, update: UpdateSchema, change: Change) -> None:
    path = tuple(change["fieldNames"])
    data_type = _declared_type(spark, path, change["newDataType"])
    field_type = iceberg_type(data_type, ".".join(path))
    if not field_type.is_primitive:
        raise InvalidSchemaError(
            f"column {'.'.join(path)} cannot become {data_type.simpleString()} as a whole",
            next_step="change its fields one by one",
        )
    update.update_column(path, field_type)


def _set_comment(_: SparkSession, update: UpdateSchema, change: Change) -> None:
    update.update_column(tuple(change["fieldNames"]), doc=change["newComment"])


def _set_nullable(_: SparkSession, update: UpdateSchema, change: Change) -> None:
    update.update_column(tuple(change["fieldNames"]), required=not change["nullable"])


def _move(_: SparkSession, update: UpdateSchema, change: Change) -> None:
    _move_to(update, tuple(change["fieldNames"]), change["position"])


def _set_default(spark: SparkSession, update: UpdateSchema, change: Change) -> None:
    path = tuple(change["fieldNames"])
    default = change["newCurrentDefault"] if "newCurrentDefault" in change else change["newDefaultValue"]
    sql = default.get("getSql") if isinstance(default, Mapping) else default
    if not sql:
        update.set_default_value(path, None)
        return
    field_type = update.schema().find_field(".".join(path)).field_type
    update.set_default_value(path, evaluated_default(spark, sql, field_type, ".".join(path)))


def _move_to(update: UpdateSchema, path: tuple[str, ...], position: Change | None) -> None:
    if position is None:
        return
    if position["kind"] == "After":
        update.move_after(path, (*path[:-1], position["column"]))
    else:
        update.move_first(path)


_COLUMN_CHANGES: Mapping[str, Callable[[SparkSession, UpdateSchema, Change], None]] = {
    "AddColumn": _add,
    "RenameColumn": _rename,
    "DeleteColumn": _drop,
    "UpdateColumnType": _set_type,
    "UpdateColumnComment": _set_comment,
    "UpdateColumnNullability": _set_nullable,
    "UpdateColumnPosition": _move,
    "UpdateColumnDefaultValue": _set_default,
}
