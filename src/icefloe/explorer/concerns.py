"""`Concern`: something about a table that a reader should see: a broken rule, a measure of its health that needs care, or a commit that was retried.

Each has the command that mends it, where a command does. The rules and measures are those of `icefloe validate` and `icefloe health`.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

from icefloe.checks.finding import Finding
from icefloe.checks.rules import rule_named
from icefloe.commit.retry_record import read_retry_record
from icefloe.formatting import count_text, shortened, within
from icefloe.inspect.table_health import HealthMeasure, HealthState, TableHealth
from icefloe.inspect.validation import Validation
from icefloe.maintenance.health_measures import PartitionMeasures
from icefloe.repair.repair_kinds import RepairKind, repairs_of
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.table_metadata import TableMetadata

# Places of one rule that are listed.
_MOST_PLACES = 5
_ATTEMPT = re.compile(r"snap-\d+-(?P<attempt>\d{1,9})-[^/]*\.avro")
_COMMAND = re.compile(r"icefloe (?P<command>[a-z][a-z-]+)")
# Commands that mend tables.
_COMMANDS = frozenset(
    {
        "expire",
        "rewrite-data-files",
        "convert-equality-deletes",
        "rewrite-position-delete-files",
        "remove-dangling-deletes",
        "remove-orphan-files",
        "rewrite-manifests",
        "repair",
    }
)
# Procedures that sentences name, with the command of each.
_RENAMED = {"remove_dangling_deletes": "icefloe remove-dangling-deletes"}


class Weight(IntEnum):
    """How much a concern matters, the gravest first."""

    ERROR = 0
    WARNING = 1
    CARE = 2
    NOTE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Concern:
    """A concern.

    Attributes:
        weight: How much it matters.
        title: What is wrong, in a few words.
        detail: What it means to readers of the table.
        places: Where it is: the first places, each in one line.
        more: How many further places there are.
        command: The command that mends it; None if there is none.
        next_step: What to do, where no command does it.
        rule: The id of the rule; None if it is no rule of the specification.
    """

    weight: Weight
    title: str
    detail: str
    places: tuple[str, ...] = ()
    more: int = 0
    command: str | None = None
    next_step: str = ""
    rule: str | None = None


def health_concerns(health: TableHealth, name: str, arguments: str) -> Iterator[Concern]:
    """Yield the measures that need care.

    Args:
        health: The health.
        name: The name of the table, for commands.
        arguments: The options of commands that name the catalog.
    """
    for measure in health.measures:
        if measure.state is HealthState.NEEDS_CARE:
            yield Concern(
                weight=Weight.CARE,
                title=f"{measure.name.capitalize()}: {measure.shown}",
                detail=f"{measure.reason.capitalize()}. Needs care from {measure.threshold} on.",
                places=tuple(_partitions_of(measure, health.partitions)),
                command=command(measure.remedy, name, arguments),
            )


def _partitions_of(measure: HealthMeasure, partitions: Iterable[PartitionMeasures]) -> Iterator[str]:
    """Yield the partitions of a measure that counts files, the worst ones."""
    if measure.name == "small files":
        worst = [one for one in partitions if one.files > one.best_files and one.small_files > 1][:_MOST_PLACES]
        for one in worst:
            yield (
                f"{shortened(one.partition) or 'unpartitioned'}: {one.small_files:,} small of {count_text(one.files, 'file')}, "
                f"{count_text(one.best_files, 'file')} would do"
            )
    elif measure.name == "deleted rows":
        deleted = sorted((one for one in partitions if one.deleted_rows), key=lambda one: -one.deleted_rows / max(one.records, 1))
        for one in deleted[:_MOST_PLACES]:
            yield f"{shortened(one.partition) or 'unpartitioned'}: {one.deleted_rows:,} of {count_text(one.records, 'row')} deleted"


def rule_concerns(validation: Validation, name: str, arguments: str, location: str) -> Iterator[Concern]:
    """Yield the rules that are broken, each with its places.

    Args:
        validation: The findings.
        name: The name of the table, for commands.
        arguments: The options of commands that name the catalog.
        location: The table's folder, to which paths are relative.
    """
    by_rule: dict[str, list[Finding]] = {}
    counts: dict[str, int] = {}
    for result in validation.tables:
        for finding in result.findings:
            by_rule.setdefault(finding.rule, []).append(finding)
        for counted, count in result.counts.items():
            counts[counted] = counts.get(counted, 0) + count
    for rule_id, findings in by_rule.items():
        rule, first, repairs = rule_named(rule_id), findings[0], repairs_of(rule_id)
        count = max(counts.get(rule_id, 0), len(findings))
        yield Concern(
            weight=Weight[first.severity.name],
            title=_sentence(first.message, location, count),
            detail=f"{rule.title} {rule.harm}",
            places=tuple(_place(finding, location) for finding in findings[:_MOST_PLACES]),
            more=count - min(len(findings), _MOST_PLACES),
            command=command(first.next_step, name, arguments) or (command("repair", name, arguments) if repairs else None),
            next_step=_repairs_text(repairs) or first.next_step,
            rule=rule_id,
        )


def _repairs_text(repairs: Sequence[RepairKind]) -> str:
    """Return what a repair plans, with the option that names it where it has to be named; empty without one."""
    if not repairs:
        return ""
    kind = repairs[0]
    named = "" if kind.is_default else f" (--only {kind.id}, because {kind.named_because})"
    return f"the repair plans to {kind.title}{named}; nothing changes before --apply"


def _place(finding: Finding, location: str) -> str:
    parts = [f"snapshot {finding.snapshot_id}" if finding.snapshot_id is not None else ""]
    parts.append(within(finding.file, location) if finding.file else "")
    parts.append(f"entry {finding.entry}" if finding.entry is not None else "")
    parts.append(f"about {within(finding.path, location)}" if finding.path and finding.path != finding.file else "")
    text = ", ".join(part for part in parts if part) or "the table"
    if finding.expected is not None:
        text += f": {shortened(str(finding.actual))}, expected {shortened(str(finding.expected))}"
    return text


def _sentence(message: str, location: str, count: int) -> str:
    """Return the message of a finding with paths in the table's folder, and how often its rule is broken."""
    text = message.replace(f"{location.rstrip('/')}/", "")
    first = text.partition(" ")[0]
    # The name of a field or a path keeps its letters.
    sentence = f"{text[:1].upper()}{text[1:]}" if first.isalpha() else text
    return sentence + (f" (and {count - 1:,} more)" if count > 1 else "")


def commit_concerns(metadata: TableMetadata) -> Iterator[Concern]:
    """Yield one concern for the commits that were retried, as `attempts` counts them."""
    retried = [(snapshot, attempt) for snapshot in metadata.snapshots if (attempt := attempts(snapshot)) > 1]
    if retried:
        newest = retried[::-1][:_MOST_PLACES]
        yield Concern(
            weight=Weight.NOTE,
            title=f"Retried commits: {len(retried):,} of {len(metadata.snapshots):,}",
            detail="Another writer committed first, and the commit was made again on the newer table. Each retry reads and writes metadata again.",
            places=tuple(f"snapshot {snapshot.snapshot_id}: {count_text(attempt, 'attempt')}" for snapshot, attempt in newest),
            more=max(len(retried) - len(newest), 0),
            next_step="see how one came about with icefloe explain commit; where it happens often, let writers commit less often",
        )


def attempts(snapshot: Snapshot) -> int:
    """Return how many attempts a commit took: as its summary records it, else by the name of its manifest list; 1 where neither has it.

    Java counts from 1, and some writers from 0: in a name only a second attempt is certain.
    """
    recorded = read_retry_record(snapshot.summary).attempts
    match = _ATTEMPT.fullmatch((snapshot.manifest_list or "").rpartition("/")[2])
    return max(1, recorded or (0 if match is None else int(match["attempt"])))


def command(remedy: str, name: str, arguments: str) -> str | None:
    """Return the command line of a remedy for a table; None if the remedy is no command.

    Args:
        remedy: A command without `icefloe` and its table, such as `rewrite-data-files --strategy sort`, or a sentence that names one.
        name: The name of the table.
        arguments: The options of commands that name the catalog.
    """
    for procedure, named in _RENAMED.items():
        remedy = remedy.replace(procedure, named)
    if found := _COMMAND.search(remedy):
        remedy = found["command"]
    first, *options = remedy.split(", ")[0].split()
    if first not in _COMMANDS:
        return None
    return " ".join(["icefloe", first, quoted(name), *options]) + arguments


def quoted(text: str) -> str:
    """Return a name as a word of a shell's command line, in which control characters of a hostile name are no line of their own."""
    return shlex.quote("".join(sign if sign.isprintable() else "?" for sign in text[:500]))


def by_weight(concerns: Iterable[Concern]) -> list[Concern]:
    """Return concerns, the gravest first."""
    return sorted(concerns, key=lambda one: one.weight)
