"""What docstrings and comments of the source refer to exists: modules, files, names of modules, methods of classes."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.architecture.sources import MODULES, PACKAGE, ROOT, nodes_of, text_of

SOURCE = PACKAGE.parent
# The group of entry points for engines, and the name of the configuration file.
NO_MODULES = {"icefloe.engines", "icefloe.yaml"}

_DOTTED = re.compile(r"\bicefloe(?:\.\w+)+")
_FILE = re.compile(r"(?<![\w./<*-])(?:[\w-]+/)*\w[\w-]*\.(?:py|java)\b(?![\w/])")
_METHOD = re.compile(r"`([A-Z]\w+)\.(\w+)(?:\(\))?`")


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Return the docstrings and comments of a module with their lines."""
    for node in nodes_of(path, ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef):
        if text := ast.get_docstring(node):
            yield node.body[0].lineno, text
    for number, line in enumerate(text_of(path).splitlines(), 1):
        if (start := line.find("# ")) >= 0:
            yield number, line[start:]


@cache
def names_of(module: Path) -> frozenset[str]:
    """Return what a module defines, imports, or exports at first use."""
    names: set[str] = set()
    for node in nodes_of(module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.alias, ast.Name, ast.Constant):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name) | ast.alias(name=name, asname=None):
                names.add(name)
            case ast.alias(asname=str() as name) | ast.Name(id=name, ctx=ast.Store()) | ast.Constant(value=str() as name):
                names.add(name)
    return frozenset(names)


@cache
def members() -> dict[str, set[str]]:
    """Return the members of each class of the source, with those of its bases there; a class with another base has any."""
    own: dict[str, set[str]] = defaultdict(set)
    bases: dict[str, set[str]] = defaultdict(set)
    for path in MODULES:
        for node in nodes_of(path, ast.ClassDef):
            bases[node.name] |= {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases}
            for child in ast.walk(node):
                match child:
                    case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                        own[node.name].add(name)
                    case ast.Attribute(attr=name, ctx=ast.Store()):
                        own[node.name].add(name)
    plain = {"Protocol", "ABC", "Generic", "NamedTuple", "object"}

    def of(name: str, seen: frozenset[str]) -> set[str]:
        inherited = [of(base, seen | {name}) if base in own or base in bases else {"*"} for base in bases[name] - plain - seen]
        return own[name].union(*inherited)

    return {name: of(name, frozenset()) for name in list(bases)}


def dotted_name_exists(name: str) -> bool:
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        folder = SOURCE.joinpath(*parts[:end])
        for module in (folder.with_suffix(".py"), folder / "__init__.py"):
            if module in MODULES:
                rest = parts[end:]
                return not rest or rest[0] in names_of(module)
        if folder.is_dir():
            return end == len(parts)
    return False


@cache
def files() -> frozenset[str]:
    """Return every file of the source by its path and by each end of the path, such as `manifest/data_file.py`."""
    ends: set[str] = set()
    for path in SOURCE.rglob("*.[pj]*"):
        parts = path.relative_to(SOURCE).parts
        ends |= {"/".join(parts[start:]) for start in range(len(parts))}
    return frozenset(ends)


def file_exists(name: str) -> bool:
    return name in files() or (ROOT / name).exists()


def stale(path: Path) -> Iterator[str]:
    for line, text in prose(path):
        for name in _DOTTED.findall(text):
            if name not in NO_MODULES and not dotted_name_exists(name):
                yield f"{path.relative_to(ROOT)}:{line}: {name}"
        for name in _FILE.findall(text):
            if not file_exists(name):
                yield f"{path.relative_to(ROOT)}:{line}: {name}"
        for owner, member in _METHOD.findall(text):
            known_members = members().get(owner)
            if known_members is not None and not known_members & {member, "*"}:
                yield f"{path.relative_to(ROOT)}:{line}: {owner}.{member}"


def test_docstrings_and_comments_refer_to_what_exists() -> None:
    assert [place for path in MODULES for place in stale(path)] == []
