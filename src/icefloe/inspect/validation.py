"""`validate`: what breaks the rules of the specification in a table, a namespace or a catalog. The rules and the run are in `icefloe.checks`."""

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from icefloe.catalog.catalog import Catalog
from icefloe.checks.catalog_rules import orphan_findings
from icefloe.checks.catalog_validation import validate_catalog, validate_named, with_findings
from icefloe.checks.finding import MOST_FINDINGS, Finding, Severity
from icefloe.checks.sarif import sarif_of
from icefloe.checks.table_validation import ValidationArguments, ValidationProgress, ValidationResult, depths_of, validate_table
from icefloe.checks.validation_report import reaches, validation_report
from icefloe.display.figures.bars import Bar, Bars
from icefloe.display.report import Report
from icefloe.display.reportable import MOST_LINES, Reportable
from icefloe.formatting import count_text, shortened
from icefloe.table.table import Table
from icefloe.table.table_handle import has_no_file
from icefloe.table.table_reader import TableReader


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Validation(Reportable):
    """The findings of a validation by table.

    Attributes:
        name: The table, namespace or catalog.
        tables: The result of each table.
        fail_on: The least severity that counts as a fault; None if no finding does.
    """

    name: str
    tables: tuple[ValidationResult, ...]
    fail_on: Severity | None = Severity.ERROR

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of all tables."""
        return tuple(finding for result in self.tables for finding in result.findings)

    @property
    def has_faults(self) -> bool:
        """True if there is a finding of the severity `fail_on` or a graver one."""
        return reaches(self.tables, self.fail_on)

    def report(self, most: int | None = MOST_LINES) -> Report:
        report = validation_report(self.name, self.tables, most)
        return replace(report, parts=(*report.parts, self.figure())) if self.findings else report

    def figure(self) -> Bars:
        """Return the findings by their severity as bars."""
        counts = Counter(finding.severity for finding in self.findings)
        bars = tuple(Bar(name=severity.value, count=counts[severity], needs_care=severity is Severity.ERROR) for severity in Severity)
        summary = f"{count_text(len(self.findings), 'finding')} of {count_text(len({one.rule for one in self.findings}), 'rule')}."
        return Bars(title=f"Findings of {shortened(self.name)}", summary=summary, bars=bars, unit="findings", axis="severity")

    def to_sarif(self) -> dict[str, Any]:
        """Return the findings as a SARIF 2.1.0 log."""
        return sarif_of(self.tables)


def validate(
    source: TableReader | Catalog,
    name: str | None = None,
    *,
    current_only: bool = False,
    snapshot: str | None = None,
    files: bool = False,
    data: bool = False,
    values: bool = False,
    orphans: bool = False,
    most_findings: int = MOST_FINDINGS,
    progress: ValidationProgress | None = None,
) -> Validation:
    """Find what breaks the rules of the specification: in a table, or in the tables of a catalog. Nothing is changed.

    Args:
        source: The table, or the catalog.
        name: Of a catalog only: a table, which need not be readable, or a namespace; by default every table.
        current_only: Validate the current snapshot only, in place of all snapshots of the metadata file.
        snapshot: Validate this snapshot only: its id as text, or a branch or tag.
        files: Check too that each data file, delete file and statistics file exists and has its size: one request for each.
        data: Check also what footers, headers, delete files and statistics files have; no rows of data files are read.
        values: Check also all rows of data files: metrics, partition values, sort order and row ids.
        orphans: List also the files in the table's folder that nothing references.
        most_findings: How many findings of each rule are returned for each table; the others are counted.
        progress: Is updated during the run.

    Returns:
        The findings. A damaged file is one of them.

    Raises:
        NoSuchSnapshotError: The table does not have the snapshot.
        NoSuchTableError: The catalog has no table or namespace of the name.
        StorageUnavailableError: The storage does not respond.
    """
    arguments = ValidationArguments(
        current_only=current_only,
        snapshot=snapshot,
        depths=depths_of(files=files, data=data, values=values, orphans=orphans),
        most_findings=most_findings,
    )
    if isinstance(source, TableReader):
        sent = source.metadata if has_no_file(source.metadata_location) else None
        result = validate_table(source.full_name, source.metadata_location, source.io, arguments, progress, sent)
        if orphans and isinstance(source, Table):
            result = with_findings(result, orphan_findings(source), arguments)
        return Validation(name=source.full_name, tables=(result,))
    if name is None or is_namespace(source, name):
        return Validation(name=name or source.name, tables=validate_catalog(source, name or "", arguments, progress))
    return Validation(name=name, tables=(validate_named(source, name, arguments, progress),))


def is_namespace(source: Catalog, name: str) -> bool:
    """Return whether a name is that of a namespace and not of a table."""
    return len(source.levels(name)) == 1 or (not source.table_exists(name) and source.namespace_exists(name))
