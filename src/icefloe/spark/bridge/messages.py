"""The types of messages that Spark's connector objects in the JVM send to Python.

A message consists of the name of a method and its arguments. `bridge/java/ConnectorJson.java` writes values as JSON; objects that only Spark can read, such as
rows and plans, arrive as Py4J's `JavaObject`. The parameters of methods marked with `@connector_method` are annotated with the types of this module, and
`callback.py` compares each argument with its annotation before the method runs. Additional keys are allowed, because a newer Spark may send more.
"""

from collections.abc import Mapping
from typing import Any, Literal, NotRequired, TypedDict


class NoFields(TypedDict):
    """A message without fields."""


class NamespaceMessage(TypedDict):
    """The name of a namespace, as its parts; empty for the root."""

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
    """A namespace to drop; with `cascade` also its tables and namespaces."""

    cascade: bool


class TableMessage(TypedDict):
    """The name of a table, as its parts, without the catalog."""

    table: list[str]


class TableToLoad(TableMessage):
    """A table to load: its current state, a `version` (snapshot id, branch or tag), or its state at a `timestamp` in microseconds since 1970-01-01 UTC.

    `known_state` is the state of the table for which Java already has the description.
    """

    version: NotRequired[str]
    timestamp: NotRequired[int]
    known_state: NotRequired[str]


class ChangelogRange(TypedDict):
    """A range of versions or times. `kind` is the name of Spark's class: `VersionRange`, `TimestampRange` (microseconds since 1970) or `UnboundedRange`.

    An unbounded range has neither bounds nor whether they are inclusive.
    """

    kind: str
    startingVersion: NotRequired[str]
    endingVersion: NotRequired[str | None]
    startingTimestamp: NotRequired[int]
    endingTimestamp: NotRequired[int | None]
    startingBoundInclusive: bool | None
    endingBoundInclusive: bool | None


class ChangelogContext(TypedDict):
    """The clause CHANGES of a query: the range, the deduplication mode as `NONE`, `DROP_CARRYOVERS` or `NET_CHANGES`, and whether updates are computed."""

    range: ChangelogRange
    deduplicationMode: str
    computeUpdates: bool


class ChangelogToLoad(TableMessage):
    """A table whose changes are read, with the options of the read."""

    context: ChangelogContext
    options: dict[str, str]


class TablesToLoad(TypedDict):
    """The tables of one catalog in a statement, in their current state."""

    tables: list[TableToLoad]


class TableRename(TableMessage):
    """A table to rename; `to` is the new name."""

    to: list[str]


class Expression(TypedDict):
    """An expression of Spark's connector interface.

    `kind` is `reference` (with `parts`), `literal` (`type` in Spark's JSON, `value` as text, for bytes hexadecimal digits, None for null), `transform` (`name`,
    `arguments`), `call` or `function` (`name`, `children`), `cast` (`type`, `children`), or otherwise the name of the class (`children`, `text`).
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
    """The aggregates of a query, and its grouping expressions."""

    aggregateExpressions: list[Expression]
    groupByExpressions: list[Expression]


class DefaultValue(TypedDict):
    """The default of a column: its text in the statement and, if it is a literal, its value."""

    getSql: str | None
    getValue: NotRequired[Expression | None]


class ColumnDefinition(TypedDict):
    """A column to create; `dataType` is Spark's type in JSON."""

    name: str
    dataType: str
    nullable: bool
    comment: str | None
    defaultValue: NotRequired[DefaultValue | None]


class TableDefinition(TableMessage):
    """A table to create; `partitioning` are the transforms in order."""

    columns: list[ColumnDefinition]
    partitioning: list[Expression]
    properties: dict[str, str]


class StagedTableDefinition(TableDefinition):
    """A table that a statement creates or replaces together with its rows, in one commit."""

    how: Literal["create", "replace", "create or replace"]


class TableChangeMessage(TypedDict):
    """A change of a table.

    `kind` is the name of the class in Spark's `TableChange`, such as `AddColumn`. The other keys have the names of that class's methods: `fieldNames` is the
    path of a column, types are in Spark's JSON.
    """

    kind: str
    property: NotRequired[str]
    value: NotRequired[str | None]
    fieldNames: NotRequired[list[str]]


class TableChanges(TableMessage):
    """Changes of a table, in the order of the statement."""

    changes: list[TableChangeMessage]


class FunctionMessage(TypedDict):
    """The name of a function, as its parts, without the catalog."""

    function: list[str]


class ProcedureMessage(TypedDict):
    """The name of a procedure, as its parts, without the catalog."""

    procedure: list[str]


class Sample(TypedDict):
    """A sample of files: those whose number, from 0 to 1 and by the seed, is not below `lower` and is below `upper`."""

    lower: float
    upper: float
    seed: int


class ReadQuery(TypedDict):
    """The query that Spark pushed to a scan.

    Attributes:
        options: The options of the read.
        zone: The time zone of the session.
        settings: The settings of the session that Icefloe reads: those below `spark.sql.iceberg.` and `spark.icefloe.`, `spark.wap.branch`, and those
            by which Spark's reader of variants differs.
        split_bytes: The split size of the session in bytes.
        uses_statistics: Whether the session's optimizer is cost-based, or shows statistics in plans.
        groups_partitions: Whether the session uses storage-partitioned joins.
        filters: The pushed predicates.
        schema: The needed columns, in Spark's JSON.
        limit: The number of rows that the query needs.
        sample: The sample of files that the query reads.
        aggregation: The pushed aggregates.
        is_stream: Whether a streaming query reads; otherwise missing.
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
    sample: NotRequired[Sample]
    aggregation: NotRequired[Aggregation]
    is_stream: NotRequired[bool]


class LimitsMessage(TypedDict):
    """The limits that Spark sets for a batch of a stream."""

    files: NotRequired[int]
    rows: NotRequired[int]
    bytes: NotRequired[int]


class FirstRows(TypedDict):
    """The first rows that a query with ORDER BY and LIMIT needs.

    Attributes:
        column: The first column of the order.
        is_descending: Whether the order of this column is descending.
        nulls_first: Whether nulls are before other values.
        is_only_column: Whether there are no further columns in the order.
        count: The number of rows, including those of an OFFSET.
        filters: The conditions of the query on the rows.
    """

    column: str
    is_descending: bool
    nulls_first: bool
    is_only_column: bool
    count: int
    filters: list[Expression]


class WriteInfo(TypedDict):
    """The fields of Spark's `LogicalWriteInfo`, which describes a write. For a stream, `queryId` is the id of the query in its checkpoint."""

    options: dict[str, str]
    queryId: str


# Which rows of its target a MERGE that only inserts has read: those of the scans on which Java called `note_merge_target`, all rows, or none.
MergeReads = Literal["scanned", "all", "none"]


class RowLevelOperationInfo(TypedDict):
    """The fields of Spark's `RowLevelOperationInfo`, which describes a DELETE, UPDATE or MERGE."""

    command: Literal["DELETE", "UPDATE", "MERGE"]
    options: dict[str, str]


class StatementMessage(TypedDict):
    """A statement that Spark's parser passes to Icefloe.

    `kind` is the class name of the plan to which Spark parsed the statement; None if Spark could not parse it; absent if the statement is to run now. When
    Python parses the statement, it adds the other keys: the name of the table, in a rename the new name, and whether it is a view. Errors need them.
    """

    text: str
    kind: NotRequired[str | None]
    table: NotRequired[list[str]]
    to: NotRequired[list[str]]
    is_of_view: NotRequired[bool]


class ObjectDescription(TypedDict):
    """The description of a connector object, which is sent to `PythonProxy.java` once.

    `interfaces` are the names of Spark's interfaces within `org.apache.spark.sql.connector`. Objects with equal `identity` are equal. `state` is the result of
    `ConnectorObject.state`. `constants` are the results of methods that never change, by method name. `methods` are the names of the Python methods, by the
    name and number of parameters of the Java method, such as `pushPredicates/1`.
    """

    interfaces: tuple[str, ...]
    identity: str | None
    state: str | None
    constants: Mapping[str, Any]
    methods: Mapping[str, str]
