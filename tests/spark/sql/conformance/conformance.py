"""SQL statements in files with the rows that Java's Iceberg returns, run on any engine that takes a statement and returns rows.

A file is plain SQL: blocks with an empty line between them. Lines before a statement are comments, some of which are directives:

    -- only java: REASON        the other engine skips the statement; `only icefloe` the other way round
    -- differs: REASON          the result of Icefloe must differ; the directive is removed when it no longer does
    -- since 4.1: REASON        before this version of Spark the result of Icefloe must differ
    -- until 4.1: REASON        run on Icefloe only, before this version of Spark: it replaces a statement that the older Spark does not have

Lines after it are the expected result: `-- rows: N` and each row as JSON, or `-- error: CLASS` (one of several: `A | B`; `any` where Spark has no class
for it). `-- snapshot NAME: TABLE` gives the current snapshot a name, `-- metadata NAME: TABLE` the current metadata file: `${NAME}` in later statements
and in rows, `${NAME.time}` and `${NAME.ms}` the time of a snapshot. `${folder}` is a folder for files of the statements, `${user}` the user.

This module needs only Python, because the environments of other engines run it too.
"""

import getpass
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
Run = Callable[[str], list[Any]]
_ERROR_CLASS = re.compile(r"\[([A-Z][A-Z0-9_]{3,})(?:\.[A-Z0-9_.]+)?\]")
_STATEMENTS_WITH_COUNTS = ("INSERT", "UPDATE", "DELETE", "MERGE")
_NAME = re.compile(r"\$\{([a-z0-9_.]+)\}")
_DIRECTIVE = re.compile(r"-- (snapshot|metadata) ([a-z0-9_]+): (\S+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """The result of a statement: rows as JSON, or an error's class and message."""

    rows: tuple[str, ...] = ()
    error: str | None = None
    words: str = ""

    def lines(self) -> list[str]:
        if self.error is not None:
            return [f"-- error: {self.error}"]
        return [f"-- rows: {len(self.rows)}", *(f"-- {row}" for row in self.rows)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Statement:
    """A block of a file: the comments before the statement, its text, the expected result (None: not recorded yet) and the names given after it."""

    file: str
    line: int
    before: tuple[str, ...]
    text: str
    expected: Outcome | None
    remembered: tuple[str, ...]

    @property
    def only(self) -> str | None:
        found = next((line for line in self.before if line.startswith("-- only ")), None)
        return None if found is None else found.removeprefix("-- only ").split(":")[0]

    @property
    def differs(self) -> str | None:
        found = next((line for line in self.before if line.startswith("-- differs: ")), None)
        return None if found is None else found.removeprefix("-- differs: ")

    @property
    def since(self) -> tuple[int, ...]:
        """Return the version of Spark from which on Icefloe returns the expected result."""
        return _version_after("-- since ", self.before)

    @property
    def until(self) -> tuple[int, ...]:
        """Return the version of Spark from which on the statement is skipped; empty if no version skips it."""
        return _version_after("-- until ", self.before)

    @property
    def ordered(self) -> bool:
        return "ORDER BY" in self.text or self.text.startswith("DESCRIBE")


@dataclass(frozen=True, kw_only=True, slots=True)
class Mismatch:
    """A statement whose result is not the expected one."""

    statement: Statement
    found: Outcome

    def __str__(self) -> str:
        expected = "\n".join(self.statement.expected.lines()) if self.statement.expected is not None else "nothing recorded"
        found = "\n".join(self.found.lines()) + (f"  {self.found.words}" if self.found.words else "")
        return f"{self.statement.file}:{self.statement.line}\n{self.statement.text}\nexpected\n{expected}\nfound\n{found}\n"


@dataclass(slots=True)
class Names:
    """The values of `${...}`: ids, times and files, which differ from run to run."""

    known: dict[str, str] = field(default_factory=dict)

    def filled(self, text: str) -> str:
        return _NAME.sub(lambda found: self.known[found[1]], text)

    def with_names(self, row: str) -> str:
        """Return the row with names instead of the values that have one."""
        for name, value in self.known.items():
            row = row.replace(value, "${" + name + "}")
        return row.replace(f'["Owner", "{getpass.getuser()}"]', '["Owner", "${user}"]')

    def remember(self, run: Run, directive: str) -> None:
        found = _DIRECTIVE.fullmatch(directive)
        if found is None:
            raise ValueError(f"{directive!r} is not understood")
        kind, name, table = found.groups()
        if kind == "metadata":
            self.known[name] = run(f"SELECT file FROM {table}.metadata_log_entries ORDER BY timestamp DESC LIMIT 1")[0][0]
            return
        columns = "snapshot_id, CAST(committed_at AS STRING), unix_millis(committed_at)"
        row = run(f"SELECT {columns} FROM {table}.snapshots ORDER BY committed_at DESC LIMIT 1")[0]
        self.known[name], self.known[f"{name}.time"], self.known[f"{name}.ms"] = str(row[0]), row[1], str(row[2])


def version_of(text: str) -> tuple[int, ...]:
    """Return the major and minor version: (4, 1) for `4.1` and `4.1.4`."""
    return tuple(int(part) for part in text.split(".")[:2])


def _version_after(mark: str, lines: tuple[str, ...]) -> tuple[int, ...]:
    found = next((line for line in lines if line.startswith(mark)), None)
    return () if found is None else version_of(found.removeprefix(mark).split(":")[0])


def files() -> list[Path]:
    return sorted(FOLDER.glob("*.sql"))


def statements(path: Path) -> list[Statement]:
    """Return the statements of a file in their order.

    Raises:
        ValueError: a statement has no `;` at the end of a line before the block ends.
    """
    found: list[Statement] = []
    lines = path.read_text().splitlines()
    start = 0
    for place in range(len(lines) + 1):
        if place < len(lines) and lines[place].strip():
            continue
        block = lines[start:place]
        if any(not line.startswith("--") for line in block):
            found.append(_statement(path.name, start + 1, block))
        start = place + 1
    return found


def _statement(file: str, line: int, block: list[str]) -> Statement:
    first = next(place for place, text in enumerate(block) if not text.startswith("--"))
    end = next((place for place, text in enumerate(block) if place >= first and text.endswith(";")), None)
    if end is None:
        raise ValueError(f"{file}:{line}: a statement without a ';' at the end of a line")
    after = block[end + 1 :]
    remembered = tuple(text for text in after if _DIRECTIVE.fullmatch(text))
    return Statement(
        file=file,
        line=line + first,
        before=tuple(block[:first]),
        text="\n".join(block[first : end + 1]).removesuffix(";"),
        expected=_expected([text for text in after if text not in remembered]),
        remembered=remembered,
    )


def _expected(lines: list[str]) -> Outcome | None:
    if not lines:
        return None
    if lines[0].startswith("-- error: "):
        return Outcome(error=lines[0].removeprefix("-- error: "))
    rows = tuple(line.removeprefix("-- ") for line in lines[1:])
    if lines[0] != f"-- rows: {len(rows)}":
        raise ValueError(f"{lines[0]!r} is followed by {len(rows)} rows")
    return Outcome(rows=rows)


def written(head: str, blocks: list[Statement]) -> str:
    """Return the text of a file: its head, then every block with the expected result."""
    parts = [head] if head else []
    for one in blocks:
        lines = one.expected.lines() if one.expected is not None else []
        parts.append("\n".join([*one.before, one.text + ";", *lines, *one.remembered]))
    return "\n\n".join(parts) + "\n"


def outcomes(run: Run, path: Path, engine: str, folder: str, spark: str = "") -> Iterator[tuple[Statement, Outcome]]:
    """Run the statements of a file in order, without those of another engine or, on Icefloe, of an older version than `spark`."""
    names = Names({"folder": folder})
    for one in statements(path):
        if one.only not in (None, engine) or (one.until and (engine != "icefloe" or version_of(spark) >= one.until)):
            continue
        found = _outcome(run, names, one)
        if found.error is None:
            for directive in one.remembered:
                names.remember(run, directive)
        told = [names.with_names(row) for row in found.rows]
        yield one, replace(found, rows=tuple(told if one.ordered else sorted(told)))


def _outcome(run: Run, names: Names, one: Statement) -> Outcome:
    try:
        text = names.filled(one.text)
    except KeyError as error:
        return Outcome(error="any", words=f"a statement before did not give {error}")
    try:
        return Outcome(rows=tuple(json.dumps(plain(list(row)), ensure_ascii=False) for row in run(text)))
    except Exception as error:  # noqa: BLE001 each engine has exceptions of its own
        words = str(error).strip()
        found = _ERROR_CLASS.search(words)
        return Outcome(error=found[1] if found else "any", words=" ".join(words.split())[:400] or type(error).__name__)


def plain(value: Any) -> Any:
    """Convert a value of a row to JSON: structs by name, maps as sorted pairs, and other types without a JSON form as text."""
    if hasattr(value, "asDict"):
        return {name: plain(item) for name, item in value.asDict().items()}
    if isinstance(value, Mapping):
        return sorted(([plain(key), plain(item)] for key, item in value.items()), key=json.dumps)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, bytes | bytearray):
        return bytes(value).hex()
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return value if value is None or isinstance(value, bool | int | float | str) else _as_text(value)


def _as_text(value: Any) -> str:
    return format(value, "f") if isinstance(value, Decimal) else str(value)


def agrees(expected: Outcome | None, found: Outcome, engine: str) -> bool:
    """Return True for the expected rows or error. An expected error without a class, of which Java has many, matches any error."""
    if expected is None:
        return False
    if expected.error is None or found.error is None:
        return expected.error == found.error and expected.rows == found.rows
    wanted = expected.error.split(" | ")
    return "any" in wanted or found.error in wanted or (engine == "java" and found.error == "any")


def mismatches(run: Run, path: Path, engine: str, folder: str, spark: str) -> list[Mismatch]:
    """Return the statements with another result than the expected one, and those that must differ on this version of Spark and do not."""
    found = []
    for one, result in outcomes(run, path, engine, folder, spark):
        has_counts = engine == "icefloe" and result.error is None and one.text.split(maxsplit=1)[0].upper() in _STATEMENTS_WITH_COUNTS
        outcome = (
            replace(result, rows=()) if has_counts else result
        )  # Java returns no rows; `test_statement_results.py` has those of Icefloe
        differs = engine == "icefloe" and (one.differs is not None or version_of(spark) < one.since)
        if agrees(one.expected, outcome, engine) == differs:
            found.append(Mismatch(statement=one, found=outcome))
    return found
