"""`Validation`: the violations of the specification in one or several tables, as a report, as SARIF, and as issues with their remedies."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from icefloe.checks.catalog_rules import orphan_findings
from icefloe.checks.finding import MOST_FINDINGS, Finding, Findings, Severity
from icefloe.checks.issue import MOST_PLACES, REPAIR, Issue, Weight
from icefloe.checks.repair_kinds import RepairKind, repairs_of
from icefloe.checks.rules import rule_named
from icefloe.checks.sarif import sarif_of
from icefloe.checks.table_validation import ValidationArguments, ValidationProgress, ValidationResult, depths_of, validate_table
from icefloe.display.figures.bars import Bar, Bars
from icefloe.display.report import Column, Part, Prose, Report, grid
from icefloe.display.reportable import MOST_LINES, Reportable
from icefloe.formatting import count_text, short_text, within
from icefloe.operations.loaded_table import LoadedTable, TableReader
from icefloe.operations.metadata_cache import has_no_file

# The severities, the gravest first.
SEVERITIES = (Severity.ERROR, Severity.WARNING, Severity.NOTE)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Validation(Reportable):
    """The findings of a validation, by table.

    Attributes:
        name: The name of the table, namespace or catalog that was validated.
        tables: The result of each table.
        fail_on: The least severity of a finding that makes the validation fail; None if no finding does.
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
        """Whether there is a finding of the severity `fail_on` or a graver one."""
        counts = self._severity_counts()
        return self.fail_on is not None and any(counts[severity] for severity in SEVERITIES[: SEVERITIES.index(self.fail_on) + 1])

    def issues(self, location: str) -> Iterator[Issue]:
        """Yield an issue for each violated rule, with the first places of its findings.

        Args:
            location: The folder of the table. Paths in the issues are relative to it.
        """
        by_rule: dict[str, list[Finding]] = {}
        for finding in self.findings:
            by_rule.setdefault(finding.rule, []).append(finding)
        counts = sum((Counter(result.counts) for result in self.tables), Counter())
        for rule_id, findings in by_rule.items():
            rule, repairs = rule_named(rule_id), repairs_of(rule_id)
            count = max(counts[rule_id], len(findings))
            yield Issue(
                weight=Weight[findings[0].severity.name],
                title=_title(findings[0].message, location, count),
                detail=f"{rule.title} {rule.harm}",
                places=tuple(_issue_place(finding, location) for finding in findings[:MOST_PLACES]),
                more=count - min(len(findings), MOST_PLACES),
                remedy=rule.remedy or (REPAIR if repairs else None),
                next_step=_repair_text(repairs[0]) if repairs else rule.next_step,
                rule=rule_id,
            )

    def report(self, most: int | None = MOST_LINES) -> Report:
        parts: list[Part] = []
        for result in self.tables:
            parts += _table_parts(result, most, is_only=len(self.tables) == 1)
        counts = self._severity_counts()
        tables = f"{count_text(len(self.tables), 'table')}, " if len(self.tables) != 1 else ""
        read = ", ".join(
            count_text(sum(getattr(result, field) for result in self.tables), noun)
            for field, noun in (("snapshots", "snapshot"), ("manifests", "manifest"), ("files", "file"))
        )
        by_severity = ", ".join(count_text(counts[severity], severity.value) for severity in SEVERITIES)
        parts.append(Prose(f"{tables}{read} validated: {by_severity}."))
        if self.findings:
            parts.append(self.figure())
        return Report(f"validation of {self.name}", tuple(parts))

    def figure(self) -> Bars:
        """Return the number of findings of each severity as bars."""
        counts = Counter(finding.severity for finding in self.findings)
        bars = tuple(Bar(name=severity.value, count=counts[severity], needs_care=severity is Severity.ERROR) for severity in Severity)
        summary = f"{count_text(len(self.findings), 'finding')} of {count_text(len({finding.rule for finding in self.findings}), 'rule')}."
        return Bars(title=f"Findings of {short_text(self.name)}", summary=summary, bars=bars, unit="findings", axis="severity")

    def to_sarif(self) -> dict[str, Any]:
        """Return the findings as a SARIF 2.1.0 log."""
        return sarif_of(self.tables)

    def _severity_counts(self) -> Counter[Severity]:
        """Return the number of findings of each severity, including findings that are only counted."""
        counts: Counter[Severity] = Counter()
        for result in self.tables:
            for rule_id, count in result.counts.items():
                counts[rule_named(rule_id).severity] += count
        return counts


def validate_loaded(
    table: TableReader,
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
    """Find the violations of the specification in a loaded table.

    Args:
        table: The table.
        current_only: Validate only the current snapshot.
        snapshot: Validate only this snapshot: its id, or the name of a branch or tag.
        files: Request the size of each data and delete file too.
        data: Read footers of data files and the content of delete files too.
        values: Read all rows of data files too.
        orphans: Search the table's folder for orphan files too.
        most_findings: How many findings of each rule are kept; further ones are only counted.
        progress: Is updated during the run.

    Raises:
        NoSuchSnapshotError: The table does not have the snapshot.
        StorageUnavailableError: The storage does not respond.
    """
    arguments = ValidationArguments(
        current_only=current_only,
        snapshot=snapshot,
        depths=depths_of(files=files, data=data, values=values, orphans=orphans),
        most_findings=most_findings,
    )
    sent = table.metadata if has_no_file(table.metadata_location) else None
    result = validate_table(table.full_name, table.metadata_location, table.io, arguments, progress, sent)
    if orphans and isinstance(table, LoadedTable):
        result = with_findings(result, orphan_findings(table), arguments)
    return Validation(name=table.full_name, tables=(result,))


def with_findings(result: ValidationResult, findings: Iterable[Finding], arguments: ValidationArguments) -> ValidationResult:
    """Return a result with further findings added to it."""
    added = Findings(table=result.table, most=arguments.most_findings)
    added.add(findings)
    counts = Counter(result.counts)
    counts.update(added.counts)
    return replace(result, findings=(*result.findings, *added.kept), counts=dict(counts))


def _table_parts(result: ValidationResult, most: int | None, *, is_only: bool) -> Iterator[Part]:
    if not result.findings:
        return
    columns = (Column("severity"), Column("rule", whole=True), Column("place", rank=2), Column("finding", rank=1))
    ordered = sorted(result.findings, key=lambda finding: SEVERITIES.index(finding.severity))
    folder = result.metadata_location.rpartition("/")[0].removesuffix("/metadata")
    rows = [(finding.severity.value, finding.rule, _place(finding, folder), finding.message) for finding in ordered]
    yield grid("" if is_only else result.table, columns, rows, most)
    left = {rule_id: count - sum(finding.rule == rule_id for finding in result.findings) for rule_id, count in result.counts.items()}
    for rule_id, count in left.items():
        if count:
            yield Prose(f"{count_text(count, 'more finding')} of {rule_id} {'is' if count == 1 else 'are'} only counted.")
    for rule_id in dict.fromkeys(finding.rule for finding in ordered):
        rule = rule_named(rule_id)
        yield Prose(f"{rule_id}: {rule.harm} ({rule.section}) Next: {rule.next_step}.")


def _place(finding: Finding, folder: str) -> str:
    parts = [
        "" if finding.file is None else within(finding.file, folder),
        "" if finding.entry is None else f"entry {finding.entry}",
        finding.where or "",
    ]
    return short_text(", ".join(part for part in parts if part))


def _issue_place(finding: Finding, location: str) -> str:
    parts = [f"snapshot {finding.snapshot_id}" if finding.snapshot_id is not None else ""]
    parts.append(within(finding.file, location) if finding.file else "")
    parts.append(f"entry {finding.entry}" if finding.entry is not None else "")
    parts.append(f"about {within(finding.path, location)}" if finding.path and finding.path != finding.file else "")
    text = ", ".join(part for part in parts if part) or "the table"
    if finding.expected is not None:
        text += f": {short_text(str(finding.actual))}, expected {short_text(str(finding.expected))}"
    return text


def _title(message: str, location: str, count: int) -> str:
    """Return the title of an issue: the message of its first finding, with paths relative to the table's folder, and the number of further findings."""
    text = message.replace(f"{location.rstrip('/')}/", "")
    first = text.partition(" ")[0]
    # A message that begins with the name of a field or a path keeps its first letter.
    sentence = f"{text[:1].upper()}{text[1:]}" if first.isalpha() else text
    return sentence + (f" (and {count - 1:,} more)" if count > 1 else "")


def _repair_text(kind: RepairKind) -> str:
    """Return what a repair would do, with the option that names the repair if it is not a default one."""
    named = "" if kind.is_default else f" (--only {kind.id}, because {kind.named_because})"
    return f"the repair plans to {kind.title}{named}; nothing changes before --apply"
