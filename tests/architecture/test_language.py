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
from tests.architecture.sources import ROOT, nodes_of, text_of

# A phrase as a regular expression that begins at the start of a word, and what to write instead.
REFUSED = {
    r"floors?\b": "layer",
    r"rooms?\b": "module, package",
    r"(?:front |side |public |one )?doors?\b": "entry point",
    r"is told\b|are told\b|was told\b": "receives, gets",
    r"tells?\b|told\b|telling\b": "returns, shows, reports",
    r"says?\b|said\b": "states, contains, requires, returns",
    r"goes by\b|go by\b": "uses, is determined by",
    r"stands?\b|stood\b": "is, is in, represents",
    r"spared\b": "is not needed",
    r"unheard\b": "unknown",
    r"of (?:ours|theirs|its own kind)\b": "name the owner before the noun",
    # "of Spark's" where no noun follows: a double genitive.
    r"(?:of|by) (?:Spark|Java|Python|Icefloe|PyIceberg|PyArrow|Arrow|Iceberg)'s"
    r"(?=[.,;:)]|\s*$|\s+(?:is|are|that|which|and|or|in|on|to|has|have|with|do|does|can)\b)": "Spark's X, not X of Spark's",
    r"left ?overs?\b": "remaining files of failed task attempts",
    r"settled?\b": "committed, resolved",
    r"(?<!type: )(?<!`)(?<!hadoop, )\b(?-i:glue)\b(?![.])": "bridge",  # Glue is a catalog of AWS, and `glue` its type
    r"evidence\b": "pruning explanation",
    r"kin\b": "name them",
    r"(?:somebody|nobody|whoever|anybody|everybody)\b": "name the caller, the user, the writer",
    r"asks?\b|asked\b|asking\b": "calls, requests, reads",
    r"hears?\b|heard\b": "receives",
    r"forgets?\b|forgot\b|forgotten\b": "drops, clears",
    r"breaks its word\b|had its say\b|believes?\b|wishes\b|naught\b|met with\b": "plain verbs",
    r"put(?:s)? in (?:its|their) place\b": "replaces",
    r"have none of\b|has none of\b|(?:is|are) none of\b": "does not have, is not",
    r"goes\b|(?:files|rows|snapshots|columns|keys|deletes|names|which) go\b": "is deleted, is written, moves, is passed",
    r"knows\b": "has, contains, supports, is configured with",
    r"wants?\b|wanted\b": "requests, needs, requires; requested, projected",
    r"anew\b": "again",
    r"save (?:where|those|that|for|by|the|what|in)\b": "except",
    r"(?:for|in) (?:want of|vain)\b": "without, because ... is missing",
    r"held against\b": "compared with, checked against",
    r"trials?\b": "version probe, compatibility check",
    r"(?<!question )(?<!quotation )\bmarks\b|marked rows\b": "position deletes, deletion vector, delete files",
    r"pointers?\b": "metadata location; catalog store",
    r"answers\b|answered\b|answering\b|answers for\b": "returns, implements; response",
    r"lies? in\b": "is in",
    r"reckons?\b": "estimates, counts",
    r"what becomes of\b": "the operation on",
    r"comes? of\b": "results from",
}


def prose_of_python(path: Path) -> Iterator[tuple[int, str]]:
    """Yield comments and strings with spaces in them, by line; and names of tests as sentences."""
    text = text_of(path)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith("# noqa"):
            yield token.start[0], re.sub(r"\b(?:noqa|type): ?\S*", "", token.string)
    for constant in nodes_of(path, ast.Constant):
        if isinstance(constant.value, str) and " " in constant.value.strip():
            yield from enumerate(constant.value.splitlines(), constant.lineno)
    for function in nodes_of(path, ast.FunctionDef):
        if function.name.startswith("test_"):
            yield function.lineno, function.name.replace("_", " ")


def prose_of_java(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the comments, by line."""
    text = text_of(path)
    for comment in re.finditer(r"/\*.*?\*/|//[^\n]*", text, re.DOTALL):
        yield from enumerate(comment[0].splitlines(), text.count("\n", 0, comment.start()) + 1)


def prose_of_markdown(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines outside of code blocks, without code in backticks."""
    in_code = False
    for number, line in enumerate(text_of(path).splitlines(), 1):
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
    return re.compile(r"\b(?:" + "|".join(f"(?P<p{place}>{phrase})" for place, phrase in enumerate(REFUSED)) + ")", re.IGNORECASE)


@cache
def in_lower_case() -> re.Pattern[str]:
    """Return the pattern for text in lower case: much quicker, and it matches at least where `pattern` does."""
    return re.compile(r"\b(?:" + "|".join(phrase.lower() for phrase in REFUSED) + ")")


def refused_phrases(path: Path) -> list[str]:
    refusals: list[str] = []
    if in_lower_case().search(text_of(path).replace("_", " ").lower()) is None:
        return refusals
    for number, line in READERS[path.suffix](path):
        for match in pattern().finditer(line):
            instead = list(REFUSED.values())[int(str(match.lastgroup)[1:])]
            refusals.append(f"{path.relative_to(ROOT)}:{number}: {match[0]!r}; write: {instead}")
    return refusals


def test_refused_phrases_are_found_and_others_are_not() -> None:
    refused = ("the room says", "the file goes", "the catalog knows", "rows lie in files", "deletes by marks", "made anew")
    plain = (
        *("the warehouse has a layer", "compare-and-swap", "position deletes", "an unknown column", "question marks"),
        "readers are unaware",
    )
    assert [sentence for sentence in (*refused, *plain) if pattern().search(sentence)] == [*refused]


def test_no_document_docstring_comment_or_message_has_a_refused_phrase() -> None:
    if refusals := [line for path in FILES for line in refused_phrases(path)]:
        pytest.fail("\n" + "\n".join(dict.fromkeys(refusals)), pytrace=False)
