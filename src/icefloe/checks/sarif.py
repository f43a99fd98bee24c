"""Findings as SARIF 2.1.0, the format that code scanners and pipelines exchange. Origin: OASIS, Static Analysis Results Interchange Format."""

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

from icefloe.checks.finding import Finding
from icefloe.checks.rule import Rule
from icefloe.checks.rules import RULES, rule_named
from icefloe.checks.table_validation import ValidationResult
from icefloe.version import __version__

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
# Characters of a location that are not escaped in a URI reference. A percent sign is escaped, because in a path it begins no escape.
_IN_URIS = "/:@!$&'()*+,;=~"
_HOME = "https://github.com/apache/iceberg/blob/main/format/spec.md"


def sarif_of(results: Sequence[ValidationResult]) -> dict[str, Any]:
    """Return the findings of several tables as a SARIF log of one run.

    The log has every violated rule, and for each finding its file and, as a logical location, the place in the file.
    """
    findings = [finding for result in results for finding in result.findings]
    broken = {finding.rule for finding in findings}
    rules = [rule for rule in RULES if rule.id in broken]
    positions = {rule.id: position for position, rule in enumerate(rules)}
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "icefloe validate", "version": __version__, "rules": [_rule(rule) for rule in rules]}},
                "results": [_result(finding, positions[finding.rule]) for finding in findings],
                "properties": {"counts": {result.table: dict(result.counts) for result in results}},
            }
        ],
    }


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": f"{rule.title} {rule.harm}"},
        "help": {"text": f"Next: {rule.next_step}."},
        "helpUri": _HOME,
        "defaultConfiguration": {"level": rule.severity.value},
        "properties": {"level": rule.level.value, "section": rule.section},
    }


def _result(finding: Finding, position: int) -> dict[str, Any]:
    properties = {
        key: value
        for key, value in (
            ("table", finding.table),
            ("snapshot-id", finding.snapshot_id),
            ("entry", finding.entry),
            ("path", finding.path),
            ("field-id", finding.field_id),
            ("expected", finding.expected),
            ("actual", finding.actual),
            ("next-step", finding.next_step),
        )
        if value is not None
    }
    return {
        "ruleId": finding.rule,
        "ruleIndex": position,
        "level": rule_named(finding.rule).severity.value,
        "message": {"text": finding.message},
        "locations": [_location(finding)],
        "properties": properties,
    }


def _location(finding: Finding) -> dict[str, Any]:
    location: dict[str, Any] = {"logicalLocations": list(_logical(finding))}
    if finding.file is not None:
        location["physicalLocation"] = {"artifactLocation": {"uri": quote(finding.file, safe=_IN_URIS, errors="replace")}}
    return location


def _logical(finding: Finding) -> Iterator[dict[str, str]]:
    yield {"fullyQualifiedName": finding.table, "kind": "module"}
    if finding.where is not None:
        yield {"fullyQualifiedName": finding.where, "kind": "member"}
