"""SHOW PARTITIONS: a row for each partition that has files, as the path of a partition folder: `day=2024-01-31/kind=a`.

Spark parses the statement, but runs it with an interface for Hive partitions, which cannot represent several partition specs.
Spec: Partitioning; Partition Evolution.
"""

from collections.abc import Iterator, Mapping

from pyspark.sql import SparkSession

from icefloe.errors import InvalidInputError, NoSuchTableError
from icefloe.scan.scan_plan import PlannedFiles
from icefloe.spark.catalog.attached_catalogs import resolve_name
from icefloe.spark.scan.table_selector import TableSelection, select
from icefloe.spark.statements.view_statements import Rows, ViewStatement
from icefloe.spec.metadata.snapshot_manifests import spec_partition_type, spec_schema
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.partitioning.partition_spec import partition_path
from icefloe.spec.sql_tokens import Tokens
from icefloe.spec.types import PrimitiveType

# Texts of partition values by field name in lower case; None for null.
PartitionFilter = Mapping[str, str | None]
_TYPES = ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ")


def partition_statement(spark: SparkSession, text: str) -> ViewStatement | None:
    """Parse SHOW PARTITIONS of a table in an attached catalog. Return None for other statements and tables. Raises `StatementSyntaxError`."""
    tokens = Tokens(text)
    if not tokens.take("SHOW", "PARTITIONS"):
        return None
    place = resolve_name(spark, tokens.dotted_name())
    if place is None:
        return None
    partition_filter = _partition_filter(tokens) if tokens.take("PARTITION") else {}
    tokens.end()
    spark_catalog, name = place
    try:
        selected = select(spark_catalog.catalog, name, spark_catalog.name)
    except NoSuchTableError:
        return None  # Spark reports that the table does not exist
    return ViewStatement(name=name, run=lambda: _partitions(selected, partition_filter), names=("partition",))


def _partition_filter(tokens: Tokens) -> PartitionFilter:
    values: dict[str, str | None] = {}
    tokens.expect("(")
    while True:
        name = ".".join(tokens.dotted_name()).lower()
        tokens.expect("=")
        values[name] = _value(tokens)
        if not tokens.take(","):
            break
    tokens.expect(")")
    return values


def _value(tokens: Tokens) -> str | None:
    """Parse a literal in a partition clause, and return it as text; None for NULL. Statements must write decimals as string literals."""
    if tokens.take("NULL"):
        return None
    any(tokens.take(word) for word in _TYPES)
    if tokens.is_string():
        return tokens.string()
    for word in ("TRUE", "FALSE"):
        if tokens.take(word):
            return word.lower()
    return str(tokens.number())


def _partitions(selected: TableSelection, partition_filter: PartitionFilter) -> Rows:
    """Return a row with the path of each partition that has files. Raises `InvalidInputError` if the table has no partition fields, or none with a name."""
    table = selected.table
    fields = {field.name.lower(): field.name for spec in table.metadata.partition_specs for field in spec.fields}
    if not fields:
        raise InvalidInputError(
            f"{table.full_name} is not partitioned", table=table.full_name, next_step="see its files in the table .files"
        )
    unknown = sorted(set(partition_filter) - set(fields))
    if unknown:
        names = ", ".join(sorted(fields.values()))
        raise InvalidInputError(
            f"{table.full_name} has no partition field {unknown[0]!r}", table=table.full_name, next_step=f"its fields are {names}"
        )
    paths = {path for part in selected.scan().plan().parts for path in _paths(part, table.metadata, partition_filter)}
    return [(path,) for path in sorted(paths) if path]


def _paths(part: PlannedFiles, metadata: TableMetadata, partition_filter: PartitionFilter) -> Iterator[str]:
    spec = metadata.spec_by_id(part.spec_id)
    field_types = [field.field_type for field in spec_partition_type(metadata, part.spec_id).fields]
    schema = spec_schema(metadata, part.spec_id)
    for values in set(part.partitions(part.entries)):
        texts = {
            field.name.lower(): None if value is None else field.transform.to_human(field_type, value)
            for field, field_type, value in zip(spec.fields, field_types, values, strict=True)
            if isinstance(field_type, PrimitiveType)
        }
        if all(name in texts and texts[name] == text for name, text in partition_filter.items()):
            yield partition_path(spec, schema, values)
