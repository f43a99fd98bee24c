"""Messages from Spark's connector objects in the JVM to Python: their named types.

A message is the name of a method and its arguments. `bridge/java/ConnectorJson.java` writes values as JSON; objects that only Spark can read, such as rows and
plans, arrive as Py4J's `JavaObject`. Methods marked with `@connector_method` annotate their parameters with the types of this module, and `callback.py`
compares each argument with its annotation before the method runs. Keys that a type does not list are allowed: a newer Spark may send more. What a message
means is decided by the method that receives it.
"""

from collections.abc import Mapping
from typing import Any, Literal, NotRequired, TypedDict


class NoFields(TypedDict):
    """A message without fields."""


class NamespaceMessage(TypedDict):
    """The name of a namespace, by its parts; empty for the root."""

    namespace: list[str]


class NamespaceDefinition(NamespaceMessage):
    """A namespace to create."""

    properties: dict[str, str]


class NamespaceChangeMessage(TypedDict):
    """A change of one property: `kind` is `SetProperty` or `RemoveProperty`."""

    kind: str
    property: NotRequired[str]
    value: NotRequired[str]


class NamespaceChanges(NamespaceMessage):
    """Changes of the properties of a namespace, in the order of the statement."""

    changes: list[NamespaceChangeMessage]


class NamespaceDrop(NamespaceMessage):
    """A namespace to drop; with `cascade` its tables and namespaces too."""

    cascade: bool


class TableMessage(TypedDict):
    """The name of a table, by its parts, without the catalog."""

    table: list[str]


class TableToLoad(TableMessage):
    """A table to load: as it is, of a `version` (snapshot id, branch or tag), or as of a `timestamp` in microseconds since 1970-01-01 UTC.

    `known_state` is the state of the table whose description Java has.
    """

    version: NotRequired[str]
    timestamp: NotRequired[int]
    known_state: NotRequired[str]


class TablesToLoad(TypedDict):
    """The tables of one catalog in a statement, as they are."""

    tables: list[TableToLoad]


class TableRename(TableMessage):
    """A table to rename; `to` is the new name."""

    to: list[str]


class Expression(TypedDict):
    """An expression of Spark's connector.

    `kind` is `reference` (with `parts`), `literal` (`type` in Spark's JSON, `value` as text, of bytes as hexadecimal digits, None for null), `transform`
    (`name`, `arguments`), `call` or `function` (`name`, `children`), `cast` (`type`, `children`), or the name of another class (`children`, `text`).
    """

    kind: str
    parts: NotRequired[list[str]]
    type: NotRequired[str]
    value: NotRequired[str | None]
    name: NotRequired[str]
    arguments: NotRequired[list["Expression"]]
    children: NotRequired[list["Expression"]]
    text: NotRequired[str]


class Aggregation(TypedDict):
    """Aggregates that a query computes, and what it groups them by."""

    aggregateExpressions: list[Expression]
    groupByExpressions: list[Expression]


class DefaultValue(TypedDict):
    """The default of a column: the text of the statement and, where it is a literal, its value."""

    getSql: str | None
    getValue: NotRequired[Expression | None]


class ColumnDefinition(TypedDict):
    """A column to create; `dataType` is Spark's type as JSON."""

    name: str
    dataType: str
    nullable: bool
    comment: str | None
    defaultValue: NotRequired[DefaultValue | None]


class TableDefinition(TableMessage):
    """A table to create; `partitioning` has the transforms in order."""

    columns: list[ColumnDefinition]
    partitioning: list[Expression]
    properties: dict[str, str]


class StagedTableDefinition(TableDefinition):
    """A table to create or replace together with its rows."""

    how: Literal["create", "replace", "create or replace"]


class TableChangeMessage(TypedDict):
    """A change of a table.

    `kind` is the name of the class in Spark's `TableChange`, such as `AddColumn`. The other keys are the methods of that class: `fieldNames` is the path of a
    column, types are Spark's JSON.
    """

    kind: str
    property: NotRequired[str]
    value: NotRequired[str | None]
    fieldNames: NotRequired[list[str]]


class TableChanges(TableMessage):
    """Changes of a table, in the order of the statement."""

    changes: list[TableChangeMessage]


class FunctionMessage(TypedDict):
    """The name of a function, by its parts, without the catalog."""

    function: list[str]


class ProcedureMessage(TypedDict):
    """The name of a procedure, by its parts, without the catalog."""

    procedure: list[str]


class ReadQuery(TypedDict):
    """What Spark pushed to a scan: options of the read, with the time `zone` of its session and the session's `settings` that Icefloe reads.

    The names of these begin with `spark.sql.iceberg.` or `spark.icefloe.`, or are `spark.wap.branch`. `split_bytes` is the session's size of splits in bytes,
    `uses_statistics` whether its optimizer is cost-based, `groups_partitions` whether it joins partitions that scans report, `schema` the columns that it
    needs, in Spark's JSON.
    """

    options: dict[str, str]
    zone: str
    settings: dict[str, str]
    split_bytes: int
    uses_statistics: bool
    groups_partitions: bool
    filters: NotRequired[list[Expression]]
    schema: NotRequired[str]
    limit: NotRequired[int]
    aggregation: NotRequired[Aggregation]


class WriteInfo(TypedDict):
    """The fields of Spark's `LogicalWriteInfo`, which describes a write."""

    options: dict[str, str]


# The rows of its target that a MERGE which only inserts has read: those of the scans that noted it, all rows, or none.
MergeReads = Literal["scanned", "all", "none"]


class RowLevelOperationInfo(TypedDict):
    """The fields of Spark's `RowLevelOperationInfo`, which describes a DELETE, UPDATE or MERGE."""

    command: Literal["DELETE", "UPDATE", "MERGE"]
    options: dict[str, str]


class StatementMessage(TypedDict):
    """A statement that Spark's parser hands over.

    `kind` is the name of the class of the plan that Spark parsed it to; None where Spark could not parse it; absent where the statement is to run now.
    The handler adds the other keys, which Spark's errors name.
    """

    text: str
    kind: NotRequired[str | None]
    table: NotRequired[list[str]]
    to: NotRequired[list[str]]
    is_of_view: NotRequired[bool]


class ObjectDescription(TypedDict):
    """What a connector object sends to `PythonProxy.java`, once.

    `interfaces` are the names of Spark's interfaces within `org.apache.spark.sql.connector`; objects with equal `identity` are equal; `state` is that of
    `ConnectorObject`; `constants` are the results of methods that never change, by the names of the methods; `methods` are the names of the Python methods by
    name and number of parameters of the Java ones, such as `pushPredicates/1`.
    """

    interfaces: tuple[str, ...]
    identity: str | None
    state: str | None
    constants: Mapping[str, Any]
    methods: Mapping[str, str]
