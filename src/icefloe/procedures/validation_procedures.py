"""The procedure that finds violations of the specification. Spec: Table Metadata; Snapshots; Manifest Lists; Manifests."""

from typing import Annotated

from icefloe.catalog.catalog import Catalog
from icefloe.checks.finding import MOST_FINDINGS
from icefloe.checks.table_validation import ValidationArguments, depths_of
from icefloe.errors import InvalidInputError
from icefloe.inspect.validation import validate_catalog, validate_named
from icefloe.procedures.procedure import Flag, Int, ProcedureOption, Rows, Text, procedure
from icefloe.spec.types import IntegerType, LongType, StringType


@procedure(
    ("table_name", StringType()),
    ("severity", StringType()),
    ("rule", StringType()),
    ("message", StringType()),
    ("snapshot_id", LongType()),
    ("file", StringType()),
    ("place", StringType()),
    ("entry", IntegerType()),
    ("path", StringType()),
    ("field_id", IntegerType()),
    ("expected", StringType()),
    ("actual", StringType()),
    ("next_step", StringType()),
    optional=("snapshot_id", "file", "place", "entry", "path", "field_id", "expected", "actual"),
)
def validate(
    catalog: Catalog,
    table: Text | None = None,
    namespace: Text | None = None,
    current_only: Annotated[Flag, ProcedureOption("--current", "Validate the current snapshot only, not all snapshots.")] = False,
    snapshot: Annotated[
        Text | None, ProcedureOption("--snapshot", "Validate this snapshot only: its id, or a branch or tag.", metavar="ID")
    ] = None,
    files: Annotated[Flag, ProcedureOption("--files", "Check too that each file exists and has its size.")] = False,
    data: Annotated[Flag, ProcedureOption("--data", "Check too footers of data files, delete files and statistics files.")] = False,
    values: Annotated[Flag, ProcedureOption("--values", "Check too all rows of data files: this reads the whole table.")] = False,
    orphans: Annotated[Flag, ProcedureOption("--orphans", "List too the files in the table's folder that nothing references.")] = False,
    max_findings: Annotated[
        Int,
        ProcedureOption("--max-findings", "List at most so many findings of each rule; the others are counted.", metavar="N", minimum=1),
    ] = MOST_FINDINGS,
) -> Rows:
    """Find violations of the specification in a table, a namespace or all tables. The result has a row for each finding."""
    if table is not None and namespace is not None:
        raise InvalidInputError("a table and a namespace are given", next_step="name one of them, or none for the whole catalog")
    if max_findings < 1:
        raise InvalidInputError(f"max_findings is {max_findings}", next_step="give a number of at least 1")
    arguments = ValidationArguments(
        current_only=current_only,
        snapshot=snapshot,
        depths=depths_of(files=files, data=data, values=values, orphans=orphans),
        most_findings=max_findings,
    )
    results = validate_catalog(catalog, namespace or "", arguments) if table is None else (validate_named(catalog, table, arguments),)
    return [
        (
            finding.table,
            finding.severity.value,
            finding.rule,
            finding.message,
            finding.snapshot_id,
            finding.file,
            finding.where,
            finding.entry,
            finding.path,
            finding.field_id,
            None if finding.expected is None else str(finding.expected),
            None if finding.actual is None else str(finding.actual),
            finding.next_step,
        )
        for result in results
        for finding in result.findings
    ]
