"""`Finding`: one place of a stored table that violates a rule of the specification, with what a repair needs to correct it."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum

# The most characters of one text that a finding keeps. A file can have names of megabytes; the position of the entry still identifies it.
MOST_CHARACTERS = 4_096
# The most findings of one rule that a run keeps; further ones are only counted.
MOST_FINDINGS = 1_000


class Severity(StrEnum):
    """How much a finding matters. The names are the levels of SARIF."""

    ERROR = "error"  # an engine fails, or reads rows that differ from the committed ones
    WARNING = "warning"  # a writer of the table or a later operation may fail, or counts are wrong
    NOTE = "note"  # readers accept it


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One place of a table that violates a rule.

    Attributes:
        rule: The id of the rule.
        severity: How much the violation matters.
        message: What is wrong, in one sentence.
        next_step: What the user should do.
        table: The name of the table; empty until the run adds it.
        snapshot_id: The id of the snapshot that has the wrong value, itself or in one of its files; None if the finding is about the table as a whole.
        file: The file that has the wrong value: a metadata file, manifest list, manifest, data or delete file; None for an entry of a catalog.
        where: The place in that file: a JSON path, a byte, or the name of a field.
        entry: The position of the wrong entry in the file, from 0: of a manifest in a manifest list, or of a data file in a manifest.
        path: The location of the file that the entry names.
        field_id: The field id of the wrong column or partition field.
        expected: The value that the rule requires.
        actual: The stored value.
    """

    rule: str
    severity: Severity
    message: str
    next_step: str
    table: str = ""
    snapshot_id: int | None = None
    file: str | None = None
    where: str | None = None
    entry: int | None = None
    path: str | None = None
    field_id: int | None = None
    expected: str | int | None = None
    actual: str | int | None = None


@dataclass(slots=True)
class Findings:
    """The findings of a run: at most `most` of each rule are kept, and all are counted by rule."""

    table: str = ""
    most: int = MOST_FINDINGS
    kept: list[Finding] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    _kept_counts: Counter[str] = field(default_factory=Counter)

    def add(self, findings: Iterable[Finding]) -> None:
        """Add findings one by one, so that a generator of many findings never has all of them in memory."""
        for finding in findings:
            self.counts[finding.rule] += 1
            self._keep(finding)

    def merge(self, other: "Findings") -> None:
        """Add the findings and the counts of another collection."""
        for finding in other.kept:
            self._keep(finding)
        self.counts.update(other.counts)

    def add_count(self, rule: str, count: int) -> None:
        """Count findings of a rule that are not kept."""
        if count > 0:
            self.counts[rule] += count

    def left(self, rule: str) -> int:
        """Return how many more findings of a rule this collection would keep."""
        return self.most - self._kept_counts[rule]

    def _keep(self, finding: Finding) -> None:
        if self._kept_counts[finding.rule] < self.most:
            self._kept_counts[finding.rule] += 1
            self.kept.append(replace(finding, table=finding.table or self.table))


def bounded_text(text: str) -> str:
    """Shorten a text of the table to at most `MOST_CHARACTERS` characters."""
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"
