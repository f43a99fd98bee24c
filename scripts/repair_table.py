"""Write the table of repairs in docs/repair.md, from the repairs in the sources.

Run `.venv/bin/python scripts/repair_table.py`; a test compares the page with the output of this script.
"""

from collections.abc import Iterator
from pathlib import Path

from icefloe.checks.repair_kinds import REPAIRS, RepairKind, Scope

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "repair.md"
COMMAND = ".venv/bin/python scripts/repair_table.py"
BEGIN, END = f"<!-- Written by {COMMAND.rpartition(' ')[2]}. -->", "<!-- The end of what the script writes. -->"
HEADINGS = {
    Scope.SNAPSHOT: "In the newest snapshot: the commit is one snapshot of the branch",
    Scope.METADATA: "In the metadata file: the commit is one metadata file",
    Scope.CATALOG: "In the catalog",
}


def with_table(page: str) -> str:
    """Return the text of the page with the table as the sources have it."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n" + "\n".join(_lines()) + f"\n\n{END}{after}"


def _lines() -> Iterator[str]:
    for scope, heading in HEADINGS.items():
        yield ""
        yield f"### {heading}"
        yield ""
        yield "| repair | what it does | rows | done by default |"
        yield "|---|---|---|---|"
        yield from (_row(kind) for kind in REPAIRS if kind.scope is scope)


def _row(kind: RepairKind) -> str:
    rules = ", ".join(f"`{rule}`" for rule in kind.rules)
    what = f"{_sentence(kind.title)} Mends {rules}."
    default = "yes" if kind.is_default else f"no: {kind.named_because}"
    return f"| `{kind.id}` | {what} | {_sentence(kind.rows)} | {default} |"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
