"""The words of this project: those of the Iceberg specification, of Spark's connector API and of PyIceberg, in plain sentences.

`docs/glossary.md` explains the words that are used. A phrase below is refused in docstrings, comments and messages of the sources, in comments of the Java
classes, in the documents, and in names and docstrings of tests.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# A phrase as a regular expression, and what to write instead.
REFUSED = {
    r"\bfloors?\b": "layer",
    r"\brooms?\b": "module, package",
    r"\b(?:front |side |public |one )?doors?\b": "entry point",
    r"\bis told\b|\bare told\b|\bwas told\b": "receives, gets",
    r"\btells?\b|\btold\b|\btelling\b": "returns, shows, reports",
    r"\bsays?\b|\bsaid\b": "states, contains, requires, returns",
    r"\bgoes by\b|\bgo by\b": "uses, is determined by",
    r"\bstands?\b|\bstood\b": "is, is in, represents",
    r"\bspared\b": "is not needed",
    r"\bunheard\b": "unknown",
    r"\bof (?:ours|theirs|its own kind)\b": "name the owner before the noun",
    # "of Spark's" where no noun follows: a double genitive.
    r"\b(?:of|by) (?:Spark|Java|Python|Icefloe|PyIceberg|PyArrow|Arrow|Iceberg)'s"
    r"(?=[.,;:)]|\s*$|\s+(?:is|are|that|which|and|or|in|on|to|has|have|with|do|does|can)\b)": "Spark's X, not X of Spark's",
    r"\bleft ?overs?\b": "remaining files of failed task attempts",
    r"\bsettled?\b": "committed, resolved",
    r"(?<!type: )(?<!`)(?<!hadoop, )\b(?-i:glue)\b(?![.])": "bridge",  # Glue is a catalog of AWS, and `glue` its type
    r"\bevidence\b": "pruning explanation",
    r"\bkin\b": "name them",
    r"\b(?:somebody|nobody|whoever|anybody|everybody)\b": "name the caller, the user, the writer",
    r"\basks?\b|\basked\b|\basking\b": "calls, requests, reads",
    r"\bhears?\b|\bheard\b": "receives",
    r"\bforgets?\b|\bforgot\b|\bforgotten\b": "drops, clears",
    r"\bbreaks its word\b|\bhad its say\b|\bbelieves?\b|\bwishes\b|\bnaught\b|\bmet with\b": "plain verbs",
    r"\bput(?:s)? in (?:its|their) place\b": "replaces",
    r"\bhave none of\b|\bhas none of\b|\b(?:is|are) none of\b": "does not have, is not",
    r"\bgoes\b|\b(?:files|rows|snapshots|columns|keys|deletes|names|which) go\b": "is deleted, is written, moves, is passed",
    r"\bknows\b": "has, contains, supports, is configured with",
    r"\bwants?\b|\bwanted\b": "requests, needs, requires; requested, projected",
    r"\banew\b": "again",
    r"\bsave (?:where|those|that|for|by|the|what|in)\b": "except",
    r"\b(?:for|in) (?:want of|vain)\b": "without, because ... is missing",
    r"\bheld against\b": "compared with, checked against",
    r"\btrials?\b": "version probe, compatibility check",
    r"(?<!question )(?<!quotation )\bmarks\b|\bmarked rows\b": "position deletes, deletion vector, delete files",
    r"\bpointers?\b": "metadata location; catalog store",
    r"\banswers\b|\banswered\b|\banswering\b|\banswers for\b": "returns, implements; response",
    r"\blies? in\b": "is in",
    r"\breckons?\b": "estimates, counts",
    r"\bwhat becomes of\b": "the operation on",
    r"\bcomes? of\b": "results from",
}


def prose_of_python(path: Path) -> Iterator[tuple[int, str]]:
    """Yield comments and strings with spaces in them, by line; and names of tests as sentences."""
    text = path.read_text()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith("# noqa"):
            yield token.start[0], re.sub(r"\b(?:noqa|type): ?\S*", "", token.string)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip():
            yield from enumerate(node.value.splitlines(), node.lineno)
        elif isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node.lineno, node.name.replace("_", " ")


def prose_of_java(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the comments, by line."""
    text = path.read_text()
    for comment in re.finditer(r"/\*.*?\*/|//[^\n]*", text, re.DOTALL):
        yield from enumerate(comment[0].splitlines(), text.count("\n", 0, comment.start()) + 1)


def prose_of_markdown(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines outside of code blocks, without code in backticks."""
    in_code = False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code:
            yield number, re.sub(r"`[^`]*`", "", line)


READERS = {".py": prose_of_python, ".java": prose_of_java, ".md": prose_of_markdown}
FILES = [
    path
    for folder in ("src/icefloe", "docs", "tests", "benchmarks", "scripts", "examples")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in READERS and path != Path(__file__)
] + [
    ROOT / name
    for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md")
    if (ROOT / name).exists()
]


@cache
def pattern() -> re.Pattern[str]:
    return re.compile("|".join(f"(?P<p{place}>{phrase})" for place, phrase in enumerate(REFUSED)), re.IGNORECASE)


def refused_phrases(path: Path) -> list[str]:
    refusals = []
    for number, line in READERS[path.suffix](path):
        for match in pattern().finditer(line):
            instead = list(REFUSED.values())[int(str(match.lastgroup)[1:])]
            refusals.append(f"{path.relative_to(ROOT)}:{number}: {match[0]!r}; write: {instead}")
    return refusals


@pytest.mark.parametrize(
    "sentence", ["the room says", "the file goes", "the catalog knows", "rows lie in files", "deletes by marks", "made anew"]
)
def test_a_refused_phrase_is_found(sentence: str) -> None:
    assert pattern().search(sentence)


@pytest.mark.parametrize(
    "sentence",
    ["the warehouse has a layer", "compare-and-swap", "position deletes", "an unknown column", "question marks", "readers are unaware"],
)
def test_a_plain_sentence_is_not_refused(sentence: str) -> None:
    assert not pattern().search(sentence)


@pytest.mark.parametrize("folder", sorted({str(path.parent.relative_to(ROOT)) for path in FILES}))
def test_no_document_docstring_comment_or_message_has_a_refused_phrase(folder: str) -> None:
    refusals = [line for path in FILES if str(path.parent.relative_to(ROOT)) == folder for line in refused_phrases(path)]
    if refusals:
        pytest.fail("\n" + "\n".join(dict.fromkeys(refusals)), pytrace=False)
