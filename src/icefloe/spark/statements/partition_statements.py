"""SHOW PARTITIONS: the partitions that have files, one a line, as their folders are called: `day=2024-01-31/kind=a`.

Spark parses it and asks tables for Hive's partition management, which has no place for several specs. Spec: Partitioning; Partition Evolution.
"""

from collections.abc import Iterator, Mapping

from pyspark.sql import SparkSession

from icefloe.errors import InvalidInputError, NoSuchTableError
from icefloe.kernel.metadata.manifests import spec_partition_type, spec_schema
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.partitioning.partition_spec import partition_path
from icefloe.kernel.scan.planned_files import PlannedFiles
from icefloe.kernel.types import PrimitiveType
from icefloe.spark.catalog.attached_catalogs import found_in
from icefloe.spark.catalog.sql_tokens import Tokens
from icefloe.spark.scan.table_selector import TableSelection, select
from icefloe.spark.statements.view_statements import Rows, Statement

# The text of each field asked for, by its name in lower case; None for null.
Wanted = Mapping[str, str | None]
_TYPES = ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ")


def partition_statement(spark: SparkSession, text: str) -> Statement | None:
    """The statement, or None where it is none of these, or is about a table of others or one that is not there. Raises `StatementSyntaxError`."""
    tokens = Tokens(text)
    if not tokens.take("SHOW", "PARTITIONS"):
        return None
    place = found_in(spark, tokens.dotted_name())
    if place is None:
        return None
    wanted = _wanted(tokens) if tokens.take("PARTITION") else {}
    tokens.end()
    answers, name = place
    try:
        selected = select(answers.catalog, name)
    except NoSuchTableError:
        return None  # Spark says so itself
    return Statement(name=name, run=lambda: _shown(selected, wanted), names=("partition",))


def _wanted(tokens: Tokens) -> Wanted:
    found: dict[str, str | None] = {}
    tokens.expect("(")
    while True:
        name = ".".join(tokens.dotted_name()).lower()
        tokens.expect("=")
        found[name] = _value(tokens)
        if not tokens.take(","):
            break
    tokens.expect(")")
    return found


def _value(tokens: Tokens) -> str | None:
    """A value as a partition's name has it; numbers with a point are written as texts."""
    if tokens.take("NULL"):
        return None
    any(tokens.take(word) for word in _TYPES)
    if tokens.is_string():
        return tokens.string()
    for word in ("TRUE", "FALSE"):
        if tokens.take(word):
            return word.lower()
    return str(tokens.number())


def _shown(selected: TableSelection, wanted: Wanted) -> Rows:
    """Raises `InvalidInputError` where the table never was partitioned, or has no such field."""
    table = selected.table
    fields = {field.name.lower(): field.name for spec in table.metadata.partition_specs for field in spec.fields}
    if not fields:
        raise InvalidInputError(
            f"{table.full_name} is not partitioned", table=table.full_name, next_step="see its files in the table .files"
        )
    unknown = sorted(set(wanted) - set(fields))
    if unknown:
        known = ", ".join(sorted(fields.values()))
        raise InvalidInputError(
            f"{table.full_name} has no partition field {unknown[0]!r}", table=table.full_name, next_step=f"its fields are {known}"
        )
    paths = {path for part in selected.scan().plan().parts for path in _paths(part, table.metadata, wanted)}
    return [(path,) for path in sorted(paths) if path]


def _paths(part: PlannedFiles, metadata: TableMetadata, wanted: Wanted) -> Iterator[str]:
    spec = metadata.spec_by_id(part.spec_id)
    kinds = [field.field_type for field in spec_partition_type(metadata, part.spec_id).fields]
    schema = spec_schema(metadata, part.spec_id)
    for values in set(part.partitions(part.entries)):
        texts = {
            field.name.lower(): None if value is None else field.transform.to_human(kind, value)
            for field, kind, value in zip(spec.fields, kinds, values, strict=True)
            if isinstance(kind, PrimitiveType)
        }
        if all(name in texts and texts[name] == text for name, text in wanted.items()):
            yield partition_path(spec, schema, values)
