"""The report of a validation for readers: findings by rule with their places, what an engine suffers, and the next step.

The same findings as JSON are the values themselves; `sarif.py` has them as SARIF.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from icefloe.checks.finding import Finding, Severity
from icefloe.checks.rules import rule_named
from icefloe.checks.table_validation import ValidationResult
from icefloe.display.report import Column, Part, Prose, Report, grid
from icefloe.formatting import count_text, shortened, within

# The severities, the gravest first.
SEVERITIES = (Severity.ERROR, Severity.WARNING, Severity.NOTE)


def severity_counts(results: Sequence[ValidationResult]) -> Counter[Severity]:
    """Return the number of findings by severity."""
    counts: Counter[Severity] = Counter()
    for result in results:
        for rule_id, count in result.counts.items():
            counts[rule_named(rule_id).severity] += count
    return counts


def reaches(results: Sequence[ValidationResult], least: Severity | None) -> bool:
    """Return whether there is a finding of this severity or a graver one; False for None."""
    if least is None:
        return False
    counts = severity_counts(results)
    return any(counts[severity] for severity in SEVERITIES[: SEVERITIES.index(least) + 1])


def validation_report(name: str, results: Sequence[ValidationResult], most: int | None) -> Report:
    """Return the report.

    Args:
        name: What was validated.
        results: The result of each table.
        most: The maximum number of findings of each table that are listed; None for all.
    """
    parts: list[Part] = []
    for result in results:
        parts += _table_parts(result, most, is_only=len(results) == 1)
    counts = severity_counts(results)
    tables = f"{count_text(len(results), 'table')}, " if len(results) != 1 else ""
    read = ", ".join(
        count_text(sum(getattr(result, field) for result in results), noun)
        for field, noun in (("snapshots", "snapshot"), ("manifests", "manifest"), ("files", "file"))
    )
    found = ", ".join(count_text(counts[severity], severity.value) for severity in SEVERITIES)
    parts.append(Prose(f"{tables}{read} validated: {found}."))
    return Report(f"validation of {name}", tuple(parts))


def _table_parts(result: ValidationResult, most: int | None, *, is_only: bool) -> Iterator[Part]:
    if not result.findings:
        return
    columns = (Column("severity"), Column("rule", whole=True), Column("place", rank=2), Column("finding", rank=1))
    ordered = sorted(result.findings, key=lambda finding: SEVERITIES.index(finding.severity))
    folder = _folder(result)
    rows = [(finding.severity.value, finding.rule, _place(finding, folder), finding.message) for finding in ordered]
    yield grid("" if is_only else result.table, columns, rows, most)
    left = {rule_id: count - sum(finding.rule == rule_id for finding in result.findings) for rule_id, count in result.counts.items()}
    for rule_id, count in left.items():
        if count:
            yield Prose(f"{count_text(count, 'more finding')} of {rule_id} {'is' if count == 1 else 'are'} only counted.")
    for rule_id in dict.fromkeys(finding.rule for finding in ordered):
        rule = rule_named(rule_id)
        steps = dict.fromkeys(finding.next_step for finding in ordered if finding.rule == rule_id)
        yield Prose(f"{rule_id}: {rule.harm} ({rule.section}) Next: {'; '.join(list(steps)[:3])}.")


def _folder(result: ValidationResult) -> str:
    """Return the table's folder, from which paths are shortened: that of its metadata file, without the folder `metadata`."""
    return result.metadata_location.rpartition("/")[0].removesuffix("/metadata")


def _place(finding: Finding, folder: str) -> str:
    parts = [
        "" if finding.file is None else within(finding.file, folder),
        "" if finding.entry is None else f"entry {finding.entry}",
        finding.where or "",
    ]
    return shortened(", ".join(part for part in parts if part))
