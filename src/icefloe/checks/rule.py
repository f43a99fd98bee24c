"""`Rule`: one statement of the specification that a stored table can violate. The rules are data, from which the page of rules in the docs is generated."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypedDict

from icefloe.checks.finding import Finding, Severity, bounded_text
from icefloe.checks.issue import Remedy
from icefloe.errors import in_one_line
from icefloe.formatting import short_text
from icefloe.io.locations import is_relative
from icefloe.spec.tolerance import Deviation


class Level(StrEnum):
    """The part of a table that a rule is about."""

    CATALOG = "catalog"
    METADATA = "metadata file"
    SNAPSHOT = "snapshot"
    MANIFEST_LIST = "manifest list"
    MANIFEST = "manifest"
    ENTRY = "manifest entry"
    DELETE_FILE = "delete file"
    STATISTICS_FILE = "statistics file"
    DATA_FILE = "data file"


class Depth(StrEnum):
    """What has to be read to check a rule: metadata only, or files too if the option of that name is set."""

    METADATA = "always"
    FILES = "--files"  # one request for each data and delete file
    DATA = "--data"  # footers of data files and bytes of delete files
    VALUES = "--values"  # all rows of data files
    ORPHANS = "--orphans"  # a listing of the table's folder


class FindingPlace(TypedDict, total=False):
    """The place that several findings have in common, as keyword arguments of `Rule.finding`."""

    snapshot_id: int | None
    file: str | None
    entry: int | None
    path: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One statement of the specification that a stored table can violate, and what its findings have in common.

    Attributes:
        id: The name of the rule in output, in kebab case; it never changes.
        level: The part of a table that the rule is about, such as a manifest or a data file.
        severity: How much a finding matters.
        title: The rule as a sentence.
        section: The title of the specification's section that states the rule.
        harm: The harm in engines that use a table which violates the rule.
        next_step: What a user should do about a finding, in the imperative.
        depth: What has to be read to check the rule: metadata only, or files too.
        remedy: The operation that corrects a violation; None if a repair of `repair_kinds.py` corrects it, or nothing does.
    """

    id: str
    level: Level
    severity: Severity
    title: str
    section: str
    harm: str
    next_step: str
    depth: Depth = Depth.METADATA
    remedy: Remedy | None = None

    @property
    def is_tolerable(self) -> bool:
        """Whether a tolerant read accepts the violation, because it cannot change rows."""
        return self.id in frozenset(Deviation)

    def finding(
        self,
        message: str,
        *,
        snapshot_id: int | None = None,
        file: str | None = None,
        where: str | None = None,
        entry: int | None = None,
        path: str | None = None,
        field_id: int | None = None,
        expected: str | int | None = None,
        actual: str | int | None = None,
    ) -> Finding:
        """Return a finding about a violation of this rule.

        Args:
            message: What is wrong, in one sentence. Texts of the table in it are shortened by `value_text`.
            snapshot_id: The id of the snapshot that has the wrong value, itself or in one of its files; None if the finding is about the table as a whole.
            file: The file that has the wrong value; None for an entry of a catalog.
            where: The place in that file: a JSON path, a byte, or the name of a field.
            entry: The position of the wrong entry in the file, from 0.
            path: The location of the file that the entry names.
            field_id: The field id of the wrong column or partition field.
            expected: The value that the rule requires.
            actual: The stored value.
        """
        return Finding(
            rule=self.id,
            severity=self.severity,
            message=message,
            next_step=self.next_step,
            snapshot_id=snapshot_id,
            file=None if file is None else bounded_text(file),
            where=None if where is None else bounded_text(where),
            entry=entry,
            path=None if path is None else bounded_text(path),
            field_id=field_id,
            expected=bounded_text(expected) if isinstance(expected, str) else expected,
            actual=bounded_text(actual) if isinstance(actual, str) else actual,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleGroup:
    """Defaults that most rules of a module have in common, and the constructor `rule` of these rules. The attributes are those of `Rule`."""

    level: Level
    section: str = ""
    next_step: str = ""
    depth: Depth = Depth.METADATA
    remedy: Remedy | None = None  # only for rules that have the group's next step

    def rule(
        self,
        rule_id: str,
        severity: Severity,
        title: str,
        harm: str,
        *,
        section: str = "",
        next_step: str = "",
        depth: Depth | None = None,
        remedy: Remedy | None = None,
    ) -> Rule:
        """Return a rule with the defaults of the group.

        Args:
            rule_id: The name of the rule in output, in kebab case; it never changes.
            severity: How much a finding matters.
            title: The rule as a sentence.
            harm: The harm in engines that use a table which violates the rule.
            section: The title of the specification's section; by default the group's.
            next_step: What a user should do about a finding, in the imperative; by default the group's.
            depth: What has to be read to check the rule; by default the group's.
            remedy: The operation that corrects a violation; by default the group's, unless `next_step` is given.
        """
        return Rule(
            id=rule_id,
            level=self.level,
            severity=severity,
            title=title,
            section=section or self.section,
            harm=harm,
            next_step=next_step or self.next_step,
            depth=depth or self.depth,
            remedy=remedy if next_step else remedy or self.remedy,
        )


def value_text(value: object) -> str:
    """Return a value of the table as short text for a message, in one line and without control characters."""
    return short_text(in_one_line(str(value)[:1000]))


def has_relative_path(location: str) -> bool:
    """Return whether a location of the table is a relative path; False for text that cannot be a location."""
    return bool(location) and "\0" not in location and is_relative(location)
