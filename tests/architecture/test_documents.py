"""The documents stay true: their marked Python and SQL runs, their commands exist, and so do the files that they name.

A fenced block of Python runs where the line above it is `<!-- test -->`, or `<!-- test: spark -->` if it starts Spark. Below
`<!-- test: sql -->` a block of SQL runs, statement by statement, in the session `spark` of a block before it. The marked blocks of a
document run one after the other, in an empty folder. All documents share one process and its JVM. In the default run two documents with Spark
run, in the session of the tests, and the parser reads the statements of the blocks of SQL.
"""

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from benchmarks import __main__ as benchmarks
from pyspark.sql import SparkSession
from tests.architecture.document_process import DocumentProcess
from tests.named_case import named
from typer.testing import CliRunner

from icefloe import SqlCatalog
from icefloe.cli.application import app
from icefloe.inspect import METADATA_TABLES
from icefloe.procedures import procedure_names
from icefloe.spark import attach
from icefloe.spark.functions.spark_functions import FUNCTIONS

ROOT = Path(__file__).parents[2]
DOCUMENTS = (
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "examples/README.md",
    *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")),
)
MARKED = re.compile(r"^<!-- test(?P<spark>: spark|: sql)? -->\n+```(?P<language>python|sql)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
STATEMENT = re.compile(r"(?P<text>.*?);(?: --[^\n]*)?\n", re.DOTALL)
SEPARATORS = {"&&", "||", "|", ">", ">>", ";", "&"}
SHELL = re.compile(r"^```(?:sh|bash|console)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


def text_of(document: str) -> str:
    return (ROOT / document).read_text()


def documents_with_blocks(*, of_spark: bool) -> list[str]:
    """Return the documents that have a marked block of Spark, or one of Python alone."""
    return [document for document in DOCUMENTS if any(bool(match["spark"]) is of_spark for match in MARKED.finditer(text_of(document)))]


def marked_python(document: str, *, with_spark: bool) -> str:
    blocks = [match for match in MARKED.finditer(text_of(document)) if with_spark or not match["spark"]]
    return "\n".join(python_of_sql(match["code"]) if match["language"] == "sql" else match["code"] for match in blocks)


def python_of_sql(code: str) -> str:
    """Return a line of Python for each statement, which ends with a semicolon; a comment may follow on its line."""
    return "".join(f"spark.sql({match['text']!r}).collect()\n" for match in STATEMENT.finditer(code))


def commands(document: str) -> list[list[str]]:
    """Return the words of every command in the shell blocks, without prompts, comments, pipes and redirections; continued lines are joined."""
    text = "\n".join(match["code"] for match in SHELL.finditer(text_of(document))).replace("\\\n", " ")
    found = []
    for line in text.splitlines():
        lexer = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars="|>;&")
        lexer.whitespace_split = True
        words = list(lexer)
        ends = [place for place, word in enumerate(words) if word in SEPARATORS]
        parts = [words[begin:end] for begin, end in zip([0, *(end + 1 for end in ends)], [*ends, len(words)], strict=True)]
        found += [part for part in parts if part]
    return found


@cache
def python_files() -> list[str]:
    folders = ("src", "tests", "benchmarks", "scripts", "examples")
    return [path.relative_to(ROOT).as_posix() for folder in folders for path in (ROOT / folder).rglob("*.py")]


@pytest.fixture(scope="module")
def document_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DocumentProcess]:
    process = DocumentProcess(tmp_path_factory.mktemp("document"))
    yield process
    process.close()


@pytest.mark.parametrize("document", documents_with_blocks(of_spark=False))
def test_marked_python_runs(document: str, document_process: DocumentProcess) -> None:
    error = document_process.run(marked_python(document, with_spark=False))
    if error:
        pytest.fail(error[-3000:], pytrace=False)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("document", documents_with_blocks(of_spark=True))
def test_marked_python_runs_with_spark(document: str, document_process: DocumentProcess) -> None:
    error = document_process.run(marked_python(document, with_spark=True))
    if error:
        pytest.fail(error[-3000:], pytrace=False)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("document", ["README.md", "docs/getting-started.md"])
def test_marked_python_runs_in_a_session_that_runs(document: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(marked_python(document, with_spark=True), document, "exec"), {"__name__": "__main__"})  # noqa: S102


@pytest.mark.spark
def test_statements_of_the_documents_are_parsed(spark: SparkSession, tmp_path: Path) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    for namespace in ("db", "empty"):
        catalog.create_namespace(namespace)
    attach(spark, "lake", catalog)
    parser = spark._jsparkSession.sessionState().sqlParser()
    statements = [
        (document, statement["text"])
        for document in DOCUMENTS
        for block in MARKED.finditer(text_of(document))
        if block["language"] == "sql"
        for statement in STATEMENT.finditer(block["code"])
    ]
    assert len(statements) > 80
    for document, text in statements:
        with named(document):
            parser.parsePlan(text)


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        (document, word)
        for document in DOCUMENTS
        for command in commands(document)
        if command[0] == "make"
        for word in command[1:]
        if "=" not in word
    }
    assert named
    assert sorted((document, word) for document, word in named if word not in targets) == []


def test_icefloe_commands_and_their_options_exist() -> None:
    wrong = []
    for command in sorted({tuple(command[1:]) for document in DOCUMENTS for command in commands(document) if command[0] == "icefloe"}):
        # The program shows its help after it has parsed the subcommand and the options, and before it runs anything.
        result = CliRunner().invoke(app, [*command, "--help"])
        if result.exit_code:
            wrong.append(f"{shlex.join(command)}\n{result.output}")
    if wrong:
        pytest.fail("\n".join(wrong), pytrace=False)


def test_named_source_files_exist() -> None:
    named = {(document, name) for document in DOCUMENTS for name in re.findall(r"`([\w/]+\.py)`", text_of(document))}
    assert named
    files = python_files()
    assert sorted((document, name) for document, name in named if not any(f"/{file}".endswith(f"/{name}") for file in files)) == []


def test_the_sql_reference_names_every_procedure_function_and_metadata_table() -> None:
    page = text_of("docs/sql.md")
    assert [
        name for name in (*procedure_names(), "create_changelog_view") if f"`{name}`" not in page or f"lake.system.{name}(" not in page
    ] == []
    assert [name for name in METADATA_TABLES if f"lake.db.events.{name};" not in page] == []
    assert [name for name in FUNCTIONS if f"lake.system.{name}(" not in page] == []


def test_the_readme_has_figures_of_the_page_about_speed() -> None:
    figures = re.compile(r"^\| (?P<what>.+?) (?P<figures>\| [\d.]+ m?s \| [\d.]+ m?s \| [\d.]+ \|)", re.MULTILINE)
    rows = list(figures.finditer(text_of("README.md")))
    assert len(rows) == 7
    assert [row["what"] for row in rows if row["figures"] not in text_of("docs/speed.md")] == []


def test_the_page_about_speed_names_every_benchmark() -> None:
    assert [name for name in benchmarks.MODULES if f"`{name}`" not in text_of("docs/speed.md")] == []
