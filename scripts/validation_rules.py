"""Write docs/validation-rules.md: every rule of `icefloe validate`, from the rules in the sources.

Run `.venv/bin/python scripts/validation_rules.py`; a test compares the page with the output of this script.
"""

from collections.abc import Iterator
from pathlib import Path

from icefloe.checks.repair_kinds import repairs_of
from icefloe.checks.rule import Depth, Level, Rule
from icefloe.checks.rules import RULES

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "validation-rules.md"
COMMAND = ".venv/bin/python scripts/validation_rules.py"
HEADINGS = {
    Level.CATALOG: "Catalogs and folders",
    Level.METADATA: "Metadata files",
    Level.SNAPSHOT: "Snapshots and their history",
    Level.MANIFEST_LIST: "Manifest lists",
    Level.MANIFEST: "Manifests",
    Level.ENTRY: "Manifest entries",
    Level.DELETE_FILE: "Delete files",
    Level.DATA_FILE: "Data files",
    Level.STATISTICS_FILE: "Statistics files",
}


def page() -> str:
    """Return the text of the page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield f"<!-- Written by {COMMAND.rpartition(' ')[2]}: correct the rules in src/icefloe/checks and run it again. -->"
    yield "# Rules of validation"
    yield ""
    count = len(RULES)
    yield f"After this page you know each of the {count} rules of [`icefloe validate`](validate.md): what it requires, what an engine suffers"
    yield "where it is broken, and the next step."
    yield ""
    yield "The id of a rule never changes. An `error` makes an engine fail or read other rows than were committed; a `warning` can make a later operation"
    yield "fail or counts wrong; a `note` is harmless to readers. A rule with an option is checked with that option only. *Tolerable* are rules whose break a"
    yield "[tolerant read](tolerant-reading.md) accepts, because it cannot change rows. The repairs are those of [`icefloe repair`](repair.md#the-repairs)."
    for level, heading in HEADINGS.items():
        rules = [rule for rule in RULES if rule.level is level]
        if rules:
            yield ""
            yield f"## {heading}"
            yield ""
            yield "| rule | severity | what it requires | what suffers | next step | repair | specification |"
            yield "|---|---|---|---|---|---|---|"
            yield from map(_row, rules)


def _row(rule: Rule) -> str:
    marks = [*([f"with `{rule.depth.value}`"] if rule.depth is not Depth.METADATA else []), *(["tolerable"] if rule.is_tolerable else [])]
    severity = ", ".join([rule.severity.value, *marks])
    step = f"{rule.next_step[0].upper()}{rule.next_step[1:]}."
    repairs = ", ".join(f"`{kind.id}`" for kind in repairs_of(rule.id))
    return "| " + " | ".join(map(_cell, (f"`{rule.id}`", severity, rule.title, rule.harm, step, repairs, rule.section))) + " |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
