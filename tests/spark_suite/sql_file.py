"""Files of SQL as Spark's `SQLQueryTestSuite` reads them: statements, settings and imports, in the comments that it gives a meaning."""

import re
from dataclasses import dataclass
from pathlib import Path

IMPORT, SETTINGS, DIMENSION, DELIMITER = "--IMPORT", "--SET", re.compile(r"--CONFIG_DIM\d+"), "--QUERY-DELIMITER"
VIEW = re.compile(
    r"create\s+(?:or\s+replace\s+)?temp(?:orary)?\s+view\s+(?:if\s+not\s+exists\s+)?(?P<name>\w+)\s*(?P<columns>\(\s*`?\w+`?(?:\s*,\s*`?\w+`?)*\s*\))?\s*as\s+(?P<query>.+)",
    re.IGNORECASE | re.DOTALL,
)
TABLE = re.compile(
    r"create\s+(or\s+replace\s+)?(external\s+)?table|temp(orary)?\s+view|\b(testdata|arraydata|mapdata|aggtest|onek|tenk1)\b", re.IGNORECASE
)


@dataclass(frozen=True)
class SqlFile:
    """The statements of a file in their order, after those of the files that it imports, and the settings to run them with."""

    statements: tuple[str, ...]
    settings: dict[str, str]


def read_sql_file(folder: Path, name: str) -> SqlFile:
    """Return the statements and settings of a file of the folder. Of the settings that are tried one after another, the first are returned."""
    lines = (folder / name).read_text().split("\n")
    comments = [line.strip() for line in lines if line.strip().startswith("--") and not line.strip().startswith(DELIMITER)]
    code = [line for line in lines if not (line.strip().startswith("--") and not line.strip().startswith(DELIMITER))]
    settings: dict[str, str] = {}
    tried: set[str] = set()
    imported: list[str] = []
    for comment in comments:
        word, _, rest = comment.partition(" ")
        if word == IMPORT:
            file = read_sql_file(folder, rest.strip())
            imported += file.statements
            settings = {**file.settings, **settings}
        elif word == SETTINGS:
            settings.update(_settings(rest))
        elif DIMENSION.fullmatch(word) and word not in tried:
            tried.add(word)
            settings.update(_settings(rest))
    return SqlFile((*imported, *_statements(code)), settings)


def uses_tables(folder: Path, name: str) -> bool:
    """Return True if a file makes tables or temporary views, or uses those that Spark's suite makes."""
    return any(TABLE.search(statement) for statement in read_sql_file(folder, name).statements)


def _settings(text: str) -> dict[str, str]:
    pairs = [one.partition("=") for one in text.split(",")]
    return {name.strip(): value.strip() for name, _, value in pairs if name.strip()}


def _statements(lines: list[str]) -> list[str]:
    """Divide at semicolons; between the lines `--QUERY-DELIMITER-START` and `-END` all text is one statement."""
    statements: list[str] = []
    whole, inside = [], False
    part: list[str] = []

    def end_part() -> None:
        statements.extend(re.split(r"(?<=[^\\]);", "\n".join(part)))
        part.clear()

    for line in lines:
        if line.strip().startswith(DELIMITER):
            end_part()
            if inside:
                statements.append("\n".join(whole).strip().removesuffix(";"))
                whole.clear()
            inside = line.strip().startswith(f"{DELIMITER}-START")
        else:
            (whole if inside else part).append(line)
    end_part()
    # A comment behind the semicolon of a line begins the next statement.
    without_comments = ("\n".join(line for line in one.strip().split("\n") if not line.startswith("--")) for one in statements)
    return [statement.strip() for statement in without_comments if statement.strip()]
