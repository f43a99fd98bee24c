"""`docs/spec-coverage.md` stays true: each heading of the specification has a row, its files and tests exist, and modules cite the sections they implement.

The text after `Spec:` in a module's docstring, up to the end of the sentence or paragraph, is a list of citations with semicolons between them. A citation is a
heading of `spec_sections.txt`, or a document of `OTHER_DOCUMENTS`, with a detail after a comma or in brackets.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import pytest
from tests.architecture.sources import MODULES, PACKAGE, ROOT, nodes_of, tree_of

PAGE = ROOT / "docs" / "spec-coverage.md"
SECTIONS = [line for line in (ROOT / "tests/architecture/spec_sections.txt").read_text().splitlines() if line and not line.startswith("#")]
DRAFTS = ["AES GCM Stream", "Version 4"]  # not adopted; they have rows of their own
ONCE_MORE = "Rules that are easily got wrong"
OTHER_DOCUMENTS = [
    *(
        "none",
        "Apache Avro",
        "Parquet",
        "Parquet encryption",
        "ORC v1",
        "Thrift",
        "REST catalog",
        "LZ4 Frame Format",
        "RFC 8878",
        "RFC 9535",
    ),
    *("RoaringFormatSpec", "Apache DataSketches", "Simple Features", "Variant Shredding", "AES GCM Stream file format"),
]
_CITATIONS = re.compile(r"\bSpec:\s+(.*?)(?:\.(?:\s|$)|\n\n|$)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the page: its heading, files under `src/icefloe`, tests as (file, function), and the remark."""

    section: str
    line: int
    files: tuple[str, ...]
    tests: tuple[tuple[str, str], ...]
    remark: str


@cache
def rows() -> tuple[Row, ...]:
    found, section = [], ""
    for number, line in enumerate(PAGE.read_text().splitlines(), 1):
        if not line.startswith("|") or line.startswith(("| Rule", "|---")):
            continue
        rule, files, tests, remark = (cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|"))
        heading = re.match(r"\*\*(.+?)\*\*", rule)
        section = heading[1] if heading else section
        named = [tuple(text.split("::")) for text in re.findall(r"`([^`]+)`", tests)]
        found.append(Row(section, number, tuple(re.findall(r"`([^`]+)`", files)), tuple((file, name) for file, name in named), remark))
    return tuple(found)


def citations(docstring: str) -> Iterator[str]:
    """Yield the headings and other documents that a module cites, without their details; an unknown one ends with a question mark."""
    found = _CITATIONS.search(docstring)
    if found is None:
        return
    for text in " ".join(found[1].split()).split(";"):
        known = [name for name in (*SECTIONS, *OTHER_DOCUMENTS) if _names(text.strip().rstrip("."), name)]
        yield max(known, key=len) if known else f"{text.strip()}?"


def _names(text: str, name: str) -> bool:
    rest = text[len(name) :]
    return text.lower().startswith(name.lower()) and (not rest or rest.startswith((",", " (")))


@cache
def cited() -> dict[str, tuple[str, ...]]:
    """Return the citations of each module that has any."""
    docstrings = {str(path.relative_to(PACKAGE)): ast.get_docstring(tree_of(path)) or "" for path in MODULES}
    return {module: tuple(citations(text)) for module, text in docstrings.items() if "Spec:" in text}


@cache
def functions(file: str) -> frozenset[str]:
    path = ROOT / "tests" / file
    return frozenset(node.name for node in nodes_of(path, ast.FunctionDef)) if path.exists() else frozenset()


def refuse(wrong: list[str]) -> None:
    if wrong:
        pytest.fail("\n" + "\n".join(wrong), pytrace=False)


def test_each_heading_has_its_rows_and_no_other_has() -> None:
    headings = list(dict.fromkeys(row.section for row in rows()))
    refuse(
        [f"no row: {name}" for name in SECTIONS if name not in headings]
        + [f"no heading: {name}" for name in headings if name not in [*SECTIONS, *DRAFTS, ONCE_MORE]]
    )
    # In the order of the specification, so that a reader finds them.
    assert [name for name in headings if name in SECTIONS] == [name for name in SECTIONS if name in headings]


def test_files_and_tests_of_the_page_exist() -> None:
    wrong = [f"line {row.line}: no file {file}" for row in rows() for file in row.files if not (PACKAGE / file).is_file()]
    wrong += [
        f"line {row.line}: no test {name} in {file}" for row in rows() for file, name in row.tests if f"test_{name}" not in functions(file)
    ]
    refuse(wrong)


def test_a_row_without_proof_has_a_remark() -> None:
    bare = [row for row in rows() if (not row.files or not row.tests) and not row.remark]
    refuse([f"line {row.line}: neither proof nor remark" for row in bare])
    refuse([f"line {row.line}: proof of no file" for row in rows() if bool(row.files) != bool(row.tests)])


def test_the_rules_that_are_easily_got_wrong_all_have_proof() -> None:
    again = [row for row in rows() if row.section == ONCE_MORE]
    assert len(again) == 40
    assert all(row.files and row.tests for row in again)


def test_modules_cite_existing_headings() -> None:
    refuse([f"{module}: {name}" for module, found in cited().items() for name in found if name.endswith("?")])
    assert len(cited()) > 150


def test_each_section_is_cited_by_a_module_that_implements_it() -> None:
    implementing: dict[str, set[str]] = {}
    for row in rows():
        implementing.setdefault(row.section, set()).update(row.files)
    uncited = [
        f"{section}: none of {', '.join(sorted(files))} cites it"
        for section, files in implementing.items()
        if section in SECTIONS and files and not any(section in cited().get(file, ()) for file in files)
    ]
    refuse(uncited)


def test_the_remark_not_done_has_a_reason_and_covers_the_drafts() -> None:
    undone = [row for row in rows() if row.remark.startswith("Not done")]
    assert undone
    assert all(len(row.remark) > len("Not done: ") for row in undone)
    assert {"Path Resolution", "Content Stats", *DRAFTS} <= {row.section for row in undone}


@pytest.mark.parametrize(
    ("docstring", "found"),
    [
        ("Reads. Leaves x. Spec: Scan Planning.", ["Scan Planning"]),
        (
            "Reads.\n\nSpec: Manifests (fields); Appendix D, Bound serialization, the last row. And more; of it.",
            ["Manifests", "Appendix D, Bound serialization"],
        ),
        ("Spec: REST catalog, TableUpdate; View spec, Summary\n\nNot: this", ["REST catalog", "View spec, Summary"]),
        ("Spec: Scan Plannings; Row lineages.", ["Scan Plannings?", "Row lineages?"]),
        ("Nothing.", []),
    ],
)
def test_citations_are_read_as_they_are_written(docstring: str, found: list[str]) -> None:
    assert list(citations(docstring)) == found
